//! Requests in flight, over C's own buffers.

use std::collections::VecDeque;
use std::ffi::{c_int, c_void};
use std::mem;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::ptr::NonNull;
use std::slice;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gantry_core::{Data, IoBuf, Outcome, Process, QueueOptions, RejectReason, Submission};
use gantry_runtime::Readiness;

use super::handle::{GantryHandle, Handle, HandleType, try_lock};
use super::memory::{array_bytes, bytes, bytes_mut, check_bytes, check_pointer, read_struct, write_out};
use super::session::{SessionHandle, add_buffers, check_request, is_in_place};
use super::{catch_panic, catch_panic_count, catch_panic_void};
use crate::abi::{self, operation};
use crate::code::{Code, outcome_code};
use crate::ranges::Ranges;

/// The content of a `gantry_queue`.
pub struct Queue {
    state: Mutex<QueueState>,
    descriptor: RawFd,
    /// The process that opened the queue.
    process: Process,
}

/// A `gantry_queue`.
pub type QueueHandle = Handle<Queue>;

impl HandleType for Queue {
    const TYPE_MARK: u64 = u64::from_be_bytes(*b"gantry\xf9\x04");
}

struct QueueState {
    queue: gantry_core::Queue,
    readiness: Readiness,
    /// Requests in flight, by slot. Core gets the slot's index as the request's `user`, and returns it with the completion.
    pending: Vec<Option<PendingRequest>>,
    free_slots: Vec<usize>,
    /// Completions that C has not taken yet. Memory for `depth` of them is reserved.
    completed: VecDeque<abi::Completion>,
}

/// State of a request in flight.
struct PendingRequest {
    user: u64,
    /// The destination of a digest, MAC or tag, which core makes in its own memory.
    result_out: *mut c_void,
    result_len: usize,
}

// SAFETY: the queue: only the thread that holds the lock writes through the pointer, when it returns the completion.
unsafe impl Send for PendingRequest {}

/// A buffer of C's that core uses until the completion.
struct CBuffer {
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: the queue: any thread may use the memory.
unsafe impl Send for CBuffer {}
// SAFETY: as above; a shared buffer is only read.
unsafe impl Sync for CBuffer {}

/// Returns C's buffer as the data of a request.
///
/// # Safety
/// The queue; [`check_bytes`] has succeeded.
unsafe fn c_buffer(at: *mut c_void, len: usize) -> Data {
    // A NULL buffer has a length of 0.
    Data::buffer(CBuffer { at: NonNull::new(at.cast()).unwrap_or(NonNull::dangling()), len })
}

impl IoBuf for CBuffer {
    fn as_slice(&self) -> &[u8] {
        // SAFETY: the queue: it is written through `as_mut_slice` only.
        unsafe { slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }

    fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: the queue: this buffer belongs to one request. Core does not write buffers that are only input.
        unsafe { slice::from_raw_parts_mut(self.at.as_ptr(), self.len) }
    }
}

/// `gantry_queue_open`.
///
/// # Safety
/// As `gantry.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gantry_queue_open(
    handle: *mut GantryHandle,
    depth: usize,
    out: *mut *mut QueueHandle,
) -> c_int {
    catch_panic(|| {
        check_pointer(out)?;
        // SAFETY: the handle.
        let gantry = unsafe { GantryHandle::get(handle) }?;
        let queue = gantry.queue(QueueOptions { depth, ..QueueOptions::default() })?;
        let readiness = Readiness::new().map_err(|_| Code::System)?;
        let descriptor = readiness.as_fd().as_raw_fd();
        let pending = (0..depth).map(|_| None).collect();
        let (free_slots, completed) = ((0..depth).collect(), VecDeque::with_capacity(depth));
        let state = Mutex::new(QueueState { queue, readiness, pending, free_slots, completed });
        let queue = Queue { state, descriptor, process: Process::current() };
        // SAFETY: the call.
        unsafe { QueueHandle::create(queue, out) }
    })
}

/// `gantry_queue_close`.
///
/// # Safety
/// As `gantry.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gantry_queue_close(queue: *mut QueueHandle) {
    catch_panic_void(|| {
        // SAFETY: the handle.
        let Some(queue) = (unsafe { QueueHandle::take(queue) }) else { return };
        if queue.belongs_to_parent() {
            // The requests on devices belong to the parent of the fork.
            return mem::forget(queue);
        }
        let mut state = queue.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        while state.queue.in_flight() > 0 {
            state.queue.wait(drop);
        }
    });
}

/// `gantry_queue_submit`.
///
/// # Safety
/// As `gantry.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gantry_queue_submit(
    queue: *mut QueueHandle,
    session: *mut SessionHandle,
    request: *const abi::Request,
    user: u64,
) -> c_int {
    catch_panic(|| {
        // SAFETY: the handles, and the call.
        let (queue, session, request) =
            unsafe { (QueueHandle::get(queue)?, &SessionHandle::get(session)?.session, read_struct(request)?) };
        let mut state = queue.lock()?;
        check_request(session, &request)?;
        let mut ranges = Ranges::with_capacity(2, 4).map_err(|_| Code::Memory)?;
        add_buffers(&request, &mut ranges);
        if !ranges.are_disjoint() {
            return Err(Code::Overlap);
        }
        let Some(&slot) = state.free_slots.last() else { return Err(Code::Full) };
        // SAFETY: the call and the queue; `check_request` has succeeded, and the buffers do not overlap.
        let submission = unsafe { to_submission(&request) }.user(slot as u64);
        state.queue.submit(session, submission).map_err(|rejected| match rejected.why {
            RejectReason::Full => Code::Full,
            RejectReason::Misuse(misuse) => misuse.into(),
            _ => Code::Internal,
        })?;
        state.free_slots.pop();
        let (result_out, result_len) = match request.operation {
            operation::DIGEST | operation::MAC => (request.out, request.out_len),
            operation::SEAL => (request.tag, request.tag_len),
            _ => (std::ptr::null_mut(), 0),
        };
        state.pending[slot] = Some(PendingRequest { user, result_out, result_len });
        Ok(())
    })
}

/// `gantry_queue_complete`.
///
/// # Safety
/// As `gantry.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gantry_queue_complete(
    queue: *mut QueueHandle,
    completions: *mut abi::Completion,
    room: usize,
) -> c_int {
    // SAFETY: as required above.
    catch_panic_count(|| unsafe { write_completions(queue, completions, room, false) })
}

/// `gantry_queue_wait`.
///
/// # Safety
/// As `gantry.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gantry_queue_wait(
    queue: *mut QueueHandle,
    completions: *mut abi::Completion,
    room: usize,
) -> c_int {
    // SAFETY: as required above.
    catch_panic_count(|| unsafe { write_completions(queue, completions, room, true) })
}

/// `gantry_queue_descriptor`.
///
/// # Safety
/// As `gantry.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gantry_queue_descriptor(queue: *mut QueueHandle) -> c_int {
    // SAFETY: the handle.
    catch_panic_count(|| Ok(unsafe { QueueHandle::get(queue) }?.descriptor))
}

/// `gantry_queue_arm`.
///
/// # Safety
/// As `gantry.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gantry_queue_arm(queue: *mut QueueHandle, timeout_ms: *mut c_int) -> c_int {
    catch_panic_count(|| {
        check_pointer(timeout_ms)?;
        // SAFETY: the handle.
        let mut state = unsafe { QueueHandle::get(queue) }?.lock()?;
        let QueueState { queue, readiness, completed, .. } = &mut *state;
        let is_armed = completed.is_empty() && readiness.arm(queue);
        let timeout = match queue.max_sleep() {
            _ if !is_armed => 0,
            // Rounded up, so that the deadline has passed when the wait ends.
            Some(max_sleep) => c_int::try_from(max_sleep.as_millis() + 1).unwrap_or(c_int::MAX),
            None => -1,
        };
        // SAFETY: the call.
        unsafe { write_out(timeout_ms, timeout) }?;
        Ok(c_int::from(is_armed))
    })
}

impl Queue {
    fn belongs_to_parent(&self) -> bool {
        !self.process.is_current()
    }

    fn lock(&self) -> Result<MutexGuard<'_, QueueState>, Code> {
        if self.belongs_to_parent() { Err(Code::Forked) } else { try_lock(&self.state) }
    }
}

impl QueueState {
    fn poll(&mut self, wait: bool) {
        let Self { queue, pending, free_slots, completed, .. } = self;
        let mut each = |completion| completed.push_back(to_c_completion(pending, free_slots, completion));
        if wait {
            queue.wait(&mut each)
        } else {
            queue.complete(&mut each)
        };
    }
}

/// # Safety
/// The handle, and the call.
unsafe fn write_completions(
    queue: *mut QueueHandle,
    completions: *mut abi::Completion,
    room: usize,
    wait: bool,
) -> Result<c_int, Code> {
    // SAFETY: the handle.
    let mut state = unsafe { QueueHandle::get(queue) }?.lock()?;
    // The largest depth of a queue.
    let room = room.min(1 << 16);
    if room == 0 {
        return Ok(0);
    }
    check_pointer(completions)?;
    check_bytes(completions.cast_const().cast(), array_bytes(room, size_of::<abi::Completion>())?)?;
    // A completion may be ready already, without a wait.
    state.poll(false);
    if wait && state.completed.is_empty() {
        state.poll(true);
    }
    let count = state.completed.len().min(room);
    for (index, completion) in state.completed.drain(..count).enumerate() {
        // SAFETY: the call: within the array.
        unsafe { completions.add(index).write(completion) };
    }
    Ok(c_int::try_from(count).unwrap_or(c_int::MAX))
}

/// Returns the completion for C. The request's buffers belong to C again.
fn to_c_completion(
    pending: &mut [Option<PendingRequest>],
    free_slots: &mut Vec<usize>,
    completion: gantry_core::Completion,
) -> abi::Completion {
    let slot = completion.user as usize;
    let PendingRequest { user, result_out, result_len } =
        pending[slot].take().expect("core completes submitted requests only");
    free_slots.push(slot);
    let result = match completion.result {
        Ok(Outcome::Done) if result_len > 0 => {
            let tag = completion.submission.tag();
            if tag.len() == result_len {
                // SAFETY: the queue: `check_request` has verified the length of this buffer, and no slice covers it.
                unsafe { bytes_mut(result_out, result_len) }.copy_from_slice(tag);
                abi::result::DONE
            } else {
                Code::Internal as c_int
            }
        }
        Ok(outcome) => outcome_code(outcome),
        Err(error) => Code::from(error) as c_int,
    };
    abi::Completion { user, result, reserved: 0 }
}

/// Returns a request over C's buffers. IV, associated data and a tag to be verified are copied.
///
/// # Safety
/// The call and the queue; [`check_request`] has succeeded.
unsafe fn to_submission(request: &abi::Request) -> Submission {
    // SAFETY: the call; lengths were checked.
    let (iv, aad) = unsafe { (bytes(request.iv, request.iv_len), bytes(request.aad, request.aad_len)) };
    // SAFETY: the queue; lengths were checked.
    let data = unsafe { c_buffer(request.r#in.cast_mut(), request.in_len) };
    let submission = match request.operation {
        operation::DIGEST => return Submission::digest(data),
        operation::MAC => return Submission::mac_with_iv(iv, data),
        operation::ENCRYPT => Submission::encrypt(iv, data),
        operation::DECRYPT => Submission::decrypt(iv, data),
        operation::SEAL => Submission::seal(iv, aad.to_vec(), data, request.tag_len),
        // SAFETY: the call; lengths were checked.
        _ => Submission::open(iv, aad.to_vec(), data, unsafe { bytes(request.tag, request.tag_len) }),
    };
    if is_in_place(request) {
        return submission;
    }
    // SAFETY: the queue; lengths were checked, and the output does not overlap the input.
    submission.into_output(unsafe { c_buffer(request.out, request.out_len) })
}
