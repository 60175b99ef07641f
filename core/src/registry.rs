//! The devices of a process, and their state.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use crate::backlog::Backlog;
use crate::driver::{Capability, Class, Device, DeviceInfo, DeviceQueue, DeviceSession, Driver, Found, Inline};
use crate::gather::{LONGEST, Meeting, Waits};
use crate::guard::{guarded, survived};
use crate::health::{Deadlines, Trust};
use crate::kat::{self, Failure};
use crate::route::ledger::{Ledgers, Shared, slot};
use crate::route::{CostRecord, CostStore, Costs, Learned, Policy, calibrate};
use crate::session::Candidate;
use crate::stats::{Event, Publisher, Site, Snapshot, Stats};
use crate::{Algorithm, Clock, Fault, Operation, RealClock, Refusal, Result, Session, SessionParams, Unsupported};

/// The framework of a process: its devices, and the policy that chooses between them. Cheap to clone.
///
/// Programs get one from `gantry-runtime`, which knows the drivers and the configuration.
#[derive(Clone)]
pub struct Gantry {
    inner: Arc<Inner>,
}

struct Inner {
    devices: Vec<RegisteredDevice>,
    policy: Box<dyn Policy>,
    ledgers: Ledgers,
    common: Arc<Common>,
}

/// What the frameworks over the same devices have in common.
struct Common {
    clock: Arc<dyn Clock>,
    stats: Stats,
    /// Devices in quarantine.
    ailing: AtomicUsize,
    /// By algorithm.
    meetings: Box<[Meeting]>,
    /// By algorithm, for all of its sessions.
    candidates: Box<[OnceLock<Arc<[Candidate]>>]>,
    waits: Waits,
    /// One in so many requests is verified; 0 for none.
    verify: u32,
}

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
            verify: 0,
            company_wait: LONGEST,
        }
    }

    /// A session: `params` are checked now, devices are asked when the first route leads to them.
    pub fn session(&self, params: SessionParams) -> Result<Session> {
        Session::new(self.clone(), params)
    }

    /// Every device that was found, also those that are not used, in the order of registration.
    pub fn devices(&self) -> &[RegisteredDevice] {
        &self.inner.devices
    }

    /// The device of this name, if it can be used.
    pub fn device(&self, name: &str) -> Option<&RegisteredDevice> {
        self.inner.devices.iter().find(|device| device.name() == name)
    }

    /// What chooses between the devices.
    pub fn policy(&self) -> &dyn Policy {
        &*self.inner.policy
    }

    /// The same devices, with what they have proved and what was counted, under another policy.
    #[must_use]
    pub fn with_policy(&self, policy: impl Policy + 'static) -> Gantry {
        let Inner { devices, common, ledgers, .. } = &*self.inner;
        let (devices, common) = (devices.clone(), common.clone());
        let ledgers = Ledgers::new(ledgers.shared.clone());
        Gantry { inner: Arc::new(Inner { devices, policy: Box::new(policy), ledgers, common }) }
    }

    /// Whether both are over the same devices.
    pub(crate) fn shares_devices_with(&self, other: &Gantry) -> bool {
        Arc::ptr_eq(&self.inner.common, &other.inner.common)
    }

    /// The devices that offer an algorithm.
    pub(crate) fn candidates(&self, algorithm: Algorithm) -> &Arc<[Candidate]> {
        self.inner.common.candidates[algorithm as usize].get_or_init(|| {
            let devices = self.devices().iter().enumerate();
            let offers = devices.filter_map(|(device, entry)| Some((device, entry.capability(algorithm)?.clone())));
            let candidates = offers.map(|(device, capability)| Candidate { device, capability });
            candidates.take(u64::BITS as usize).collect() // the bits of `Ask::tried`
        })
    }

    /// Where requests of an algorithm wait for company.
    pub(crate) fn meeting(&self, algorithm: Algorithm) -> &Meeting {
        &self.inner.common.meetings[algorithm as usize]
    }

    /// One in so many requests is verified; 0 for none.
    #[inline]
    pub(crate) fn verifies(&self) -> u32 {
        self.inner.common.verify
    }

    /// What it costs to let a thread sleep.
    pub(crate) fn waits(&self) -> &Waits {
        &self.inner.common.waits
    }

    /// Gives devices in quarantine the chance to come back, when it is time.
    #[inline]
    pub(crate) fn look_after(&self) {
        if self.inner.common.ailing.load(Ordering::Relaxed) > 0 {
            self.devices().iter().for_each(RegisteredDevice::try_again);
        }
    }

    /// The time, as everything in this framework sees it.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.common.clock
    }

    /// Measures the devices that offer an operation and are not known yet, or all of them `anew`; some ten milliseconds each.
    /// Learned policies do it themselves when it pays.
    pub fn calibrate(&self, algorithm: Algorithm, operation: Operation, anew: bool) {
        calibrate::calibrate(self, algorithm, operation, anew);
    }

    /// What is known about the costs of the devices, as plain data.
    pub fn costs(&self) -> Vec<CostRecord> {
        calibrate::records(self)
    }

    /// Believes costs that [`costs`](Self::costs) gave out earlier. What is about other devices, or makes no sense, is
    /// passed over.
    pub fn believe(&self, costs: &[CostRecord]) {
        for record in costs {
            calibrate::take_in(self, record);
        }
    }

    /// What went wrong with the [`CostStore`], for the operator. Requests are served all the same.
    pub fn warnings(&self) -> Vec<String> {
        self.ledgers().shared.warnings.lock().map_or(Vec::new(), |warnings| warnings.clone())
    }

    #[inline]
    pub(crate) fn ledgers(&self) -> &Ledgers {
        &self.inner.ledgers
    }

    /// What was counted until now.
    pub fn stats(&self) -> Snapshot {
        self.inner.common.stats.snapshot()
    }

    /// Hands a snapshot to whoever [`GantryBuilder::publish`] named, now.
    pub fn publish(&self) {
        self.inner.common.stats.publish();
    }

    /// A reference that does not keep the framework alive.
    pub fn downgrade(&self) -> WeakGantry {
        WeakGantry { inner: Arc::downgrade(&self.inner) }
    }

    /// Where things are counted.
    pub(crate) fn counters(&self) -> &Stats {
        &self.inner.common.stats
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

/// Assembles a [`Gantry`].
pub struct GantryBuilder {
    devices: Vec<RegisteredDevice>,
    policy: Box<dyn Policy>,
    clock: Arc<dyn Clock>,
    counting: bool,
    publisher: Option<Publisher>,
    verify: u32,
    costs: Option<Arc<dyn CostStore>>,
    company_wait: Duration,
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
            self.devices.push(match found {
                Found::Device(device) => match exclude(&device.info().name) {
                    Some(reason) => RegisteredDevice::excluded(device.info().name.clone(), device.info().class, reason),
                    None => RegisteredDevice::new(device),
                },
                Found::Excluded { name, class, reason } => RegisteredDevice::excluded(name, class, reason),
            });
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

    /// How long a thread that asks for one thing at a time waits for company at most, where there are more threads than CPUs and company
    /// saves more than the wait costs. With zero nobody waits. It is a millisecond unless this is called.
    #[must_use]
    pub fn company_wait(mut self, longest: Duration) -> Self {
        self.company_wait = longest;
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

    /// Keeps the costs of devices here, so that the next process need not measure them again.
    #[must_use]
    pub fn cost_store(mut self, store: Arc<dyn CostStore>) -> Self {
        self.costs = Some(store);
        self
    }

    /// The framework.
    pub fn build(self) -> Gantry {
        let Self { devices, policy, clock, counting, publisher, verify, costs, company_wait } = self;
        let ledgers = Ledgers::new(Arc::new(Shared { store: costs, ..Shared::default() }));
        let names = devices.iter().map(|device| (device.name().to_owned(), device.class())).collect();
        let stats = Stats::new(counting, names, clock.clone(), publisher);
        let meetings = Algorithm::ALL.iter().map(|_| Meeting::default()).collect();
        let candidates = Algorithm::ALL.iter().map(|_| OnceLock::new()).collect();
        let waits = Waits::new(company_wait);
        let common =
            Arc::new(Common { clock, stats, ailing: AtomicUsize::new(0), meetings, candidates, waits, verify });
        for (place, device) in devices.iter().enumerate() {
            if let Some(present) = device.present() {
                present.surroundings.get_or_init(|| Surroundings { place, common: common.clone() });
            }
        }
        Gantry { inner: Arc::new(Inner { devices, policy, ledgers, common }) }
    }
}

/// Whether a device serves requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceState {
    /// It does, each algorithm after its known-answer test.
    Ready,
    /// It never did, for this reason.
    Excluded(String),
    /// It did until it failed. It will again when it has passed its known-answer tests, which are repeated from time to time.
    Quarantined,
}

impl Present {
    fn surroundings(&self) -> &Surroundings {
        self.surroundings.get().expect("a device serves nobody before its framework is built")
    }

    fn attach(&self) -> std::result::Result<Box<dyn DeviceQueue>, Fault> {
        let queue = guarded(|| self.device.attach())?;
        if (&*queue as &dyn Any).is::<Inline>() {
            self.inline.store(true, Ordering::Relaxed);
        }
        Ok(queue)
    }

    fn known_answer_test(
        &self,
        capability: &Capability,
        clock: &dyn Clock,
        patience: u64,
    ) -> std::result::Result<u64, Failure> {
        kat::known_answer_test(&*self.device, &|| self.attach(), capability, clock, patience)
    }

    /// Runs a known-answer test for which there is no result yet, when it is time for it.
    fn examine(&self, capability: &Capability) -> std::result::Result<(), Fault> {
        let Surroundings { place, common } = self.surroundings();
        let clock = &*common.clock;
        let Admission { shown, trust, turn } = &self.admissions[capability.algorithm as usize];
        let again = !trust.is_ready();
        let too_early = Fault::Failed("its known-answer test failed a moment ago".into());
        if again && !trust.begin_trial(clock.now()) {
            return Err(too_early);
        }
        let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.get().is_some() {
            return Ok(());
        }
        if !again && !trust.is_ready() {
            return Err(too_early); // the one that we waited for has met a fault
        }
        let fault = match self.known_answer_test(capability, clock, kat::PATIENCE) {
            Err(Failure::Fault(what)) => Fault::failed(format!("failed its known-answer test: {what}")),
            Err(Failure::Wrong(what)) => {
                let _ = shown.set(Err(what));
                return Ok(());
            }
            Ok(took) => {
                let _ = shown.set(Ok(took));
                return Ok(());
            }
        };
        if again {
            trust.judge(false, clock.now());
        } else {
            trust.quarantine(clock.now());
        }
        common.stats.here().fault(site(*place, capability), &fault);
        Err(fault)
    }
}

/// A device as the framework knows it. Cheap to clone.
#[derive(Clone)]
pub struct RegisteredDevice {
    entry: Arc<Entry>,
}

enum Entry {
    Excluded { name: String, class: Class, reason: String },
    Present(Box<Present>),
}

struct Present {
    device: Arc<dyn Device>,
    /// By algorithm.
    admissions: Box<[Admission]>,
    queues: QueuePool,
    /// Its queues are [`Inline`].
    inline: AtomicBool,
    trust: Trust,
    deadlines: Deadlines,
    /// Requests that wait for room.
    backlog: Backlog,
    /// Lines that are nobody's own.
    common: crate::dispatch::Common,
    /// Requests that entered a ring of it, and those that came back: together, what is in it. In-thread devices have none.
    entered: AtomicU64,
    left: AtomicU64,
    surroundings: OnceLock<Surroundings>,
    /// By algorithm and operation.
    costs: Box<[OnceLock<Box<Costs>>]>,
}

/// What a device has shown of an algorithm.
#[derive(Default)]
struct Admission {
    /// What was wrong with the known answers, or how long a batch of them took, in nanoseconds. A fault tells neither.
    shown: OnceLock<std::result::Result<u64, String>>,
    /// After a fault the test is repeated when the device has had time to recover.
    trust: Trust,
    /// Of the threads that need the algorithm, one runs the test.
    turn: Mutex<()>,
}

/// Where a device is.
struct Surroundings {
    /// Its place in the framework.
    place: usize,
    common: Arc<Common>,
}

impl RegisteredDevice {
    fn new(device: Arc<dyn Device>) -> Self {
        let present = Present {
            device,
            admissions: Algorithm::ALL.iter().map(|_| Admission::default()).collect(),
            queues: QueuePool::default(),
            inline: AtomicBool::new(false),
            trust: Trust::default(),
            deadlines: Deadlines::default(),
            backlog: Backlog::default(),
            common: crate::dispatch::Common::default(),
            entered: AtomicU64::new(0),
            left: AtomicU64::new(0),
            surroundings: OnceLock::new(),
            costs: (0..Algorithm::ALL.len() * 2).map(|_| OnceLock::new()).collect(),
        };
        Self { entry: Arc::new(Entry::Present(Box::new(present))) }
    }

    fn excluded(name: String, class: Class, reason: String) -> Self {
        Self { entry: Arc::new(Entry::Excluded { name, class, reason }) }
    }

    /// Unique among the devices of a framework.
    pub fn name(&self) -> &str {
        match &*self.entry {
            Entry::Excluded { name, .. } => name,
            Entry::Present(present) => &present.device.info().name,
        }
    }

    /// The kind of engine.
    pub fn class(&self) -> Class {
        match &*self.entry {
            Entry::Excluded { class, .. } => *class,
            Entry::Present(present) => present.device.info().class,
        }
    }

    /// Whether it serves requests.
    pub fn state(&self) -> DeviceState {
        match &*self.entry {
            Entry::Excluded { reason, .. } => DeviceState::Excluded(reason.clone()),
            Entry::Present(present) if !present.trust.is_ready() => DeviceState::Quarantined,
            Entry::Present(_) => DeviceState::Ready,
        }
    }

    /// What it offers for `algorithm`; nothing when it is excluded.
    pub fn capability(&self, algorithm: Algorithm) -> Option<&Capability> {
        self.capabilities().iter().find(|capability| capability.algorithm == algorithm)
    }

    /// Everything it offers; nothing when it is excluded.
    pub fn capabilities(&self) -> &[Capability] {
        self.present().map_or(&[], |present| &present.device.info().capabilities)
    }

    /// What it is; `None` when it is excluded.
    pub fn details(&self) -> Option<&DeviceInfo> {
        self.present().map(|present| present.device.info())
    }

    /// Runs the known-answer test of `algorithm`, unless it has been run; says what was wrong. A device serves an algorithm
    /// only after this. After a fault the test is run again, though not at once.
    pub fn admit(&self, algorithm: Algorithm) -> std::result::Result<(), Refusal> {
        let present = self.present().ok_or(Unsupported::because("the device is excluded"))?;
        let capability = self.capability(algorithm).ok_or(Unsupported::because("the device does not offer it"))?;
        let shown = &present.admissions[algorithm as usize].shown;
        if shown.get().is_none() {
            present.examine(capability)?;
        }
        match shown.get() {
            Some(Err(what)) => Err(Unsupported::because(format!("failed its known-answer test: {what}")).into()),
            _ => Ok(()),
        }
    }

    fn present(&self) -> Option<&Present> {
        match &*self.entry {
            Entry::Excluded { .. } => None,
            Entry::Present(present) => Some(present),
        }
    }

    /// Only for devices that are some session's candidates, which excluded ones never are.
    pub(crate) fn info(&self) -> &DeviceInfo {
        match &*self.entry {
            Entry::Present(present) => present.device.info(),
            Entry::Excluded { .. } => unreachable!("an excluded device has no capabilities"),
        }
    }

    fn here(&self) -> &Present {
        self.present().expect("an excluded device has no capabilities, so nothing is ever sent to it")
    }

    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        self.present().is_some_and(|present| present.trust.is_ready())
    }

    /// The device failed at `site`. It serves nobody until it has passed its known-answer tests again.
    pub(crate) fn fail(&self, site: Site) {
        let present = self.here();
        let common = &present.surroundings().common;
        if present.trust.quarantine(common.clock.now()) {
            common.ailing.fetch_add(1, Ordering::Relaxed);
            common.stats.here().event(site, Event::Quarantined, 1);
        }
    }

    /// If the device has been in quarantine for long enough, repeats the known-answer tests that it has passed before.
    fn try_again(&self) {
        let Some(present) = self.present() else { return };
        let Surroundings { place, common } = present.surroundings();
        let clock = &*common.clock;
        if present.trust.is_ready() || !present.trust.begin_trial(clock.now()) {
            return;
        }
        // What it has never shown it need not show now.
        let works = self.capabilities().iter().all(|capability| {
            let Some(Ok(took)) = present.admissions[capability.algorithm as usize].shown.get() else { return true };
            present.known_answer_test(capability, clock, kat::patience_again(*took)).is_ok()
        });
        if present.trust.judge(works, clock.now()) {
            common.ailing.fetch_sub(1, Ordering::Relaxed);
            if let Some(first) = self.capabilities().first() {
                common.stats.here().event(site(*place, first), Event::Returned, 1);
            }
        }
    }

    /// What an operation costs on it, as far as that is known. `None` when it is excluded or does not offer the algorithm.
    pub fn costs(&self, algorithm: Algorithm, operation: Operation) -> Option<&Costs> {
        self.capability(algorithm)?;
        Some(self.costs_here(algorithm, operation))
    }

    /// Only for devices that are some session's candidates.
    #[inline]
    pub(crate) fn costs_here(&self, algorithm: Algorithm, operation: Operation) -> &Costs {
        self.here().costs[slot(algorithm, operation)].get_or_init(|| Box::new(Costs::unknown()))
    }

    /// Requests that are in a ring of it or wait for room there.
    pub(crate) fn held(&self) -> u64 {
        let Present { entered, left, backlog, .. } = self.here();
        let left = left.load(Ordering::Relaxed);
        entered.load(Ordering::Relaxed).saturating_sub(left) + backlog.len() as u64
    }

    /// Requests that wait for room.
    #[inline]
    pub(crate) fn backlog(&self) -> &Backlog {
        &self.here().backlog
    }

    /// Notes that the requests in a ring of this device were `before` and are `now`.
    #[inline]
    pub(crate) fn count(&self, before: usize, now: usize) {
        if now > before {
            self.here().entered.fetch_add((now - before) as u64, Ordering::Relaxed);
        } else if before > now {
            self.here().left.fetch_add((before - now) as u64, Ordering::Relaxed);
        }
    }

    /// How many requests have entered its rings, and left.
    pub(crate) fn moved(&self) -> crate::dispatch::Moved {
        let Present { entered, left, .. } = self.here();
        let left = left.load(Ordering::Relaxed);
        (entered.load(Ordering::Relaxed), left)
    }

    /// Its lines that are nobody's own, unless it is excluded.
    #[inline]
    pub(crate) fn common(&self) -> Option<&crate::dispatch::Common> {
        self.present().map(|present| &present.common)
    }

    /// What is counted of it, when it is not about one request.
    pub(crate) fn site(&self) -> Site {
        let place = self.here().surroundings().place;
        let nothing = Site::new(place, Algorithm::Null, Operation::Encrypt);
        self.capabilities().first().map_or(nothing, |first| site(place, first))
    }

    /// Notes how long a request was in the device.
    pub(crate) fn took(&self, bytes: usize, ns: u64) {
        self.here().deadlines.took(bytes, ns);
    }

    /// How long a request may be in the device.
    pub(crate) fn deadline(&self, bytes: usize) -> u64 {
        self.here().deadlines.deadline(bytes)
    }

    /// Opens a session. A fault of a device that has passed the known-answer test is one like any other.
    pub(crate) fn open(&self, params: &SessionParams) -> std::result::Result<Arc<dyn DeviceSession>, Refusal> {
        let algorithm = params.algorithm();
        self.admit(algorithm)?;
        let present = self.here();
        let opened = guarded(|| present.device.open(params));
        if let (Err(Refusal::Fault(fault)), Some(capability)) = (&opened, self.capability(algorithm)) {
            let Surroundings { place, common } = present.surroundings();
            common.stats.here().fault(site(*place, capability), fault);
            self.fail(site(*place, capability));
        }
        opened
    }

    /// A queue of this device that nobody else has, until it is put back.
    pub(crate) fn take_queue(&self) -> std::result::Result<Box<dyn DeviceQueue>, Fault> {
        let present = self.present().ok_or(Fault::Lost)?;
        present.queues.take().map_or_else(|| present.attach(), Ok)
    }

    /// Whether its queues do what its sessions do by themselves; its known-answer test has shown it.
    #[inline]
    pub(crate) fn is_inline(&self) -> bool {
        self.here().inline.load(Ordering::Relaxed)
    }

    pub(crate) fn put_queue(&self, queue: Box<dyn DeviceQueue>) {
        let surplus = self.present().and_then(|present| present.queues.put(queue));
        let _ = survived(|| drop(surplus));
    }
}

/// What is counted of an algorithm of a device, when it is not about one request.
fn site(place: usize, capability: &Capability) -> Site {
    let operation = capability.operations.first().copied().unwrap_or(capability.algorithm.kind().operations()[0]);
    Site::new(place, capability.algorithm, operation)
}

/// The queues of a device that nobody uses at the moment. No thread ever waits here: where a slot is busy, the next one is
/// tried, and where all are, a queue is attached anew.
#[derive(Default)]
struct QueuePool {
    slots: [Idle; 16],
}

/// In a cache line of its own, because a thread takes and puts with every batch.
#[derive(Default)]
#[repr(align(64))]
struct Idle(Mutex<Option<Box<dyn DeviceQueue>>>);

impl QueuePool {
    fn take(&self) -> Option<Box<dyn DeviceQueue>> {
        self.in_turn().find_map(|slot| slot.try_lock().ok()?.take())
    }

    /// Gives the queue back where every slot is full.
    fn put(&self, queue: Box<dyn DeviceQueue>) -> Option<Box<dyn DeviceQueue>> {
        for slot in self.in_turn() {
            if let Ok(mut slot) = slot.try_lock()
                && slot.is_none()
            {
                return slot.replace(queue);
            }
        }
        Some(queue)
    }

    /// All slots, each thread from one of its own on, so that threads seldom meet.
    fn in_turn(&self) -> impl Iterator<Item = &Mutex<Option<Box<dyn DeviceQueue>>>> {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static FIRST: usize = THREADS.fetch_add(1, Ordering::Relaxed);
        }
        let first = FIRST.with(|first| *first);
        (0..self.slots.len()).map(move |index| &self.slots[(first + index) % self.slots.len()].0)
    }
}
