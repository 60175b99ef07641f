//! Signs a file with a new key of SLH-DSA-SHA2-128f, and verifies the signature: `cargo run --release --example sign FILE`

use std::error::Error;
use std::fs;
use std::path::Path;

use gantry_slh_dsa::{ParameterSet, PrivateKey, PublicKey};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: sign FILE")?;
    sign(Path::new(&path))
}

fn sign(path: &Path) -> Result<(), Box<dyn Error>> {
    let set = ParameterSet::Sha2_128f;
    let (mut seeds, mut randomness) = ([0; 48], [0; 16]);
    getrandom::fill(&mut seeds)?;
    getrandom::fill(&mut randomness)?;
    let key = PrivateKey::generate(set, &seeds)?;
    let message = fs::read(path)?;
    let signature = key.sign(&message, b"", Some(&randomness))?;

    PublicKey::from_bytes(set, key.public_key().as_bytes())?.verify(&message, b"", &signature)?;
    println!("{}: a signature of {} bytes", path.display(), signature.len());
    Ok(())
}
