//! A device as the framework knows it.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::admission::{Admission, Probation, Urgency};
use super::coalescer::Common;
use super::health::{Health, Surroundings};
use super::line::{Learner, Served, SharedLines};
use super::pairs::{OpenPair, Pool};
use super::session_cache::SessionCache;
use crate::algorithm::{Algorithm, Fault, Operation, Refusal, SessionParams, Unsupported};
use crate::driver::{Capability, Class, Device, DeviceInfo, DeviceSession, Inline, guarded, survived};
use crate::request::List;
use crate::route::{Candidate, Costs};
use crate::stats::Site;
use crate::sync::{Mutex, cpus, lock, try_lock};

/// Whether a device serves requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceState {
    /// It does, each algorithm after its known-answer test.
    Ready,
    /// It does not, for this reason.
    Excluded(String),
    /// It did until it failed. It will again when it has passed its known-answer tests, which are repeated from time to time.
    Quarantined,
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

pub(crate) struct Present {
    device: Arc<dyn Device>,
    info: Arc<DeviceInfo>,
    /// By algorithm.
    admissions: Box<[Admission]>,
    /// On its way back from quarantine.
    probation: Mutex<Option<Probation>>,
    pool: Pool,
    /// Where it has a limit of sessions.
    session_cache: Option<SessionCache>,
    /// Another device has come in its place.
    retired: AtomicBool,
    /// Its queue pairs are [`Inline`].
    inline: AtomicBool,
    /// It has fewer queue pairs than there are threads that want one.
    scarce: AtomicBool,
    pub(crate) health: Health,
    /// Lines that are no thread's own.
    pub(crate) shared: SharedLines,
    /// By algorithm and operation.
    costs: Box<[OnceLock<Arc<Costs>>]>,
}

impl Present {
    /// A queue pair that nobody else has, until it is put back; `None` while the device has no more.
    fn take_pair(&self) -> Result<Option<OpenPair>, Fault> {
        match self.pool.take() {
            Some(pair) => Ok(Some(pair)),
            None => match self.attach()? {
                None if self.tests_give_up_pair() => self.attach(),
                attached => Ok(attached),
            },
        }
    }

    /// Whether a queue pair is free now that a batch of known answers had to itself: nobody else may be there to poll it.
    #[cold]
    fn tests_give_up_pair(&self) -> bool {
        let clock = &*self.health.surroundings().common.clock;
        let of_probation = || try_lock(&self.probation)?.as_mut().map(|probation| probation.gives_up_pair(clock));
        self.admissions.iter().any(|admission| admission.gives_up_pair(clock)) || of_probation() == Some(true)
    }

    fn attach(&self) -> Result<Option<OpenPair>, Fault> {
        let Some(pair) = guarded(|| self.device.attach())? else {
            self.scarce.store(true, Ordering::Relaxed);
            return Ok(None);
        };
        if (&*pair as &dyn Any).is::<Inline>() {
            self.inline.store(true, Ordering::Relaxed);
        }
        Ok(Some(OpenPair::new(pair)))
    }

    fn put_pair(&self, pair: OpenPair) {
        if !pair.is_open() || pair.in_flight() > 0 {
            return;
        }
        let surplus = if self.retired.load(Ordering::SeqCst) { Some(pair) } else { self.pool.put(pair) };
        let _ = survived(|| drop(surplus));
    }

    /// Lets `work` use what serving the device takes.
    pub(crate) fn with_served(&self, common: &Common, learner: Learner<'_>, work: impl FnOnce(&Served<'_>)) {
        let (take_pair, put_pair) = (|| self.take_pair(), |pair| self.put_pair(pair));
        work(&Served {
            device: self.health.surroundings().place,
            health: &self.health,
            common,
            learner,
            is_scarce: self.scarce.load(Ordering::Relaxed),
            take_pair: &take_pair,
            put_pair: &put_pair,
        });
    }

    fn capability(&self, algorithm: Algorithm) -> Option<&Capability> {
        self.info.capabilities.iter().find(|capability| capability.algorithm == algorithm)
    }

    fn costs(&self, algorithm: Algorithm, operation: Operation) -> &Arc<Costs> {
        self.costs[algorithm.place(operation)].get_or_init(|| Arc::new(Costs::unknown()))
    }
}

impl RegisteredDevice {
    pub(crate) fn new(device: Arc<dyn Device>) -> Self {
        let info = Arc::new(device.info().clone());
        let present = Present {
            admissions: (0..Algorithm::COUNT).map(|_| Admission::default()).collect(),
            probation: Mutex::default(),
            pool: Pool::default(),
            session_cache: (info.limits.sessions < usize::MAX).then(|| SessionCache::new(info.limits.sessions)),
            retired: AtomicBool::new(false),
            inline: AtomicBool::new(false),
            scarce: AtomicBool::new(info.limits.queue_pairs < usize::MAX && info.limits.queue_pairs < cpus()),
            health: Health::new(&info),
            shared: SharedLines::default(),
            costs: (0..Algorithm::PLACES).map(|_| OnceLock::new()).collect(),
            device,
            info,
        };
        Self { entry: Arc::new(Entry::Present(Box::new(present))) }
    }

    pub(crate) fn excluded(name: String, class: Class, reason: String) -> Self {
        Self { entry: Arc::new(Entry::Excluded { name, class, reason }) }
    }

    /// Said once, when the framework is built.
    pub(crate) fn place_in(&self, place: usize, common: &Arc<Common>) {
        if let Some(present) = self.present() {
            present.health.place_in(place, common);
        }
    }

    /// Unique among the devices of a framework that are not retired.
    pub fn name(&self) -> &str {
        match &*self.entry {
            Entry::Excluded { name, .. } => name,
            Entry::Present(present) => &present.info.name,
        }
    }

    /// The kind of engine.
    pub fn class(&self) -> Class {
        match &*self.entry {
            Entry::Excluded { class, .. } => *class,
            Entry::Present(present) => present.info.class,
        }
    }

    /// Whether it serves requests.
    pub fn state(&self) -> DeviceState {
        match &*self.entry {
            Entry::Excluded { reason, .. } => DeviceState::Excluded(reason.clone()),
            Entry::Present(present) if present.retired.load(Ordering::Relaxed) => {
                DeviceState::Excluded("another device of this name has come in its place".to_owned())
            }
            Entry::Present(present) if !present.health.is_ready() => DeviceState::Quarantined,
            Entry::Present(_) => DeviceState::Ready,
        }
    }

    /// What it offers for `algorithm`; nothing when it is excluded.
    pub fn capability(&self, algorithm: Algorithm) -> Option<&Capability> {
        self.present()?.capability(algorithm)
    }

    /// Everything it offers; nothing when it is excluded.
    pub fn capabilities(&self) -> &[Capability] {
        self.present().map_or(&[], |present| &present.info.capabilities)
    }

    /// What it is; `None` when it is excluded.
    pub fn details(&self) -> Option<&DeviceInfo> {
        self.present().map(|present| &*present.info)
    }

    /// Requests that are in it, or wait for room there. Devices that work in the calling thread have none.
    pub fn in_flight(&self) -> u64 {
        self.present().map_or(0, |present| present.health.load.held())
    }

    /// Runs the known-answer test of `algorithm`, unless it has been run; says what was wrong. A device serves an algorithm
    /// only after this. After a fault the test is run again, though not at once.
    pub fn admit(&self, algorithm: Algorithm) -> Result<(), Refusal> {
        self.admit_with(algorithm, Urgency::Patient)
    }

    pub(crate) fn admit_with(&self, algorithm: Algorithm, urgency: Urgency) -> Result<(), Refusal> {
        let present = self.present().ok_or(Unsupported::because("the device is excluded"))?;
        let capability = present.capability(algorithm).ok_or(Unsupported::because("the device does not offer it"))?;
        let take_pair = || present.take_pair();
        let admission = &present.admissions[algorithm as usize];
        admission.admit(&*present.device, capability, &present.health, &take_pair, urgency)
    }

    /// What an operation costs on it, as far as that is known. `None` when it is excluded or does not offer the algorithm.
    pub fn costs(&self, algorithm: Algorithm, operation: Operation) -> Option<&Costs> {
        self.capability(algorithm)?;
        Some(self.here().costs(algorithm, operation))
    }

    /// As policies see it, if it offers the algorithm.
    pub(crate) fn candidate(&self, place: usize, algorithm: Algorithm) -> Option<Candidate> {
        let present = self.present()?;
        let capability = present.capability(algorithm)?.clone();
        let operations = algorithm.kind().operations();
        let costs = operations.iter().map(|operation| present.costs(algorithm, *operation).clone()).collect();
        let (info, load) = (present.info.clone(), present.health.load.clone());
        let first = algorithm.place(operations[0]);
        Some(Candidate { device: place, info, capability, load, costs, first })
    }

    pub(crate) fn present(&self) -> Option<&Present> {
        match &*self.entry {
            Entry::Excluded { .. } => None,
            Entry::Present(present) => Some(present),
        }
    }

    fn here(&self) -> &Present {
        self.present().expect("an excluded device has no capabilities, so nothing is ever sent to it")
    }

    /// Only for devices that are some session's candidates, which excluded ones never are.
    #[inline]
    pub(crate) fn health(&self) -> &Health {
        &self.here().health
    }

    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        self.present().is_some_and(|present| present.health.is_ready())
    }

    /// If the device has been in quarantine for long enough, goes on with the known-answer tests that it has passed before.
    pub(crate) fn try_again(&self) {
        let Some(present) = self.present() else { return };
        let health = &present.health;
        let clock = &*health.surroundings().common.clock;
        if health.is_ready() || present.retired.load(Ordering::Relaxed) {
            return;
        }
        let Some(mut probation) = try_lock(&present.probation) else { return };
        if probation.is_none() && !health.trust.begin_probation(clock.now()) {
            return;
        }
        let tests = present.info.capabilities.iter().map(|capability| {
            let admission = &present.admissions[capability.algorithm as usize];
            (capability, admission)
        });
        let take_pair = || present.take_pair();
        let works = probation.get_or_insert_default().go_on(&*present.device, tests, clock, &take_pair);
        if let Some(works) = works {
            *probation = None;
            health.judge(works && !present.retired.load(Ordering::Relaxed));
        }
    }

    /// Leaves it in quarantine for good: another device of its name has come.
    pub(crate) fn retire(&self) {
        if let Some(present) = self.present() {
            present.retired.store(true, Ordering::SeqCst);
            present.health.fail(present.health.site());
            *lock(&present.probation) = None;
            // The device that has come may need them.
            while let Some(pair) = present.pool.take() {
                let _ = survived(|| drop(pair));
            }
        }
    }

    /// Opens a session. A fault of a device that has passed the known-answer test is one like any other.
    pub(crate) fn open(&self, params: &SessionParams, urgency: Urgency) -> Result<Arc<dyn DeviceSession>, Refusal> {
        let algorithm = params.algorithm();
        self.admit_with(algorithm, urgency)?;
        let present = self.here();
        let opened = guarded(|| present.device.open(params));
        if let Err(Refusal::Fault(fault)) = &opened
            && !matches!(fault, Fault::Declined(_))
        {
            let Surroundings { place, common } = present.health.surroundings();
            let operation = algorithm.kind().operations()[0];
            let site = Site::new(*place, algorithm, operation);
            common.stats.here().fault(site, fault);
            present.health.fail(site);
        }
        opened
    }

    /// The sessions that are open on it, where it has a limit of these.
    #[inline]
    pub(crate) fn session_cache(&self) -> Option<&SessionCache> {
        self.present()?.session_cache.as_ref()
    }

    /// A queue pair of this device that nobody else has, until it is put back; `None` while it has no more.
    pub(crate) fn take_pair(&self) -> Result<Option<OpenPair>, Fault> {
        self.present().ok_or(Fault::Lost)?.take_pair()
    }

    /// Lets others have the queue pair, if nothing is in it and the device has not failed it.
    pub(crate) fn put_pair(&self, pair: OpenPair) {
        if let Some(present) = self.present() {
            present.put_pair(pair);
        }
    }

    /// Whether its queue pairs do what its sessions do by themselves; its known-answer test has shown it.
    #[inline]
    pub(crate) fn is_inline(&self) -> bool {
        self.here().inline.load(Ordering::Relaxed)
    }

    /// Whether its queue pairs are shared, because there are too few for each thread to have one.
    #[inline]
    pub(crate) fn is_scarce(&self) -> bool {
        self.here().scarce.load(Ordering::Relaxed)
    }

    /// Takes what is ready in the shared lines if they are to be polled, and offers what waits.
    pub(crate) fn serve(&self, common: &Common, learner: Learner<'_>, poll: bool, back: &mut List) {
        if let Some(present) = self.present() {
            present.with_served(common, learner, |served| present.shared.serve(served, poll, back));
        }
    }
}
