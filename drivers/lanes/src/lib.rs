//! Gantry's lanes: many independent requests side by side in the SIMD registers of the CPU.
//!
//! One kernel per algorithm is written over the traits of `vector` and `kernel`, and compiled for each [CPU
//! level](LevelName). The engine keeps its lanes full: requests of any length start, end and stream independently.

mod cbc;
mod device;
mod engine;
mod hash;
mod kernel;
mod level;
mod queue;
#[cfg(test)]
mod random;
mod session;
mod vector;

use std::sync::Arc;

use gantry::driver::{Class, Driver, Found};

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
}

impl Default for LanesDriver {
    /// Lanes of the highest level that this CPU has.
    fn default() -> Self {
        LanesDriver::new(Level::detect_at_most(None))
    }
}

impl Driver for LanesDriver {
    fn name(&self) -> &'static str {
        device::NAME
    }

    fn discover(&self) -> Vec<Found> {
        if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
            vec![Found::Device(Arc::new(device::LanesDevice::new(self.level)))]
        } else {
            let reason = format!("no kernels for {}", std::env::consts::ARCH);
            vec![Found::Excluded { name: device::NAME.into(), class: Class::Simd, reason }]
        }
    }
}
