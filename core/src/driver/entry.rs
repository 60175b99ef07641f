//! A request as a device sees it, the session that runs it, and the rules for passing requests by pointer from core to a device and back.
//!
//! A device may keep a request after the call that submitted it returns, for example in a ring. Rust's borrows end with the
//! call, so core's lists and a device's [`Job`](super::Job)s use raw pointers. Three rules make this sound:
//!
//! 1. *One owner at a time.* At any time, one of these alone gives access to a request: the borrow of its creator, core's
//!    `Handle`, a device's job, or an offer to a device. While a device has the request, the entry is marked `IN_DEVICE`.
//!    Core then accesses only that mark and its own fields ([`Links`], and the fields of [`Request`](crate::Request) after
//!    the entry), through raw pointers to these fields.
//! 2. *Lifetime.* The code that makes a handle guarantees that the request, and the sessions it points to, stay in place
//!    until the handle has come back. `Session::process` does not return earlier. A `Queue` owns the memory, and leaks it
//!    if a device never returns the request.
//! 3. *Visibility.* The last access through a job is a `Release` store to the mark, and core reads the mark with `Acquire`.

#![allow(unsafe_code)]

use std::any::Any;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use super::operands::{Operands, Scattered};
use super::stream::{AeadStream, CipherStream, DigestStream};
use crate::algorithm::{Fault, Operation, Outcome, Unsupported};

/// The address of a request's entry. Code that turns this raw pointer into a reference must justify it.
pub(crate) type EntryPtr = NonNull<Entry<'static>>;

/// A request as a device sees it: the first field of [`Request`](crate::Request), whose other fields belong to core.
pub(crate) struct Entry<'a> {
    pub(crate) operands: Operands<'a>,
    /// The data, if they lie in segments and were not copied. The operands then have no data.
    pub(crate) scattered: Option<Scattered<'a>>,
    /// The outcome that the device reported.
    pub(crate) outcome: Option<Outcome>,
    /// The fault that the device reported. Boxed, because faults are rare.
    pub(crate) fault: Option<Box<Fault>>,
    state: AtomicU8,
    pub(crate) links: Links,
}

/// The creator of the request or core has it.
const IDLE: u8 = 0;
/// A device has the operands and the result; core must not access them.
const IN_DEVICE: u8 = 1;

/// Core's fields: the lists that contain a request, and its session. Only core writes them. Jobs and offers read `session` for a driver.
pub(crate) struct Links {
    next: Option<EntryPtr>,
    previous: Option<EntryPtr>,
    /// The id of the [`InFlight`] that contains the request; 0 for none. Atomic, because the job may be completed through another
    /// queue pair of the device while the queue pair that took it is still storing the field.
    in_flight_id: AtomicUsize,
    /// The session that will run the request. The device that gets the request next has opened it.
    session: Option<NonNull<dyn DeviceSession>>,
}

// SAFETY: sessions are Sync; the neighbours in a list are accessed only by the thread that has the request.
unsafe impl Send for Links {}
// SAFETY: as above; only the atomic field is changed through a shared reference.
unsafe impl Sync for Links {}

impl<'a> Entry<'a> {
    pub(crate) fn new(operands: Operands<'a>) -> Self {
        let links = Links { next: None, previous: None, in_flight_id: AtomicUsize::new(0), session: None };
        Self { operands, scattered: None, outcome: None, fault: None, state: AtomicU8::new(IDLE), links }
    }

    /// Returns true if no device has the request.
    pub(crate) fn is_idle(&self) -> bool {
        self.state.load(Ordering::Relaxed) == IDLE
    }

    /// Clears the outcome and the fault.
    #[inline]
    pub(crate) fn clear_result(&mut self) {
        self.outcome = None;
        if self.fault.is_some() {
            self.fault = None;
        }
    }

    /// Sets the outcome or the fault, and leaves the other field as it is. An earlier outcome therefore wins over a new fault.
    #[inline]
    pub(crate) fn finish(&mut self, result: Result<Outcome, Fault>) {
        match result {
            Ok(outcome) => self.outcome = Some(outcome),
            Err(fault) => set_fault(&mut self.fault, Some(fault)),
        }
    }

    /// Returns the result that a device reported, or [`Fault::Lost`] if there is none.
    pub(crate) fn result(&self) -> Result<Outcome, Fault> {
        self.outcome.ok_or_else(|| self.fault.as_deref().cloned().unwrap_or(Fault::Lost))
    }
}

#[cold]
fn set_fault(slot: &mut Option<Box<Fault>>, fault: Option<Fault>) {
    *slot = fault.map(Box::new);
}

impl Links {
    /// Sets the session that will run the request. The device that gets the request next has opened it.
    ///
    /// # Safety
    ///
    /// The session must live until that device has returned the request (rule 2).
    #[inline]
    pub(crate) unsafe fn set_session(&mut self, session: &dyn DeviceSession) {
        // SAFETY: only the lifetime changes, and the caller guarantees it.
        let session = unsafe {
            std::mem::transmute::<NonNull<dyn DeviceSession + '_>, NonNull<dyn DeviceSession>>(NonNull::from(session))
        };
        self.session = Some(session);
    }
}

/// Returns the session that [`set_session`](Links::set_session) has set.
///
/// # Safety
///
/// Rules 1 and 2 must hold for `entry`. The session must have been set and must outlive the returned reference.
#[inline]
pub(super) unsafe fn session<'s>(entry: EntryPtr) -> &'s dyn DeviceSession {
    // SAFETY: the caller guarantees that `entry` is valid; `links` belong to core and do not change while a device has the
    // request.
    let session = unsafe { (&raw const (*entry.as_ptr()).links.session).read() };
    // SAFETY: the caller guarantees that the session lives.
    unsafe { session.expect("core sets the session before it offers a request").as_ref() }
}

#[inline]
pub(super) fn next(entry: EntryPtr) -> Option<EntryPtr> {
    // SAFETY: rule 2 keeps the entry alive. The list links are core's own fields: a device never uses them, so reading them
    // is sound while a job has the rest (rule 1).
    unsafe { (&raw const (*entry.as_ptr()).links.next).read() }
}

#[inline]
pub(super) fn set_next(entry: EntryPtr, next: Option<EntryPtr>) {
    // SAFETY: as `next`, and only the thread that owns the list writes its links.
    unsafe { (&raw mut (*entry.as_ptr()).links.next).write(next) }
}

#[inline]
pub(super) fn previous(entry: EntryPtr) -> Option<EntryPtr> {
    // SAFETY: as `next`.
    unsafe { (&raw const (*entry.as_ptr()).links.previous).read() }
}

#[inline]
pub(super) fn set_previous(entry: EntryPtr, previous: Option<EntryPtr>) {
    // SAFETY: as `set_next`.
    unsafe { (&raw mut (*entry.as_ptr()).links.previous).write(previous) }
}

/// Returns the id of the [`InFlight`] list that contains the entry; 0 for none.
#[inline]
pub(super) fn in_flight_id(entry: EntryPtr) -> usize {
    // SAFETY: as `next`.
    unsafe { (*entry.as_ptr()).links.in_flight_id.load(Ordering::Relaxed) }
}

#[inline]
pub(super) fn set_in_flight_id(entry: EntryPtr, id: usize) {
    // SAFETY: as `next`; the field is atomic.
    unsafe { (*entry.as_ptr()).links.in_flight_id.store(id, Ordering::Relaxed) }
}

/// Sets the result of a request, and replaces an earlier result. The device must have the entry.
#[inline]
pub(super) fn finish(entry: EntryPtr, result: Result<Outcome, Fault>) {
    // SAFETY: the device has these two fields (rule 1), and they are alive (rule 2). There is no reference to the whole
    // entry, because core may be accessing the links.
    let (outcome, fault) = unsafe { (&mut (*entry.as_ptr()).outcome, &mut (*entry.as_ptr()).fault) };
    match result {
        Ok(new_outcome) => {
            *outcome = Some(new_outcome);
            if fault.is_some() {
                set_fault(fault, None);
            }
        }
        Err(new_fault) => {
            *outcome = None;
            set_fault(fault, Some(new_fault));
        }
    }
}

/// Returns true if a request has a result. The device must have the entry.
#[inline]
pub(super) fn has_result(entry: EntryPtr) -> bool {
    // SAFETY: as `finish`.
    unsafe { (*entry.as_ptr()).outcome.is_some() || (*entry.as_ptr()).fault.is_some() }
}

/// Returns true if a device has returned an entry.
#[inline]
pub(crate) fn is_returned(entry: EntryPtr) -> bool {
    // SAFETY: the mark lives as long as the entry (rule 2), and all accesses to the mark use shared references to it alone.
    unsafe { (*entry.as_ptr()).state.load(Ordering::Acquire) == IDLE }
}

/// Marks an entry as owned by a device, or by core.
#[inline]
pub(super) fn set_in_device(entry: EntryPtr, in_device: bool) {
    let state = if in_device { IN_DEVICE } else { IDLE };
    // SAFETY: as `is_returned`.
    unsafe { (*entry.as_ptr()).state.store(state, Ordering::Release) };
}

/// A request of a [`Batch`](super::Batch) that has not been taken.
#[repr(transparent)]
pub struct Offer<'b>(pub(super) EntryPtr, PhantomData<fn(&'b ()) -> &'b ()>);

impl Offer<'_> {
    /// Returns the session, as the device opened it, and the operands.
    #[inline]
    pub fn parts(&mut self) -> (&dyn DeviceSession, Operands<'_>) {
        // SAFETY: the caller of `Batch::new` guaranteed that no other code accesses the entry, and that its session is set.
        unsafe { (session(self.0), (*self.0.as_ptr()).operands.reborrow()) }
    }

    /// Returns the data if they are passed as segments, as [`Job::segments`](super::Job::segments) does.
    #[inline]
    pub fn segments(&self) -> Option<Scattered<'_>> {
        // SAFETY: as `parts`.
        unsafe { (*self.0.as_ptr()).scattered }
    }

    /// Runs the request on the calling thread, as [`Job::run_direct`](super::Job::run_direct) does, and sets its result.
    #[inline]
    pub fn run_direct(&mut self) {
        let segmented = self.segments().is_some();
        let (session, operands) = self.parts();
        let result = run_contiguous(session, operands, segmented);
        self.finish(result);
    }

    /// Sets the result of the request.
    #[inline]
    pub fn finish(&mut self, result: Result<Outcome, Fault>) {
        finish(self.0, result);
    }
}

/// Runs a request on the calling thread. Declines a request whose data are in segments.
#[inline]
pub(super) fn run_contiguous(
    session: &dyn DeviceSession,
    operands: Operands<'_>,
    segmented: bool,
) -> Result<Outcome, Fault> {
    if segmented {
        return Err(Fault::Declined("segments are not run in the calling thread"));
    }
    operands.run_by(session)
}

/// A session on a device: immutable, shared by threads.
pub trait DeviceSession: Send + Sync + Any {
    /// Runs one request on the calling thread. Must neither allocate nor wait. Never called with `Update` and `Finish`: these go to the
    /// stream itself or, in a batch, to a queue pair of the device.
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault>;

    /// Runs requests of the same algorithm and operation on the calling thread, and [finishes](Offer::finish) each. The first request
    /// belongs to this session, the others to any session of the same device. Called through
    /// [`Batch::run_direct`](super::Batch::run_direct).
    fn run_batch(&self, offers: &mut [Offer<'_>]) {
        for offer in offers {
            offer.run_direct();
        }
    }

    /// Starts the digest or MAC of a message that comes in pieces.
    fn digest_stream(&self) -> Result<Box<dyn DigestStream>, Unsupported> {
        Err(Unsupported::because("no streams"))
    }

    /// Starts encryption or decryption of data that comes in pieces. `iv` has been checked.
    fn cipher_stream(&self, operation: Operation, iv: &[u8]) -> Result<Box<dyn CipherStream>, Unsupported> {
        let _ = (operation, iv);
        Err(Unsupported::because("no streams"))
    }

    /// Starts a stream that seals or opens messages that come in pieces, one message after the other.
    fn aead_stream(&self, operation: Operation) -> Result<Box<dyn AeadStream>, Unsupported> {
        let _ = operation;
        Err(Unsupported::because("no streams"))
    }
}

impl Operands<'_> {
    /// Runs the request on the calling thread: by the session that a device opened, or as the next step of that device's stream.
    #[inline]
    pub(crate) fn run_by(self, session: &dyn DeviceSession) -> Result<Outcome, Fault> {
        match self {
            Operands::Update { stream, input } => stream.update(input).map(|()| Outcome::Done),
            Operands::Finish { stream, output } => stream.finish(output).map(|()| Outcome::Done),
            operands => session.run(operands),
        }
    }
}
