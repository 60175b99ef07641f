use std::sync::Arc;

use gantry_core::driver::{Batch, Completions, Job, QueuePair};
use gantry_core::{Fault, Operation, Outcome};

use crate::device::of_parent;
use crate::engine::{Engine, Ring, SLOTS};
use crate::rsa::{self, Step};
use crate::session::{self, DpdkSession};
use crate::sys::{self, Blocked, DATA, Request};

/// Requests are written into slots and handed over so many at a time: enough for a PMD's lanes, and few enough for the data to be
/// in the cache still.
const BURST: usize = 32;

/// A queue pair of a cryptodev.
///
/// Every request is copied into a slot of ours and back, but for data in regions that can be used where they lie
/// ([`lendable`](DpdkSession::lendable)). DPDK cannot take a request back from a device, and this queue has to when it is
/// dropped: the device then keeps slots, which keep regions, never a buffer of a caller's.
pub(crate) struct DpdkQueue {
    engine: Arc<Engine>,
    /// `None` once it is given back.
    ring: Option<Ring>,
    /// By slot: what is in it. Every slot of the device has one, but for those that were [abandoned](Engine::abandon).
    jobs: Box<[Option<Job>]>,
    /// By slot, of requests of RSA: what is computed.
    steps: Box<[Option<Step>]>,
    /// Written into their slots, and not taken by the device yet.
    staged: Vec<Request>,
    /// What the device did not take when the doorbell was rung.
    refused: Vec<(Job, Fault)>,
    /// Jobs that are staged or in the device.
    in_flight: usize,
    /// Slots that the device has without a job.
    abandoned: usize,
}

impl DpdkQueue {
    /// `None` while the device has none that is free.
    pub(crate) fn new(engine: &Arc<Engine>) -> Result<Option<Self>, Fault> {
        let ring = engine.take()?;
        Ok(ring.map(|ring| Self {
            engine: engine.clone(),
            ring: Some(ring),
            jobs: (0..SLOTS).map(|_| None).collect(),
            steps: vec![None; SLOTS as usize].into(),
            staged: Vec::with_capacity(BURST),
            refused: Vec::new(),
            in_flight: 0,
            abandoned: 0,
        }))
    }

    /// Hands over what is staged, as far as there is room. `fail` gets the jobs that the device refuses.
    fn push(&mut self, mut fail: impl FnMut(Job, Fault)) {
        let Some(Ring { pair, free }) = &mut self.ring else { return };
        while !self.staged.is_empty() {
            let (refused, fault) = match pair.enqueue(&mut self.staged) {
                Ok(()) => return,
                Err(Blocked::Refused) => (1, Fault::failed("DPDK: the device refuses the request")),
                Err(Blocked::Stopped) => (self.staged.len(), stopped()),
            };
            for request in self.staged.drain(..refused) {
                let slot = pair.withdraw(request);
                let job = self.jobs[slot.index()].take();
                pair.room(&slot).buffer.fill(0);
                free.push(slot);
                if let Some(job) = job {
                    self.in_flight -= 1;
                    fail(job, fault.clone());
                }
            }
        }
    }

    /// Gives up every job, with a fault. What the device has of them stays there as abandoned.
    fn fail_all(&mut self, fault: &Fault, done: &mut Completions<'_>) {
        self.abandon();
        for job in self.jobs.iter_mut().filter_map(Option::take) {
            self.in_flight -= 1;
            done.complete(job, Err(fault.clone()));
        }
    }

    /// Tells the engine of the requests that are in the device, whose jobs are about to be given up.
    fn abandon(&mut self) {
        let Some(Ring { pair, free }) = &mut self.ring else { return };
        if sys::forked() {
            return;
        }
        for request in self.staged.drain(..) {
            pair.room(request.slot()).buffer.fill(0);
            free.push(pair.withdraw(request));
        }
        pair.redirect();
        let inside = SLOTS as usize - free.len();
        self.engine.abandon(inside - self.abandoned);
        self.abandoned = inside;
    }
}

fn stopped() -> Fault {
    Fault::failed("DPDK: the device was stopped")
}

impl QueuePair for DpdkQueue {
    fn submit(&mut self, batch: &mut Batch<'_>) {
        if sys::forked() {
            while let Some(job) = batch.take() {
                batch.complete(job, Err(of_parent()));
            }
            return;
        }
        let mut copied = 0;
        while let Some(Ring { pair, free }) = &mut self.ring
            && let Some(slot) = free.pop()
        {
            let Some(mut job) = batch.take() else {
                free.push(slot);
                break;
            };
            let operation = job.operands().operation();
            let among = job.operands().bytes();
            let bytes = job.segments().map_or(among, |data| data.input.bytes());
            if matches!(operation, Operation::Sign | Operation::Verify) {
                match rsa::begin(&mut job, pair, slot) {
                    Ok((request, step)) => {
                        copied += bytes;
                        let place = request.slot().index();
                        (self.jobs[place], self.steps[place]) = (Some(job), Some(step));
                        self.staged.push(request);
                        self.in_flight += 1;
                    }
                    Err((slot, end)) => {
                        free.push(slot);
                        batch.complete(job, end);
                    }
                }
                continue;
            }
            if bytes == 0 && matches!(operation, Operation::Encrypt | Operation::Decrypt) {
                // Not every PMD stops at nothing: ipsec-mb's kernels run on, out of the buffer.
                free.push(slot);
                batch.complete(job, Ok(Outcome::Done));
                continue;
            }
            let mut room = pair.room(&slot);
            let mut lent = None;
            let outside = job.segments().map(|data| {
                lent = job.session_as::<DpdkSession>().and_then(|session| session.lendable(operation, data));
                if lent.is_none() {
                    data.input.read(&mut room.buffer[DATA..DATA + bytes]).expect("of this length");
                }
                bytes
            });
            let (session, operands) = job.parts();
            let prepared = match (session as &dyn std::any::Any).downcast_ref::<DpdkSession>() {
                Some(session) => session.prepare(&operands, outside, &mut room),
                None => Err(Fault::failed("a session of another device")),
            };
            match prepared {
                Ok((session, layout)) => {
                    let mut request = Request::new(slot, session, &layout);
                    match lent {
                        Some(lent) => pair.lend(&mut request, lent),
                        None => copied += layout.data,
                    }
                    let place = request.slot().index();
                    (self.jobs[place], self.steps[place]) = (Some(job), None);
                    self.staged.push(request);
                    self.in_flight += 1;
                }
                Err(fault) => {
                    if lent.is_none() {
                        room.buffer[DATA..DATA + bytes].fill(0);
                    }
                    free.push(slot);
                    batch.complete(job, Err(fault));
                }
            }
            if self.staged.len() >= BURST {
                self.push(|job, fault| batch.complete(job, Err(fault)));
            }
        }
        self.engine.count_copied(copied);
    }

    fn doorbell(&mut self) {
        if sys::forked() {
            return;
        }
        let mut refused = std::mem::take(&mut self.refused);
        self.push(|job, fault| refused.push((job, fault)));
        self.refused = refused;
    }

    fn poll(&mut self, done: &mut Completions<'_>) -> usize {
        if sys::forked() {
            self.fail_all(&of_parent(), done);
            return 0;
        }
        self.push(|job, fault| done.complete(job, Err(fault)));
        for (job, fault) in self.refused.drain(..) {
            done.complete(job, Err(fault));
        }
        let (mut copied, mut recovered) = (0, 0);
        let Some(Ring { pair, free }) = &mut self.ring else { return 0 };
        let (jobs, steps, staged, in_flight) = (&mut self.jobs, &mut self.steps, &mut self.staged, &mut self.in_flight);
        let last = loop {
            let taken = pair.dequeue(|pair, slot, status, lent| {
                let place = slot.index();
                let Some(mut job) = jobs[place].take() else {
                    pair.room(&slot).buffer.fill(0);
                    recovered += 1;
                    free.push(slot);
                    return;
                };
                let (slot, result) = match steps[place] {
                    None => {
                        let (result, bytes) = session::finish(&mut job, &mut pair.room(&slot), status, lent.as_ref());
                        copied += bytes;
                        (slot, result)
                    }
                    Some(step) => match rsa::proceed(&mut job, step, status, pair, slot) {
                        Ok(request) => {
                            (jobs[place], steps[place]) = (Some(job), Some(Step::Check));
                            staged.push(request);
                            return;
                        }
                        Err((slot, result)) => (slot, result),
                    },
                };
                *in_flight -= 1;
                done.complete(job, result);
                free.push(slot);
            });
            // A PMD that computes when it is asked does not give all of it at once.
            match taken {
                Ok(1..) if *in_flight > 0 => {}
                last => break last,
            }
        };
        self.engine.count_copied(copied);
        self.engine.recovered(recovered);
        self.abandoned -= recovered;
        if last == Err(Blocked::Stopped) {
            self.fail_all(&stopped(), done);
        }
        self.in_flight
    }
}

impl Drop for DpdkQueue {
    fn drop(&mut self) {
        // In a child the queue pair is the parent's, which has one of its own to use it by.
        self.abandon();
        if let (Some(ring), false) = (self.ring.take(), sys::forked()) {
            self.engine.put(ring);
        }
        // Dropped here, and so reported as lost: the jobs.
    }
}
