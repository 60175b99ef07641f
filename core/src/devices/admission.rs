//! Known-answer tests of devices, by algorithm.

use std::sync::OnceLock;

use super::health::{Environment, Health};
use super::pairs::OpenPair;
use super::test_bench::{BRIEF_WAIT_NS, PairTestBench, SentBatch};
use crate::algorithm::{Fault, Refusal, Unsupported};
use crate::clock::Clock;
use crate::driver::{Capability, Device};
use crate::route::{Reason, Route};
use crate::stats::Site;
use crate::sync::{AtomicBool, Mutex, Ordering, lock, try_lock};
use crate::trust::{ANSWER_TIMEOUT_NS, Failure, Progress, Test, Trust, retry_timeout_ns};

/// The known-answer test of one algorithm on a device.
#[derive(Default)]
pub(crate) struct Admission {
    /// The result: nanoseconds of the fastest batch, or a description of the wrong answer. A fault is not a result.
    verdict: OnceLock<Result<u64, String>>,
    /// Delays the next test after a fault, so that the device can recover.
    trust: Trust,
    /// The unfinished test. The lock lets one thread run it.
    test: Mutex<Option<Box<Test<SentBatch>>>>,
    /// A batch of the unfinished test is in the device, and occupies a queue pair.
    has_pair: AtomicBool,
}

/// The time that a thread may spend on a known-answer test.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum TestWait {
    /// No time: the request has waited for a test already.
    None,
    /// About a millisecond: a request waits, and another device may take it. A computation in this thread is not interrupted, even if it
    /// takes longer.
    Brief,
    /// The whole test.
    Full,
}

impl TestWait {
    /// Returns the time that a request may wait on this route. If the route is pinned, no other device will do, so the request waits for
    /// the test.
    #[inline]
    pub(crate) fn for_route(self, route: Route) -> Self {
        if route.reason == Reason::Pinned { TestWait::Full } else { self }
    }
}

impl Admission {
    /// Runs the known-answer test unless its result is known, and returns an error if the device failed it. After a fault, a later call
    /// runs the test again.
    pub(crate) fn admit(
        &self,
        device: &dyn Device,
        capability: &Capability,
        health: &Health,
        take_pair: &dyn Fn() -> Result<Option<OpenPair>, Fault>,
        test_wait: TestWait,
    ) -> Result<(), Refusal> {
        if self.verdict.get().is_none() {
            self.run_test(device, capability, health, take_pair, test_wait)?;
        }
        match self.verdict.get() {
            Some(Err(reason)) => Err(Unsupported::because(format!("failed its known-answer test: {reason}")).into()),
            _ => Ok(()),
        }
    }

    /// Runs the test that has no result yet, if it is due.
    fn run_test(
        &self,
        device: &dyn Device,
        capability: &Capability,
        health: &Health,
        take_pair: &dyn Fn() -> Result<Option<OpenPair>, Fault>,
        test_wait: TestWait,
    ) -> Result<(), Fault> {
        if test_wait == TestWait::None {
            return Err(Fault::Declined(TEST_RUNNING));
        }
        let Environment { index, common } = health.environment();
        let clock = &*common.clock;
        let is_brief = test_wait == TestWait::Brief;
        let guard = if is_brief { try_lock(&self.test) } else { Some(lock(&self.test)) };
        let Some(mut paused) = guard else { return Err(Fault::Declined(TEST_RUNNING)) };
        if self.verdict.get().is_some() {
            return Ok(()); // another thread has run the test
        }
        let is_retry = !self.trust.is_ready();
        if paused.is_none() && is_retry && !self.trust.begin_probation(clock.now()) {
            return Err(Fault::Failed("its known-answer test failed recently, and is not repeated yet".into()));
        }
        let mut test = paused.take().unwrap_or_else(|| Box::new(Test::new(capability)));
        let until = if is_brief { clock.now().saturating_add(BRIEF_WAIT_NS) } else { u64::MAX };
        let ran = test.run(device, &PairTestBench::new(take_pair, clock, capability, until, ANSWER_TIMEOUT_NS));
        self.has_pair.store(test.sent().is_some(), Ordering::Relaxed);
        let fault = match ran {
            Ok(Progress::Passed(took)) => {
                let _ = self.verdict.set(Ok(took));
                return Ok(());
            }
            Ok(pause) => {
                *paused = Some(test);
                return Err(Fault::Declined(match pause {
                    Progress::NoPair => "all of its queue pairs are in use",
                    _ => TEST_RUNNING,
                }));
            }
            Err(Failure::Fault(reason)) => Fault::failed(format!("failed its known-answer test: {reason}")),
            Err(Failure::Wrong(reason)) => {
                let _ = self.verdict.set(Err(reason));
                return Ok(());
            }
        };
        if is_retry {
            self.trust.end_probation(false, clock.now());
        } else {
            self.trust.quarantine(clock.now());
        }
        let operation = capability.operations.first().copied().unwrap_or(capability.algorithm.kind().operations()[0]);
        common.stats.this_thread().count_fault(Site::new(*index, capability.algorithm, operation), &fault);
        Err(fault)
    }

    /// Returns the duration of the test's fastest batch in nanoseconds, if the device has passed.
    pub(crate) fn fastest_batch_ns(&self) -> Option<u64> {
        self.verdict.get()?.as_ref().ok().copied()
    }

    /// Polls the batch of the unfinished test. Returns `true` if the batch has come back and freed its queue pair. The next request
    /// continues the test.
    pub(crate) fn release_pair(&self, clock: &dyn Clock) -> bool {
        if !self.has_pair.load(Ordering::Relaxed) {
            return false;
        }
        let Some(mut paused) = try_lock(&self.test) else { return false };
        let is_free = paused.as_mut().and_then(|test| test.sent()).is_some_and(|sent| sent.poll(clock));
        if is_free {
            self.has_pair.store(false, Ordering::Relaxed);
        }
        is_free
    }
}

/// The reason for declining a request while its device is being tested.
pub(crate) const TEST_RUNNING: &str = "its known-answer test is under way";

/// The tests of a device on probation. Every request continues the tests for a moment, and does not wait for their end.
#[derive(Default)]
pub(crate) struct Probation {
    /// Number of capabilities whose test is over or was skipped.
    tested: usize,
    /// The test of the next capability, once it has begun.
    test: Option<Test<SentBatch>>,
}

impl Probation {
    /// Continues the tests for a moment. Returns `Some` at the end: `true` if the device passed every test that it had passed before.
    pub(crate) fn advance<'a>(
        &mut self,
        device: &dyn Device,
        tests: impl Iterator<Item = (&'a Capability, &'a Admission)>,
        clock: &dyn Clock,
        take_pair: &dyn Fn() -> Result<Option<OpenPair>, Fault>,
    ) -> Option<bool> {
        let until = clock.now().saturating_add(BRIEF_WAIT_NS);
        for (capability, admission) in tests.skip(self.tested) {
            // Skip algorithms whose test the device has never passed.
            if let Some(took) = admission.fastest_batch_ns() {
                let bench = PairTestBench::new(take_pair, clock, capability, until, retry_timeout_ns(took));
                let test = self.test.get_or_insert_with(|| Test::new(capability));
                match test.run(device, &bench) {
                    Ok(Progress::Passed(_)) => self.test = None,
                    Ok(Progress::Unfinished | Progress::NoPair) => return None,
                    Err(_) => return Some(false),
                }
            }
            self.tested += 1;
            if clock.now() > until {
                return None;
            }
        }
        Some(true)
    }

    /// Releases a queue pair like [`Admission::release_pair`].
    pub(crate) fn release_pair(&mut self, clock: &dyn Clock) -> bool {
        self.test.as_mut().and_then(Test::sent).is_some_and(|sent| sent.poll(clock))
    }
}
