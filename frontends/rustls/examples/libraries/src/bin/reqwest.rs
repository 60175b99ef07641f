//! Fetches a page with reqwest: `reqwest ROOTS.pem URL`. Only the first line of `main` belongs to Gantry. It installs the provider of
//! cryptography that reqwest requires with its feature `rustls-no-provider`.

use std::error::Error;

use reqwest::{Certificate, Client};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    gantry_rustls::default_provider().install_default().expect("no other provider is installed");

    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [roots, url] = &arguments[..] else { return Err("reqwest ROOTS.pem URL".into()) };
    let roots = Certificate::from_pem_bundle(&std::fs::read(roots)?)?;
    let client = Client::builder().tls_certs_only(roots).build()?;
    print!("{}", client.get(url).send().await?.error_for_status()?.text().await?);
    Ok(())
}
