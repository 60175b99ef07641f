//! Runs the suite on the kernel's devices, in guests. Both architectures share the declarations. An engine has one declaration for
//! all kernels; the kernel's own code has one for each series.
//!
//! To write the declarations again: `GANTRY_DECLARE=1 LAB_WRITE=$PWD/conformance/declared cargo test -p gantry-conformance
//! --test kernel -- --ignored`, with `LAB_KERNEL` for another kernel.

use std::path::Path;

use gantry_conformance::Options;
use gantry_core::{Algorithm, Gantry};
use gantry_driver_afalg::AfalgDriver;
use gantry_driver_software::SoftwareDriver;

/// The module that implements AES with the CPU's instructions, and the kernel parameter that prevents its loading.
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
        conforms("afalg:cpu", &format!("cpu-aes-{}", gantry_lab::kernel_series()), |_| true);
    }

    ["--append", AES.1, "--timeout", "900"]
    /// Tests algorithms with AES only: the module does not affect the others.
    fn afalg_cpu_without_aes() {
        conforms("afalg:cpu", &format!("cpu-{}", gantry_lab::kernel_series()), |algorithm| algorithm.info().kernel.contains("aes"));
    }
}

fn conforms(device: &str, declaration: &str, wanted: fn(Algorithm) -> bool) {
    let gantry = Gantry::builder().driver(&SoftwareDriver).driver(&AfalgDriver::new()).build();
    for device in gantry.devices() {
        println!("{} {:?} {:?}", device.name(), device.state(), device.details().map(|info| &info.description));
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("declared/afalg-{declaration}.txt"));
    let algorithms = Algorithm::ALL.iter().copied().filter(|algorithm| wanted(*algorithm)).collect();
    let options = Options { algorithms, ..Options::sampled("software") };
    gantry_conformance::assert_conforms(&gantry, device, &options, file);
}
