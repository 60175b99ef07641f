//! hyper, unchanged, over the provider.

#[path = "../examples/hyper.rs"]
#[allow(dead_code, unreachable_pub, reason = "its main function")]
mod hyper_example;
mod lab;

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::Arc;

use http_body_util::Full;
use hyper::Response;
use hyper::body::Bytes;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use lab::{exit_process, served_by_lanes};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

const PAGE_LEN: usize = 1 << 20;

/// Installs the provider, and returns the configurations of both ends.
fn configs() -> (ClientConfig, ServerConfig) {
    gantry_rustls::default_provider().install_default().unwrap();
    let identity = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (identity.cert.der().clone(), identity.signing_key.serialize_der());
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let key = PrivatePkcs8KeyDer::from(key).into();
    (client, ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key).unwrap())
}

#[test]
fn hyper_sends_its_records_to_lanes() {
    fn program() -> ! {
        let (client, server) = configs();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let port = listener.local_addr().unwrap().port();
            tokio::spawn(async move {
                let (stream, _) = listener.accept().await.unwrap();
                let stream = TlsAcceptor::from(Arc::new(server)).accept(stream).await.unwrap();
                let answer = async |_| Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(vec![7; PAGE_LEN]))));
                http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)).await.unwrap();
            });
            let page = hyper_example::fetch(client, "localhost", port).await.unwrap();
            assert!(page == vec![7; PAGE_LEN]);
        });
        exit_process()
    }
    let served = served_by_lanes("hyper_sends_its_records_to_lanes", Some("pin:lanes"), program);
    // At least one end's records of 16 KiB go to lanes.
    assert!(served.is_none_or(|served| served >= 64), "{served:?}");
}
