//! The frameworks that tests run on.

use gantry::Gantry;
use gantry_driver_lanes::{LanesDriver, Level, LevelName};
use gantry_driver_software::SoftwareDriver;

/// Software alone.
pub(crate) fn gantry() -> Gantry {
    Gantry::builder().driver(&SoftwareDriver).build()
}

/// Software alone, and with lanes of each level before it.
pub(crate) fn devices() -> Vec<Gantry> {
    let lanes = LevelName::ALL.into_iter().map(|name| {
        let lanes = LanesDriver::new(Level::detect_at_most(Some(name)));
        Gantry::builder().driver(&lanes).driver(&SoftwareDriver).build()
    });
    std::iter::once(gantry()).chain(lanes).collect()
}

pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}
