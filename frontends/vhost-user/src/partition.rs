//! What each guest gets of the host's devices.

use std::time::{Duration, Instant};

use gantry_core::Priority;

/// The partition of one guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Sessions at a time. One more is answered with NOSPC.
    pub sessions: usize,
    /// Bytes that the server has of the guest at a time, source and destination. More stay in the guest's queues.
    pub bytes: usize,
    /// Bytes a second, or no limit. More stay in the guest's queues until their time has come.
    pub rate: Option<u64>,
    /// How much of a burst the guest gets beside others of its class: 32 requests and 2 MiB for each unit; at least 1.
    pub weight: u32,
    /// Whose requests are taken first.
    pub class: Priority,
}

impl Default for Limits {
    fn default() -> Self {
        Self { sessions: 1024, bytes: 16 << 20, rate: None, weight: 1, class: Priority::Normal }
    }
}

impl Limits {
    /// Requests and bytes of one visit to a queue.
    pub(crate) fn share(&self) -> (usize, usize) {
        let weight = self.weight.max(1) as usize;
        (weight.saturating_mul(32), weight.saturating_mul(2 << 20))
    }
}

/// When a guest may have its next bytes, at its rate: each request costs it the time that its bytes take.
#[derive(Debug)]
pub(crate) struct Meter {
    rate: Option<u64>,
    /// When all that the guest has had is paid for.
    paid: Instant,
}

/// A guest that did nothing for a while may take as much as in this time at once.
const BURST: Duration = Duration::from_millis(100);

impl Meter {
    pub(crate) fn new(rate: Option<u64>, now: Instant) -> Self {
        Self { rate: rate.map(|rate| rate.max(1)), paid: now }
    }

    /// The time at which the guest may take something; `None` is now.
    pub(crate) fn next(&self, now: Instant) -> Option<Instant> {
        self.rate?;
        (self.paid > now).then_some(self.paid)
    }

    /// The guest takes something.
    pub(crate) fn take(&mut self, bytes: usize, now: Instant) {
        let Some(rate) = self.rate else { return };
        // Bytes of a burst and a rate below 2^64: the product of the first with 10^9 needs more than 64 bits.
        let nanoseconds = bytes as u128 * 1_000_000_000 / u128::from(rate);
        // A debt of more than a day is one of a day.
        let cost = Duration::from_nanos(nanoseconds.min(86_400_000_000_000) as u64);
        self.paid = self.paid.max(now.checked_sub(BURST).unwrap_or(now)) + cost;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_gets_its_rate_and_no_more() {
        let start = Instant::now();
        let mut meter = Meter::new(Some(1_000_000), start);
        let (mut taken, mut now) = (0, start);
        while now < start + Duration::from_secs(10) {
            if let Some(next) = meter.next(now) {
                now = next;
            } else {
                meter.take(70_000, now);
                taken += 70_000;
            }
        }
        assert!((9_900_000..10_200_000).contains(&taken), "{taken}");
    }

    #[test]
    fn a_guest_without_a_rate_never_waits() {
        let now = Instant::now();
        let mut meter = Meter::new(None, now);
        meter.take(usize::MAX, now);
        assert_eq!(meter.next(now), None);
    }

    #[test]
    fn idle_time_is_not_saved_up() {
        let now = Instant::now();
        let mut meter = Meter::new(Some(1000), now);
        let later = now + Duration::from_hours(1);
        assert_eq!(meter.next(later), None);
        meter.take(1000, later);
        assert!(meter.next(later).is_some_and(|next| next >= later + Duration::from_millis(900)));
    }
}
