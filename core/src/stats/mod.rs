//! Counts of requests and events, and times of requests, by device, algorithm and operation.
//!
//! [`Gantry::stats`](crate::Gantry::stats) returns a [`Snapshot`]: plain numbers by device, algorithm and operation.
//!
//! # Costs
//!
//! Counting a request writes nothing that is shared. Each thread has a slot (`slot.rs`), and each slot a shard of counters (`shard.rs`) in
//! its own cache lines, allocated when the thread first uses a device for an algorithm. A reader adds the shards. So counting is a load and
//! a store without a lock prefix. Reading a clock costs more than all counters together. Therefore few requests are timed, alone or with
//! their batch: of each thread one in 8 at first, one in 512 later. They represent the others: the counts in a [`Histogram`] cover all
//! requests. The distances between timed requests vary, so that requests at regular intervals are timed as often as others.
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
use site::WORKS;
pub(crate) use site::{MOST_DEVICES, Site};
pub use slot::uncounted;
use slot::{Slots, Use};
pub use snapshot::{Numbers, Snapshot};
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
    due: AtomicU64,
}

/// The receiver of snapshots, and their interval.
pub(crate) struct Publisher {
    pub(crate) every: Duration,
    pub(crate) publish: Box<dyn Fn(&Snapshot) + Send + Sync>,
}

impl Stats {
    pub(crate) fn new(
        on: bool,
        devices: Vec<(String, Class)>,
        clock: Arc<dyn Clock>,
        publisher: Option<Publisher>,
        memory: Option<&'static dyn Memory>,
    ) -> Self {
        Self {
            shards: Slots::new(on),
            source: Arc::new(RowSource { devices: RwLock::new(devices), memory }),
            due: AtomicU64::new(if publisher.is_some() { 0 } else { u64::MAX }),
            clock,
            publisher,
        }
    }

    /// Adds a place for the numbers of one more device.
    pub(crate) fn add_device(&self, name: String, class: Class) {
        self.source.devices.write().unwrap_or_else(PoisonError::into_inner).push((name, class));
    }

    fn devices(&self) -> RwLockReadGuard<'_, Vec<(String, Class)>> {
        self.source.devices.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the counters of the calling thread.
    #[inline]
    pub(crate) fn here(&self) -> Here<'_> {
        Here { shard: self.shards.here(|writers| self.shard(writers)), thread: PhantomData }
    }

    /// Begins to follow requests that the framework has just been given.
    #[inline]
    pub(crate) fn timer(&self, requests: usize) -> StageTimer<'_> {
        let here = self.here();
        let mut timer = StageTimer { stats: self, here, requests, weight: 0, since: 0 };
        if let Some(shard) = here.shard
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
    fn shard(&self, writers: Use) -> Shard {
        Shard::new(self.source.clone(), (1 + self.devices().len()) * WORKS, writers)
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
        if now >= self.due.load(Ordering::Relaxed) {
            self.publish_at(now);
        }
    }

    #[cold]
    fn publish_at(&self, now: u64) {
        let every = self.publisher.as_ref().map_or(u128::MAX, |publisher| publisher.every.as_nanos());
        let (due, next) =
            (self.due.load(Ordering::Relaxed), now.saturating_add(u64::try_from(every).unwrap_or(u64::MAX)));
        if now >= due && self.due.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
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
pub(crate) struct Here<'a> {
    shard: Option<&'a Shard>,
    /// Keeps the value in its thread, because another thread has another shard.
    thread: PhantomData<*const ()>,
}

impl Here<'_> {
    /// Counts requests, of `bytes` bytes together, that go to a device.
    #[inline]
    pub(crate) fn sent(self, site: Site, reason: Reason, requests: usize, bytes: usize) {
        if let Some(shard) = self.shard {
            shard.sent(site, reason, requests, bytes);
        }
    }

    /// Counts a rare event that happened `times` times.
    #[cold]
    pub(crate) fn event(self, site: Site, event: Event, times: usize) {
        if let Some(shard) = self.shard {
            shard.event(site, event, times as u64);
        }
    }

    /// Counts the outcome of a request.
    #[inline]
    pub(crate) fn result(self, site: Site, result: &Result<Outcome, Fault>) {
        match result {
            Ok(outcome) => self.outcome(site, *outcome),
            Err(fault) => self.fault(site, fault),
        }
    }

    /// Counts a fault of a device.
    pub(crate) fn fault(self, site: Site, fault: &Fault) {
        let event = if matches!(fault, Fault::Declined(_)) { Event::Declined } else { Event::Fault };
        self.event(site, event, 1);
    }

    /// Counts an outcome.
    #[inline]
    pub(crate) fn outcome(self, site: Site, outcome: Outcome) {
        match outcome {
            Outcome::Done => {}
            Outcome::BadTag => self.event(site, Event::BadTag, 1),
            Outcome::BadLength => self.event(site, Event::BadLength, 1),
            Outcome::BadKey => self.event(site, Event::BadKey, 1),
            Outcome::Malformed => self.event(site, Event::Malformed, 1),
            Outcome::NoRoom => self.event(site, Event::NoRoom, 1),
        }
    }

    /// Counts the time that a stage took for `requests` requests.
    pub(crate) fn time(self, site: Site, stage: Stage, ns: u64, requests: u64) {
        if let Some(shard) = self.shard {
            shard.time(site, stage, ns, requests);
        }
    }
}

/// Follows requests through the calling thread, and reads the clock if they are timed.
pub(crate) struct StageTimer<'a> {
    stats: &'a Stats,
    here: Here<'a>,
    /// Number of requests that the framework was given.
    requests: usize,
    /// Number of requests that the timed ones represent; 0 if these requests are not timed.
    weight: u64,
    since: u64,
}

impl<'a> StageTimer<'a> {
    /// Returns the counters of the calling thread.
    #[inline]
    pub(crate) fn here(&self) -> Here<'a> {
        self.here
    }

    /// Notes that requests with `bytes` bytes in total go to a device now.
    #[inline]
    pub(crate) fn sent(&mut self, site: Site, reason: Reason, requests: usize, bytes: usize) {
        self.here.sent(site, reason, requests, bytes);
        if self.weight != 0 {
            self.stage(site, Stage::Dispatch, requests);
        }
    }

    /// Notes that some of these requests have returned.
    #[inline]
    pub(crate) fn back(&mut self, site: Site, requests: usize) {
        if self.weight != 0 {
            // If none has returned, a ring has only begun to work on them.
            if requests > 0 {
                self.stage(site, Stage::Invoke, requests);
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
    fn stage(&mut self, site: Site, stage: Stage, requests: usize) {
        let now = self.stats.clock.now();
        let weight = self.weight.saturating_mul(requests as u64) / self.requests.max(1) as u64;
        self.here.time(site, stage, now.saturating_sub(self.since), weight.max(1));
        self.since = now;
    }
}
