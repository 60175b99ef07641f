//! Work that several threads share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::output::Failure;

/// Has `count` threads, the calling one among them, take one step after the other until it answers that there is none left. `own` makes what
/// each thread has for itself. The first error ends it.
pub(super) fn share<T>(
    count: u64,
    own: impl Fn() -> T + Sync,
    step: impl Fn(&mut T) -> Result<bool, Failure> + Sync,
) -> Result<(), Failure> {
    let (failed, first) = (AtomicBool::new(false), Mutex::new(None));
    let work = || {
        let mut own = own();
        while !failed.load(Ordering::Relaxed) {
            match step(&mut own) {
                Ok(true) => {}
                Ok(false) => return,
                Err(failure) => {
                    failed.store(true, Ordering::Relaxed);
                    first.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
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
    first.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}
