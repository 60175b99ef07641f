//! The framework of a process: its devices, and the policy that chooses between them.

use std::fmt;
use std::sync::{Arc, Weak};

use crate::algorithm::{Algorithm, Operation};
use crate::clock::Clock;
use crate::devices::{
    Calibrations, Candidates, Common, Learner, Machine, RegisteredDevice, Registry, cost_records, take_in_costs,
};
use crate::driver::{Driver, Found};
use crate::request::List;
use crate::route::{
    Ask, Calibrator, Candidate, CostRecord, Costs, Ledgers, Measurement, Policy, Question, Route, learn,
};
use crate::stats::{Snapshot, Stats};

/// The framework of a process: its devices, and the policy that chooses between them. Cheap to clone.
///
/// Programs get one from `gantry-runtime`, which knows the drivers and the configuration.
#[derive(Clone)]
pub struct Gantry {
    inner: Arc<Inner>,
}

struct Inner {
    machine: Arc<Devices>,
    policy: Box<dyn Policy>,
    ledgers: Ledgers,
}

impl Gantry {
    pub(crate) fn assemble(machine: Arc<Devices>, policy: Box<dyn Policy>) -> Self {
        Self { inner: Arc::new(Inner { machine, policy, ledgers: Ledgers::new() }) }
    }

    /// Every device that was found, also those that are not used, in the order of registration. The list grows where devices
    /// [come](Self::discover).
    pub fn devices(&self) -> &[RegisteredDevice] {
        self.inner.machine.list()
    }

    /// The device of this name: the last one, where one has come in the place of another.
    pub fn device(&self, name: &str) -> Option<&RegisteredDevice> {
        self.devices().iter().rev().find(|device| device.name() == name)
    }

    /// Looks again for what a driver discovers, for devices that are plugged in while the program runs: adds those that are new,
    /// or that have the name of one in quarantine, which is retired then. `exclude` is asked for each by its name, and may give the
    /// reason why it is not to be used. Returns the names of those that have come.
    ///
    /// A device that has come serves sessions that are made from then on, each algorithm after its known-answer test. Older
    /// sessions and their requests go on as they are. A framework has 64 devices at most, retired ones among them.
    ///
    /// A device that goes needs no call: it fails, its requests are done elsewhere, and it stays in quarantine.
    pub fn discover(&self, driver: &dyn Driver, exclude: impl Fn(&str) -> Option<String>) -> Vec<String> {
        self.inner.machine.discover(driver, exclude)
    }

    /// What chooses between the devices.
    pub fn policy(&self) -> &dyn Policy {
        &*self.inner.policy
    }

    /// The same devices, with what they have proved and what was counted, under another policy.
    #[must_use]
    pub fn with_policy(&self, policy: impl Policy + 'static) -> Gantry {
        Self::assemble(self.inner.machine.clone(), Box::new(policy))
    }

    /// The time, as everything in this framework sees it.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.common().clock
    }

    /// Measures the devices that offer an operation and are not known yet, or all of them `anew`; some ten milliseconds each.
    /// Learned policies do it themselves when it pays.
    pub fn calibrate(&self, algorithm: Algorithm, operation: Operation, anew: bool) {
        self.inner.machine.calibrations.calibrate(self.machine(), algorithm, operation, anew);
    }

    /// Counts work of a caller that is one of the devices itself, and does this without a request: so many nanoseconds, or about as
    /// many. As with requests, when enough of it has come together, what earlier processes kept is read, and then devices that are not
    /// known are measured, a fraction of a millisecond at a time. Whether something is known, and no measurement under way.
    pub(crate) fn worked(&self, algorithm: Algorithm, operation: Operation, ns: u32) -> bool {
        let ledgers = &self.inner.ledgers;
        let ledger = ledgers.of(algorithm, operation);
        if ledgers.is_due(ns) {
            if ledger.recall_pays(ns) {
                self.recall();
            }
            ledger.tick(ns);
            if ledger.calibration_pays() {
                self.go_on(algorithm, operation);
            }
        }
        let devices = self.devices();
        let kept = || devices.iter().filter_map(|device| device.costs(algorithm, operation)).any(Costs::is_known);
        ledger.is_settled_for(devices.len()) || (!ledger.calibration_pays() && kept())
    }

    /// What is known about the costs of the devices, as plain data.
    pub fn costs(&self) -> Vec<CostRecord> {
        cost_records(self.devices())
    }

    /// Believes costs that [`costs`](Self::costs) gave out earlier. What is about other devices, or makes no sense, is
    /// passed over.
    pub fn believe(&self, costs: &[CostRecord]) {
        for record in costs {
            take_in_costs(self.devices(), record);
        }
    }

    /// What went wrong with the [`CostStore`](crate::route::CostStore), for the operator. Requests are served all the same.
    pub fn warnings(&self) -> Vec<String> {
        self.inner.machine.calibrations.warnings()
    }

    /// What was counted until now.
    pub fn stats(&self) -> Snapshot {
        self.common().stats.snapshot()
    }

    /// Hands a snapshot to whoever [`GantryBuilder::publish`](crate::GantryBuilder::publish) named, now.
    pub fn publish(&self) {
        self.common().stats.publish();
    }

    /// A reference that does not keep the framework alive.
    pub fn downgrade(&self) -> WeakGantry {
        WeakGantry { inner: Arc::downgrade(&self.inner) }
    }

    /// Whether both are over the same devices.
    pub(crate) fn shares_devices_with(&self, other: &Gantry) -> bool {
        Arc::ptr_eq(&self.inner.machine, &other.inner.machine)
    }

    /// The devices that offer an algorithm.
    pub(crate) fn candidates(&self, algorithm: Algorithm) -> Arc<[Candidate]> {
        self.inner.machine.candidates(algorithm)
    }

    #[inline]
    pub(crate) fn common(&self) -> &Common {
        &self.inner.machine.common
    }

    /// Where things are counted.
    #[inline]
    pub(crate) fn counters(&self) -> &Stats {
        &self.common().stats
    }

    /// One in so many requests is verified; 0 for none.
    #[inline]
    pub(crate) fn verifies(&self) -> u32 {
        self.common().verify
    }

    fn machine(&self) -> Machine<'_> {
        Machine { devices: self.devices(), ledgers: &self.inner.ledgers, clock: &**self.clock() }
    }

    /// Gives devices in quarantine the chance to come back, when it is time.
    #[inline]
    pub(crate) fn look_after(&self) {
        if self.common().ailing() != 0 {
            self.devices().iter().for_each(RegisteredDevice::try_again);
        }
    }

    /// Asks the policy. `declined`: devices that do not serve the session, as bits.
    #[inline]
    pub(crate) fn ask(
        &self,
        algorithm: Algorithm,
        candidates: &[Candidate],
        question: &Question<'_>,
        declined: u64,
        hypothetical: bool,
    ) -> Option<Route> {
        self.policy().route(&self.question(algorithm, candidates, question, declined, hypothetical))
    }

    #[inline]
    pub(crate) fn question<'a>(
        &'a self,
        algorithm: Algorithm,
        candidates: &'a [Candidate],
        question: &'a Question<'a>,
        declined: u64,
        hypothetical: bool,
    ) -> Ask<'a> {
        let excluded = question.tried | declined | self.common().ailing();
        let ledgers = &self.inner.ledgers;
        Ask { algorithm, question, candidates, excluded, hypothetical, ledgers, calibrator: self }
    }

    /// When requests begin that are to be measured, by the clock of their device.
    #[cold]
    pub(crate) fn start(&self, candidate: &Candidate) -> u64 {
        let clock = &**self.clock();
        self.inner.ledgers.meter(clock, candidate.info.class, candidate.capability.direct).now(clock)
    }

    /// Takes in how long requests took that were done in the calling thread.
    #[cold]
    pub(crate) fn learn(
        &self,
        what: (Algorithm, Operation),
        route: Route,
        requests: usize,
        bytes: usize,
        started: u64,
    ) {
        let measured = Measurement {
            ledgers: &self.inner.ledgers,
            clock: &**self.clock(),
            algorithm: what.0,
            operation: what.1,
            device: route.device,
            reason: route.reason,
            requests,
            bytes,
            started,
            ahead: 0,
            cpu_ns: None,
        };
        learn(&self.candidates(what.0), &measured);
    }

    /// For lines, which find out later how long their requests took.
    #[inline]
    pub(crate) fn learner(&self) -> Learner<'_> {
        Learner { ledgers: &self.inner.ledgers, candidates: &self.inner.machine.candidates }
    }

    /// Serves the shared lines of a device.
    pub(crate) fn serve(&self, device: usize, poll: bool, back: &mut List) {
        self.devices()[device].serve(self.common(), self.learner(), poll, back);
    }
}

impl Calibrator for Gantry {
    fn recall(&self) -> bool {
        self.inner.machine.calibrations.recall(self.devices())
    }

    fn go_on(&self, algorithm: Algorithm, operation: Operation) -> bool {
        self.inner.machine.calibrations.go_on(self.machine(), algorithm, operation)
    }
}

/// A reference to a [`Gantry`] that may be gone.
#[derive(Clone)]
pub struct WeakGantry {
    inner: Weak<Inner>,
}

impl WeakGantry {
    /// The framework, if it or one of its sessions is still there.
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

/// What frameworks with different policies over the same devices share.
pub(crate) struct Devices {
    registry: Registry,
    pub(crate) common: Arc<Common>,
    pub(crate) candidates: Candidates,
    pub(crate) calibrations: Calibrations,
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
    pub(crate) fn list(&self) -> &[RegisteredDevice] {
        self.registry.devices()
    }

    /// The devices that offer an algorithm.
    pub(crate) fn candidates(&self, algorithm: Algorithm) -> Arc<[Candidate]> {
        self.candidates.get_or_make(algorithm, || {
            let devices = self.list().iter().enumerate();
            devices.filter_map(|(place, device)| device.candidate(place, algorithm)).collect()
        })
    }

    /// Adds the devices that a driver finds now and that are not served yet. Returns their names.
    pub(crate) fn discover(&self, driver: &dyn Driver, exclude: impl Fn(&str) -> Option<String>) -> Vec<String> {
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
