//! Hashes of many messages side by side in the SIMD registers of the CPU.
//!
//! One message keeps a CPU from working: each step of a hash function waits for the one before. Columns of a table, files, blocks under
//! an image and parts of an object are many messages, and lanes hash 4 to 16 of them in the time of one or two. There is no C compiler, no
//! configuration, no thread and no allocation (but those of keys).
//!
//! | what you have | call |
//! |---|---|
//! | messages in a list | [`digest_many`]; [`hmac_many`] under one key, [`hmac_each`] each under its own |
//! | a column of Arrow's: values, offsets, a validity bitmap | [`digest_column`], [`hmac_column`] |
//! | blocks of one buffer: fs-verity, dm-verity, pieces of a torrent | [`tree_level`] |
//! | many messages that arrive in pieces | [`update_many`], [`finish_many`] over [`Hasher`]s |
//! | passwords, for keys of them | [`pbkdf2`]; many at a time: [`pbkdf2_some`] over [`Pbkdf2`]s |
//! | a secret, for keys of it | [`hkdf`], [`hkdf_extract`], [`hkdf_expand`] |
//! | one message | [`Hasher`], or the traits of RustCrypto: [`rustcrypto`] |
//!
//! Kernels are compiled for SSE2, AVX2, AVX-512 and the SHA instructions on x86-64, for NEON and the SHA instructions on aarch64, and
//! chosen at run time. Other architectures have the same functions for one message at a time. Without the feature `std` the crate needs
//! `alloc` only, and kernels are those of the instructions that the program is compiled for.
//!
//! | file | content |
//! |---|---|
//! | `algorithm.rs`, `error.rs` | what is hashed with; whose fault an error is |
//! | `many.rs`, `column.rs`, `blocks.rs`, `hasher.rs`, `hmac.rs`, `pbkdf2.rs`, `hkdf.rs`, `rustcrypto.rs` | the calls above |
//! | `family.rs` | one type for all hash functions |
//! | `level.rs` | the CPU level, and the latencies by which some kernels are chosen |
//! | `engine.rs` | keeps lanes filled, with messages of any lengths |
//! | `hash.rs`, `sponge.rs`, `tree.rs` | messages and padding: SHA and MD5, SHA-3 to BLAKE2b, KT128 |
//! | `prefixed.rs` | messages that are hashed again and again behind one prefix, for gantry-slh-dsa |
//! | `kernel.rs`, `kernel/` | compression functions, each written once |
//! | `vector.rs`, `vector/` | a small vector trait, with one implementation for each register width |
//! | `wipe.rs` | leaves no key on the stack |

#![cfg_attr(not(any(test, feature = "std")), no_std)]

extern crate alloc;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod algorithm;
mod blocks;
mod column;
mod error;
mod family;
mod hasher;
mod hkdf;
mod hmac;
mod level;
mod many;
mod pbkdf2;
#[cfg(test)]
mod random;
pub mod rustcrypto;
#[cfg(all(test, target_arch = "x86_64"))]
mod stack;
#[cfg(test)]
pub(crate) mod tests;

// For Gantry's driver of lanes, whose sessions are generic over the hash function, mix the keys of many sessions in one batch, and keep
// lanes of AES filled with the same engine. No part of the interface: they change without notice.
#[doc(hidden)]
pub mod engine;
#[doc(hidden)]
pub mod hash;
#[doc(hidden)]
pub mod kernel;
#[doc(hidden)]
pub mod prefixed;
#[doc(hidden)]
pub mod sponge;
#[doc(hidden)]
pub mod tree;
#[doc(hidden)]
pub mod vector;
#[doc(hidden)]
pub mod wipe;

pub use algorithm::{Algorithm, UnknownAlgorithm};
pub use blocks::{Salt, tree_level};
pub use column::{Column, Offsets, Validity, digest_column, hmac_column};
pub use error::Error;
pub use hasher::{Hasher, finish_many, update_many};
pub use hkdf::{hkdf, hkdf_expand, hkdf_extract};
pub use hmac::HmacKey;
pub use level::{Level, LevelName, UnknownLevel, limit};
#[doc(hidden)]
pub use level::{base_without_aes, every_level};
pub use many::{digest_many, hmac_each, hmac_many};
pub use pbkdf2::{Pbkdf2, pbkdf2, pbkdf2_some};
