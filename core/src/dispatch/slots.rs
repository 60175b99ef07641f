//! The memory of a queue's requests.
//!
//! A submission and the request that points into it are in one slot, which does not move while the request is in flight. Every [`Handle`]
//! made here relies on that.

#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use super::framework::Gantry;
use super::session::SessionCore;
use crate::algorithm::{Algorithm, Operation, Outcome};
use crate::driver::{DeviceInfo, Operands};
use crate::request::{Handle, Inbox, Request, SegmentSource, Submission};
use crate::route::Route;
use crate::stats::{Event, Site};

/// The memory of one queue's requests, up to a limit.
pub(crate) struct Slots {
    /// Never moved or shrunk. Leaked if a request is still in flight at the end.
    chunks: ManuallyDrop<Vec<Box<[UnsafeCell<Slot>; CHUNK_SLOTS]>>>,
    free: Vec<u32>,
    used: usize,
    limit: usize,
}

// SAFETY: the cells are accessed only through this value, which is not `Sync`, or through handles, which are `Send` themselves.
unsafe impl Send for Slots {}

const CHUNK_SLOTS: usize = 32;

struct Slot {
    /// Points into `submission` while there is one. Reused for the next submission.
    request: Request<'static>,
    submission: Option<Submission>,
    /// The ticket's sequence number.
    sequence: u64,
    /// The index of the session in the queue.
    session_index: u32,
}

impl Slot {
    fn free() -> Self {
        Self { request: Request::new(empty_operands(), None), submission: None, sequence: 0, session_index: 0 }
    }
}

/// Sets the fields of a request that describe its data in segments.
///
/// # Safety
///
/// The submission must not move or be accessed otherwise as long as the request has these fields.
#[cold]
#[inline(never)]
unsafe fn record_segments(request: &mut Request<'static>, submission: NonNull<Submission>) {
    // SAFETY: promised by the caller. `scattered` and `scattered_result_len` read nothing that the request's operands borrow.
    let source = unsafe { submission.as_ref() };
    request.entry.scattered = source.scattered();
    request.meta.segment_source =
        source.scattered_result_len().map(|result_len| SegmentSource { submission, result_len });
}

/// Returns the operands of an idle slot.
#[inline]
fn empty_operands() -> Operands<'static> {
    Operands::Digest { input: &[], output: &mut [] }
}

/// The content of a slot.
pub(crate) struct TakenSlot {
    pub(crate) submission: Submission,
    pub(crate) session_index: u32,
    pub(crate) sequence: u64,
}

impl Slots {
    pub(crate) fn new(limit: usize) -> Self {
        Self { chunks: ManuallyDrop::new(Vec::new()), free: Vec::new(), used: 0, limit }
    }

    /// Returns the number of used slots.
    #[inline]
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.used >= self.limit
    }

    /// Turns a submission into a request of `session`, whose index in the queue is `session_index`. Must not be called when full.
    ///
    /// # Safety
    ///
    /// Session and inbox must outlive the handle. The queue ensures this, or leaks them.
    #[inline(always)]
    pub(crate) unsafe fn put(
        &mut self,
        submission: Submission,
        session_index: u32,
        sequence: u64,
        session: &SessionCore,
        inbox: &Inbox,
    ) -> Handle {
        let index = self.free.pop().unwrap_or_else(|| self.grow());
        self.used += 1;
        let slot = self.slot(index);
        // SAFETY: no handle refers to a free slot.
        let slot = unsafe { &mut *slot };
        (slot.session_index, slot.sequence) = (session_index, sequence);
        let (shape, has_mixed_buffers) = (submission.shape(), submission.has_mixed_buffers());
        let mut submission = NonNull::from(slot.submission.insert(submission));
        // SAFETY: the submission does not move and is not accessed otherwise until `take` has cleared the operands that point into it. No
        // holder of the request outlives that, which justifies `'static`. (`copy_segments_unless_taken` makes new operands and keeps none
        // of these.)
        let operands = unsafe { submission.as_mut() }.operands(session.params.tag_len());
        let request = &mut slot.request;
        request.reset(operands, shape);
        if has_mixed_buffers {
            // SAFETY: as above.
            unsafe { record_segments(request, submission) };
        }
        request.meta.slot = index;
        // SAFETY: as above for the slot; the caller promises that session and inbox live.
        let mut handle = unsafe { Handle::new(NonNull::from(request)) };
        // SAFETY: promised by the caller.
        unsafe { handle.set_session(session, inbox) };
        handle
    }

    /// Adds a chunk of slots. Returns the first of them.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> u32 {
        let first = (self.chunks.len() * CHUNK_SLOTS) as u32;
        self.chunks.push(Box::new(std::array::from_fn(|_| UnsafeCell::new(Slot::free()))));
        self.free.extend((first + 1..first + CHUNK_SLOTS as u32).rev());
        first
    }

    /// Ends a request and frees its slot. The result must have been taken before.
    #[inline]
    pub(crate) fn take(&mut self, handle: Handle) -> Option<TakenSlot> {
        let index = handle.meta.slot;
        let _ = handle.into_entry();
        // SAFETY: the handle was the only access to this slot, and has just ended.
        let slot = unsafe { &mut *self.slot(index) };
        slot.request.entry.operands = empty_operands(); // they point into the submission, which the caller gets
        let submission = slot.submission.take()?;
        if submission.has_mixed_buffers() {
            (slot.request.entry.scattered, slot.request.meta.segment_source) = (None, None);
        }
        self.free.push(index);
        self.used -= 1;
        Some(TakenSlot { submission, session_index: slot.session_index, sequence: slot.sequence })
    }

    /// Returns the sequence number of a used slot. Reads only this number, which no device accesses.
    #[inline]
    pub(crate) fn sequence(&self, index: u32) -> Option<u64> {
        if index as usize >= self.chunks.len() * CHUNK_SLOTS {
            return None;
        }
        // SAFETY: the index is in range; the field is written only by `put`, through `&mut self`.
        Some(unsafe { (&raw const (*self.slot(index)).sequence).read() })
    }

    /// Returns the index of the session of a used slot.
    #[inline]
    pub(crate) fn session_index(&self, index: u32) -> u32 {
        // SAFETY: as in `sequence`.
        unsafe { (&raw const (*self.slot(index)).session_index).read() }
    }

    #[inline]
    fn slot(&self, index: u32) -> *mut Slot {
        self.chunks[index as usize / CHUNK_SLOTS][index as usize % CHUNK_SLOTS].get()
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        if self.used == 0 {
            // SAFETY: no request is in flight, and the value is not used again.
            unsafe { ManuallyDrop::drop(&mut self.chunks) };
        }
    }
}

impl Handle {
    /// Copies data in segments, unless the device's queue pairs take it directly.
    #[inline]
    pub(crate) fn copy_segments_unless_taken(&mut self, device: usize) {
        if self.meta.segment_source.is_some() {
            self.examine_segments(device);
        }
    }

    /// Copies data in segments for a device.
    #[inline]
    pub(crate) fn copy_segments_for(&mut self, device: usize) {
        if self.meta.segment_source.is_some() {
            let copied = self.copy_segments();
            self.session().gantry.count_copied(device, self.meta.algorithm, self.meta.shape.operation, copied);
        }
    }

    #[cold]
    fn examine_segments(&mut self, device: usize) {
        let registered = &self.session().gantry.devices()[device];
        let takes = |info: &DeviceInfo| self.entry.scattered.is_some_and(|data| info.limits.takes(&data));
        if registered.is_inline() || !registered.details().is_some_and(takes) {
            self.copy_segments_for(device);
        } else if self.session().sample_for_verification() {
            // Foreign memory may change between the two runs of a verified request, so both need the same copy.
            self.copy_segments_for(device);
            let (session, request) = self.parts();
            session.keep_shadow(device, request);
        }
    }

    /// Copies data in segments and makes the copies the operands. Returns the number of bytes copied.
    #[cold]
    pub(crate) fn copy_segments(&mut self) -> usize {
        let result_len = self.session().params.tag_len();
        let Some(SegmentSource { mut submission, .. }) = self.meta.segment_source.take() else { return 0 };
        // Clear the pointers into the submission before borrowing it.
        self.entry.scattered = None;
        // SAFETY: `Slots::put` recorded the address of the submission, which stays there until `Slots::take`. We own the request, so
        // nothing else reads its operands, the only other pointers into the submission; they are replaced at once.
        let submission = unsafe { submission.as_mut() };
        let bytes = submission.copy_in();
        self.entry.operands = submission.operands(result_len);
        bytes
    }
}

impl Gantry {
    /// Ends the use of copies by a finished request: copies results back into segments, and counts the bytes.
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

    /// Counts bytes copied for a device or from it.
    #[cold]
    pub(crate) fn count_copied(&self, device: usize, algorithm: Algorithm, operation: Operation, bytes: usize) {
        self.counters().this_thread().count_event(Site::new(device, algorithm, operation), Event::Copied, bytes);
    }
}
