//! The health of a device: trust, load, backlog and deadlines.

use std::sync::{Arc, OnceLock};

use super::backlog::Backlog;
use super::coalescer::CommonState;
use crate::algorithm::{Algorithm, Operation};
use crate::driver::DeviceInfo;
use crate::route::Load;
use crate::stats::{Event, Site};
use crate::trust::{Deadlines, Trust};

pub(crate) struct Health {
    pub(crate) trust: Trust,
    deadlines: Deadlines,
    pub(crate) load: Arc<Load>,
    /// Requests that wait for room.
    pub(crate) backlog: Backlog,
    /// An algorithm and operation of the device, for events that are not about one request.
    default_work: (Algorithm, Operation),
    environment: OnceLock<Environment>,
}

/// The place of a device in its framework, and the state that it shares with the other devices.
pub(crate) struct Environment {
    /// The index of the device in the framework.
    pub(crate) index: usize,
    pub(crate) common: Arc<CommonState>,
}

impl Health {
    pub(crate) fn new(info: &DeviceInfo) -> Self {
        let load = Arc::<Load>::default();
        let default_work = info.capabilities.first().map_or((Algorithm::Null, Operation::Encrypt), |first| {
            let kind = first.algorithm.kind();
            (first.algorithm, first.operations.first().copied().unwrap_or(kind.operations()[0]))
        });
        Self {
            trust: Trust::default(),
            deadlines: Deadlines::default(),
            backlog: Backlog::new(load.clone()),
            load,
            default_work,
            environment: OnceLock::new(),
        }
    }

    /// Sets the environment, once: when the framework is built, or when the device is added to it.
    pub(crate) fn set_environment(&self, index: usize, common: &Arc<CommonState>) {
        self.environment.get_or_init(|| Environment { index, common: common.clone() });
    }

    pub(crate) fn environment(&self) -> &Environment {
        self.environment.get().expect("a device serves no request before its framework is built")
    }

    /// Returns the counters' key for events that are not about one request.
    pub(crate) fn site(&self) -> Site {
        Site::new(self.environment().index, self.default_work.0, self.default_work.1)
    }

    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        self.trust.is_ready()
    }

    /// Quarantines the device, which failed at `site`. It stays in quarantine until it has passed its known-answer tests again.
    pub(crate) fn quarantine(&self, site: Site) {
        let Environment { index, common } = self.environment();
        if self.trust.quarantine(common.clock.now()) {
            common.set_quarantined(*index, true);
            common.stats.this_thread().count_event(site, Event::Quarantined, 1);
        }
    }

    /// Ends a probation. `works`: the device has passed its known-answer tests again.
    pub(crate) fn end_probation(&self, works: bool) {
        let Environment { index, common } = self.environment();
        if self.trust.end_probation(works, common.clock.now()) {
            common.set_quarantined(*index, false);
            // The device may have failed again between these two steps.
            if !self.trust.is_ready() {
                common.set_quarantined(*index, true);
            }
            common.stats.this_thread().count_event(self.site(), Event::Returned, 1);
        }
    }

    /// Records the time that `requests` requests were in the device.
    pub(crate) fn record_time(&self, bytes: usize, ns: u64, requests: usize) {
        self.deadlines.record(bytes, ns, requests);
    }

    /// Returns the maximum time of a request in the device, in nanoseconds.
    pub(crate) fn deadline_ns(&self, bytes: usize) -> u64 {
        self.deadlines.deadline_ns(bytes)
    }
}
