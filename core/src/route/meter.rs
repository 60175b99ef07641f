//! By which clock a device is measured.

use crate::clock::Clock;
use crate::driver::Class;

/// What a look at a clock takes, in nanoseconds: as much longer seems what lies between two of them.
#[derive(Clone, Copy)]
pub(super) struct Looks {
    wall: u64,
    /// `None` where no clock shows the thread's own time, or one that goes in steps.
    cpu: Option<u64>,
}

impl Looks {
    pub(super) fn new(clock: &dyn Clock) -> Self {
        const LOOKS: u64 = 100;
        // The shortest: whatever happens in between is no part of it, and a clock may jump.
        let shortest = |look: &dyn Fn() -> Option<u64>| (0..LOOKS).filter_map(|_| look()).min();
        let wall = || {
            let start = clock.now();
            clock.now().checked_sub(start)
        };
        let cpu = || {
            let start = clock.cpu()?;
            clock.cpu()?.checked_sub(start)
        };
        Self { wall: shortest(&wall).unwrap_or(0), cpu: shortest(&cpu).filter(|look| *look > 0) }
    }

    /// For a device that computes in the thread, the thread's own time: that of other programs in between is none of the device's.
    pub(super) fn meter(self, class: Class, direct: bool) -> Meter {
        let computes = direct && matches!(class, Class::Software | Class::Simd);
        let cpu = self.cpu.filter(|_| computes);
        Meter { is_cpu: cpu.is_some(), look: cpu.unwrap_or(self.wall) }
    }
}

/// Measures what lies between two moments of a thread, in nanoseconds.
#[derive(Clone, Copy)]
pub(crate) struct Meter {
    is_cpu: bool,
    look: u64,
}

impl Meter {
    pub(crate) fn now(self, clock: &dyn Clock) -> u64 {
        if self.is_cpu { clock.cpu().unwrap_or(0) } else { clock.now() }
    }

    pub(crate) fn since(self, start: u64, clock: &dyn Clock) -> u64 {
        self.now(clock).saturating_sub(start).saturating_sub(self.look)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::*;

    /// A look takes 20 ns, of which the thread has as many as `cpu` says.
    #[derive(Debug)]
    struct Looked {
        looks: AtomicU64,
        jump: u64,
        cpu: fn(u64) -> Option<u64>,
    }

    impl Clock for Looked {
        fn now(&self) -> u64 {
            let look = self.looks.fetch_add(1, Relaxed);
            // Forward at one look, and back at another.
            look * 20 + if (51..120).contains(&look) { self.jump } else { 0 }
        }
        fn wait(&self, _: Option<u64>) {}
        fn spend(&self, _: u64) {}
        fn cpu(&self) -> Option<u64> {
            (self.cpu)(self.looks.fetch_add(1, Relaxed))
        }
    }

    fn looks(jump: u64, cpu: fn(u64) -> Option<u64>) -> Looks {
        Looks::new(&Looked { looks: AtomicU64::new(0), jump, cpu })
    }

    #[test]
    fn a_clock_that_jumps_makes_no_look_dear() {
        assert_eq!(looks(4_000_000, |_| None).wall, 20);
    }

    #[test]
    fn what_computes_in_the_thread_is_measured_by_its_own_time_where_that_is_known_well() {
        let precise = looks(0, |look| Some(look * 15));
        assert_eq!(precise.cpu, Some(15));
        assert!(precise.meter(Class::Software, true).is_cpu && precise.meter(Class::Simd, true).is_cpu);
        assert!(!precise.meter(Class::Software, false).is_cpu, "a ring may compute elsewhere");
        assert!(!precise.meter(Class::Kernel, true).is_cpu, "the thread may sleep there");
        let coarse = looks(0, |look| Some(look / 50 * 10_000_000));
        assert!(!coarse.meter(Class::Software, true).is_cpu, "of ticks");
        assert_eq!(looks(0, |_| None).meter(Class::Software, true).look, 20);
    }
}
