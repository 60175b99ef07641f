//! Prints the number of requests side by side of each algorithm on this CPU: `cargo run -p gantry-driver-lanes --example lanes`

use gantry_core::driver::{Driver, Found};
use gantry_driver_lanes::{LanesDriver, Level};

fn main() {
    let driver = LanesDriver::new(Level::detect_at_most(None));
    println!("level {}", driver.level().name());
    for found in driver.discover() {
        match found {
            Found::Device(device) => {
                for capability in &device.info().capabilities {
                    println!("{:<32} {:2}", capability.algorithm.name(), capability.lanes);
                }
            }
            Found::Excluded { reason, .. } => println!("{reason}"),
        }
    }
}
