//! Contexts kept for the next request: creating one takes as long as compressing a few kilobytes.

use std::sync::{Mutex, PoisonError};

/// Maximum number of contexts kept. Further contexts are freed when they are returned, because a context of zstd takes
/// megabytes.
const MAX_CONTEXTS: usize = 16;

/// Unused contexts. No thread waits for one: if there is none, another one is made.
pub(crate) struct FreeList<T>(Mutex<Vec<T>>);

impl<T> FreeList<T> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Lends a context to `run`. Returns `None` if no context is unused and `make` fails.
    pub(crate) fn with<R>(&self, make: impl FnOnce() -> Option<T>, run: impl FnOnce(&mut T) -> R) -> Option<R> {
        let contexts = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let unused = contexts().pop();
        let mut context = unused.or_else(make)?;
        let result = run(&mut context);
        let mut contexts = contexts();
        if contexts.len() < MAX_CONTEXTS {
            contexts.push(context);
        }
        Some(result)
    }
}
