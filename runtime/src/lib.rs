//! Assembles Gantry from its drivers and the operator's configuration.
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
//! A [`Config`] has the settings and the origin of each. Reading it does not access devices; [`open`] discovers them.
//!
//! | file | content |
//! |---|---|
//! | `config/`, `bounded.rs` | the layers of the configuration, its table of keys (`keys.rs`) and its settings; bounded reading of files |
//! | `drivers.rs`, `models.rs` | the drivers of this build, set up from the configuration; modelled devices |
//! | `stand_in.rs` | the caller's own device, in builds without the software driver |
//! | `policy.rs`, `cache.rs`, `clock.rs` | policies by name; the file of costs; time |
//! | `folder.rs` | private folders, and atomic replacement of files |
//! | `suggest.rs` | corrections of misspelt names |
//! | `sandbox.rs` | detection of system call filters |
//! | `readiness.rs` | queues as file descriptors |
//! | `stats/` | statistics: `page.rs` shared counters, `send.rs` and `receive.rs` pages for the command, `live_page.rs` pages of processes, `read.rs` and `watcher.rs` readers, `files.rs` folders, `report.rs` tables |

#![deny(unsafe_code)]

// Reading of files of unknown kind and size.
pub mod bounded;
/// The costs kept between processes.
mod cache;
mod clock;
/// The layered configuration.
mod config;
/// The drivers of this build.
mod drivers;
mod folder;
/// The crypto drivers of the Linux kernel.
#[cfg(feature = "afalg")]
pub mod kernel {
    pub use gantry_driver_afalg::catalogue::*;
    pub use gantry_driver_afalg::try_bind;
}
/// Modelled devices.
#[cfg(feature = "model")]
mod models;
/// Policies by name.
mod policy;
/// A descriptor for queues.
mod readiness;
// Detection of system call filters.
pub mod sandbox;
/// The replacement of the software device.
mod stand_in;
// Statistics that processes publish.
pub mod stats;
/// Corrections of misspelt names.
mod suggest;

use std::io;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;

use gantry_core::driver::Driver;
use gantry_core::route::CostStore;
use gantry_core::{DeviceState, Gantry, RegisteredDevice};

/// Tests measure the memory that readers allocate.
#[cfg(test)]
#[global_allocator]
static MEMORY: gantry_lab::memory::CountingAllocator = gantry_lab::memory::CountingAllocator;

pub use cache::{CostCache, CostSnapshot};
use clock::MachineClock;
pub use config::devices::devices;
pub use config::keys::{KEYS, Key, ShownSetting, sample};
pub use config::stats::StatsChoice;
pub use config::{Config, File, Origin, Setting, files};
pub use drivers::software;
/// Modelled accelerators for simulation; [`reference()`] computes their results.
#[cfg(feature = "model")]
pub use gantry_driver_model as model;
/// The environment variables, files and code that this process may trust.
pub use gantry_rights as rights;
#[cfg(feature = "model")]
pub use models::reference;
pub use policy::PolicyChoice;
pub use readiness::Readiness;
pub use suggest::suggest;

/// An error of opening the framework.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A configuration file cannot be read. Optional files may be absent.
    #[error("{}: {}", path.display(), message(.error))]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// A setting is invalid, or does not fit this machine.
    #[error("{origin}: {problem}")]
    Setting {
        /// The origin of the setting.
        origin: Origin,
        /// The problem, and a suggestion.
        problem: String,
    },
}

/// Returns the system's message without the number that `std` appends.
fn message(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// Discovers the devices of this machine, excludes those that are turned off, and applies the policy.
///
/// # Errors
/// [`Error::Setting`] if the configuration names a device that does not exist, or the policy names a device that is excluded. The
/// error is the same if a required validated device is missing, or a model is invalid.
pub fn open(config: Config) -> Result<Gantry, Error> {
    open_with(config, &[], CostCache::for_user().map(|cache| Arc::new(cache) as _))
}

/// Opens like [`open`], with devices of the caller after those of the machine. They are the caller's own code, so they need not be
/// validated.
///
/// In a build without the feature `software`, a device of the caller must have the class
/// [`Software`](gantry_core::driver::Class::Software) and serve every algorithm that the program uses. This device verifies the results of
/// other devices, and gets the requests for which all others fail. The name `software` stands for it.
///
/// `costs` keeps the costs of devices; [`open`] takes the user's [`CostCache`].
///
/// # Errors
/// As [`open`].
pub fn open_with(
    mut config: Config,
    callers_drivers: &[&dyn Driver],
    costs: Option<Arc<dyn CostStore>>,
) -> Result<Gantry, Error> {
    let mut builder =
        Gantry::builder().clock(Arc::new(MachineClock::default())).verify(config.verify.value.map_or(0, NonZero::get));
    if let Some(memory) = stats::counter_memory(&config.stats.value) {
        builder = builder.stats_memory(memory);
    }
    if let Some(publish) = stats::publisher(&config) {
        builder = builder.publish(stats::PUBLICATION_INTERVAL, publish);
    }
    for driver in &drivers::configured_drivers(&config)? {
        builder = builder.driver_with(&**driver, |device| config.exclusion_reason_of(device));
    }
    for driver in callers_drivers {
        builder = builder.driver_with(*driver, |device| config.exclusion_reason(&device.name));
    }
    if let Some(costs) = costs {
        builder = builder.cost_store(costs);
    }
    let gantry = builder.build();
    if config.requires_validated() && !gantry.devices().iter().any(RegisteredDevice::is_validated) {
        let problem = "no device of this machine says that it is a FIPS 140 validated module".to_owned();
        return Err(Error::Setting { origin: config.require_validated.origin, problem });
    }
    for (name, setting) in &config.devices {
        // Defaults name the drivers of this build, which may find no device.
        if setting.origin != Origin::Default && !config::devices::is_of_another_build(name) {
            check_device_exists(&gantry, &config, stand_in::resolve_name(&gantry, name), &setting.origin)?;
        }
    }
    config.policy.value = config.policy.value.map_devices(|name| stand_in::resolve_name(&gantry, &name).to_owned());
    for name in config.policy.value.devices() {
        let origin = &config.policy.origin;
        check_device_exists(&gantry, &config, name, origin)?;
        let unvalidated = || match gantry.device(name)?.state() {
            DeviceState::Excluded(reason) if config.requires_validated() => Some(reason),
            _ => None,
        };
        if let Some(reason) = config.exclusion_reason(name).or_else(unvalidated) {
            let problem = format!("the policy names the device '{name}', which is {reason}");
            return Err(Error::Setting { origin: origin.clone(), problem });
        }
    }
    let published = matches!(config.stats.value, StatsChoice::Folder(_));
    let gantry = config.policy.value.apply_to(&gantry);
    if published {
        stats::publish_at_exit(&gantry);
    }
    Ok(gantry)
}

/// Discovers devices again, and adds new ones: see [`Gantry::discover`]. Takes the configuration given to [`open`], and returns the names
/// of the added devices, such as a new engine of the kernel. Drivers that the configuration turned off stay off.
///
/// # Errors
/// [`Error::Setting`] if a model is invalid.
pub fn rescan(gantry: &Gantry, config: &Config) -> Result<Vec<String>, Error> {
    let drivers = drivers::configured_drivers(config)?;
    Ok(drivers
        .iter()
        .flat_map(|driver| gantry.discover(&**driver, |device| config.exclusion_reason_of(device)))
        .collect())
}

fn check_device_exists(gantry: &Gantry, config: &Config, name: &str, origin: &Origin) -> Result<(), Error> {
    let models = config::names_of_models(config);
    // The name of a driver in this build stands for all its devices, which differ between machines.
    let is_driver = devices().any(|(driver, _)| driver == name);
    if gantry.device(name).is_some() || is_driver || models.iter().any(|model| model == name) {
        return Ok(());
    }
    // There are many models that are off. List them only if the name looks like a model's.
    let models = models.iter().filter(|_| name.starts_with("model"));
    let names = gantry.devices().iter().map(gantry_core::RegisteredDevice::name).chain(models.map(String::as_str));
    let names: Vec<&str> = names.collect();
    let problem = format!("there is no device '{name}'{}", suggest(name, &names));
    Err(Error::Setting { origin: origin.clone(), problem })
}

/// Compiles and runs the Rust of this page in `cargo test`.
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
    fn software_comes_first_and_null_is_off_by_default() {
        use gantry_core::DeviceState;
        let state = |gantry: &Gantry, name| gantry.device(name).unwrap().state();
        let gantry = with(&[]).unwrap();
        let names: Vec<&str> = gantry.devices().iter().map(gantry_core::RegisteredDevice::name).collect();
        let listed: Vec<&str> = devices().map(|(name, _)| name).collect();
        assert_eq!(names, listed, "drivers::configured_drivers and devices() name the same devices, in the same order");
        assert_eq!(names[0], config::devices::FALLBACK_DEVICE);
        assert!(matches!(state(&gantry, "afalg"), DeviceState::Excluded(why) if why.contains("off by default")));
        assert!(matches!(state(&gantry, "null"), DeviceState::Excluded(why) if why.contains("off by default")));

        let gantry = with(&[("devices", "null=on,lanes=off")]).unwrap();
        assert_eq!(state(&gantry, "null"), DeviceState::Ready);
        let why = "turned off by --set devices=null=on,lanes=off".to_owned();
        assert_eq!(state(&gantry, "lanes"), DeviceState::Excluded(why));
    }

    #[test]
    #[cfg(feature = "software")]
    fn opens_with_the_configured_policy() {
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
    fn the_configured_cpu_level_reaches_the_lanes() {
        for level in gantry_driver_lanes::LevelName::ALL {
            let gantry = with(&[("cpu", level.as_str())]).unwrap();
            let found = gantry_driver_lanes::Level::detect_at_most(Some(level)).name();
            let description = &gantry.device("lanes").unwrap().details().unwrap().description;
            assert!(description.contains(found.as_str()), "{description}");
        }
    }

    #[test]
    #[cfg(feature = "software")]
    fn refuses_names_of_unknown_devices() {
        let wrong = |key, value| with(&[(key, value)]).unwrap_err();
        assert!(wrong("policy", "pin:softwar").ends_with("there is no device 'softwar'; did you mean software?"));
        assert!(wrong("policy", "size-threshold:9,software,gpu").contains("there is no device 'gpu'"));
        assert!(wrong("devices.gpu", "off").contains("there is no device 'gpu'"));
        #[cfg(feature = "null")]
        assert!(wrong("policy", "pin:null").contains("the policy names the device 'null', which is off by default"));
    }

    #[test]
    #[cfg(all(feature = "software", not(any(feature = "afalg", feature = "dpdk"))))]
    fn lines_about_drivers_of_other_builds_are_ignored() {
        let lines =
            [("devices.afalg", "on"), ("devices.afalg:cpu", "off"), ("devices.dpdk", "[\"a\"]"), ("dpdk.memory", "9")];
        with(&lines).unwrap();
    }

    #[test]
    #[cfg(feature = "model")]
    fn models_are_off_by_default_and_match_software() {
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
        let (configured, software) = (with(&settings).unwrap(), with(&[("policy", "pin:software")]).unwrap());
        assert_eq!(digest(&configured).unwrap(), digest(&software).unwrap());

        let faulty = with(&[("faults", "gone=0"), ("devices", "model:faulty=on")]).unwrap();
        let why = faulty.device("model:faulty").unwrap().admit(Algorithm::Sha256).unwrap_err();
        assert!(why.to_string().ends_with("the device is gone"), "{why}");
    }

    #[test]
    #[cfg(feature = "model")]
    fn errors_of_invalid_models_have_the_reason() {
        let wrong = |key, value| with(&[(key, value)]).unwrap_err();
        assert!(
            wrong("models.mine", "like=kirkwood,ring=0")
                .ends_with("the model 'mine': the ring must have 1 to 65536 places")
        );
        assert!(wrong("models", "mine").ends_with("models takes a name: models.NAME = \"like=kirkwood,ring=8\""));
        assert!(wrong("faults", "errors=1/0").contains("'errors=1/0' is not a valid fault"));
        assert!(wrong("devices.model:kirkwod", "on").ends_with("did you mean model:kirkwood?"));
        let off = wrong("policy", "pin:model:kirkwood");
        assert!(off.contains("the policy names the device 'model:kirkwood', which is off by default"), "{off}");
        let mut config = Config::default();
        config.set("models.odd", "like=kirkwood,null=1+1", "odd").unwrap();
        config.set("devices.model:odd", "on", "on").unwrap();
        let problem_text = open(config).unwrap_err().to_string();
        assert_eq!(problem_text, "odd: the model 'odd': the reference does not run null");
    }
}
