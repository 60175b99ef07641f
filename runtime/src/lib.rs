//! Puts Gantry together: drivers on one side, what the operator wants on the other.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use gantry::{Algorithm, SessionParams};
//! use gantry_runtime::Config;
//!
//! let gantry = gantry_runtime::open(Config::from_env()?)?;
//! let session = gantry.session(SessionParams::new(Algorithm::Sha256, &[]))?;
//! # Ok(()) }
//! ```
//!
//! [`Config`] says what is wanted and where each wish came from; it is read without looking at a device. [`open`] finds the
//! devices.

#![forbid(unsafe_code)]

/// What the operator wants, layer over layer.
mod config;
/// The drivers of this build.
mod drivers;
/// Every key of the configuration, in one table.
mod keys;
/// Policies by name.
mod policy;
/// The name that was meant.
mod suggest;

use std::io;
use std::path::PathBuf;

use gantry::Gantry;

pub use config::{Config, File, Origin, Setting, files};
pub use keys::{KEYS, Key, Shown, sample};
pub use policy::PolicyChoice;
pub use suggest::suggest;

/// Why there is no framework.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A configuration file is there and cannot be read.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The configuration asks for something that does not exist.
    #[error("{origin}: {problem}")]
    Setting {
        /// Where it asks.
        origin: Origin,
        /// What is wrong, and what would be right.
        problem: String,
    },
}

/// Discovers the devices of this machine, leaves out those that are not wanted, and puts the policy over them.
///
/// # Errors
/// [`Error::Setting`] when the configuration names a device that does not exist, or puts a device that is turned off into
/// the policy.
pub fn open(config: Config) -> Result<Gantry, Error> {
    let mut builder = Gantry::builder();
    for driver in drivers::all(&config) {
        builder = builder.driver_with(&*driver, |device| config.excluded(device));
    }
    let gantry = builder.build();
    for (name, setting) in &config.devices {
        // A default speaks of drivers that were built, and these need not find anything.
        if setting.origin != Origin::Default {
            must_exist(&gantry, name, &setting.origin)?;
        }
    }
    for name in config.policy.value.devices() {
        let origin = &config.policy.origin;
        must_exist(&gantry, name, origin)?;
        if let Some(reason) = config.excluded(name) {
            let problem = format!("the policy names the device '{name}', which is {reason}");
            return Err(Error::Setting { origin: origin.clone(), problem });
        }
    }
    Ok(config.policy.value.over(&gantry))
}

fn must_exist(gantry: &Gantry, name: &str, origin: &Origin) -> Result<(), Error> {
    if gantry.device(name).is_some() {
        return Ok(());
    }
    let names: Vec<&str> = gantry.devices().iter().map(gantry::RegisteredDevice::name).collect();
    let problem = format!("there is no device '{name}'{}", suggest(name, &names));
    Err(Error::Setting { origin: origin.clone(), problem })
}
