use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use gantry_core::Fault;

use crate::sys::{self, Cryptodev, Pair, Recipe, RsaKey, Session, Slot};

/// Requests of a queue that the device can have at a time.
pub(crate) const SLOTS: u32 = 128;
/// Entries of a device's ring. Twice as many as slots: a ring of DPDK holds one entry less than its size.
pub(crate) const DESCRIPTORS: u32 = 2 * SLOTS;

/// A cryptodev that runs, with what its queues and sessions share. It stays for as long as the process.
pub(crate) struct Engine {
    pub(crate) cryptodev: Cryptodev,
    /// Queue pairs that it has.
    pub(crate) queues: u32,
    /// Bytes from which data in regions are used where they lie.
    pub(crate) lend_from: usize,
    state: Mutex<State>,
    copied: AtomicU64,
}

struct State {
    /// Queue pairs that no queue has, some perhaps with requests in the device. The one that has been idle for longest comes first:
    /// cards have engines behind their rings, and work is to reach all of them.
    idle: VecDeque<Ring>,
    /// Numbers of queue pairs that have no memory yet.
    unborn: std::ops::Range<u32>,
    /// Requests in the device whose job was given up.
    abandoned: usize,
    /// Sessions that wait for the last abandoned request.
    waiting: Vec<Session>,
}

/// A queue pair, and its slots that the device does not have.
pub(crate) struct Ring {
    pub(crate) pair: Pair,
    pub(crate) free: Vec<Slot>,
}

impl Ring {
    /// Takes what the device is done with, and says how many requests that were.
    fn drain(&mut self) -> usize {
        let before = self.free.len();
        let Self { pair, free } = self;
        while let Ok(1..) = pair.dequeue(|pair, slot, _, _| {
            // Nobody knows any more which part of it is secret.
            pair.room(&slot).buffer.fill(0);
            free.push(slot);
        }) {}
        self.free.len() - before
    }

    fn is_empty(&self) -> bool {
        self.free.len() == SLOTS as usize
    }
}

impl Engine {
    /// Of a device with so many queue pairs.
    pub(crate) fn new(cryptodev: Cryptodev, queues: u32, lend_from: usize) -> Self {
        let state = State { idle: VecDeque::new(), unborn: 0..queues, abandoned: 0, waiting: Vec::new() };
        Self { cryptodev, queues, lend_from, state: Mutex::new(state), copied: AtomicU64::new(0) }
    }

    /// A queue pair that nobody has, and that has nothing in the device; `None` while all are in use.
    pub(crate) fn take(&self) -> Result<Option<Ring>, Fault> {
        let mut state = self.lock();
        state.drain(&self.cryptodev);
        if let Some(empty) = state.idle.iter().position(Ring::is_empty) {
            return Ok(state.idle.remove(empty));
        }
        let Some(number) = state.unborn.next() else {
            return if state.idle.is_empty() { Ok(None) } else { Err(stuck()) };
        };
        if let Some((pair, free)) = self.cryptodev.pair(number, SLOTS) {
            return Ok(Some(Ring { pair, free }));
        }
        // What has no memory now has none later: DPDK's memory is set aside when it starts.
        state.unborn = 0..0;
        if state.idle.is_empty() { Ok(None) } else { Err(stuck()) }
    }

    /// Takes a queue pair back, with requests in it or not; those have been [abandoned](Self::abandon).
    pub(crate) fn put(&self, ring: Ring) {
        let mut state = self.lock();
        state.idle.push_back(ring);
        state.drain(&self.cryptodev);
    }

    /// So many requests stay in the device although their jobs are about to be given up. To be called first: until they are
    /// [back](Self::recovered), no session is freed.
    pub(crate) fn abandon(&self, requests: usize) {
        if requests > 0 {
            self.lock().abandoned += requests;
        }
    }

    /// So many abandoned requests have come back.
    pub(crate) fn recovered(&self, requests: usize) {
        if requests > 0 {
            self.lock().recovered(requests, &self.cryptodev);
        }
    }

    pub(crate) fn open(&self, recipe: &Recipe<'_>) -> Option<Session> {
        let mut state = self.lock();
        state.drain(&self.cryptodev);
        self.cryptodev.session(recipe)
    }

    pub(crate) fn open_rsa(&self, key: &RsaKey<'_>) -> Option<Session> {
        let mut state = self.lock();
        state.drain(&self.cryptodev);
        self.cryptodev.rsa_session(key)
    }

    /// Frees a session of which no job is in the device any more.
    pub(crate) fn close(&self, session: Session) {
        if sys::forked() {
            return;
        }
        let mut state = self.lock();
        if state.abandoned == 0 { self.cryptodev.free(session) } else { state.waiting.push(session) }
    }

    pub(crate) fn count_copied(&self, bytes: usize) {
        self.copied.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn copied(&self) -> u64 {
        self.copied.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(crate) fn abandoned(&self) -> usize {
        self.lock().abandoned
    }

    /// Queue pairs that queues have.
    #[cfg(test)]
    pub(crate) fn in_use(&self) -> usize {
        let state = self.lock();
        state.unborn.start as usize - state.idle.len()
    }

    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Looks after abandoned requests.
    fn drain(&mut self, cryptodev: &Cryptodev) {
        if self.abandoned > 0 {
            let back = self.idle.iter_mut().map(Ring::drain).sum();
            self.recovered(back, cryptodev);
        }
    }

    fn recovered(&mut self, requests: usize, cryptodev: &Cryptodev) {
        self.abandoned -= requests;
        if self.abandoned == 0 {
            self.waiting.drain(..).for_each(|session| cryptodev.free(session));
        }
    }
}

/// The device keeps requests that were taken back from it long ago.
fn stuck() -> Fault {
    Fault::failed("the device does not give back the requests of an earlier queue")
}
