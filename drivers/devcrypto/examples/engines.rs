//! Lists the algorithms behind `/dev/crypto`, or the reason why there are none: `cargo run -p gantry-driver-devcrypto --example engines`

use gantry_core::driver::{Driver, Found};
use gantry_driver_devcrypto::DevcryptoDriver;

fn main() {
    for found in DevcryptoDriver.discover() {
        match found {
            Found::Device(device) => {
                let info = device.info();
                for capability in &info.capabilities {
                    println!("{}: {}", info.name, capability.algorithm);
                }
            }
            Found::Excluded { name, reason, .. } => println!("{name}: {reason}"),
        }
    }
}
