//! `librte_crypto_gantry`: a crypto PMD for programs of DPDK, over every device of the machine.
//!
//! The library is two parts. `pmd/`, in C, is what DPDK sees: a vdev `crypto_gantry`, its capabilities, sessions and queue pairs. It reads
//! operations and mbufs with the headers of the release that it is built for, so that no layout of DPDK's is repeated in Rust. This crate
//! is what it calls: it opens the framework, holds keys, and runs operations of many sessions in batches. `scripts/dpdk` links both.
//!
//! | file | content |
//! |---|---|
//! | `abi.rs` | the structures and functions of `pmd/gantry_pmd.h` |
//! | `framework.rs` | the framework of the process, and what its devices serve |
//! | `keys.rs` | transforms to sessions |
//! | `batch.rs` | operations to requests, and outcomes to statuses |

#![deny(unsafe_code)]

/// What C calls.
mod abi;
/// Operations.
mod batch;
/// The framework.
mod framework;
/// Keys.
mod keys;
