//! What one thread takes of all guests at once, and computes side by side.

use std::sync::Arc;

use crate::guest::Guest;
use crate::memory::Memory;
use crate::task::{Task, side_by_side};

/// Requests after which company gains nothing more: the widest lanes take 64 at a time.
const FULL: usize = 64;
/// Bytes after which it is so.
const FULL_BYTES: usize = 2 << 20;

/// Requests of several rings. Their buffers are used again by the next burst.
#[derive(Default)]
pub(crate) struct Burst {
    rings: Vec<OfRing>,
    tasks: Vec<Task>,
    /// Tasks of this burst, at the front.
    used: usize,
    bytes: usize,
}

/// Requests of one ring, one after another.
struct OfRing {
    guest: Arc<Guest>,
    memory: Arc<Memory>,
    ring: usize,
    count: usize,
}

/// Takes requests of a ring.
pub(crate) struct Visit<'b> {
    burst: &'b mut Burst,
    of: Option<OfRing>,
}

impl Burst {
    pub(crate) fn visit(&mut self, guest: Arc<Guest>, memory: Arc<Memory>, ring: usize) -> Visit<'_> {
        Visit { burst: self, of: Some(OfRing { guest, memory, ring, count: 0 }) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Whether another thread may as well begin a burst of its own.
    pub(crate) fn is_full(&self) -> bool {
        self.used >= FULL || self.bytes >= FULL_BYTES
    }

    /// Computes everything, and gives it back.
    pub(crate) fn run(&mut self) {
        side_by_side(&mut self.tasks[..self.used]);
        let size = self.used;
        let mut rest = &mut self.tasks[..self.used];
        for of in self.rings.drain(..) {
            let (tasks, others) = rest.split_at_mut(of.count);
            of.guest.counters.met(tasks.len(), size);
            of.guest.give_back(of.ring, &of.memory, tasks);
            rest = others;
        }
        (self.used, self.bytes) = (0, 0);
    }
}

impl Visit<'_> {
    /// The next request, for the chain to begin.
    pub(crate) fn task(&mut self) -> &mut Task {
        if let Some(of) = &mut self.of {
            of.count += 1;
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
        self.burst.rings.extend(self.of.take().filter(|of| of.count > 0));
    }
}
