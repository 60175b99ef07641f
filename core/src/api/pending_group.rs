//! Requests of a queue that have not been sent.

use std::sync::Arc;

use crate::algorithm::Operation;
use crate::devices::Coalescer;
use crate::dispatch::{Gantry, Group, SessionCore};

/// Requests of one algorithm and operation that wait to be batched.
pub(super) struct PendingGroup {
    pub(super) group: Group,
    /// A session of the algorithm. Its index in the queue would not do: another session may get the index when this session's requests are
    /// gone.
    pub(super) lead: Arc<SessionCore>,
    pub(super) operation: Operation,
    /// The time since which the requests wait; 0 if `batch_size` is 1, because such a group is always full.
    pub(super) since: u64,
    /// The number of requests in a full batch.
    pub(super) batch_size: usize,
    /// The group is sent as soon as it has `batch_size` requests: a device with queue pairs can start right away, or the caller wants
    /// immediate completions. Otherwise the requests run on this thread, where a larger burst costs less per request.
    pub(super) sends_when_full: bool,
    /// The requests are in the coalescer, where other threads may take them and send them with their own requests.
    pub(super) is_posted: bool,
}

impl PendingGroup {
    /// Returns the coalescer, where requests of other queues and threads wait.
    pub(super) fn coalescer<'g>(&self, gantry: &'g Gantry) -> &'g Coalescer {
        gantry.common().coalescer(self.lead.params.algorithm())
    }

    /// Takes this group off the coalescer's count of waiting queues.
    pub(super) fn leave_coalescer(&self, gantry: &Gantry) {
        if self.batch_size > 1 {
            self.coalescer(gantry).remove_queue();
        }
    }
}
