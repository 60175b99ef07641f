//! Sends a query with tokio-postgres: `postgres ROOTS.pem PARAMETERS QUERY`. Without the line of Gantry, this is a program of
//! tokio-postgres and rustls alone.

use std::error::Error;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres::SimpleQueryMessage;
use tokio_postgres_rustls::MakeRustlsConnect;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    gantry_rustls::default_provider().install_default().expect("no other provider is installed");

    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [roots, parameters, query] = &arguments[..] else { return Err("postgres ROOTS.pem PARAMETERS QUERY".into()) };
    let mut store = RootCertStore::empty();
    for root in CertificateDer::pem_file_iter(roots)? {
        store.add(root?)?;
    }
    let config = ClientConfig::builder().with_root_certificates(store).with_no_client_auth();
    let (client, connection) = tokio_postgres::connect(parameters, MakeRustlsConnect::new(config)).await?;
    tokio::spawn(connection);
    for message in client.simple_query(query).await? {
        if let SimpleQueryMessage::Row(row) = message {
            println!("{}", row.get(0).unwrap_or_default());
        }
    }
    Ok(())
}
