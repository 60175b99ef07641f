//! Gantry's lanes: many independent requests side by side in the SIMD registers of the CPU.
//!
//! One kernel per algorithm is written over the traits of `vector` and `kernel`, and compiled for each [CPU
//! level](LevelName). The engine keeps its lanes full: requests of any length start, end and stream independently.
//!
//! | file | content |
//! |---|---|
//! | `vector.rs`, `vector/` | a small vector trait, with one implementation for each register width |
//! | `kernel/` | kernels, written once over it; those of AES over registers of blocks (`kernel/aes/register.rs`), those of GCM over several (`register/wide.rs`) |
//! | `level.rs` | the CPU level, and the latencies by which some kernels are chosen |
//! | `hash.rs`, `sponge.rs`, `tree.rs`, `cbc.rs`, `cmac.rs`, `ccm.rs`, `chains.rs` | messages and padding: SHA and MD5, SHA-3 to BLAKE2b, KT128, chains side by side |
//! | `xts.rs`, `independent.rs`, `gcm.rs` | data units, counter mode and CBC decryption, GCM |
//! | `engine.rs`, `groups.rs` | keeps lanes filled; takes messages that need no lanes in groups |
//! | `session/` | a file for each kind of session, `etm.rs` (encrypt-then-authenticate) among them |
//! | `wipe.rs` | leaves no key on the stack |

// Everything but the level is left out where there are no kernels.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod cbc;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod ccm;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod chains;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod cmac;
#[cfg(all(test, target_arch = "x86_64"))]
mod constant_time;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod device;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod engine;
#[cfg(target_arch = "x86_64")]
mod gcm;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod groups;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod hash;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod independent;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod kernel;
mod level;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod queue;
#[cfg(test)]
mod random;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod session;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod sponge;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod tree;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod vector;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod wipe;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod xts;

use gantry::driver::{Driver, Found};

pub use level::{Level, LevelName, UnknownLevel};

/// Discovers the lanes of this CPU.
#[derive(Clone, Copy, Debug)]
pub struct LanesDriver {
    level: Level,
}

impl LanesDriver {
    /// Lanes of the given level, from [`Level::detect_at_most`].
    pub fn new(level: Level) -> Self {
        LanesDriver { level }
    }

    /// The level of the lanes.
    pub fn level(&self) -> Level {
        self.level
    }
}

impl Default for LanesDriver {
    /// Lanes of the highest level that this CPU has.
    fn default() -> Self {
        LanesDriver::new(Level::detect_at_most(None))
    }
}

/// The name of the driver and of its device.
const NAME: &str = "lanes";

impl Driver for LanesDriver {
    fn name(&self) -> &'static str {
        NAME
    }

    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn discover(&self) -> Vec<Found> {
        vec![Found::Device(std::sync::Arc::new(device::LanesDevice::new(self.level)))]
    }

    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn discover(&self) -> Vec<Found> {
        let reason = format!("no kernels for {}", std::env::consts::ARCH);
        vec![Found::Excluded { name: NAME.into(), class: gantry::driver::Class::Simd, reason }]
    }
}
