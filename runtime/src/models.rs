use std::sync::Arc;

use gantry_core::driver::{Device, Driver, Found};
use gantry_driver_model::{FaultInjector, ModelClock, ModelDriver, Profile};

use crate::config::models;
use crate::{Config, Error, Origin};

/// Returns the device that computes the results of modelled devices.
pub fn reference() -> Arc<dyn Device> {
    let found = gantry_driver_software::SoftwareDriver.discover();
    let device = found.into_iter().find_map(|found| match found {
        Found::Device(device) => Some(device),
        Found::Excluded { .. } => None,
    });
    device.expect("every machine has the software device")
}

/// Returns the drivers of the modelled devices that are on.
pub(crate) fn drivers(config: &Config) -> Result<Vec<Box<dyn Driver>>, Error> {
    let enabled =
        models::profiles(config).filter(|profile| config.exclusion_reason(&models::device_name(profile)).is_none());
    let driver = |profile: &Profile| {
        let faults = FaultInjector::default();
        if profile.name == "faulty" {
            faults.set_plan(config.faults.value.plan);
        }
        let driver = ModelDriver::with_faults(profile.clone(), reference(), ModelClock::real(), faults);
        let driver = driver.map_err(|error| {
            let origin = config.models.get(&*profile.name).map_or(Origin::Default, |setting| setting.origin.clone());
            Error::Setting { origin, problem: error.to_string() }
        })?;
        Ok(Box::new(driver) as Box<dyn Driver>)
    };
    enabled.map(driver).collect()
}
