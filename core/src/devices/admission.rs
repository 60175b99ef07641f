//! Which algorithms a device has shown that it computes.

use std::sync::OnceLock;

use super::bench::{BRIEF, PairBench, SentBatch};
use super::health::{Health, Surroundings};
use super::pairs::OpenPair;
use crate::algorithm::{Fault, Refusal, Unsupported};
use crate::clock::Clock;
use crate::driver::{Capability, Device};
use crate::route::{Reason, Route};
use crate::stats::Site;
use crate::sync::{AtomicBool, Mutex, Ordering, lock, try_lock};
use crate::trust::{Failure, PATIENCE, Progress, Test, Trust, patience_again};

/// What a device has shown of one algorithm.
#[derive(Default)]
pub(crate) struct Admission {
    /// What was wrong with the known answers, or how long a batch of them took, in nanoseconds. A fault tells neither.
    shown: OnceLock<Result<u64, String>>,
    /// After a fault the test is repeated when the device has had time to recover.
    trust: Trust,
    /// Of the threads that need the algorithm, one runs the test. What is left of it, where that one had no more time.
    test: Mutex<Option<Box<Test<SentBatch>>>>,
    /// A batch of what is left is in the device, and has a queue pair to itself.
    has_pair: AtomicBool,
}

/// How long a thread may run a known-answer test.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// Not at all: the request has waited for a test already.
    Never,
    /// A request waits, and another device may have it: a millisecond, and what works in this thread is not broken off.
    Brief,
    /// To the end.
    Patient,
}

impl Urgency {
    /// That of a request on this route. A device that is named is waited for, and no other one serves what it can.
    #[inline]
    pub(crate) fn on(self, route: Route) -> Self {
        if route.reason == Reason::Pinned { Urgency::Patient } else { self }
    }
}

impl Admission {
    /// Runs the known-answer test, unless that has been done; says what was wrong. After a fault the test is run again,
    /// though not at once.
    pub(crate) fn admit(
        &self,
        device: &dyn Device,
        capability: &Capability,
        health: &Health,
        take_pair: &dyn Fn() -> Result<Option<OpenPair>, Fault>,
        urgency: Urgency,
    ) -> Result<(), Refusal> {
        if self.shown.get().is_none() {
            self.examine(device, capability, health, take_pair, urgency)?;
        }
        match self.shown.get() {
            Some(Err(what)) => Err(Unsupported::because(format!("failed its known-answer test: {what}")).into()),
            _ => Ok(()),
        }
    }

    /// Runs the test that has no result yet, when it is time for it.
    fn examine(
        &self,
        device: &dyn Device,
        capability: &Capability,
        health: &Health,
        take_pair: &dyn Fn() -> Result<Option<OpenPair>, Fault>,
        urgency: Urgency,
    ) -> Result<(), Fault> {
        if urgency == Urgency::Never {
            return Err(Fault::Declined(UNDER_WAY));
        }
        let Surroundings { place, common } = health.surroundings();
        let clock = &*common.clock;
        let is_brief = urgency == Urgency::Brief;
        let turn = if is_brief { try_lock(&self.test) } else { Some(lock(&self.test)) };
        let Some(mut left) = turn else { return Err(Fault::Declined(UNDER_WAY)) };
        if self.shown.get().is_some() {
            return Ok(()); // somebody else has had a turn
        }
        let again = !self.trust.is_ready();
        if left.is_none() && again && !self.trust.begin_probation(clock.now()) {
            return Err(Fault::Failed("its known-answer test failed a moment ago".into()));
        }
        let mut test = left.take().unwrap_or_else(|| Box::new(Test::new(capability)));
        let until = if is_brief { clock.now().saturating_add(BRIEF) } else { u64::MAX };
        let ran = test.run(device, &PairBench::new(take_pair, clock, capability, until, PATIENCE));
        self.has_pair.store(test.sent().is_some(), Ordering::Relaxed);
        let fault = match ran {
            Ok(Progress::Passed(took)) => {
                let _ = self.shown.set(Ok(took));
                return Ok(());
            }
            Ok(pause) => {
                *left = Some(test);
                return Err(Fault::Declined(match pause {
                    Progress::NoPair => "all of its queue pairs are in use",
                    _ => UNDER_WAY,
                }));
            }
            Err(Failure::Fault(what)) => Fault::failed(format!("failed its known-answer test: {what}")),
            Err(Failure::Wrong(what)) => {
                let _ = self.shown.set(Err(what));
                return Ok(());
            }
        };
        if again {
            self.trust.judge(false, clock.now());
        } else {
            self.trust.quarantine(clock.now());
        }
        let operation = capability.operations.first().copied().unwrap_or(capability.algorithm.kind().operations()[0]);
        common.stats.here().fault(Site::new(*place, capability.algorithm, operation), &fault);
        Err(fault)
    }

    /// How long the fastest batch of the test took, in nanoseconds, if the device has passed it.
    pub(crate) fn took(&self) -> Option<u64> {
        self.shown.get()?.as_ref().ok().copied()
    }

    /// Whether a batch came back that had a queue pair to itself, which is free now. The rest of the test waits for the next request.
    pub(crate) fn gives_up_pair(&self, clock: &dyn Clock) -> bool {
        if !self.has_pair.load(Ordering::Relaxed) {
            return false;
        }
        let Some(mut left) = try_lock(&self.test) else { return false };
        let is_free = left.as_mut().and_then(|test| test.sent()).is_some_and(|sent| sent.poll(clock));
        if is_free {
            self.has_pair.store(false, Ordering::Relaxed);
        }
        is_free
    }
}

/// What a device says that is being tested: not at fault, and not ready.
pub(crate) const UNDER_WAY: &str = "its known-answer test is under way";

/// The tests of a device on probation. A request that comes by goes on with them for a moment; nobody waits for their end.
#[derive(Default)]
pub(crate) struct Probation {
    /// Capabilities that are done with.
    done: usize,
    /// That of the next one, once it has begun.
    test: Option<Test<SentBatch>>,
}

impl Probation {
    /// Goes on for a moment. `Some` when it is over: whether the device has shown everything that it had shown before.
    pub(crate) fn go_on<'a>(
        &mut self,
        device: &dyn Device,
        tests: impl Iterator<Item = (&'a Capability, &'a Admission)>,
        clock: &dyn Clock,
        take_pair: &dyn Fn() -> Result<Option<OpenPair>, Fault>,
    ) -> Option<bool> {
        let until = clock.now().saturating_add(BRIEF);
        for (capability, admission) in tests.skip(self.done) {
            // What a device has never shown it need not show now.
            if let Some(took) = admission.took() {
                let bench = PairBench::new(take_pair, clock, capability, until, patience_again(took));
                let test = self.test.get_or_insert_with(|| Test::new(capability));
                match test.run(device, &bench) {
                    Ok(Progress::Passed(_)) => self.test = None,
                    Ok(Progress::UnderWay | Progress::NoPair) => return None,
                    Err(_) => return Some(false),
                }
            }
            self.done += 1;
            if clock.now() > until {
                return None;
            }
        }
        Some(true)
    }

    /// As for a [test](Admission::gives_up_pair) of an algorithm.
    pub(crate) fn gives_up_pair(&mut self, clock: &dyn Clock) -> bool {
        self.test.as_mut().and_then(Test::sent).is_some_and(|sent| sent.poll(clock))
    }
}
