//! The interface of `/dev/crypto`, for both sides: the driver and the server.
//!
//! Numbers and fields are those of cryptodev-linux 1.14 (its `crypto/cryptodev.h` is in the public domain). On FreeBSD, the module
//! `freebsd` has the numbers of FreeBSD 14.
//!
//! An ioctl carries a structure with pointers, whose layout depends on the [`Width`] of the program. So no structure here is `repr(C)`:
//! each consists of plain values, read from bytes and written to bytes of either width. Plain values need no `unsafe`, and let a 64-bit
//! server answer 32-bit programs.

#![forbid(unsafe_code)]

mod algorithms;
mod layout;
mod linux;

#[cfg(any(target_os = "freebsd", test))]
pub mod freebsd;

pub use algorithms::{CIPHERS, CipherRow, HASHES, HashRow, cipher, hash};
pub use layout::Width;
pub use linux::*;
