//! Devices of the framework.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::active_pair::{Learner, ServeContext, SharedPairs};
use super::admission::{Admission, Probation, TestWait};
use super::coalescer::CommonState;
use super::health::{Environment, Health};
use super::pairs::{OpenPair, Pool};
use super::session_cache::SessionCache;
use crate::algorithm::{Algorithm, Fault, Operation, Refusal, SessionParams, Unsupported};
use crate::driver::{Capability, Class, Device, DeviceInfo, DeviceSession, Inline, call_guarded, catch_panic};
use crate::request::List;
use crate::route::{Candidate, Costs};
use crate::stats::Site;
use crate::sync::{Mutex, cpus, lock, try_lock};

/// The state of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceState {
    /// The device serves requests, each algorithm after its known-answer test.
    Ready,
    /// The device is not used, for this reason.
    Excluded(String),
    /// The device has failed. It returns after passing its known-answer tests, which are repeated from time to time.
    Quarantined,
}

/// A device of the framework. Cheap to clone.
#[derive(Clone)]
pub struct RegisteredDevice {
    entry: Arc<DeviceEntry>,
}

enum DeviceEntry {
    Excluded { name: String, class: Class, reason: String },
    Active(Box<ActiveDevice>),
}

pub(crate) struct ActiveDevice {
    device: Arc<dyn Device>,
    info: Arc<DeviceInfo>,
    /// One known-answer test for each algorithm.
    admissions: Box<[Admission]>,
    /// The known-answer tests that a quarantined device must pass to return.
    probation: Mutex<Option<Probation>>,
    pool: Pool,
    /// Present if the device limits the number of sessions.
    session_cache: Option<SessionCache>,
    /// Another device has replaced this one.
    is_retired: AtomicBool,
    /// The queue pairs are [`Inline`].
    is_inline: AtomicBool,
    /// The device has fewer queue pairs than threads want.
    has_few_pairs: AtomicBool,
    pub(crate) health: Health,
    /// Queue pairs shared by all threads.
    pub(crate) shared: SharedPairs,
    /// The costs of each operation, at the index that `Algorithm::entry_index` returns.
    costs: Box<[OnceLock<Arc<Costs>>]>,
}

impl ActiveDevice {
    /// Takes a queue pair for exclusive use until it is put back. Returns `None` if the device has no more.
    fn take_pair(&self) -> Result<Option<OpenPair>, Fault> {
        match self.pool.take() {
            Some(pair) => Ok(Some(pair)),
            None => match self.attach()? {
                None if self.release_test_pair() => self.attach(),
                attached => Ok(attached),
            },
        }
    }

    /// Returns `true` if a known-answer test has freed a queue pair. Polls the tests itself, because other threads might not poll them.
    #[cold]
    fn release_test_pair(&self) -> bool {
        let clock = &*self.health.environment().common.clock;
        let release_probation_pair =
            || try_lock(&self.probation)?.as_mut().map(|probation| probation.release_pair(clock));
        self.admissions.iter().any(|admission| admission.release_pair(clock)) || release_probation_pair() == Some(true)
    }

    fn attach(&self) -> Result<Option<OpenPair>, Fault> {
        let Some(pair) = call_guarded(|| self.device.attach())? else {
            self.has_few_pairs.store(true, Ordering::Relaxed);
            return Ok(None);
        };
        if (&*pair as &dyn Any).is::<Inline>() {
            self.is_inline.store(true, Ordering::Relaxed);
        }
        Ok(Some(OpenPair::new(pair)))
    }

    fn put_pair(&self, pair: OpenPair) {
        if !pair.is_open() || pair.in_flight() > 0 {
            return;
        }
        let surplus = if self.is_retired.load(Ordering::SeqCst) { Some(pair) } else { self.pool.put(pair) };
        let _ = catch_panic(|| drop(surplus));
    }

    /// Calls `work` with the parts of the device that serving needs.
    pub(crate) fn with_context(
        &self,
        common: &CommonState,
        learner: Learner<'_>,
        work: impl FnOnce(&ServeContext<'_>),
    ) {
        let (take_pair, put_pair) = (|| self.take_pair(), |pair| self.put_pair(pair));
        work(&ServeContext {
            device: self.health.environment().index,
            health: &self.health,
            common,
            learner,
            has_few_pairs: self.has_few_pairs.load(Ordering::Relaxed),
            take_pair: &take_pair,
            put_pair: &put_pair,
        });
    }

    fn capability(&self, algorithm: Algorithm) -> Option<&Capability> {
        self.info.capabilities.iter().find(|capability| capability.algorithm == algorithm)
    }

    fn costs(&self, algorithm: Algorithm, operation: Operation) -> &Arc<Costs> {
        self.costs[algorithm.entry_index(operation)].get_or_init(|| Arc::new(Costs::unknown()))
    }
}

impl RegisteredDevice {
    pub(crate) fn new(device: Arc<dyn Device>) -> Self {
        let info = Arc::new(device.info().clone());
        let active = ActiveDevice {
            admissions: (0..Algorithm::COUNT).map(|_| Admission::default()).collect(),
            probation: Mutex::default(),
            pool: Pool::default(),
            session_cache: (info.limits.sessions < usize::MAX).then(|| SessionCache::new(info.limits.sessions)),
            is_retired: AtomicBool::new(false),
            is_inline: AtomicBool::new(false),
            has_few_pairs: AtomicBool::new(info.limits.queue_pairs < usize::MAX && info.limits.queue_pairs < cpus()),
            health: Health::new(&info),
            shared: SharedPairs::default(),
            costs: (0..Algorithm::ENTRY_COUNT).map(|_| OnceLock::new()).collect(),
            device,
            info,
        };
        Self { entry: Arc::new(DeviceEntry::Active(Box::new(active))) }
    }

    pub(crate) fn excluded(name: String, class: Class, reason: String) -> Self {
        Self { entry: Arc::new(DeviceEntry::Excluded { name, class, reason }) }
    }

    /// Sets the device's index and framework; once, when the framework is built or the device added.
    pub(crate) fn set_environment(&self, index: usize, common: &Arc<CommonState>) {
        if let Some(active) = self.active() {
            active.health.set_environment(index, common);
        }
    }

    /// Returns the name, which is unique among the framework's devices that are not retired.
    pub fn name(&self) -> &str {
        match &*self.entry {
            DeviceEntry::Excluded { name, .. } => name,
            DeviceEntry::Active(active) => &active.info.name,
        }
    }

    /// Returns the kind of engine.
    pub fn class(&self) -> Class {
        match &*self.entry {
            DeviceEntry::Excluded { class, .. } => *class,
            DeviceEntry::Active(active) => active.info.class,
        }
    }

    /// Returns the state of the device.
    pub fn state(&self) -> DeviceState {
        match &*self.entry {
            DeviceEntry::Excluded { reason, .. } => DeviceState::Excluded(reason.clone()),
            DeviceEntry::Active(active) if active.is_retired.load(Ordering::Relaxed) => {
                DeviceState::Excluded("replaced by another device of this name".to_owned())
            }
            DeviceEntry::Active(active) if !active.health.is_ready() => DeviceState::Quarantined,
            DeviceEntry::Active(_) => DeviceState::Ready,
        }
    }

    /// Returns the capability for `algorithm`; `None` if the device is excluded or does not offer it.
    pub fn capability(&self, algorithm: Algorithm) -> Option<&Capability> {
        self.active()?.capability(algorithm)
    }

    /// Returns all capabilities; none if the device is excluded.
    pub fn capabilities(&self) -> &[Capability] {
        self.active().map_or(&[], |active| &active.info.capabilities)
    }

    /// Returns the description of the device; `None` if it is excluded.
    pub fn details(&self) -> Option<&DeviceInfo> {
        self.active().map(|active| &*active.info)
    }

    /// Returns true if the device is in use and says that it is a FIPS 140 validated module ([`DeviceInfo::validated`]).
    pub fn is_validated(&self) -> bool {
        self.details().is_some_and(|info| info.validated)
    }

    /// Returns the number of requests in the device or waiting for it; 0 if the device works in the calling thread.
    pub fn in_flight(&self) -> u64 {
        self.active().map_or(0, |active| active.health.load.pending())
    }

    /// Runs the known-answer test of `algorithm` unless its result is known, and returns an error if the device failed it. A device serves
    /// an algorithm only after this. After a fault, a later call runs the test again.
    pub fn admit(&self, algorithm: Algorithm) -> Result<(), Refusal> {
        self.admit_with(algorithm, TestWait::Full)
    }

    pub(crate) fn admit_with(&self, algorithm: Algorithm, test_wait: TestWait) -> Result<(), Refusal> {
        let active = self.active().ok_or(Unsupported::because("the device is excluded"))?;
        let capability = active.capability(algorithm).ok_or(Unsupported::because("the device does not offer it"))?;
        let take_pair = || active.take_pair();
        let admission = &active.admissions[algorithm as usize];
        admission.admit(&*active.device, capability, &active.health, &take_pair, test_wait)
    }

    /// Returns the costs of an operation, as far as known. `None` if the device is excluded or does not offer the algorithm.
    pub fn costs(&self, algorithm: Algorithm, operation: Operation) -> Option<&Costs> {
        self.capability(algorithm)?;
        Some(self.expect_active().costs(algorithm, operation))
    }

    /// Returns the candidate for policies, if the device offers the algorithm.
    pub(crate) fn candidate(&self, index: usize, algorithm: Algorithm) -> Option<Candidate> {
        let active = self.active()?;
        let capability = active.capability(algorithm)?.clone();
        let operations = algorithm.kind().operations();
        let costs = operations.iter().map(|operation| active.costs(algorithm, *operation).clone()).collect();
        let (info, load) = (active.info.clone(), active.health.load.clone());
        let first_entry = algorithm.entry_index(operations[0]);
        Some(Candidate { device: index, info, capability, load, costs, first_entry })
    }

    pub(crate) fn active(&self) -> Option<&ActiveDevice> {
        match &*self.entry {
            DeviceEntry::Excluded { .. } => None,
            DeviceEntry::Active(active) => Some(active),
        }
    }

    fn expect_active(&self) -> &ActiveDevice {
        self.active().expect("an excluded device has no capabilities, so no request is sent to it")
    }

    /// Returns the health of a session's candidate. Excluded devices have none, and are never candidates.
    #[inline]
    pub(crate) fn health(&self) -> &Health {
        &self.expect_active().health
    }

    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        self.active().is_some_and(|active| active.health.is_ready())
    }

    /// Continues the known-answer tests that the device had passed before, if it has been in quarantine for long enough.
    pub(crate) fn advance_probation(&self) {
        let Some(active) = self.active() else { return };
        let health = &active.health;
        let clock = &*health.environment().common.clock;
        if health.is_ready() || active.is_retired.load(Ordering::Relaxed) {
            return;
        }
        let Some(mut probation) = try_lock(&active.probation) else { return };
        if probation.is_none() && !health.trust.begin_probation(clock.now()) {
            return;
        }
        let tests = active.info.capabilities.iter().map(|capability| {
            let admission = &active.admissions[capability.algorithm as usize];
            (capability, admission)
        });
        let take_pair = || active.take_pair();
        let works = probation.get_or_insert_default().advance(&*active.device, tests, clock, &take_pair);
        if let Some(works) = works {
            *probation = None;
            health.end_probation(works && !active.is_retired.load(Ordering::Relaxed));
        }
    }

    /// Leaves the device in quarantine for good, because another device replaces it.
    pub(crate) fn retire(&self) {
        if let Some(active) = self.active() {
            active.is_retired.store(true, Ordering::SeqCst);
            active.health.quarantine(active.health.site());
            *lock(&active.probation) = None;
            // The new device may need these queue pairs.
            while let Some(pair) = active.pool.take() {
                let _ = catch_panic(|| drop(pair));
            }
        }
    }

    /// Opens a session. A fault here quarantines the device, like a fault of a request, unless the device only declined.
    pub(crate) fn open(&self, params: &SessionParams, test_wait: TestWait) -> Result<Arc<dyn DeviceSession>, Refusal> {
        let algorithm = params.algorithm();
        self.admit_with(algorithm, test_wait)?;
        let active = self.expect_active();
        let opened = call_guarded(|| active.device.open(params));
        if let Err(Refusal::Fault(fault)) = &opened
            && !matches!(fault, Fault::Declined(_))
        {
            let Environment { index, common } = active.health.environment();
            let operation = algorithm.kind().operations()[0];
            let site = Site::new(*index, algorithm, operation);
            common.stats.this_thread().count_fault(site, fault);
            active.health.quarantine(site);
        }
        opened
    }

    /// Returns the cache of open sessions, if the device limits their number.
    #[inline]
    pub(crate) fn session_cache(&self) -> Option<&SessionCache> {
        self.active()?.session_cache.as_ref()
    }

    /// Takes a queue pair for exclusive use until it is put back. Returns `None` if the device has no more.
    pub(crate) fn take_pair(&self) -> Result<Option<OpenPair>, Fault> {
        self.active().ok_or(Fault::Lost)?.take_pair()
    }

    /// Puts a queue pair back, if it is open and no request is in flight on it. Drops any other queue pair.
    pub(crate) fn put_pair(&self, pair: OpenPair) {
        if let Some(active) = self.active() {
            active.put_pair(pair);
        }
    }

    /// Returns `true` if the queue pairs are [`Inline`], and run requests in the calling thread. Returns `false` until the known-answer
    /// test has attached a queue pair.
    #[inline]
    pub(crate) fn is_inline(&self) -> bool {
        self.expect_active().is_inline.load(Ordering::Relaxed)
    }

    /// Returns `true` if the queue pairs are shared, because there are fewer queue pairs than threads.
    #[inline]
    pub(crate) fn has_few_pairs(&self) -> bool {
        self.expect_active().has_few_pairs.load(Ordering::Relaxed)
    }

    /// Offers waiting requests to the device, after polling the shared queue pairs if `poll` is set.
    pub(crate) fn serve(&self, common: &CommonState, learner: Learner<'_>, poll: bool, returned: &mut List) {
        if let Some(active) = self.active() {
            active.with_context(common, learner, |context| active.shared.serve(context, poll, returned));
        }
    }
}
