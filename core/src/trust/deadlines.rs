//! Deadlines of requests, learned from the times of earlier requests.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The deadlines of a device's requests, by size.
#[derive(Default)]
pub(crate) struct Deadlines {
    times: [Times; CLASS_BOUNDS.len()],
}

impl Deadlines {
    /// Records the time that `requests` requests of `bytes` bytes each spent in the device.
    pub(crate) fn record(&self, bytes: usize, ns: u64, requests: usize) {
        self.times[size_class(bytes)].record(ns, u32::try_from(requests).unwrap_or(REQUESTS_TO_LEARN));
    }

    /// Returns the maximum time of a request in the device, in nanoseconds.
    pub(crate) fn deadline_ns(&self, bytes: usize) -> u64 {
        match self.times[size_class(bytes)].deadline_ns.load(Ordering::Relaxed) {
            0 => INITIAL_DEADLINE_NS,
            learned => learned,
        }
    }
}

/// Upper bounds of the classes of sizes, in bytes.
const CLASS_BOUNDS: [usize; 3] = [4 << 10, 64 << 10, usize::MAX];

fn size_class(bytes: usize) -> usize {
    CLASS_BOUNDS.iter().position(|most| bytes <= *most).unwrap_or(CLASS_BOUNDS.len() - 1)
}

/// The deadline until enough requests were recorded: one second.
const INITIAL_DEADLINE_NS: u64 = 1_000_000_000;
/// The deadline as a multiple of the time that 999 of 1,000 requests did not exceed, rounded up to a power of two.
const DEADLINE_FACTOR: u64 = 8;
/// The shortest deadline, because other programs run, too: 20 ms.
const MIN_DEADLINE_NS: u64 = 20_000_000;
/// The longest deadline: 10 s.
const MAX_DEADLINE_NS: u64 = 10_000_000_000;
/// Number of requests after which a deadline is learned from them.
const REQUESTS_TO_LEARN: u32 = 1024;

/// The times of the requests in one class of sizes, counted by octave of nanoseconds.
struct Times {
    octaves: [AtomicU32; 40],
    recorded: AtomicU32,
    /// The learned deadline; 0 for none.
    deadline_ns: AtomicU64,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            octaves: std::array::from_fn(|_| AtomicU32::new(0)),
            recorded: AtomicU32::new(0),
            deadline_ns: AtomicU64::new(0),
        }
    }
}

impl Times {
    fn record(&self, ns: u64, requests: u32) {
        let octave = (u64::BITS - ns.leading_zeros()) as usize;
        self.octaves[octave.min(self.octaves.len() - 1)].fetch_add(requests, Ordering::Relaxed);
        let before = self.recorded.fetch_add(requests, Ordering::Relaxed);
        if before < REQUESTS_TO_LEARN && before.saturating_add(requests) >= REQUESTS_TO_LEARN {
            self.learn();
            self.recorded.store(0, Ordering::Relaxed);
        }
    }

    /// Learns from the p99.9 of the recorded times; after that, divides the counts of these times by four, so that later times count more.
    fn learn(&self) {
        let counts = self.octaves.each_ref().map(|count| count.load(Ordering::Relaxed));
        let total: u64 = counts.iter().map(|count| u64::from(*count)).sum();
        let mut above = total / 1000;
        let slowest = (0..counts.len()).rev().find(|octave| {
            let count = u64::from(counts[*octave]);
            let is_reached = count > above;
            above = above.saturating_sub(count);
            is_reached
        });
        // The upper end of the octave.
        let slow = 1_u64 << slowest.unwrap_or(0);
        self.deadline_ns
            .store(slow.saturating_mul(DEADLINE_FACTOR).clamp(MIN_DEADLINE_NS, MAX_DEADLINE_NS), Ordering::Relaxed);
        for (octave, count) in self.octaves.iter().zip(counts) {
            octave.store(count / 4, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_follow_the_times_of_nearly_all_requests() {
        let deadlines = Deadlines::default();
        assert_eq!(deadlines.deadline_ns(16), INITIAL_DEADLINE_NS);
        for request in 0..10_000_u64 {
            deadlines.record(16, if request % 5000 == 0 { 900_000_000 } else { 10_000_000 }, 1);
        }
        let learned = deadlines.deadline_ns(16);
        assert!(
            (80_000_000..200_000_000).contains(&learned),
            "eight times 10 to 16 ms, without the rare second: {learned}"
        );
        assert_eq!(deadlines.deadline_ns(1 << 20), INITIAL_DEADLINE_NS, "large requests have their own deadline");
        // Record bursts of 33 requests, so that the request with which learning begins lies inside a burst.
        for _ in 0..300 {
            deadlines.record(16, 100, 33);
        }
        assert_eq!(deadlines.deadline_ns(16), MIN_DEADLINE_NS);
    }
}
