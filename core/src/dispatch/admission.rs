//! Which algorithms a device has shown that it computes.

use std::cell::Cell;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::health::{Health, Surroundings};
use super::inbox::Inbox;
use super::list::List;
use super::loan::Loan;
use super::pair::OpenPair;
use super::request::Request;
use crate::algorithm::{Fault, Outcome, Refusal, Unsupported};
use crate::clock::Clock;
use crate::driver::{Capability, Device, DeviceSession, Operands};
use crate::stats::Site;
use crate::trust::{Bench, Failure, PATIENCE, Test, Trust, patience_again};

/// What a device has shown of one algorithm.
#[derive(Default)]
pub(super) struct Admission {
    /// What was wrong with the known answers, or how long a batch of them took, in nanoseconds. A fault tells neither.
    shown: OnceLock<Result<u64, String>>,
    /// After a fault the test is repeated when the device has had time to recover.
    trust: Trust,
    /// Of the threads that need the algorithm, one runs the test. What is left of it, where that one had no more time.
    test: Mutex<Option<Test>>,
}

/// How long a thread may run a known-answer test.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// Not at all: the request has waited for a test already.
    Never,
    /// A request waits, and another device may have it: a millisecond, and one step more.
    Brief,
    /// To the end.
    Patient,
}

/// For so many nanoseconds a request waits for the known-answer test of a device.
const BRIEF: u64 = 1_000_000;

impl Admission {
    /// Runs the known-answer test, unless that has been done; says what was wrong. After a fault the test is run again,
    /// though not at once.
    pub(super) fn admit(
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
        let again = !self.trust.is_ready();
        let too_early = Fault::Failed("its known-answer test failed a moment ago".into());
        if again && !self.trust.begin_probation(clock.now()) {
            return Err(too_early);
        }
        let mut left = self.test.lock().unwrap_or_else(PoisonError::into_inner);
        if self.shown.get().is_some() {
            return Ok(());
        }
        if !again && !self.trust.is_ready() {
            return Err(too_early); // the thread that had its turn before has met a fault
        }
        let mut test = left.take().unwrap_or_else(|| Test::new(capability));
        let end = clock.now().saturating_add(BRIEF);
        let stop = || urgency == Urgency::Brief && clock.now() > end;
        let bench = PairBench { take_pair, clock, none: Cell::new(false) };
        let fault = match test.run(device, &bench, PATIENCE, stop) {
            Ok(Some(took)) => {
                let _ = self.shown.set(Ok(took));
                return Ok(());
            }
            Ok(None) => {
                *left = Some(test);
                return Err(Fault::Declined(UNDER_WAY));
            }
            Err(_) if bench.none.get() => {
                *left = Some(test);
                return Err(Fault::Declined("all of its queue pairs are in use"));
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

    /// Repeats the test of an algorithm that has been shown before. What a device has never shown it need not show now.
    pub(super) fn still_works(
        &self,
        device: &dyn Device,
        capability: &Capability,
        clock: &dyn Clock,
        take_pair: &dyn Fn() -> Result<Option<OpenPair>, Fault>,
    ) -> bool {
        let Some(Ok(took)) = self.shown.get() else { return true };
        let bench = PairBench { take_pair, clock, none: Cell::new(false) };
        Test::new(capability).run(device, &bench, patience_again(*took), || false).is_ok()
    }
}

/// What a device says that is being tested: not at fault, and not ready.
pub(crate) const UNDER_WAY: &str = "its known-answer test is under way";

/// Runs batches of known answers on queue pairs that nobody else has meanwhile.
struct PairBench<'a> {
    take_pair: &'a dyn Fn() -> Result<Option<OpenPair>, Fault>,
    clock: &'a dyn Clock,
    /// There was no queue pair.
    none: Cell<bool>,
}

impl Bench for PairBench<'_> {
    fn run(
        &self,
        session: &Arc<dyn DeviceSession>,
        batch: Vec<Operands<'_>>,
        patience: u64,
    ) -> Result<(Vec<Result<Outcome, Fault>>, u64), Fault> {
        let mut requests: Vec<Request<'_>> = batch.into_iter().map(|operands| Request::new(operands, None)).collect();
        let Some(pair) = (self.take_pair)()? else {
            self.none.set(true);
            return Err(Fault::Declined("no queue pair is free"));
        };
        let start = self.clock.now();
        run_to_end(pair, &**session, self.clock, patience, &mut requests);
        let took = self.clock.now().saturating_sub(start);
        Ok((requests.iter().map(|request| request.entry.result()).collect(), took))
    }
}

/// Runs requests of one session on a queue pair, and returns when each has a result. When nothing comes back any more after
/// `patience` nanoseconds, the rest has a fault. The queue pair is dropped.
fn run_to_end(
    mut pair: OpenPair,
    session: &dyn DeviceSession,
    clock: &dyn Clock,
    patience: u64,
    requests: &mut [Request<'_>],
) {
    let home = Inbox::new();
    // SAFETY: there is no session of core's to live long enough.
    #[allow(unsafe_code)]
    let Ok(loan) = unsafe { Loan::of(requests, &home, |_, _| Ok::<_, Infallible>(None)) };
    loan.run(|mut list| {
        // SAFETY: the caller holds the session, and every request is back before this function returns.
        #[allow(unsafe_code)]
        list.each(|handle| unsafe { handle.address(session, None) });
        let mut done = List::new();
        let end = clock.now().saturating_add(patience);
        while !list.is_empty() || pair.in_flight() > 0 {
            let offered = list.len();
            let came = pair.submit(&mut list, &mut done).and_then(|_| pair.poll(&mut done));
            let nothing = came == Ok(0) && list.len() == offered;
            if came.is_err() || nothing && clock.now() > end {
                pair.take_back(&mut done);
                list.fail(&Fault::failed("no answer in time"), &mut done);
            } else if nothing {
                clock.wait(Some(end.saturating_add(1)));
            }
        }
        done
    });
}
