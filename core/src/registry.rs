//! The devices of a process, and their state.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::driver::{Capability, Class, Device, DeviceInfo, DeviceQueue, Driver, Found};
use crate::kat;
use crate::route::{BreakEven, Policy};
use crate::{Algorithm, Fault, Result, Session, SessionParams, Unsupported};

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
}

impl Gantry {
    /// A framework without devices yet.
    pub fn builder() -> GantryBuilder {
        GantryBuilder { devices: Vec::new(), policy: Box::new(BreakEven) }
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

    /// The same devices, with what they have proved, under another policy.
    #[must_use]
    pub fn with_policy(&self, policy: impl Policy + 'static) -> Gantry {
        Gantry { inner: Arc::new(Inner { devices: self.inner.devices.clone(), policy: Box::new(policy) }) }
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

    /// Another policy than [`BreakEven`].
    #[must_use]
    pub fn policy(mut self, policy: impl Policy + 'static) -> Self {
        self.policy = Box::new(policy);
        self
    }

    /// The framework.
    pub fn build(self) -> Gantry {
        Gantry { inner: Arc::new(Inner { devices: self.devices, policy: self.policy }) }
    }
}

/// Whether a device serves requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceState {
    /// It does, each algorithm after its known-answer test.
    Ready,
    /// It never did, for this reason.
    Excluded(String),
    /// It did until it failed.
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

struct Present {
    device: Arc<dyn Device>,
    quarantined: AtomicBool,
    /// By algorithm: what its known-answer test said, once it was needed.
    admitted: Box<[OnceLock<std::result::Result<(), String>>]>,
    queues: QueuePool,
}

impl RegisteredDevice {
    fn new(device: Arc<dyn Device>) -> Self {
        let admitted = Algorithm::ALL.iter().map(|_| OnceLock::new()).collect();
        let present = Present { device, quarantined: AtomicBool::new(false), admitted, queues: QueuePool::default() };
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
            Entry::Present(present) if present.quarantined.load(Ordering::Relaxed) => DeviceState::Quarantined,
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
    /// only after this.
    pub fn admit(&self, algorithm: Algorithm) -> std::result::Result<(), Unsupported> {
        let present = self.present().ok_or(Unsupported::because("the device is excluded"))?;
        let capability = self.capability(algorithm).ok_or(Unsupported::because("the device does not offer it"))?;
        present.admitted[algorithm as usize]
            .get_or_init(|| kat::known_answer_test(&*present.device, capability))
            .clone()
            .map_err(|what| Unsupported::because(format!("failed its known-answer test: {what}")))
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

    pub(crate) fn is_ready(&self) -> bool {
        self.present().is_some_and(|present| !present.quarantined.load(Ordering::Relaxed))
    }

    pub(crate) fn quarantine(&self) {
        if let Some(present) = self.present() {
            present.quarantined.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn open(
        &self,
        params: &SessionParams,
    ) -> std::result::Result<Arc<dyn crate::driver::DeviceSession>, Unsupported> {
        self.admit(params.algorithm())?;
        self.present().ok_or(Unsupported::because("the device is excluded"))?.device.open(params)
    }

    /// A queue of this device that nobody else has, until it is put back.
    pub(crate) fn take_queue(&self) -> std::result::Result<Box<dyn DeviceQueue>, Fault> {
        let present = self.present().ok_or(Fault::Lost)?;
        present.queues.take().map_or_else(|| present.device.attach(), Ok)
    }

    pub(crate) fn put_queue(&self, queue: Box<dyn DeviceQueue>) {
        if let Some(present) = self.present() {
            present.queues.put(queue);
        }
    }
}

/// The queues of a device that nobody uses at the moment. No thread ever waits here: where a slot is busy, the next one is
/// tried, and where all are, a queue is attached anew.
#[derive(Default)]
struct QueuePool {
    slots: [Mutex<Option<Box<dyn DeviceQueue>>>; 16],
}

impl QueuePool {
    fn take(&self) -> Option<Box<dyn DeviceQueue>> {
        self.in_turn().find_map(|slot| slot.try_lock().ok()?.take())
    }

    fn put(&self, queue: Box<dyn DeviceQueue>) {
        for slot in self.in_turn() {
            if let Ok(mut slot) = slot.try_lock()
                && slot.is_none()
            {
                *slot = Some(queue);
                return;
            }
        }
    }

    /// All slots, each thread from one of its own on, so that threads seldom meet.
    fn in_turn(&self) -> impl Iterator<Item = &Mutex<Option<Box<dyn DeviceQueue>>>> {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static FIRST: usize = THREADS.fetch_add(1, Ordering::Relaxed);
        }
        let first = FIRST.with(|first| *first);
        (0..self.slots.len()).map(move |index| &self.slots[(first + index) % self.slots.len()])
    }
}
