//! Assembles a framework.

use std::sync::Arc;
use std::time::Duration;

use crate::algorithm::{Result, SessionParams};
use crate::clock::{Clock, RealClock};
use crate::devices::{Calibrations, CommonState, RegisteredDevice};
use crate::dispatch::{Devices, Gantry};
use crate::driver::{DeviceInfo, Driver, Found};
use crate::route::{CostStore, Learned, Policy};
use crate::stats::{MAX_DEVICES, Memory, Publisher, Snapshot, Stats};

use super::session::Session;

impl Gantry {
    /// Returns a builder of a framework, as yet without devices.
    pub fn builder() -> GantryBuilder {
        GantryBuilder {
            devices: Vec::new(),
            policy: Box::new(Learned::Latency),
            costs: None,
            clock: Arc::new(RealClock::default()),
            is_counting: true,
            publisher: None,
            memory: None,
            verify_one_in: 0,
        }
    }

    /// Creates a session. Checks `params` now; a device sees them when a request is first routed to it.
    pub fn session(&self, params: SessionParams) -> Result<Session> {
        Session::new(self.clone(), params)
    }
}

/// Assembles a [`Gantry`].
pub struct GantryBuilder {
    devices: Vec<RegisteredDevice>,
    policy: Box<dyn Policy>,
    clock: Arc<dyn Clock>,
    is_counting: bool,
    publisher: Option<Publisher>,
    memory: Option<&'static dyn Memory>,
    verify_one_in: u32,
    costs: Option<Arc<dyn CostStore>>,
}

impl GantryBuilder {
    /// Adds every device that the driver discovers. Among equal devices, the device of the earlier driver is preferred.
    #[must_use]
    pub fn driver(self, driver: &dyn Driver) -> Self {
        self.driver_with(driver, |_| None)
    }

    /// Adds the devices that the driver discovers. `exclude` gets each device's description; if it returns a reason, the device is not
    /// used.
    #[must_use]
    pub fn driver_with(mut self, driver: &dyn Driver, exclude: impl Fn(&DeviceInfo) -> Option<String>) -> Self {
        for found in driver.discover() {
            let device = match found {
                Found::Device(device) => {
                    let (name, class) = (device.info().name.clone(), device.info().class);
                    let full_reason = (self.devices.len() >= MAX_DEVICES)
                        .then(|| format!("a framework has {MAX_DEVICES} devices at most"));
                    match exclude(device.info()).or(full_reason) {
                        Some(reason) => RegisteredDevice::excluded(name, class, reason),
                        None => RegisteredDevice::new(device),
                    }
                }
                Found::Excluded { name, class, reason } => RegisteredDevice::excluded(name, class, reason),
            };
            self.devices.push(device);
        }
        self
    }

    /// Replaces the default policy, [`Learned::Latency`].
    #[must_use]
    pub fn policy(mut self, policy: impl Policy + 'static) -> Self {
        self.policy = Box::new(policy);
        self
    }

    /// Replaces the default clock, [`RealClock`]. Modelled devices must use the same clock.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Repeats one in `one_in` requests of each thread in software and compares the results; 0 for none. If they differ, the caller gets
    /// the software result, and the device is quarantined. Steps of streams, randomized signatures and ciphertexts, and keys and secrets
    /// that the device drew at random are not verified.
    #[must_use]
    pub fn verify(mut self, one_in: u32) -> Self {
        self.verify_one_in = one_in;
        self
    }

    /// Turns counters on or off; the default is on. Turning them off shows their cost.
    #[must_use]
    pub fn counting(mut self, counting: bool) -> Self {
        self.is_counting = counting;
        self
    }

    /// Hands a snapshot to `publish` at most once per `interval`. A request that is sampled for timing makes the call, on its own thread. A
    /// last snapshot comes when the framework and its sessions are dropped. Nothing is published while there are no requests.
    #[must_use]
    pub fn publish(mut self, interval: Duration, publish: impl Fn(&Snapshot) + Send + Sync + 'static) -> Self {
        self.publisher = Some(Publisher { interval, publish: Box::new(publish) });
        self
    }

    /// Keeps the counters in memory that other processes can read.
    #[must_use]
    pub fn stats_memory(mut self, memory: &'static dyn Memory) -> Self {
        self.memory = Some(memory);
        self
    }

    /// Keeps the costs of devices in `store`, so that later processes need not measure them.
    #[must_use]
    pub fn cost_store(mut self, store: Arc<dyn CostStore>) -> Self {
        self.costs = Some(store);
        self
    }

    /// Builds the framework.
    pub fn build(self) -> Gantry {
        let Self { devices, policy, clock, is_counting, publisher, memory, verify_one_in, costs } = self;
        let names = devices.iter().map(|device| (device.name().to_owned(), device.class())).collect();
        let stats = Stats::new(is_counting, names, clock.clone(), publisher, memory);
        let common = CommonState::new(clock, stats, verify_one_in);
        Gantry::assemble(Arc::new(Devices::new(devices, common, Calibrations::new(costs))), policy)
    }
}
