//! The provider does nothing of its own before a record needs it. A program of its own, because others open the framework.

use std::fs;
use std::sync::Arc;

use rustls::{ClientConfig, ClientConnection, RootCertStore};

/// Returns the threads and open files of this process.
fn resources() -> [usize; 2] {
    ["/proc/self/task", "/proc/self/fd"].map(|folder| fs::read_dir(folder).unwrap().count())
}

#[test]
fn a_first_message_opens_no_file_and_starts_no_thread() {
    let before = resources();
    let builder = ClientConfig::builder_with_provider(Arc::new(gantry_rustls::default_provider()));
    let config = builder.with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    let mut client = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap();
    assert!(hello.len() > 1184, "the hello has a share of X25519MLKEM768");
    assert_eq!(resources(), before);
}
