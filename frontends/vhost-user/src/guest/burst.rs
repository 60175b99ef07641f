//! Requests of all guests that one thread takes at once, and runs side by side.

use std::sync::Arc;

use super::Guest;
use crate::memory::Memory;
use crate::task::{Task, side_by_side};

/// Requests beyond which a larger burst gains nothing: the widest lanes take 64 at a time.
const FULL: usize = 64;
/// Bytes beyond which a larger burst gains nothing.
const FULL_BYTES: usize = 2 << 20;

/// Requests of several rings. Their buffers are reused by the next burst.
#[derive(Default)]
pub(crate) struct Burst {
    rings: Vec<RingRequests>,
    tasks: Vec<Task>,
    /// Number of tasks in this burst, which are at the front.
    used: usize,
    bytes: usize,
}

/// Consecutive requests of one ring.
struct RingRequests {
    guest: Arc<Guest>,
    memory: Arc<Memory>,
    ring: usize,
    count: usize,
}

/// Takes requests of a ring into a burst.
pub(crate) struct Visit<'b> {
    burst: &'b mut Burst,
    requests: Option<RingRequests>,
}

impl Burst {
    pub(crate) fn visit(&mut self, guest: Arc<Guest>, memory: Arc<Memory>, ring: usize) -> Visit<'_> {
        Visit { burst: self, requests: Some(RingRequests { guest, memory, ring, count: 0 }) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Returns whether another thread may begin a burst of its own.
    pub(crate) fn is_full(&self) -> bool {
        self.used >= FULL || self.bytes >= FULL_BYTES
    }

    /// Runs all requests, and returns them to their rings.
    pub(crate) fn run(&mut self) {
        side_by_side(&mut self.tasks[..self.used]);
        let size = self.used;
        let mut rest = &mut self.tasks[..self.used];
        for requests in self.rings.drain(..) {
            let (tasks, others) = rest.split_at_mut(requests.count);
            requests.guest.counters.record_batch(tasks.len(), size);
            requests.guest.return_requests(requests.ring, &requests.memory, tasks);
            rest = others;
        }
        (self.used, self.bytes) = (0, 0);
    }
}

impl Visit<'_> {
    /// Returns the task for the next request.
    pub(crate) fn task(&mut self) -> &mut Task {
        if let Some(requests) = &mut self.requests {
            requests.count += 1;
        }
        self.burst.bytes += self.burst.used.checked_sub(1).map_or(0, |last| self.burst.tasks[last].load);
        if self.burst.used == self.burst.tasks.len() {
            self.burst.tasks.push(Task::new());
        }
        self.burst.used += 1;
        &mut self.burst.tasks[self.burst.used - 1]
    }

    pub(crate) fn is_full(&self) -> bool {
        self.burst.is_full()
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.burst.rings.extend(self.requests.take().filter(|requests| requests.count > 0));
    }
}
