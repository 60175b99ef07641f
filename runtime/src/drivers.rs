use gantry::driver::Driver;

use crate::Config;

/// The device that serves when no other does.
pub(crate) const LAST_RESORT: &str = "software";

/// The devices that the drivers of this build may find on every machine, and whether they are used unless the
/// configuration says otherwise.
pub(crate) const DEVICES: &[(&str, bool)] = &[
    // No cryptography: nobody should meet it by accident.
    #[cfg(feature = "null")]
    ("null", false),
];

/// In the order of preference between equals.
pub(crate) fn all(_config: &Config) -> Vec<Box<dyn Driver>> {
    vec![
        #[cfg(feature = "null")]
        Box::new(gantry_driver_null::NullDriver),
    ]
}
