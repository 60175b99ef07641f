//! Prints the modelled time of a request of 4096 bytes on each engine: `cargo run -p gantry-driver-model --example profiles`

use gantry_driver_model::PROFILES;

const BITS: u64 = 8 * 4096;

fn main() {
    for profile in PROFILES {
        for rate in profile.rates.iter() {
            let ns = rate.setup_ns + BITS * 1000 / rate.megabits;
            println!("{:<16} {:<16} {ns:7} ns, {} units", profile.name, rate.algorithm.name(), profile.units);
        }
    }
}
