//! Room on the stack. OpenSSL runs jobs (ASYNC_start_job(3)) on stacks of 32 KiB that lie in the heap with nothing around them, and
//! other libraries have coroutines. A driver may need more, if only to overwrite what keys have left behind. What begins on such a
//! stack is the host's.

use std::cell::Cell;
use std::ffi::c_int;
use std::{mem, ptr, thread};

/// Bytes that have to be left: half as much again as drivers use, and less than a thread of musl has (128 KiB).
const ROOM: usize = 96 << 10;

thread_local! {
    /// Where on the thread's own stack there is room, from and to; nothing is known while both are 0.
    static ROOMY: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// Whether there is enough left of the stack on which this is called.
#[inline]
pub(crate) fn has_room() -> bool {
    let mark = 0_u8;
    let here = (&raw const mark).addr();
    let (begin, end) = ROOMY.get();
    (begin..end).contains(&here) || (end == 0 && is_roomy(here))
}

#[cold]
fn is_roomy(here: usize) -> bool {
    let (begin, end) = threads_own();
    ROOMY.set((begin, end));
    (begin..end).contains(&here)
}

/// Goes on with what a device has begun: in another thread, if there is no room here. `None` if that cannot be had.
pub(crate) fn with_room<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    if has_room() {
        return Some(work());
    }
    let thread = thread::Builder::new().stack_size(2 * ROOM);
    thread::scope(|scope| thread.spawn_scoped(scope, work).ok()?.join().ok())
}

/// Where on the thread's own stack there is room; anywhere, if nobody knows where that is.
fn threads_own() -> (usize, usize) {
    // SAFETY: attributes that are made and destroyed here, of the thread that calls.
    unsafe {
        let mut attributes = mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes) != 0 {
            return (1, usize::MAX);
        }
        let (mut begin, mut size) = (ptr::null_mut(), 0);
        let known: c_int = libc::pthread_attr_getstack(&raw const attributes, &raw mut begin, &raw mut size);
        libc::pthread_attr_destroy(&raw mut attributes);
        if known == 0 { (begin.addr() + ROOM.min(size), begin.addr() + size) } else { (1, usize::MAX) }
    }
}

/// Overwrites what calls that have ended left behind, some way down.
#[inline(never)]
pub(super) fn wipe() {
    const DEEP: usize = 8 << 10;
    std::hint::black_box(&mut [0_u8; DEEP]);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a thread whose stack is too small for it, work is done in another one.
    #[test]
    fn what_has_no_room_gets_some() {
        let small = || {
            assert!(!has_room(), "or this says nothing");
            with_room(|| (has_room(), thread::current().id())).unwrap()
        };
        let small = thread::Builder::new().stack_size(ROOM / 2).spawn(small).unwrap();
        let id = small.thread().id();
        let (room, other) = small.join().unwrap();
        assert!(room && other != id);
    }

    #[test]
    fn with_room_nothing_moves() {
        let large = || {
            assert!(has_room());
            let here = thread::current().id();
            with_room(|| thread::current().id() == here).unwrap()
        };
        assert!(thread::Builder::new().stack_size(1 << 20).spawn(large).unwrap().join().unwrap());
    }
}
