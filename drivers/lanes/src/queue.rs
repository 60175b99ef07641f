//! The queue pair of a thread.

use gantry_core::driver::{Batch, Completions, QueuePair};

/// Runs every batch to its end in `submit`, on the calling thread.
pub(crate) struct LanesQueue;

impl QueuePair for LanesQueue {
    fn submit(&mut self, batch: &mut Batch<'_>) {
        batch.run_direct();
    }

    fn poll(&mut self, _done: &mut Completions<'_>) -> usize {
        0
    }
}
