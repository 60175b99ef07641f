//! Hashes a million leaves and the nodes of the tree above them: `cargo run --release --example nodes`

use gantry_digest::{Algorithm, Error, NodeHash, digest_many, merkle_root};

fn main() -> Result<(), Error> {
    let leaves: Vec<String> = (0..1 << 20).map(|number| format!("leaf {number}")).collect();
    let mut nodes = vec![[0; 32]; leaves.len()];
    digest_many(Algorithm::Sha256, &leaves, nodes.as_flattened_mut())?;
    for byte in merkle_root(NodeHash::Sha256, &mut nodes)? {
        print!("{byte:02x}");
    }
    println!();
    Ok(())
}
