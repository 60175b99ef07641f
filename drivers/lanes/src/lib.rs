//! Gantry's lanes: many independent requests side by side in the SIMD registers of the CPU.
//!
//! This crate contains the sessions, and the kernels of AES; the kernels of hashes and HMAC are in `gantry-digest`. The source of an AES
//! kernel is generic over a register type of `aes`, and is compiled for each [CPU level](LevelName) that has the instructions. The engine
//! of `gantry-digest` keeps lanes full: requests of any length start, end and stream independently.
//!
//! | file | content |
//! |---|---|
//! | `aes.rs`, `aes/` | AES kernels over registers of blocks (`aes/register.rs`); GCM needs wide registers (`register/wide.rs`) |
//! | `cbc.rs`, `cmac.rs`, `ccm.rs`, `chains.rs` | messages and padding for modes that chain blocks, side by side |
//! | `xts.rs`, `independent.rs`, `gcm.rs` | data units, counter mode and CBC decryption, GCM |
//! | `groups.rs` | splits messages that need no lanes into groups |
//! | `session.rs`, `session/` | sessions of each kind: XTS and GCM in `session.rs`, the others in a file each, such as `etm.rs` |
//! | `wipe.rs` | wipes keys from the stack |

// Other architectures have no kernels.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod aes;
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
#[cfg(target_arch = "x86_64")]
mod gcm;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod groups;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod independent;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod queue;
#[cfg(test)]
#[path = "../../../digest/src/random.rs"]
mod random;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod session;
#[cfg(all(test, target_arch = "x86_64"))]
#[path = "../../../digest/src/internal/stack.rs"]
mod stack;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod wipe;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod xts;

use gantry_core::driver::{Driver, Found};

pub use gantry_digest::{Level, LevelName, UnknownLevel};

/// Discovers the lanes of this CPU.
#[derive(Clone, Copy, Debug)]
pub struct LanesDriver {
    level: Level,
}

impl LanesDriver {
    /// Returns a driver for lanes of the given level, from [`Level::detect_at_most`].
    pub fn new(level: Level) -> Self {
        LanesDriver { level }
    }

    /// Returns the level of the lanes.
    pub fn level(&self) -> Level {
        self.level
    }
}

impl Default for LanesDriver {
    /// Returns a driver for the highest level that this CPU has.
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
        vec![Found::Excluded { name: NAME.into(), class: gantry_core::driver::Class::Simd, reason }]
    }
}
