//! Measures the dispatch of a request, which the null device answers without work:
//! `cargo run --release -p gantry-driver-null --example dispatch`

use std::time::Instant;

use gantry_core::{Algorithm, Gantry, SessionParams};
use gantry_driver_null::NullDriver;

const REQUESTS: u32 = 1_000_000;

fn main() -> gantry_core::Result<()> {
    let gantry = Gantry::builder().driver(&NullDriver).build();
    let session = gantry.session(SessionParams::new(Algorithm::Null, &[]))?;
    let mut data = [0; 64];
    let begin = Instant::now();
    for _ in 0..REQUESTS {
        session.encrypt(&[], &mut data[..])?;
    }
    println!("{:?} a request", begin.elapsed() / REQUESTS);
    Ok(())
}
