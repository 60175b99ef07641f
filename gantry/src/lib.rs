//! Gantry takes cryptographic requests and sends each one to the engine of the machine that serves it best.

pub use gantry_core::{Error, Result};
pub use gantry_runtime::Config;

// The framework below: sessions, requests, queues, routes.
pub use gantry_core as core;

#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../docs/src/guide-rust.md")]
    mod guide_rust {}
    #[doc = include_str!("../../README.md")]
    mod readme {}
}
