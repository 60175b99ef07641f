//! What frameworks with different policies over the same devices share, and devices that come while it is there.

use std::sync::Arc;

use super::calibrate::Calibrations;
use super::candidates::Candidates;
use super::common::Common;
use super::device::RegisteredDevice;
use super::registry::Registry;
use crate::algorithm::Algorithm;
use crate::driver::{Driver, Found};
use crate::route::Candidate;

/// What frameworks with different policies over the same devices share.
pub(crate) struct Devices {
    registry: Registry,
    pub(crate) common: Arc<Common>,
    pub(super) candidates: Candidates,
    pub(super) calibrations: Calibrations,
}

impl Devices {
    pub(crate) fn new(devices: Vec<RegisteredDevice>, common: Common, calibrations: Calibrations) -> Self {
        let common = Arc::new(common);
        for (place, device) in devices.iter().enumerate() {
            device.place_in(place, &common);
        }
        Self { registry: Registry::new(devices), common, candidates: Candidates::default(), calibrations }
    }

    #[inline]
    pub(super) fn list(&self) -> &[RegisteredDevice] {
        self.registry.devices()
    }

    /// The devices that offer an algorithm.
    pub(super) fn candidates(&self, algorithm: Algorithm) -> Arc<[Candidate]> {
        self.candidates.get_or_make(algorithm, || {
            let devices = self.list().iter().enumerate();
            devices.filter_map(|(place, device)| device.candidate(place, algorithm)).collect()
        })
    }

    /// Adds the devices that a driver finds now and that are not served yet. Returns their names.
    pub(super) fn discover(&self, driver: &dyn Driver, exclude: impl Fn(&str) -> Option<String>) -> Vec<String> {
        let mut come = Vec::new();
        let mut growing = self.registry.grow();
        for found in driver.discover() {
            let Found::Device(device) = found else { continue };
            let info = device.info();
            let (name, class) = (info.name.clone(), info.class);
            let before = self.list().iter().rev().find(|device| device.name() == name);
            if before.is_some_and(RegisteredDevice::is_ready) || exclude(&name).is_some() {
                continue;
            }
            let Some(place) = growing.next() else { break };
            if let Some(before) = before {
                before.retire();
            }
            let device = RegisteredDevice::new(device);
            device.place_in(place, &self.common);
            self.common.stats.add_device(name.clone(), class);
            growing.add(device);
            come.push(name);
        }
        if !come.is_empty() {
            self.candidates.forget();
        }
        come
    }
}
