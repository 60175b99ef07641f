//! A measurement in rounds, whose spread shows its reliability.

use std::time::{Duration, Instant};

use nix::time::ClockId;

/// Rounds per measurement of a thread.
const ROUNDS: u32 = 8;

/// Time of one request in a round, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Round {
    /// CPU time of the thread.
    pub(crate) cpu: f64,
    pub(crate) wall: f64,
}

impl Round {
    /// Least share of CPU time of a thread that computes; other programs may take the rest.
    pub(crate) const COMPUTES: f64 = 0.3;

    /// True if the thread computes rather than waits for a device. One busy round suffices, because other programs rarely take the CPU in
    /// all rounds.
    pub(crate) fn compute(rounds: &[Round]) -> bool {
        rounds.iter().any(|round| round.cpu > Self::COMPUTES * round.wall)
    }
}

/// The rounds of a running thread.
pub(super) struct Rounds {
    length: Duration,
    end: Instant,
    /// Start of the round: time, CPU time of the thread, and requests completed.
    began: (Instant, f64, u64),
    pub(super) all: Vec<Round>,
}

impl Rounds {
    /// Begins the first round.
    pub(super) fn new(start: Instant, time: Duration) -> Self {
        let length = time / ROUNDS;
        Self {
            length,
            end: start + length,
            began: (start, cpu_time(ClockId::CLOCK_THREAD_CPUTIME_ID), 0),
            all: Vec::new(),
        }
    }

    /// Records that `done` requests are complete, and ends the round if its time is over.
    #[inline]
    pub(super) fn see(&mut self, now: Instant, done: u64) {
        if now >= self.end {
            self.next(now, done);
        }
    }

    #[cold]
    fn next(&mut self, now: Instant, done: u64) {
        let cpu = cpu_time(ClockId::CLOCK_THREAD_CPUTIME_ID);
        let (start, before, had) = self.began;
        let requests = (done - had).max(1) as f64;
        self.all.push(Round { cpu: (cpu - before) / requests, wall: (now - start).as_secs_f64() / requests });
        (self.began, self.end) = ((now, cpu, done), now + self.length);
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
        const FAR: f64 = 0.2;
        let compute = Round::compute(rounds);
        let mut times: Vec<f64> = rounds.iter().map(|round| if compute { round.cpu } else { round.wall }).collect();
        times.sort_unstable_by(f64::total_cmp);
        let last = times.len().checked_sub(1).filter(|last| *last >= 3)? as f64;
        let quantile = |share: f64| {
            let place = share * last;
            let (low, high) = (times[place.floor() as usize], times[place.ceil() as usize]);
            low + (high - low) * place.fract()
        };
        let median = quantile(0.5).max(f64::MIN_POSITIVE);
        let is_outlier = |time: &&f64| (**time / median - 1.0).abs() > FAR;
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
        times.iter().map(|&time| Round { cpu: time, wall: time }).collect()
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
            [(0.5, 0.5), (0.5, 5.0), (0.5, 9.0), (0.5, 2.0)].map(|(cpu, wall)| Round { cpu, wall });
        assert!((median(&others_had_the_cpu) - 0.5).abs() < 1e-9);
        assert!((median(&[Round { cpu: 0.01, wall: 1.0 }; 4]) - 1.0).abs() < 1e-9);
    }
}
