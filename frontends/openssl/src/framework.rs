//! The framework of a provider: opened at the first request that may need it, and again in each child of a fork.

use std::time::Instant;

use gantry_core::driver::{Class, Driver};
use gantry_core::route::Savings;
use gantry_core::{
    Algorithm, CallerDevice, DeviceState, Fault, Operation, Process, RegisteredDevice, Session, SessionParams,
};

use crate::config::Settings;
use crate::derivations::Derivations;
use crate::driver;
use crate::startup::Startup;

/// The side that serves a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    DefaultProvider,
    Device,
}

/// The devices, including the default provider, and how much time the other devices save compared with it.
pub(crate) struct Framework {
    pub(crate) caller_device: CallerDevice,
    /// Present if there are lanes and the operator allows them.
    derivations: Option<Derivations>,
    pub(crate) process: Process,
}

/// A framework, or the fact that there is none.
pub(crate) struct FrameworkState {
    pub(crate) framework: Option<Framework>,
    /// The only process in which this state is valid; `None` if it is also valid in all descendants.
    process: Option<Process>,
}

impl FrameworkState {
    pub(crate) fn new(settings: &Settings, startup: &Startup, default_provider: &dyn Driver) -> Self {
        match Framework::open(settings, startup, default_provider) {
            Ok(framework) => Self { process: Some(framework.process), framework: Some(framework) },
            // A child inherits the filter, so this state is also valid there. `Process::current` is not called, because it may make
            // system calls that end the process.
            Err(OpenError::Sandbox) => Self { framework: None, process: None },
            Err(OpenError::Unavailable(error)) => {
                gantry_runtime::stats::report_problem(&format!("OpenSSL serves all requests: {error}"));
                Self { framework: None, process: Some(Process::current()) }
            }
        }
    }

    /// Returns true if this state is valid in the calling process, not only in a parent that forked it.
    pub(crate) fn is_current(&self) -> bool {
        self.process.is_none_or(Process::is_current)
    }
}

pub(crate) enum OpenError {
    /// System calls are filtered; a forbidden one could end the process.
    Sandbox,
    /// The devices or the policy of the configuration are not available.
    Unavailable(gantry_runtime::Error),
}

impl Framework {
    /// Opens the framework. Without one, the default provider serves everything.
    pub(crate) fn open(
        settings: &Settings,
        startup: &Startup,
        default_provider: &dyn Driver,
    ) -> Result<Self, OpenError> {
        if startup.is_sandboxed(settings) {
            return Err(OpenError::Sandbox);
        }
        let gantry = gantry_runtime::open_with(settings.runtime.clone(), &[default_provider], startup.costs.clone());
        let gantry = gantry.map_err(OpenError::Unavailable)?;
        let pinned_device = settings.pinned_device();
        let has_lanes = settings.soft_drivers.allows(Class::Simd)
            && gantry.devices().iter().any(|device| {
                device.class() == Class::Simd
                    && !matches!(device.state(), DeviceState::Excluded(_))
                    && pinned_device.as_ref().is_none_or(|pinned| pinned == device.name())
            });
        let derivations = has_lanes.then(|| Derivations::new(settings.runtime.cpu().parse().ok()));
        let soft = settings.soft_drivers;
        // A policy that pins all requests to the default provider keeps them from devices even if it lacks the algorithm.
        let is_pinned_to_default = pinned_device.as_deref() == Some(driver::DEVICE_NAME);
        let may_serve = move |device: &RegisteredDevice| !is_pinned_to_default && soft.allows(device.class());
        let caller_device = CallerDevice::new(gantry, driver::DEVICE_NAME, settings.has_named_policy, may_serve);
        Ok(Self { caller_device, derivations, process: Process::current() })
    }

    /// Returns how much time the devices save, as far as that is known.
    #[inline]
    pub(crate) fn savings(&self, algorithm: Algorithm, operation: Operation) -> &Savings {
        self.caller_device.savings(algorithm, operation)
    }

    /// Returns the key derivations, if there are lanes for them.
    pub(crate) fn derivations(&self) -> Option<&Derivations> {
        self.derivations.as_ref()
    }
}

/// The result of offering a request to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeviceResult {
    /// The default provider must serve the request, after any buffered data.
    Declined,
    Done,
    /// The data are lost: the device overwrote them in place.
    Failed,
}

/// The part of a context that sends requests to devices, under one key.
#[derive(Clone, Default)]
pub(crate) struct DeviceSide {
    session: Option<Session>,
    /// The process in which the session was opened or the current message started.
    process: Option<Process>,
    /// Nanoseconds lost so far by staying with the default provider.
    lost_ns: u32,
    /// True once the session is in use: the time to open it no longer has to pay off.
    is_open: bool,
    /// True if the default provider serves everything under this key: no session can be opened, or a device has failed.
    is_unavailable: bool,
}

pub(crate) fn elapsed_ns(begun: Instant) -> u32 {
    u32::try_from(begun.elapsed().as_nanos()).unwrap_or(u32::MAX - 1)
}

impl DeviceSide {
    /// Resets everything for another key, and gives up the session of the last key.
    pub(crate) fn new_key(&mut self) {
        self.forget();
        *self = Self::default();
    }

    /// Decides which side serves one request. If the result is `Device`, `self` holds a session.
    pub(crate) fn choose_side(
        &mut self,
        framework: &Framework,
        operation: Operation,
        bytes: usize,
        params: impl Fn() -> SessionParams,
        algorithm: Algorithm,
    ) -> Side {
        self.bind_to(framework);
        if self.is_unavailable {
            return Side::DefaultProvider;
        }
        let saved_ns =
            framework.caller_device.saved_ns(algorithm, operation, bytes, || self.open_session(framework, &params));
        if saved_ns == 0 {
            return Side::DefaultProvider;
        }
        if !self.is_open {
            // Opens a session once staying with the default provider has cost as much as opening takes.
            self.lost_ns = self.lost_ns.saturating_add(saved_ns);
            if self.lost_ns < framework.savings(algorithm, operation).open_ns()
                || self.open_session(framework, &params).is_none()
            {
                return Side::DefaultProvider;
            }
        }
        Side::Device
    }

    /// Returns the session, opening it if necessary, regardless of the side that will run the requests.
    pub(crate) fn session(&mut self, framework: &Framework, params: impl Fn() -> SessionParams) -> Option<Session> {
        self.bind_to(framework);
        if self.is_unavailable { None } else { self.open_session(framework, &params) }
    }

    /// Returns the session for `requests` requests with `bytes` bytes in total, if a device serves these requests faster than the default
    /// provider.
    pub(crate) fn session_for_batch(
        &mut self,
        framework: &Framework,
        operation: Operation,
        (bytes, requests): (usize, usize),
        params: impl Fn() -> SessionParams,
    ) -> Option<Session> {
        let session = if requests < 2 { None } else { self.session(framework, params) }?;
        framework.caller_device.routes_elsewhere(&session, operation, bytes / requests, requests).then_some(session)
    }

    /// Opens an object of the session, such as a stream, with `open`. Records the time that this takes, because it decides when opening
    /// pays off.
    pub(crate) fn open_timed<T>(
        &mut self,
        savings: &Savings,
        open: impl FnOnce(&Session) -> gantry_core::Result<T>,
    ) -> Option<T> {
        let begun = Instant::now();
        let opened = open(self.session.as_ref()?);
        (self.is_open, self.is_unavailable) = (opened.is_ok(), opened.is_err());
        savings.record_opening(elapsed_ns(begun));
        opened.ok()
    }

    /// Binds this to the framework's process. Drops the state if it belongs to another process.
    pub(crate) fn bind_to(&mut self, framework: &Framework) {
        if !self.is_bound_to(framework) {
            self.forget();
            *self = Self { process: Some(framework.process), ..Self::default() };
        }
    }

    /// Returns true if the session may be closed, that is, if this process opened it, and not the parent that forked this process.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.process.is_some_and(Process::is_current)
    }

    /// Returns true if the current message began in this process.
    pub(crate) fn is_bound_to(&self, framework: &Framework) -> bool {
        self.process == Some(framework.process)
    }

    /// Returns the session for a context that is about to use it, and records that it is in use.
    pub(crate) fn session_for_use(&mut self) -> Option<&Session> {
        self.is_open = self.session.is_some();
        self.session.as_ref()
    }

    /// Gives up on devices: under this key, the default provider serves everything from now on.
    pub(crate) fn give_up(&mut self) {
        self.session = None;
        self.is_unavailable = true;
    }

    /// Gives up on devices after one failed request. Returns `Declined` if the default provider can still serve the request. A device that
    /// fails leaves the data unchanged, but a driver that panics promises nothing.
    pub(crate) fn give_up_after(&mut self, error: &gantry_core::Error, is_in_place: bool) -> DeviceResult {
        self.give_up();
        let has_panicked = matches!(error, gantry_core::Error::Device { last: Fault::Panicked, .. });
        if is_in_place && has_panicked { DeviceResult::Failed } else { DeviceResult::Declined }
    }

    fn open_session(&mut self, framework: &Framework, params: &impl Fn() -> SessionParams) -> Option<Session> {
        if self.session.is_none() {
            self.session = framework.caller_device.gantry().session(params()).ok();
            self.is_unavailable = self.session.is_none();
        }
        self.session.clone()
    }

    /// Drops the session. In a child the parent's session is leaked: dropping it might wait for threads that do not exist here.
    fn forget(&mut self) {
        let session = self.session.take();
        if !self.is_of_this_process() {
            std::mem::forget(session);
        }
    }
}
