//! A device of the NULL cipher whose behaviour a test describes: how many requests fit in, when they come back, and what
//! goes wrong.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gantry::driver::*;
use gantry::{Algorithm, Fault, Outcome, SessionParams};

/// What a [`Scripted`] device does with its requests, counted from 0 once it has been admitted.
#[derive(Clone)]
pub(crate) struct Script {
    pub(crate) name: &'static str,
    pub(crate) capability: Capability,
    /// Completes when asked again, not right away.
    pub(crate) ring: Option<usize>,
    pub(crate) does: Arc<dyn Fn(usize) -> Deed + Send + Sync>,
    pub(crate) opens: bool,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Deed {
    Work,
    Fail,
    Lose,
    Panic,
}

impl Script {
    pub(crate) fn new(name: &'static str) -> Self {
        let capability = Capability::new(Algorithm::Null);
        Self { name, capability, ring: None, does: Arc::new(|_| Deed::Work), opens: true }
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
}

impl Scripted {
    pub(crate) fn new(script: Script) -> Self {
        Self { script, served: Arc::default() }
    }
}

impl Driver for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn discover(&self) -> Vec<Found> {
        let info = DeviceInfo {
            name: self.script.name.into(),
            class: Class::Model,
            description: String::new(),
            version: String::new(),
            capabilities: vec![self.script.capability.clone()],
        };
        vec![Found::Device(Arc::new(TheDevice { info, script: self.script.clone(), served: self.served.clone() }))]
    }
}

struct TheDevice {
    info: DeviceInfo,
    script: Script,
    served: Arc<AtomicUsize>,
}

impl Device for TheDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn open(&self, _params: &SessionParams) -> Result<Arc<dyn DeviceSession>, Unsupported> {
        if !self.script.opens {
            return Err(Unsupported::because("not today"));
        }
        Ok(Arc::new(TheSession { script: self.script.clone(), served: self.served.clone() }))
    }

    fn attach(&self) -> Result<Box<dyn DeviceQueue>, Fault> {
        match self.script.ring {
            None => Ok(Box::new(Inline)),
            Some(slots) => Ok(Box::new(Ring { slots, jobs: VecDeque::new() })),
        }
    }
}

struct TheSession {
    script: Script,
    served: Arc<AtomicUsize>,
}

impl TheSession {
    /// What the script says about the next request. Known-answer tests come before the script begins: they are never of
    /// `LENGTH` bytes.
    fn next(&self, bytes: usize) -> Deed {
        if bytes == crate::LENGTH {
            (self.script.does)(self.served.fetch_add(1, Ordering::Relaxed))
        } else {
            Deed::Work
        }
    }
}

fn perform(deed: Deed, operands: Operands<'_>) -> Result<Outcome, Fault> {
    match (deed, operands) {
        (Deed::Work, Operands::Cipher { data: Buffers::Separate { input, output }, .. }) => {
            output.copy_from_slice(input);
        }
        (Deed::Work, _) => {}
        (Deed::Fail, _) => return Err(Fault::failed("it broke")),
        (Deed::Lose, _) => return Err(Fault::Lost),
        (Deed::Panic, _) => panic!("the driver has a bug"),
    }
    Ok(Outcome::Done)
}

impl DeviceSession for TheSession {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        perform(self.next(operands.bytes()), operands)
    }
}

/// Takes at most `slots` jobs, and completes the oldest one at each poll.
struct Ring {
    slots: usize,
    jobs: VecDeque<Job>,
}

impl DeviceQueue for Ring {
    fn submit(&mut self, batch: &mut Batch<'_>) {
        while self.jobs.len() < self.slots {
            let Some(job) = batch.take() else { return };
            self.jobs.push_back(job);
        }
    }

    fn poll(&mut self, done: &mut Completions) -> usize {
        if let Some(mut job) = self.jobs.pop_front() {
            let bytes = job.operands().bytes();
            match job.session_as::<TheSession>().expect("our own session").next(bytes) {
                Deed::Lose => drop(job),
                deed => {
                    let result = perform(deed, job.operands());
                    done.complete(job, result);
                }
            }
        }
        self.jobs.len()
    }
}
