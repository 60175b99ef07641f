//! The lanes: kernels, their dispatch, and the hashing of many messages of any lengths. `gantry-driver-lanes` and `gantry-slh-dsa` are
//! built on them: a driver mixes the keys of many sessions in one batch, and fills lanes of AES with the same engine.
//!
//! The feature `unstable` makes these items public. Any release may change or remove them, so a crate that uses the feature must require
//! exactly one version of this crate. `scripts/crates` checks the crates of Gantry for this.

pub(crate) mod blake3;
pub mod dispatch;
pub mod engine;
pub mod hash;
pub mod job;
pub mod kernel;
pub mod kt128;
#[cfg(feature = "alloc")]
pub mod prefixed;
pub mod sponge;
#[cfg(all(test, target_arch = "x86_64"))]
pub(crate) mod stack;
pub mod vector;
pub mod wipe;

pub use crate::level::base_without_aes;
#[cfg(feature = "alloc")]
pub use crate::level::every_level;
