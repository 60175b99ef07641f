//! Usage counters of the guests.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// The counters of one guest, over all its connections, in memory that other processes may read.
#[derive(Clone, Copy, Debug)]
pub struct Counters(&'static [AtomicU64; COUNTERS]);

const COUNTERS: usize = 7;

/// The index of each counter.
#[derive(Clone, Copy)]
enum CounterIndex {
    Connections,
    Sessions,
    Requests,
    Bytes,
    Refused,
    BurstSum,
    Broken,
}

/// A snapshot of the counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterSnapshot {
    /// The number of connections that the front end has made.
    pub connections: u64,
    /// The number of open sessions.
    pub sessions: u64,
    /// The number of requests taken.
    pub requests: u64,
    /// Bytes of the requests, read and written.
    pub bytes: u64,
    /// The number of requests that were not answered with OK.
    pub refused: u64,
    /// Sum over all requests of the number of requests in their burst. Divided by [`requests`](Self::requests) it is the mean burst
    /// size.
    pub burst_sum: u64,
    /// Number of times that the device broke.
    pub broken: u64,
}

impl Counters {
    /// The names of the counters, in the order of the fields of [`CounterSnapshot`].
    pub const NAMES: [&str; COUNTERS] =
        ["connections", "sessions", "requests", "bytes", "refused", "burst_sum", "broken"];

    /// Returns counters in this memory, which has a number for each of the [names](Self::NAMES).
    pub fn in_memory(numbers: &'static [AtomicU64; COUNTERS]) -> Self {
        Self(numbers)
    }

    /// Returns a snapshot. The counters are read one after another.
    pub fn snapshot(self) -> CounterSnapshot {
        let [connections, sessions, requests, bytes, refused, burst_sum, broken] =
            self.0.each_ref().map(|number| number.load(Relaxed));
        CounterSnapshot { connections, sessions, requests, bytes, refused, burst_sum, broken }
    }

    fn add(self, index: CounterIndex, amount: usize) {
        self.0[index as usize].fetch_add(amount as u64, Relaxed);
    }

    pub(crate) fn record_connection(self) {
        self.add(CounterIndex::Connections, 1);
    }

    pub(crate) fn set_sessions(self, sessions: usize) {
        self.0[CounterIndex::Sessions as usize].store(sessions as u64, Relaxed);
    }

    pub(crate) fn record_requests(self, requests: usize, bytes: usize) {
        self.add(CounterIndex::Requests, requests);
        self.add(CounterIndex::Bytes, bytes);
    }

    pub(crate) fn record_burst(self, requests: usize, burst_size: usize) {
        self.add(CounterIndex::BurstSum, requests * burst_size);
    }

    pub(crate) fn record_refused(self, requests: usize) {
        self.add(CounterIndex::Refused, requests);
    }

    pub(crate) fn record_failure(self) {
        self.add(CounterIndex::Broken, 1);
    }
}

impl Default for Counters {
    /// Returns counters in leaked memory: a server keeps its guests until it ends.
    fn default() -> Self {
        Self(Box::leak(Box::default()))
    }
}
