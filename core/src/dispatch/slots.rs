//! The memory of a queue's requests.
//!
//! A submission and the request that points into it lie side by side and stay where they are while anybody has the request in
//! hand. That is the promise behind every [`Handle`] that comes from here.

#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use super::framework::Gantry;
use super::session::SessionCore;
use crate::algorithm::{Algorithm, Operation, Outcome};
use crate::driver::{DeviceInfo, Operands};
use crate::request::{Handle, Inbox, Lender, Request, Submission};
use crate::route::Route;
use crate::stats::{Event, Site};

/// Requests of one queue, up to a limit.
pub(crate) struct Slots {
    /// Never moved, never shrunk. Leaked when something is still in strange hands at the end.
    chunks: ManuallyDrop<Vec<Box<[UnsafeCell<Slot>; CHUNK]>>>,
    free: Vec<u32>,
    used: usize,
    limit: usize,
}

// SAFETY: what lies in the cells is reached through `&mut self`, or through handles, which are Send by themselves.
unsafe impl Send for Slots {}

const CHUNK: usize = 32;

struct Slot {
    /// Points into `submission` while that is there. It stays when it has ended, for the next one.
    request: Request<'static>,
    submission: Option<Submission>,
    /// Of the ticket.
    sequence: u64,
    /// The session's place in the queue.
    session: u32,
}

impl Slot {
    fn free() -> Self {
        Self { request: Request::new(nothing(), None), submission: None, sequence: 0, session: 0 }
    }
}

/// Notes on a request what of its data lies in segments.
///
/// # Safety
///
/// The submission stays where it is, and is not touched otherwise, as long as the request has the note.
#[cold]
#[inline(never)]
unsafe fn note_segments(request: &mut Request<'static>, submission: NonNull<Submission>) {
    // SAFETY: as the caller says; the operands of a request with segments borrow nothing of what these two look at.
    let lent = unsafe { submission.as_ref() };
    request.entry.scattered = lent.scattered();
    request.note.lender = lent.scattered_result().map(|result| Lender { submission, result });
}

/// What a request points to that has nothing to do.
#[inline]
fn nothing() -> Operands<'static> {
    Operands::Digest { input: &[], output: &mut [] }
}

/// What a slot held.
pub(crate) struct Held {
    pub(crate) submission: Submission,
    pub(crate) session: u32,
    pub(crate) sequence: u64,
}

impl Slots {
    pub(crate) fn new(limit: usize) -> Self {
        Self { chunks: ManuallyDrop::new(Vec::new()), free: Vec::new(), used: 0, limit }
    }

    /// Requests here.
    #[inline]
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.used >= self.limit
    }

    /// Turns a submission into a request of `owner`, whose place in the queue is `session`. Not to be called when full.
    ///
    /// # Safety
    ///
    /// Owner and inbox outlive the handle; the queue sees to it that they do, or leaks them.
    #[inline(always)]
    pub(crate) unsafe fn put(
        &mut self,
        submission: Submission,
        session: u32,
        sequence: u64,
        owner: &SessionCore,
        home: &Inbox,
    ) -> Handle {
        let index = self.free.pop().unwrap_or_else(|| self.grow());
        self.used += 1;
        let slot = self.slot(index);
        // SAFETY: a free slot is in nobody's hands.
        let slot = unsafe { &mut *slot };
        (slot.session, slot.sequence) = (session, sequence);
        let (shape, is_assorted) = (submission.shape(), submission.is_assorted());
        let mut submission = NonNull::from(slot.submission.insert(submission));
        // SAFETY: the submission stays where it is, and is not touched otherwise, until `take` has made the request that
        // points into it point to nothing: `'static` is what nobody outlives who has the request. (`copy_unless_taken` takes its operands
        // anew, and leaves nothing of these.)
        let operands = unsafe { submission.as_mut() }.operands(owner.params.tag_length());
        let request = &mut slot.request;
        request.begin_anew(operands, shape);
        if is_assorted {
            // SAFETY: as above.
            unsafe { note_segments(request, submission) };
        }
        request.note.slot = index;
        // SAFETY: as above for the place; the caller answers for owner and home.
        let mut handle = unsafe { Handle::new(NonNull::from(request)) };
        // SAFETY: as the caller says.
        unsafe { handle.belong_to(owner, home) };
        handle
    }

    /// Makes room for more. Returns the first free slot.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> u32 {
        let first = (self.chunks.len() * CHUNK) as u32;
        self.chunks.push(Box::new(std::array::from_fn(|_| UnsafeCell::new(Slot::free()))));
        self.free.extend((first + 1..first + CHUNK as u32).rev());
        first
    }

    /// Ends a request. Its result is taken out before.
    #[inline]
    pub(crate) fn take(&mut self, handle: Handle) -> Option<Held> {
        let index = handle.note.slot;
        let _ = handle.into_place();
        // SAFETY: the handle was the only way to this slot, and has just ended.
        let slot = unsafe { &mut *self.slot(index) };
        slot.request.entry.operands = nothing(); // they point at what the caller is about to get
        let submission = slot.submission.take()?;
        if submission.is_assorted() {
            (slot.request.entry.scattered, slot.request.note.lender) = (None, None);
        }
        self.free.push(index);
        self.used -= 1;
        Some(Held { submission, session: slot.session, sequence: slot.sequence })
    }

    /// The sequence number of a slot, if something is in it. Only the number is looked at, which no device touches.
    #[inline]
    pub(crate) fn sequence(&self, index: u32) -> Option<u64> {
        if index as usize >= self.chunks.len() * CHUNK {
            return None;
        }
        // SAFETY: inside; one field is read that only `put` writes, through `&mut self`.
        Some(unsafe { (&raw const (*self.slot(index)).sequence).read() })
    }

    /// The session of a slot in which something is.
    #[inline]
    pub(crate) fn session(&self, index: u32) -> u32 {
        // SAFETY: as for the sequence.
        unsafe { (&raw const (*self.slot(index)).session).read() }
    }

    #[inline]
    fn slot(&self, index: u32) -> *mut Slot {
        self.chunks[index as usize / CHUNK][index as usize % CHUNK].get()
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        if self.used == 0 {
            // SAFETY: nothing is in anybody's hands, and the value is not used again.
            unsafe { ManuallyDrop::drop(&mut self.chunks) };
        }
    }
}

impl Handle {
    /// Copies data that lie in segments, unless the queue pairs of the device they go to take them as they are.
    #[inline]
    pub(crate) fn copy_unless_taken(&mut self, device: usize) {
        if self.note.lender.is_some() {
            self.examine_segments(device);
        }
    }

    /// Copies data that lie in segments, for a device that is not asked whether it takes them.
    #[inline]
    pub(crate) fn copy_for(&mut self, device: usize) {
        if self.note.lender.is_some() {
            let copied = self.copy_segments();
            self.owner().gantry.count_copied(device, self.note.algorithm, self.note.shape.operation, copied);
        }
    }

    #[cold]
    fn examine_segments(&mut self, device: usize) {
        let registered = &self.owner().gantry.devices()[device];
        let takes = |info: &DeviceInfo| self.entry.scattered.is_some_and(|data| info.limits.takes(&data));
        if registered.is_inline() || !registered.details().is_some_and(takes) {
            self.copy_for(device);
        } else if self.owner().is_verified_now() {
            // What lies in foreign memory may change: to be verified, it is copied once for both.
            self.copy_for(device);
            let (owner, request) = self.parts();
            owner.keep_shadow(device, request);
        }
    }

    /// Copies data that lie in segments, and makes the copies the operands. Returns how many bytes were copied.
    #[cold]
    pub(crate) fn copy_segments(&mut self) -> usize {
        let result = self.owner().params.tag_length();
        let Some(Lender { mut submission, .. }) = self.note.lender.take() else { return 0 };
        // What points into the submission goes before it is borrowed.
        self.entry.scattered = None;
        // SAFETY: `Slots::put` noted where the submission is, which stays there until `Slots::take`. The request is in our
        // hands, so nobody looks at its operands, the only other pointers into the submission; they are replaced at once.
        let submission = unsafe { submission.as_mut() };
        let bytes = submission.copy_in();
        self.entry.operands = submission.operands(result);
        bytes
    }
}

impl Gantry {
    /// Ends the copies of a request that ended with this outcome on this route, and counts what went back into segments.
    #[cold]
    #[inline(never)]
    pub(crate) fn copy_out(
        &self,
        submission: &mut Submission,
        algorithm: Algorithm,
        outcome: Option<Outcome>,
        route: Option<Route>,
    ) {
        if let copied @ 1.. = submission.copy_out(outcome)
            && let Some(Route { device, .. }) = route
        {
            self.count_copied(device, algorithm, submission.operation(), copied);
        }
    }

    /// Counts bytes that were copied for a device, or from it.
    #[cold]
    pub(crate) fn count_copied(&self, device: usize, algorithm: Algorithm, operation: Operation, bytes: usize) {
        self.counters().here().event(Site::new(device, algorithm, operation), Event::Copied, bytes);
    }
}
