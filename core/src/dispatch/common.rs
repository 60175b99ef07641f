//! What the frameworks over the same devices have in common.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::coalescer::Coalescer;
use crate::algorithm::Algorithm;
use crate::clock::Clock;
use crate::stats::Stats;

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

    pub(super) fn set_ailing(&self, device: usize, ailing: bool) {
        if ailing {
            self.ailing.fetch_or(1 << device, Ordering::SeqCst);
        } else {
            self.ailing.fetch_and(!(1 << device), Ordering::SeqCst);
        }
    }
}
