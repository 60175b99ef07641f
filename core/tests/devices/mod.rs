//! A device of the NULL cipher whose behaviour a test describes: how many requests fit in, when they come back, and what
//! goes wrong.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;

use gantry_core::driver::*;
use gantry_core::route::Failover;
use gantry_core::{Algorithm, Fault, Gantry, Outcome, Session, SessionParams, Submission, VirtualClock};

/// A framework that asks these devices in their order.
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

/// What a [`Scripted`] device does with its requests, counted from 0 once it has been admitted.
#[derive(Clone)]
#[allow(clippy::struct_excessive_bools, reason = "each is a trait of its own")]
pub(crate) struct Script {
    pub(crate) name: &'static str,
    pub(crate) capability: Capability,
    /// Completes when asked again, not right away.
    pub(crate) ring: Option<usize>,
    /// Without a ring, it has a queue of its own all the same.
    pub(crate) queues: bool,
    pub(crate) does: Arc<dyn Fn(usize) -> Deed + Send + Sync>,
    /// What the device says when a session is opened, counted from 0; the known-answer test opens the first ones.
    pub(crate) opens: Arc<dyn Fn(usize) -> Result<(), Refusal> + Send + Sync>,
    /// What it says when it is asked for a queue.
    pub(crate) attaches: Arc<dyn Fn() -> Result<(), Fault> + Send + Sync>,
    /// Jobs that outlived their queues.
    pub(crate) kept: Arc<Mutex<Vec<Job>>>,
    /// The script is about known-answer tests, too.
    pub(crate) tests: bool,
    /// Completes the youngest first.
    pub(crate) backwards: bool,
    /// All queues have one ring together.
    pub(crate) shared: bool,
    /// Its queues say that they tell when something is ready.
    pub(crate) tells: bool,
    pub(crate) class: Class,
    pub(crate) limits: DeviceLimits,
    /// Queue pairs that it has, whatever it says.
    pub(crate) pairs: usize,
    /// What it does with SHA-256, if it offers that as well.
    pub(crate) digests: Option<Arc<dyn Fn() -> Deed + Send + Sync>>,
}

/// All that a scripted device knows of SHA-256: the digests of the known answers, by their lengths.
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

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Deed {
    Work,
    /// Its result is wrong.
    Lie,
    /// Its outcome is not `Done`.
    Refuse,
    Fail,
    Lose,
    Decline,
    Panic,
    /// Keeps this request and all after it, and says nothing.
    Stall,
    /// Keeps this one even when its queue is dropped: until somebody empties [`Script::kept`].
    Keep,
    /// Does it when it has been asked to tell, and tells.
    Tell,
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
            does: Arc::new(|_| Deed::Work),
            opens: Arc::new(|_| Ok(())),
            attaches: Arc::new(|| Ok(())),
            kept: Arc::default(),
            tests: false,
            backwards: false,
            shared: false,
            tells: false,
            class: Class::Model,
            limits: DeviceLimits::default(),
            pairs: usize::MAX,
            digests: None,
        }
    }

    /// In each of the ways that lead a batch to a device: by its sessions, one request after the other; by a queue in the calling
    /// thread; and by a ring.
    pub(crate) fn in_every_way(name: &'static str) -> [Self; 3] {
        let queue = Self { queues: true, ..Self::new(name) };
        [Self::new(name), queue, Self { ring: Some(4), ..Self::new(name) }]
    }

    pub(crate) fn doing(mut self, does: impl Fn(usize) -> Deed + Send + Sync + 'static) -> Self {
        self.does = Arc::new(does);
        self
    }
}

/// A driver of one scripted device, and the number of requests that it has done.
pub(crate) struct Scripted {
    script: Script,
    pub(crate) served: Arc<AtomicUsize>,
    opened: Arc<AtomicUsize>,
    open: Arc<Open>,
}

/// Sessions that are open on a device, with their keys.
#[derive(Default)]
struct Open {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Scripted {
    pub(crate) fn new(script: Script) -> Self {
        Self { script, served: Arc::default(), opened: Arc::default(), open: Arc::default() }
    }

    /// Sessions that are open on it.
    pub(crate) fn open(&self) -> usize {
        self.open.now.load(Ordering::SeqCst)
    }

    /// The most there ever were at a time.
    pub(crate) fn most_open(&self) -> usize {
        self.open.most.load(Ordering::SeqCst)
    }

    pub(crate) fn name(&self) -> &'static str {
        self.script.name
    }

    /// How often it was asked to open a session.
    pub(crate) fn opened(&self) -> usize {
        self.opened.load(Ordering::Relaxed)
    }

    /// Requests that it has done.
    pub(crate) fn served(&self) -> usize {
        self.served.load(Ordering::Relaxed)
    }
}

impl Driver for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn discover(&self) -> Vec<Found> {
        let direct = self.script.capability.direct && self.script.ring.is_none();
        let mut capabilities = vec![Capability { direct, ..self.script.capability.clone() }];
        if self.script.digests.is_some() {
            capabilities.push(Capability { direct, ..Capability::new(Algorithm::Sha256) });
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
    open: Arc<Open>,
    /// Queue pairs that are attached.
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
                Ok(Some(Box::new(Ring { slots, jobs, inside, pairs, script, stalled: false, keeps: 0, next: None })))
            }
        }
    }
}

struct TheSession {
    algorithm: Algorithm,
    script: Script,
    served: Arc<AtomicUsize>,
    open: Arc<Open>,
}

impl Drop for TheSession {
    fn drop(&mut self) {
        self.open.now.fetch_sub(1, Ordering::SeqCst);
    }
}

impl TheSession {
    /// What the script says about the next request. Known-answer tests come before the script begins: they are never of
    /// `LENGTH` bytes.
    fn next(&self, bytes: usize) -> Deed {
        if let (Algorithm::Sha256, Some(digests)) = (self.algorithm, &self.script.digests) {
            return digests();
        }
        let deed = if bytes == crate::LENGTH || self.script.tests {
            (self.script.does)(self.served.fetch_add(1, Ordering::Relaxed))
        } else {
            Deed::Work
        };
        // Of anything else than the NULL cipher it knows nothing.
        if deed == Deed::Work && self.algorithm != Algorithm::Null { Deed::Lie } else { deed }
    }
}

fn perform(deed: Deed, operands: Operands<'_>) -> Result<Outcome, Fault> {
    match (deed, operands) {
        (Deed::Work, Operands::Cipher { data: Buffers::Separate { input, output }, .. }) => {
            output.copy_from_slice(input);
        }
        (Deed::Work, Operands::Digest { input, output }) => {
            let known = DIGESTS.iter().find(|(length, _)| *length == input.len());
            output.copy_from_slice(&known.map_or([0; 32], |(_, digest)| *digest));
        }
        (Deed::Work, _) => {}
        (Deed::Lie, operands) => {
            if let Operands::Cipher { mut data, .. } = operands {
                data.output().fill(0xba);
            }
        }
        (Deed::Refuse, _) => return Ok(Outcome::BadTag),
        (Deed::Fail, _) => return Err(Fault::failed("it broke")),
        (Deed::Lose, _) => return Err(Fault::Lost),
        (Deed::Decline, _) => return Err(Fault::Declined("not this one")),
        (Deed::Panic, _) => panic!("the driver has a bug"),
        (Deed::Stall | Deed::Keep | Deed::Tell | Deed::Wait, _) => unreachable!("only rings do that"),
    }
    Ok(Outcome::Done)
}

impl DeviceSession for TheSession {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        perform(self.next(operands.bytes()), operands)
    }
}

/// Does all jobs right away.
struct InThread(Inline);

impl QueuePair for InThread {
    fn submit(&mut self, batch: &mut Batch<'_>) {
        self.0.submit(batch);
    }

    fn poll(&mut self, done: &mut Completions<'_>) -> usize {
        self.0.poll(done)
    }
}

/// Takes at most `slots` jobs, and completes one at each poll.
struct Ring {
    slots: usize,
    jobs: VecDeque<Job>,
    inside: Arc<AtomicUsize>,
    pairs: Arc<AtomicUsize>,
    script: Script,
    stalled: bool,
    /// Jobs that are in the device and not here.
    keeps: usize,
    /// What happens to the next job whatever the script says.
    next: Option<Deed>,
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
            let deed = if self.stalled { Deed::Stall } else { self.next.take().unwrap_or_else(|| session.next(bytes)) };
            match deed {
                Deed::Tell => {
                    self.next = Some(Deed::Tell);
                    self.jobs.push_front(job);
                    return self.jobs.len();
                }
                Deed::Wait => {
                    self.jobs.push_front(job);
                    return self.jobs.len();
                }
                Deed::Stall => {
                    self.stalled = true;
                    self.jobs.push_front(job);
                    return self.jobs.len();
                }
                Deed::Lose => drop(job),
                Deed::Keep => {
                    self.script.kept.lock().unwrap().push(job);
                    self.keeps += 1;
                    return self.jobs.len() + self.keeps;
                }
                deed => {
                    let result = perform(deed, job.operands());
                    done.complete(job, result);
                }
            }
            self.inside.fetch_sub(1, Ordering::SeqCst);
        }
        self.jobs.len() + self.keeps
    }

    fn arm(&mut self, waker: &Waker) -> bool {
        if self.next.take_if(|deed| *deed == Deed::Tell).is_some() {
            self.next = Some(Deed::Work);
            waker.wake_by_ref();
        }
        self.script.tells
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.inside.fetch_sub(self.jobs.len(), Ordering::SeqCst);
        self.pairs.fetch_sub(1, Ordering::SeqCst);
    }
}
