//! The start leaves nothing behind but the counters for `gantry top`. The test is a program of its own, because other tests open files.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::{ClientConfig, ClientConnection, RootCertStore};

fn thread_count() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

/// Returns the open files of this process.
fn open_files() -> Vec<PathBuf> {
    let files = fs::read_dir("/proc/self/fd").unwrap();
    // The descriptor of the folder itself is closed by then.
    files.filter_map(|file| fs::read_link(file.unwrap().path()).ok()).collect()
}

#[test]
fn the_start_leaves_no_thread_and_no_file() {
    let before = (thread_count(), open_files());
    let builder = ClientConfig::builder_with_provider(Arc::new(gantry_rustls::default_provider()));
    let config = builder.with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    let mut client = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap();
    assert!(hello.len() > 1184, "the hello has a share of X25519MLKEM768");
    let is_ours = |file: &PathBuf| file.to_string_lossy().contains("memfd:gantry-statistics");
    assert_eq!((thread_count(), open_files().into_iter().filter(|file| !is_ours(file)).collect()), before);
}
