//! The drivers of this build, set up from the configuration.

use std::sync::Arc;

#[cfg(any(feature = "afalg", feature = "devcrypto", feature = "dpdk"))]
use gantry_core::driver::Class;
#[cfg(any(feature = "software", feature = "afalg", feature = "devcrypto", feature = "dpdk"))]
use gantry_core::driver::Found;
use gantry_core::driver::{Device, Driver};

use crate::{Config, Error};

/// Returns the drivers; among equal devices, earlier drivers are preferred.
#[cfg_attr(not(feature = "model"), allow(clippy::unnecessary_wraps, reason = "models can be wrong"))]
pub(crate) fn configured_drivers(config: &Config) -> Result<Vec<Box<dyn Driver>>, Error> {
    // Some builds do not use it.
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
    drivers.push(unless_disabled(config, Class::Kernel, gantry_driver_afalg::AfalgDriver::new()));
    #[cfg(feature = "devcrypto")]
    drivers.push(unless_disabled(config, Class::Kernel, gantry_driver_devcrypto::DevcryptoDriver));
    #[cfg(feature = "dpdk")]
    drivers.push(unless_disabled(config, Class::Hardware, dpdk(config)));
    #[cfg(feature = "model")]
    drivers.extend(crate::models::drivers(config)?);
    Ok(drivers)
}

/// Returns the software device, for use without a framework; `None` in builds without it.
pub fn software() -> Option<Arc<dyn Device>> {
    #[cfg(feature = "software")]
    let device = gantry_driver_software::SoftwareDriver
        .discover()
        .into_iter()
        .find_map(|found| if let Found::Device(device) = found { Some(device) } else { None });
    #[cfg(not(feature = "software"))]
    let device = None;
    device
}

/// Boxes a driver that opens devices of the system. If it is turned off, returns a [`DisabledDriver`], which does not touch the system.
#[cfg(any(feature = "afalg", feature = "devcrypto", feature = "dpdk"))]
fn unless_disabled(config: &Config, class: Class, driver: impl Driver + 'static) -> Box<dyn Driver> {
    let name = driver.name();
    match config.exclusion_reason(name) {
        None => Box::new(driver),
        Some(reason) => Box::new(DisabledDriver { name, class, reason }),
    }
}

/// Takes the place of a driver that is turned off.
#[cfg(any(feature = "afalg", feature = "devcrypto", feature = "dpdk"))]
struct DisabledDriver {
    name: &'static str,
    class: Class,
    reason: String,
}

#[cfg(any(feature = "afalg", feature = "devcrypto", feature = "dpdk"))]
impl Driver for DisabledDriver {
    fn name(&self) -> &'static str {
        self.name
    }

    fn discover(&self) -> Vec<Found> {
        vec![Found::Excluded { name: self.name.to_owned(), class: self.class, reason: self.reason.clone() }]
    }
}

#[cfg(feature = "lanes")]
fn lanes(config: &Config) -> gantry_driver_lanes::LanesDriver {
    use gantry_driver_lanes::{LanesDriver, Level};
    // The key accepts `auto` and the names of levels. Only `auto` fails to parse: `None` sets no limit.
    LanesDriver::new(Level::detect_at_most(config.cpu.value.parse().ok()))
}

#[cfg(feature = "dpdk")]
fn dpdk(config: &Config) -> gantry_driver_dpdk::DpdkDriver {
    gantry_driver_dpdk::DpdkDriver::new(config.dpdk.options.clone())
}
