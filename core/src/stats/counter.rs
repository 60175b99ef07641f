//! One number.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows, and stays at `u64::MAX` rather than begin again.
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// `shared`: several threads may be adding.
    #[inline]
    pub(super) fn add(&self, number: u64, shared: bool) {
        if shared {
            let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| Some(old.saturating_add(number)));
        } else {
            // No lock prefix: nobody else writes.
            self.0.store(self.0.load(Ordering::Relaxed).saturating_add(number), Ordering::Relaxed);
        }
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
