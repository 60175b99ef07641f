//! Devices of the NULL cipher with configurable times, on a virtual clock.

#![allow(clippy::cast_precision_loss, clippy::cast_sign_loss, reason = "times of seconds")]
#![allow(dead_code, reason = "each test file uses its own part")]

pub(crate) mod disturbances;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use disturbances::Disturbances;
use gantry_core::driver::*;
use gantry_core::route::{Learned, Reason};
use gantry_core::{Algorithm, Clock, Fault, Gantry, Operation, Outcome, Request, Session, SessionParams, VirtualClock};

pub(crate) const ENCRYPT: Operation = Operation::Encrypt;

/// The times of a device, in nanoseconds.
#[derive(Clone)]
pub(crate) struct Timing {
    pub(crate) name: &'static str,
    pub(crate) setup: u64,
    /// Nanoseconds per byte.
    pub(crate) byte: f64,
    /// Additional time per byte, for the first 256 bytes.
    pub(crate) copied: f64,
    pub(crate) lanes: usize,
    pub(crate) class: Class,
    /// For a ring: time of the thread per request.
    pub(crate) ring: Option<u64>,
    /// Additional time of the thread per request; may change.
    pub(crate) busy: Arc<AtomicU64>,
    /// Factor of all times; may change.
    pub(crate) factor: Arc<AtomicU64>,
    /// Additional nanoseconds; may change.
    pub(crate) noise: Arc<AtomicU64>,
    /// Other load of the machine.
    pub(crate) disturbances: Arc<Disturbances>,
    /// Nanoseconds of all requests so far, without the other load.
    pub(crate) work_ns: Arc<AtomicU64>,
    pub(crate) clock: Arc<VirtualClock>,
}

impl Timing {
    pub(crate) fn new(name: &'static str, clock: &Arc<VirtualClock>, setup: u64, byte: f64) -> Self {
        Self {
            name,
            setup,
            byte,
            copied: 0.0,
            lanes: 1,
            class: Class::Model,
            ring: None,
            busy: Arc::default(),
            factor: Arc::new(1.into()),
            noise: Arc::default(),
            disturbances: Arc::default(),
            work_ns: Arc::default(),
            clock: clock.clone(),
        }
    }

    pub(crate) fn time(&self, bytes: usize) -> u64 {
        (self.setup + (self.byte * bytes as f64 + self.copied * bytes.min(256) as f64) as u64)
            * self.factor.load(Ordering::Relaxed)
            + self.noise.load(Ordering::Relaxed)
    }

    /// Lets the time of a request pass in the calling thread.
    fn spend(&self, bytes: usize) {
        let time = self.time(bytes);
        self.work_ns.fetch_add(time, Ordering::Relaxed);
        self.disturbances.spend(self.name, time, &self.clock);
    }
}

impl Driver for Timing {
    fn name(&self) -> &'static str {
        "timed"
    }

    fn discover(&self) -> Vec<Found> {
        let usual = Capability::new(Algorithm::Null);
        let capability =
            Capability { lanes: self.lanes, break_even: self.lanes, synchronous: self.ring.is_none(), ..usual };
        let capabilities = vec![capability];
        let info = DeviceInfo { version: "1".into(), capabilities, ..DeviceInfo::new(self.name, self.class) };
        vec![Found::Device(Arc::new(Timed { info, timing: self.clone() }))]
    }
}

struct Timed {
    info: DeviceInfo,
    timing: Timing,
}

impl Device for Timed {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn open(&self, _params: &SessionParams) -> Result<Arc<dyn DeviceSession>, Refusal> {
        Ok(Arc::new(TimedSession(self.timing.clone())))
    }

    fn attach(&self) -> Result<Option<Box<dyn QueuePair>>, Fault> {
        let timing = self.timing.clone();
        Ok(Some(match timing.ring {
            Some(_) => Box::new(Ring { timing, jobs: VecDeque::new(), free: 0 }),
            None => Box::new(Lanes(timing)),
        }))
    }
}

struct TimedSession(Timing);

impl DeviceSession for TimedSession {
    fn run(&self, mut operands: Operands<'_>) -> Result<Outcome, Fault> {
        self.0.spend(operands.bytes());
        copy(&mut operands);
        Ok(Outcome::Done)
    }
}

fn copy(operands: &mut Operands<'_>) {
    if let Operands::Cipher { data: Buffers::Separate { input, output }, .. } = operands {
        output.copy_from_slice(input);
    }
}

/// Runs one request in each lane, all in the time of one request.
struct Lanes(Timing);

impl QueuePair for Lanes {
    fn submit(&mut self, batch: &mut Batch<'_>) {
        let mut index = 0;
        while let Some(mut job) = batch.take() {
            let mut operands = job.operands();
            if index % self.0.lanes == 0 {
                self.0.spend(operands.bytes());
            }
            index += 1;
            copy(&mut operands);
            batch.complete(job, Ok(Outcome::Done));
        }
    }

    fn poll(&mut self, _done: &mut Completions<'_>) -> usize {
        0
    }
}

/// Runs one request after the other, in parallel to the thread.
struct Ring {
    timing: Timing,
    jobs: VecDeque<(u64, Job)>,
    /// Time at which the engine has finished all its requests.
    free: u64,
}

impl QueuePair for Ring {
    fn submit(&mut self, batch: &mut Batch<'_>) {
        while let Some(mut job) = batch.take() {
            self.timing.clock.spend(self.timing.ring.unwrap_or(0) + self.timing.busy.load(Ordering::Relaxed));
            let mut operands = job.operands();
            self.free = self.free.max(self.timing.clock.now()) + self.timing.time(operands.bytes());
            copy(&mut operands);
            self.timing.clock.announce(self.free);
            self.jobs.push_back((self.free, job));
        }
    }

    fn poll(&mut self, done: &mut Completions<'_>) -> usize {
        while self.jobs.front().is_some_and(|(ready, _)| *ready <= self.timing.clock.now()) {
            if let Some((_, job)) = self.jobs.pop_front() {
                done.complete(job, Ok(Outcome::Done));
            }
        }
        self.jobs.len()
    }
}

pub(crate) struct World {
    pub(crate) clock: Arc<VirtualClock>,
    pub(crate) session: Session,
}

impl World {
    pub(crate) fn new(clock: &Arc<VirtualClock>, policy: Learned, devices: &[&Timing]) -> Self {
        let builder = Gantry::builder().clock(clock.clone()).policy(policy);
        let gantry = devices.iter().fold(builder, |builder, device| builder.driver(*device)).build();
        Self { clock: clock.clone(), session: gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap() }
    }

    pub(crate) fn calibrated(clock: &Arc<VirtualClock>, policy: Learned, devices: &[&Timing]) -> Self {
        let world = Self::new(clock, policy, devices);
        world.session.gantry().calibrate(Algorithm::Null, ENCRYPT, false);
        world
    }

    /// Runs requests as a batch. Returns their duration, and the device and reason of each.
    pub(crate) fn batch(&self, requests: usize, bytes: usize) -> (u64, Vec<(String, Reason)>) {
        let mut data = vec![vec![7; bytes]; requests];
        let mut batch: Vec<_> = data.iter_mut().map(|data| Request::encrypt(&[], data)).collect();
        let before = self.clock.now();
        self.session.process(&mut batch).unwrap();
        let took = self.clock.now() - before;
        let name = |device: usize| self.session.gantry().devices()[device].name().to_owned();
        (took, batch.iter().map(|request| request.route().unwrap()).map(|r| (name(r.device), r.reason)).collect())
    }

    /// Runs one request and returns its duration.
    pub(crate) fn one(&self, bytes: usize) -> u64 {
        let before = self.clock.now();
        self.session.encrypt(&[], &mut vec![7; bytes]).unwrap();
        self.clock.now() - before
    }

    /// Returns the device, the number of requests and the reason of the present route.
    pub(crate) fn route(&self, requests: usize, bytes: usize) -> (String, usize, Reason) {
        let route = self.session.route(ENCRYPT, bytes, requests).unwrap();
        (self.session.gantry().devices()[route.device].name().to_owned(), route.requests, route.reason)
    }
}

pub(crate) fn software_and_engine(clock: &Arc<VirtualClock>) -> (Timing, Timing) {
    (Timing::new("software", clock, 300, 10.0), Timing::new("engine", clock, 5000, 1.0))
}
