use std::sync::Arc;

use gantry_core::{Clock, RealClock, VirtualClock};

/// The clock of a modelled device. The framework that uses the device must have the same one.
#[derive(Clone, Debug)]
pub enum Time {
    /// The machine's.
    Real(Arc<RealClock>),
    /// Simulated: on one thread, the same calls take the same time at every run.
    Virtual(Arc<VirtualClock>),
}

impl Time {
    /// The machine's time.
    pub fn real() -> Self {
        Time::Real(Arc::default())
    }

    pub(crate) fn now(&self) -> u64 {
        self.clock().now()
    }

    /// Lets a modelled cost pass, less what has really passed since `start`.
    pub(crate) fn spend(&self, ns: u64, start: u64) {
        let clock = self.clock();
        clock.spend(ns.saturating_sub(clock.now() - start));
    }

    /// Tells the virtual clock that something happens at `time`.
    pub(crate) fn announce(&self, time: u64) {
        if let Time::Virtual(clock) = self {
            clock.at(time);
        }
    }

    pub(crate) fn is_real(&self) -> bool {
        matches!(self, Time::Real(_))
    }

    fn clock(&self) -> &dyn Clock {
        match self {
            Time::Real(clock) => &**clock,
            Time::Virtual(clock) => &**clock,
        }
    }
}

impl From<Arc<VirtualClock>> for Time {
    fn from(clock: Arc<VirtualClock>) -> Self {
        Time::Virtual(clock)
    }
}
