//! The interface of `/dev/crypto`, for both sides: the driver that asks and the server that answers.
//!
//! On Linux it is the one of cryptodev-linux 1.14 (numbers and fields from its `crypto/cryptodev.h`, which is in the public
//! domain); the module `freebsd`, on that system, has what FreeBSD 14 calls the same things. An ioctl carries a structure,
//! and the structure carries pointers: its layout depends on the [`Width`] of the program that made it. So no structure here is a `repr(C)` one.
//! Each is plain values that are read from bytes and written to bytes of either width, which needs no `unsafe` and lets a
//! 64-bit server answer 32-bit programs.

#![forbid(unsafe_code)]

/// The algorithms that have numbers.
mod algorithms;
/// How fields lie in a structure.
mod layout;
/// The ioctls and their structures.
mod linux;

#[cfg(any(target_os = "freebsd", test))]
pub mod freebsd;

pub use algorithms::{CIPHERS, CipherRow, HASHES, HashRow, cipher, hash};
pub use layout::Width;
pub use linux::*;
