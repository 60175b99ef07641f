//! Requests in flight, over C's own buffers.

use std::collections::VecDeque;
use std::ffi::{c_int, c_void};
use std::mem;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::ptr::NonNull;
use std::slice;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gantry_core::{Data, IoBuf, Outcome, Process, QueueOptions, Submission, Why};
use gantry_runtime::Readiness;

use super::handle::{GantryHandle, QueueHandle, SessionHandle, alone};
use super::memory::{bytes, bytes_mut, check_bytes, check_pointer, extent, put, read};
use super::session::{check, is_in_place, register};
use super::{count, guard, quiet};
use crate::abi::{self, operation};
use crate::code::{Code, of_outcome};
use crate::ranges::Ranges;

/// What is behind a `gantry_queue`.
pub struct Queue {
    flights: Mutex<Flights>,
    descriptor: RawFd,
    /// The process in which it was made.
    process: Process,
}

struct Flights {
    queue: gantry_core::Queue,
    readiness: Readiness,
    /// By the number that core has of each request. `None` where no request is.
    held: Vec<Option<Held>>,
    free: Vec<usize>,
    /// Completions that C did not take yet. There is room for as many as requests.
    done: VecDeque<abi::Completion>,
}

/// What is kept of a request.
struct Held {
    user: u64,
    /// Where a digest, MAC or tag goes; core has it in memory of its own.
    result: *mut c_void,
    result_len: usize,
}

// SAFETY: the pointer is written through while the completion is given out, by the one thread that has the lock; the queue.
unsafe impl Send for Held {}

/// A buffer of C's that core has until the completion.
struct Lent {
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: memory that any thread may use: the queue.
unsafe impl Send for Lent {}
// SAFETY: as above; a shared buffer is only read.
unsafe impl Sync for Lent {}

/// A buffer of C's as the data of a request.
///
/// # Safety
/// The queue, and [`check_bytes`] was content.
unsafe fn lend(at: *mut c_void, len: usize) -> Data {
    // NULL has no bytes.
    Data::buffer(Lent { at: NonNull::new(at.cast()).unwrap_or(NonNull::dangling()), len })
}

impl IoBuf for Lent {
    fn as_slice(&self) -> &[u8] {
        // SAFETY: the queue: nobody writes it, but through `as_mut_slice`.
        unsafe { slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }

    fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: the queue: this buffer belongs to one request. Core writes none that is an input only.
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
    guard(|| {
        check_pointer(out)?;
        // SAFETY: the handle.
        let gantry = unsafe { GantryHandle::of(handle) }?;
        let queue = gantry.queue(QueueOptions { depth, ..QueueOptions::default() })?;
        let readiness = Readiness::new().map_err(|_| Code::System)?;
        let descriptor = readiness.as_fd().as_raw_fd();
        let held = (0..depth).map(|_| None).collect();
        let (free, done) = ((0..depth).collect(), VecDeque::with_capacity(depth));
        let flights = Mutex::new(Flights { queue, readiness, held, free, done });
        let queue = Queue { flights, descriptor, process: Process::current() };
        // SAFETY: the call.
        unsafe { QueueHandle::give(queue, out) }
    })
}

/// `gantry_queue_close`.
///
/// # Safety
/// As `gantry.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gantry_queue_close(queue: *mut QueueHandle) {
    quiet(|| {
        // SAFETY: the handle.
        let Some(queue) = (unsafe { QueueHandle::take(queue) }) else { return };
        if queue.is_of_parent() {
            // What devices have is the parent's.
            return mem::forget(queue);
        }
        let mut flights = queue.flights.into_inner().unwrap_or_else(PoisonError::into_inner);
        while flights.queue.in_flight() > 0 {
            flights.queue.wait(drop);
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
    guard(|| {
        // SAFETY: the handles, and the call.
        let (queue, session, request) =
            unsafe { (QueueHandle::of(queue)?, &SessionHandle::of(session)?.session, read(request)?) };
        let mut flights = queue.alone()?;
        check(session, &request)?;
        let mut ranges = Ranges::with_room(2, 4).map_err(|_| Code::Memory)?;
        register(&request, &mut ranges);
        if !ranges.are_apart() {
            return Err(Code::Overlap);
        }
        let Some(&place) = flights.free.last() else { return Err(Code::Full) };
        // SAFETY: the queue, and all that `submission` asks for was checked.
        let submission = unsafe { submission(&request) }.user(place as u64);
        flights.queue.submit(session, submission).map_err(|rejected| match rejected.why {
            Why::Full => Code::Full,
            Why::Misuse(misuse) => misuse.into(),
            _ => Code::Internal,
        })?;
        flights.free.pop();
        let (result, result_len) = match request.operation {
            operation::DIGEST | operation::MAC => (request.out, request.out_len),
            operation::SEAL => (request.tag, request.tag_len),
            _ => (std::ptr::null_mut(), 0),
        };
        flights.held[place] = Some(Held { user, result, result_len });
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
    // SAFETY: as here.
    count(|| unsafe { deliver(queue, completions, room, false) })
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
    // SAFETY: as here.
    count(|| unsafe { deliver(queue, completions, room, true) })
}

/// `gantry_queue_descriptor`.
///
/// # Safety
/// As `gantry.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gantry_queue_descriptor(queue: *mut QueueHandle) -> c_int {
    // SAFETY: the handle.
    count(|| Ok(unsafe { QueueHandle::of(queue) }?.descriptor))
}

/// `gantry_queue_arm`.
///
/// # Safety
/// As `gantry.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gantry_queue_arm(queue: *mut QueueHandle, timeout_ms: *mut c_int) -> c_int {
    count(|| {
        check_pointer(timeout_ms)?;
        // SAFETY: the handle.
        let mut flights = unsafe { QueueHandle::of(queue) }?.alone()?;
        let Flights { queue, readiness, done, .. } = &mut *flights;
        let waits = done.is_empty() && readiness.arm(queue);
        let timeout = match queue.patience() {
            _ if !waits => 0,
            // Rounded up: whoever comes too early finds nothing.
            Some(patience) => c_int::try_from(patience.as_millis() + 1).unwrap_or(c_int::MAX),
            None => -1,
        };
        // SAFETY: the call.
        unsafe { put(timeout_ms, timeout) }?;
        Ok(c_int::from(waits))
    })
}

impl Queue {
    fn is_of_parent(&self) -> bool {
        !self.process.is_current()
    }

    fn alone(&self) -> Result<MutexGuard<'_, Flights>, Code> {
        if self.is_of_parent() { Err(Code::Forked) } else { alone(&self.flights) }
    }
}

impl Flights {
    /// Finds what is done.
    fn turn(&mut self, wait: bool) {
        let Self { queue, held, free, done, .. } = self;
        let mut each = |completion| done.push_back(end(held, free, completion));
        if wait {
            queue.wait(&mut each)
        } else {
            queue.complete(&mut each)
        };
    }
}

/// # Safety
/// The handle, and the call.
unsafe fn deliver(
    queue: *mut QueueHandle,
    completions: *mut abi::Completion,
    room: usize,
    wait: bool,
) -> Result<c_int, Code> {
    // SAFETY: the handle.
    let mut flights = unsafe { QueueHandle::of(queue) }?.alone()?;
    // No queue has more requests.
    let room = room.min(1 << 16);
    if room == 0 {
        return Ok(0);
    }
    check_pointer(completions)?;
    check_bytes(completions.cast_const().cast(), extent(room, size_of::<abi::Completion>())?)?;
    // What a wait would find is there already, perhaps.
    flights.turn(false);
    if wait && flights.done.is_empty() {
        flights.turn(true);
    }
    let some = flights.done.len().min(room);
    for (place, completion) in flights.done.drain(..some).enumerate() {
        // SAFETY: the call: within the array.
        unsafe { completions.add(place).write(completion) };
    }
    Ok(c_int::try_from(some).unwrap_or(c_int::MAX))
}

/// What C gets to know of a request. Its buffers are C's again.
fn end(held: &mut [Option<Held>], free: &mut Vec<usize>, completion: gantry_core::Completion) -> abi::Completion {
    let place = completion.user as usize;
    let Held { user, result, result_len } = held[place].take().expect("core completes what it was given");
    free.push(place);
    let result = match completion.result {
        Ok(Outcome::Done) if result_len > 0 => {
            let made = completion.submission.tag();
            if made.len() == result_len {
                // SAFETY: the queue: a buffer that `check` has found to be of this length, and that no slice is of.
                unsafe { bytes_mut(result, result_len) }.copy_from_slice(made);
                abi::result::DONE
            } else {
                Code::Internal as c_int
            }
        }
        Ok(outcome) => of_outcome(outcome),
        Err(error) => Code::from(error) as c_int,
    };
    abi::Completion { user, result, reserved: 0 }
}

/// A request that has C's buffers for its data. IV, associated data and a tag to be verified are copied.
///
/// # Safety
/// The call and the queue, and [`check`] was content.
unsafe fn submission(request: &abi::Request) -> Submission {
    // SAFETY: the call; lengths were checked.
    let (iv, aad) = unsafe { (bytes(request.iv, request.iv_len), bytes(request.aad, request.aad_len)) };
    // SAFETY: the queue; lengths were checked.
    let data = unsafe { lend(request.r#in.cast_mut(), request.in_len) };
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
    // SAFETY: the queue; lengths were checked, and it is apart from the input.
    submission.into_output(unsafe { lend(request.out, request.out_len) })
}
