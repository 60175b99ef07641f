//! Counters for code that serves requests without a framework.

use std::sync::OnceLock;

use super::memory::{Counters, Labels, Meaning, Memory, add_saturating};
use super::slot::{Slots, Writers};

/// Counts requests and their bytes by algorithm and operation, as cheaply as a framework counts its own.
pub struct Tally {
    /// The device that serves the requests.
    device: &'static str,
    /// Algorithm and operation of each row.
    rows: Box<[(&'static str, &'static str)]>,
    memory: Option<&'static dyn Memory>,
    shards: Slots<Shard>,
}

/// The rows of one slot. A row has counters from its first request on.
struct Shard {
    shared: bool,
    rows: Box<[OnceLock<Counters<2>>]>,
}

impl Tally {
    /// Makes a tally whose counts are zero.
    pub fn new(
        device: &'static str,
        rows: impl IntoIterator<Item = (&'static str, &'static str)>,
        memory: Option<&'static dyn Memory>,
    ) -> Self {
        Self { device, rows: rows.into_iter().collect(), memory, shards: Slots::new(true) }
    }

    /// Adds `requests` requests, which have `bytes` bytes in total, to the row at this index. Does nothing if there is no such row.
    #[inline]
    pub fn count(&self, row: usize, requests: u64, bytes: u64) {
        let shard = self.shards.of_this_thread(|writers| self.shard(writers));
        if let Some(Shard { shared, rows }) = shard
            && let Some(counters) = rows.get(row)
        {
            let counters = counters.get_or_init(|| self.new_counters(row));
            add_saturating(&counters[0], requests, *shared);
            add_saturating(&counters[1], bytes, *shared);
        }
    }

    #[cold]
    fn shard(&self, writers: Writers) -> Shard {
        // Requests that are not counted have no rows.
        let rows = if writers == Writers::Uncounted { &[] } else { &*self.rows };
        Shard { shared: writers != Writers::One, rows: rows.iter().map(|_| OnceLock::new()).collect() }
    }

    #[cold]
    fn new_counters(&self, row: usize) -> Counters<2> {
        let (algorithm, operation) = self.rows[row];
        let labels = Labels { meaning: Meaning::Tally, device: self.device, class: "", algorithm, operation };
        Counters::new(self.memory, labels)
    }
}
