//! A thread's way into the lanes.

use gantry::driver::{Batch, Completions, DeviceQueue, Job};
use gantry::{Fault, Outcome};

use crate::session::LanesSession;

/// Runs every batch to its end in `submit`, on the calling thread.
#[derive(Default)]
pub(crate) struct LanesQueue {
    /// The jobs of the batch at hand, each with its result; empty between batches, and kept for its memory.
    jobs: Vec<(Job, Result<Outcome, Fault>)>,
}

impl DeviceQueue for LanesQueue {
    fn submit(&mut self, batch: &mut Batch<'_>) {
        while let Some(job) = batch.take() {
            self.jobs.push((job, Err(Fault::Lost)));
        }
        // All jobs of a batch are of one session.
        let session = self.jobs.first().and_then(|(job, _)| job.session_as::<LanesSession>().cloned());
        if let Some(session) = session {
            session.run_batch(&mut self.jobs);
        }
        for (job, result) in self.jobs.drain(..) {
            batch.complete(job, result);
        }
    }

    fn poll(&mut self, _done: &mut Completions) -> usize {
        0
    }
}
