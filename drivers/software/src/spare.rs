//! Contexts that are kept for the next request: to make one takes as long as to compress some kilobytes.

use std::sync::{Mutex, PoisonError};

/// More are freed when they come back: those of zstd have megabytes.
const MOST: usize = 16;

/// Contexts that nobody uses at the moment. Nobody waits for one: where there is none, one more is made.
pub(crate) struct Spare<T>(Mutex<Vec<T>>);

impl<T> Spare<T> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Lends a context to `run`. `None` when there is none and none can be made.
    pub(crate) fn with<R>(&self, make: impl FnOnce() -> Option<T>, run: impl FnOnce(&mut T) -> R) -> Option<R> {
        let spare = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = spare().pop();
        let mut context = kept.or_else(make)?;
        let result = run(&mut context);
        let mut spare = spare();
        if spare.len() < MOST {
            spare.push(context);
        }
        Some(result)
    }
}
