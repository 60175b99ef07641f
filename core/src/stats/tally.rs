//! Counters for code that serves requests without a framework.

use std::sync::OnceLock;

use super::memory::{Labels, Meaning, Memory, Words, add};
use super::slot::{Slots, Use};

/// Counts requests and their bytes by algorithm and operation, as cheaply as a framework counts its own.
pub struct Tally {
    /// The device that serves the requests.
    device: &'static str,
    /// Algorithm and operation of each row.
    rows: Box<[(&'static str, &'static str)]>,
    memory: Option<&'static dyn Memory>,
    shards: Slots<Shard>,
}

/// The rows of one slot that have numbers.
struct Shard {
    shared: bool,
    rows: Box<[OnceLock<Words<2>>]>,
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

    /// Adds `requests` requests, which have `bytes` bytes in total, to the row at this index.
    #[inline]
    pub fn count(&self, row: usize, requests: u64, bytes: u64) {
        let shard = self.shards.here(|writers| self.shard(writers));
        if let Some(Shard { shared, rows }) = shard
            && let Some(words) = rows.get(row)
        {
            let words = words.get_or_init(|| self.words(row));
            add(&words[0], requests, *shared);
            add(&words[1], bytes, *shared);
        }
    }

    #[cold]
    fn shard(&self, writers: Use) -> Shard {
        // Requests that are not counted have no rows.
        let rows = if writers == Use::Quiet { &[] } else { &*self.rows };
        Shard { shared: writers != Use::Own, rows: rows.iter().map(|_| OnceLock::new()).collect() }
    }

    #[cold]
    fn words(&self, row: usize) -> Words<2> {
        let (algorithm, operation) = self.rows[row];
        let about = Labels { numbers: Meaning::Tally, device: self.device, class: "", algorithm, operation };
        Words::new(self.memory, about)
    }
}
