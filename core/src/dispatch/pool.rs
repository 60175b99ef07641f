//! The queue pairs of a device that no thread uses at the moment.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::pair::OpenPair;

/// No thread ever waits here: where a slot is busy, the next one is tried, and where all are, a queue pair is attached anew.
#[derive(Default)]
pub(super) struct Pool {
    slots: [Idle; 16],
}

/// In a cache line of its own, because a thread takes and puts with every batch.
#[derive(Default)]
#[repr(align(64))]
struct Idle(Mutex<Option<OpenPair>>);

impl Pool {
    pub(super) fn take(&self) -> Option<OpenPair> {
        self.in_turn().find_map(|slot| slot.try_lock().ok()?.take())
    }

    /// Gives the queue pair back where every slot is full.
    pub(super) fn put(&self, pair: OpenPair) -> Option<OpenPair> {
        for slot in self.in_turn() {
            if let Ok(mut slot) = slot.try_lock()
                && slot.is_none()
            {
                return slot.replace(pair);
            }
        }
        Some(pair)
    }

    /// All slots, each thread from one of its own on, so that threads seldom meet.
    fn in_turn(&self) -> impl Iterator<Item = &Mutex<Option<OpenPair>>> {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static FIRST: usize = THREADS.fetch_add(1, Ordering::Relaxed);
        }
        let first = FIRST.with(|first| *first);
        (0..self.slots.len()).map(move |index| &self.slots[(first + index) % self.slots.len()].0)
    }
}
