//! Our functions that OpenSSL calls, and the tables in which it finds them. Their `unsafe` code relies on the promises
//! that [`host`](crate::host) defines.
//!
//! No panic crosses into C: [`guard`](crate::host::guard) wraps all of our code that can panic.

#![allow(unsafe_code)]

mod about;
mod cipher;
mod context;
mod entry;
mod exchange;
mod generator;
mod group_keys;
mod kdf;
mod kem;
mod keys;
mod pipeline;
mod signature;
mod slh_dsa;
mod tables;
