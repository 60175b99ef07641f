//! The machine's clock.

use gantry_core::{Clock, RealClock};
use nix::time::{ClockId, clock_gettime};

/// [`RealClock`] with the CPU time of threads, which core's clock does not have.
#[derive(Debug, Default)]
pub(crate) struct MachineClock(RealClock);

impl Clock for MachineClock {
    fn now(&self) -> u64 {
        self.0.now()
    }

    fn wait(&self, until: Option<u64>) {
        self.0.wait(until);
    }

    fn spend(&self, ns: u64) {
        self.0.spend(ns);
    }

    /// Returns `None` if a sandbox forbids the system call.
    fn thread_cpu_time(&self) -> Option<u64> {
        let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).ok()?;
        let (seconds, nanos) = (u64::try_from(time.tv_sec()).ok()?, u64::try_from(time.tv_nsec()).ok()?);
        seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_uses_no_cpu_time_and_spending_does() {
        let clock = MachineClock::default();
        let cpu = || clock.thread_cpu_time().expect("Linux has a clock for each thread");
        let before = cpu();
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(cpu() - before < 10_000_000, "asleep");
        let before = cpu();
        while cpu() - before < 1_000_000 {
            clock.spend(100_000);
        }
    }
}
