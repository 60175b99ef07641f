//! Gantry sends each cryptographic request to the engine on this machine that serves the request best: SIMD lanes, AWS-LC, a kernel driver,
//! or a card.
//!
//! A [`Gantry`] makes *handles*. A handle is an algorithm with its key, checked when the handle is made. It has the methods of its kind of
//! algorithm, for one message at a time or for many at once.
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
//! | encrypt, without integrity | [`Gantry::cipher`] | [`cipher::Key`] | [`Cipher`] |
//! | sign, verify | [`Gantry::signer`], [`Gantry::verifier`] | [`signature::SigningKey`], [`signature::VerifyingKey`] | [`Signature`] |
//! | encapsulate secrets | [`Gantry::kem`] | [`kem::EncapsulationKey`], [`kem::DecapsulationKey`] | [`Kem`] |
//! | agree on secrets | [`Gantry::agreement`] | [`agreement::PrivateKey`] | [`Agreement`] |
//! | compress | [`Gantry::compressor`] | | [`Compression`] |
//! | derive keys | [`Gantry::kdf`] | | [`Kdf`] |
//! | go on while requests run | [`queue`] | | |
//!
//! A key of a wrong length is an error when the key is made. Keys are zeroized on drop, and `Debug` does not print their bytes.
//!
//! An [`Error`] shows its origin: a [`Misuse`](core::Misuse) comes from the caller, a wrong tag from the peer, a [`Fault`](core::Fault)
//! from the device. If a device fails, its requests run on another device, unless their data may be damaged.
//!
//! # Features
//!
//! There is a feature for each driver: `lanes` and `software` are on by default, and `afalg`, `devcrypto` and `dpdk` are off. `software` is
//! AWS-LC and needs a C compiler. Without `software`, algorithms that no other driver serves need a driver of the program's own. `futures`
//! adds [`queue::TaskQueue`](gantry_core::TaskQueue), for any executor.
//!
//! `aead`, `cipher` and `signature` add RustCrypto's traits for generic code: `aead::rustcrypto`, `cipher::rustcrypto`, and `Signer` and
//! `Verifier` for the handles in [`signature`]. Hashes with the traits of `digest` are in [`gantry-digest`](gantry_digest::rustcrypto).

#![forbid(unsafe_code)]

pub mod aead;
pub mod agreement;
/// An enum for each kind of algorithm.
mod algorithms;
/// Batches of one session.
mod batch;
/// Results that own their bytes.
mod bytes;
pub mod cipher;
pub mod compression;
pub mod digest;
/// The framework, which makes handles.
mod framework;
pub mod kdf;
pub mod kem;
/// Key types.
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

// The underlying framework: sessions, requests, queues, routes.
pub use gantry_core as core;

/// Compiles and runs the Rust of these pages in `cargo test`.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../docs/src/guide-rust.md")]
    mod guide_rust {}
    #[doc = include_str!("../../README.md")]
    mod readme {}
    #[doc = include_str!("../README.md")]
    mod readme_of_the_crate {}
}
