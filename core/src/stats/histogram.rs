//! Histograms of times. 592 buckets, each 1/16 of a power of two wide, give any quantile within 3.2 %.

use std::sync::atomic::Ordering;

use super::memory::{Counters, Labels, Memory, add_saturating};

/// There are 2^SUB_BUCKET_BITS buckets for each power of two.
const SUB_BUCKET_BITS: u32 = 4;
/// Times of 2^TIME_BITS nanoseconds (18 minutes) or more share the last bucket.
const TIME_BITS: u32 = 40;
const BUCKETS: usize = ((TIME_BITS - SUB_BUCKET_BITS) as usize + 1) << SUB_BUCKET_BITS;

/// Returns the bucket of a time. Below 32 ns, each nanosecond has its own bucket.
#[inline]
fn bucket_of(ns: u64) -> usize {
    let ns = ns.min((1 << TIME_BITS) - 1);
    let shift = ns.max(1 << SUB_BUCKET_BITS).ilog2() - SUB_BUCKET_BITS;
    ((shift as usize) << SUB_BUCKET_BITS) + (ns >> shift) as usize
}

/// Returns the shortest and the longest time of a bucket.
fn bucket_bounds(bucket: usize) -> (u64, u64) {
    let shift = (bucket >> SUB_BUCKET_BITS).saturating_sub(1);
    let low = (bucket - (shift << SUB_BUCKET_BITS)) as u64;
    (low << shift, ((low + 1) << shift) - 1)
}

/// Number of words of a [`Recorder`]: the buckets, the sum of all times, and the longest time.
const RECORDER_WORDS: usize = BUCKETS + 2;
const TOTAL_INDEX: usize = BUCKETS;
const MAX_INDEX: usize = BUCKETS + 1;

/// A histogram that threads read while others write it: one thread, or all threads of a shared slot.
pub(super) struct Recorder(Counters<RECORDER_WORDS>);

impl Recorder {
    pub(super) fn new(memory: Option<&dyn Memory>, labels: Labels<'_>) -> Self {
        Self(Counters::new(memory, labels))
    }

    pub(super) fn add(&self, ns: u64, requests: u64, shared: bool) {
        add_saturating(&self.0[bucket_of(ns)], requests, shared);
        add_saturating(&self.0[TOTAL_INDEX], ns.saturating_mul(requests), shared);
        if ns > self.0[MAX_INDEX].load(Ordering::Relaxed) {
            self.0[MAX_INDEX].fetch_max(ns, Ordering::Relaxed);
        }
    }

    pub(super) fn add_to(&self, sum: &mut Histogram) {
        sum.merge(&Histogram::from_words(self.0.iter().map(|number| number.load(Ordering::Relaxed))));
    }
}

/// The distribution of the times of requests.
///
/// Quantiles are within 3.2 % of the time that was measured; the longest time is exact. Numbers that would overflow stay at
/// `u64::MAX`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Number of requests in each bucket, up to the last bucket that has any.
    buckets: Vec<u64>,
    total_ns: u64,
    max_ns: u64,
}

impl Histogram {
    /// Builds a histogram from the [`buckets`](Self::buckets), [`total_ns`](Self::total_ns) and [`max_ns`](Self::max_ns) of another one.
    pub fn from_parts(buckets: impl IntoIterator<Item = (u64, u64)>, total_ns: u64, max_ns: u64) -> Self {
        let mut histogram = Self { buckets: Vec::new(), total_ns, max_ns };
        for (ns, requests) in buckets {
            histogram.add_to_bucket(bucket_of(ns), requests);
        }
        histogram
    }

    /// Builds a histogram from the numbers of [`Meaning::Times`](super::Meaning::Times), possibly of another process. Missing numbers are
    /// zero.
    pub fn from_words(words: impl IntoIterator<Item = u64>) -> Self {
        let mut words = words.into_iter();
        let mut histogram = Self::default();
        (0..BUCKETS).zip(&mut words).for_each(|(index, requests)| histogram.add_to_bucket(index, requests));
        (histogram.total_ns, histogram.max_ns) = (words.next().unwrap_or(0), words.next().unwrap_or(0));
        histogram
    }

    /// Counts `requests` that took `ns` each.
    pub fn add(&mut self, ns: u64, requests: u64) {
        self.add_to_bucket(bucket_of(ns), requests);
        self.total_ns = self.total_ns.saturating_add(ns.saturating_mul(requests));
        self.max_ns = self.max_ns.max(ns);
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        for (index, requests) in other.buckets.iter().enumerate() {
            self.add_to_bucket(index, *requests);
        }
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Returns the counts since `earlier`. The longest time of the result may be up to 6.3 % too long, and is less than 2^40 ns.
    #[must_use]
    pub fn since(&self, earlier: &Histogram) -> Histogram {
        let mut buckets: Vec<u64> = (self.buckets.iter().enumerate())
            .map(|(index, now)| now.saturating_sub(earlier.buckets.get(index).copied().unwrap_or(0)))
            .collect();
        buckets.truncate(buckets.iter().rposition(|requests| *requests > 0).map_or(0, |last| last + 1));
        let last = buckets.len().checked_sub(1).map_or(0, |last| bucket_bounds(last).1);
        Histogram { buckets, total_ns: self.total_ns.saturating_sub(earlier.total_ns), max_ns: self.max_ns.min(last) }
    }

    /// Returns the number of counted requests.
    pub fn requests(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, requests| sum.saturating_add(*requests))
    }

    /// Returns the time in nanoseconds that `per_mille` of 1,000 requests did not exceed; 0 for an empty histogram.
    pub fn quantile(&self, per_mille: u64) -> u64 {
        let rank = rank(self.requests(), per_mille);
        let mut below = 0_u64;
        for (index, requests) in self.buckets.iter().enumerate() {
            below = below.saturating_add(*requests);
            if below >= rank {
                let (low, high) = bucket_bounds(index);
                // The last bucket has no upper end but the longest time itself.
                return if index + 1 == BUCKETS { self.max_ns } else { (low + (high - low) / 2).min(self.max_ns) };
            }
        }
        0
    }

    /// Returns the longest time, in nanoseconds.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// Returns the sum of all times, in nanoseconds.
    pub fn total_ns(&self) -> u64 {
        self.total_ns
    }

    /// Returns the mean time, in nanoseconds; 0 for an empty histogram.
    pub fn mean_ns(&self) -> u64 {
        self.total_ns.checked_div(self.requests()).unwrap_or(0)
    }

    /// Returns the buckets that have requests: the shortest time of each, in nanoseconds, and its requests.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        let counted = self.buckets.iter().enumerate().filter(|(_, requests)| **requests > 0);
        counted.map(|(index, requests)| (bucket_bounds(index).0, *requests))
    }

    fn add_to_bucket(&mut self, index: usize, requests: u64) {
        if requests == 0 {
            return;
        }
        if index >= self.buckets.len() {
            self.buckets.resize(index + 1, 0);
        }
        self.buckets[index] = self.buckets[index].saturating_add(requests);
    }
}

/// Returns the rank, counted from 1, of the `per_mille` quantile among `count` sorted values.
fn rank(count: u64, per_mille: u64) -> u64 {
    let rank = (u128::from(count) * u128::from(per_mille)).div_ceil(1000);
    u64::try_from(rank).unwrap_or(u64::MAX).clamp(1, count.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns numbers of all magnitudes up to 2^40, the same at every run.
    fn times(seed: u64, count: usize) -> Vec<u64> {
        let mut state = seed * 2 + 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        (0..count).map(|_| next() >> (24 + next() % 40)).collect()
    }

    #[test]
    fn buckets_are_contiguous() {
        let mut next = 0;
        for index in 0..BUCKETS {
            let (low, high) = bucket_bounds(index);
            assert_eq!(low, next);
            assert_eq!((bucket_of(low), bucket_of(high)), (index, index));
            assert!(high - low <= low / 16, "{low} to {high}");
            next = high + 1;
        }
        assert_eq!(next, 1 << TIME_BITS);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    #[cfg_attr(miri, ignore = "thousands of times, each in safe code")]
    fn quantiles_match_the_sorted_times_within_a_bucket() {
        for (seed, count) in [(1, 1), (2, 2), (3, 10), (4, 999), (5, 1000), (6, 5000)] {
            let mut times = times(seed, count);
            let mut histogram = Histogram::default();
            let recorder = Recorder(Counters::private());
            for (index, ns) in times.iter().enumerate() {
                histogram.add(*ns, 1);
                recorder.add(*ns, 1, index % 2 == 0);
            }
            let mut read = Histogram::default();
            recorder.add_to(&mut read);
            assert_eq!(read, histogram, "both ways to count agree");
            times.sort_unstable();
            for per_mille in [0, 10, 500, 900, 990, 999, 1000] {
                let exact = times[rank(count as u64, per_mille) as usize - 1];
                let quantile = histogram.quantile(per_mille);
                assert!(quantile.abs_diff(exact) <= exact / 31, "seed {seed}, {per_mille}: {quantile} for {exact}");
            }
            assert_eq!(histogram.max_ns(), times[count - 1]);
            assert_eq!(histogram.total_ns(), times.iter().sum::<u64>());
            assert_eq!(histogram.requests(), count as u64);
        }
    }

    #[test]
    fn histograms_round_trip_and_merge() {
        let (first, second) = (times(7, 300), times(8, 400));
        let histogram_of = |times: &[u64]| {
            let mut histogram = Histogram::default();
            for ns in times {
                histogram.add(*ns, 3);
            }
            histogram
        };
        let (a, b) = (histogram_of(&first), histogram_of(&second));
        assert_eq!(Histogram::from_parts(a.buckets(), a.total_ns(), a.max_ns()), a);
        let mut both = a.clone();
        both.merge(&b);
        assert_eq!(both, histogram_of(&[first, second].concat()));
        let later = both.since(&a);
        assert_eq!((later.requests(), later.total_ns()), (b.requests(), b.total_ns()));
        assert_eq!(later.quantile(500), b.quantile(500));
        assert_eq!(both.since(&both), Histogram::default());
    }

    #[test]
    fn histograms_saturate() {
        let mut histogram = Histogram::default();
        histogram.add(u64::MAX, u64::MAX);
        histogram.add(u64::MAX, 1);
        histogram.add(1, u64::MAX);
        assert_eq!((histogram.requests(), histogram.total_ns()), (u64::MAX, u64::MAX));
        assert_eq!(histogram.max_ns(), u64::MAX);
        assert_eq!((histogram.quantile(10), histogram.quantile(1000)), (1, 1), "the count is saturated");
        let mut late = Histogram::default();
        late.add(1 << 50, 1);
        assert_eq!(late.quantile(500), 1 << 50, "beyond the last bucket only the longest time is known");
        assert_eq!(Histogram::default().quantile(500), 0);
        assert_eq!(Histogram::default().mean_ns(), 0);
    }
}
