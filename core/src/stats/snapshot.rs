//! The counts of all threads, added up as plain data.

use std::sync::atomic::Ordering;

use super::event::{Event, Stage};
use super::histogram::Histogram;
use super::reason::Reason;
use super::shard::Shard;
use super::site::Site;
use crate::algorithm::{Algorithm, Operation};
use crate::driver::Class;

/// The counts of a framework up to one moment, as plain data.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The PID of the counted process. A child of `fork` has its own numbers, which begin with zeros.
    pub process: u32,
    /// The time of the snapshot, in nanoseconds of the framework's clock.
    pub at: u64,
    /// A row for each device, algorithm and operation that has any numbers: rows without a device first, then in the order of
    /// [`Gantry::devices`](crate::Gantry::devices).
    pub rows: Vec<SnapshotRow>,
}

/// The counts of one device, one algorithm and one operation.
#[derive(Clone, Debug)]
pub struct SnapshotRow {
    /// Name and class of the device; `None` for requests that reached none.
    pub device: Option<(String, Class)>,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// An operation of the algorithm.
    pub operation: Operation,
    /// Bytes of data in the requests that were handed to the device.
    pub bytes: u64,
    /// Number of batches of two or more requests.
    pub batches: u64,
    /// Number of requests in such batches.
    pub batched: u64,
    reasons: [u64; Reason::ALL.len()],
    events: [u64; Event::ALL.len()],
    stages: [Histogram; Stage::ALL.len()],
}

impl Snapshot {
    /// Adds up the shards.
    pub(super) fn new<'s>(
        shards: impl Iterator<Item = &'s Shard>,
        devices: &[(String, Class)],
        process: u32,
        at: u64,
    ) -> Self {
        let mut rows = std::collections::BTreeMap::new();
        for (site, row) in shards.flat_map(Shard::rows) {
            let (device, algorithm, operation) = site.parts();
            // A device that replaced another of the same name continues the numbers of the replaced device.
            let device = device.and_then(|device| devices.iter().position(|other| other.0 == devices[device].0));
            let site = device.map_or(site, |device| Site::new(device, algorithm, operation));
            let numbers = rows.entry(site.0).or_insert_with(|| SnapshotRow {
                device: device.map(|device| devices[device].clone()),
                algorithm,
                operation,
                bytes: 0,
                batches: 0,
                batched: 0,
                reasons: [0; Reason::ALL.len()],
                events: [0; Event::ALL.len()],
                stages: Default::default(),
            });
            for (sum, count) in numbers.numbers_mut().zip(row.counts.iter()) {
                *sum = sum.saturating_add(count.load(Ordering::Relaxed));
            }
            for stage in Stage::ALL {
                if let Some(recorder) = row.stage(*stage) {
                    recorder.add_to(&mut numbers.stages[*stage as usize]);
                }
            }
        }
        Self { process, at, rows: rows.into_values().collect() }
    }

    /// Returns the counts since `earlier`, a snapshot of the same framework. Leaves out rows without a changed count, even if they have new
    /// times.
    #[must_use]
    pub fn since(&self, earlier: &Snapshot) -> Snapshot {
        let rows = self.rows.iter().filter_map(|row| {
            let earlier_row = earlier.rows.iter().find(|other| other.site() == row.site());
            let difference = earlier_row.map_or_else(|| row.clone(), |earlier_row| row.since(earlier_row));
            (!difference.is_empty()).then_some(difference)
        });
        Snapshot { process: self.process, at: self.at, rows: rows.collect() }
    }

    /// Returns the number of requests that were handed to devices. A request that ran again counts again.
    pub fn requests(&self) -> u64 {
        self.rows.iter().fold(0, |sum, row| sum.saturating_add(row.requests()))
    }

    /// Returns the number of events of this kind in all rows.
    pub fn events(&self, event: Event) -> u64 {
        self.rows.iter().fold(0, |sum, row| sum.saturating_add(row.events(event)))
    }

    /// Returns the times of a stage on the device of this name.
    pub fn stage(&self, device: &str, stage: Stage) -> Histogram {
        let mut sum = Histogram::default();
        for row in self.rows.iter().filter(|row| row.device.as_ref().is_some_and(|(name, _)| name == device)) {
            sum.merge(row.stage(stage));
        }
        sum
    }
}

impl SnapshotRow {
    /// Returns the number of requests that were handed to the device.
    pub fn requests(&self) -> u64 {
        self.reasons.iter().fold(0, |sum, requests| sum.saturating_add(*requests))
    }

    /// Returns the number of requests that a route with this reason sent to the device.
    pub fn requests_with_reason(&self, reason: Reason) -> u64 {
        self.reasons[reason as usize]
    }

    /// Returns the number of events of this kind.
    pub fn events(&self, event: Event) -> u64 {
        self.events[event as usize]
    }

    /// Returns the times of a stage.
    pub fn stage(&self, stage: Stage) -> &Histogram {
        &self.stages[stage as usize]
    }

    fn site(&self) -> (Option<&str>, Algorithm, Operation) {
        (self.device.as_ref().map(|(name, _)| &**name), self.algorithm, self.operation)
    }

    fn since(&self, earlier: &SnapshotRow) -> SnapshotRow {
        let (mut difference, mut subtrahend) = (self.clone(), earlier.clone());
        for (number, earlier) in difference.numbers_mut().zip(subtrahend.numbers_mut()) {
            *number = number.saturating_sub(*earlier);
        }
        for (stage, earlier) in difference.stages.iter_mut().zip(&earlier.stages) {
            *stage = stage.since(earlier);
        }
        difference
    }

    fn is_empty(&self) -> bool {
        self.clone().numbers_mut().all(|number| *number == 0)
    }

    /// Returns every number that is not in a histogram, in the order of [`COLUMNS`](super::COLUMNS).
    fn numbers_mut(&mut self) -> impl Iterator<Item = &mut u64> {
        let Self { device: _, algorithm: _, operation: _, bytes, batches, batched, reasons, events, stages: _ } = self;
        reasons.iter_mut().chain([bytes, batches, batched]).chain(events)
    }
}
