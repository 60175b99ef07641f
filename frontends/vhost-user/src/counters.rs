//! What each guest has had so far.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Numbers of one guest, over all its connections, in memory that others may read.
#[derive(Clone, Copy, Debug)]
pub struct Counters(&'static [AtomicU64; COUNT]);

const COUNT: usize = 7;

/// The places of the numbers.
#[derive(Clone, Copy)]
enum Place {
    Connections,
    Sessions,
    Requests,
    Bytes,
    Refused,
    Company,
    Broken,
}

/// The numbers at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Connections of the front end.
    pub connections: u64,
    /// Sessions that are open.
    pub sessions: u64,
    /// Requests that were taken.
    pub requests: u64,
    /// Bytes of them, read and written.
    pub bytes: u64,
    /// Requests that were not answered with OK.
    pub refused: u64,
    /// For each request, the requests of the burst that it was in, itself included. By [`requests`](Self::requests) that is the mean.
    pub company: u64,
    /// How often the device broke.
    pub broken: u64,
}

impl Counters {
    /// What the numbers are called, in their order: as the fields of [`Sums`].
    pub const NAMES: [&str; COUNT] = ["connections", "sessions", "requests", "bytes", "refused", "company", "broken"];

    /// Counts in this memory, which has a number for each of the [names](Self::NAMES).
    pub fn in_memory(numbers: &'static [AtomicU64; COUNT]) -> Self {
        Self(numbers)
    }

    /// The numbers now. They are read one after another.
    pub fn sums(self) -> Sums {
        let [connections, sessions, requests, bytes, refused, company, broken] =
            self.0.each_ref().map(|number| number.load(Relaxed));
        Sums { connections, sessions, requests, bytes, refused, company, broken }
    }

    fn add(self, place: Place, number: usize) {
        self.0[place as usize].fetch_add(number as u64, Relaxed);
    }

    pub(crate) fn connected(self) {
        self.add(Place::Connections, 1);
    }

    pub(crate) fn set_sessions(self, sessions: usize) {
        self.0[Place::Sessions as usize].store(sessions as u64, Relaxed);
    }

    pub(crate) fn took(self, requests: usize, bytes: usize) {
        self.add(Place::Requests, requests);
        self.add(Place::Bytes, bytes);
    }

    pub(crate) fn met(self, requests: usize, of: usize) {
        self.add(Place::Company, requests * of);
    }

    pub(crate) fn refused(self, requests: usize) {
        self.add(Place::Refused, requests);
    }

    pub(crate) fn broke(self) {
        self.add(Place::Broken, 1);
    }
}

impl Default for Counters {
    /// In memory of their own, which is not given back: a server has its guests from its start to its end.
    fn default() -> Self {
        Self(Box::leak(Box::default()))
    }
}
