//! The clocks of a modelled device: real or virtual time.

use std::sync::Arc;

use gantry_core::{Clock, RealClock, VirtualClock};

/// The clock of a modelled device. The framework that uses the device must have the same clock.
#[derive(Clone, Debug)]
pub enum ModelClock {
    /// The machine's clock.
    Real(Arc<RealClock>),
    /// A simulated clock: on one thread, the same calls take the same time in every run.
    Virtual(Arc<VirtualClock>),
}

impl ModelClock {
    /// Returns the machine's clock.
    pub fn real() -> Self {
        ModelClock::Real(Arc::default())
    }

    pub(crate) fn now(&self) -> u64 {
        self.clock().now()
    }

    /// Waits for a modelled duration, less the time that has passed since `start`.
    pub(crate) fn spend(&self, ns: u64, start: u64) {
        let clock = self.clock();
        clock.spend(ns.saturating_sub(clock.now() - start));
    }

    /// Tells the virtual clock that an event happens at `time`.
    pub(crate) fn announce(&self, time: u64) {
        if let ModelClock::Virtual(clock) = self {
            clock.announce(time);
        }
    }

    pub(crate) fn is_real(&self) -> bool {
        matches!(self, ModelClock::Real(_))
    }

    fn clock(&self) -> &dyn Clock {
        match self {
            ModelClock::Real(clock) => &**clock,
            ModelClock::Virtual(clock) => &**clock,
        }
    }
}

impl From<Arc<VirtualClock>> for ModelClock {
    fn from(clock: Arc<VirtualClock>) -> Self {
        ModelClock::Virtual(clock)
    }
}
