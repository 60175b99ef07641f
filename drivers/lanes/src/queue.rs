//! A thread's way into the lanes.

use gantry_core::Outcome;
use gantry_core::driver::{Batch, Completions, Offer, QueuePair};

use crate::session::{Exceptions, LanesSession};

/// Runs every batch to its end in `submit`, on the calling thread.
#[derive(Default)]
pub(crate) struct LanesQueue {
    /// The requests of the batch at hand that are not simply done, by their place; empty between batches, and kept for its
    /// memory.
    exceptions: Exceptions,
}

impl QueuePair for LanesQueue {
    fn submit(&mut self, batch: &mut Batch<'_>) {
        let offers = batch.offers();
        let Some((first, others)) = offers.split_first_mut() else { return };
        let (session, operands) = first.parts();
        // Any session of the batch knows the kernels for all of them: they are of one algorithm.
        let Some(session) = LanesSession::of(session) else {
            let all = batch.len();
            return batch.accept(all); // one that was not finished is reported as lost
        };
        session.run_batch(operands, others, &mut self.exceptions);
        let mut next = 0;
        for (place, result) in self.exceptions.drain(..) {
            finish_done(&mut offers[next..place]);
            offers[place].finish(result);
            next = place + 1;
        }
        finish_done(&mut offers[next..]);
        let all = batch.len();
        batch.accept(all);
    }

    fn poll(&mut self, _done: &mut Completions<'_>) -> usize {
        0
    }
}

fn finish_done(offers: &mut [Offer<'_>]) {
    for offer in offers {
        offer.finish(Ok(Outcome::Done));
    }
}
