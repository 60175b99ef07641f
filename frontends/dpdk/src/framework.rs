//! The framework of this process.

use std::sync::{Mutex, OnceLock, PoisonError};

use gantry::{Algorithm, DeviceState, Gantry, RegisteredDevice};
use gantry_runtime::Config;

static GANTRY: OnceLock<Gantry> = OnceLock::new();

/// Opens it, unless that is done.
///
/// # Errors
/// What is wrong with the configuration, in words.
pub(crate) fn open() -> Result<(), String> {
    static OPENING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    if GANTRY.get().is_some() {
        return Ok(());
    }
    let mut config = Config::from_env().map_err(|error| error.to_string())?;
    // DPDK runs in this process already, as the program has started it: its devices are not the framework's to configure, and
    // the vdev of this PMD may be among those that are listed.
    config.set("devices.dpdk", "off", "crypto_gantry").map_err(|error| error.to_string())?;
    let gantry = gantry_runtime::open(config).map_err(|error| error.to_string())?;
    let _ = GANTRY.set(gantry);
    Ok(())
}

/// The framework, once it is open.
pub(crate) fn get() -> Option<&'static Gantry> {
    GANTRY.get()
}

/// The algorithm of this name, if a device of the framework serves it.
pub(crate) fn served(name: &str) -> Option<Algorithm> {
    let algorithm: Algorithm = name.parse().ok()?;
    serves(get()?, algorithm).then_some(algorithm)
}

/// Whether a device serves an algorithm.
pub(crate) fn serves(gantry: &Gantry, algorithm: Algorithm) -> bool {
    let serves = |device: &RegisteredDevice| device.capability(algorithm).is_some();
    gantry.devices().iter().any(|device| device.state() == DeviceState::Ready && serves(device))
}
