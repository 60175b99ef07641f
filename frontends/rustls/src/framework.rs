//! The framework of the process, opened by the first record that may need it, and again in each child of a fork.

use std::sync::RwLock;

use gantry_core::driver::Class;
use gantry_core::{CallerDevice, Process};
use gantry_runtime::sandbox::is_filtered;
use gantry_runtime::{Config, Error, Origin};

/// The devices of a process, and how much they save.
pub(crate) struct Framework {
    process: Process,
    /// `None` if aws-lc-rs serves all records of this process.
    caller: Option<CallerDevice>,
}

/// The last framework that was opened. One of another process is left in memory: dropping it could wait for threads that do not exist here.
static LAST: RwLock<Option<&Framework>> = RwLock::new(None);

/// The device that stands for aws-lc-rs, which is the same AWS-LC.
const OWN: &str = "software";

impl Framework {
    /// Returns the framework of this process. Opens it if no other thread does so; until then aws-lc-rs serves.
    pub(crate) fn current() -> Option<&'static Self> {
        // Never waits: in a child of a fork, the lock may belong to a thread of the parent.
        let of_this_process = |last: &&Framework| last.is_current();
        if let Some(framework) = LAST.try_read().ok()?.filter(of_this_process) {
            return Some(framework);
        }
        let mut last = LAST.try_write().ok()?;
        if !last.as_ref().is_some_and(of_this_process) {
            *last = Some(Box::leak(Box::new(Self { process: Process::current(), caller: open() })));
        }
        *last
    }

    /// Returns `true` in the process that opened the framework.
    pub(crate) fn is_current(&self) -> bool {
        self.process.is_current()
    }

    /// Returns the devices that may be faster, with aws-lc-rs as one of them.
    pub(crate) fn caller(&self) -> Option<&CallerDevice> {
        self.caller.as_ref()
    }
}

fn open() -> Option<CallerDevice> {
    // A filter could end the process for a system call that only Gantry makes.
    if is_filtered() {
        return None;
    }
    let opened = configuration().and_then(|config| {
        let is_named = config.show().iter().any(|shown| shown.key == "policy" && shown.origin != Origin::Default);
        Ok((gantry_runtime::open(config)?, is_named))
    });
    match opened {
        Ok((gantry, is_policy_named)) => {
            Some(CallerDevice::new(gantry, OWN, is_policy_named, |device| device.class() == Class::Simd))
        }
        Err(error) => {
            gantry_runtime::stats::report_problem(&format!("aws-lc-rs serves all TLS records: {error}"));
            None
        }
    }
}

#[cfg(not(test))]
fn configuration() -> Result<Config, Error> {
    Config::from_env()
}

/// Tests run in lanes on every CPU.
#[cfg(test)]
fn configuration() -> Result<Config, Error> {
    Config::from_toml("policy = \"pin:lanes\"", "the tests")
}
