//! The framework of the process, opened by [`default_provider`](crate::default_provider).

use std::sync::RwLock;

use gantry_core::driver::Class;
use gantry_core::{Algorithm, CallerDevice, Operation, Process};
use gantry_runtime::sandbox::is_filtered;
use gantry_runtime::{Config, Error, Origin};

/// The devices of a process, and how much time they save.
pub(crate) struct Framework {
    process: Process,
    /// `None` if aws-lc-rs serves all records of this process.
    caller_device: Option<CallerDevice>,
}

/// The last framework that was opened. A parent's framework is leaked: dropping it could wait for threads that do not exist here.
static LAST_OPENED: RwLock<Option<&Framework>> = RwLock::new(None);

/// The name of the device that represents aws-lc-rs in routes: its code is AWS-LC, too.
const AWS_LC_RS_DEVICE: &str = "software";

impl Framework {
    /// Opens the framework of this process, unless it is open or failed to open, or another thread is opening it.
    pub(crate) fn open() {
        if Self::current().is_some() {
            return;
        }
        // Never waits: in a child of a fork, the lock may belong to a thread of the parent.
        let Ok(mut last) = LAST_OPENED.try_write() else { return };
        if !last.is_some_and(Self::is_current) {
            *last = Some(Self::leak(open()));
        }
    }

    /// Returns the framework of this process, if it is open.
    pub(crate) fn current() -> Option<&'static Self> {
        LAST_OPENED.try_read().ok()?.filter(|last| last.is_current())
    }

    pub(crate) fn leak(caller_device: Option<CallerDevice>) -> &'static Self {
        Box::leak(Box::new(Self { process: Process::current(), caller_device }))
    }

    /// Returns `true` in the process that opened the framework.
    pub(crate) fn is_current(&self) -> bool {
        self.process.is_current()
    }

    /// Returns the devices that may be faster, with aws-lc-rs as one of them.
    pub(crate) fn caller_device(&self) -> Option<&CallerDevice> {
        self.caller_device.as_ref()
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
            let caller_device =
                CallerDevice::new(gantry, AWS_LC_RS_DEVICE, is_policy_named, |device| device.class() == Class::Simd);
            learn_costs(&caller_device);
            Some(caller_device)
        }
        Err(error) => {
            gantry_runtime::stats::report_problem(&format!("aws-lc-rs serves all TLS records: {error}"));
            None
        }
    }
}

/// Reads the stored costs of AES-GCM, or measures and stores them. Records then open no file, which a later filter may forbid.
fn learn_costs(caller_device: &CallerDevice) {
    let algorithms = [Algorithm::Aes128Gcm, Algorithm::Aes256Gcm];
    for algorithm in algorithms.into_iter().filter(|algorithm| caller_device.other_devices(*algorithm).next().is_some())
    {
        for operation in [Operation::Seal, Operation::Open] {
            if caller_device.follows_policy() {
                caller_device.gantry().calibrate(algorithm, operation, false);
            } else {
                caller_device.calibrate(algorithm, operation);
            }
        }
    }
    caller_device.gantry().close_cost_store();
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
