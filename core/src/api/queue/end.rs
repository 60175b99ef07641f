use std::mem::{self, ManuallyDrop};

use super::Queue;
use crate::request::List;

/// How many times a queue that is dropped looks for requests that other threads have in hand, before it leaves its memory to
/// them.
const PATIENCE: usize = 1000;

impl Queue {
    /// Whether this process is a child of the one that made the queue.
    #[inline]
    pub(super) fn is_of_parent(&self) -> bool {
        !self.process.is_current()
    }

    /// Takes nothing back: the memory of requests stays.
    fn leave_to_parent(&mut self) {
        self.groups.iter().for_each(|group| group.leave(&self.gantry));
        mem::forget((mem::take(&mut self.groups), mem::replace(&mut self.done, List::new())));
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        if self.is_of_parent() {
            return self.leave_to_parent();
        }
        for group in std::mem::take(&mut self.groups) {
            if group.posted {
                self.send(group); // others' requests lie there, too: all are run
                continue;
            }
            group.leave(&self.gantry);
            self.done.extend(group.group.list);
        }
        self.dispatcher.abandon(&self.gantry, &mut self.done);
        self.done.extend(self.sessions.drain());
        // Those that another thread runs at this moment come back when it has.
        for _ in 0..PATIENCE {
            if self.dispatcher.out() == 0 {
                break;
            }
            std::thread::yield_now();
            self.dispatcher.abandon(&self.gantry, &mut self.done);
        }
        while let Some(handle) = self.done.pop() {
            self.slots.take(handle);
        }
        if self.slots.used() == 0 {
            self.inbox.settle();
            // SAFETY: nothing points into these any more, and they are not used again.
            #[allow(unsafe_code)]
            unsafe {
                ManuallyDrop::drop(&mut self.dispatcher);
                ManuallyDrop::drop(&mut self.sessions);
                ManuallyDrop::drop(&mut self.inbox);
            }
        }
    }
}
