//! A Rust program that opens Gantry with the configuration from files and variables, hashes, and calibrates one algorithm.

use gantry_core::{Algorithm, Operation, SessionParams};
use gantry_runtime::{Config, Error, Origin};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    match open_gantry() {
        Ok(gantry) => {
            let session = gantry.session(SessionParams::new(Algorithm::Sha256, &[]))?;
            session.digest(b"abc", &mut [0; 32])?;
            gantry.calibrate(Algorithm::Md5, Operation::Digest, false);
            println!("opened");
        }
        Err(error) => println!("error: {error}"),
    }
    Ok(())
}

fn open_gantry() -> Result<gantry_core::Gantry, Error> {
    let config = Config::from_env()?;
    for shown in config.show().iter().filter(|shown| shown.origin != Origin::Default) {
        println!("{} = {} ({})", shown.key, shown.value, shown.origin);
    }
    let gantry = gantry_runtime::open(config)?;
    for device in gantry.devices() {
        println!("{}: {:?}", device.name(), device.state());
    }
    Ok(gantry)
}
