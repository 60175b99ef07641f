//! Requests of synchronous calls that meet those of other threads.
//!
//! Only where a policy or the session asks for it: a call that waits for others takes longer than it has to, so that all of
//! them together take less of the CPU's time.

use std::cell::Cell;
use std::time::Duration;

use super::coalescer::{Coalescer, is_due};
use super::direct::RunOnRing;
use super::dispatcher::{Dispatcher, dispatch_one};
use super::inbox::Inbox;
use super::list::List;
use super::request::Request;
use super::session::SessionCore;
use crate::algorithm::{Operation, Outcome, Result, Shape};
use crate::driver::Operands;
use crate::route::{BatchSize, Question};
use crate::stats::Watch;
use crate::sync::{cpus, pause, sleep, this_thread};

/// Requests of fewer bytes are never worth a wait: they are done before another thread runs.
pub(crate) const SMALLEST: usize = 4 << 10;

/// A thread yields this many times for each request that it would like to have, before it goes with those that are there.
const TURNS: usize = 2;
/// How long a thread whose request others have sleeps, until it looks whether a device is to be polled.
const LOOK: Duration = Duration::from_micros(500);
/// Of so many waits of a thread one is measured.
const MEASURED: u32 = 64;

/// While held, this thread counts as a candidate for batching.
#[derive(Default)]
pub struct Presence<'s> {
    coalescer: Option<&'s Coalescer>,
    requests: usize,
}

impl Presence<'_> {
    /// How many requests may meet now.
    pub(crate) fn batch(&self) -> Option<usize> {
        (self.requests > 1).then_some(self.requests)
    }
}

impl Drop for Presence<'_> {
    fn drop(&mut self) {
        if let Some(coalescer) = self.coalescer {
            coalescer.leave();
        }
    }
}

impl SessionCore {
    /// Whether requests of so many bytes, or pieces of messages, wait for those of other threads.
    #[inline]
    pub(crate) fn coalesces(&self, operation: Operation, bytes: usize) -> bool {
        bytes >= SMALLEST && self.asks_for_others() && self.has_lanes(operation)
    }

    /// Whether the session or the policy asks for that.
    #[inline]
    pub(crate) fn asks_for_others(&self) -> bool {
        self.params.coalesces() || self.gantry.policy().coalesces()
    }

    /// Runs one request on the calling thread, with those of other threads where that is better for all of them.
    pub(crate) fn run_coalesced(
        &self,
        operands: &mut Operands<'_>,
        shape: Shape,
        watch: &mut Watch<'_>,
        on_ring: RunOnRing,
    ) -> Result<Outcome> {
        let presence = self.presence(shape, true);
        match presence.batch() {
            Some(requests) => self.coalesce(requests, Request::new(operands.reborrow(), None), shape),
            None => self.run_direct(operands, shape, watch, on_ring),
        }
    }

    /// Counts the calling thread among those that have a request for which a batch would pay, if it would. `begins`: it may be
    /// done alone as well, as a message that lives with the lanes already may not.
    pub(crate) fn presence(&self, shape: Shape, begins: bool) -> Presence<'_> {
        let common = self.gantry.common();
        // Nothing that threads share is written as long as each can have a CPU, or batches do not pay.
        let most = common.waits.threads_per_cpu();
        if most > 1 {
            let BatchSize { requests, saving_ns } = self.batch_size(shape.operation, shape.bytes, most);
            if requests > 1 && common.waits.pays(saving_ns) {
                let coalescer = common.coalescer(self.params.algorithm());
                coalescer.enter();
                let waits = !begins || coalescer.experiment.waits_for_others(shape.bytes, common.clock.now());
                let come = waits && coalescer.threads() / cpus() >= requests;
                return Presence { coalescer: Some(coalescer), requests: if come { requests } else { 1 } };
            }
        }
        Presence::default()
    }

    /// The same for work that others than our devices may do. Policies learn what batches are worth after enough work, wherever
    /// it was done.
    pub(crate) fn presence_of_work(&self, shape: Shape) -> Presence<'_> {
        let presence = self.presence(shape, true);
        if presence.coalescer.is_none() && self.gantry.common().waits.threads_per_cpu() > 1 {
            let _ = self.ask(&Question::one(shape, 0));
        }
        presence
    }

    /// Runs a request with so many others if they come.
    pub(crate) fn coalesce(&self, requests: usize, mut request: Request<'_>, shape: Shape) -> Result<Outcome> {
        let coalescer = self.gantry.common().coalescer(self.params.algorithm());
        dispatch_one(self, &mut request, shape, |dispatcher, list, home, done| {
            self.meet(dispatcher, coalescer, requests, list, home, done);
            dispatcher.finish(&self.gantry, done);
        });
        request.result()
    }

    /// Lays a request down, and waits until it is back or in a line of our own.
    fn meet(
        &self,
        dispatcher: &mut Dispatcher<&Inbox>,
        coalescer: &Coalescer,
        requests: usize,
        request: List,
        home: &Inbox,
        done: &mut List,
    ) {
        let (gantry, common) = (&self.gantry, self.gantry.common());
        let clock = &common.clock;
        thread_local! {
            static LEFT: Cell<u32> = const { Cell::new(0) };
        }
        let before = if is_due(&LEFT, MEASURED) { clock.cpu() } else { None };
        let mut there = dispatcher.post(coalescer, request);
        let end = clock.now().saturating_add(common.waits.longest);
        let mut turns = TURNS * requests;
        while there < requests && turns > 0 && clock.now() < end {
            pause();
            if dispatcher.poll(gantry, done) {
                break;
            }
            there = coalescer.there();
            turns -= 1;
        }
        if done.is_empty() {
            dispatcher.take_along(self, coalescer, done);
            if !done.is_empty() || dispatcher.has_lines() {
                return;
            }
        }
        // Others have it.
        turns = TURNS * requests;
        let mut slept = 0;
        while done.is_empty() && !dispatcher.poll(gantry, done) {
            if turns > 0 {
                pause();
                turns -= 1;
            } else if home.sleep(this_thread()) {
                sleep(LOOK);
                slept = 1;
            }
        }
        if let Some((before, after)) = before.zip(clock.cpu()) {
            // The thread that wakes spends about as much as the one that sleeps.
            common.waits.learn(after.saturating_sub(before) << slept);
        }
    }
}

#[cfg(all(test, loom))]
mod races {
    use loom::thread;

    use super::super::races::session;
    use super::*;

    /// Each of two calls lays its request down, and either runs both, or sleeps until the other one has run its own. Nobody
    /// looks again after a while here: who is not woken sleeps for ever.
    #[test]
    fn who_meets_is_run_once_and_woken() {
        loom::model(|| {
            let session = session();
            let mut alone = [0; 1];
            session.encrypt(&[], &mut alone).expect("and the device has passed its test");
            let threads = [1, 2].map(|_| {
                let session = session.clone();
                thread::spawn(move || {
                    let mut data = [0; 1];
                    let operands =
                        Operands::Cipher { operation: Operation::Encrypt, iv: &[], data: (&mut data).into() };
                    let shape = operands.shape();
                    session.core.coalesce(2, Request::new(operands, None), shape)
                })
            });
            for thread in threads {
                assert_eq!(thread.join().expect("it does not panic"), Ok(Outcome::Done));
            }
            let coalescer = session.gantry().common().coalescer(session.params().algorithm());
            assert_eq!((coalescer.there(), coalescer.take().len()), (0, 0));
        });
    }
}
