//! Facts about the process and the machine. They are determined when the module is loaded, because a program may filter its system calls
//! (seccomp) before its first request. Forked children inherit them.

use std::sync::Arc;

use gantry_core::Process;
use gantry_core::route::CostStore;
use gantry_runtime::CostCache;
use gantry_runtime::sandbox::is_filtered;

use crate::config::Settings;
use crate::libcrypto::stack;

#[derive(Default)]
pub(crate) struct Startup {
    /// True if system calls were filtered when the module was loaded.
    is_filtered: bool,
    pub(crate) costs: Option<Arc<dyn CostStore>>,
}

impl Startup {
    pub(crate) fn new(settings: &Settings) -> Self {
        if is_filtered() {
            return Self { is_filtered: true, costs: None };
        }
        // Each function keeps its answer, so it makes its system calls now. They create the page that detects forks, read the files of the
        // control group, and find the bounds of this thread's stack.
        let _ = (Process::current(), gantry_core::cpus(), stack::has_room());
        // Only measurements for `gantry` commands are stored: a program may be filtered by the time it has measured a device.
        let stored = |cache: CostCache| -> Arc<dyn CostStore> {
            if settings.measure.is_some() { Arc::new(cache) } else { Arc::new(cache.snapshot()) }
        };
        Self { is_filtered: false, costs: CostCache::for_user().map(stored) }
    }

    /// Returns true if a filter of system calls could end the process for a request.
    pub(crate) fn is_sandboxed(&self, settings: &Settings) -> bool {
        self.is_filtered || settings.runtime.makes_system_calls() && is_filtered()
    }
}
