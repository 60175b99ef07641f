//! Requests of a queue that have not been sent.

use std::sync::Arc;

use crate::algorithm::Operation;
use crate::devices::Coalescer;
use crate::dispatch::{Gantry, Group, SessionCore};

/// Requests of one algorithm and operation that wait for others to go with.
pub(super) struct Waiting {
    pub(super) group: Group,
    /// A session of the algorithm. Not its place in the queue: that may be another session's when its requests are gone.
    pub(super) lead: Arc<SessionCore>,
    pub(super) operation: Operation,
    pub(super) since: u64,
    /// How many would be enough.
    pub(super) enough: usize,
    /// They are sent as soon as there are enough. A ring begins at once; this thread would only do now what it can do later, when there is
    /// more of it.
    pub(super) at_once: bool,
    /// They lie where other threads may take them along.
    pub(super) posted: bool,
}

impl Waiting {
    /// Where requests of other queues and threads wait that these can go with.
    pub(super) fn coalescer<'g>(&self, gantry: &'g Gantry) -> &'g Coalescer {
        gantry.common().coalescer(self.lead.params.algorithm())
    }

    /// These wait no longer.
    pub(super) fn leave(&self, gantry: &Gantry) {
        if self.enough > 1 {
            self.coalescer(gantry).leave();
        }
    }
}
