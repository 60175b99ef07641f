//! Our functions that OpenSSL calls, and the tables in which it finds them.
//!
//! The `SAFETY` comments name three promises, which [`libcrypto`](crate::libcrypto) defines: the call, the default provider, and ours.
//!
//! No panic crosses into C: [`catch_panic`](crate::libcrypto::catch_panic) wraps all of our code that can panic.

#![allow(unsafe_code)]

mod agreement;
mod cipher;
mod context;
mod entry;
mod exchange;
mod generator;
mod group_keys;
mod hybrid_kem;
mod kdf;
mod kem;
mod keys;
mod peer_share;
mod pipeline;
mod provider_info;
mod signature;
mod slh_dsa;
mod tables;
