//! The trust in a device: quarantine, and probation on the way back.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// The trust in a device, or in one algorithm of it.
#[derive(Default)]
pub(crate) struct Trust {
    state: AtomicU8,
    /// Number of consecutive quarantines.
    failures: AtomicU32,
    /// The time at which the last quarantine began, or ended.
    changed: AtomicU64,
}

const READY: u8 = 0;
const QUARANTINED: u8 = 1;
/// The known-answer tests of the device are being repeated.
const ON_PROBATION: u8 = 2;

/// Duration of the first quarantine, in nanoseconds. Each consecutive one lasts twice as long as the one before.
const FIRST_QUARANTINE_NS: u64 = 100_000_000;
/// The longest quarantine: five minutes.
const LONGEST_QUARANTINE_NS: u64 = 300_000_000_000;

impl Trust {
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        self.state.load(Ordering::Relaxed) == READY
    }

    /// Begins a quarantine. Returns whether the device was trusted until now; a device on probation was not.
    pub(crate) fn quarantine(&self, now: u64) -> bool {
        if self.state.swap(QUARANTINED, Ordering::AcqRel) != READY {
            return false;
        }
        let before = self.changed.swap(now, Ordering::Relaxed);
        // A device that worked for longer than its quarantine begins again with the shortest one.
        let failures = self.failures.load(Ordering::Relaxed);
        let recovered = now.saturating_sub(before) > self.quarantine_ns().max(FIRST_QUARANTINE_NS);
        self.failures.store(if recovered { 1 } else { failures.saturating_add(1) }, Ordering::Relaxed);
        true
    }

    /// Returns the duration of the last quarantine, or of the current one, in nanoseconds.
    fn quarantine_ns(&self) -> u64 {
        let failures = self.failures.load(Ordering::Relaxed);
        let shift = failures.saturating_sub(1).min(20);
        (FIRST_QUARANTINE_NS << shift).min(LONGEST_QUARANTINE_NS)
    }

    /// Begins a probation if the quarantine has lasted long enough. Returns whether it began; if so, the caller must
    /// [end](Self::end_probation) it after the tests.
    pub(crate) fn begin_probation(&self, now: u64) -> bool {
        let due = self.changed.load(Ordering::Relaxed).saturating_add(self.quarantine_ns());
        self.state.load(Ordering::Relaxed) == QUARANTINED
            && now >= due
            && self.state.compare_exchange(QUARANTINED, ON_PROBATION, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Ends a probation. Returns whether the device is trusted again. A fault during the probation prevents that.
    pub(crate) fn end_probation(&self, works: bool, now: u64) -> bool {
        self.changed.store(now, Ordering::Relaxed);
        let next = if works { READY } else { QUARANTINED };
        let ended = self.state.compare_exchange(ON_PROBATION, next, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if !(ended && works) {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        ended && works
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quarantines_double_until_the_device_recovers() {
        let trust = Trust::default();
        let second = 1_000_000_000;
        assert!(trust.quarantine(second) && !trust.is_ready());
        assert!(!trust.quarantine(second), "the device is in quarantine already");
        assert!(!trust.begin_probation(second + FIRST_QUARANTINE_NS - 1));
        assert!(trust.begin_probation(second + FIRST_QUARANTINE_NS));
        assert!(!trust.begin_probation(2 * second), "one probation at a time");
        assert!(!trust.end_probation(false, 2 * second));
        assert!(!trust.begin_probation(2 * second + FIRST_QUARANTINE_NS), "the second quarantine is twice as long");
        assert!(trust.begin_probation(2 * second + 2 * FIRST_QUARANTINE_NS));
        assert!(trust.end_probation(true, 3 * second) && trust.is_ready());
        trust.quarantine(3 * second + 1);
        assert!(
            !trust.begin_probation(3 * second + 1 + 2 * FIRST_QUARANTINE_NS),
            "the device failed right away: the third quarantine is longer"
        );
        assert!(trust.begin_probation(3 * second + 1 + 4 * FIRST_QUARANTINE_NS));
        assert!(trust.end_probation(true, 4 * second));
        trust.quarantine(60 * second);
        assert!(
            trust.begin_probation(60 * second + FIRST_QUARANTINE_NS),
            "the device had worked for long: the shortest quarantine"
        );
    }

    #[test]
    fn a_fault_during_probation_fails_it() {
        let trust = Trust::default();
        let second = 1_000_000_000;
        assert!(trust.quarantine(second));
        assert!(trust.begin_probation(2 * second));
        assert!(!trust.quarantine(2 * second), "a device on probation is not trusted");
        assert!(!trust.end_probation(true, 2 * second) && !trust.is_ready());
        assert!(trust.begin_probation(4 * second) && trust.end_probation(true, 4 * second));
    }
}
