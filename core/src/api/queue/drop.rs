//! The drop of a queue.

use std::mem::{self, ManuallyDrop};

use super::Queue;
use crate::request::List;

/// Attempts of a dropped queue to get back requests that other threads are running. After these attempts, the queue's memory is leaked.
const MAX_TAKE_BACK_ATTEMPTS: usize = 1000;

impl Queue {
    /// Returns `true` in a child of the process that made the queue.
    #[inline]
    pub(super) fn is_forked(&self) -> bool {
        !self.process.is_current()
    }

    /// Takes nothing back: leaks the memory of the requests.
    fn leave_to_parent(&mut self) {
        self.groups.iter().for_each(|group| group.leave_coalescer(&self.gantry));
        mem::forget((mem::take(&mut self.groups), mem::replace(&mut self.done, List::new())));
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        if self.is_forked() {
            return self.leave_to_parent();
        }
        for group in std::mem::take(&mut self.groups) {
            if group.is_posted {
                // The coalescer also has requests of other queues. A thread that takes them must run them all.
                self.send(group);
                continue;
            }
            group.leave_coalescer(&self.gantry);
            self.done.extend(group.group.list);
        }
        self.dispatcher.abandon(&self.gantry, &mut self.done);
        self.done.extend(self.sessions.drain());
        // Requests that another thread is running come back when it has finished.
        for _ in 0..MAX_TAKE_BACK_ATTEMPTS {
            if self.dispatcher.in_flight() == 0 {
                break;
            }
            std::thread::yield_now();
            self.dispatcher.abandon(&self.gantry, &mut self.done);
        }
        while let Some(handle) = self.done.pop() {
            self.slots.take(handle);
        }
        if self.slots.used() == 0 {
            self.inbox.wait_for_deliverers();
            // SAFETY: no request is left, so nothing points into these three fields any more, and they are not used again.
            #[allow(unsafe_code)]
            unsafe {
                ManuallyDrop::drop(&mut self.dispatcher);
                ManuallyDrop::drop(&mut self.sessions);
                ManuallyDrop::drop(&mut self.inbox);
            }
        }
    }
}
