//! Prints the number of each ioctl of `/dev/crypto` in programs of 64 and 32 bits, for the output of strace:
//! `cargo run -p gantry-abi-cryptodev --example ioctls`

use gantry_abi_cryptodev::{Ioctl, Width};

fn main() {
    for ioctl in Ioctl::ALL {
        println!("{ioctl:?} {:#x} {:#x}", ioctl.code(Width::W64), ioctl.code(Width::W32));
    }
}
