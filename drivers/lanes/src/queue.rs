//! A thread's way into the lanes.

use gantry::Outcome;
use gantry::driver::{Batch, Completions, DeviceQueue, Job};

use crate::session::{Faults, LanesSession};

/// Runs every batch to its end in `submit`, on the calling thread.
#[derive(Default)]
pub(crate) struct LanesQueue {
    /// The jobs of the batch at hand; empty between batches, and kept for its memory.
    jobs: Vec<Job>,
    /// Those among them that no lane took, by their place; always empty unless something is wrong.
    faults: Faults,
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
            Some(session) => session.run_batch(operands, others, &mut self.faults),
            // A job that is dropped is reported as lost.
            None => return self.jobs.clear(),
        }
        if self.faults.is_empty() {
            for job in self.jobs.drain(..) {
                batch.complete(job, Ok(Outcome::Done));
            }
            return;
        }
        let mut faults = self.faults.drain(..).peekable();
        for (place, job) in self.jobs.drain(..).enumerate() {
            let fault = faults.next_if(|(at, _)| *at == place);
            batch.complete(job, fault.map_or(Ok(Outcome::Done), |(_, fault)| Err(fault)));
        }
    }

    fn poll(&mut self, _done: &mut Completions) -> usize {
        0
    }
}
