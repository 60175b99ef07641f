//! A measurement in rounds, whose spread shows its reliability.

use std::time::{Duration, Instant};

use nix::time::ClockId;

/// Rounds per measurement of a thread.
const ROUNDS_PER_THREAD: u32 = 8;

/// Time of one request in a round, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Round {
    /// CPU time of the thread.
    pub(crate) cpu_s: f64,
    pub(crate) wall_s: f64,
}

impl Round {
    /// Least share of CPU time of a thread that computes; other programs may take the rest.
    pub(crate) const MIN_CPU_SHARE: f64 = 0.3;

    /// True if the thread computes rather than waits for a device. One busy round suffices, because other programs rarely take the CPU in
    /// all rounds.
    pub(crate) fn is_computing(rounds: &[Round]) -> bool {
        rounds.iter().any(|round| round.cpu_s > Self::MIN_CPU_SHARE * round.wall_s)
    }
}

/// The rounds of a running thread.
pub(super) struct Rounds {
    round_time: Duration,
    round_end: Instant,
    /// Start of the round: time, CPU time of the thread, and requests completed.
    round_start: (Instant, f64, u64),
    pub(super) completed: Vec<Round>,
}

impl Rounds {
    /// Begins the first round.
    pub(super) fn new(start: Instant, time: Duration) -> Self {
        let round_time = time / ROUNDS_PER_THREAD;
        Self {
            round_time,
            round_end: start + round_time,
            round_start: (start, cpu_time(ClockId::CLOCK_THREAD_CPUTIME_ID), 0),
            completed: Vec::new(),
        }
    }

    /// Records that `done` requests are complete, and ends the round if its time is over.
    #[inline]
    pub(super) fn record(&mut self, now: Instant, done: u64) {
        if now >= self.round_end {
            self.end_round(now, done);
        }
    }

    #[cold]
    fn end_round(&mut self, now: Instant, done: u64) {
        let cpu_s = cpu_time(ClockId::CLOCK_THREAD_CPUTIME_ID);
        let (start, cpu_before, done_before) = self.round_start;
        let requests = (done - done_before).max(1) as f64;
        self.completed
            .push(Round { cpu_s: (cpu_s - cpu_before) / requests, wall_s: (now - start).as_secs_f64() / requests });
        (self.round_start, self.round_end) = ((now, cpu_s, done), now + self.round_time);
    }
}

/// Spread of rounds of the same work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    /// Median time of a request, in seconds.
    pub(crate) median: f64,
    /// Interquartile range as a share of the median.
    pub(crate) relative: f64,
    /// Number of rounds that differ from the median by more than 20 %.
    pub(crate) outliers: usize,
}

impl Spread {
    /// Computes the spread by CPU time if the thread computes, so that other programs do not count, and by wall time if it waits for a
    /// device. `None` for fewer than four rounds.
    pub(crate) fn of(rounds: &[Round]) -> Option<Self> {
        const OUTLIER_DISTANCE: f64 = 0.2;
        let is_computing = Round::is_computing(rounds);
        let mut times: Vec<f64> =
            rounds.iter().map(|round| if is_computing { round.cpu_s } else { round.wall_s }).collect();
        times.sort_unstable_by(f64::total_cmp);
        let last = times.len().checked_sub(1).filter(|last| *last >= 3)? as f64;
        let quantile = |share: f64| {
            let position = share * last;
            let (low, high) = (times[position.floor() as usize], times[position.ceil() as usize]);
            low + (high - low) * position.fract()
        };
        let median = quantile(0.5).max(f64::MIN_POSITIVE);
        let is_outlier = |time: &&f64| (**time / median - 1.0).abs() > OUTLIER_DISTANCE;
        let relative = (quantile(0.75) - quantile(0.25)) / median;
        Some(Self { median, relative, outliers: times.iter().filter(is_outlier).count() })
    }
}

/// Returns a CPU time in seconds: of the process, or of this thread. `getrusage` may be late by a scheduler tick, which is milliseconds.
pub(crate) fn cpu_time(clock: ClockId) -> f64 {
    clock.now().map_or(0.0, |time| time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(times: &[f64]) -> Vec<Round> {
        times.iter().map(|&time| Round { cpu_s: time, wall_s: time }).collect()
    }

    #[test]
    fn the_spread_is_the_interquartile_range() {
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        let spread = Spread::of(&rounds(&[1.02, 0.99, 1.0, 1.01, 9.0])).unwrap();
        assert!(near(spread.median, 1.01) && near(spread.relative, 0.02 / 1.01), "{spread:?}");
        assert_eq!(spread.outliers, 1);
        assert_eq!(Spread::of(&rounds(&[1.0; 3])), None);
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn waiting_for_a_device_does_not_count_as_computing() {
        let median = |rounds: &[Round]| Spread::of(rounds).unwrap().median;
        let others_had_the_cpu =
            [(0.5, 0.5), (0.5, 5.0), (0.5, 9.0), (0.5, 2.0)].map(|(cpu_s, wall_s)| Round { cpu_s, wall_s });
        assert!((median(&others_had_the_cpu) - 0.5).abs() < 1e-9);
        assert!((median(&[Round { cpu_s: 0.01, wall_s: 1.0 }; 4]) - 1.0).abs() < 1e-9);
    }
}
