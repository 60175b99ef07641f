//! Fetches a page over TLS: `client ROOTS.pem HOST PORT`. Without the line of Gantry, this is a program of rustls alone.

use std::error::Error;
use std::io::{Write, copy, stdout};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

fn main() -> Result<(), Box<dyn Error>> {
    gantry_rustls::default_provider().install_default().expect("no other provider is installed");

    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [roots, host, port] = &arguments[..] else { return Err("client ROOTS.pem HOST PORT".into()) };
    let mut store = RootCertStore::empty();
    for root in CertificateDer::pem_file_iter(roots)? {
        store.add(root?)?;
    }
    let config = ClientConfig::builder().with_root_certificates(store).with_no_client_auth();
    let connection = ClientConnection::new(Arc::new(config), host.clone().try_into()?)?;
    let mut stream = StreamOwned::new(connection, TcpStream::connect((host.as_str(), port.parse()?))?);
    write!(stream, "GET / HTTP/1.0\r\nHost: {host}\r\n\r\n")?;
    copy(&mut stream, &mut stdout())?;
    eprintln!("{:?}, {:?}", stream.conn.negotiated_cipher_suite(), stream.conn.negotiated_key_exchange_group());
    Ok(())
}
