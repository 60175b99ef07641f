use std::sync::Arc;

use gantry_core::driver::{Device, Driver, Found};
use gantry_driver_model::{FaultPlan, Faults, ModelDriver, PROFILES, Profile, Time};

use crate::{Config, Error, Origin};

/// What the names of modelled devices begin with.
const PREFIX: &str = "model:";

/// The device that modelled ones ask for their results.
pub fn reference() -> Arc<dyn Device> {
    let found = gantry_driver_software::SoftwareDriver.discover();
    let device = found.into_iter().find_map(|found| match found {
        Found::Device(device) => Some(device),
        Found::Excluded { .. } => None,
    });
    device.expect("the software device is there on every machine")
}

/// A profile of the configuration.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) profile: Profile,
    /// As it was written.
    pub(crate) text: String,
}

impl Model {
    pub(crate) fn new(name: &str, text: &str) -> Result<Self, String> {
        let profile = Profile::parse(name, text).map_err(|absurd| absurd.to_string())?;
        Ok(Self { profile, text: text.to_owned() })
    }
}

/// What goes wrong with `model:faulty`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    pub(crate) plan: FaultPlan,
    /// As it was written.
    pub(crate) text: String,
}

impl Plan {
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        Ok(Self { plan: text.parse()?, text: text.to_owned() })
    }
}

/// The names of all modelled devices, most of which are off.
pub(crate) fn names(config: &Config) -> Vec<String> {
    profiles(config).map(|profile| format!("{PREFIX}{}", profile.name)).collect()
}

/// Those that are on.
pub(crate) fn drivers(config: &Config) -> Result<Vec<Box<dyn Driver>>, Error> {
    let on = profiles(config).filter(|profile| config.excluded(&format!("{PREFIX}{}", profile.name)).is_none());
    let driver = |profile: &Profile| {
        let faults = Faults::default();
        if profile.name == "faulty" {
            faults.plan(config.faults.value.plan);
        }
        let driver = ModelDriver::with_faults(profile.clone(), reference(), Time::real(), faults);
        let driver = driver.map_err(|absurd| {
            let origin = config.models.get(&*profile.name).map_or(Origin::Default, |setting| setting.origin.clone());
            Error::Setting { origin, problem: absurd.to_string() }
        })?;
        Ok(Box::new(driver) as Box<dyn Driver>)
    };
    on.map(driver).collect()
}

/// Those of the configuration, and those that are built in under names that it does not use.
fn profiles(config: &Config) -> impl Iterator<Item = &Profile> {
    let built_in = PROFILES.iter().filter(|profile| !config.models.contains_key(&*profile.name));
    config.models.values().map(|setting| &setting.value.profile).chain(built_in)
}
