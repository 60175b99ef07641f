//! Contexts without a message, kept for the next one. OpenSSL 3.0 frees the context of a digest at every initialisation and asks for another
//! one; to make, clear and free two each time, the host's and ours, would take longer than a short message does.

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

const SLOTS: usize = 16;

/// As large as what CPUs take from each other, so that threads do not wait for their neighbours.
#[repr(align(64))]
#[derive(Default)]
struct Slot(AtomicPtr<c_void>);

/// One for each thread, as far as there are slots: nobody waits for one.
#[derive(Default)]
pub(super) struct Idle(Box<[Slot; SLOTS]>);

impl Idle {
    /// One that nobody else has from here on.
    #[inline(always)]
    pub(super) fn take(&self) -> Option<NonNull<c_void>> {
        let slot = self.slot();
        if slot.load(Relaxed).is_null() { None } else { NonNull::new(slot.swap(ptr::null_mut(), Acquire)) }
    }

    /// Whether there is room for one of this thread.
    #[inline(always)]
    pub(super) fn has_room(&self) -> bool {
        self.slot().load(Relaxed).is_null()
    }

    /// Whether it is kept; if not, another thread was faster.
    #[inline(always)]
    pub(super) fn keep(&self, context: *mut c_void) -> bool {
        self.slot().compare_exchange(ptr::null_mut(), context, Release, Relaxed).is_ok()
    }

    /// All of them.
    pub(super) fn drain(&self) -> impl Iterator<Item = NonNull<c_void>> {
        self.0.iter().filter_map(|slot| NonNull::new(slot.0.swap(ptr::null_mut(), Acquire)))
    }

    #[inline(always)]
    fn slot(&self) -> &AtomicPtr<c_void> {
        // SAFETY: without conditions.
        let thread = unsafe { libc::pthread_self() } as u64;
        // Threads are whole pages apart. (The golden ratio: Knuth, The Art of Computer Programming 3, 6.4.)
        let place = (thread >> 12).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - SLOTS.ilog2());
        &self.0[place as usize].0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_given_out_once() {
        let idle = Idle::default();
        let mut contexts = [0_u8; 2];
        let [one, other] = contexts.each_mut().map(|context| (&raw mut *context).cast::<c_void>());
        assert!(idle.take().is_none() && idle.has_room());
        assert!(idle.keep(one) && !idle.has_room() && !idle.keep(other));
        assert_eq!(idle.take(), NonNull::new(one));
        assert!(idle.take().is_none());
        assert!(idle.keep(other));
        assert_eq!(idle.drain().collect::<Vec<_>>(), [NonNull::new(other).unwrap()]);
        assert!(idle.has_room());
    }
}
