//! A thread's way into the lanes.

use gantry::Outcome;
use gantry::driver::{Batch, Completions, DeviceQueue, Job};

use crate::session::{Exceptions, LanesSession};

/// Runs every batch to its end in `submit`, on the calling thread.
#[derive(Default)]
pub(crate) struct LanesQueue {
    /// The jobs of the batch at hand; empty between batches, and kept for its memory.
    jobs: Vec<Job>,
    /// Those among them that are not simply done, by their place.
    exceptions: Exceptions,
}

impl DeviceQueue for LanesQueue {
    fn submit(&mut self, batch: &mut Batch<'_>) {
        // With room for all of them, no job has to wait on the stack for more: `push` would read there as a whole what `take` has
        // just written in parts, and the CPU waits for that.
        self.jobs.reserve(batch.len());
        let mut taken = 0;
        for place in self.jobs.spare_capacity_mut() {
            let Some(job) = batch.take() else { break };
            place.write(job);
            taken += 1;
        }
        // SAFETY: the vector was empty, and its first `taken` places have just been written.
        unsafe { self.jobs.set_len(taken) };
        let Some((first, others)) = self.jobs.split_first_mut() else { return };
        let (session, operands) = first.parts();
        // Any session of the batch knows the kernels for all of them: they are of one algorithm.
        match LanesSession::of(session) {
            Some(session) => session.run_batch(operands, others, &mut self.exceptions),
            // A job that is dropped is reported as lost.
            None => return self.jobs.clear(),
        }
        if self.exceptions.is_empty() {
            for job in self.jobs.drain(..) {
                batch.complete(job, Ok(Outcome::Done));
            }
            return;
        }
        let mut exceptions = self.exceptions.drain(..).peekable();
        for (place, job) in self.jobs.drain(..).enumerate() {
            let exception = exceptions.next_if(|(at, _)| *at == place);
            batch.complete(job, exception.map_or(Ok(Outcome::Done), |(_, result)| result));
        }
    }

    fn poll(&mut self, _done: &mut Completions) -> usize {
        0
    }
}
