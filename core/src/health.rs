//! Whether a device is trusted: quarantine, the way back, and how long an answer may take.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// The trust in a device, or in one algorithm of it.
#[derive(Default)]
pub(crate) struct Trust {
    state: AtomicU8,
    /// Quarantines in a row.
    failures: AtomicU32,
    /// When the last quarantine began, or ended.
    changed: AtomicU64,
}

const READY: u8 = 0;
const QUARANTINED: u8 = 1;
/// Somebody is looking whether it works again.
const ON_TRIAL: u8 = 2;

/// How long the first quarantine lasts, in nanoseconds. Each one in a row lasts twice as long as the one before.
const FIRST_QUARANTINE: u64 = 100_000_000;
/// The longest quarantine: five minutes.
const LONGEST_QUARANTINE: u64 = 300_000_000_000;

impl Trust {
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        self.state.load(Ordering::Relaxed) == READY
    }

    /// Begins a quarantine. Whether the device was trusted until now: one that fails while it is on trial was not.
    pub(crate) fn quarantine(&self, now: u64) -> bool {
        if self.state.swap(QUARANTINED, Ordering::AcqRel) != READY {
            return false;
        }
        let before = self.changed.swap(now, Ordering::Relaxed);
        // One that worked for longer than it was away has earned a new start.
        let failures = self.failures.load(Ordering::Relaxed);
        let recovered = now.saturating_sub(before) > self.length().max(FIRST_QUARANTINE);
        self.failures.store(if recovered { 1 } else { failures.saturating_add(1) }, Ordering::Relaxed);
        true
    }

    fn length(&self) -> u64 {
        let failures = self.failures.load(Ordering::Relaxed);
        let shift = failures.saturating_sub(1).min(20);
        (FIRST_QUARANTINE << shift).min(LONGEST_QUARANTINE)
    }

    /// Whether the device has been away for long enough to be tried; if so, it is the caller's to [`judge`](Self::judge).
    pub(crate) fn begin_trial(&self, now: u64) -> bool {
        let due = self.changed.load(Ordering::Relaxed).saturating_add(self.length());
        self.state.load(Ordering::Relaxed) == QUARANTINED
            && now >= due
            && self.state.compare_exchange(QUARANTINED, ON_TRIAL, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Ends a trial. Whether the device is trusted again: not if somebody met a fault meanwhile.
    pub(crate) fn judge(&self, works: bool, now: u64) -> bool {
        self.changed.store(now, Ordering::Relaxed);
        let next = if works { READY } else { QUARANTINED };
        let judged = self.state.compare_exchange(ON_TRIAL, next, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if !(judged && works) {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        judged && works
    }
}

/// How long the requests of a device may take, by their size.
#[derive(Default)]
pub(crate) struct Deadlines {
    times: [Times; SIZES.len()],
}

impl Deadlines {
    /// Notes how long a request was in the device.
    pub(crate) fn took(&self, bytes: usize, ns: u64) {
        self.times[size(bytes)].note(ns);
    }

    /// How long a request may be in the device.
    pub(crate) fn deadline(&self, bytes: usize) -> u64 {
        match self.times[size(bytes)].deadline.load(Ordering::Relaxed) {
            0 => UNKNOWN,
            learned => learned,
        }
    }
}

/// Requests up to so many bytes are of one size.
const SIZES: [usize; 3] = [4 << 10, 64 << 10, usize::MAX];

fn size(bytes: usize) -> usize {
    SIZES.iter().position(|most| bytes <= *most).unwrap_or(SIZES.len() - 1)
}

/// The deadline before anything was learned: one second.
const UNKNOWN: u64 = 1_000_000_000;
/// The deadline is so many times what 999 of 1,000 requests took.
const MARGIN: u64 = 8;
/// No deadline is below this, because the machine does other things, too: 20 ms.
const SHORTEST: u64 = 20_000_000;
/// Nor above this: 10 s.
const LONGEST: u64 = 10_000_000_000;
/// So many requests are looked at before a deadline is learned from them.
const ENOUGH: u32 = 1024;

/// How long requests of one size took, in octaves of nanoseconds.
struct Times {
    octaves: [AtomicU32; 40],
    noted: AtomicU32,
    deadline: AtomicU64,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            octaves: std::array::from_fn(|_| AtomicU32::new(0)),
            noted: AtomicU32::new(0),
            deadline: AtomicU64::new(0),
        }
    }
}

impl Times {
    fn note(&self, ns: u64) {
        let octave = (u64::BITS - ns.leading_zeros()) as usize;
        self.octaves[octave.min(self.octaves.len() - 1)].fetch_add(1, Ordering::Relaxed);
        if self.noted.fetch_add(1, Ordering::Relaxed) + 1 == ENOUGH {
            self.learn();
            self.noted.store(0, Ordering::Relaxed);
        }
    }

    /// From the p99.9 of what was noted; what is older counts a quarter.
    fn learn(&self) {
        let counts = self.octaves.each_ref().map(|count| count.load(Ordering::Relaxed));
        let total: u64 = counts.iter().map(|count| u64::from(*count)).sum();
        let mut above = total / 1000;
        let slowest = (0..counts.len()).rev().find(|octave| {
            let count = u64::from(counts[*octave]);
            let here = count > above;
            above = above.saturating_sub(count);
            here
        });
        // The upper end of the octave.
        let slow = 1_u64 << slowest.unwrap_or(0);
        self.deadline.store(slow.saturating_mul(MARGIN).clamp(SHORTEST, LONGEST), Ordering::Relaxed);
        for (octave, count) in self.octaves.iter().zip(counts) {
            octave.store(count / 4, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_follow_what_nearly_all_requests_take() {
        let deadlines = Deadlines::default();
        assert_eq!(deadlines.deadline(16), UNKNOWN);
        for request in 0..10_000_u64 {
            deadlines.took(16, if request % 5000 == 0 { 900_000_000 } else { 10_000_000 });
        }
        let learned = deadlines.deadline(16);
        assert!(
            (80_000_000..200_000_000).contains(&learned),
            "eight times 10 to 16 ms, the rare second aside: {learned}"
        );
        assert_eq!(deadlines.deadline(1 << 20), UNKNOWN, "large requests are another matter");
        for _ in 0..10_000 {
            deadlines.took(16, 100);
        }
        assert_eq!(deadlines.deadline(16), SHORTEST);
    }

    #[test]
    fn quarantines_grow_while_a_device_keeps_failing_and_begin_anew_when_it_has_worked() {
        let trust = Trust::default();
        let second = 1_000_000_000;
        assert!(trust.quarantine(second) && !trust.is_ready());
        assert!(!trust.quarantine(second), "it is in one already");
        assert!(!trust.begin_trial(second + FIRST_QUARANTINE - 1));
        assert!(trust.begin_trial(second + FIRST_QUARANTINE));
        assert!(!trust.begin_trial(2 * second), "one trial at a time");
        assert!(!trust.judge(false, 2 * second));
        assert!(!trust.begin_trial(2 * second + FIRST_QUARANTINE), "twice as long now");
        assert!(trust.begin_trial(2 * second + 2 * FIRST_QUARANTINE));
        assert!(trust.judge(true, 3 * second) && trust.is_ready());
        trust.quarantine(3 * second + 1);
        assert!(!trust.begin_trial(3 * second + 1 + 2 * FIRST_QUARANTINE), "it failed right away: longer still");
        assert!(trust.begin_trial(3 * second + 1 + 4 * FIRST_QUARANTINE));
        assert!(trust.judge(true, 4 * second));
        trust.quarantine(60 * second);
        assert!(trust.begin_trial(60 * second + FIRST_QUARANTINE), "it had worked for long");
    }

    #[test]
    fn a_fault_during_a_trial_decides_it() {
        let trust = Trust::default();
        let second = 1_000_000_000;
        assert!(trust.quarantine(second));
        assert!(trust.begin_trial(2 * second));
        assert!(!trust.quarantine(2 * second), "it was not trusted");
        assert!(!trust.judge(true, 2 * second) && !trust.is_ready());
        assert!(trust.begin_trial(4 * second) && trust.judge(true, 4 * second));
    }
}
