//! SLH-DSA (FIPS 205), the stateless hash-based signature scheme, with its hashes computed side by side in the SIMD registers of the CPU.
//!
//! A signature takes up to several million hashes of one block each. Nearly all can be computed side by side: the chains of a leaf, the
//! leaves of a tree, the nodes of a level. So a single caller fills all lanes of [`gantry_digest`].
//!
//! ```
//! use gantry_slh_dsa::{ParameterSet, PrivateKey};
//!
//! let set = ParameterSet::Sha2_128f;
//! let seeds = [7; 3 * 16]; // from a generator of random numbers
//! let key = PrivateKey::generate(set, &seeds)?;
//! let signature = key.sign(b"message", b"context", None)?;
//! assert_eq!(signature.len(), set.signature_bytes());
//! key.public_key().verify(b"message", b"context", &signature)?;
//! # Ok::<(), gantry_slh_dsa::Error>(())
//! ```
//!
//! The crate takes random numbers as bytes and has no generator of its own.
//!
//! No branch and no address depends on a secret: control flow depends on lengths, the message, and its digest, which the signature
//! reveals. Keys and secret chain values are zeroized, and the stack used by kernels is overwritten.
//!
//! | file | content |
//! |---|---|
//! | `parameters.rs` | the parameter sets |
//! | `key.rs` | keys; sign and verify, pure and of digests |
//! | `prehash.rs` | hash functions for prehashed messages |
//! | `scheme.rs` | the internal functions: the digest of a message, and the keys that sign it |
//! | `wots.rs`, `fors.rs`, `tree.rs` | one-time signatures, few-time signatures, and trees over both |
//! | `batch.rs` | the hash functions, many calls at a time |
//! | `address.rs` | the position of a hash in the scheme |
//! | `error.rs` | errors |

#![cfg_attr(not(any(test, feature = "std")), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod address;
mod batch;
mod error;
mod fors;
mod key;
mod parameters;
mod prehash;
mod scheme;
mod tree;
mod wots;

pub use error::Error;
pub use key::{PrivateKey, PublicKey};
pub use parameters::ParameterSet;
pub use prehash::PreHash;
