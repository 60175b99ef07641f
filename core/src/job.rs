//! Requests in the hands of a device, and the only `unsafe` code of this crate.
//!
//! A device may keep a request beyond the call that brought it: a ring is filled now and emptied later. Rust's borrows
//! end with a call, so a [`Job`] points. What makes that sound:
//!
//! 1. *One owner.* A [`Batch`] is made from `&mut [Request]` and turns each request into at most one `Job`. While the job
//!    lives, the request is marked `IN_DEVICE`, and core touches nothing of it but that mark, through raw pointers.
//! 2. *Long enough.* [`Batch`] borrows requests and session for `'b`, and whoever makes one must not let `'b` end before
//!    [`InFlight::is_empty`] said that no job is left: this is the contract of [`Batch::new`]. Where a device loses count,
//!    [`InFlight`] ends the process instead of letting memory be written that is no longer the request's.
//! 3. *Visible.* The last touch of a job is a `Release` store to the mark, and core reads it with `Acquire`.

#![allow(unsafe_code)]

use std::any::Any;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::driver::{DeviceQueue, DeviceSession};
use crate::request::{Body, IDLE, IN_DEVICE, Operands, Request};
use crate::{Fault, Outcome};

/// Requests that are offered to a device, in order.
pub struct Batch<'b> {
    requests: NonNull<Request<'static>>,
    len: usize,
    next: usize,
    in_flight: usize,
    session: NonNull<dyn DeviceSession>,
    borrows: PhantomData<&'b mut ()>,
}

impl<'b> Batch<'b> {
    /// # Safety
    ///
    /// `requests` points at `len` requests, and neither they nor `session` may be touched or freed before
    /// [`InFlight::is_empty`] has said so for the same range (rule 2 above).
    unsafe fn new(requests: NonNull<Request<'b>>, len: usize, session: &'b Arc<dyn DeviceSession>) -> Self {
        Self {
            requests: requests.cast(),
            len,
            next: 0,
            in_flight: 0,
            session: NonNull::from(&**session),
            borrows: PhantomData,
        }
    }

    /// Requests that have not been taken.
    #[allow(clippy::len_without_is_empty, reason = "take() tells")]
    pub fn len(&self) -> usize {
        self.len - self.next
    }

    /// The next request.
    #[inline]
    pub fn take(&mut self) -> Option<Job> {
        while self.next < self.len {
            // SAFETY: `next < len`, so this is inside the range that `new` was promised. Taking the addresses of two
            // fields makes no reference to the request as a whole.
            let (body, state) = unsafe {
                let request = self.requests.add(self.next).as_ptr();
                (NonNull::new_unchecked(&raw mut (*request).body), NonNull::new_unchecked(&raw mut (*request).state))
            };
            self.next += 1;
            // SAFETY: no job has this body yet, so it is the batch's.
            if unsafe { body.as_ref() }.outcome.is_some() {
                continue; // core knew its outcome
            }
            // SAFETY: the mark is alive as the request is, and is only used through shared references.
            unsafe { state.as_ref() }.store(IN_DEVICE, Ordering::Relaxed);
            self.in_flight += 1;
            return Some(Job { body, state, session: self.session });
        }
        None
    }

    /// Gives a job back with its result.
    #[inline]
    pub fn complete(&mut self, job: Job, result: Result<Outcome, Fault>) {
        // Another batch's job must not make this one look finished: that is for `InFlight` of the other one to see.
        let place = job.body.addr().get().wrapping_sub(self.requests.addr().get());
        self.in_flight -= usize::from(place < self.len * size_of::<Request<'static>>());
        job.complete(result);
    }

    /// Jobs that were taken and not given back through this value.
    fn in_flight(&self) -> usize {
        self.in_flight
    }
}

/// Where a device gives back the jobs that it kept.
pub struct Completions {
    completed: usize,
}

impl Completions {
    fn new() -> Self {
        Self { completed: 0 }
    }

    /// Gives a job back with its result.
    pub fn complete(&mut self, job: Job, result: Result<Outcome, Fault>) {
        self.completed += 1;
        job.complete(result);
    }

    /// Jobs given back through this value.
    pub fn completed(&self) -> usize {
        self.completed
    }
}

/// A request in the hands of a device, to be given back through [`Batch::complete`] or [`Completions::complete`].
/// Dropping it reports [`Fault::Lost`].
pub struct Job {
    body: NonNull<Body<'static>>,
    state: NonNull<AtomicU8>,
    session: NonNull<dyn DeviceSession>,
}

// SAFETY: a job is the only way to its body (rule 1), whose parts (slices, streams, plain values) are Send; the session
// is Sync; the mark is atomic. Core sees what another thread wrote because of rule 3.
unsafe impl Send for Job {}

impl Job {
    /// What to do, with the buffers to do it on.
    #[inline]
    pub fn operands(&mut self) -> Operands<'_> {
        // SAFETY: rule 1 makes this job the only way to the body, rule 2 keeps it alive. The copy is what `reborrow` makes, field
        // by field and more slowly: the original is out of reach as long as `self` is borrowed.
        unsafe { (&raw const (*self.body.as_ptr()).operands).read() }
    }

    /// The session, as the device opened it.
    #[inline]
    pub fn session(&self) -> &dyn DeviceSession {
        // SAFETY: rule 2 keeps the session alive; it is only ever shared.
        unsafe { self.session.as_ref() }
    }

    /// The session as the type that this device opens. A job only ever reaches the device that opened its session, so
    /// `None` means a mistake in the driver.
    #[inline]
    pub fn session_as<S: DeviceSession>(&self) -> Option<&S> {
        (self.session() as &dyn Any).downcast_ref()
    }

    /// Does the work where it stands: [`DeviceSession::run`] of this job's session, or the next step of its stream.
    #[inline]
    pub fn run_direct(&mut self) -> Result<Outcome, Fault> {
        // SAFETY: rule 2 keeps the session alive. Not `self.session()`, which would borrow `self` beside `operands`.
        let session = unsafe { self.session.as_ref() };
        match self.operands() {
            Operands::Update { stream, input } => stream.update(input).map(|()| Outcome::Done),
            Operands::Finish { stream, output } => stream.finish(output).map(|()| Outcome::Done),
            operands => session.run(operands),
        }
    }

    #[inline]
    fn complete(self, result: Result<Outcome, Fault>) {
        self.finish(result);
        std::mem::forget(self);
    }

    #[inline]
    fn finish(&self, result: Result<Outcome, Fault>) {
        // SAFETY: rules 1 and 2; after the store below nothing is touched through this job any more.
        unsafe {
            (*self.body.as_ptr()).finish(result);
            self.state.as_ref().store(IDLE, Ordering::Release);
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.finish(Err(Fault::Lost));
    }
}

/// Hands requests to a device, and returns when all of them have a result: an outcome, or a fault. Gives the queue back.
pub(crate) fn run_to_end(
    queue: Box<dyn DeviceQueue>,
    session: &Arc<dyn DeviceSession>,
    requests: &mut [Request<'_>],
) -> Box<dyn DeviceQueue> {
    let len = requests.len();
    let first = NonNull::from(&mut *requests).cast();
    // SAFETY: `first` and `len` are the slice that this function borrows, and it touches neither slice nor session before
    // the loop is left, which it is only when no job is in flight. On unwinding, the drop of `in_flight` sees to it.
    let (mut batch, in_flight) = unsafe { (Batch::new(first, len, session), InFlight::new(first, len)) };
    // Declared after `in_flight`, so that unwinding drops the queue first, and with it the jobs that it keeps.
    let mut queue = queue;
    loop {
        let before = (batch.len(), batch.in_flight());
        queue.submit(&mut batch);
        if batch.len() == 0 && batch.in_flight() == 0 {
            break;
        }
        let mut done = Completions::new();
        queue.poll(&mut done);
        let stuck = done.completed() == 0 && before == (batch.len(), batch.in_flight());
        if (batch.len() == 0 || stuck) && in_flight.is_empty() {
            break;
        }
        if stuck {
            std::thread::yield_now();
        }
    }
    std::mem::forget(in_flight); // it has just been asked, or counted
    let untaken = batch.len();
    for request in &mut requests[len - untaken..] {
        // By a device that is full with nothing in it.
        if request.body.outcome.is_none() {
            request.body.fault = Some(Fault::failed("the device takes no requests"));
        }
    }
    queue
}

/// Knows the requests of a batch until none of them is in a device any more.
struct InFlight<'b> {
    requests: NonNull<Request<'static>>,
    len: usize,
    borrows: PhantomData<&'b mut ()>,
}

impl<'b> InFlight<'b> {
    /// # Safety
    ///
    /// As [`Batch::new`], of which this guards one or several over the same requests.
    unsafe fn new(requests: NonNull<Request<'b>>, len: usize) -> Self {
        Self { requests: requests.cast(), len, borrows: PhantomData }
    }

    /// Whether all jobs have been given back. The requests then are their owner's again.
    fn is_empty(&self) -> bool {
        (0..self.len).all(|index| {
            // SAFETY: inside the range; only the mark is touched, by a shared reference.
            let state = unsafe { &(*self.requests.add(index).as_ptr()).state };
            state.load(Ordering::Acquire) == IDLE
        })
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if !self.is_empty() {
            // Reached only while unwinding from a device's panic, after its queue was dropped, when the device keeps jobs
            // elsewhere still. The buffers are about to be freed under it.
            std::process::abort();
        }
    }
}
