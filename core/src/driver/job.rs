//! Requests in the hands of a driver: offered in a burst, taken as jobs, and completed.

#![allow(unsafe_code)]

use std::any::Any;
use std::marker::PhantomData;

use super::entry::{Chain, Flight, Place, finish, flight_of, has_result, is_back, mark, session};
use super::operands::{Operands, Scattered};
use super::session::DeviceSession;
use crate::algorithm::{Fault, Outcome};

/// A burst of requests that is offered to a device, in order: all of one algorithm and one operation.
///
/// A device that keeps requests [takes](Self::take) them one by one. One that works on all of them at once looks at them as a
/// slice of [`Offer`]s, finishes those that it has done, and [accepts](Self::accept) them.
pub struct Batch<'b> {
    places: &'b mut [Place],
    /// How many were taken or accepted.
    taken: usize,
}

impl<'b> Batch<'b> {
    /// Offers entries, which are marked as the device's while it may touch them.
    ///
    /// # Safety
    ///
    /// Every entry is in the caller's hands, has no result yet, and its session is set; until the batch is
    /// [settled](Self::settle), nobody else touches them (rules 1 and 2 of `entry.rs`).
    #[inline]
    pub(crate) unsafe fn new(places: &'b mut [Place]) -> Self {
        for place in &*places {
            mark(*place, true);
        }
        Self { places, taken: 0 }
    }

    /// Requests that have not been taken.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "take() tells")]
    pub fn len(&self) -> usize {
        self.places.len() - self.taken
    }

    /// Takes the next request, to be completed now or later.
    #[inline]
    pub fn take(&mut self) -> Option<Job> {
        let place = *self.places.get(self.taken)?;
        self.taken += 1;
        Some(Job(place))
    }

    /// The requests that have not been taken, for a device that works on all of them at once.
    #[inline]
    pub fn offers(&mut self) -> &mut [Offer<'b>] {
        let rest = &mut self.places[self.taken..];
        // SAFETY: an offer is a place and nothing else (`transparent`). Whatever a driver does with the slice, it holds the
        // places of this batch afterwards: the lifetime, which is this call's own, keeps offers of other batches out.
        unsafe { &mut *(std::ptr::from_mut(rest) as *mut [Offer<'b>]) }
    }

    /// Takes the first `count` of the [`offers`](Self::offers), which have been [finished](Offer::finish). One that has not is
    /// reported as lost.
    #[inline]
    pub fn accept(&mut self, count: usize) {
        let end = self.taken.saturating_add(count).min(self.places.len());
        for place in &self.places[self.taken..end] {
            // Not before: a driver may take one as a job even now that it has finished as an offer.
            if has_result(*place) { mark(*place, false) } else { drop(Job(*place)) }
        }
        self.taken = end;
    }

    /// Completes a job.
    #[inline]
    #[allow(clippy::unused_self, reason = "where a driver author looks for it, as for `Completions::complete`")]
    pub fn complete(&mut self, job: Job, result: Result<Outcome, Fault>) {
        job.give_back(result);
    }

    /// Ends the offer: calls `taken` for each request that was taken, in order, with whether it is back already. Those that
    /// were not taken have no result, and are the last ones in `places`. Returns how many were taken.
    #[inline]
    pub(crate) fn settle(self, mut taken: impl FnMut(Place, bool)) -> usize {
        let (here, left) = self.places.split_at(self.taken);
        for place in here {
            taken(*place, is_back(*place));
        }
        for place in left {
            // A driver may have finished one that it then did not accept.
            // SAFETY: nobody took it, so it is core's; rules 1 and 2.
            unsafe { (*place.as_ptr()).begin() };
            mark(*place, false);
        }
        here.len()
    }
}

/// A request of a [`Batch`] that has not been taken.
#[repr(transparent)]
pub struct Offer<'b>(Place, PhantomData<fn(&'b ()) -> &'b ()>);

impl Offer<'_> {
    /// The session, as the device opened it, and what to do.
    #[inline]
    pub fn parts(&mut self) -> (&dyn DeviceSession, Operands<'_>) {
        // SAFETY: `Batch::new` was promised that nobody else touches the entry, and that its session is set.
        unsafe { (session(self.0), (*self.0.as_ptr()).operands.reborrow()) }
    }

    /// The data, if they are handed over as segments: as [`Job::segments`].
    #[inline]
    pub fn segments(&self) -> Option<Scattered<'_>> {
        // SAFETY: as `parts`.
        unsafe { (*self.0.as_ptr()).scattered }
    }

    /// Gives the request its result.
    #[inline]
    pub fn finish(&mut self, result: Result<Outcome, Fault>) {
        finish(self.0, result);
    }
}

/// Where a device gives back the jobs that it kept.
pub struct Completions<'f> {
    flight: &'f mut Flight,
    back: Chain,
}

impl<'f> Completions<'f> {
    pub(crate) fn new(flight: &'f mut Flight) -> Self {
        Self { flight, back: Chain::new() }
    }

    /// Completes a job, in the same time whichever of the jobs in the device it is.
    pub fn complete(&mut self, job: Job, result: Result<Outcome, Fault>) {
        let place = job.0;
        let is_here = flight_of(place) == self.flight.id();
        job.give_back(result);
        // Another queue pair's job is found by that one.
        if is_here {
            self.flight.remove(place);
            // SAFETY: the device has given it back, and it has left the flight, which was promised that it lives.
            unsafe { self.back.push(place) };
        }
    }

    /// Jobs given back through this value.
    pub fn completed(&self) -> usize {
        self.back.len()
    }

    pub(crate) fn into_back(self) -> Chain {
        self.back
    }
}

/// A request in the hands of a device, to be given back through [`Batch::complete`] or [`Completions::complete`].
/// Dropping it reports [`Fault::Lost`].
pub struct Job(Place);

// SAFETY: a job is the only way to its entry (rule 1), whose parts (slices, streams, plain values) are Send; the session
// is Sync; the mark is atomic. Core sees what another thread wrote because of rule 3.
unsafe impl Send for Job {}

impl Job {
    /// What to do, with the buffers to do it on.
    #[inline]
    pub fn operands(&mut self) -> Operands<'_> {
        // SAFETY: rule 1 makes this job the only way to the operands, rule 2 keeps them alive.
        unsafe { &mut (*self.0.as_ptr()).operands }.reborrow()
    }

    /// The data, if they are handed over as segments: the buffers of data among the [operands](Self::operands) are empty then,
    /// and IV, associated data and tag are there as ever. Only a device sees this whose [limits](super::DeviceLimits) take it.
    #[inline]
    pub fn segments(&self) -> Option<Scattered<'_>> {
        // SAFETY: as `operands`; core writes the field only while it has the request in hand.
        unsafe { (*self.0.as_ptr()).scattered }
    }

    /// The session, as the device opened it.
    #[inline]
    pub fn session(&self) -> &dyn DeviceSession {
        // SAFETY: rules 1 and 2; the session was set before the request was offered (`Batch::new`).
        unsafe { session(self.0) }
    }

    /// The session as the type that this device opens. A job only ever reaches the device that opened its session, so
    /// `None` means a mistake in the driver.
    #[inline]
    pub fn session_as<S: DeviceSession>(&self) -> Option<&S> {
        (self.session() as &dyn Any).downcast_ref()
    }

    /// The session and what to do, both at once.
    #[inline]
    pub fn parts(&mut self) -> (&dyn DeviceSession, Operands<'_>) {
        // SAFETY: as `session`, which would borrow `self` beside `operands`.
        let session = unsafe { session(self.0) };
        (session, self.operands())
    }

    /// Does the work on the calling thread: [`DeviceSession::run`] of this job's session, or the next step of its stream.
    #[inline]
    pub fn run_direct(&mut self) -> Result<Outcome, Fault> {
        if self.segments().is_some() {
            return Err(Fault::Declined("segments are not run in the calling thread"));
        }
        let (session, operands) = self.parts();
        operands.run_by(session)
    }

    #[inline]
    fn give_back(self, result: Result<Outcome, Fault>) {
        self.finish(result);
        std::mem::forget(self);
    }

    #[inline]
    fn finish(&self, result: Result<Outcome, Fault>) {
        finish(self.0, result);
        // Nothing is touched through this job any more.
        mark(self.0, false);
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.finish(Err(Fault::Lost));
    }
}
