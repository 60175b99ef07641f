//! Assembling a framework.

use std::sync::Arc;
use std::time::Duration;

use crate::algorithm::{Result, SessionParams};
use crate::clock::{Clock, RealClock};
use crate::devices::{Calibrations, Common, RegisteredDevice};
use crate::dispatch::{Devices, Gantry};
use crate::driver::{Driver, Found};
use crate::route::{CostStore, Learned, Policy};
use crate::stats::{MOST_DEVICES, Memory, Publisher, Snapshot, Stats};

use super::session::Session;

impl Gantry {
    /// A framework without devices yet.
    pub fn builder() -> GantryBuilder {
        GantryBuilder {
            devices: Vec::new(),
            policy: Box::new(Learned::Latency),
            costs: None,
            clock: Arc::new(RealClock::default()),
            counting: true,
            publisher: None,
            memory: None,
            verify: 0,
        }
    }

    /// A session: `params` are checked now, devices are asked when the first route leads to them.
    pub fn session(&self, params: SessionParams) -> Result<Session> {
        Session::new(self.clone(), params)
    }
}

/// Assembles a [`Gantry`].
pub struct GantryBuilder {
    devices: Vec<RegisteredDevice>,
    policy: Box<dyn Policy>,
    clock: Arc<dyn Clock>,
    counting: bool,
    publisher: Option<Publisher>,
    memory: Option<&'static dyn Memory>,
    verify: u32,
    costs: Option<Arc<dyn CostStore>>,
}

impl GantryBuilder {
    /// Adds every device that the driver discovers. The order of drivers is the order of preference between equals.
    #[must_use]
    pub fn driver(self, driver: &dyn Driver) -> Self {
        self.driver_with(driver, |_| None)
    }

    /// Adds what the driver discovers; `exclude` is asked for each device by its name, and may give the reason why it is
    /// not to be used.
    #[must_use]
    pub fn driver_with(mut self, driver: &dyn Driver, exclude: impl Fn(&str) -> Option<String>) -> Self {
        for found in driver.discover() {
            let device = match found {
                Found::Device(device) => {
                    let (name, class) = (device.info().name.clone(), device.info().class);
                    let full = (self.devices.len() >= MOST_DEVICES)
                        .then(|| format!("a framework has {MOST_DEVICES} devices at most"));
                    match exclude(&name).or(full) {
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

    /// Another policy than [`Learned::Latency`].
    #[must_use]
    pub fn policy(mut self, policy: impl Policy + 'static) -> Self {
        self.policy = Box::new(policy);
        self
    }

    /// Another clock than [`RealClock`]: the one that the modelled devices have.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Computes one in `every` requests of each thread once more on software and compares; 0 for none. Where they differ the
    /// caller gets what software says, and the device is quarantined. Steps of streams are not verified.
    #[must_use]
    pub fn verify(mut self, every: u32) -> Self {
        self.verify = every;
        self
    }

    /// Whether anything is counted; it is unless this is called. What counting costs is measured with it.
    #[must_use]
    pub fn counting(mut self, counting: bool) -> Self {
        self.counting = counting;
        self
    }

    /// Hands a snapshot to `publish` at most once in `every`, by the thread of a request that is timed, and a last one when the
    /// framework and its sessions are gone. There is no other thread: while no requests come, nothing is published.
    #[must_use]
    pub fn publish(mut self, every: Duration, publish: impl Fn(&Snapshot) + Send + Sync + 'static) -> Self {
        self.publisher = Some(Publisher { every, publish: Box::new(publish) });
        self
    }

    /// Counts in memory that others can read meanwhile.
    #[must_use]
    pub fn stats_memory(mut self, memory: &'static dyn Memory) -> Self {
        self.memory = Some(memory);
        self
    }

    /// Keeps the costs of devices here, so that the next process need not measure them again.
    #[must_use]
    pub fn cost_store(mut self, store: Arc<dyn CostStore>) -> Self {
        self.costs = Some(store);
        self
    }

    /// The framework.
    pub fn build(self) -> Gantry {
        let Self { devices, policy, clock, counting, publisher, memory, verify, costs } = self;
        let names = devices.iter().map(|device| (device.name().to_owned(), device.class())).collect();
        let stats = Stats::new(counting, names, clock.clone(), publisher, memory);
        let common = Common::new(clock, stats, verify);
        Gantry::assemble(Arc::new(Devices::new(devices, common, Calibrations::new(costs))), policy)
    }
}
