//! Checks that a request allocates nothing, neither in Rust nor in AWS-LC. Needs its own process, because it replaces the
//! allocators.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};

use aws_lc_sys as lc;
use common::{Case, offered, params, software};
use gantry_core::{Algorithm, Operation};

thread_local! {
    /// Counts this thread only, because the test harness allocates in other threads.
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

fn count() {
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
}

struct CountingAllocator;

// SAFETY: the system's allocator, and a count in a thread-local without a destructor, which does not allocate.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller guarantees.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller guarantees.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static GLOBAL: CountingAllocator = CountingAllocator;

unsafe extern "C" {
    fn malloc(bytes: usize) -> *mut c_void;
    fn realloc(pointer: *mut c_void, bytes: usize) -> *mut c_void;
    fn free(pointer: *mut c_void);
}

unsafe extern "C" fn counted_malloc(bytes: usize, _: *const c_char, _: c_int) -> *mut c_void {
    count();
    // SAFETY: the function has no preconditions.
    unsafe { malloc(bytes) }
}

unsafe extern "C" fn counted_realloc(pointer: *mut c_void, bytes: usize, _: *const c_char, _: c_int) -> *mut c_void {
    count();
    // SAFETY: `pointer` came from `counted_malloc`.
    unsafe { realloc(pointer, bytes) }
}

unsafe extern "C" fn counted_free(pointer: *mut c_void, _: *const c_char, _: c_int) {
    // SAFETY: `pointer` came from `counted_malloc`.
    unsafe { free(pointer) }
}

#[test]
fn direct_requests_allocate_nothing_after_the_first() {
    // SAFETY: AWS-LC has not allocated in this process yet, and the three functions fit together.
    let counting =
        unsafe { lc::CRYPTO_set_mem_functions(Some(counted_malloc), Some(counted_realloc), Some(counted_free)) == 1 };
    assert!(counting);
    let gantry = software();
    let before = ALLOCATIONS.get();
    // AWS-LC allocates numbers and points for P-256 and RSA.
    let allocates_numbers = |algorithm: Algorithm| {
        [Algorithm::EcdsaP256, Algorithm::EcdhP256].contains(&algorithm) || gantry_core::sample_key(algorithm).is_some()
    };
    for algorithm in offered(&gantry).filter(|algorithm| !allocates_numbers(*algorithm)).collect::<Vec<_>>() {
        let session = gantry.session(params(algorithm)).unwrap();
        let case = Case::new(algorithm, 300);
        let (mut output, mut tag) = case.buffers(&session);
        let mut round = || {
            for operation in algorithm.kind().operations() {
                case.run_direct(&session, *operation, &mut output, &mut tag).unwrap();
                if *operation == Operation::Open {
                    tag[0] ^= 1;
                    assert!(case.run_direct(&session, *operation, &mut output, &mut tag).is_err(), "{algorithm}");
                }
            }
        };
        round();
        let warm = ALLOCATIONS.get();
        (0..3).for_each(|_| round());
        assert_eq!(ALLOCATIONS.get() - warm, 0, "{algorithm}");
    }
    assert!(ALLOCATIONS.get() > before + 100, "allocations are counted");
}
