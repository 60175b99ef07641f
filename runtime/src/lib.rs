//! Puts Gantry together: drivers on one side, what the operator wants on the other.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use gantry_core::{Algorithm, Request, SessionParams};
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
//!
//! | file | content |
//! |---|---|
//! | `keys.rs`, `config.rs`, `bounded.rs` | the table of every key; the layers of the configuration; files that are read up to a limit |
//! | `drivers.rs`, `models.rs`, `dpdk.rs` | the list of drivers, and what those take that have settings |
//! | `stand_in.rs` | the caller's own device, where the software driver is not built |
//! | `policy.rs`, `cache.rs`, `clock.rs` | the names of policies, costs in a file, time |
//! | `folder.rs` | folders of this user's, and files that are whole |
//! | `suggest.rs` | the name that was meant |
//! | `sandbox.rs` | whether the process has a filter of system calls |
//! | `readiness.rs` | queues as file descriptors |
//! | `stats/` | published statistics: `page.rs` counters in shared memory, `live.rs` finds the pages of processes, `read.rs` and `watch.rs` read them, `files.rs` folders, `report.rs` tables |

#![deny(unsafe_code)]

// Files of others.
pub mod bounded;
/// Where costs are kept between two processes.
mod cache;
mod clock;
/// What the operator wants, layer over layer.
mod config;
/// What is said of DPDK.
#[cfg(feature = "dpdk")]
mod dpdk;
/// The drivers of this build.
mod drivers;
mod folder;
/// What the Linux kernel says of its crypto drivers.
#[cfg(feature = "afalg")]
pub mod kernel {
    pub use gantry_driver_afalg::catalogue::*;
    pub use gantry_driver_afalg::try_bind;
}
/// Every key of the configuration, in one table.
mod keys;
/// Modelled devices.
#[cfg(feature = "model")]
mod models;
/// Policies by name.
mod policy;
/// A descriptor for queues.
mod readiness;
// Filters of system calls.
pub mod sandbox;
/// What serves where software is not built.
mod stand_in;
// What processes publish about themselves.
pub mod stats;
/// The name that was meant.
mod suggest;

use std::io;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;

use gantry_core::Gantry;
use gantry_core::driver::Driver;

/// Tests ask what a reader takes.
#[cfg(test)]
#[global_allocator]
static MEMORY: gantry_lab::memory::Counting = gantry_lab::memory::Counting;

pub use cache::CostCache;
use clock::MachineClock;
pub use config::{Config, File, Origin, Setting, files};
pub use drivers::DEVICES;
/// Modelled accelerators, to simulate machines with them: [`reference()`] computes their results.
#[cfg(feature = "model")]
pub use gantry_driver_model as model;
/// Which variables, files and code this process may believe.
pub use gantry_rights as rights;
pub use keys::{KEYS, Key, Shown, sample};
#[cfg(feature = "model")]
pub use models::reference;
pub use policy::PolicyChoice;
pub use readiness::Readiness;
pub use stats::StatsChoice;
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
    open_with(config, &[])
}

/// The same, with devices of the caller's own after those of the machine.
///
/// In a build without the feature `software` one of them has to be of the class [`Software`](gantry_core::driver::Class::Software) and serve
/// every algorithm that is asked for. Results of other devices are compared with its results, requests end up there when all others
/// fail, and the name `software` stands for it.
///
/// # Errors
/// Those of [`open`].
pub fn open_with(mut config: Config, own: &[&dyn Driver]) -> Result<Gantry, Error> {
    let mut builder =
        Gantry::builder().clock(Arc::new(MachineClock::default())).verify(config.verify.value.map_or(0, NonZero::get));
    if let Some(memory) = stats::memory(&config.stats.value) {
        builder = builder.stats_memory(memory);
    }
    if let Some(publish) = stats::publisher(&config) {
        builder = builder.publish(stats::EVERY, publish);
    }
    for driver in drivers::all(&config)?.iter().map(|driver| &**driver).chain(own.iter().copied()) {
        builder = builder.driver_with(driver, |device| config.excluded(device));
    }
    if let Some(cache) = CostCache::of_user() {
        builder = builder.cost_store(Arc::new(cache));
    }
    let gantry = builder.build();
    for (name, setting) in &config.devices {
        // A default speaks of drivers that were built, and these need not find anything.
        if setting.origin != Origin::Default {
            must_exist(&gantry, &config, stand_in::meant(&gantry, name), &setting.origin)?;
        }
    }
    config.policy.value = config.policy.value.named(|name| stand_in::meant(&gantry, &name).to_owned());
    for name in config.policy.value.devices() {
        let origin = &config.policy.origin;
        must_exist(&gantry, &config, name, origin)?;
        if let Some(reason) = config.excluded(name) {
            let problem = format!("the policy names the device '{name}', which is {reason}");
            return Err(Error::Setting { origin: origin.clone(), problem });
        }
    }
    let published = matches!(config.stats.value, StatsChoice::Folder(_));
    let gantry = config.policy.value.over(&gantry);
    if published {
        stats::publish_at_exit(&gantry);
    }
    Ok(gantry)
}

/// Looks again for the devices of this machine, and adds those that have come: see [`Gantry::discover`]. Takes what `open` took, and
/// returns the names of those that have come. Where the kernel has a new engine, that is one; drivers that the configuration turned
/// off stay so.
///
/// # Errors
/// [`Error::Setting`] as [`open`].
pub fn rescan(gantry: &Gantry, config: &Config) -> Result<Vec<String>, Error> {
    let drivers = drivers::all(config)?;
    Ok(drivers.iter().flat_map(|driver| gantry.discover(&**driver, |device| config.excluded(device))).collect())
}

fn must_exist(gantry: &Gantry, config: &Config, name: &str, origin: &Origin) -> Result<(), Error> {
    let models = drivers::models(config);
    // The name of a driver of this build stands for all its devices, which are not the same everywhere.
    let of_driver = drivers::DEVICES.iter().any(|(driver, _)| *driver == name);
    if gantry.device(name).is_some() || of_driver || models.iter().any(|model| model == name) {
        return Ok(());
    }
    // Models that are off are many, and nobody means them who does not say so.
    let models = models.iter().filter(|_| name.starts_with("model"));
    let names = gantry.devices().iter().map(gantry_core::RegisteredDevice::name).chain(models.map(String::as_str));
    let names: Vec<&str> = names.collect();
    let problem = format!("there is no device '{name}'{}", suggest(name, &names));
    Err(Error::Setting { origin: origin.clone(), problem })
}

/// `cargo test` compiles and runs the Rust of this page.
#[cfg(doctest)]
#[doc = include_str!("../../docs/src/writing-a-driver.md")]
struct Drivers;

#[cfg(test)]
mod tests {
    use super::*;

    fn with(settings: &[(&str, &str)]) -> Result<Gantry, String> {
        let mut config = Config::default();
        for (key, value) in settings {
            config.set(key, value, format!("--set {key}={value}")).map_err(|error| error.to_string())?;
        }
        open(config).map_err(|error| error.to_string())
    }

    #[test]
    #[cfg(all(
        feature = "lanes",
        feature = "software",
        feature = "null",
        feature = "afalg",
        feature = "devcrypto",
        feature = "dpdk"
    ))]
    fn software_comes_first_and_null_only_when_asked_for() {
        use gantry_core::DeviceState;
        let state = |gantry: &Gantry, name| gantry.device(name).unwrap().state();
        let gantry = with(&[]).unwrap();
        let names: Vec<&str> = gantry.devices().iter().map(gantry_core::RegisteredDevice::name).collect();
        let listed: Vec<&str> = drivers::DEVICES.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, listed, "drivers::all and drivers::DEVICES name the same devices, in the same order");
        assert_eq!(names[0], drivers::LAST_RESORT);
        assert!(matches!(state(&gantry, "afalg"), DeviceState::Excluded(why) if why.contains("off by default")));
        assert!(matches!(state(&gantry, "null"), DeviceState::Excluded(why) if why.contains("off by default")));

        let gantry = with(&[("devices", "null=on,lanes=off")]).unwrap();
        assert_eq!(state(&gantry, "null"), DeviceState::Ready);
        let why = "turned off by --set devices=null=on,lanes=off".to_owned();
        assert_eq!(state(&gantry, "lanes"), DeviceState::Excluded(why));
    }

    #[test]
    #[cfg(feature = "software")]
    fn the_policy_is_the_one_that_was_asked_for() {
        for policy in [
            "latency",
            "throughput",
            "offload",
            "break-even",
            "pin:software",
            "failover:software",
            "round-robin",
            "size-threshold:9,software,software",
        ] {
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
    #[cfg(feature = "software")]
    fn names_that_no_device_carries_are_errors() {
        let wrong = |key, value| with(&[(key, value)]).unwrap_err();
        assert!(wrong("policy", "pin:softwar").ends_with("there is no device 'softwar'; did you mean software?"));
        assert!(wrong("policy", "size-threshold:9,software,gpu").contains("there is no device 'gpu'"));
        assert!(wrong("devices.gpu", "off").contains("there is no device 'gpu'"));
        #[cfg(feature = "null")]
        assert!(wrong("policy", "pin:null").contains("the policy names the device 'null', which is off by default"));
    }

    #[test]
    #[cfg(feature = "model")]
    fn models_are_there_when_they_are_asked_for_and_compute_what_software_computes() {
        use gantry_core::{Algorithm, SessionParams};

        let names = |settings: &[(&str, &str)]| {
            let gantry = with(settings).unwrap();
            gantry.devices().iter().map(|device| device.name().to_owned()).collect::<Vec<_>>()
        };
        assert!(names(&[]).iter().all(|name| !name.starts_with("model:")));
        assert!(names(&[("devices", "model:kirkwood=on")]).contains(&"model:kirkwood".to_owned()));
        assert_eq!(names(&[("devices", "model:kirkwood=off")]), names(&[]));

        let settings = [
            ("models.mine", "like=faulty,sha256=10+1000"),
            ("devices", "model:mine=on,model:faulty=on"),
            ("policy", "pin:model:mine"),
        ];
        let digest = |gantry: &Gantry| {
            let session = gantry.session(SessionParams::new(Algorithm::Sha256, &[])).unwrap();
            let mut digest = [0; 32];
            session.digest(b"message", &mut digest).map(|()| digest)
        };
        let (mine, software) = (with(&settings).unwrap(), with(&[("policy", "pin:software")]).unwrap());
        assert_eq!(digest(&mine).unwrap(), digest(&software).unwrap());

        let faulty = with(&[("faults", "gone=0"), ("devices", "model:faulty=on")]).unwrap();
        let why = faulty.device("model:faulty").unwrap().admit(Algorithm::Sha256).unwrap_err();
        assert!(why.to_string().ends_with("the device is gone"), "{why}");
    }

    #[test]
    #[cfg(feature = "model")]
    fn models_that_cannot_be_say_why() {
        let wrong = |key, value| with(&[(key, value)]).unwrap_err();
        assert!(
            wrong("models.mine", "like=kirkwood,ring=0").ends_with("the model 'mine': a ring has 1 to 65536 places")
        );
        assert!(wrong("models", "mine").ends_with("models takes a name: models.NAME = \"like=kirkwood,ring=8\""));
        assert!(wrong("faults", "errors=1/0").contains("'errors=1/0' is no fault"));
        assert!(wrong("devices.model:kirkwod", "on").ends_with("did you mean model:kirkwood?"));
        let off = wrong("policy", "pin:model:kirkwood");
        assert!(off.contains("the policy names the device 'model:kirkwood', which is off by default"), "{off}");
        let mut config = Config::default();
        config.set("models.odd", "like=kirkwood,null=1+1", "odd").unwrap();
        config.set("devices.model:odd", "on", "on").unwrap();
        let says = open(config).unwrap_err().to_string();
        assert_eq!(says, "odd: the model 'odd': the reference does not run null");
    }
}
