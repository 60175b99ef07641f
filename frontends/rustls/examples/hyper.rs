//! Fetches a page with hyper: `hyper ROOTS.pem HOST PORT`. Without the line of Gantry, this is a program of hyper and tokio-rustls alone.

use std::error::Error;
use std::io::{Write, stdout};
use std::sync::Arc;

use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

fn main() -> Result<(), Box<dyn Error>> {
    gantry_rustls::default_provider().install_default().expect("no other provider is installed");

    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [roots, host, port] = &arguments[..] else { return Err("hyper ROOTS.pem HOST PORT".into()) };
    let mut store = RootCertStore::empty();
    for root in CertificateDer::pem_file_iter(roots)? {
        store.add(root?)?;
    }
    let config = ClientConfig::builder().with_root_certificates(store).with_no_client_auth();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let page = runtime.block_on(fetch(config, host, port.parse()?))?;
    Ok(stdout().write_all(&page)?)
}

/// Returns the page `/` of a server.
pub async fn fetch(config: ClientConfig, host: &str, port: u16) -> Result<Bytes, Box<dyn Error>> {
    let stream = TcpStream::connect((host, port)).await?;
    let stream = TlsConnector::from(Arc::new(config)).connect(host.to_owned().try_into()?, stream).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::get("/").header("Host", host).body(Empty::<Bytes>::new())?;
    Ok(sender.send_request(request).await?.into_body().collect().await?.to_bytes())
}
