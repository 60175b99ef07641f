//! Prints the algorithm that each name means, with its lengths in bytes: `cargo run -p gantry-crypto-core --example names SHA2-256 aes-gcm`

use gantry_core::Algorithm;

fn main() {
    for name in std::env::args().skip(1) {
        match name.parse::<Algorithm>() {
            Ok(algorithm) => {
                let row = algorithm.info();
                println!("{name}: {algorithm} ({}), key {}, IV {}, tag {}", row.source, row.key, row.iv, row.tag);
            }
            Err(unknown) => println!("{unknown}"),
        }
    }
}
