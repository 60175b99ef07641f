use std::path::Path;

use gantry::Algorithm;
use gantry_conformance::Options;

use crate::client::Server;

/// The module that has AES in the CPU's instructions, and what keeps the kernel from loading it when somebody asks for AES.
#[cfg(target_arch = "aarch64")]
const AES: (&str, &str) = ("aes_ce_blk", "module_blacklist=aes_ce_blk");
#[cfg(not(target_arch = "aarch64"))]
const AES: (&str, &str) = ("aesni_intel", "module_blacklist=aesni_intel");

gantry_lab::in_guest! {
    ["--modules", "cuse", "--timeout", "900"]
    /// Our driver of `/dev/crypto` in front of our server: what every device must show, through both.
    fn the_device_conforms() {
        let _server = Server::start();
        conforms("devcrypto:cpu", "gantry-", "served", Algorithm::ALL);
    }

    ["--modules", "cuse", "--device", "virtio-crypto", "--timeout", "900"]
    /// An engine of the kernel behind the server.
    fn an_engine_that_is_served_conforms() {
        let _server = Server::start_pinned("afalg:virtio_crypto");
        conforms("devcrypto:engine", "gantry-afalg:virtio_crypto", "served-virtio_crypto", Algorithm::ALL);
    }

    ["--modules", "cuse", "--modules", AES.0, "--timeout", "900"]
    /// The kernel's own code behind the server.
    fn the_kernel_that_is_served_conforms() {
        let _server = Server::start_pinned("afalg:cpu");
        conforms("devcrypto:cpu", "gantry-afalg:cpu", "served-cpu-aes", &[&HASHES[..], &CIPHERS].concat());
    }

    ["--modules", "cuse", "--append", AES.1, "--timeout", "900"]
    /// The same without instructions for AES; hashes know no difference.
    fn the_kernel_without_aes_that_is_served_conforms() {
        let _server = Server::start_pinned("afalg:cpu");
        conforms("devcrypto:cpu", "gantry-afalg:cpu", "served-cpu", &CIPHERS);
    }
}

/// One of each kind: the other algorithms take the same ways through server and kernel, and without a server the suite has all.
const HASHES: [Algorithm; 2] = [Algorithm::Sha256, Algorithm::HmacSha256];
const CIPHERS: [Algorithm; 4] =
    [Algorithm::Aes128Cbc, Algorithm::Aes256Ctr, Algorithm::Aes128Gcm, Algorithm::Aes256Ccm];

/// The device of `/dev/crypto` with `driver` behind it, and what it is declared to serve.
fn conforms(device: &str, driver: &str, declaration: &str, algorithms: &[Algorithm]) {
    let mut config = gantry_runtime::Config::default();
    config.set("devices.devcrypto", "on", "the test").unwrap();
    let gantry = gantry_runtime::open(config).unwrap();
    let description =
        &gantry.device(device).and_then(|device| device.details()).expect("the device is there").description;
    assert!(description.contains(driver), "{description}");
    let file = format!("../../conformance/declared/devcrypto-{declaration}.txt");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let options = Options { algorithms: algorithms.to_vec(), ..Options::sampled("software") };
    gantry_conformance::assert_conforms(&gantry, device, &options, file);
}
