//! Measures the memory that work allocates, for tests that check that a parser takes at most a multiple of its input.
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
    /// Bytes that this thread has allocated and not freed; then their maximum. Per thread, because other tests run in parallel.
    static NOW: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    static TOTAL: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, with counters per thread.
#[derive(Debug)]
pub struct Counting;

// SAFETY: this is the system's allocator with numbers in thread-locals without a destructor, which allocate nothing. By the trait's
// default, growing memory is allocated anew and copied.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        NOW.set(NOW.get() + layout.size().cast_signed());
        MOST.set(MOST.get().max(NOW.get()));
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        TOTAL.set(TOTAL.get().wrapping_add(layout.size()));
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.set(NOW.get() - layout.size().cast_signed());
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// The memory that work took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The maximum number of bytes allocated at a time, minus the bytes that the thread had allocated before.
    pub bytes: usize,
    /// The number of allocations.
    pub allocations: usize,
    /// The bytes of all allocations together: a measure of work that copies.
    pub total: usize,
}

/// Does work on this thread, and returns the memory it took: zeros if [`Counting`] is not the program's allocator.
pub fn taken<T>(work: impl FnOnce() -> T) -> (T, Taken) {
    let (before, allocations, total) = (NOW.get(), ALLOCATIONS.get(), TOTAL.get());
    MOST.set(before);
    let result = work();
    let bytes = (MOST.get() - before).unsigned_abs();
    let (allocations, total) = (ALLOCATIONS.get() - allocations, TOTAL.get().wrapping_sub(total));
    (result, Taken { bytes, allocations, total })
}

/// Does work that may take at most `most` bytes.
///
/// # Panics
/// If it takes more.
pub fn within<T>(most: usize, work: impl FnOnce() -> T) -> T {
    let (result, taken) = taken(work);
    assert!(taken.bytes <= most, "{} bytes; at most {most} are allowed", taken.bytes);
    result
}

/// Concatenates `count` parts, to make oversized inputs.
pub fn many(count: usize, part: impl Fn(usize) -> String) -> String {
    (0..count).fold(String::new(), |all, number| all + &part(number))
}
