//! Usage counters of the guests.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// The counters of one guest, over all its connections, in memory that other processes may read.
#[derive(Clone, Copy, Debug)]
pub struct Counters(&'static [AtomicU64; COUNT]);

const COUNT: usize = 7;

/// The index of each counter.
#[derive(Clone, Copy)]
enum Place {
    Connections,
    Sessions,
    Requests,
    Bytes,
    Refused,
    BatchSum,
    Broken,
}

/// A snapshot of the counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
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
    /// Sum over all requests of the number of requests in their burst. Divided by [`requests`](Self::requests) it is the mean batch
    /// size.
    pub batch_sum: u64,
    /// Number of times that the device broke.
    pub broken: u64,
}

impl Counters {
    /// The names of the counters, in the order of the fields of [`Sums`].
    pub const NAMES: [&str; COUNT] = ["connections", "sessions", "requests", "bytes", "refused", "company", "broken"];

    /// Returns counters in this memory, which has a number for each of the [names](Self::NAMES).
    pub fn in_memory(numbers: &'static [AtomicU64; COUNT]) -> Self {
        Self(numbers)
    }

    /// Returns a snapshot. The counters are read one after another.
    pub fn sums(self) -> Sums {
        let [connections, sessions, requests, bytes, refused, batch_sum, broken] =
            self.0.each_ref().map(|number| number.load(Relaxed));
        Sums { connections, sessions, requests, bytes, refused, batch_sum, broken }
    }

    fn add(self, place: Place, number: usize) {
        self.0[place as usize].fetch_add(number as u64, Relaxed);
    }

    pub(crate) fn record_connection(self) {
        self.add(Place::Connections, 1);
    }

    pub(crate) fn set_sessions(self, sessions: usize) {
        self.0[Place::Sessions as usize].store(sessions as u64, Relaxed);
    }

    pub(crate) fn record_requests(self, requests: usize, bytes: usize) {
        self.add(Place::Requests, requests);
        self.add(Place::Bytes, bytes);
    }

    pub(crate) fn record_batch(self, requests: usize, batch: usize) {
        self.add(Place::BatchSum, requests * batch);
    }

    pub(crate) fn record_refused(self, requests: usize) {
        self.add(Place::Refused, requests);
    }

    pub(crate) fn record_failure(self) {
        self.add(Place::Broken, 1);
    }
}

impl Default for Counters {
    /// Returns counters in leaked memory: a server keeps its guests until it ends.
    fn default() -> Self {
        Self(Box::leak(Box::default()))
    }
}
