//! Hashes of many messages side by side in the SIMD registers of the CPU.
//!
//! Each step of a hash function waits for the one before, so a single message leaves most of a CPU idle. The lanes of a register hash 4
//! to 16 messages in the time of one or two: the values of a column, files, blocks under an image, parts of an object. The crate needs
//! no C compiler, configuration or threads, and allocates only for keys and growing trees.
//!
//! | input | call |
//! |---|---|
//! | messages in a list | [`digest_many`]; [`digest_many_after`] after a common prefix; [`hmac_many`] under one key, [`hmac_each`] each under its own; for code over RustCrypto's types [`MultiDigest`] |
//! | a column of Arrow's: values, offsets, a validity bitmap | [`digest_column`], [`hmac_column`] |
//! | blocks of one buffer: fs-verity, dm-verity, pieces of a torrent | [`tree_level`] |
//! | pairs of digests: Merkle trees | [`hash_leaves`], [`hash_pairs`], [`hash_pairs_in_place`], [`merkle_root`], [`merkle_tree`] |
//! | a tree that grows, and proofs about it (RFC 9162) | [`MerkleTree`]; [`verify_inclusion`], [`verify_consistency`] |
//! | many messages that arrive in pieces | [`update_many`], [`finish_many`] over [`Hasher`]s |
//! | passwords, to derive keys from | [`pbkdf2`]; many at a time: [`pbkdf2_advance`] over [`Pbkdf2`]s |
//! | a secret, to derive keys from | [`hkdf`], [`hkdf_extract`], [`hkdf_expand`] |
//! | objects of Git, refused if they belong to a known kind of collision | [`Sha1Checked`] |
//! | BLAKE3: plain, keyed, derived keys | [`Blake3`] |
//! | one message | [`Hasher`], or RustCrypto's [`Digest`] of [`Sha256`] and its siblings: [`rustcrypto`] |
//!
//! Kernels exist for SSE2, AVX2, AVX-512 and the SHA instructions on x86-64, and for NEON and the SHA instructions on aarch64. They are
//! chosen at run time. Those for SIMD128 in WebAssembly need a build with this feature. Other architectures hash one message at a time.
//! Without the feature `std` the crate uses the kernels of the target features enabled at compile time. Keys, growing trees and parsing
//! names of levels need the feature `alloc`.
//!
//! Messages must not change during a call, as Rust requires of every `&[u8]`: copy those in memory that another process or a device writes.
//!
//! | file | content |
//! |---|---|
//! | `algorithm.rs`, `error.rs`, `messages.rs` | the hash functions; the caller's mistakes; the messages of one call |
//! | `many.rs`, `column.rs`, `blocks.rs`, `nodes.rs`, `tree.rs`, `proof.rs`, `hasher.rs`, `hmac.rs`, `pbkdf2.rs`, `hkdf.rs`, `sha1_checked.rs`, `blake3.rs`, `rustcrypto.rs`, `rustcrypto_0_10.rs` | the calls above |
//! | `hash_function.rs` | one type for all hash functions |
//! | `hmac_chain.rs` | one loop of PBKDF2, of which `hash.rs` and `sponge.rs` run many |
//! | `level.rs` | the CPU level, and the latencies by which some kernels are chosen |
//!
//! Below them, in `internal/`:
//!
//! | file | content |
//! |---|---|
//! | `prefixed.rs` | messages hashed repeatedly after one prefix, for gantry-slh-dsa |
//! | `hash.rs`, `sponge.rs`, `kt128.rs`, `blake3.rs` | messages and padding: SHA-1, SHA-2, MD5; SHA-3, SHAKE, BLAKE2b; KT128; BLAKE3 |
//! | `job.rs` | a request to one of them |
//! | `engine.rs` | keeps lanes filled, with messages of any lengths |
//! | `dispatch.rs`, `dispatch/` | the kernels, compiled for each CPU level, and the choice at run time |
//! | `kernel.rs`, `kernel/` | the arithmetic of kernels: compression functions, each written once |
//! | `vector.rs`, `vector/` | a small vector trait, with implementations for each kind of register |
//! | `wipe.rs` | leaves no key on the stack |

#![cfg_attr(not(any(test, feature = "std")), no_std)]
// Without `alloc` there are no keys, so some functions of the kernels are unused.
#![cfg_attr(not(feature = "alloc"), allow(dead_code))]

#[cfg(feature = "alloc")]
extern crate alloc;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod algorithm;
mod blake3;
mod blocks;
mod column;
mod error;
mod hash_function;
mod hasher;
#[cfg(feature = "alloc")]
mod hkdf;
#[cfg(feature = "alloc")]
mod hmac;
mod hmac_chain;
#[cfg_attr(not(feature = "unstable"), allow(unreachable_pub, reason = "`internal` exports two functions for tests"))]
mod level;
mod many;
mod messages;
mod nodes;
#[cfg(feature = "alloc")]
mod pbkdf2;
mod proof;
#[cfg(test)]
mod random;
pub mod rustcrypto;
#[cfg(feature = "digest-0_10")]
pub mod rustcrypto_0_10;
mod sha1_checked;
#[cfg(test)]
pub(crate) mod tests;
#[cfg(feature = "alloc")]
mod tree;

#[cfg(feature = "unstable")]
pub mod internal;
#[cfg(not(feature = "unstable"))]
#[allow(dead_code, unreachable_pub, unused_imports, reason = "drivers use the rest")]
mod internal;

pub use ::digest::{self, Digest};
pub use algorithm::{Algorithm, UnknownAlgorithm};
pub use blake3::Blake3;
pub use blocks::{Salt, tree_level};
pub use column::{Column, Offsets, Validity, digest_column};
pub use error::Error;
pub use hasher::{Hasher, finish_many, update_many};
#[cfg(feature = "alloc")]
pub use hkdf::{hkdf, hkdf_expand, hkdf_extract};
#[cfg(feature = "alloc")]
pub use hmac::{HmacKey, hmac_column, hmac_each, hmac_many};
#[cfg(feature = "alloc")]
pub use level::UnknownLevel;
pub use level::{Level, LevelName, limit_level};
pub use many::{digest_many, digest_many_after};
pub use nodes::{Node, NodeHash, hash_leaves, hash_pairs, hash_pairs_in_place, merkle_root, merkle_tree};
#[cfg(feature = "alloc")]
pub use pbkdf2::{Pbkdf2, pbkdf2, pbkdf2_advance};
pub use proof::{InvalidProof, verify_consistency, verify_inclusion};
pub use rustcrypto::{
    Blake2b256, Blake2b512, Keccak256, Md5, MultiDigest, Sha1, Sha3_224, Sha3_256, Sha3_384, Sha3_512, Sha224, Sha256,
    Sha384, Sha512, Sha512_256,
};
pub use sha1_checked::{Collision, Sha1Checked};
#[cfg(feature = "alloc")]
pub use tree::MerkleTree;
