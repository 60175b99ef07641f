//! The conformance suite over the server, with different devices behind it.

use std::path::Path;

use gantry_abi_cryptodev::{CIPHERS, HASHES};
use gantry_conformance::Options;
use gantry_core::{Algorithm, Kind};

use crate::client::{Crypto, Server};

/// The module with AES instructions, and the option that keeps the kernel from loading it for requests of AES.
#[cfg(target_arch = "aarch64")]
const AES: (&str, &str) = ("aes_ce_blk", "module_blacklist=aes_ce_blk");
#[cfg(not(target_arch = "aarch64"))]
const AES: (&str, &str) = ("aesni_intel", "module_blacklist=aesni_intel");

gantry_lab::in_guest! {
    ["--modules", "cuse", "--timeout", "900"]
    /// Runs the conformance suite through Gantry's driver of `/dev/crypto` and this server.
    fn the_device_conforms() {
        let _server = Server::start();
        assert_conforms("devcrypto:cpu", "", "served", |_| true);
    }

    ["--modules", "cuse", "--device", "virtio-crypto", "--timeout", "900"]
    /// Serves from an engine of the kernel.
    fn an_engine_that_is_served_conforms() {
        let _server = Server::start_pinned("afalg:virtio_crypto");
        assert_conforms("devcrypto:engine", "afalg:virtio_crypto", "served-virtio_crypto", |_| true);
    }

    ["--modules", "cuse", "--modules", AES.0, "--timeout", "900"]
    /// Serves from the kernel's own code.
    fn the_kernel_that_is_served_conforms() {
        let _server = Server::start_pinned("afalg:cpu");
        assert_conforms("devcrypto:cpu", "afalg:cpu", &format!("served-cpu-aes-{}", gantry_lab::kernel_series()), |_| true);
    }

    ["--modules", "cuse", "--append", AES.1, "--timeout", "900"]
    /// Runs only the algorithms with AES: the others are the same as with the AES module.
    fn the_kernel_without_aes_that_is_served_conforms() {
        let _server = Server::start_pinned("afalg:cpu");
        assert_conforms("devcrypto:cpu", "afalg:cpu", &format!("served-cpu-{}", gantry_lab::kernel_series()), |algorithm| {
            algorithm.info().kernel.contains("aes")
        });
    }
}

/// Asserts that every algorithm that `/dev/crypto` serves from the device `backing` conforms, and is declared. A pinned device
/// leaves other algorithms and its failed requests to other devices; neither is tested here.
fn assert_conforms(device: &str, backing: &str, declaration: &str, wanted: fn(Algorithm) -> bool) {
    let mut config = gantry_runtime::Config::default();
    config.set("devices.devcrypto", "on", "the test").unwrap();
    let gantry = gantry_runtime::open(config).unwrap();
    let algorithms = algorithms_served_by(backing);
    let wanted: Vec<Algorithm> = algorithms.iter().copied().filter(|algorithm| wanted(*algorithm)).collect();
    assert!(!wanted.is_empty(), "{backing} serves nothing");
    let file = format!("../../conformance/declared/devcrypto-{declaration}.txt");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let options = Options { algorithms: wanted, ..Options::sampled("software") };
    gantry_conformance::assert_conforms(&gantry, device, &options, file);
    assert_eq!(algorithms_served_by(backing), algorithms, "{backing} no longer serves all");
}

/// Returns the algorithms whose sessions go to a device of the server whose name begins with `device`.
fn algorithms_served_by(device: &str) -> Vec<Algorithm> {
    let crypto = Crypto::open();
    let prefix = format!("gantry-{device}");
    let is_served = |algorithm: &Algorithm| {
        let info = algorithm.info();
        // Parts of a triple-DES key must differ.
        let key: Vec<u8> = (1..=64).take(info.key.min).collect();
        let cipher = CIPHERS.iter().find(|row| row.algorithms.contains(algorithm));
        let hash = HASHES.iter().find(|row| row.algorithm == *algorithm);
        let session = match (cipher, hash) {
            (Some(row), _) => crypto.cipher(row.number, &key),
            (_, Some(row)) => crypto.hash(row.number, if info.kind == Kind::Mac { b"a key" } else { b"" }),
            _ => return false,
        };
        let Ok(session) = session else { return false };
        let info = crypto.info(session).unwrap();
        crypto.close(session).unwrap();
        let driver = if cipher.is_some() { info.cipher_driver } else { info.hash_driver };
        driver.starts_with(prefix.as_bytes())
    };
    Algorithm::ALL.iter().copied().filter(is_served).collect()
}
