//! How a device is doing: trusted or not, how much is in it, what waits for it, how long it may take.

use std::sync::{Arc, OnceLock};

use super::backlog::Backlog;
use super::coalescer::Common;
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
    /// An algorithm and operation of the device, for what is counted of it and not about one request.
    any: (Algorithm, Operation),
    surroundings: OnceLock<Surroundings>,
}

/// Where a device is.
pub(crate) struct Surroundings {
    /// Its place in the framework.
    pub(crate) place: usize,
    pub(crate) common: Arc<Common>,
}

impl Health {
    pub(crate) fn new(info: &DeviceInfo) -> Self {
        let load = Arc::<Load>::default();
        let any = info.capabilities.first().map_or((Algorithm::Null, Operation::Encrypt), |first| {
            let kind = first.algorithm.kind();
            (first.algorithm, first.operations.first().copied().unwrap_or(kind.operations()[0]))
        });
        Self {
            trust: Trust::default(),
            deadlines: Deadlines::default(),
            backlog: Backlog::new(load.clone()),
            load,
            any,
            surroundings: OnceLock::new(),
        }
    }

    /// Said once, when the framework is built.
    pub(crate) fn place_in(&self, place: usize, common: &Arc<Common>) {
        self.surroundings.get_or_init(|| Surroundings { place, common: common.clone() });
    }

    pub(crate) fn surroundings(&self) -> &Surroundings {
        self.surroundings.get().expect("a device serves nobody before its framework is built")
    }

    /// What is counted of the device, when it is not about one request.
    pub(crate) fn site(&self) -> Site {
        Site::new(self.surroundings().place, self.any.0, self.any.1)
    }

    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        self.trust.is_ready()
    }

    /// The device failed at `site`. It serves nobody until it has passed its known-answer tests again.
    pub(crate) fn fail(&self, site: Site) {
        let Surroundings { place, common } = self.surroundings();
        if self.trust.quarantine(common.clock.now()) {
            common.set_ailing(*place, true);
            common.stats.here().event(site, Event::Quarantined, 1);
        }
    }

    /// Ends a probation.
    pub(crate) fn judge(&self, works: bool) {
        let Surroundings { place, common } = self.surroundings();
        if self.trust.judge(works, common.clock.now()) {
            common.set_ailing(*place, false);
            // It may have failed again between these two.
            if !self.trust.is_ready() {
                common.set_ailing(*place, true);
            }
            common.stats.here().event(self.site(), Event::Returned, 1);
        }
    }

    /// Notes how long so many requests were in the device.
    pub(crate) fn took(&self, bytes: usize, ns: u64, requests: usize) {
        self.deadlines.took(bytes, ns, requests);
    }

    /// How long a request may be in the device.
    pub(crate) fn deadline(&self, bytes: usize) -> u64 {
        self.deadlines.deadline(bytes)
    }
}
