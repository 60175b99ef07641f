//! A device as policies see it: its capability for one algorithm, its costs, and its load.

use std::sync::Arc;

use super::cost::Costs;
use crate::algorithm::Operation;
use crate::driver::{Capability, DeviceInfo};
use crate::sync::{AtomicU64, AtomicUsize, Ordering};

/// A device that offers an algorithm.
pub(crate) struct Candidate {
    /// The index of the device in [`Gantry::devices`](crate::Gantry::devices).
    pub(crate) device: usize,
    pub(crate) info: Arc<DeviceInfo>,
    pub(crate) capability: Capability,
    pub(crate) load: Arc<Load>,
    /// The costs of each operation of the algorithm.
    pub(crate) costs: Box<[Arc<Costs>]>,
    /// The entry index of the algorithm's first operation.
    pub(crate) first_entry: usize,
}

impl Candidate {
    /// Returns the costs of an operation, as far as they are known.
    #[inline]
    pub(crate) fn costs(&self, operation: Operation) -> &Arc<Costs> {
        &self.costs[self.capability.algorithm.entry_index(operation) - self.first_entry]
    }

    /// Returns a bit mask of this device alone.
    #[inline]
    pub(crate) fn bit(&self) -> u64 {
        1 << self.device
    }
}

/// Counts of the requests that a device gets and returns, if it works in parallel to the calling threads. For other devices they are 0.
#[derive(Default)]
pub(crate) struct Load {
    /// Number of requests that have entered a queue pair of the device.
    entered: AtomicU64,
    /// Number of requests that have left a queue pair.
    left: AtomicU64,
    /// Requests that wait for room.
    waiting: AtomicUsize,
}

impl Load {
    /// Notes that the number of requests on a queue pair changed from `before` to `now`.
    #[inline]
    pub(crate) fn record_change(&self, before: usize, now: usize) {
        if now > before {
            self.entered.fetch_add((now - before) as u64, Ordering::Relaxed);
        } else if before > now {
            self.left.fetch_add((before - now) as u64, Ordering::Relaxed);
        }
    }

    /// Returns the numbers of requests that have entered the queue pairs, and that have left them.
    pub(crate) fn moved_counts(&self) -> (u64, u64) {
        let left = self.left.load(Ordering::Relaxed);
        (self.entered.load(Ordering::Relaxed), left)
    }

    pub(crate) fn set_waiting(&self, waiting: usize) {
        self.waiting.store(waiting, Ordering::SeqCst);
    }

    #[inline]
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    /// Returns the number of requests that are on a queue pair or wait for room there.
    pub(crate) fn pending(&self) -> u64 {
        let (entered, left) = self.moved_counts();
        entered.saturating_sub(left) + self.waiting.load(Ordering::Relaxed) as u64
    }
}
