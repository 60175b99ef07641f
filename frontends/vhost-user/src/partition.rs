//! The share of each guest in the host's devices.

use std::time::{Duration, Instant};

use gantry_core::Priority;

/// The limits of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most sessions at a time. A further session is refused with NOSPC.
    pub sessions: usize,
    /// Bytes in flight in the server, source and destination together, from which on further requests stay in the guest's queues.
    pub bytes: usize,
    /// Most bytes per second; `None` is no limit. Further requests wait in the guest's queues.
    pub rate: Option<u64>,
    /// Weight among guests of the same class; 0 counts as 1. A visit to a queue takes up to 32 requests and 2 MiB per unit.
    pub weight: u32,
    /// Class of the guest: requests of more urgent classes are taken first.
    pub class: Priority,
}

impl Default for Limits {
    fn default() -> Self {
        Self { sessions: 1024, bytes: 16 << 20, rate: None, weight: 1, class: Priority::Normal }
    }
}

impl Limits {
    /// Returns the limits of one visit to a queue: requests and bytes.
    pub(crate) fn visit_quota(&self) -> (usize, usize) {
        let weight = self.weight.max(1) as usize;
        (weight.saturating_mul(32), weight.saturating_mul(2 << 20))
    }
}

/// Limits a guest to its rate: each request costs the time that its bytes take at this rate.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    rate: Option<u64>,
    /// The time at which the rate has paid for all requests so far.
    charged_until: Instant,
}

/// The most credit that an idle guest gathers, as time at its rate.
const MAX_CREDIT: Duration = Duration::from_millis(100);

impl RateLimiter {
    pub(crate) fn new(rate: Option<u64>, now: Instant) -> Self {
        Self { rate: rate.map(|rate| rate.max(1)), charged_until: now }
    }

    /// Returns the time from which on the guest's requests may be taken; `None` is now.
    pub(crate) fn blocked_until(&self, now: Instant) -> Option<Instant> {
        self.rate?;
        (self.charged_until > now).then_some(self.charged_until)
    }

    /// Charges the guest for `bytes` bytes.
    pub(crate) fn charge(&mut self, bytes: usize, now: Instant) {
        let Some(rate) = self.rate else { return };
        // The product of `bytes` and 10^9 may exceed 64 bits.
        let nanoseconds = bytes as u128 * 1_000_000_000 / u128::from(rate);
        // A charge is at most one day.
        let cost = Duration::from_nanos(nanoseconds.min(86_400_000_000_000) as u64);
        self.charged_until = self.charged_until.max(now.checked_sub(MAX_CREDIT).unwrap_or(now)) + cost;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_gets_exactly_its_rate() {
        let start = Instant::now();
        let mut limiter = RateLimiter::new(Some(1_000_000), start);
        let (mut taken, mut now) = (0, start);
        while now < start + Duration::from_secs(10) {
            if let Some(next) = limiter.blocked_until(now) {
                now = next;
            } else {
                limiter.charge(70_000, now);
                taken += 70_000;
            }
        }
        assert!((9_900_000..10_200_000).contains(&taken), "{taken}");
    }

    #[test]
    fn a_guest_without_a_rate_never_waits() {
        let now = Instant::now();
        let mut limiter = RateLimiter::new(None, now);
        limiter.charge(usize::MAX, now);
        assert_eq!(limiter.blocked_until(now), None);
    }

    #[test]
    fn idle_time_is_not_saved_up() {
        let now = Instant::now();
        let mut limiter = RateLimiter::new(Some(1000), now);
        let later = now + Duration::from_hours(1);
        assert_eq!(limiter.blocked_until(later), None);
        limiter.charge(1000, later);
        assert!(limiter.blocked_until(later).is_some_and(|next| next >= later + Duration::from_millis(900)));
    }
}
