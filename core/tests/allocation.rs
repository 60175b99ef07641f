//! Dispatch does not allocate once the session is open on its device: neither direct calls, nor batches, nor queues.

mod devices;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use devices::{Script, Scripted};
use gantry_core::{Algorithm, Gantry, QueueOptions, Request, SessionParams, Submission, VirtualClock};

/// Length of these tests' requests; no known answer has this length.
const LENGTH: usize = 5;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: the system's allocator does the work. Counting uses a thread-local without a destructor, which does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: promised by the caller.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Counts allocations of the second call, after everything has been opened.
fn allocations(mut work: impl FnMut()) -> usize {
    work();
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

#[test]
fn dispatch_allocates_nothing() {
    for ring in [None, Some(8)] {
        let device = Scripted::new(Script { ring, ..Script::new("device") });
        // With the real clock, a device would be late in an interpreter.
        let gantry = Gantry::builder().clock(Arc::new(VirtualClock::default())).driver(&device).build();
        let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();

        let mut data = [0; LENGTH];
        assert_eq!(allocations(|| session.encrypt(&[], &mut data).unwrap()), 0, "direct");

        let mut data = [[0; LENGTH]; 32];
        let mut requests: Vec<Request<'_>> = data.iter_mut().map(|data| Request::encrypt(&[], data)).collect();
        assert_eq!(allocations(|| session.process(&mut requests).unwrap()), 0, "batch");

        let mut queue = gantry.queue(QueueOptions::default()).unwrap();
        let mut free: Vec<Submission> = (0..32).map(|_| Submission::encrypt(&[], vec![0; LENGTH])).collect();
        let in_queue = || {
            while let Some(submission) = free.pop() {
                queue.submit(&session, submission).unwrap();
            }
            while free.len() < 32 {
                queue.wait(|completion| free.push(completion.submission));
            }
        };
        assert_eq!(allocations(in_queue), 0, "queue, ring {ring:?}");
    }
}

#[test]
fn counts_allocations() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new([0_u8; 64])))), 1);
}
