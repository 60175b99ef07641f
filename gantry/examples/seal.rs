//! Seals messages under one key in one call, changes one of them, and opens them again: `cargo run --example seal`

use std::error::Error;

use gantry::aead::{Ciphertext, Key, Plaintext};
use gantry::{Aead, Gantry};

fn main() -> Result<(), Box<dyn Error>> {
    let gantry = Gantry::from_env()?;
    // The name may have any spelling; `Aead::Aes256Gcm` is the same algorithm. A real key comes from getrandom(2).
    let algorithm: Aead = "AES-256-GCM".parse()?;
    let session = gantry.aead(&Key::new(algorithm, &[7; 32])?)?;

    let mut messages = [*b"attack at dawn", *b"retreat at six"];
    let nonces = [[0; 12], [1; 12]];
    let mut batch: Vec<_> =
        messages.iter_mut().zip(&nonces).map(|(data, nonce)| Plaintext { nonce, aad: b"orders", data }).collect();
    let tags = session.seal_many(&mut batch)?;

    messages[1][0] ^= 1;
    let mut batch: Vec<_> = (messages.iter_mut().zip(&nonces).zip(&tags))
        .map(|((data, nonce), tag)| Ciphertext { nonce, aad: b"orders", data, tag })
        .collect();
    let results = session.open_many(&mut batch)?;
    for (message, result) in messages.iter().zip(results) {
        match result {
            Ok(()) => println!("{}", String::from_utf8_lossy(message)),
            Err(error) => println!("{error}"),
        }
    }
    Ok(())
}
