//! Coalescers, where requests of several queues wait to be batched.
//!
//! A device's lanes run requests side by side, so they pay off only if several requests arrive together. Requests of all queues for the
//! same algorithm share a coalescer. The thread that fills a batch takes all waiting requests and runs them. A thread whose coalescing time
//! is over runs the requests that are there. There is no helper thread.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::algorithm::Algorithm;
use crate::clock::Clock;
use crate::request::{List, Stack};
use crate::stats::Stats;
use crate::sync::{AtomicUsize, Ordering};

/// Requests of one algorithm that wait to be batched, from any queue.
#[repr(align(128))] // its own cache line, and the cache line that is prefetched with it
pub(crate) struct Coalescer {
    waiting: Stack,
    /// Number of requests in `waiting`; too high for a moment during a call of `post` or `take`, but never too low.
    waiting_count: AtomicUsize,
    /// Queues that have a request to be batched.
    queues: AtomicUsize,
}

impl Default for Coalescer {
    fn default() -> Self {
        Self { waiting: Stack::new(), waiting_count: AtomicUsize::new(0), queues: AtomicUsize::new(0) }
    }
}

impl Coalescer {
    /// Adds requests. Returns the number of requests that wait.
    pub(crate) fn post(&self, list: List) -> usize {
        let posted = list.len();
        // Count first, so that the count is never too low. Otherwise a queue might wait for requests that are already there.
        let count = self.waiting_count.fetch_add(posted, Ordering::SeqCst) + posted;
        self.waiting.push(list);
        count
    }

    /// Takes all requests.
    pub(crate) fn take(&self) -> List {
        let list = self.waiting.take();
        let counted = self.waiting_count.fetch_sub(list.len(), Ordering::SeqCst);
        debug_assert!(counted >= list.len(), "the count is never too low");
        list
    }

    /// Counts a queue that has a request to be batched.
    pub(crate) fn add_queue(&self) {
        self.queues.fetch_add(1, Ordering::Relaxed);
    }

    /// Stops counting a queue that has no request to be batched any more.
    pub(crate) fn remove_queue(&self) {
        self.queues.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns the number of queues that have a request to be batched.
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

    /// Two threads post a request each, and take all: each request is taken once.
    #[test]
    fn requests_of_two_threads_are_taken_once() {
        loom::model(|| {
            let (session, inbox) = (session(), Inbox::new());
            let coalescer = Arc::new(Coalescer::default());
            let threads = [1, 2].map(|slot| {
                let (list, coalescer) = (request(&session, &inbox, slot), coalescer.clone());
                thread::spawn(move || {
                    coalescer.post(list);
                    coalescer.take()
                })
            });
            let mut taken = List::new();
            for thread in threads {
                taken.append(&mut thread.join().unwrap());
            }
            assert_eq!((slots(taken), coalescer.waiting_count.load(Ordering::SeqCst)), (vec![1, 2], 0));
        });
    }
}

/// State that a framework shares with its devices.
pub(crate) struct CommonState {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) stats: Stats,
    /// Bit mask of devices in quarantine.
    quarantined: AtomicU64,
    /// One coalescer for each algorithm.
    coalescers: Box<[Coalescer]>,
    /// One in `verify_one_in` requests is verified; 0 for none.
    pub(crate) verify_one_in: u32,
}

impl CommonState {
    pub(crate) fn new(clock: Arc<dyn Clock>, stats: Stats, verify_one_in: u32) -> Self {
        let coalescers = (0..Algorithm::COUNT).map(|_| Coalescer::default()).collect();
        Self { clock, stats, quarantined: AtomicU64::new(0), coalescers, verify_one_in }
    }

    /// Returns the coalescer of an algorithm.
    pub(crate) fn coalescer(&self, algorithm: Algorithm) -> &Coalescer {
        &self.coalescers[algorithm as usize]
    }

    /// Returns a bit mask of devices in quarantine.
    #[inline]
    pub(crate) fn quarantined(&self) -> u64 {
        self.quarantined.load(Ordering::Relaxed)
    }

    pub(crate) fn set_quarantined(&self, device: usize, quarantined: bool) {
        if quarantined {
            self.quarantined.fetch_or(1 << device, Ordering::SeqCst);
        } else {
            self.quarantined.fetch_and(!(1 << device), Ordering::SeqCst);
        }
    }
}
