//! Gantry takes cryptographic requests and sends each one to the engine of the machine that serves it best: SIMD lanes, AWS-LC, a kernel
//! driver, or a card.
//!
//! A [`Gantry`] makes *handles*: an algorithm with its key, checked when it is made. A handle has the few methods that its kind of algorithm
//! has, one message at a time or many at once.
//!
//! ```
//! use gantry::{Aead, Digest, Gantry, Signature, aead, signature};
//!
//! let gantry = Gantry::from_env()?;
//!
//! // Hash.
//! let sha256 = gantry.digest(Digest::Sha256)?;
//! assert_eq!(sha256.digest(b"abc")?.to_string()[..8], *"ba7816bf");
//!
//! // Seal and open, in place.
//! let key = [7; 16]; // from getrandom(2)
//! let gcm = gantry.aead(&aead::Key::new(Aead::Aes128Gcm, &key)?)?;
//! let mut message = *b"attack at dawn";
//! let tag = gcm.seal(&[1; 12], b"header", &mut message[..])?;
//! gcm.open(&[1; 12], b"header", &mut message[..], &tag)?; // an error if the tag is wrong
//! assert_eq!(&message, b"attack at dawn");
//!
//! // Sign.
//! let signer = gantry.signer(&signature::SigningKey::new(Signature::Ed25519, &[9; 32])?)?;
//! let signature = signer.sign(b"message")?;
//! assert_eq!(signature.len(), 64);
//!
//! // Many at once: side by side, where a device has lanes.
//! let digests = sha256.digest_many(&["one", "two", "three"])?;
//! assert_eq!(digests.len(), 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | to | make | with | kinds |
//! |---|---|---|---|
//! | hash | [`Gantry::digest`] | | [`Digest`] |
//! | authenticate | [`Gantry::mac`] | [`mac::Key`] | [`Mac`] |
//! | encrypt, with integrity | [`Gantry::aead`] | [`aead::Key`] | [`Aead`] |
//! | encrypt, without | [`Gantry::cipher`] | [`cipher::Key`] | [`Cipher`] |
//! | sign, verify | [`Gantry::signer`], [`Gantry::verifier`] | [`signature::SigningKey`], [`signature::VerifyingKey`] | [`Signature`] |
//! | encapsulate secrets | [`Gantry::kem`] | [`kem::EncapsulationKey`], [`kem::DecapsulationKey`] | [`Kem`] |
//! | agree on secrets | [`Gantry::agreement`] | [`agreement::PrivateKey`] | [`Agreement`] |
//! | compress | [`Gantry::compressor`] | | [`Compression`] |
//! | derive keys | [`Gantry::kdf`] | | [`Kdf`] |
//! | go on while requests run | [`queue`] | | |
//!
//! A key of a wrong length is an error when the key is made. Keys are zeroized on drop and do not print. [`Error`] says whose fault it is: a
//! [`Misuse`](core::Misuse) is the caller's, a wrong tag the peer's, a [`Fault`](core::Fault) the device's. A request whose device fails runs on
//! another one before there is an error.
//!
//! # Features
//!
//! Drivers: `afalg`, `devcrypto`, `dpdk`, `lanes`, `software`, all on by default; `software` is AWS-LC, and needs a C compiler. Without it the
//! program brings a device that serves what no other does. `futures` has [`queue::TaskQueue`](gantry_core::TaskQueue), for any executor.
//!
//! `aead`, `cipher` and `signature` have the traits of RustCrypto, for code that is generic over them: `aead::rustcrypto`,
//! `cipher::rustcrypto`, and `Signer` and `Verifier` of the handles in [`signature`]. Hashes with the traits of `digest` are in
//! [`gantry-digest`](gantry_digest::rustcrypto).

#![forbid(unsafe_code)]

pub mod aead;
pub mod agreement;
/// The enum of each kind.
mod algorithms;
/// Requests that run together.
mod batch;
/// Results that own their bytes.
mod bytes;
pub mod cipher;
pub mod compression;
pub mod digest;
/// Where handles come from.
mod framework;
pub mod kdf;
pub mod kem;
/// Lengths of keys.
mod key;
pub mod mac;
pub mod queue;
/// The framework of the process.
mod shared;
pub mod signature;

pub use algorithms::{Aead, Agreement, Cipher, Compression, Digest, Kem, Mac, Signature};
pub use framework::Gantry;
pub use gantry_core::{Error, Result};
pub use gantry_runtime::Config;
pub use kdf::Kdf;

// The framework below: sessions, requests, queues, routes.
pub use gantry_core as core;

/// `cargo test` compiles and runs the Rust of these pages.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../docs/src/guide-rust.md")]
    mod guide_rust {}
    #[doc = include_str!("../../README.md")]
    mod readme {}
    #[doc = include_str!("../README.md")]
    mod readme_of_the_crate {}
}
