//! Prints the SHA-256 digests of files, hashed side by side: `cargo run --example digests FILE...`

use std::error::Error;
use std::{env, fs};

use gantry::{Digest, Gantry};

fn main() -> Result<(), Box<dyn Error>> {
    let names: Vec<_> = env::args_os().skip(1).collect();
    let files = names.iter().map(fs::read).collect::<Result<Vec<_>, _>>()?;
    let gantry = Gantry::from_env()?;
    let digests = gantry.digest(Digest::Sha256)?.digest_many(&files)?;
    for (digest, name) in digests.iter().zip(&names) {
        println!("{digest}  {}", name.display());
    }
    Ok(())
}
