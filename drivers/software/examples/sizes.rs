//! Prints the compressed size of files in each format: `cargo run -p gantry-driver-software --example sizes FILE...`

use std::error::Error;
use std::{env, fs};

use gantry_core::{Algorithm, AlgorithmInfo, Gantry, SessionParams};
use gantry_driver_software::SoftwareDriver;

fn main() -> Result<(), Box<dyn Error>> {
    let gantry = Gantry::builder().driver(&SoftwareDriver).build();
    for name in env::args_os().skip(1) {
        let data = fs::read(&name)?;
        print!("{}: {} bytes", name.display(), data.len());
        for algorithm in [Algorithm::Gzip, Algorithm::Zstd] {
            let mut compressed = vec![0; AlgorithmInfo::compressed_max(data.len())];
            let bytes = gantry.session(SessionParams::new(algorithm, &[]))?.compress(&data, &mut compressed)?;
            print!(", {algorithm} {bytes}");
        }
        println!();
    }
    Ok(())
}
