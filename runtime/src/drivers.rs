use gantry::driver::Driver;

use crate::Config;

/// The device that serves when no other does.
pub(crate) const LAST_RESORT: &str = "software";

/// The devices that the drivers of this build find on every machine, and whether they are used unless the
/// configuration says otherwise.
pub(crate) const DEVICES: &[(&str, bool)] = &[
    (LAST_RESORT, true),
    #[cfg(feature = "lanes")]
    ("lanes", true),
    // No cryptography: nobody should meet it by accident.
    #[cfg(feature = "null")]
    ("null", false),
];

/// In the order of preference between equals.
pub(crate) fn all(config: &Config) -> Vec<Box<dyn Driver>> {
    // Read by the lanes alone.
    let _ = config;
    vec![
        Box::new(gantry_driver_software::SoftwareDriver),
        #[cfg(feature = "lanes")]
        Box::new(lanes(config)),
        #[cfg(feature = "null")]
        Box::new(gantry_driver_null::NullDriver),
    ]
}

#[cfg(feature = "lanes")]
fn lanes(config: &Config) -> gantry_driver_lanes::LanesDriver {
    use gantry_driver_lanes::{LanesDriver, Level};
    // What is no level is `auto`: the keys let nothing else through.
    LanesDriver::new(Level::detect_at_most(config.cpu.value.parse().ok()))
}
