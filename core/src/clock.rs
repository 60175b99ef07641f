//! Time, as the framework and its devices see it: real, or simulated.
//!
//! All code of core reads the clock of its framework.

use std::fmt;
use std::time::Instant;

/// A source of time in nanoseconds, and ways to wait.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Returns the nanoseconds since a fixed moment in the past. Never goes back.
    fn now(&self) -> u64;

    /// Waits for a while, at most until [`now`](Self::now) returns `until`. `None` sets no limit. A thread that waits for a device calls
    /// this function repeatedly.
    fn wait(&self, until: Option<u64>);

    /// Spends `ns` nanoseconds of CPU time, as the driver of a modelled engine does.
    fn spend(&self, ns: u64);

    /// Returns the CPU time of the calling thread in nanoseconds, if it is known.
    fn thread_cpu_time(&self) -> Option<u64> {
        None
    }
}

/// The machine's own time.
#[derive(Debug)]
pub struct RealClock {
    start: Instant,
}

impl Default for RealClock {
    fn default() -> Self {
        Self { start: Instant::now() }
    }
}

impl Clock for RealClock {
    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Lets other threads run.
    fn wait(&self, _until: Option<u64>) {
        std::thread::yield_now();
    }

    fn spend(&self, ns: u64) {
        let end = self.now().saturating_add(ns);
        while self.now() < end {
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spend_passes_real_time() {
        let clock = RealClock::default();
        let before = clock.now();
        clock.spend(50_000);
        assert!(clock.now() >= before + 50_000);
    }
}
