//! The counters of a slot. Only the thread with this slot writes them, except in slots that several threads share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use super::event::{Event, Stage};
use super::histogram::Recorder;
use super::memory::{
    BATCHED_INDEX, BATCHES_INDEX, BYTES_INDEX, COLUMN_COUNT, Counters, FIRST_EVENT_INDEX, Labels, Meaning, Memory,
    add_saturating,
};
use super::reason::Reason;
use super::site::{MAX_SITES, Site};
use super::slot::Writers;
use crate::driver::Class;

/// Average number of requests from one timed request to the next at first, so that short programs have times, too.
const FIRST_GAP: u64 = 8;
/// This average later, so that reading the clock costs long programs hardly anything.
const LAST_GAP: u64 = 512;

/// The labels for the numbers of all slots, and the memory of the numbers.
pub(super) struct RowSource {
    /// Names and classes, by the indexes of devices in the framework.
    pub(super) devices: RwLock<Vec<(String, Class)>>,
    pub(super) memory: Option<&'static dyn Memory>,
}

impl RowSource {
    /// Passes the memory, and the labels for the numbers of this site, to `make`.
    fn with_labels<T>(
        &self,
        site: Site,
        meaning: Meaning,
        make: impl FnOnce(Option<&dyn Memory>, Labels<'_>) -> T,
    ) -> T {
        let (device, algorithm, operation) = site.parts();
        let devices = self.devices.read().unwrap_or_else(PoisonError::into_inner);
        let device = device.and_then(|device| devices.get(device));
        let (device, class) = device.map_or(("", ""), |(name, class)| (name, class.name()));
        let labels = Labels { meaning, device, class, algorithm: algorithm.name(), operation: operation.name() };
        make(self.memory, labels)
    }
}

/// The numbers of one slot. The alignment keeps two slots from sharing a cache line, or the pair that some CPUs fetch together.
#[repr(align(128))]
pub(super) struct Shard {
    shared: bool,
    uncounted: bool,
    source: Arc<RowSource>,
    /// Requests until the next one that is timed; at least 1.
    countdown: AtomicU64,
    /// The value of `countdown` when the present gap began.
    gap: AtomicU64,
    /// Number of earlier gaps.
    gaps: AtomicU64,
    rows: Rows,
    /// Rows of devices that were added after this shard was made.
    added_rows: OnceLock<Rows>,
}

/// Rows by site. Only sites with numbers have a row.
type Rows = Box<[OnceLock<Box<Row>>]>;

/// The numbers of one site.
pub(super) struct Row {
    pub(super) counts: Counters<COLUMN_COUNT>,
    stages: [OnceLock<Recorder>; Stage::ALL.len()],
}

impl Shard {
    pub(super) fn new(source: Arc<RowSource>, sites: usize, writers: Writers) -> Self {
        let (shared, uncounted) = (writers != Writers::One, writers == Writers::Uncounted);
        // Requests that are not counted are not timed.
        let countdown = AtomicU64::new(if uncounted { u64::MAX } else { 1 });
        let (gap, gaps) = (AtomicU64::new(1), AtomicU64::new(0));
        Self { shared, uncounted, source, countdown, gap, gaps, rows: empty_rows(sites), added_rows: OnceLock::new() }
    }

    #[inline]
    pub(super) fn count_sent(&self, site: Site, reason: Reason, requests: usize, bytes: usize) {
        if self.shared {
            self.count_sent_shared(site, reason, requests as u64, bytes as u64);
        } else {
            self.row(site).count_sent(reason, requests as u64, bytes as u64, false);
        }
    }

    #[cold]
    fn count_sent_shared(&self, site: Site, reason: Reason, requests: u64, bytes: u64) {
        if !self.uncounted {
            self.row(site).count_sent(reason, requests, bytes, true);
        }
    }

    pub(super) fn count_event(&self, site: Site, event: Event, times: u64) {
        add_saturating(&self.row(site).counts[FIRST_EVENT_INDEX + event as usize], times, self.shared);
    }

    pub(super) fn record_time(&self, site: Site, stage: Stage, ns: u64, requests: u64) {
        if self.uncounted {
            return;
        }
        let recorder = self.row(site).stages[stage as usize].get_or_init(|| self.recorder(site, stage));
        recorder.add(ns, requests, self.shared);
    }

    /// Returns whether to time these requests; then call [`begin_gap`](Self::begin_gap). In the shared slot, threads sometimes overwrite
    /// each other's countdown, so one request more or one fewer is timed.
    #[inline]
    pub(super) fn count_down(&self, requests: usize) -> bool {
        let countdown = self.countdown.load(Ordering::Relaxed);
        if countdown > requests as u64 {
            self.countdown.store(countdown - requests as u64, Ordering::Relaxed);
        }
        countdown <= requests as u64
    }

    /// Returns the number of requests that the timed ones represent: themselves, and all since the last timed ones. The distance to the
    /// next ones varies, so that requests at regular intervals are timed neither always nor never.
    pub(super) fn begin_gap(&self, requests: usize) -> u64 {
        let (countdown, gap) = (self.countdown.load(Ordering::Relaxed), self.gap.load(Ordering::Relaxed));
        let gaps = self.gaps.load(Ordering::Relaxed);
        self.gaps.store(gaps.wrapping_add(1), Ordering::Relaxed);
        let mean = (FIRST_GAP + gaps / 8).min(LAST_GAP);
        // From 3/4 to 5/4 of the mean, chosen by the upper bits of a Weyl sequence (multiples of a constant).
        let random = gaps.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let next = mean * 3 / 4 + random % (mean / 2 + 1);
        self.gap.store(next, Ordering::Relaxed);
        self.countdown.store(next, Ordering::Relaxed);
        gap.saturating_sub(countdown).saturating_add(requests as u64)
    }

    /// Returns every site that has numbers.
    pub(super) fn rows(&self) -> impl Iterator<Item = (Site, &Row)> {
        let added_rows = self.added_rows.get().into_iter().flatten();
        self.rows.iter().chain(added_rows).enumerate().filter_map(|(index, row)| Some((Site(index), &**row.get()?)))
    }

    #[inline]
    fn row(&self, site: Site) -> &Row {
        self.rows.get(site.0).unwrap_or_else(|| self.added_row(site)).get_or_init(|| Box::new(self.make_row(site)))
    }

    #[cold]
    fn make_row(&self, site: Site) -> Row {
        let counts = self.source.with_labels(site, Meaning::Counts, Counters::new);
        // Allocate the stages of direct requests at the first request, so that later ones allocate nothing.
        let at_once = |stage: &Stage| matches!(stage, Stage::Dispatch | Stage::Invoke);
        let recorder = |stage: &Stage| at_once(stage).then(|| self.recorder(site, *stage));
        let stages =
            std::array::from_fn(|stage| recorder(&Stage::ALL[stage]).map_or_else(OnceLock::new, OnceLock::from));
        Row { counts, stages }
    }

    #[cold]
    fn recorder(&self, site: Site, stage: Stage) -> Recorder {
        self.source.with_labels(site, Meaning::Times(stage), Recorder::new)
    }

    #[cold]
    fn added_row(&self, Site(index): Site) -> &OnceLock<Box<Row>> {
        &self.added_rows.get_or_init(|| empty_rows(MAX_SITES.saturating_sub(self.rows.len())))[index - self.rows.len()]
    }
}

fn empty_rows(sites: usize) -> Rows {
    (0..sites).map(|_| OnceLock::new()).collect()
}

impl Row {
    #[inline]
    fn count_sent(&self, reason: Reason, requests: u64, bytes: u64, shared: bool) {
        add_saturating(&self.counts[reason as usize], requests, shared);
        add_saturating(&self.counts[BYTES_INDEX], bytes, shared);
        if requests > 1 {
            add_saturating(&self.counts[BATCHES_INDEX], 1, shared);
            add_saturating(&self.counts[BATCHED_INDEX], requests, shared);
        }
    }

    /// Returns the histogram of a stage, if there is one.
    pub(super) fn stage(&self, stage: Stage) -> Option<&Recorder> {
        self.stages[stage as usize].get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard() -> Shard {
        Shard::new(Arc::new(RowSource { devices: RwLock::default(), memory: None }), 1, Writers::One)
    }

    #[test]
    fn timed_requests_represent_all_requests() {
        for sizes in [&[1][..], &[2], &[1, 1, 32], &[1000], &[63, 64, 65], &[64]] {
            let shard = shard();
            let (mut requests, mut represented, mut timed) = (0, 0, 0);
            for size in sizes.iter().cycle().take(if cfg!(miri) { 1000 } else { 100_000 }) {
                requests += *size as u64;
                if shard.count_down(*size) {
                    represented += shard.begin_gap(*size);
                    timed += 1;
                }
            }
            assert!(requests - represented < 2 * LAST_GAP, "{sizes:?}: {represented} of {requests}");
            assert!(timed <= requests / (FIRST_GAP * 3 / 4) + 1, "{sizes:?}: {timed} of {requests}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "a million steps")]
    fn sampling_covers_every_step_of_a_periodic_program() {
        let shard = shard();
        let mut hits = [0; 64];
        for request in 0..64 * LAST_GAP as usize * 100 {
            if shard.count_down(1) {
                shard.begin_gap(1);
                hits[request % 64] += 1;
            }
        }
        assert!(hits.iter().all(|times| (50..200).contains(times)), "each about 100 times: {hits:?}");
    }
}
