//! The memory of counters: private, or readable by other processes while the counters grow.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

use super::event::{Event, Stage};
use super::reason::Reason;

/// Memory that others can read, such as a file that is mapped: [`GantryBuilder::stats_memory`](crate::GantryBuilder::stats_memory).
pub trait Memory: Send + Sync {
    /// Returns `count` numbers with these labels, all 0. They begin on their own cache line, or on the pair of lines that some CPUs fetch
    /// together. Only threads of this process write them. Returns `None` if there is no room; core then keeps the numbers in private
    /// memory.
    fn take(&self, labels: Labels<'_>, count: usize) -> Option<&'static [AtomicU64]>;
}

/// The labels of a row of numbers: their meaning, and the requests that they count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Labels<'a> {
    /// The meaning of each number.
    pub meaning: Meaning,
    /// Name of the device. Empty for requests that reached no device.
    pub device: &'a str,
    /// Name of the device's class, or empty.
    pub class: &'a str,
    /// The algorithm.
    pub algorithm: &'a str,
    /// An operation of the algorithm.
    pub operation: &'a str,
}

/// The meaning of a row of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Meaning {
    /// The numbers of [`COLUMNS`].
    Counts,
    /// The buckets of a histogram of this stage, then the sum of all times, then the longest time, in nanoseconds.
    Times(Stage),
    /// The number of requests, and the number of bytes in them.
    Tally,
}

/// A column of [`Meaning::Counts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Column {
    /// Requests that the policy sent to the device for this reason.
    Requests(Reason),
    /// Bytes in all requests.
    Bytes,
    /// Batches of two or more.
    Batches,
    /// Requests in such batches.
    Batched,
    /// Number of events of this kind.
    Event(Event),
}

const REASON_COUNT: usize = Reason::ALL.len();
pub(super) const BYTES_INDEX: usize = REASON_COUNT;
pub(super) const BATCHES_INDEX: usize = REASON_COUNT + 1;
pub(super) const BATCHED_INDEX: usize = REASON_COUNT + 2;
pub(super) const FIRST_EVENT_INDEX: usize = REASON_COUNT + 3;
/// Number of counters in a row of [`Meaning::Counts`].
pub(super) const COLUMN_COUNT: usize = FIRST_EVENT_INDEX + Event::ALL.len();

/// The columns of [`Meaning::Counts`], in order.
pub const COLUMNS: [Column; COLUMN_COUNT] = {
    let mut columns = [Column::Bytes; COLUMN_COUNT];
    (columns[BATCHES_INDEX], columns[BATCHED_INDEX]) = (Column::Batches, Column::Batched);
    let mut at = 0;
    while at < REASON_COUNT {
        columns[at] = Column::Requests(Reason::ALL[at]);
        at += 1;
    }
    at = 0;
    while at < Event::ALL.len() {
        columns[FIRST_EVENT_INDEX + at] = Column::Event(Event::ALL[at]);
        at += 1;
    }
    columns
};

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Column::Requests(reason) => write!(f, "requests:{}", reason.code()),
            Column::Bytes => f.write_str("bytes"),
            Column::Batches => f.write_str("batches"),
            Column::Batched => f.write_str("batched"),
            Column::Event(event) => write!(f, "event:{}", event.code()),
        }
    }
}

/// Numbers that only grow, in cache lines of their own.
pub(super) enum Counters<const N: usize> {
    Private(Box<CacheAligned<N>>),
    External(&'static [AtomicU64; N]),
}

/// The alignment keeps the numbers from sharing a cache line with others, or the pair of lines that some CPUs fetch together.
#[repr(align(128))]
pub(super) struct CacheAligned<const N: usize>([AtomicU64; N]);

impl<const N: usize> Counters<N> {
    /// Takes zeros from `memory`, or makes private ones if `memory` is `None` or has no room.
    pub(super) fn new(memory: Option<&dyn Memory>, labels: Labels<'_>) -> Self {
        let external = memory.and_then(|memory| memory.take(labels, N)).and_then(|words| words.as_array());
        external.map_or_else(Self::private, Self::External)
    }

    pub(super) fn private() -> Self {
        Self::Private(Box::new(CacheAligned([const { AtomicU64::new(0) }; N])))
    }
}

impl<const N: usize> Deref for Counters<N> {
    type Target = [AtomicU64; N];

    #[inline]
    fn deref(&self) -> &[AtomicU64; N] {
        match self {
            Self::Private(aligned) => &aligned.0,
            Self::External(words) => words,
        }
    }
}

/// Adds to a number, which stays at `u64::MAX` rather than overflow. `shared` is true if several threads may add at once.
#[inline]
pub(super) fn add_saturating(to: &AtomicU64, number: u64, shared: bool) {
    if shared {
        let _ = to.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| Some(old.saturating_add(number)));
    } else {
        // No lock prefix: there is only one writer.
        to.store(to.load(Ordering::Relaxed).saturating_add(number), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_saturate() {
        for shared in [false, true] {
            let words = Counters::<1>::private();
            add_saturating(&words[0], u64::MAX - 1, shared);
            add_saturating(&words[0], 1, shared);
            add_saturating(&words[0], 7, shared);
            assert_eq!(words[0].load(Ordering::Relaxed), u64::MAX);
        }
    }

    #[test]
    fn names_of_columns_are_unique() {
        let names: std::collections::BTreeSet<String> = COLUMNS.iter().map(ToString::to_string).collect();
        assert_eq!(names.len(), COLUMN_COUNT);
    }
}
