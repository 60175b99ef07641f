//! Runs the suite on the software devices of DPDK, which have rings but need no hardware. One process runs DPDK for all of them.
//!
//! The tests need DPDK and the shim, which cargo does not build:
//! `scripts/dpdk && cargo test -p gantry-conformance --test dpdk -- --ignored`.

use std::path::Path;

use gantry_conformance::Options;
use gantry_core::Gantry;
use gantry_driver_dpdk::DpdkDriver;
use gantry_driver_software::SoftwareDriver;

#[test]
#[ignore = "needs DPDK, and the shim of scripts/dpdk"]
fn crypto_openssl() {
    conforms("crypto_openssl");
}

#[test]
#[ignore = "needs DPDK, and the shim of scripts/dpdk"]
fn crypto_aesni_mb() {
    conforms("crypto_aesni_mb");
}

#[test]
#[ignore = "needs DPDK, and the shim of scripts/dpdk"]
fn crypto_null() {
    conforms("crypto_null");
}

fn conforms(vdev: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    let shim = std::fs::read_dir(target.join("dpdk")).expect("scripts/dpdk has built the shim");
    let shim = shim.filter_map(Result::ok).map(|entry| entry.path());
    let shim = shim.filter(|path| path.to_string_lossy().contains("libgantry_dpdk.so.")).max();
    let shim = shim.expect("scripts/dpdk has built the shim");
    // Each release of DPDK has its own declaration, because the capabilities of its devices differ.
    let release = shim.extension().and_then(|number| number.to_str()).expect("the number of the release").to_owned();
    let driver = DpdkDriver::new(gantry_driver_dpdk::Options {
        devices: vec![format!("{vdev},max_nb_queue_pairs=16")],
        shim: Some(shim),
        // One queue pair for each thread of the suite, and some that wait to be reused.
        queue_pairs: Some(16),
        memory_mib: 256,
        ..gantry_driver_dpdk::Options::default()
    });
    let gantry = Gantry::builder().driver(&SoftwareDriver).driver(&driver).build();
    for device in gantry.devices() {
        println!("{} {:?} {:?}", device.name(), device.state(), device.details().map(|info| &info.description));
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("declared/dpdk{release}-{vdev}.txt"));
    gantry_conformance::assert_conforms(&gantry, &format!("dpdk:{vdev}"), &Options::with_reference("software"), file);
}
