//! A device of the NULL cipher that follows a script: its room for requests, the order of completions, and its faults.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;

use gantry_core::driver::*;
use gantry_core::route::Failover;
use gantry_core::{Algorithm, Fault, Gantry, Outcome, Session, SessionParams, Submission, VirtualClock};

/// Returns a framework that tries these devices in order.
pub(crate) fn in_order(clock: &Arc<VirtualClock>, drivers: &[&Scripted]) -> Gantry {
    let order = drivers.iter().map(|driver| driver.name().to_owned()).collect();
    let builder = Gantry::builder().policy(Failover { order }).clock(clock.clone());
    drivers.iter().fold(builder, |builder, driver| builder.driver(*driver)).build()
}

pub(crate) fn session(gantry: &Gantry) -> Session {
    gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap()
}

pub(crate) fn request(user: u64) -> Submission {
    Submission::encrypt(&[], vec![user as u8; crate::LENGTH]).user(user)
}

/// The behaviour of a [`Scripted`] device. Requests are counted from 0 once it has been admitted.
#[derive(Clone)]
#[allow(clippy::struct_excessive_bools, reason = "each is a trait of its own")]
pub(crate) struct Script {
    pub(crate) name: &'static str,
    pub(crate) capability: Capability,
    /// Completes requests when polled, not at once.
    pub(crate) ring: Option<usize>,
    /// The device has no ring, but its own type of queue pair.
    pub(crate) queues: bool,
    pub(crate) action: Arc<dyn Fn(usize) -> Action + Send + Sync>,
    /// The result of opening a session, counted from 0; the known-answer test opens the first ones.
    pub(crate) opens: Arc<dyn Fn(usize) -> Result<(), Refusal> + Send + Sync>,
    /// The result of attaching a queue pair.
    pub(crate) attaches: Arc<dyn Fn() -> Result<(), Fault> + Send + Sync>,
    /// Jobs that outlived their queue pairs.
    pub(crate) leaked: Arc<Mutex<Vec<Job>>>,
    /// The script also applies to known-answer tests.
    pub(crate) tests: bool,
    /// Completes the newest request first.
    pub(crate) backwards: bool,
    /// All queue pairs share one ring.
    pub(crate) shared: bool,
    /// Queue pairs claim to notify.
    pub(crate) notifies: bool,
    pub(crate) class: Class,
    pub(crate) limits: DeviceLimits,
    /// Number of queue pairs, regardless of the declared limit.
    pub(crate) pairs: usize,
    /// The call of queue pairs that panics.
    pub(crate) panics_in: Arc<Mutex<Option<Call>>>,
    /// How the device treats SHA-256, if it offers SHA-256.
    pub(crate) digests: Option<Arc<dyn Fn() -> Action + Send + Sync>>,
}

/// The digests of the known answers of SHA-256, by length.
const DIGESTS: [(usize, [u8; 32]); 2] = [
    (
        1,
        [
            0x28, 0x96, 0x9c, 0xdf, 0xa7, 0x4a, 0x12, 0xc8, 0x2f, 0x3b, 0xad, 0x96, 0x0b, 0x0b, 0x00, 0x0a, 0xca, 0x2a,
            0xc3, 0x29, 0xde, 0xea, 0x5c, 0x23, 0x28, 0xeb, 0xc6, 0xf2, 0xba, 0x98, 0x02, 0xc1,
        ],
    ),
    (
        263,
        [
            0x2a, 0x61, 0x2c, 0x35, 0x8a, 0xa0, 0xec, 0xf7, 0x38, 0xf7, 0x32, 0x76, 0x22, 0x37, 0xb6, 0x1b, 0x0e, 0xa6,
            0x08, 0xad, 0xd0, 0xba, 0x90, 0x6d, 0x7d, 0x08, 0xa0, 0x06, 0xcf, 0x4a, 0x2a, 0x62,
        ],
    ),
];

/// A call of a queue pair that returns no error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Call {
    Doorbell,
    Arm,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Action {
    Work,
    /// Returns a wrong result.
    Corrupt,
    /// Returns an outcome other than `Done`.
    Refuse,
    Fail,
    Lose,
    Decline,
    Panic,
    /// Keeps this request and all after it, without an answer.
    Stall,
    /// Keeps this request even when its queue pair is dropped, until the test empties [`Script::leaked`].
    Keep,
    /// Completes and notifies once it has been armed.
    Notify,
    /// Is not ready yet. The script is asked again at the next poll.
    Wait,
}

impl Script {
    pub(crate) fn new(name: &'static str) -> Self {
        let capability = Capability::new(Algorithm::Null);
        Self {
            name,
            capability,
            ring: None,
            queues: false,
            action: Arc::new(|_| Action::Work),
            opens: Arc::new(|_| Ok(())),
            attaches: Arc::new(|| Ok(())),
            leaked: Arc::default(),
            tests: false,
            backwards: false,
            shared: false,
            notifies: false,
            class: Class::Model,
            limits: DeviceLimits::default(),
            pairs: usize::MAX,
            panics_in: Arc::default(),
            digests: None,
        }
    }

    /// Returns a script for each path of a batch to a device: sessions, one request after the other; a queue pair in the calling thread;
    /// and a ring.
    pub(crate) fn in_every_way(name: &'static str) -> [Self; 3] {
        let queue = Self { queues: true, ..Self::new(name) };
        [Self::new(name), queue, Self { ring: Some(4), ..Self::new(name) }]
    }

    fn panic_in(&self, call: Call) {
        let panics = *self.panics_in.lock().unwrap() == Some(call);
        assert!(!panics, "the driver has a bug");
    }

    pub(crate) fn with_actions(mut self, action: impl Fn(usize) -> Action + Send + Sync + 'static) -> Self {
        self.action = Arc::new(action);
        self
    }
}

/// A driver of one scripted device, and the number of requests served.
pub(crate) struct Scripted {
    script: Script,
    pub(crate) served: Arc<AtomicUsize>,
    opened: Arc<AtomicUsize>,
    open: Arc<OpenCounts>,
}

/// Sessions that are open on a device.
#[derive(Default)]
struct OpenCounts {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Scripted {
    pub(crate) fn new(script: Script) -> Self {
        Self { script, served: Arc::default(), opened: Arc::default(), open: Arc::default() }
    }

    /// Returns the number of open sessions.
    pub(crate) fn open(&self) -> usize {
        self.open.now.load(Ordering::SeqCst)
    }

    /// Returns the maximum number of sessions that were open at a time.
    pub(crate) fn max_open(&self) -> usize {
        self.open.most.load(Ordering::SeqCst)
    }

    pub(crate) fn name(&self) -> &'static str {
        self.script.name
    }

    /// Returns how often a session was opened.
    pub(crate) fn opened(&self) -> usize {
        self.opened.load(Ordering::Relaxed)
    }

    /// Returns the number of requests served.
    pub(crate) fn served(&self) -> usize {
        self.served.load(Ordering::Relaxed)
    }
}

impl Driver for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn discover(&self) -> Vec<Found> {
        let synchronous = self.script.capability.synchronous && self.script.ring.is_none();
        let mut capabilities = vec![Capability { synchronous, ..self.script.capability.clone() }];
        if self.script.digests.is_some() {
            capabilities.push(Capability { synchronous, ..Capability::new(Algorithm::Sha256) });
        }
        let info = DeviceInfo {
            capabilities,
            limits: self.script.limits,
            ..DeviceInfo::new(self.script.name, self.script.class)
        };
        vec![Found::Device(Arc::new(TheDevice {
            info,
            script: self.script.clone(),
            served: self.served.clone(),
            inside: Arc::default(),
            opened: self.opened.clone(),
            open: self.open.clone(),
            pairs: Arc::default(),
        }))]
    }
}

struct TheDevice {
    info: DeviceInfo,
    script: Script,
    served: Arc<AtomicUsize>,
    /// Jobs in all rings together.
    inside: Arc<AtomicUsize>,
    opened: Arc<AtomicUsize>,
    open: Arc<OpenCounts>,
    /// Number of attached queue pairs.
    pairs: Arc<AtomicUsize>,
}

impl Device for TheDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn open(&self, params: &SessionParams) -> Result<Arc<dyn DeviceSession>, Refusal> {
        (self.script.opens)(self.opened.fetch_add(1, Ordering::Relaxed))?;
        let now = self.open.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.open.most.fetch_max(now, Ordering::SeqCst);
        let (script, served, open) = (self.script.clone(), self.served.clone(), self.open.clone());
        Ok(Arc::new(TheSession { algorithm: params.algorithm(), script, served, open }))
    }

    fn attach(&self) -> Result<Option<Box<dyn QueuePair>>, Fault> {
        (self.script.attaches)()?;
        match self.script.ring {
            None if self.script.queues => Ok(Some(Box::new(InThread(Inline)))),
            None => Ok(Some(Box::new(Inline))),
            Some(slots) => {
                let inside = if self.script.shared { self.inside.clone() } else { Arc::default() };
                let (script, jobs) = (self.script.clone(), VecDeque::new());
                let most = self.info.limits.queue_pairs.min(self.script.pairs);
                let taken = |pairs: usize| (pairs < most).then_some(pairs + 1);
                if self.pairs.fetch_update(Ordering::SeqCst, Ordering::SeqCst, taken).is_err() {
                    return Ok(None);
                }
                let pairs = self.pairs.clone();
                Ok(Some(Box::new(Ring { slots, jobs, inside, pairs, script, stalled: false, leaked: 0, next: None })))
            }
        }
    }
}

struct TheSession {
    algorithm: Algorithm,
    script: Script,
    served: Arc<AtomicUsize>,
    open: Arc<OpenCounts>,
}

impl Drop for TheSession {
    fn drop(&mut self) {
        self.open.now.fetch_sub(1, Ordering::SeqCst);
    }
}

impl TheSession {
    /// Returns the action for the next request. Known-answer tests, which never have `LENGTH` bytes, come before the script begins.
    fn next(&self, bytes: usize) -> Action {
        if let (Algorithm::Sha256, Some(digests)) = (self.algorithm, &self.script.digests) {
            return digests();
        }
        let action = if bytes == crate::LENGTH || self.script.tests {
            (self.script.action)(self.served.fetch_add(1, Ordering::Relaxed))
        } else {
            Action::Work
        };
        // The device implements only the NULL cipher.
        if action == Action::Work && self.algorithm != Algorithm::Null { Action::Corrupt } else { action }
    }
}

fn perform(action: Action, operands: Operands<'_>) -> Result<Outcome, Fault> {
    match (action, operands) {
        (Action::Work, Operands::Cipher { data: Buffers::Separate { input, output }, .. }) => {
            output.copy_from_slice(input);
        }
        (Action::Work, Operands::Digest { input, output }) => {
            let known = DIGESTS.iter().find(|(length, _)| *length == input.len());
            output.copy_from_slice(&known.map_or([0; 32], |(_, digest)| *digest));
        }
        (Action::Work, _) => {}
        (Action::Corrupt, operands) => {
            if let Operands::Cipher { mut data, .. } = operands {
                data.output().fill(0xba);
            }
        }
        (Action::Refuse, _) => return Ok(Outcome::BadTag),
        (Action::Fail, _) => return Err(Fault::failed("it broke")),
        (Action::Lose, _) => return Err(Fault::Lost),
        (Action::Decline, _) => return Err(Fault::Declined("not this one")),
        (Action::Panic, _) => panic!("the driver has a bug"),
        (Action::Stall | Action::Keep | Action::Notify | Action::Wait, _) => unreachable!("only for rings"),
    }
    Ok(Outcome::Done)
}

impl DeviceSession for TheSession {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        perform(self.next(operands.bytes()), operands)
    }
}

/// Completes all jobs at once.
struct InThread(Inline);

impl QueuePair for InThread {
    fn submit(&mut self, batch: &mut Batch<'_>) {
        self.0.submit(batch);
    }

    fn poll(&mut self, done: &mut Completions<'_>) -> usize {
        self.0.poll(done)
    }
}

/// Takes at most `slots` jobs, and completes one per poll.
struct Ring {
    slots: usize,
    jobs: VecDeque<Job>,
    inside: Arc<AtomicUsize>,
    pairs: Arc<AtomicUsize>,
    script: Script,
    stalled: bool,
    /// Jobs that are in the device but not in `jobs`.
    leaked: usize,
    /// The action for the next job, instead of the script's.
    next: Option<Action>,
}

impl QueuePair for Ring {
    fn submit(&mut self, batch: &mut Batch<'_>) {
        let enter = |inside: usize| (inside < self.slots).then_some(inside + 1);
        while batch.len() > 0 && self.inside.fetch_update(Ordering::SeqCst, Ordering::SeqCst, enter).is_ok() {
            self.jobs.extend(batch.take());
        }
    }

    fn poll(&mut self, done: &mut Completions<'_>) -> usize {
        let job = if self.script.backwards { self.jobs.pop_back() } else { self.jobs.pop_front() };
        if let Some(mut job) = job {
            let bytes = job.operands().bytes();
            let session = job.session_as::<TheSession>().expect("our own session");
            let action =
                if self.stalled { Action::Stall } else { self.next.take().unwrap_or_else(|| session.next(bytes)) };
            match action {
                Action::Notify => {
                    self.next = Some(Action::Notify);
                    self.jobs.push_front(job);
                    return self.jobs.len();
                }
                Action::Wait => {
                    self.jobs.push_front(job);
                    return self.jobs.len();
                }
                Action::Stall => {
                    self.stalled = true;
                    self.jobs.push_front(job);
                    return self.jobs.len();
                }
                Action::Lose => drop(job),
                Action::Keep => {
                    self.script.leaked.lock().unwrap().push(job);
                    self.leaked += 1;
                    return self.jobs.len() + self.leaked;
                }
                action => {
                    let result = perform(action, job.operands());
                    done.complete(job, result);
                }
            }
            self.inside.fetch_sub(1, Ordering::SeqCst);
        }
        self.jobs.len() + self.leaked
    }

    fn doorbell(&mut self) {
        self.script.panic_in(Call::Doorbell);
    }

    fn arm(&mut self, waker: &Waker) -> bool {
        self.script.panic_in(Call::Arm);
        if self.next.take_if(|action| *action == Action::Notify).is_some() {
            self.next = Some(Action::Work);
            waker.wake_by_ref();
        }
        self.script.notifies
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.inside.fetch_sub(self.jobs.len(), Ordering::SeqCst);
        self.pairs.fetch_sub(1, Ordering::SeqCst);
    }
}
