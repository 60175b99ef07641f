use gantry_core::driver::Driver;
#[cfg(any(feature = "afalg", feature = "devcrypto", feature = "dpdk"))]
use gantry_core::driver::{Class, Found};

use crate::{Config, Error};

/// The device that serves when no other does. In a build without it a device of the caller's does.
pub(crate) const LAST_RESORT: &str = "software";

/// The devices that the drivers of this build find on every machine, and whether they are used unless the
/// configuration says otherwise.
pub const DEVICES: &[(&str, bool)] = &[
    #[cfg(feature = "software")]
    (LAST_RESORT, true),
    #[cfg(feature = "lanes")]
    ("lanes", true),
    // No cryptography: nobody should meet it by accident.
    #[cfg(feature = "null")]
    ("null", false),
    // Deprecated by Linux, and seldom faster: nobody should depend on it unknowingly. The name stands for all devices of
    // the driver, `afalg:cpu` and others.
    #[cfg(feature = "afalg")]
    ("afalg", false),
    // The same kernel by another way, which few machines have. `devcrypto:cpu` and `devcrypto:engine`.
    #[cfg(feature = "devcrypto")]
    ("devcrypto", false),
    // Starts DPDK in this process, for good. The name stands for the devices that its value lists.
    #[cfg(feature = "dpdk")]
    (crate::dpdk::NAME, false),
];

/// In the order of preference between equals.
#[cfg_attr(not(feature = "model"), allow(clippy::unnecessary_wraps, reason = "models can be wrong"))]
pub(crate) fn all(config: &Config) -> Result<Vec<Box<dyn Driver>>, Error> {
    // Read by lanes and models alone.
    let _ = config;
    #[allow(unused_mut, reason = "builds without models")]
    let mut drivers: Vec<Box<dyn Driver>> = vec![
        #[cfg(feature = "software")]
        Box::new(gantry_driver_software::SoftwareDriver),
        #[cfg(feature = "lanes")]
        Box::new(lanes(config)),
        #[cfg(feature = "null")]
        Box::new(gantry_driver_null::NullDriver),
    ];
    #[cfg(feature = "afalg")]
    drivers.push(if_wanted(config, Class::Kernel, gantry_driver_afalg::AfalgDriver::new()));
    #[cfg(feature = "devcrypto")]
    drivers.push(if_wanted(config, Class::Kernel, gantry_driver_devcrypto::DevcryptoDriver));
    #[cfg(feature = "dpdk")]
    drivers.push(if_wanted(config, Class::Hardware, dpdk(config)));
    #[cfg(feature = "model")]
    drivers.extend(crate::models::drivers(config)?);
    Ok(drivers)
}

/// A driver that opens the system's devices. Where it is turned off, not even that is done.
#[cfg(any(feature = "afalg", feature = "devcrypto", feature = "dpdk"))]
fn if_wanted(config: &Config, class: Class, driver: impl Driver + 'static) -> Box<dyn Driver> {
    let name = driver.name();
    match config.excluded(name) {
        None => Box::new(driver),
        Some(reason) => Box::new(Untouched { name, class, reason }),
    }
}

/// In the place of a driver that is turned off.
#[cfg(any(feature = "afalg", feature = "devcrypto", feature = "dpdk"))]
struct Untouched {
    name: &'static str,
    class: Class,
    reason: String,
}

#[cfg(any(feature = "afalg", feature = "devcrypto", feature = "dpdk"))]
impl Driver for Untouched {
    fn name(&self) -> &'static str {
        self.name
    }

    fn discover(&self) -> Vec<Found> {
        vec![Found::Excluded { name: self.name.to_owned(), class: self.class, reason: self.reason.clone() }]
    }
}

/// The names of devices that are not even looked for unless the configuration turns them on.
#[cfg(feature = "model")]
pub(crate) use crate::models::names as models;

#[cfg(not(feature = "model"))]
pub(crate) fn models(_config: &Config) -> Vec<String> {
    Vec::new()
}

#[cfg(feature = "lanes")]
fn lanes(config: &Config) -> gantry_driver_lanes::LanesDriver {
    use gantry_driver_lanes::{LanesDriver, Level};
    // What is no level is `auto`: the keys let nothing else through.
    LanesDriver::new(Level::detect_at_most(config.cpu.value.parse().ok()))
}

#[cfg(feature = "dpdk")]
fn dpdk(config: &Config) -> gantry_driver_dpdk::DpdkDriver {
    gantry_driver_dpdk::DpdkDriver::new(config.dpdk.options.clone())
}
