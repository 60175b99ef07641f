//! Contexts without a message, kept for the next one. OpenSSL 3.0 frees the context of a digest at every initialisation and asks for another
//! one; to make, clear and free two each time, the host's and ours, would take longer than a short message does.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

const SLOTS: usize = 16;

/// As large as what CPUs take from each other, so that threads do not wait for their neighbours.
#[repr(align(64))]
#[derive(Default)]
struct Slot {
    /// The first thread that came here, or 0. Only it puts contexts into `own`, so that it needs no locked instruction for it.
    owner: AtomicU64,
    own: AtomicPtr<c_void>,
    /// For all other threads that come to this slot.
    common: AtomicPtr<c_void>,
}

/// For each thread a slot, which some have to themselves: nobody waits for one.
#[derive(Default)]
pub(super) struct Idle(Box<[Slot; SLOTS]>);

impl Idle {
    /// One that nobody else has from here on. (Its own, too, may be [`drain`](Self::drain)ed by another thread at the end of a program.)
    #[inline(always)]
    pub(super) fn take(&self) -> Option<NonNull<c_void>> {
        let (place, _) = self.place();
        if place.load(Relaxed).is_null() { None } else { NonNull::new(place.swap(ptr::null_mut(), Acquire)) }
    }

    /// Room for one of this thread.
    #[inline(always)]
    pub(super) fn room(&self) -> Option<Room<'_>> {
        let (place, own) = self.place();
        place.load(Relaxed).is_null().then_some(Room { place, own, thread: PhantomData })
    }

    /// All of them.
    pub(super) fn drain(&self) -> impl Iterator<Item = NonNull<c_void>> {
        let places = self.0.iter().flat_map(|slot| [&slot.own, &slot.common]);
        places.filter_map(|place| NonNull::new(place.swap(ptr::null_mut(), Acquire)))
    }

    /// Where this thread keeps one, and whether no other thread does so there.
    #[inline(always)]
    fn place(&self) -> (&AtomicPtr<c_void>, bool) {
        // SAFETY: without conditions.
        let thread = unsafe { libc::pthread_self() } as u64;
        // Threads are whole pages apart. (The golden ratio: Knuth, The Art of Computer Programming 3, 6.4.)
        let slot = (thread >> 12).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - SLOTS.ilog2());
        let slot = &self.0[slot as usize];
        let owner = slot.owner.load(Relaxed);
        let own = owner == thread || owner == 0 && slot.owner.compare_exchange(0, thread, Relaxed, Relaxed).is_ok();
        (if own { &slot.own } else { &slot.common }, own)
    }
}

/// Room for a context, which other threads may fill unless it is this thread's own.
pub(super) struct Room<'i> {
    place: &'i AtomicPtr<c_void>,
    own: bool,
    /// Of the thread that asked for it.
    thread: PhantomData<*const ()>,
}

impl Room<'_> {
    /// Whether it is kept; if not, another thread was faster.
    #[inline(always)]
    pub(super) fn keep(self, context: *mut c_void) -> bool {
        if self.own {
            self.place.store(context, Release);
            return true;
        }
        self.place.compare_exchange(ptr::null_mut(), context, Release, Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicBool, AtomicUsize};
    use std::thread;

    use super::*;

    #[test]
    fn what_is_kept_is_given_out_once() {
        let idle = Idle::default();
        let mut contexts = [0_u8; 2];
        let [one, other] = contexts.each_mut().map(|context| (&raw mut *context).cast::<c_void>());
        assert!(idle.take().is_none());
        assert!(idle.room().unwrap().keep(one) && idle.room().is_none());
        assert_eq!(idle.take(), NonNull::new(one));
        assert!(idle.take().is_none());
        assert!(idle.room().unwrap().keep(other));
        assert_eq!(idle.drain().collect::<Vec<_>>(), [NonNull::new(other).unwrap()]);
        assert!(idle.room().is_some());
    }

    /// More than there are slots: some have one to themselves, others share one, and each context is one thread's at a time.
    #[test]
    fn threads_never_have_the_same_context() {
        const THREADS: usize = 3 * SLOTS;
        let idle = Idle::default();
        let together = Barrier::new(THREADS);
        let made = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    together.wait();
                    for _ in 0..2000 {
                        let context = idle.take().unwrap_or_else(|| {
                            made.fetch_add(1, Relaxed);
                            NonNull::from(Box::leak(Box::new(AtomicBool::new(false)))).cast()
                        });
                        // SAFETY: made above, and freed below by whoever has it.
                        let in_use = unsafe { context.cast::<AtomicBool>().as_ref() };
                        assert!(!in_use.swap(true, Relaxed), "two threads have it");
                        thread::yield_now();
                        in_use.store(false, Relaxed);
                        if !idle.room().is_some_and(|room| room.keep(context.as_ptr())) {
                            made.fetch_sub(1, Relaxed);
                            // SAFETY: nobody else has it.
                            drop(unsafe { Box::from_raw(context.cast::<AtomicBool>().as_ptr()) });
                        }
                    }
                });
            }
        });
        let kept: Vec<_> = idle.drain().collect();
        assert_eq!(kept.len(), made.into_inner(), "none is lost");
        assert!(kept.len() > SLOTS, "threads that come to a slot of another one have a place there");
        for context in kept {
            // SAFETY: nobody else has it.
            drop(unsafe { Box::from_raw(context.cast::<AtomicBool>().as_ptr()) });
        }
    }
}
