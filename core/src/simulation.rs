//! Simulated time, for tests and modelled devices.
//!
//! Under a [`VirtualClock`] a framework with modelled devices runs the same code as always, and takes no real time. On one thread, every
//! run is the same.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::clock::Clock;

/// Simulated time. It stands still until a thread waits or spends it. A wait moves the clock to the next moment announced with
/// [`announce`](Self::announce), if that is not after the wait's deadline. Otherwise each wait moves the clock by one step. Steps are small
/// at first: another thread may be about to announce a moment, which a leap to the deadline would skip. If several threads use the clock,
/// a step also takes real time, so that a thread that has no CPU at the moment can still announce in time.
#[derive(Debug, Default)]
pub struct VirtualClock {
    now: AtomicU64,
    /// The part of `now` that was spent as CPU time.
    spent: AtomicU64,
    announced: Mutex<BinaryHeap<Reverse<u64>>>,
    /// Number of steps since the last call of [`announce`](Self::announce).
    idle: AtomicU32,
    /// The first thread that used the clock, as the address of a thread-local; 0 before that.
    first_thread: AtomicUsize,
    /// Other threads have used the clock, too.
    shared: AtomicBool,
}

impl VirtualClock {
    /// The length of the first steps, in nanoseconds.
    const STEP: u64 = 100_000;
    /// Number of consecutive steps after which the length of a step doubles, so that distant deadlines pass soon, too.
    const STEPS_PER_DOUBLING: u32 = 16;
    /// Real time of a step as a multiple of its simulated time, if several threads use the clock.
    const SLOWDOWN: u64 = 4;
    /// Maximum real time of a step.
    const MAX_PAUSE: Duration = Duration::from_millis(4);

    /// Announces an event at `time`.
    pub fn announce(&self, time: u64) {
        self.idle.store(0, Ordering::Relaxed);
        self.announced.lock().unwrap_or_else(PoisonError::into_inner).push(Reverse(time));
    }

    /// Returns the simulated CPU time that was spent, in nanoseconds.
    pub fn spent(&self) -> u64 {
        self.spent.load(Ordering::Relaxed)
    }

    /// Registers the calling thread, and returns whether several threads use the clock.
    fn is_shared(&self) -> bool {
        thread_local! {
            static MARK: u8 = const { 0 };
        }
        if !self.shared.load(Ordering::Relaxed) {
            let this_thread = MARK.with(|mark| std::ptr::from_ref(mark).addr());
            let first = self.first_thread.compare_exchange(0, this_thread, Ordering::Relaxed, Ordering::Relaxed);
            if first.is_err_and(|first| first != this_thread) {
                self.shared.store(true, Ordering::Relaxed);
            }
        }
        self.shared.load(Ordering::Relaxed)
    }

    /// Goes forward to `time`, if that is not in the past.
    pub fn advance_to(&self, time: u64) {
        self.now.fetch_max(time, Ordering::Relaxed);
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> u64 {
        self.is_shared(); // registers a thread that never waits
        self.now.load(Ordering::Relaxed)
    }

    fn wait(&self, until: Option<u64>) {
        let mut announced = self.announced.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.now();
        while announced.peek().is_some_and(|Reverse(time)| *time <= now) {
            announced.pop();
        }
        let next = announced.peek().map(|Reverse(time)| *time);
        drop(announced);
        let until = until.unwrap_or(u64::MAX);
        let to = next.filter(|next| *next <= until).unwrap_or_else(|| {
            let doubled = self.idle.fetch_add(1, Ordering::Relaxed) / Self::STEPS_PER_DOUBLING;
            // The limit keeps the shift from overflowing. The longest step is half an hour.
            let step = (Self::STEP << doubled.min(24)).min(until.saturating_sub(now));
            if self.is_shared() {
                std::thread::sleep(Duration::from_nanos(step * Self::SLOWDOWN).min(Self::MAX_PAUSE));
            }
            now.saturating_add(step)
        });
        self.advance_to(to);
        // A single thread waits for no other, and yielding would give the CPU to other processes.
        if self.is_shared() {
            std::thread::yield_now();
        }
    }

    fn spend(&self, ns: u64) {
        self.now.fetch_add(ns, Ordering::Relaxed);
        self.spent.fetch_add(ns, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_time_advances_to_the_earliest_announced_time_and_never_back() {
        let clock = VirtualClock::default();
        clock.announce(700);
        clock.announce(300);
        clock.wait(None);
        assert_eq!(clock.now(), 300);
        clock.wait(Some(500));
        assert_eq!(clock.now(), 500, "the caller wanted to be back by then");
        clock.spend(1000);
        assert_eq!((clock.now(), clock.spent()), (1500, 1000));
        clock.wait(None);
        assert_eq!(clock.now(), 1500 + VirtualClock::STEP, "the moment 700 is past");
        clock.advance_to(3);
        assert_eq!(clock.now(), 1500 + VirtualClock::STEP);
        clock.wait(Some(u64::MAX));
        assert_eq!(clock.now(), 1500 + 2 * VirtualClock::STEP, "no leap to a moment that was not announced");
    }

    #[test]
    fn steps_of_virtual_time_grow_until_something_is_announced() {
        let clock = VirtualClock::default();
        let step = || {
            let before = clock.now();
            clock.wait(None);
            clock.now() - before
        };
        assert!((0..VirtualClock::STEPS_PER_DOUBLING).all(|_| step() == VirtualClock::STEP));
        assert!((0..VirtualClock::STEPS_PER_DOUBLING).all(|_| step() == 2 * VirtualClock::STEP));
        clock.announce(clock.now() + 7);
        assert_eq!((step(), step()), (7, VirtualClock::STEP), "small ones first");
        assert!((0..1000).map(|_| step()).sum::<u64>() > 10_000_000_000, "every deadline passes in the end");
        assert_eq!(clock.thread_cpu_time(), None);
    }

    #[test]
    fn virtual_time_leaves_other_threads_time_to_run() {
        let clock = VirtualClock::default();
        let start = std::time::Instant::now();
        while clock.now() < 1_000_000_000 {
            clock.wait(None);
        }
        let alone = start.elapsed();
        std::thread::scope(|scope| scope.spawn(|| clock.now()).join()).unwrap();
        let (start, before) = (std::time::Instant::now(), clock.now());
        while clock.now() < before + 1_000_000_000 {
            clock.wait(None);
        }
        let together = start.elapsed();
        assert!(together > Duration::from_millis(4), "{alone:?} alone, and {together:?}: others had time to run");
    }
}
