//! Batches of known answers, on queue pairs that nobody else has meanwhile.

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
use crate::trust::{Bench, Ended, PATIENCE, Run};

/// For so many nanoseconds a request waits for a known-answer test, and for one batch of it.
pub(crate) const BRIEF: u64 = 1_000_000;

/// What a known-answer test runs on, and how long the caller has.
pub(crate) struct PairBench<'a> {
    take_pair: &'a dyn Fn() -> Result<Option<OpenPair>, Fault>,
    clock: &'a dyn Clock,
    /// When the caller has no more time; `u64::MAX` where it waits for the end.
    until: u64,
    /// For so many nanoseconds nothing may come back from the device.
    patience: u64,
    /// Requests that are handed over between two looks at the clock.
    at_once: usize,
}

impl<'a> PairBench<'a> {
    pub(crate) fn new(
        take_pair: &'a dyn Fn() -> Result<Option<OpenPair>, Fault>,
        clock: &'a dyn Clock,
        capability: &Capability,
        until: u64,
        patience: u64,
    ) -> Self {
        // A device that works in this thread, one request after the other, needs no more of them.
        let at_once = if capability.direct && capability.lanes == 1 { 1 } else { usize::MAX };
        Self { take_pair, clock, until, patience, at_once }
    }
}

impl Bench for PairBench<'_> {
    type Sent = SentBatch;

    fn send(&self, session: &Arc<dyn DeviceSession>, runs: Vec<Run>) -> Result<Option<SentBatch>, Fault> {
        let pair = (self.take_pair)()?;
        Ok(pair.map(|pair| SentBatch::new(pair, session.clone(), runs, self.clock.now())))
    }

    fn wait(&self, sent: &mut SentBatch) -> Result<bool, Fault> {
        let until = if self.until == u64::MAX { u64::MAX } else { self.until.min(sent.start.saturating_add(BRIEF)) };
        sent.advance(self.clock, self.at_once, self.patience, until)
    }

    fn results(&self, sent: SentBatch) -> (Vec<Ended>, u64) {
        sent.into_results()
    }

    fn is_over(&self) -> bool {
        self.clock.now() > self.until
    }
}

/// A batch of known answers that owns its requests, so that it may stay in the device beyond any call.
pub(crate) struct SentBatch {
    pair: OpenPair,
    /// Leaked when something is still in strange hands at the end.
    lent: ManuallyDrop<Lent>,
    /// Not handed over yet.
    offered: List,
    done: List,
    start: u64,
    /// When something went into the device or came back last.
    moved: u64,
    /// Nanoseconds that callers have waited for the batch.
    waited: u64,
}

/// What the device may write to. Vectors, because they stay where they are when the batch is moved.
struct Lent {
    runs: Vec<Run>,
    /// Each points into its run.
    requests: Vec<UnsafeCell<Request<'static>>>,
    /// The requests name it.
    _session: Arc<dyn DeviceSession>,
}

// SAFETY: what lies in the cells is reached through `&mut self`, or through handles, which are Send by themselves.
unsafe impl Send for Lent {}

impl SentBatch {
    fn new(pair: OpenPair, session: Arc<dyn DeviceSession>, mut runs: Vec<Run>, now: u64) -> Self {
        let request = |run: &mut Run| {
            // SAFETY: the buffers of a run stay where they are, and nothing else touches them, until `into_results` has all
            // requests back; where that never happens, they are leaked.
            let operands: Operands<'static> = unsafe { &mut *std::ptr::from_mut(run) }.operands();
            UnsafeCell::new(Request::new(operands, None))
        };
        let requests: Vec<_> = runs.iter_mut().map(request).collect();
        let mut offered = List::new();
        for cell in &requests {
            // SAFETY: a cell's address is never null. The request stays where it is, with what it points to, as said above, and
            // only this handle leads to it.
            let mut handle = unsafe { Handle::new(NonNull::new_unchecked(cell.get())) };
            let shape = handle.entry.operands.shape();
            handle.note.shape = shape;
            // SAFETY: the session is kept beside the requests.
            unsafe { handle.address(&*session, None) };
            offered.push(handle);
        }
        let lent = ManuallyDrop::new(Lent { runs, requests, _session: session });
        Self { pair, lent, offered, done: List::new(), start: now, moved: now, waited: 0 }
    }

    /// Hands over, and takes back what is ready, until then. Returns whether all requests have a result. Where nothing comes back
    /// any more for `patience` nanoseconds, the rest has a fault.
    fn advance(&mut self, clock: &dyn Clock, at_once: usize, patience: u64, until: u64) -> Result<bool, Fault> {
        let mut before = clock.now();
        while !self.offered.is_empty() || self.pair.in_flight() > 0 {
            let offered = self.offered.len();
            let mut part = self.offered.take_front(at_once);
            let came = self.pair.submit(&mut part, &mut self.done).and_then(|_| self.pair.poll(&mut self.done));
            part.append(&mut self.offered);
            self.offered = part;
            let now = clock.now();
            self.waited += now.saturating_sub(before);
            before = now;
            let nothing = came == Ok(0) && self.offered.len() == offered;
            if !nothing {
                self.moved = now;
            }
            let is_late = nothing && (self.waited > patience || now.saturating_sub(self.moved) > patience);
            if is_late || came.is_err() {
                let fault = Fault::failed("no answer in time");
                self.offered.fail(&fault, &mut self.done);
                if !self.pair.take_back(&mut self.done) {
                    return Err(fault);
                }
            } else if now >= until {
                return Ok(self.is_back());
            } else if nothing {
                let late = self.moved.saturating_add(patience).saturating_add(1);
                clock.wait(Some(until.min(late)));
            }
        }
        Ok(true)
    }

    /// Takes back what is ready, and gives the queue pair up when that was all. Returns whether it did.
    pub(crate) fn poll(&mut self, clock: &dyn Clock) -> bool {
        let is_over = self.pair.is_open() && self.advance(clock, usize::MAX, PATIENCE, 0).is_ok_and(|is_back| is_back);
        is_over && self.pair.take_back(&mut self.done)
    }

    fn is_back(&self) -> bool {
        self.offered.is_empty() && self.pair.in_flight() == 0
    }

    /// How each ended, in order, and the nanoseconds from the first to the last. All have to be back.
    fn into_results(mut self) -> (Vec<Ended>, u64) {
        assert!(self.is_back(), "a device has nothing of it any more");
        let runs = std::mem::take(&mut self.lent.runs);
        let ends = self.lent.requests.iter_mut().map(|cell| cell.get_mut().entry.result());
        let results = runs.into_iter().zip(ends).collect();
        (results, self.moved.saturating_sub(self.start))
    }
}

impl Drop for SentBatch {
    fn drop(&mut self) {
        if self.pair.in_flight() == 0 || self.pair.take_back(&mut self.done) {
            // SAFETY: nothing is in anybody's hands, and the value is not used again.
            unsafe { ManuallyDrop::drop(&mut self.lent) };
        }
    }
}
