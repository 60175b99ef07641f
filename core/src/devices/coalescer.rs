//! Where requests of several queues wait for each other.
//!
//! Lanes pay when several requests run side by side. Requests of all queues for the same algorithm come together in one place.
//! The thread that completes a batch takes all of them along and runs them; a thread whose coalescing time is over runs those
//! that are there. There is no helper thread.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::algorithm::Algorithm;
use crate::clock::Clock;
use crate::request::{List, Stack};
use crate::stats::Stats;
use crate::sync::{AtomicUsize, Ordering};

/// Where requests of one algorithm wait for those of any queue.
#[repr(align(128))] // a cache line of its own, and the one that comes along
pub(crate) struct Coalescer {
    waiting: Stack,
    /// At least as many as there are in `waiting`.
    count: AtomicUsize,
    /// Queues that have a request for which a batch would pay.
    queues: AtomicUsize,
}

impl Default for Coalescer {
    fn default() -> Self {
        Self { waiting: Stack::new(), count: AtomicUsize::new(0), queues: AtomicUsize::new(0) }
    }
}

impl Coalescer {
    /// Lays requests down. Returns how many lie there.
    pub(crate) fn post(&self, list: List) -> usize {
        let posted = list.len();
        // First, so that the count is never too low, and no queue waits for requests that are there.
        let count = self.count.fetch_add(posted, Ordering::SeqCst) + posted;
        self.waiting.push(list);
        count
    }

    /// Takes everything.
    pub(crate) fn take(&self) -> List {
        let list = self.waiting.take();
        let counted = self.count.fetch_sub(list.len(), Ordering::SeqCst);
        debug_assert!(counted >= list.len(), "the count is never too low");
        list
    }

    /// A queue has a request for which a batch would pay.
    pub(crate) fn enter(&self) {
        self.queues.fetch_add(1, Ordering::Relaxed);
    }

    /// The queue has none any more.
    pub(crate) fn leave(&self) {
        self.queues.fetch_sub(1, Ordering::Relaxed);
    }

    /// How many queues have such a request.
    pub(crate) fn queues(&self) -> usize {
        self.queues.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, loom))]
mod races {
    use std::sync::Arc;

    use loom::thread;

    use super::*;
    use crate::dispatch::races::{request, session, slots};
    use crate::request::Inbox;

    /// Two threads lay a request down each, and take all that lie there: each request is taken once.
    #[test]
    fn requests_of_two_threads_are_taken_once() {
        loom::model(|| {
            let (session, home) = (session(), Inbox::new());
            let coalescer = Arc::new(Coalescer::default());
            let threads = [1, 2].map(|slot| {
                let (list, coalescer) = (request(&session, &home, slot), coalescer.clone());
                thread::spawn(move || {
                    coalescer.post(list);
                    coalescer.take()
                })
            });
            let mut taken = List::new();
            for thread in threads {
                taken.append(&mut thread.join().unwrap());
            }
            assert_eq!((slots(taken), coalescer.count.load(Ordering::SeqCst)), (vec![1, 2], 0));
        });
    }
}

pub(crate) struct Common {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) stats: Stats,
    /// Devices in quarantine, as bits.
    ailing: AtomicU64,
    /// By algorithm.
    coalescers: Box<[Coalescer]>,
    /// One in so many requests is verified; 0 for none.
    pub(crate) verify: u32,
}

impl Common {
    pub(crate) fn new(clock: Arc<dyn Clock>, stats: Stats, verify: u32) -> Self {
        let coalescers = (0..Algorithm::COUNT).map(|_| Coalescer::default()).collect();
        Self { clock, stats, ailing: AtomicU64::new(0), coalescers, verify }
    }

    /// Where requests of an algorithm wait for those of other queues.
    pub(crate) fn coalescer(&self, algorithm: Algorithm) -> &Coalescer {
        &self.coalescers[algorithm as usize]
    }

    /// Devices in quarantine, as bits.
    #[inline]
    pub(crate) fn ailing(&self) -> u64 {
        self.ailing.load(Ordering::Relaxed)
    }

    pub(crate) fn set_ailing(&self, device: usize, ailing: bool) {
        if ailing {
            self.ailing.fetch_or(1 << device, Ordering::SeqCst);
        } else {
            self.ailing.fetch_and(!(1 << device), Ordering::SeqCst);
        }
    }
}
