//! The interface of `/dev/crypto`, for both sides: the driver and the server.
//!
//! On Linux it is that of cryptodev-linux 1.14 (numbers and fields from its `crypto/cryptodev.h`, which is in the public domain). The module `freebsd`, on
//! that system, has the names of FreeBSD 14. An ioctl carries a structure with pointers, whose layout depends on the [`Width`] of the program. So no
//! structure here is `repr(C)`. Each is plain values, read from bytes and written to bytes of either width. This needs no `unsafe`, and lets a 64-bit
//! server answer 32-bit programs.

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
