//! The clock that measures a device.

use crate::clock::Clock;
use crate::driver::Class;

/// The time that reading a clock takes, in nanoseconds. An interval between two readings seems longer by the time of one reading.
#[derive(Clone, Copy)]
pub(super) struct ClockCosts {
    wall: u64,
    /// `None` if no clock shows the thread's own time, or if this clock goes in steps.
    cpu: Option<u64>,
}

impl ClockCosts {
    pub(super) fn new(clock: &dyn Clock) -> Self {
        const READINGS: u64 = 100;
        // The shortest reading includes no interruption and no jump of the clock.
        let shortest = |reading: &dyn Fn() -> Option<u64>| (0..READINGS).filter_map(|_| reading()).min();
        let wall = || {
            let start = clock.now();
            clock.now().checked_sub(start)
        };
        let cpu = || {
            let start = clock.thread_cpu_time()?;
            clock.thread_cpu_time()?.checked_sub(start)
        };
        Self { wall: shortest(&wall).unwrap_or(0), cpu: shortest(&cpu).filter(|reading| *reading > 0) }
    }

    /// Returns the clock of a device. For software that computes in the thread, the clock is the thread's own CPU time if possible, which
    /// excludes the time of other programs.
    pub(super) fn meter(self, class: Class, synchronous: bool) -> Meter {
        let runs_in_thread = synchronous && matches!(class, Class::Software | Class::Simd);
        let cpu = self.cpu.filter(|_| runs_in_thread);
        Meter { is_cpu: cpu.is_some(), overhead: cpu.unwrap_or(self.wall) }
    }
}

/// Measures the time between two moments of a thread, in nanoseconds.
#[derive(Clone, Copy)]
pub(crate) struct Meter {
    is_cpu: bool,
    overhead: u64,
}

impl Meter {
    pub(crate) fn now(self, clock: &dyn Clock) -> u64 {
        if self.is_cpu { clock.thread_cpu_time().unwrap_or(0) } else { clock.now() }
    }

    pub(crate) fn since(self, start: u64, clock: &dyn Clock) -> u64 {
        self.now(clock).saturating_sub(start).saturating_sub(self.overhead)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::*;

    /// A clock whose reading takes 20 ns. `cpu` returns the thread's own time at a reading.
    #[derive(Debug)]
    struct SteppingClock {
        readings: AtomicU64,
        jump: u64,
        cpu: fn(u64) -> Option<u64>,
    }

    impl Clock for SteppingClock {
        fn now(&self) -> u64 {
            let reading = self.readings.fetch_add(1, Relaxed);
            // Jumps forward at one reading, and back at another.
            reading * 20 + if (51..120).contains(&reading) { self.jump } else { 0 }
        }
        fn wait(&self, _: Option<u64>) {}
        fn spend(&self, _: u64) {}
        fn thread_cpu_time(&self) -> Option<u64> {
            (self.cpu)(self.readings.fetch_add(1, Relaxed))
        }
    }

    fn clock_costs(jump: u64, cpu: fn(u64) -> Option<u64>) -> ClockCosts {
        ClockCosts::new(&SteppingClock { readings: AtomicU64::new(0), jump, cpu })
    }

    #[test]
    fn jumps_of_the_clock_do_not_count_as_time_of_a_reading() {
        assert_eq!(clock_costs(4_000_000, |_| None).wall, 20);
    }

    #[test]
    fn uses_a_precise_cpu_clock_for_devices_in_the_thread() {
        let precise = clock_costs(0, |reading| Some(reading * 15));
        assert_eq!(precise.cpu, Some(15));
        assert!(precise.meter(Class::Software, true).is_cpu && precise.meter(Class::Simd, true).is_cpu);
        assert!(!precise.meter(Class::Software, false).is_cpu, "a ring may compute elsewhere");
        assert!(!precise.meter(Class::Kernel, true).is_cpu, "the thread may sleep there");
        let coarse = clock_costs(0, |reading| Some(reading / 50 * 10_000_000));
        assert!(!coarse.meter(Class::Software, true).is_cpu, "this clock advances in ticks");
        assert_eq!(clock_costs(0, |_| None).meter(Class::Software, true).overhead, 20);
    }
}
