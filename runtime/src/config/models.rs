//! Settings of modelled devices.

use gantry_driver_model::{FaultPlan, PROFILES, Profile};

use super::Config;

/// A profile from the configuration.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) profile: Profile,
    /// The text as written.
    pub(crate) text: String,
}

impl Model {
    pub(crate) fn new(name: &str, text: &str) -> Result<Self, String> {
        let profile = Profile::parse(name, text).map_err(|error| error.to_string())?;
        Ok(Self { profile, text: text.to_owned() })
    }
}

/// The faults of `model:faulty`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    pub(crate) plan: FaultPlan,
    /// The text as written.
    pub(crate) text: String,
}

impl Plan {
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        Ok(Self { plan: text.parse()?, text: text.to_owned() })
    }
}

/// Returns the name of a modelled device.
pub(crate) fn device_name(profile: &Profile) -> String {
    format!("model:{}", profile.name)
}

/// Returns the names of all modelled devices, most of which are off.
pub(crate) fn names(config: &Config) -> Vec<String> {
    profiles(config).map(device_name).collect()
}

/// Returns the profiles of the configuration, and every built-in profile whose name the configuration does not use.
pub(crate) fn profiles(config: &Config) -> impl Iterator<Item = &Profile> {
    let built_in = PROFILES.iter().filter(|profile| !config.models.contains_key(&*profile.name));
    config.models.values().map(|setting| &setting.value.profile).chain(built_in)
}
