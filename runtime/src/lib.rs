//! Puts Gantry together: drivers on one side, what the operator wants on the other.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use gantry::{Algorithm, Request, SessionParams};
//! use gantry_runtime::Config;
//!
//! let gantry = gantry_runtime::open(Config::from_env()?)?;
//! let session = gantry.session(SessionParams::new(Algorithm::Sha256, &[]))?;
//!
//! // One message: a function call.
//! let mut digest = [0; 32];
//! session.digest(b"message", &mut digest)?;
//!
//! // Many: side by side, where a device has lanes.
//! let messages = [&b"one"[..], b"two", b"three"];
//! let mut digests = [[0; 32]; 3];
//! let mut requests: Vec<Request<'_>> =
//!     messages.iter().zip(&mut digests).map(|(message, digest)| Request::digest(message, digest)).collect();
//! session.process(&mut requests)?;
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
    #[error("{}: {}", path.display(), words(.error))]
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

/// What the system said, without the number that `std` puts behind it.
fn words(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
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

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(all(feature = "lanes", feature = "null"))]
    use gantry::DeviceState;

    fn with(settings: &[(&str, &str)]) -> Result<Gantry, String> {
        let mut config = Config::default();
        for (key, value) in settings {
            config.set(key, value, format!("--set {key}={value}")).unwrap();
        }
        open(config).map_err(|error| error.to_string())
    }

    #[test]
    #[cfg(all(feature = "lanes", feature = "null"))]
    fn software_comes_first_and_null_only_when_asked_for() {
        let state = |gantry: &Gantry, name| gantry.device(name).unwrap().state();
        let gantry = with(&[]).unwrap();
        let names: Vec<&str> = gantry.devices().iter().map(gantry::RegisteredDevice::name).collect();
        assert_eq!(names, ["software", "lanes", "null"]);
        assert!(matches!(state(&gantry, "null"), DeviceState::Excluded(why) if why.contains("off by default")));

        let gantry = with(&[("devices", "null=on,lanes=off")]).unwrap();
        assert_eq!(state(&gantry, "null"), DeviceState::Ready);
        let why = "turned off by --set devices=null=on,lanes=off".to_owned();
        assert_eq!(state(&gantry, "lanes"), DeviceState::Excluded(why));
    }

    #[test]
    fn the_policy_is_the_one_that_was_asked_for() {
        for policy in
            ["break-even", "pin:software", "failover:software", "round-robin", "size-threshold:9,software,software"]
        {
            let name = policy.split(':').next().unwrap();
            assert_eq!(with(&[("policy", policy)]).unwrap().policy().name(), name);
        }
    }

    #[test]
    #[cfg(feature = "lanes")]
    fn the_cpu_level_reaches_the_lanes_and_is_one_that_they_know() {
        for level in gantry_driver_lanes::LevelName::ALL {
            let gantry = with(&[("cpu", level.as_str())]).unwrap();
            let found = gantry_driver_lanes::Level::detect_at_most(Some(level)).name();
            let description = &gantry.device("lanes").unwrap().details().unwrap().description;
            assert!(description.contains(found.as_str()), "{description}");
        }
    }

    #[test]
    fn names_that_no_device_carries_are_errors() {
        let wrong = |key, value| with(&[(key, value)]).unwrap_err();
        assert!(wrong("policy", "pin:softwar").ends_with("there is no device 'softwar'; did you mean software?"));
        assert!(wrong("policy", "size-threshold:9,software,gpu").contains("there is no device 'gpu'"));
        assert!(wrong("devices.gpu", "off").contains("there is no device 'gpu'"));
        #[cfg(feature = "null")]
        assert!(wrong("policy", "pin:null").contains("the policy names the device 'null', which is off by default"));
    }
}
