//! Batches of known answers, on queue pairs of their own.

#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

use super::pairs::OpenPair;
use crate::algorithm::Fault;
use crate::clock::Clock;
use crate::driver::{Capability, DeviceSession, Operands};
use crate::request::{Handle, List, Request};
use crate::trust::{ANSWER_TIMEOUT_NS, Run, RunResult, TestBench};

/// Maximum nanoseconds of a brief wait for a known-answer test. A batch of the test that was sent longer ago is only polled.
pub(crate) const BRIEF_WAIT_NS: u64 = 1_000_000;

/// The queue pairs and the time limits of a known-answer test.
pub(crate) struct PairTestBench<'a> {
    take_pair: &'a dyn Fn() -> Result<Option<OpenPair>, Fault>,
    clock: &'a dyn Clock,
    /// The end of the caller's time; `u64::MAX` if the caller waits for the end of the test.
    until: u64,
    /// The device is late if no request has entered or left it for this many nanoseconds, or if callers have waited for longer in all.
    timeout_ns: u64,
    /// Maximum number of requests that are handed over between two readings of the clock.
    max_offered: usize,
}

impl<'a> PairTestBench<'a> {
    pub(crate) fn new(
        take_pair: &'a dyn Fn() -> Result<Option<OpenPair>, Fault>,
        clock: &'a dyn Clock,
        capability: &Capability,
        until: u64,
        timeout_ns: u64,
    ) -> Self {
        // A device that runs one request after the other in this thread gains nothing from several requests at once.
        let max_offered = if capability.synchronous && capability.lanes == 1 { 1 } else { usize::MAX };
        Self { take_pair, clock, until, timeout_ns, max_offered }
    }
}

impl TestBench for PairTestBench<'_> {
    type Sent = SentBatch;

    fn send(&self, session: &Arc<dyn DeviceSession>, runs: Vec<Run>) -> Result<Option<SentBatch>, Fault> {
        let pair = (self.take_pair)()?;
        Ok(pair.map(|pair| SentBatch::new(pair, session.clone(), runs, self.clock.now())))
    }

    fn wait(&self, sent: &mut SentBatch) -> Result<bool, Fault> {
        let until = if self.until == u64::MAX {
            u64::MAX
        } else {
            self.until.min(sent.started_at.saturating_add(BRIEF_WAIT_NS))
        };
        sent.advance(self.clock, self.max_offered, self.timeout_ns, until)
    }

    fn results(&self, sent: SentBatch) -> (Vec<RunResult>, u64) {
        sent.into_results()
    }

    fn is_over(&self) -> bool {
        self.clock.now() > self.until
    }
}

/// A batch of known answers. It owns its requests, so that it may stay in the device after a call returns.
pub(crate) struct SentBatch {
    pair: OpenPair,
    /// Leaked if a request is still in flight at the end.
    memory: ManuallyDrop<BatchMemory>,
    /// Requests that are not handed over yet.
    offered: List,
    done: List,
    started_at: u64,
    /// The last time at which a request entered or left the device.
    moved_at: u64,
    /// Nanoseconds that callers have waited for the batch.
    waited_ns: u64,
}

/// Memory that the device may write. It is in vectors, because their content does not move when the batch moves.
struct BatchMemory {
    runs: Vec<Run>,
    /// Requests, each pointing into its run.
    requests: Vec<UnsafeCell<Request<'static>>>,
    /// Keeps the session that the requests point to.
    _session: Arc<dyn DeviceSession>,
}

// SAFETY: the cells are accessed only through `&mut self`, or through handles, which are `Send` themselves.
unsafe impl Send for BatchMemory {}

impl SentBatch {
    fn new(pair: OpenPair, session: Arc<dyn DeviceSession>, mut runs: Vec<Run>, now: u64) -> Self {
        let request = |run: &mut Run| {
            // SAFETY: the buffers of a run do not move, and nothing else accesses them, until `into_results` has all requests back. If that
            // never happens, the buffers are leaked.
            let operands: Operands<'static> = unsafe { &mut *std::ptr::from_mut(run) }.operands();
            UnsafeCell::new(Request::new(operands, None))
        };
        let requests: Vec<_> = runs.iter_mut().map(request).collect();
        let mut offered = List::new();
        for cell in &requests {
            // SAFETY: a cell's address is never null. The request and its buffers do not move, as said above, and only this handle
            // refers to the request.
            let mut handle = unsafe { Handle::new(NonNull::new_unchecked(cell.get())) };
            let shape = handle.entry.operands.shape();
            handle.meta.shape = shape;
            // SAFETY: the session is kept together with the requests.
            unsafe { handle.set_route(&*session, None) };
            offered.push(handle);
        }
        let memory = ManuallyDrop::new(BatchMemory { runs, requests, _session: session });
        Self { pair, memory, offered, done: List::new(), started_at: now, moved_at: now, waited_ns: 0 }
    }

    /// Hands over requests, and takes back completed requests, until `until`. Returns `true` if all requests have a result. If the device
    /// is late ([`PairTestBench::timeout_ns`]), the remaining requests get a fault. Returns the fault if the device still
    /// keeps a request.
    fn advance(&mut self, clock: &dyn Clock, max_offered: usize, timeout_ns: u64, until: u64) -> Result<bool, Fault> {
        let mut before = clock.now();
        while !self.offered.is_empty() || self.pair.in_flight() > 0 {
            let offered = self.offered.len();
            let mut part = self.offered.take_front(max_offered);
            let polled = self.pair.submit(&mut part, &mut self.done).and_then(|_| self.pair.poll(&mut self.done));
            part.append(&mut self.offered);
            self.offered = part;
            let now = clock.now();
            self.waited_ns += now.saturating_sub(before);
            before = now;
            let is_unmoved = polled == Ok(0) && self.offered.len() == offered;
            if !is_unmoved {
                self.moved_at = now;
            }
            let is_late = is_unmoved && (self.waited_ns > timeout_ns || now.saturating_sub(self.moved_at) > timeout_ns);
            if is_late || polled.is_err() {
                let fault = Fault::failed("no answer in time");
                self.offered.fail(&fault, &mut self.done);
                if !self.pair.take_back(&mut self.done) {
                    return Err(fault);
                }
            } else if now >= until {
                return Ok(self.all_returned());
            } else if is_unmoved {
                let late_at = self.moved_at.saturating_add(timeout_ns).saturating_add(1);
                clock.wait(Some(until.min(late_at)));
            }
        }
        Ok(true)
    }

    /// Takes back completed requests. Releases the queue pair and returns `true` if all are back.
    pub(crate) fn poll(&mut self, clock: &dyn Clock) -> bool {
        let is_over = self.pair.is_open()
            && self.advance(clock, usize::MAX, ANSWER_TIMEOUT_NS, 0).is_ok_and(|all_returned| all_returned);
        is_over && self.pair.take_back(&mut self.done)
    }

    fn all_returned(&self) -> bool {
        self.offered.is_empty() && self.pair.in_flight() == 0
    }

    /// Returns the result of each request, in order, and the nanoseconds from start to end. All requests must be back.
    fn into_results(mut self) -> (Vec<RunResult>, u64) {
        assert!(self.all_returned(), "all requests are back from the device");
        let runs = std::mem::take(&mut self.memory.runs);
        let results_of_requests = self.memory.requests.iter_mut().map(|cell| cell.get_mut().entry.result());
        let results = runs.into_iter().zip(results_of_requests).collect();
        (results, self.moved_at.saturating_sub(self.started_at))
    }
}

impl Drop for SentBatch {
    fn drop(&mut self) {
        if self.pair.in_flight() == 0 || self.pair.take_back(&mut self.done) {
            // SAFETY: no request is in flight, and the value is not used again.
            unsafe { ManuallyDrop::drop(&mut self.memory) };
        }
    }
}
