//! Shares work between threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::output::Failure;

/// Calls `step` repeatedly on each of `count` threads, including the calling one, until `step` returns false there. `make_state` makes the
/// state of each thread. Stops at the first error.
pub(super) fn run_on_threads<T>(
    count: u64,
    make_state: impl Fn() -> T + Sync,
    step: impl Fn(&mut T) -> Result<bool, Failure> + Sync,
) -> Result<(), Failure> {
    let (has_failed, first_failure) = (AtomicBool::new(false), Mutex::new(None));
    let work = || {
        let mut state = make_state();
        while !has_failed.load(Ordering::Relaxed) {
            match step(&mut state) {
                Ok(true) => {}
                Ok(false) => return,
                Err(failure) => {
                    has_failed.store(true, Ordering::Relaxed);
                    first_failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..count {
            scope.spawn(work);
        }
        work();
    });
    first_failure.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}
