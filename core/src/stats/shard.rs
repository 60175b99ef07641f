//! The numbers of one slot, which only the thread that has it writes.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::counter::Counter;
use super::event::{Event, Stage};
use super::histogram::Recorder;
use super::reason::Reason;
use super::site::{MOST_SITES, Site};

/// From one timed request to the next on average: at first, so that short programs have times too, and in the end, so that the
/// clock costs long ones nothing to speak of.
const FIRST_GAP: u64 = 8;
const LAST_GAP: u64 = 512;

/// The numbers of one slot. The alignment keeps two slots from sharing a cache line, or the pair that some CPUs fetch together.
#[repr(align(128))]
pub(super) struct Shard {
    shared: bool,
    /// Requests until the next one that is timed; at least 1.
    left: AtomicU64,
    /// What `left` began with.
    gap: AtomicU64,
    /// Gaps before this one.
    taken: AtomicU64,
    rows: Rows,
    /// Those of devices that came later.
    later: OnceLock<Rows>,
}

/// By site; those are there that have numbers.
type Rows = Box<[OnceLock<Box<Row>>]>;

/// The numbers of one site.
#[repr(align(128))]
pub(super) struct Row {
    /// Requests, by [`Reason`].
    pub(super) requests: [Counter; Reason::ALL.len()],
    pub(super) bytes: Counter,
    pub(super) batches: Counter,
    pub(super) batched: Counter,
    pub(super) events: [Counter; Event::ALL.len()],
    stages: [OnceLock<Box<Recorder>>; Stage::ALL.len()],
}

impl Default for Row {
    fn default() -> Self {
        Self {
            requests: [const { Counter::new() }; Reason::ALL.len()],
            bytes: Counter::new(),
            batches: Counter::new(),
            batched: Counter::new(),
            events: [const { Counter::new() }; Event::ALL.len()],
            // Those of direct requests from the first request on: later ones allocate nothing.
            stages: std::array::from_fn(|stage| {
                let at_once = stage == Stage::Dispatch as usize || stage == Stage::Invoke as usize;
                if at_once { OnceLock::from(Box::default()) } else { OnceLock::new() }
            }),
        }
    }
}

impl Shard {
    pub(super) fn new(sites: usize, shared: bool) -> Self {
        let (left, gap, taken) = (AtomicU64::new(1), AtomicU64::new(1), AtomicU64::new(0));
        Self { shared, left, gap, taken, rows: rows(sites), later: OnceLock::new() }
    }

    #[inline]
    pub(super) fn sent(&self, site: Site, reason: Reason, requests: usize, bytes: usize) {
        let row = self.row(site);
        if self.shared {
            row.sent_shared(reason, requests as u64, bytes as u64);
        } else {
            row.sent(reason, requests as u64, bytes as u64, false);
        }
    }

    pub(super) fn event(&self, site: Site, event: Event, times: u64) {
        self.row(site).events[event as usize].add(times, self.shared);
    }

    pub(super) fn time(&self, site: Site, stage: Stage, ns: u64, requests: u64) {
        self.row(site).stages[stage as usize].get_or_init(Box::default).add(ns, requests, self.shared);
    }

    /// Whether these requests are to be timed; then [`begin_gap`](Self::begin_gap) follows. In the shared slot threads overwrite
    /// each other's countdown now and then, and a request more or less is timed.
    #[inline]
    pub(super) fn passes(&self, requests: usize) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        if left > requests as u64 {
            self.left.store(left - requests as u64, Ordering::Relaxed);
        }
        left <= requests as u64
    }

    /// How many requests those stand for that are timed now: themselves, and all since the last that were. The distance to the
    /// next ones varies, so that what a program does at regular intervals is neither met always nor never.
    pub(super) fn begin_gap(&self, requests: usize) -> u64 {
        let (left, gap) = (self.left.load(Ordering::Relaxed), self.gap.load(Ordering::Relaxed));
        let taken = self.taken.load(Ordering::Relaxed);
        self.taken.store(taken.wrapping_add(1), Ordering::Relaxed);
        let mean = (FIRST_GAP + taken / 8).min(LAST_GAP);
        // From 3/4 to 5/4 of it, by the upper bits of a multiplicative sequence.
        let random = taken.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let next = mean * 3 / 4 + random % (mean / 2 + 1);
        self.gap.store(next, Ordering::Relaxed);
        self.left.store(next, Ordering::Relaxed);
        gap.saturating_sub(left).saturating_add(requests as u64)
    }

    /// Every site that has numbers.
    pub(super) fn rows(&self) -> impl Iterator<Item = (Site, &Row)> {
        let later = self.later.get().into_iter().flatten();
        self.rows.iter().chain(later).enumerate().filter_map(|(index, row)| Some((Site(index), &**row.get()?)))
    }

    #[inline]
    fn row(&self, site: Site) -> &Row {
        self.rows.get(site.0).unwrap_or_else(|| self.later(site)).get_or_init(Box::default)
    }

    #[cold]
    fn later(&self, Site(place): Site) -> &OnceLock<Box<Row>> {
        &self.later.get_or_init(|| rows(MOST_SITES.saturating_sub(self.rows.len())))[place - self.rows.len()]
    }
}

fn rows(sites: usize) -> Rows {
    (0..sites).map(|_| OnceLock::new()).collect()
}

impl Row {
    #[inline]
    fn sent(&self, reason: Reason, requests: u64, bytes: u64, shared: bool) {
        self.requests[reason as usize].add(requests, shared);
        self.bytes.add(bytes, shared);
        if requests > 1 {
            self.batches.add(1, shared);
            self.batched.add(requests, shared);
        }
    }

    #[cold]
    fn sent_shared(&self, reason: Reason, requests: u64, bytes: u64) {
        self.sent(reason, requests, bytes, true);
    }

    /// The histogram of a stage, if it has any.
    pub(super) fn stage(&self, stage: Stage) -> Option<&Recorder> {
        self.stages[stage as usize].get().map(|recorder| &**recorder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_stays_at_its_end() {
        for shared in [false, true] {
            let counter = Counter::new();
            counter.add(u64::MAX - 1, shared);
            counter.add(1, shared);
            counter.add(7, shared);
            assert_eq!(counter.get(), u64::MAX);
        }
    }

    #[test]
    fn the_requests_that_are_timed_stand_for_all_others() {
        for sizes in [&[1][..], &[2], &[1, 1, 32], &[1000], &[63, 64, 65], &[64]] {
            let shard = Shard::new(1, false);
            let (mut requests, mut stood_for, mut timed) = (0, 0, 0);
            for size in sizes.iter().cycle().take(if cfg!(miri) { 1000 } else { 100_000 }) {
                requests += *size as u64;
                if shard.passes(*size) {
                    stood_for += shard.begin_gap(*size);
                    timed += 1;
                }
            }
            assert!(requests - stood_for < 2 * LAST_GAP, "{sizes:?}: {stood_for} of {requests}");
            assert!(timed <= requests / (FIRST_GAP * 3 / 4) + 1, "{sizes:?}: {timed} of {requests}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "a million steps")]
    fn a_regular_program_is_met_at_every_step() {
        let shard = Shard::new(1, false);
        let mut met = [0; 64];
        for request in 0..64 * LAST_GAP as usize * 100 {
            if shard.passes(1) {
                shard.begin_gap(1);
                met[request % 64] += 1;
            }
        }
        assert!(met.iter().all(|times| (50..200).contains(times)), "each about 100 times: {met:?}");
    }
}
