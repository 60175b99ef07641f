//! A running cryptodev: its queue pairs, its sessions, and requests of dropped queues.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use gantry_core::Fault;

use crate::sys::{self, Cryptodev, Pair, RsaKey, Session, SessionConfig, Slot};

/// Maximum number of requests that a queue may have in the device.
pub(crate) const SLOTS: u32 = 128;
/// Entries of a device's ring. The size of DPDK's rings is a power of two, and they hold one entry less, so this is twice the slots.
pub(crate) const DESCRIPTORS: u32 = 2 * SLOTS;

/// A running cryptodev, with the state that its queues and sessions share. It exists as long as the process.
pub(crate) struct Engine {
    pub(crate) cryptodev: Cryptodev,
    /// Number of queue pairs.
    pub(crate) queue_pairs: u32,
    /// Minimum length, in bytes, of data in regions that is used in place.
    pub(crate) lend_from: usize,
    state: Mutex<State>,
    copied_bytes: AtomicU64,
}

struct State {
    /// Queue pairs without an owner, some perhaps with requests in the device. The pair that has been idle for the longest time comes
    /// first, so that work reaches all engines behind a card's rings.
    idle: VecDeque<Ring>,
    /// The indices of the queue pairs that have no memory yet.
    unallocated: std::ops::Range<u32>,
    /// Number of requests in the device whose jobs were dropped.
    abandoned: usize,
    /// Sessions to free once the last abandoned request has completed.
    sessions_to_free: Vec<Session>,
}

/// A queue pair, and the slots that are not in the device.
pub(crate) struct Ring {
    pub(crate) pair: Pair,
    pub(crate) free_slots: Vec<Slot>,
}

impl Ring {
    /// Takes finished requests from the device, and returns their number.
    fn drain(&mut self) -> usize {
        let before = self.free_slots.len();
        let Self { pair, free_slots } = self;
        while let Ok(1..) = pair.dequeue(|pair, slot, _, _| {
            // Without the job of the request, it is unknown which bytes of the slot are secret, so all are cleared.
            pair.memory(&slot).buffer.fill(0);
            free_slots.push(slot);
        }) {}
        self.free_slots.len() - before
    }

    fn is_empty(&self) -> bool {
        self.free_slots.len() == SLOTS as usize
    }
}

impl Engine {
    /// Makes an engine with this number of queue pairs.
    pub(crate) fn new(cryptodev: Cryptodev, queue_pairs: u32, lend_from: usize) -> Self {
        let state =
            State { idle: VecDeque::new(), unallocated: 0..queue_pairs, abandoned: 0, sessions_to_free: Vec::new() };
        Self { cryptodev, queue_pairs, lend_from, state: Mutex::new(state), copied_bytes: AtomicU64::new(0) }
    }

    /// Takes a free queue pair without requests in the device; `None` while all are in use. Fails if pairs are free, but the device still
    /// has requests of each.
    pub(crate) fn take_ring(&self) -> Result<Option<Ring>, Fault> {
        let mut state = self.lock();
        state.drain(&self.cryptodev);
        if let Some(empty) = state.idle.iter().position(Ring::is_empty) {
            return Ok(state.idle.remove(empty));
        }
        let Some(index) = state.unallocated.next() else {
            return if state.idle.is_empty() { Ok(None) } else { Err(requests_not_returned()) };
        };
        if let Some((pair, free_slots)) = self.cryptodev.create_pair(index, SLOTS) {
            return Ok(Some(Ring { pair, free_slots }));
        }
        // A later attempt would fail too: DPDK reserves its memory when it starts.
        state.unallocated = 0..0;
        if state.idle.is_empty() { Ok(None) } else { Err(requests_not_returned()) }
    }

    /// Takes back a queue pair. Its requests in the device, if any, have been [abandoned](Self::abandon).
    pub(crate) fn return_ring(&self, ring: Ring) {
        let mut state = self.lock();
        state.idle.push_back(ring);
        state.drain(&self.cryptodev);
    }

    /// Notes that requests stay in the device although their jobs are about to be dropped. Call this before the jobs are dropped. No
    /// session is freed until the requests are [reclaimed](Self::reclaim).
    pub(crate) fn abandon(&self, requests: usize) {
        if requests > 0 {
            self.lock().abandoned += requests;
        }
    }

    /// Notes that abandoned requests have returned.
    pub(crate) fn reclaim(&self, requests: usize) {
        if requests > 0 {
            self.lock().reclaim(requests, &self.cryptodev);
        }
    }

    pub(crate) fn open_session(&self, config: &SessionConfig<'_>) -> Option<Session> {
        let mut state = self.lock();
        state.drain(&self.cryptodev);
        self.cryptodev.open_session(config)
    }

    pub(crate) fn open_rsa_session(&self, key: &RsaKey<'_>) -> Option<Session> {
        let mut state = self.lock();
        state.drain(&self.cryptodev);
        self.cryptodev.open_rsa_session(key)
    }

    /// Frees a session that no job in the device uses, or keeps it until all abandoned requests have completed.
    pub(crate) fn close_session(&self, session: Session) {
        if sys::is_forked_child() {
            return;
        }
        let mut state = self.lock();
        if state.abandoned == 0 { self.cryptodev.free_session(session) } else { state.sessions_to_free.push(session) }
    }

    pub(crate) fn count_copied(&self, bytes: usize) {
        self.copied_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn copied_bytes(&self) -> u64 {
        self.copied_bytes.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(crate) fn abandoned(&self) -> usize {
        self.lock().abandoned
    }

    /// Returns the number of queue pairs with an owner.
    #[cfg(test)]
    pub(crate) fn in_use(&self) -> usize {
        let state = self.lock();
        state.unallocated.start as usize - state.idle.len()
    }

    #[cfg(test)]
    pub(crate) fn sessions_to_free(&self) -> usize {
        self.lock().sessions_to_free.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Recovers abandoned requests that have completed.
    fn drain(&mut self, cryptodev: &Cryptodev) {
        if self.abandoned > 0 {
            let returned = self.idle.iter_mut().map(Ring::drain).sum();
            self.reclaim(returned, cryptodev);
        }
    }

    fn reclaim(&mut self, requests: usize, cryptodev: &Cryptodev) {
        self.abandoned -= requests;
        if self.abandoned == 0 {
            self.sessions_to_free.drain(..).for_each(|session| cryptodev.free_session(session));
        }
    }
}

/// Returns the fault of a device that keeps requests of a dropped queue.
fn requests_not_returned() -> Fault {
    Fault::failed("DPDK: the device has not returned the requests of a dropped queue")
}
