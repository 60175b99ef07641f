//! The kernel's devices against the suite, in guests. What a kernel has, is declared for each of its series.
//!
//! To declare anew: `GANTRY_DECLARE=1 LAB_WRITE=$PWD/conformance/declared cargo test -p gantry-conformance --test kernel --
//! --ignored`, with `LAB_KERNEL` for another kernel.

use std::path::Path;

use gantry::{Algorithm, Gantry};
use gantry_conformance::Options;
use gantry_driver_afalg::AfalgDriver;
use gantry_driver_software::SoftwareDriver;

/// The module that has AES in the CPU's instructions, and what keeps the kernel from loading it when somebody asks for AES.
#[cfg(target_arch = "aarch64")]
const AES: (&str, &str) = ("aes_ce_blk", "module_blacklist=aes_ce_blk");
#[cfg(not(target_arch = "aarch64"))]
const AES: (&str, &str) = ("aesni_intel", "module_blacklist=aesni_intel");

gantry_lab::in_guest! {
    ["--device", "virtio-crypto", "--timeout", "900"]
    fn afalg_virtio_crypto() {
        conforms("afalg:virtio_crypto", "virtio_crypto", |_| true);
    }

    ["--modules", AES.0, "--timeout", "900"]
    fn afalg_cpu_with_aes() {
        conforms("afalg:cpu", "cpu-aes", |_| true);
    }

    ["--append", AES.1, "--timeout", "900"]
    /// What has no AES in it is the same as with it.
    fn afalg_cpu_without_aes() {
        conforms("afalg:cpu", "cpu", |algorithm| algorithm.info().kernel.contains("aes"));
    }
}

fn conforms(device: &str, declaration: &str, wanted: fn(Algorithm) -> bool) {
    let gantry = Gantry::builder().driver(&SoftwareDriver).driver(&AfalgDriver::new()).build();
    for device in gantry.devices() {
        println!("{} {:?} {:?}", device.name(), device.state(), device.details().map(|info| &info.description));
    }
    // 6.1.0-56-amd64 is of the series 6.1.
    let kernel = std::env::var("LAB_GUEST").expect("in a guest");
    let series: Vec<&str> = kernel.split('.').take(2).collect();
    let name = format!("afalg-{declaration}-{}-{}.txt", std::env::consts::ARCH, series.join("."));
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("declared").join(name);
    let algorithms = Algorithm::ALL.iter().copied().filter(|algorithm| wanted(*algorithm)).collect();
    let options = Options { algorithms, ..Options::sampled("software") };
    gantry_conformance::assert_conforms(&gantry, device, &options, file);
}
