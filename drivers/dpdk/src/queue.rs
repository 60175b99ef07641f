//! A queue pair of Gantry, which takes requests into slots and completes them.

use std::sync::Arc;

use gantry_core::driver::{Batch, Completions, Job, QueuePair};
use gantry_core::{Fault, Operation, Outcome};

use crate::engine::{Engine, Ring, SLOTS};
use crate::fault::fault_in_child;
use crate::rsa::{self, RsaStep};
use crate::session::{self, DpdkSession};
use crate::sys::{self, DATA_OFFSET, QueueError, Request};

/// Number of requests that are written into slots and submitted at a time: enough for a PMD's lanes, and few enough for the data to stay in
/// the cache.
const MAX_STAGED: usize = 32;

/// A queue pair of a cryptodev.
///
/// Every request is copied into a slot and back, except data in regions that can be used in place
/// ([`memory_to_lend`](DpdkSession::memory_to_lend)). DPDK cannot take a request back from a device, but a dropped queue must end its jobs
/// at once. So the device may keep slots, and slots may keep regions, but never a buffer of a caller.
pub(crate) struct DpdkQueue {
    engine: Arc<Engine>,
    /// `None` once returned to the engine.
    ring: Option<Ring>,
    /// The job of each slot. Every slot in the device has one, unless it was [abandoned](Engine::abandon).
    jobs: Box<[Option<Job>]>,
    /// The current step of each slot with an RSA request.
    steps: Box<[Option<RsaStep>]>,
    /// Requests written into their slots, but not yet taken by the device.
    staged: Vec<Request>,
    /// Jobs that the device refused when the doorbell was rung.
    refused: Vec<(Job, Fault)>,
    /// Number of jobs staged or in the device.
    in_flight: usize,
    /// Number of slots in the device without a job.
    abandoned: usize,
}

impl DpdkQueue {
    /// Returns `None` while all queue pairs of the device are in use.
    pub(crate) fn new(engine: &Arc<Engine>) -> Result<Option<Self>, Fault> {
        let ring = engine.take_ring()?;
        Ok(ring.map(|ring| Self {
            engine: engine.clone(),
            ring: Some(ring),
            jobs: (0..SLOTS).map(|_| None).collect(),
            steps: vec![None; SLOTS as usize].into(),
            staged: Vec::with_capacity(MAX_STAGED),
            refused: Vec::new(),
            in_flight: 0,
            abandoned: 0,
        }))
    }

    /// Submits staged requests as far as there is room. `fail` gets the jobs that the device refuses.
    fn enqueue_staged(&mut self, mut fail: impl FnMut(Job, Fault)) {
        let Some(Ring { pair, free_slots }) = &mut self.ring else { return };
        while !self.staged.is_empty() {
            let (refused, fault) = match pair.enqueue(&mut self.staged) {
                Ok(()) => return,
                Err(QueueError::Refused) => (1, Fault::failed("DPDK: the device refuses the request")),
                Err(QueueError::Stopped) => (self.staged.len(), stopped()),
            };
            for request in self.staged.drain(..refused) {
                let slot = pair.take_back_refused(request);
                let job = self.jobs[slot.index()].take();
                pair.memory(&slot).buffer.fill(0);
                free_slots.push(slot);
                if let Some(job) = job {
                    self.in_flight -= 1;
                    fail(job, fault.clone());
                }
            }
        }
    }

    /// Ends every job with a fault. Requests in the device stay there, and are abandoned.
    fn fail_all(&mut self, fault: &Fault, done: &mut Completions<'_>) {
        self.abandon();
        for job in self.jobs.iter_mut().filter_map(Option::take) {
            self.in_flight -= 1;
            done.complete(job, Err(fault.clone()));
        }
    }

    /// Registers the requests in the device as abandoned, before their jobs end.
    fn abandon(&mut self) {
        let Some(Ring { pair, free_slots }) = &mut self.ring else { return };
        if sys::is_forked_child() {
            return;
        }
        for request in self.staged.drain(..) {
            pair.memory(request.slot()).buffer.fill(0);
            free_slots.push(pair.take_back_refused(request));
        }
        pair.redirect();
        let in_device = SLOTS as usize - free_slots.len();
        self.engine.abandon(in_device - self.abandoned);
        self.abandoned = in_device;
    }
}

fn stopped() -> Fault {
    Fault::failed("DPDK: the device was stopped")
}

impl QueuePair for DpdkQueue {
    fn submit(&mut self, batch: &mut Batch<'_>) {
        if sys::is_forked_child() {
            while let Some(job) = batch.take() {
                batch.complete(job, Err(fault_in_child()));
            }
            return;
        }
        let mut copied = 0;
        while let Some(Ring { pair, free_slots }) = &mut self.ring
            && let Some(slot) = free_slots.pop()
        {
            let Some(mut job) = batch.take() else {
                free_slots.push(slot);
                break;
            };
            let operation = job.operands().operation();
            let operand_bytes = job.operands().bytes();
            let bytes = job.segments().map_or(operand_bytes, |data| data.input.bytes());
            if matches!(operation, Operation::Sign | Operation::Verify) {
                match rsa::begin(&mut job, pair, slot) {
                    Ok((request, step)) => {
                        copied += bytes;
                        let index = request.slot().index();
                        (self.jobs[index], self.steps[index]) = (Some(job), Some(step));
                        self.staged.push(request);
                        self.in_flight += 1;
                    }
                    Err((slot, end)) => {
                        free_slots.push(slot);
                        batch.complete(job, end);
                    }
                }
                continue;
            }
            if bytes == 0 && matches!(operation, Operation::Encrypt | Operation::Decrypt) {
                // Some PMDs mishandle empty data: ipsec-mb's kernels run past the end of the buffer.
                free_slots.push(slot);
                batch.complete(job, Ok(Outcome::Done));
                continue;
            }
            let mut memory = pair.memory(&slot);
            let mut lent_memory = None;
            let external_length = job.segments().map(|data| {
                lent_memory =
                    job.session_as::<DpdkSession>().and_then(|session| session.memory_to_lend(operation, data));
                if lent_memory.is_none() {
                    data.input
                        .read(&mut memory.buffer[DATA_OFFSET..DATA_OFFSET + bytes])
                        .expect("the buffer has the length of the data");
                }
                bytes
            });
            let (session, operands) = job.parts();
            let prepared = match (session as &dyn std::any::Any).downcast_ref::<DpdkSession>() {
                Some(session) => session.prepare(&operands, external_length, &mut memory),
                None => Err(Fault::failed("the session belongs to another device")),
            };
            match prepared {
                Ok((session, layout)) => {
                    let mut request = Request::new(slot, session, &layout);
                    match lent_memory {
                        Some(lent_memory) => pair.lend(&mut request, lent_memory),
                        None => copied += layout.data_len,
                    }
                    let index = request.slot().index();
                    (self.jobs[index], self.steps[index]) = (Some(job), None);
                    self.staged.push(request);
                    self.in_flight += 1;
                }
                Err(fault) => {
                    if lent_memory.is_none() {
                        memory.buffer[DATA_OFFSET..DATA_OFFSET + bytes].fill(0);
                    }
                    free_slots.push(slot);
                    batch.complete(job, Err(fault));
                }
            }
            if self.staged.len() >= MAX_STAGED {
                self.enqueue_staged(|job, fault| batch.complete(job, Err(fault)));
            }
        }
        self.engine.count_copied(copied);
    }

    fn doorbell(&mut self) {
        if sys::is_forked_child() {
            return;
        }
        let mut refused = std::mem::take(&mut self.refused);
        self.enqueue_staged(|job, fault| refused.push((job, fault)));
        self.refused = refused;
    }

    fn poll(&mut self, done: &mut Completions<'_>) -> usize {
        if sys::is_forked_child() {
            self.fail_all(&fault_in_child(), done);
            return 0;
        }
        self.enqueue_staged(|job, fault| done.complete(job, Err(fault)));
        for (job, fault) in self.refused.drain(..) {
            done.complete(job, Err(fault));
        }
        let (mut copied, mut reclaimed) = (0, 0);
        let Some(Ring { pair, free_slots }) = &mut self.ring else { return 0 };
        let (jobs, steps, staged, in_flight) = (&mut self.jobs, &mut self.steps, &mut self.staged, &mut self.in_flight);
        let last = loop {
            let taken = pair.dequeue(|pair, slot, status, lent_memory| {
                let index = slot.index();
                let Some(mut job) = jobs[index].take() else {
                    pair.memory(&slot).buffer.fill(0);
                    reclaimed += 1;
                    free_slots.push(slot);
                    return;
                };
                let (slot, result) = match steps[index] {
                    None => {
                        let (result, bytes) =
                            session::finish(&mut job, &mut pair.memory(&slot), status, lent_memory.as_ref());
                        copied += bytes;
                        (slot, result)
                    }
                    Some(step) => match rsa::advance(&mut job, step, status, pair, slot) {
                        Ok(request) => {
                            (jobs[index], steps[index]) = (Some(job), Some(RsaStep::Check));
                            staged.push(request);
                            return;
                        }
                        Err((slot, result)) => (slot, result),
                    },
                };
                *in_flight -= 1;
                done.complete(job, result);
                free_slots.push(slot);
            });
            // A PMD that computes on a poll may return only part of its results at once.
            match taken {
                Ok(1..) if *in_flight > 0 => {}
                last => break last,
            }
        };
        self.engine.count_copied(copied);
        self.engine.reclaim(reclaimed);
        self.abandoned -= reclaimed;
        if last == Err(QueueError::Stopped) {
            self.fail_all(&stopped(), done);
        }
        self.in_flight
    }
}

impl Drop for DpdkQueue {
    fn drop(&mut self) {
        // In a child, the queue pair belongs to the parent, which has its own `DpdkQueue` for it.
        self.abandon();
        if let (Some(ring), false) = (self.ring.take(), sys::is_forked_child()) {
            self.engine.return_ring(ring);
        }
        // Dropping the remaining jobs reports them as lost.
    }
}
