//! Room on the stack. OpenSSL runs jobs on stacks of 32 KiB that lie in the heap with nothing around them, and other libraries have
//! coroutines; a driver may need more, if only to overwrite what keys have left behind. So what may lead to a device runs on a stack of
//! ours, one for each thread, where that of the caller is not the thread's or has little left.

use std::arch::asm;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::{mem, ptr};

/// Bytes that have to be left: twice what drivers use.
const ROOM: usize = 128 << 10;
/// Bytes of a stack of ours.
const SIZE: usize = 256 << 10;
/// Bytes below it that nobody may touch: more than any page has.
const GUARD: usize = 64 << 10;

thread_local! {
    /// Where on the thread's own stack there is room, from and to; nothing is known while both are 0.
    static ROOMY: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
    static OURS: Ours = const { Ours(Cell::new(0)) };
}

/// The end of the thread's stack of ours; 0 before there is one.
struct Ours(Cell<usize>);

impl Drop for Ours {
    fn drop(&mut self) {
        if let Some(begin) = self.0.get().checked_sub(SIZE + GUARD) {
            // SAFETY: mapped below, once, and nothing runs on it when its thread ends.
            unsafe { libc::munmap(ptr::without_provenance_mut(begin), SIZE + GUARD) };
        }
    }
}

impl Ours {
    /// Its end, mapped if it was not.
    fn end(&self) -> Option<usize> {
        if self.0.get() == 0 {
            let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            // SAFETY: a new mapping, and then its beginning.
            unsafe {
                let at = libc::mmap(ptr::null_mut(), SIZE + GUARD, access, flags | libc::MAP_STACK, -1, 0);
                if at == libc::MAP_FAILED || libc::mprotect(at, GUARD, libc::PROT_NONE) != 0 {
                    return None;
                }
                self.0.set(at.addr() + SIZE + GUARD);
            }
        }
        Some(self.0.get())
    }
}

/// Whether there is enough left of the stack on which this is called.
#[inline]
pub(super) fn has_room() -> bool {
    let mark = 0_u8;
    let here = (&raw const mark).addr();
    let (begin, end) = ROOMY.get();
    (begin..end).contains(&here) || is_roomy(here, end == 0)
}

#[cold]
fn is_roomy(here: usize, unknown: bool) -> bool {
    if unknown {
        ROOMY.set(threads_own());
    }
    let (begin, end) = ROOMY.get();
    // Called by the host, which we have called.
    let on_ours = || OURS.try_with(|ours| (ours.0.get().saturating_sub(SIZE)..ours.0.get()).contains(&here));
    (begin..end).contains(&here) || on_ours().unwrap_or(true)
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

/// Runs `work`, which must not panic, where it has room; where there is none to be had, where it is.
pub(super) fn with_room<T, F: FnOnce() -> T>(work: F) -> T {
    struct Task<F, T>(Option<F>, Option<T>);
    extern "C" fn run<T, F: FnOnce() -> T>(task: *mut c_void) {
        // SAFETY: what is passed below, and waits there.
        let task = unsafe { &mut *task.cast::<Task<F, T>>() };
        task.1 = task.0.take().map(|work| work());
    }
    let ours = if has_room() { None } else { OURS.try_with(Ours::end).ok().flatten() };
    let Some(end) = ours.filter(|_| CAN_MOVE) else { return work() };
    let mut task = Task(Some(work), None);
    // SAFETY: the end of a stack on which nothing runs: whoever does has room, and nobody leaves it but by returning.
    unsafe { on(end, run::<T, F>, (&raw mut task).cast()) };
    task.1.expect("it has run")
}

const CAN_MOVE: bool = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));

/// Calls `function` with the stack that ends there.
///
/// # Safety
///
/// It ends at a multiple of 16, has room for the function, and nothing else is on it. `data` is what the function wants.
#[cfg(target_arch = "x86_64")]
unsafe fn on(end: usize, function: extern "C" fn(*mut c_void), data: *mut c_void) {
    // SAFETY: as the caller promises; the stack pointer is in a register that functions leave as it is, and nothing is unwound past here,
    // because the function does not panic.
    unsafe {
        asm!(
            "mov r12, rsp", "mov rsp, {end}", "call {function}", "mov rsp, r12",
            end = in(reg) end, function = in(reg) function, in("rdi") data, out("r12") _, clobber_abi("C"),
        );
    }
}

/// The same.
///
/// # Safety
///
/// As above.
#[cfg(target_arch = "aarch64")]
unsafe fn on(end: usize, function: extern "C" fn(*mut c_void), data: *mut c_void) {
    // SAFETY: as above.
    unsafe {
        asm!(
            "mov x20, sp", "mov sp, {end}", "blr {function}", "mov sp, x20",
            end = in(reg) end, function = in(reg) function, in("x0") data, out("x20") _, clobber_abi("C"),
        );
    }
}

/// Never called.
///
/// # Safety
///
/// None is needed.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn on(_: usize, _: extern "C" fn(*mut c_void), _: *mut c_void) {}

/// Overwrites what calls that have ended left behind, some way down.
#[inline(never)]
pub(super) fn wipe() {
    const DEEP: usize = 8 << 10;
    std::hint::black_box(&mut [0_u8; DEEP]);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a thread whose stack is too small for it, work moves, comes back with its answer, and moves again after that.
    #[test]
    fn what_has_no_room_gets_some() {
        let small = || {
            assert!(!has_room(), "or this says nothing");
            #[allow(clippy::large_stack_arrays, reason = "the stack is what it is about")]
            let on_stack = |bytes: u8| {
                let mut large = [bytes; ROOM + ROOM / 2];
                std::hint::black_box(&mut large);
                (has_room(), with_room(has_room), large.iter().map(|byte| usize::from(*byte)).sum::<usize>())
            };
            (1..4).map(|bytes| with_room(move || on_stack(bytes))).collect::<Vec<_>>()
        };
        let answers = std::thread::Builder::new().stack_size(ROOM / 2).spawn(small).unwrap().join().unwrap();
        let sums = [1, 2, 3].map(|bytes| (true, true, bytes * (ROOM + ROOM / 2)));
        assert_eq!(answers, sums);
    }

    #[test]
    fn with_room_nothing_moves() {
        let large = || {
            let mark = 0_u8;
            let here = (&raw const mark).addr();
            assert!(has_room());
            with_room(|| {
                let mark = 0_u8;
                (&raw const mark).addr().abs_diff(here)
            })
        };
        let distance = std::thread::Builder::new().stack_size(1 << 20).spawn(large).unwrap().join().unwrap();
        assert!(distance < 4096, "{distance}");
    }
}
