//! Requests owned by a driver: offered in a burst, taken as jobs, and completed.

#![allow(unsafe_code)]

use std::any::Any;

use super::chain::{Chain, InFlight};
use super::entry::{
    DeviceSession, EntryPtr, Offer, finish, has_result, in_flight_id, is_returned, run_contiguous, session,
    set_in_device,
};
use super::operands::{Operands, Scattered};
use crate::algorithm::{Fault, Outcome};

/// A burst of requests of the same algorithm and operation that is offered to a device, in order.
///
/// A device that keeps requests [takes](Self::take) them one by one. A device that processes all of them at once reads them
/// as a slice of [`Offer`]s, finishes some of them, and [accepts](Self::accept) these.
pub struct Batch<'b> {
    entries: &'b mut [EntryPtr],
    /// The number of requests that were taken or accepted.
    taken: usize,
}

impl<'b> Batch<'b> {
    /// Offers entries, and marks them as owned by the device until it returns them.
    ///
    /// # Safety
    ///
    /// The caller must own every entry; none may have a result, and each session must be set. Until the batch is
    /// [closed](Self::close), no other code accesses the entries (rules 1 and 2 of `entry.rs`).
    #[inline]
    pub(crate) unsafe fn new(entries: &'b mut [EntryPtr]) -> Self {
        for entry in &*entries {
            set_in_device(*entry, true);
        }
        Self { entries, taken: 0 }
    }

    /// Returns the number of requests that have not been taken.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "take() returns None")]
    pub fn len(&self) -> usize {
        self.entries.len() - self.taken
    }

    /// Takes the next request, to be completed now or later.
    #[inline]
    pub fn take(&mut self) -> Option<Job> {
        let entry = *self.entries.get(self.taken)?;
        self.taken += 1;
        Some(Job(entry))
    }

    /// Returns the requests that have not been taken, for a device that processes all of them at once.
    #[inline]
    pub fn offers(&mut self) -> &mut [Offer<'b>] {
        let rest = &mut self.entries[self.taken..];
        // SAFETY: an offer is a transparent wrapper of a pointer. A driver can only permute the slice, so it still holds the
        // pointers of this batch afterwards: the invariant lifetime `'b` keeps offers of other batches out.
        unsafe { &mut *(std::ptr::from_mut(rest) as *mut [Offer<'b>]) }
    }

    /// Takes the first `count` of the [`offers`](Self::offers), which must be [finished](Offer::finish). Reports an
    /// unfinished request as [`Fault::Lost`].
    #[inline]
    pub fn accept(&mut self, count: usize) {
        let end = self.taken.saturating_add(count).min(self.entries.len());
        for entry in &self.entries[self.taken..end] {
            // `Offer::finish` leaves the mark set, because a driver may finish an offer and then still take its request as a job.
            if has_result(*entry) { set_in_device(*entry, false) } else { drop(Job(*entry)) }
        }
        self.taken = end;
    }

    /// Runs the requests that have not been taken on the calling thread, by [`DeviceSession::run_batch`] of the first request's session,
    /// and accepts them.
    #[inline]
    pub fn run_direct(&mut self) {
        let Some(first) = self.entries.get(self.taken) else { return };
        // SAFETY: as `Offer::parts`. The session outlives its request, which is not given back before `accept`.
        let session = unsafe { session(*first) };
        session.run_batch(self.offers());
        self.accept(usize::MAX);
    }

    /// Completes a job.
    #[inline]
    #[allow(clippy::unused_self, reason = "where a driver author looks for it, as for `Completions::complete`")]
    pub fn complete(&mut self, job: Job, result: Result<Outcome, Fault>) {
        job.give_back(result);
    }

    /// Ends the batch. Calls `on_taken` for each request that was taken, in order, with true if the device has already returned it.
    /// Requests that were not taken have no result, and come last in the entries. Returns the number of requests taken.
    #[inline]
    pub(crate) fn close(self, mut on_taken: impl FnMut(EntryPtr, bool)) -> usize {
        let (taken_entries, rest) = self.entries.split_at(self.taken);
        for entry in taken_entries {
            on_taken(*entry, is_returned(*entry));
        }
        for entry in rest {
            // A driver may have finished a request without accepting it. SAFETY: the request was not taken, so core owns
            // it; rules 1 and 2.
            unsafe { (*entry.as_ptr()).clear_result() };
            set_in_device(*entry, false);
        }
        taken_entries.len()
    }
}

/// The receiver of completed jobs that a device had kept.
pub struct Completions<'f> {
    in_flight: &'f mut InFlight,
    completed: Chain,
}

impl<'f> Completions<'f> {
    pub(crate) fn new(in_flight: &'f mut InFlight) -> Self {
        Self { in_flight, completed: Chain::new() }
    }

    /// Completes a job in constant time, at any position in the queue pair.
    pub fn complete(&mut self, job: Job, result: Result<Outcome, Fault>) {
        let entry = job.0;
        let is_in_this_list = in_flight_id(entry) == self.in_flight.id();
        job.give_back(result);
        // A job of another queue pair is found when that queue pair takes returned entries from its list.
        if is_in_this_list {
            self.in_flight.remove(entry);
            // SAFETY: the device has returned the entry, and it has left the list, whose `push` guaranteed its lifetime.
            unsafe { self.completed.push(entry) };
        }
    }

    /// Returns the number of jobs completed through this value.
    pub fn completed(&self) -> usize {
        self.completed.len()
    }

    pub(crate) fn into_completed(self) -> Chain {
        self.completed
    }
}

/// A request owned by a device, to be returned through [`Batch::complete`] or [`Completions::complete`]. Dropping it
/// reports [`Fault::Lost`].
pub struct Job(EntryPtr);

// SAFETY: a job is the only access to its entry (rule 1), and the parts of an entry (slices, streams, plain values) are Send. The session
// is Sync, and the mark is atomic. Rule 3 makes the writes of another thread visible to core.
unsafe impl Send for Job {}

impl Job {
    /// Returns the operands and their buffers.
    #[inline]
    pub fn operands(&mut self) -> Operands<'_> {
        // SAFETY: rule 1 makes this job the only access to the operands, rule 2 keeps them alive.
        unsafe { &mut (*self.0.as_ptr()).operands }.reborrow()
    }

    /// Returns the data if they are passed as segments. The data buffers of the [operands](Self::operands) are empty then;
    /// IV, associated data and tag are there as usual. Only devices whose [limits](super::DeviceLimits) allow it get
    /// segments.
    #[inline]
    pub fn segments(&self) -> Option<Scattered<'_>> {
        // SAFETY: as `operands`; core writes the field only while it has the request.
        unsafe { (*self.0.as_ptr()).scattered }
    }

    /// Returns the session, as the device opened it.
    #[inline]
    pub fn session(&self) -> &dyn DeviceSession {
        // SAFETY: rules 1 and 2; the session was set before the request was offered (`Batch::new`).
        unsafe { session(self.0) }
    }

    /// Returns the session as the type that this device opens. A job only reaches the device that opened its session, so
    /// `None` means a bug in the driver.
    #[inline]
    pub fn session_as<S: DeviceSession>(&self) -> Option<&S> {
        (self.session() as &dyn Any).downcast_ref()
    }

    /// Returns the session and the operands.
    #[inline]
    pub fn parts(&mut self) -> (&dyn DeviceSession, Operands<'_>) {
        // SAFETY: as in `session`, which is not called here because it would borrow all of `self`.
        let session = unsafe { session(self.0) };
        (session, self.operands())
    }

    /// Runs the job on the calling thread: [`DeviceSession::run`] of its session, or the next step of its stream.
    #[inline]
    pub fn run_direct(&mut self) -> Result<Outcome, Fault> {
        let segmented = self.segments().is_some();
        let (session, operands) = self.parts();
        run_contiguous(session, operands, segmented)
    }

    #[inline]
    fn give_back(self, result: Result<Outcome, Fault>) {
        self.finish(result);
        std::mem::forget(self);
    }

    #[inline]
    fn finish(&self, result: Result<Outcome, Fault>) {
        finish(self.0, result);
        // The last access through this job.
        set_in_device(self.0, false);
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.finish(Err(Fault::Lost));
    }
}
