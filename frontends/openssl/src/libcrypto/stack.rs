//! Checks for stack space. OpenSSL runs jobs (ASYNC_start_job(3)) on stacks of 32 KiB in the heap without guard pages, and other
//! libraries have coroutines. A driver may need more stack, if only to overwrite copies of keys. On a small stack, OpenSSL's default
//! provider serves requests; calls that need a device run in a new thread.

use std::cell::Cell;
use std::ffi::c_int;
use std::{mem, ptr, thread};

/// Bytes of stack that must be left: 1.5 times the drivers' use, and less than the stack of a musl thread (128 KiB).
const MIN_FREE_BYTES: usize = 96 << 10;

thread_local! {
    /// The range of addresses on the thread's own stack that have enough room below them; both 0 if not determined yet.
    static ROOMY_ADDRESSES: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// Returns true if enough of the current stack is left.
#[inline]
pub(crate) fn has_room() -> bool {
    let mark = 0_u8;
    let here = (&raw const mark).addr();
    let (begin, end) = ROOMY_ADDRESSES.get();
    (begin..end).contains(&here) || (end == 0 && has_room_uncached(here))
}

#[cold]
fn has_room_uncached(here: usize) -> bool {
    let (begin, end) = roomy_addresses();
    ROOMY_ADDRESSES.set((begin, end));
    (begin..end).contains(&here)
}

/// Runs `work`, in a new thread if this stack has too little room. Returns `None` if that thread cannot start or panics.
pub(crate) fn with_enough_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    if has_room() {
        return Some(work());
    }
    let thread = thread::Builder::new().stack_size(2 * MIN_FREE_BYTES);
    thread::scope(|scope| thread.spawn_scoped(scope, work).ok()?.join().ok())
}

/// Returns the range of addresses on the thread's own stack that have enough room below them; all addresses if the stack is unknown.
fn roomy_addresses() -> (usize, usize) {
    // SAFETY: the attributes are those of the calling thread, made and destroyed in this function.
    unsafe {
        let mut attributes = mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes) != 0 {
            return (1, usize::MAX);
        }
        let (mut begin, mut size) = (ptr::null_mut(), 0);
        let errno: c_int = libc::pthread_attr_getstack(&raw const attributes, &raw mut begin, &raw mut size);
        libc::pthread_attr_destroy(&raw mut attributes);
        if errno == 0 { (begin.addr() + MIN_FREE_BYTES.min(size), begin.addr() + size) } else { (1, usize::MAX) }
    }
}

/// Overwrites the stack below the caller, where earlier calls left data.
#[inline(never)]
pub(crate) fn wipe() {
    const WIPED_BYTES: usize = 8 << 10;
    std::hint::black_box(&mut [0_u8; WIPED_BYTES]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_without_room_runs_in_another_thread() {
        let small = || {
            assert!(!has_room(), "the test needs a stack that is too small");
            with_enough_stack(|| (has_room(), thread::current().id())).unwrap()
        };
        let small = thread::Builder::new().stack_size(MIN_FREE_BYTES / 2).spawn(small).unwrap();
        let id = small.thread().id();
        let (room, other) = small.join().unwrap();
        assert!(room && other != id);
    }

    #[test]
    fn work_with_room_stays_in_its_thread() {
        let large = || {
            assert!(has_room());
            let here = thread::current().id();
            with_enough_stack(|| thread::current().id() == here).unwrap()
        };
        assert!(thread::Builder::new().stack_size(1 << 20).spawn(large).unwrap().join().unwrap());
    }
}
