//! SLH-DSA (FIPS 205), the stateless hash-based signature, with its hashes side by side in the SIMD registers of the CPU.
//!
//! A signature is up to some millions of hashes of a block each, nearly all of which can be computed side by side: the chains of a leaf, leaves
//! of a tree, nodes of a level. So one caller fills all lanes of [`gantry_digest`].
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
//! What is hashed, in which order, and which results are kept depends on lengths, on the message and on its digest, which the signature
//! tells everybody, and on no secret. Keys and secret chain values are zeroized. What kernels left on the stack is overwritten.
//!
//! | file | content |
//! |---|---|
//! | `parameters.rs` | the parameter sets |
//! | `key.rs` | keys; sign and verify, pure and of digests |
//! | `prehash.rs` | hash functions of messages that are hashed before |
//! | `scheme.rs` | the internal functions: a message's digest, and what is signed with which key |
//! | `wots.rs`, `fors.rs`, `tree.rs` | one-time signatures, few-time signatures, and trees over both |
//! | `batch.rs` | the hash functions, many calls at a time |
//! | `address.rs` | where a hash is in the whole |
//! | `error.rs` | whose fault an error is |

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
