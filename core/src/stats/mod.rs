//! Counts of requests and events, and times of requests, by device, algorithm and operation.
//!
//! [`Gantry::stats`](crate::Gantry::stats) returns a [`Snapshot`]: plain numbers by device, algorithm and operation.
//!
//! # Costs
//!
//! Counting a request writes nothing that is shared. Each thread has a slot (`slot.rs`), and each slot a shard of counters (`shard.rs`) in
//! its own cache lines, allocated when the thread first uses a device for an operation. A reader adds the shards. So counting is a load and
//! a store without a lock prefix. A thread that finds all 64 slots taken adds atomically in a shared one.
//!
//! Reading a clock costs more than all counters together. Therefore each thread times few requests: one in 8 at first, one in 512 later. A
//! batch is timed as a whole. Timed requests also stand for the requests before them, so the counts in a [`Histogram`] cover all requests.
//! The distances between timed requests vary, so that requests at regular intervals are timed as often as others.
//!
//! # Accuracy
//!
//! Counters are exact: after threads have been joined, a snapshot has all their requests. A snapshot taken while threads run may have a
//! request's count without its bytes. A number that would overflow stays at `u64::MAX`. A child of `fork` begins with zeros;
//! [`Snapshot::process`] has its PID.
//!
//! With a [`Memory`], other processes can read the numbers while the numbers grow.

mod event;
mod histogram;
mod memory;
mod reason;
mod shard;
mod site;
mod slot;
mod snapshot;
mod tally;

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

pub use event::{Event, Stage};
pub use histogram::Histogram;
pub use memory::{COLUMNS, Column, Labels, Meaning, Memory};
pub use reason::Reason;
use shard::{RowSource, Shard};
use site::SITES_PER_DEVICE;
pub(crate) use site::{MAX_DEVICES, Site};
pub use slot::uncounted;
use slot::{Slots, Writers};
pub use snapshot::{Snapshot, SnapshotRow};
pub use tally::Tally;

use crate::algorithm::{Fault, Outcome};
use crate::clock::Clock;
use crate::driver::Class;

/// The numbers of a framework.
pub(crate) struct Stats {
    shards: Slots<Shard>,
    source: Arc<RowSource>,
    clock: Arc<dyn Clock>,
    publisher: Option<Publisher>,
    /// The time of the next publication, by `clock`.
    next_publication: AtomicU64,
}

/// The receiver of snapshots, and their interval.
pub(crate) struct Publisher {
    pub(crate) interval: Duration,
    pub(crate) publish: Box<dyn Fn(&Snapshot) + Send + Sync>,
}

impl Stats {
    pub(crate) fn new(
        enabled: bool,
        devices: Vec<(String, Class)>,
        clock: Arc<dyn Clock>,
        publisher: Option<Publisher>,
        memory: Option<&'static dyn Memory>,
    ) -> Self {
        Self {
            shards: Slots::new(enabled),
            source: Arc::new(RowSource { devices: RwLock::new(devices), memory }),
            next_publication: AtomicU64::new(if publisher.is_some() { 0 } else { u64::MAX }),
            clock,
            publisher,
        }
    }

    /// Adds the name of one more device, so that it has numbers.
    pub(crate) fn add_device(&self, name: String, class: Class) {
        self.source.devices.write().unwrap_or_else(PoisonError::into_inner).push((name, class));
    }

    fn devices(&self) -> RwLockReadGuard<'_, Vec<(String, Class)>> {
        self.source.devices.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the counters of the calling thread.
    #[inline]
    pub(crate) fn this_thread(&self) -> ThreadCounters<'_> {
        ThreadCounters { shard: self.shards.of_this_thread(|writers| self.shard(writers)), thread: PhantomData }
    }

    /// Begins to follow requests that the framework has just been given.
    #[inline]
    pub(crate) fn timer(&self, requests: usize) -> StageTimer<'_> {
        let counters = self.this_thread();
        let mut timer = StageTimer { stats: self, counters, requests, weight: 0, since: 0 };
        if let Some(shard) = counters.shard
            && shard.count_down(requests)
        {
            timer.begin(shard);
        }
        timer
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.shards.all(), &self.devices(), std::process::id(), self.clock.now())
    }

    #[cold]
    fn shard(&self, writers: Writers) -> Shard {
        Shard::new(self.source.clone(), (1 + self.devices().len()) * SITES_PER_DEVICE, writers)
    }

    /// Publishes a snapshot now.
    pub(crate) fn publish(&self) {
        if let Some(publisher) = &self.publisher {
            (publisher.publish)(&self.snapshot());
        }
    }

    /// Publishes a snapshot if one is due. One thread publishes it; other threads continue.
    #[inline]
    fn publish_if_due(&self, now: u64) {
        if now >= self.next_publication.load(Ordering::Relaxed) {
            self.publish_at(now);
        }
    }

    #[cold]
    fn publish_at(&self, now: u64) {
        let interval = self.publisher.as_ref().map_or(u128::MAX, |publisher| publisher.interval.as_nanos());
        let (due, next) = (
            self.next_publication.load(Ordering::Relaxed),
            now.saturating_add(u64::try_from(interval).unwrap_or(u64::MAX)),
        );
        if now >= due && self.next_publication.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            self.publish();
        }
    }
}

impl Drop for Stats {
    fn drop(&mut self) {
        self.publish();
    }
}

/// The counters of one thread, while it is in a call of the framework.
#[derive(Clone, Copy)]
pub(crate) struct ThreadCounters<'a> {
    shard: Option<&'a Shard>,
    /// Keeps the value in its thread, because another thread has another shard.
    thread: PhantomData<*const ()>,
}

impl ThreadCounters<'_> {
    /// Counts requests, of `bytes` bytes together, that go to a device.
    #[inline]
    pub(crate) fn count_sent(self, site: Site, reason: Reason, requests: usize, bytes: usize) {
        if let Some(shard) = self.shard {
            shard.count_sent(site, reason, requests, bytes);
        }
    }

    /// Counts a rare event that happened `times` times.
    #[cold]
    pub(crate) fn count_event(self, site: Site, event: Event, times: usize) {
        if let Some(shard) = self.shard {
            shard.count_event(site, event, times as u64);
        }
    }

    /// Counts the outcome of a request.
    #[inline]
    pub(crate) fn count_result(self, site: Site, result: &Result<Outcome, Fault>) {
        match result {
            Ok(outcome) => self.count_outcome(site, *outcome),
            Err(fault) => self.count_fault(site, fault),
        }
    }

    /// Counts a fault of a device.
    pub(crate) fn count_fault(self, site: Site, fault: &Fault) {
        let event = if matches!(fault, Fault::Declined(_)) { Event::Declined } else { Event::Fault };
        self.count_event(site, event, 1);
    }

    /// Counts an outcome.
    #[inline]
    pub(crate) fn count_outcome(self, site: Site, outcome: Outcome) {
        match outcome {
            Outcome::Done => {}
            Outcome::BadTag => self.count_event(site, Event::BadTag, 1),
            Outcome::BadLength => self.count_event(site, Event::BadLength, 1),
            Outcome::BadKey => self.count_event(site, Event::BadKey, 1),
            Outcome::Malformed => self.count_event(site, Event::Malformed, 1),
            Outcome::NoRoom => self.count_event(site, Event::NoRoom, 1),
        }
    }

    /// Counts the time that a stage took for `requests` requests.
    pub(crate) fn record_time(self, site: Site, stage: Stage, ns: u64, requests: u64) {
        if let Some(shard) = self.shard {
            shard.record_time(site, stage, ns, requests);
        }
    }
}

/// Follows requests through the calling thread, and reads the clock if they are timed.
pub(crate) struct StageTimer<'a> {
    stats: &'a Stats,
    counters: ThreadCounters<'a>,
    /// Number of requests that the framework was given.
    requests: usize,
    /// Number of requests that the timed ones represent; 0 if these requests are not timed.
    weight: u64,
    /// The time at which the present stage of the requests began.
    since: u64,
}

impl<'a> StageTimer<'a> {
    /// Returns the counters of the calling thread.
    #[inline]
    pub(crate) fn counters(&self) -> ThreadCounters<'a> {
        self.counters
    }

    /// Notes that requests with `bytes` bytes in total go to a device now.
    #[inline]
    pub(crate) fn count_sent(&mut self, site: Site, reason: Reason, requests: usize, bytes: usize) {
        self.counters.count_sent(site, reason, requests, bytes);
        if self.weight != 0 {
            self.record_stage(site, Stage::Dispatch, requests);
        }
    }

    /// Notes that some of these requests have returned.
    #[inline]
    pub(crate) fn count_returned(&mut self, site: Site, requests: usize) {
        if self.weight != 0 {
            // If none has returned, a device has only begun to work on them.
            if requests > 0 {
                self.record_stage(site, Stage::Invoke, requests);
            }
            self.stats.publish_if_due(self.since);
        }
    }

    #[cold]
    fn begin(&mut self, shard: &Shard) {
        self.weight = shard.begin_gap(self.requests);
        self.since = self.stats.clock.now();
    }

    #[cold]
    fn record_stage(&mut self, site: Site, stage: Stage, requests: usize) {
        let now = self.stats.clock.now();
        let weight = self.weight.saturating_mul(requests as u64) / self.requests.max(1) as u64;
        self.counters.record_time(site, stage, now.saturating_sub(self.since), weight.max(1));
        self.since = now;
    }
}
