//! Measures the memory that work allocates, for tests that check that a parser takes at most a multiple of its input.
//!
//! ```
//! #[global_allocator]
//! static MEMORY: gantry_lab::memory::CountingAllocator = gantry_lab::memory::CountingAllocator;
//!
//! let (kept, usage) = gantry_lab::memory::measure(|| vec![0_u8; 4096]);
//! assert_eq!((kept.len(), usage.peak_bytes, usage.allocations), (4096, 4096, 1));
//! ```

#![allow(unsafe_code, reason = "an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes that this thread has allocated and not freed; then their maximum. Per thread, because other tests run in parallel.
    static CURRENT_BYTES: Cell<isize> = const { Cell::new(0) };
    static PEAK_BYTES: Cell<isize> = const { Cell::new(0) };
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    static TOTAL_BYTES: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, with counters per thread.
#[derive(Debug)]
pub struct CountingAllocator;

// SAFETY: this is the system's allocator with numbers in thread-locals without a destructor, which allocate nothing. By the trait's
// default, growing memory is allocated anew and copied.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CURRENT_BYTES.set(CURRENT_BYTES.get() + layout.size().cast_signed());
        PEAK_BYTES.set(PEAK_BYTES.get().max(CURRENT_BYTES.get()));
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        TOTAL_BYTES.set(TOTAL_BYTES.get().wrapping_add(layout.size()));
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        CURRENT_BYTES.set(CURRENT_BYTES.get() - layout.size().cast_signed());
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// The memory that work took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryUsage {
    /// The maximum number of bytes allocated at a time, minus the bytes that the thread had allocated before.
    pub peak_bytes: usize,
    /// The number of allocations.
    pub allocations: usize,
    /// The bytes of all allocations together: a measure of work that copies.
    pub total_bytes: usize,
}

/// Does work on this thread, and returns the memory it took: zeros if [`CountingAllocator`] is not the program's allocator.
pub fn measure<T>(work: impl FnOnce() -> T) -> (T, MemoryUsage) {
    let (before, allocations, total_bytes) = (CURRENT_BYTES.get(), ALLOCATIONS.get(), TOTAL_BYTES.get());
    PEAK_BYTES.set(before);
    let result = work();
    let peak_bytes = (PEAK_BYTES.get() - before).unsigned_abs();
    let (allocations, total_bytes) = (ALLOCATIONS.get() - allocations, TOTAL_BYTES.get().wrapping_sub(total_bytes));
    (result, MemoryUsage { peak_bytes, allocations, total_bytes })
}

/// Does work that may take at most `max_bytes`.
///
/// # Panics
/// If it takes more.
pub fn run_within<T>(max_bytes: usize, work: impl FnOnce() -> T) -> T {
    let (result, usage) = measure(work);
    assert!(usage.peak_bytes <= max_bytes, "{} bytes; at most {max_bytes} are allowed", usage.peak_bytes);
    result
}

/// Concatenates `count` parts, to make oversized inputs.
pub fn concat_parts(count: usize, part: impl Fn(usize) -> String) -> String {
    (0..count).fold(String::new(), |all, number| all + &part(number))
}
