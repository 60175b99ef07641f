//! Serves a file over TLS: `server CERT.pem KEY.pem FILE PORT`. Without the line of Gantry, this is a program of rustls alone.

use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

fn main() -> Result<(), Box<dyn Error>> {
    gantry_rustls::default_provider().install_default().expect("no other provider is installed");

    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [certificate, key, file, port] = &arguments[..] else { return Err("server CERT.pem KEY.pem FILE PORT".into()) };
    let chain = CertificateDer::pem_file_iter(certificate)?.collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_file(key)?;
    let config = Arc::new(ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?);
    let body = std::fs::read(file)?;
    for socket in TcpListener::bind(("127.0.0.1", port.parse()?))?.incoming() {
        let mut stream = StreamOwned::new(ServerConnection::new(config.clone())?, socket?);
        if let Err(error) = answer(&mut stream, &body) {
            eprintln!("{error}");
        }
    }
    Ok(())
}

/// Answers every request with the file.
fn answer(stream: &mut StreamOwned<ServerConnection, std::net::TcpStream>, body: &[u8]) -> std::io::Result<()> {
    let _ = stream.read(&mut [0; 4096])?;
    write!(stream, "HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", body.len())?;
    stream.write_all(body)?;
    stream.conn.send_close_notify();
    stream.flush()
}
