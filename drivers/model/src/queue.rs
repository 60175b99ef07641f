use std::sync::Arc;
use std::task::Waker;

use gantry_core::driver::{Batch, Completions, QueuePair};

use crate::running::RunningCard;

/// A queue pair of a card.
pub(crate) struct ModelQueue {
    card: Arc<RunningCard>,
    id: u64,
}

impl ModelQueue {
    pub(crate) fn new(card: Arc<RunningCard>) -> Self {
        Self { id: card.new_queue(), card }
    }
}

impl QueuePair for ModelQueue {
    fn submit(&mut self, batch: &mut Batch<'_>) {
        self.card.submit(self.id, batch);
    }

    fn poll(&mut self, done: &mut Completions<'_>) -> usize {
        self.card.poll(self.id, done)
    }

    fn arm(&mut self, waker: &Waker) -> bool {
        self.card.arm(self.id, waker)
    }
}

impl Drop for ModelQueue {
    fn drop(&mut self) {
        self.card.drop_jobs(self.id);
    }
}
