//! The kernel's devices against the suite, in guests. What a kernel has, is declared for each of its series.
//!
//! To declare anew: `GANTRY_DECLARE=1 LAB_WRITE=$PWD/conformance/declared cargo test -p gantry-conformance --test kernel --
//! --ignored`, with `LAB_KERNEL` for another kernel.

use std::path::Path;

use gantry::Gantry;
use gantry_driver_afalg::AfalgDriver;
use gantry_driver_software::SoftwareDriver;

gantry_lab::in_guest! {
    ["--device", "virtio-crypto", "--timeout", "900"]
    fn afalg_virtio_crypto() {
        conforms(&AfalgDriver::new(), "afalg:virtio_crypto", "virtio_crypto");
    }

    ["--modules", "aesni_intel", "--timeout", "900"]
    fn afalg_cpu_with_aesni() {
        conforms(&AfalgDriver::new(), "afalg:cpu", "cpu-aesni");
    }

    // The kernel loads it by itself when somebody asks for AES.
    ["--append", "module_blacklist=aesni_intel", "--timeout", "900"]
    fn afalg_cpu_generic() {
        conforms(&AfalgDriver::new(), "afalg:cpu", "cpu-generic");
    }
}

fn conforms(driver: &AfalgDriver, device: &str, declaration: &str) {
    let gantry = Gantry::builder().driver(&SoftwareDriver).driver(driver).build();
    for device in gantry.devices() {
        println!("{} {:?} {:?}", device.name(), device.state(), device.details().map(|info| &info.description));
    }
    // 6.1.0-56-amd64 is of the series 6.1.
    let kernel = std::env::var("LAB_GUEST").expect("in a guest");
    let series: Vec<&str> = kernel.split('.').take(2).collect();
    let name = format!("afalg-{declaration}-{}-{}.txt", std::env::consts::ARCH, series.join("."));
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("declared").join(name);
    gantry_conformance::assert_conforms(&gantry, device, Some("software"), file);
}
