//! The framework of a process: its devices and its routing policy.

use std::fmt;
use std::sync::{Arc, Weak};

use crate::algorithm::{Algorithm, Operation};
use crate::clock::Clock;
use crate::devices::{
    CalibrationContext, Calibrations, Candidates, CommonState, Learner, RegisteredDevice, Registry, cost_records,
    import_record,
};
use crate::driver::{DeviceInfo, Driver, Found};
use crate::request::List;
use crate::route::{
    Ask, Calibrator, Candidate, CostRecord, Costs, Ledgers, Measurement, Policy, Question, Route, learn,
};
use crate::stats::{Snapshot, Stats};

/// The framework of a process: its devices and its routing policy. Cheap to clone.
///
/// Programs get one from `gantry-runtime`, which knows the drivers and the configuration.
#[derive(Clone)]
pub struct Gantry {
    inner: Arc<Inner>,
}

struct Inner {
    devices: Arc<Devices>,
    policy: Box<dyn Policy>,
    ledgers: Ledgers,
}

impl Gantry {
    pub(crate) fn assemble(devices: Arc<Devices>, policy: Box<dyn Policy>) -> Self {
        Self { inner: Arc::new(Inner { devices, policy, ledgers: Ledgers::new() }) }
    }

    /// Returns every device that was found, including unused ones, in the order of registration. [`discover`](Self::discover) may add
    /// devices.
    pub fn devices(&self) -> &[RegisteredDevice] {
        self.inner.devices.list()
    }

    /// Returns the device with this name. If a device replaced another of this name, returns the latest.
    pub fn device(&self, name: &str) -> Option<&RegisteredDevice> {
        self.devices().iter().rev().find(|device| device.name() == name)
    }

    /// Runs a driver's discovery again, for devices that were plugged in. Adds new devices, and devices that replace a quarantined or
    /// excluded one of the same name; a quarantined one is then retired. `exclude` gets the description of each device that may be added;
    /// if it returns a reason, the device is not added. Returns the names of the added devices.
    ///
    /// An added device serves sessions made later, each algorithm after its known-answer test. Older sessions and their requests do not
    /// change. A framework has at most 64 devices, including retired ones.
    ///
    /// A removed device needs no call: it fails, its requests run on other devices, and it stays in quarantine.
    pub fn discover(&self, driver: &dyn Driver, exclude: impl Fn(&DeviceInfo) -> Option<String>) -> Vec<String> {
        self.inner.devices.discover(driver, exclude)
    }

    /// Returns the routing policy.
    pub fn policy(&self) -> &dyn Policy {
        &*self.inner.policy
    }

    /// Returns a framework with the same devices, trust and counters, under another policy.
    #[must_use]
    pub fn with_policy(&self, policy: impl Policy + 'static) -> Gantry {
        Self::assemble(self.inner.devices.clone(), Box::new(policy))
    }

    /// Returns the clock of this framework.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.common().clock
    }

    /// Measures the devices that offer an operation and are not fully measured yet, or with `anew` all that offer it. This takes up to
    /// about 0.1 s per device. Learned policies start a shorter measurement themselves when it pays.
    pub fn calibrate(&self, algorithm: Algorithm, operation: Operation, anew: bool) {
        self.inner.devices.calibrations.calibrate(self.calibration_context(), algorithm, operation, anew);
    }

    /// Stops loading and storing costs. For programs whose filter of system calls ends them if they open a file.
    pub fn close_cost_store(&self) {
        self.inner.devices.calibrations.close_store();
    }

    /// Counts about `ns` nanoseconds of work that a caller did itself. `own` is the name of the caller's own device. After enough work,
    /// loads the costs kept by earlier processes. After more work, measures unknown devices, a fraction of a millisecond at a time.
    ///
    /// Returns `true` once the calibration is over. Before the calibration begins, returns `true` if the costs of `own` and of another
    /// device are known.
    pub(crate) fn count_work(&self, own: &str, algorithm: Algorithm, operation: Operation, ns: u32) -> bool {
        let ledgers = &self.inner.ledgers;
        let ledger = ledgers.ledger(algorithm, operation);
        if ledgers.count_work(ns) {
            if ledger.loading_pays(ns) {
                self.load_costs();
            }
            ledger.tick(ns);
            if ledger.calibration_pays() {
                self.continue_calibration(algorithm, operation);
            }
        }
        let devices = self.devices();
        // Loading may leave the costs of the caller or of the others unknown, because kept costs of another release are ignored.
        let is_known = |is_own: bool| {
            let mut side = devices.iter().filter(|device| (device.name() == own) == is_own);
            side.any(|device| device.costs(algorithm, operation).is_some_and(Costs::is_known))
        };
        ledger.is_calibration_over_for(devices.len())
            || (!ledger.calibration_pays() && is_known(true) && is_known(false))
    }

    /// Returns the known costs of the devices, as plain data.
    pub fn costs(&self) -> Vec<CostRecord> {
        cost_records(self.devices())
    }

    /// Takes over costs that [`costs`](Self::costs) returned. Ignores implausible records, and records of devices that this framework
    /// lacks.
    pub fn import_costs(&self, costs: &[CostRecord]) {
        for record in costs {
            import_record(self.devices(), record);
        }
    }

    /// Returns the problems with the [`CostStore`](crate::route::CostStore), for the operator. They do not affect requests.
    pub fn warnings(&self) -> Vec<String> {
        self.inner.devices.calibrations.warnings()
    }

    /// Returns a snapshot of the counters.
    pub fn stats(&self) -> Snapshot {
        self.common().stats.snapshot()
    }

    /// Publishes a snapshot now, through the function given to [`GantryBuilder::publish`](crate::GantryBuilder::publish).
    pub fn publish(&self) {
        self.common().stats.publish();
    }

    /// Returns a reference that does not keep the framework alive.
    pub fn downgrade(&self) -> WeakGantry {
        WeakGantry { inner: Arc::downgrade(&self.inner) }
    }

    /// Returns `true` if both frameworks have the same devices.
    pub(crate) fn shares_devices_with(&self, other: &Gantry) -> bool {
        Arc::ptr_eq(&self.inner.devices, &other.inner.devices)
    }

    /// Returns the devices that offer an algorithm.
    pub(crate) fn candidates(&self, algorithm: Algorithm) -> Arc<[Candidate]> {
        self.inner.devices.candidates(algorithm)
    }

    #[inline]
    pub(crate) fn common(&self) -> &CommonState {
        &self.inner.devices.common
    }

    /// Returns the counters.
    #[inline]
    pub(crate) fn counters(&self) -> &Stats {
        &self.common().stats
    }

    /// Returns `n` if one in `n` requests is verified; 0 if none is.
    #[inline]
    pub(crate) fn verify_one_in(&self) -> u32 {
        self.common().verify_one_in
    }

    fn calibration_context(&self) -> CalibrationContext<'_> {
        CalibrationContext { devices: self.devices(), ledgers: &self.inner.ledgers, clock: &**self.clock() }
    }

    /// Retries quarantined devices whose time in quarantine is over.
    #[inline]
    pub(crate) fn retry_quarantined(&self) {
        if self.common().quarantined() != 0 {
            self.devices().iter().for_each(RegisteredDevice::advance_probation);
        }
    }

    /// Asks the policy. `declined` is a bit mask of devices that do not serve the session. `hypothetical`: no request follows.
    #[inline]
    pub(crate) fn ask(
        &self,
        algorithm: Algorithm,
        candidates: &[Candidate],
        question: &Question<'_>,
        declined: u64,
        hypothetical: bool,
    ) -> Option<Route> {
        self.policy().route(&self.policy_question(algorithm, candidates, question, declined, hypothetical))
    }

    #[inline]
    pub(crate) fn policy_question<'a>(
        &'a self,
        algorithm: Algorithm,
        candidates: &'a [Candidate],
        question: &'a Question<'a>,
        declined: u64,
        hypothetical: bool,
    ) -> Ask<'a> {
        let excluded = question.tried_devices | declined | self.common().quarantined();
        let ledgers = &self.inner.ledgers;
        Ask { algorithm, question, candidates, excluded, hypothetical, ledgers, calibrator: self }
    }

    /// Returns the start time of requests that are to be measured, by the clock of their device.
    #[cold]
    pub(crate) fn measurement_start(&self, candidate: &Candidate) -> u64 {
        let clock = &**self.clock();
        self.inner.ledgers.meter(clock, candidate.info.class, candidate.capability.synchronous).now(clock)
    }

    /// Records the duration of requests that came back during the call that sent them.
    #[cold]
    pub(crate) fn learn(
        &self,
        target: (Algorithm, Operation),
        route: Route,
        requests: usize,
        bytes: usize,
        started: u64,
    ) {
        let measured = Measurement {
            ledgers: &self.inner.ledgers,
            clock: &**self.clock(),
            algorithm: target.0,
            operation: target.1,
            device: route.device,
            reason: route.reason,
            requests,
            bytes,
            started,
            requests_ahead: 0,
            cpu_ns: None,
        };
        learn(&self.candidates(target.0), &measured);
    }

    /// Returns the learner for queue pairs, which measure their requests later.
    #[inline]
    pub(crate) fn learner(&self) -> Learner<'_> {
        Learner { ledgers: &self.inner.ledgers, candidates: &self.inner.devices.candidates }
    }

    /// Offers waiting requests to a device's shared queue pairs, after polling these if `poll` is set.
    pub(crate) fn serve(&self, device: usize, poll: bool, returned: &mut List) {
        self.devices()[device].serve(self.common(), self.learner(), poll, returned);
    }
}

impl Calibrator for Gantry {
    fn load_costs(&self) -> bool {
        self.inner.devices.calibrations.load(self.devices())
    }

    fn continue_calibration(&self, algorithm: Algorithm, operation: Operation) -> bool {
        self.inner.devices.calibrations.advance(self.calibration_context(), algorithm, operation)
    }
}

/// A weak reference to a [`Gantry`].
#[derive(Clone)]
pub struct WeakGantry {
    inner: Weak<Inner>,
}

impl WeakGantry {
    /// Returns the framework, if it or one of its sessions still exists.
    pub fn upgrade(&self) -> Option<Gantry> {
        Some(Gantry { inner: self.inner.upgrade()? })
    }
}

impl fmt::Debug for Gantry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.devices().iter().map(RegisteredDevice::name).collect();
        f.debug_struct("Gantry").field("devices", &names).field("policy", &self.inner.policy).finish()
    }
}

/// The state shared by frameworks with different policies over the same devices.
pub(crate) struct Devices {
    registry: Registry,
    pub(crate) common: Arc<CommonState>,
    pub(crate) candidates: Candidates,
    pub(crate) calibrations: Calibrations,
}

impl Devices {
    pub(crate) fn new(devices: Vec<RegisteredDevice>, common: CommonState, calibrations: Calibrations) -> Self {
        let common = Arc::new(common);
        for (index, device) in devices.iter().enumerate() {
            device.set_environment(index, &common);
        }
        Self { registry: Registry::new(devices), common, candidates: Candidates::default(), calibrations }
    }

    #[inline]
    pub(crate) fn list(&self) -> &[RegisteredDevice] {
        self.registry.devices()
    }

    /// Returns the devices that offer an algorithm.
    pub(crate) fn candidates(&self, algorithm: Algorithm) -> Arc<[Candidate]> {
        self.candidates.get_or_make(algorithm, || {
            let devices = self.list().iter().enumerate();
            devices.filter_map(|(index, device)| device.candidate(index, algorithm)).collect()
        })
    }

    /// Adds the devices that a driver finds now and that are not in use. Returns their names.
    pub(crate) fn discover(&self, driver: &dyn Driver, exclude: impl Fn(&DeviceInfo) -> Option<String>) -> Vec<String> {
        let mut added = Vec::new();
        let mut growing = self.registry.lock_growth();
        for found in driver.discover() {
            let Found::Device(device) = found else { continue };
            let info = device.info();
            let (name, class) = (info.name.clone(), info.class);
            let namesake = self.list().iter().rev().find(|device| device.name() == name);
            if namesake.is_some_and(RegisteredDevice::is_ready) || exclude(info).is_some() {
                continue;
            }
            let Some(index) = growing.next_index() else { break };
            if let Some(replaced) = namesake {
                replaced.retire();
            }
            let device = RegisteredDevice::new(device);
            device.set_environment(index, &self.common);
            self.common.stats.add_device(name.clone(), class);
            growing.add(device);
            added.push(name);
        }
        if !added.is_empty() {
            self.candidates.clear();
        }
        added
    }
}
