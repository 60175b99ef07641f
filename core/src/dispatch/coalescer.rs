//! Where requests of several queues and threads wait for each other.
//!
//! Lanes pay when several requests run side by side, and most programs ask for one at a time, on many threads. Requests of
//! all threads for the same algorithm come together in one place. The thread that completes a batch takes all of them along
//! and runs them; one whose time is over goes with those that are there. There is no helper thread.
//!
//! A synchronous call waits here only where a policy or its session asks for that, and only where there are more threads than
//! CPUs: then some thread has to wait anyway, and yielding lets another one run. What that costs is measured, as CPU time of
//! the thread that waited.

use std::cell::Cell;
use std::sync::atomic;
use std::thread::LocalKey;
use std::time::Duration;

use super::experiment::Experiment;
use super::list::List;
use super::stack::Stack;
use crate::sync::{AtomicUsize, Ordering, cpus};

/// After so long a thread goes with those that are there, however few, unless the framework says otherwise.
pub(crate) const LONGEST: Duration = Duration::from_millis(1);
/// After so many requests of a thread that did not wait, because that is too dear, it is thought to be less dear.
const FORGET: u32 = 1024;

/// Where requests of one algorithm wait for others, of any queue and thread.
#[repr(align(128))] // a cache line of its own, and the one that comes along
pub(crate) struct Coalescer {
    waiting: Stack,
    /// At least as many as there are in `waiting`.
    count: AtomicUsize,
    /// Threads and queues that have a request for which a batch would pay.
    threads: AtomicUsize,
    pub(super) experiment: Experiment,
}

impl Default for Coalescer {
    fn default() -> Self {
        Self {
            waiting: Stack::new(),
            count: AtomicUsize::new(0),
            threads: AtomicUsize::new(0),
            experiment: Experiment::default(),
        }
    }
}

impl Coalescer {
    /// Lays requests down. Returns how many lie there.
    pub(crate) fn post(&self, list: List) -> usize {
        let posted = list.len();
        // First, so that the count is never too low and nobody waits for one who is there.
        let count = self.count.fetch_add(posted, Ordering::SeqCst) + posted;
        self.waiting.push(list);
        count
    }

    /// How many requests lie there, or were there a moment ago.
    pub(super) fn there(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Takes everything.
    pub(crate) fn take(&self) -> List {
        let list = self.waiting.take();
        let counted = self.count.fetch_sub(list.len(), Ordering::SeqCst);
        debug_assert!(counted >= list.len(), "nobody waits for one who is there");
        list
    }

    /// A thread or queue has a request for which a batch would pay.
    pub(crate) fn enter(&self) {
        self.threads.fetch_add(1, Ordering::Relaxed);
    }

    /// It has none any more.
    pub(crate) fn leave(&self) {
        self.threads.fetch_sub(1, Ordering::Relaxed);
    }

    /// How many there are.
    pub(crate) fn threads(&self) -> usize {
        self.threads.load(Ordering::Relaxed)
    }
}

/// What it costs to let other threads run, on the machine at hand.
pub(crate) struct Waits {
    /// Nanoseconds that a thread waits at most; 0: nobody waits.
    pub(super) longest: u64,
    /// Nanoseconds of CPU time, for one thread and one request.
    cost: AtomicUsize,
}

impl Waits {
    pub(crate) fn new(longest: Duration) -> Self {
        let longest = u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX);
        Self { longest, cost: AtomicUsize::new(2500) }
    }

    /// How many of the threads that coalesce there are to a CPU. Those that run on the other CPUs do not wait.
    pub(super) fn threads_per_cpu(&self) -> usize {
        if self.longest == 0 { 0 } else { threads() / cpus() }
    }

    /// Takes in what a wait cost, by a small step: a thread may have had other things to do in it, a signal for one. Steps
    /// down are longer, because a wait that is thought too dear is not measured again.
    pub(super) fn learn(&self, ns: u64) {
        let (old, ns) = (self.cost.load(Ordering::Relaxed), usize::try_from(ns).unwrap_or(usize::MAX));
        let new = if ns > old { old + (ns - old).min(old / 128) } else { old - (old - ns).min(old / 64) };
        self.cost.store(new.max(128), Ordering::Relaxed);
    }

    /// Whether a wait is worth it for so many nanoseconds. What was a little too dear is thought to be less so from time to
    /// time, for that reason.
    pub(super) fn pays(&self, saving_ns: u32) -> bool {
        thread_local! {
            static LEFT: Cell<u32> = const { Cell::new(FORGET) };
        }
        let (cost, saving) = (self.cost.load(Ordering::Relaxed), saving_ns as usize);
        // On a 32-bit machine there may be no double of it.
        if (saving..saving.saturating_mul(2)).contains(&cost) && is_due(&LEFT, FORGET) {
            self.learn(0);
        }
        cost < saving
    }
}

/// Counts down from `every`.
pub(super) fn is_due(left: &'static LocalKey<Cell<u32>>, every: u32) -> bool {
    left.set(left.get().checked_sub(1).unwrap_or(every - 1));
    left.get() == 0
}

/// Threads of the process that have asked to coalesce, and live.
fn threads() -> usize {
    // Not loom's: it lasts longer than a model.
    static THREADS: atomic::AtomicUsize = atomic::AtomicUsize::new(0);
    struct Here;
    impl Drop for Here {
        fn drop(&mut self) {
            THREADS.fetch_sub(1, Ordering::Relaxed);
        }
    }
    thread_local! {
        static HERE: Here = {
            THREADS.fetch_add(1, Ordering::Relaxed);
            Here
        };
    }
    // A thread that is being taken down does not count.
    let _ = HERE.try_with(|_| ());
    THREADS.load(Ordering::Relaxed)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn threads_count_while_they_live() {
        const MANY: usize = if cfg!(miri) { 10 } else { 100 };
        let before = threads();
        let (all, end) = (Barrier::new(MANY), Barrier::new(MANY));
        std::thread::scope(|scope| {
            let counted = [(); MANY].map(|()| {
                scope.spawn(|| {
                    threads();
                    all.wait();
                    let counts = [threads(), threads()];
                    end.wait();
                    counts
                })
            });
            for thread in counted {
                for count in thread.join().unwrap() {
                    assert!((before + MANY..before + 2 * MANY).contains(&count), "each once: {count}");
                }
            }
        });
        assert!(threads() < before + MANY, "they are gone");
    }

    #[test]
    fn waits_that_cost_more_than_they_save_stop_and_are_tried_again_by_and_by() {
        let waits = Waits::new(LONGEST);
        let saving = 3000;
        assert!(waits.pays(saving));
        let mut learned = 0;
        while waits.pays(saving) {
            waits.learn(1_000_000);
            learned += 1;
        }
        assert!((8..64).contains(&learned), "one that was interrupted proves nothing: {learned}");
        assert!(waits.pays(4 * saving), "it pays for more");
        assert!(waits.pays(u32::MAX), "on a 32-bit machine too");

        let refused = (0..).take_while(|_| !waits.pays(saving)).take(10 * FORGET as usize).count();
        assert!(refused >= FORGET as usize - 1 && refused <= 2 * FORGET as usize, "{refused}");
        for _ in 0..1000 {
            waits.learn(200);
        }
        assert!(waits.pays(250) && !waits.pays(150), "it is what it costs now");

        // Far too dear for one that saves little: it is not tried, whatever is forgotten.
        while waits.pays(saving) {
            waits.learn(1_000_000);
        }
        assert!((0..10 * FORGET).all(|_| !waits.pays(saving / 3)));
    }
}
