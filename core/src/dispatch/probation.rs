//! How a device comes out of quarantine: it shows again what it has shown before.

use super::admission::Admission;
use super::bench::{BRIEF, PairBench, SentBatch};
use super::pair::OpenPair;
use crate::algorithm::Fault;
use crate::clock::Clock;
use crate::driver::{Capability, Device};
use crate::trust::{Progress, Test, patience_again};

/// The tests of a device on probation. A request that comes by goes on with them for a moment; nobody waits for their end.
#[derive(Default)]
pub(super) struct Probation {
    /// Capabilities that are done with.
    done: usize,
    /// That of the next one, once it has begun.
    test: Option<Test<SentBatch>>,
}

impl Probation {
    /// Goes on for a moment. `Some` when it is over: whether the device has shown everything that it had shown before.
    pub(super) fn go_on<'a>(
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
    pub(super) fn gives_up_pair(&mut self, clock: &dyn Clock) -> bool {
        self.test.as_mut().and_then(Test::sent).is_some_and(|sent| sent.poll(clock))
    }
}
