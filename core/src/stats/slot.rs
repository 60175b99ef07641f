//! Gives each thread the number of a slot, so that it has counters that no other thread writes.
//!
//! A thread takes a slot at its first request, and returns it when it ends. The next thread with this slot sees the writes of the thread
//! before it: returning is a `Release` and taking an `Acquire` of the same word. A thread that finds no slot, or is already ending, uses
//! the [`SHARED_SLOT`], where numbers are added atomically.
//!
//! `fork` copies the word: in the child, the slots of the parent's other threads stay taken. Counts remain correct, but fewer threads have
//! their own slot. If the counters are in a [`Memory`](super::Memory) that both processes map, the parent continues to write them. So a
//! child begins with new counters.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::process::Process;

/// Slots that one thread at a time has to itself.
const OWN_SLOTS: usize = u64::BITS as usize;
/// The slot of all other threads.
const SHARED_SLOT: usize = OWN_SLOTS;
/// The slot of threads whose requests are not counted.
const UNCOUNTED_SLOT: usize = OWN_SLOTS + 1;

const NO_SLOT: usize = usize::MAX;

/// Bit `n` is set if slot `n` is taken.
static TAKEN_SLOTS: AtomicU64 = AtomicU64::new(0);

/// Runs `body` without counting the requests of the calling thread. It serves for measurements, which are not work of the program. Events
/// of devices are counted.
pub fn uncounted<T>(body: impl FnOnce() -> T) -> T {
    struct Restore(usize);
    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT_SLOT.set(self.0);
        }
    }
    let _restore = Restore(CURRENT_SLOT.replace(UNCOUNTED_SLOT));
    body()
}

/// The writers of a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Writers {
    /// One thread at a time.
    One,
    /// Several threads.
    Several,
    /// Several threads, none of which counts its requests.
    Uncounted,
}

/// The content of each slot, in one process.
pub(super) struct Slots<T> {
    process: Process,
    /// Empty if nothing is counted.
    contents: Box<[OnceLock<Box<T>>]>,
    /// The slots of a child process, which sets this field in its own copy of the value.
    child: OnceLock<Box<Slots<T>>>,
}

impl<T> Slots<T> {
    pub(super) fn new(enabled: bool) -> Self {
        let contents = (0..if enabled { UNCOUNTED_SLOT + 1 } else { 0 }).map(|_| OnceLock::new()).collect();
        Self { process: Process::current(), contents, child: OnceLock::new() }
    }

    /// Returns the content of the calling thread's slot. `make` gets the kind of the slot's writers.
    #[inline]
    pub(super) fn of_this_thread(&self, make: impl FnOnce(Writers) -> T) -> Option<&T> {
        let slot = current_slot();
        let writers = || match slot {
            SHARED_SLOT => Writers::Several,
            UNCOUNTED_SLOT => Writers::Uncounted,
            _ => Writers::One,
        };
        Some(self.in_this_process().contents.get(slot)?.get_or_init(|| Box::new(make(writers()))))
    }

    /// Returns the content of all slots of this process.
    pub(super) fn all(&self) -> impl Iterator<Item = &T> {
        self.in_this_process().contents.iter().filter_map(|slot| Some(&**slot.get()?))
    }

    #[inline]
    fn in_this_process(&self) -> &Self {
        if self.process.is_current() { self } else { self.in_child() }
    }

    #[cold]
    fn in_child(&self) -> &Self {
        self.child.get_or_init(|| Box::new(Self::new(!self.contents.is_empty()))).in_this_process()
    }
}

thread_local! {
    // The type has no destructor, so reading is a plain load, and works while other thread-locals are being destroyed.
    static CURRENT_SLOT: Cell<usize> = const { Cell::new(NO_SLOT) };
    static OWNER: SlotOwner = const { SlotOwner { slot: Cell::new(SHARED_SLOT) } };
}

/// Returns the slot of the calling thread.
#[inline]
fn current_slot() -> usize {
    match CURRENT_SLOT.get() {
        NO_SLOT => take_slot(),
        slot => slot,
    }
}

#[cold]
fn take_slot() -> usize {
    let slot = OWNER.try_with(|owner| {
        let free = |taken: u64| (taken != u64::MAX).then(|| taken | (taken + 1));
        let slot = match TAKEN_SLOTS.fetch_update(Ordering::Acquire, Ordering::Relaxed, free) {
            Ok(before) => before.trailing_ones() as usize,
            Err(_) => SHARED_SLOT,
        };
        owner.slot.set(slot);
        CURRENT_SLOT.set(slot);
        slot
    });
    slot.unwrap_or(SHARED_SLOT)
}

/// Gives a thread's slot back.
struct SlotOwner {
    slot: Cell<usize>,
}

impl Drop for SlotOwner {
    fn drop(&mut self) {
        CURRENT_SLOT.set(NO_SLOT);
        let slot = self.slot.get();
        if slot < OWN_SLOTS {
            TAKEN_SLOTS.fetch_and(!(1 << slot), Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::{Barrier, Mutex};

    use super::*;

    #[test]
    fn concurrent_threads_have_their_own_slots_and_surplus_threads_share() {
        const THREADS: usize = OWN_SLOTS + 10;
        let (all, barrier) = (Mutex::new(Vec::new()), Barrier::new(THREADS));
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    let slot = current_slot();
                    all.lock().unwrap().push(slot);
                    barrier.wait();
                    assert_eq!(current_slot(), slot, "a thread keeps its slot");
                });
            }
        });
        let all = all.into_inner().unwrap();
        let own: Vec<usize> = all.iter().copied().filter(|slot| *slot != SHARED_SLOT).collect();
        assert_eq!(own.len(), own.iter().collect::<BTreeSet<_>>().len(), "no two have the same: {all:?}");
        assert!(all.len() - own.len() >= THREADS - OWN_SLOTS);
    }

    #[test]
    fn slots_are_reused() {
        // One thread after the other, more than there are slots: if slots were lost, the last threads would have to share.
        for _ in 0..OWN_SLOTS {
            std::thread::spawn(current_slot).join().unwrap();
        }
        let tries = if cfg!(miri) { 20 } else { 100_000 };
        let reused = (0..tries).any(|_| {
            // Other tests may hold every slot for a moment.
            std::thread::yield_now();
            std::thread::spawn(current_slot).join().unwrap() != SHARED_SLOT
        });
        assert!(reused);
    }

    #[test]
    fn destructors_of_a_thread_use_the_shared_slot() {
        struct Late(std::sync::mpsc::Sender<usize>);
        impl Drop for Late {
            fn drop(&mut self) {
                self.0.send(current_slot()).unwrap();
            }
        }
        thread_local!(static LATE: Cell<Option<Late>> = const { Cell::new(None) });
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            // Thread-local values are destroyed in reverse order of their first use.
            LATE.set(Some(Late(sender)));
            current_slot()
        })
        .join()
        .unwrap();
        assert_eq!(receiver.recv().unwrap(), SHARED_SLOT);
    }
}
