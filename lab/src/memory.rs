//! The memory that work takes: for tests that a reader takes no more of it than some times its input.
//!
//! ```
//! #[global_allocator]
//! static MEMORY: gantry_lab::memory::Counting = gantry_lab::memory::Counting;
//!
//! let (kept, taken) = gantry_lab::memory::taken(|| vec![0_u8; 4096]);
//! assert_eq!((kept.len(), taken.bytes, taken.allocations), (4096, 4096, 1));
//! ```

#![allow(unsafe_code, reason = "an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes that this thread has now, and the most that it had: other tests run beside it.
    static NOW: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, which counts for each thread.
#[derive(Debug)]
pub struct Counting;

// SAFETY: the system's allocator, and numbers in thread-locals without a destructor, which allocate nothing themselves. What grows is
// allocated anew and copied, as the trait does it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        NOW.set(NOW.get() + layout.size().cast_signed());
        MOST.set(MOST.get().max(NOW.get()));
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.set(NOW.get() - layout.size().cast_signed());
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// What work took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The most bytes at a time, beyond those that the thread had before.
    pub bytes: usize,
    /// How often there was an allocation.
    pub allocations: usize,
}

/// Does work on this thread, and tells what it took. Zeros where [`Counting`] is not the program's allocator.
pub fn taken<T>(work: impl FnOnce() -> T) -> (T, Taken) {
    let (before, allocations) = (NOW.get(), ALLOCATIONS.get());
    MOST.set(before);
    let result = work();
    let bytes = (MOST.get() - before).unsigned_abs();
    (result, Taken { bytes, allocations: ALLOCATIONS.get() - allocations })
}

/// Does work that may take so many bytes, and no more.
///
/// # Panics
/// It takes more.
pub fn within<T>(most: usize, work: impl FnOnce() -> T) -> T {
    let (result, taken) = taken(work);
    assert!(taken.bytes <= most, "{} bytes; {most} are the most", taken.bytes);
    result
}

/// Many parts, one behind the other: what a bomb is made of.
pub fn many(count: usize, part: impl Fn(usize) -> String) -> String {
    (0..count).fold(String::new(), |all, number| all + &part(number))
}
