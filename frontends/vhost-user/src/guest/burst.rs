//! Requests of all guests that one thread takes at once, and runs side by side.

use std::sync::Arc;

use super::Guest;
use crate::memory::Memory;
use crate::task::{Task, run_tasks};

/// A burst of this size takes no further visits: the widest lanes take 64 requests at a time.
const TARGET_REQUESTS: usize = 64;
/// A burst of these bytes takes no further visits.
const TARGET_BYTES: usize = 2 << 20;

/// Requests of several rings. Their buffers are reused by the next burst.
#[derive(Default)]
pub(crate) struct Burst {
    ring_requests: Vec<RingRequests>,
    tasks: Vec<Task>,
    /// Number of tasks in this burst, which are at the front.
    task_count: usize,
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
pub(crate) struct RingVisit<'b> {
    burst: &'b mut Burst,
    requests: Option<RingRequests>,
}

impl Burst {
    pub(crate) fn begin_visit(&mut self, guest: Arc<Guest>, memory: Arc<Memory>, ring: usize) -> RingVisit<'_> {
        RingVisit { burst: self, requests: Some(RingRequests { guest, memory, ring, count: 0 }) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.task_count == 0
    }

    /// Returns whether another thread may begin a burst of its own.
    pub(crate) fn is_full(&self) -> bool {
        self.task_count >= TARGET_REQUESTS || self.bytes >= TARGET_BYTES
    }

    /// Runs all requests, and returns them to their rings.
    pub(crate) fn run(&mut self) {
        run_tasks(&mut self.tasks[..self.task_count]);
        let size = self.task_count;
        let mut rest = &mut self.tasks[..self.task_count];
        for requests in self.ring_requests.drain(..) {
            let (tasks, others) = rest.split_at_mut(requests.count);
            requests.guest.counters.record_burst(tasks.len(), size);
            requests.guest.return_requests(requests.ring, &requests.memory, tasks);
            rest = others;
        }
        (self.task_count, self.bytes) = (0, 0);
    }
}

impl RingVisit<'_> {
    /// Returns the task for the next request.
    pub(crate) fn push_task(&mut self) -> &mut Task {
        if let Some(requests) = &mut self.requests {
            requests.count += 1;
        }
        self.burst.bytes += self.burst.task_count.checked_sub(1).map_or(0, |last| self.burst.tasks[last].charged_bytes);
        if self.burst.task_count == self.burst.tasks.len() {
            self.burst.tasks.push(Task::new());
        }
        self.burst.task_count += 1;
        &mut self.burst.tasks[self.burst.task_count - 1]
    }
}

impl Drop for RingVisit<'_> {
    fn drop(&mut self) {
        self.burst.ring_requests.extend(self.requests.take().filter(|requests| requests.count > 0));
    }
}
