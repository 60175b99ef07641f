//! The framework of a provider: opened at the first request that may need it, and once more in each child of a fork.

use std::time::Instant;

use gantry_core::driver::{Class, Driver};
use gantry_core::route::Worth;
use gantry_core::{
    Algorithm, Beside, DeviceState, Fault, Operation, Process, RegisteredDevice, Session, SessionParams,
};
use gantry_runtime::sandbox::is_filtered;

use crate::config::Settings;
use crate::derivations::Derivations;
use crate::host;

/// Who serves a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Host,
    Device,
}

/// The devices, the host among them, and what these save.
pub(crate) struct Framework {
    pub(crate) beside: Beside,
    /// Where there are lanes, and the operator allows them.
    derivations: Option<Derivations>,
    pub(crate) process: Process,
}

/// A framework, or the knowledge that there is none.
pub(crate) struct Opened {
    pub(crate) framework: Option<Framework>,
    /// The only process of which that is true; without one, it is true of all that come of this one.
    process: Option<Process>,
}

impl Opened {
    pub(crate) fn new(settings: &Settings, host: &dyn Driver) -> Self {
        match Framework::open(settings, host) {
            Ok(framework) => Self { process: Some(framework.process), framework: Some(framework) },
            // A filter stays, in children, too. To ask which process this is may be a call for which it ends the process.
            Err(Closed::Sandbox) => Self { framework: None, process: None },
            Err(Closed::Without(error)) => {
                gantry_runtime::stats::tell(&format!("everything is the host's: {error}"));
                Self { framework: None, process: Some(Process::current()) }
            }
        }
    }

    /// Whether it is true here, and not in a process that this one comes from.
    pub(crate) fn is_current(&self) -> bool {
        self.process.is_none_or(Process::is_current)
    }
}

/// Why no framework was opened.
pub(crate) enum Closed {
    /// System calls are filtered, so that one too many would end the process.
    Sandbox,
    /// The devices or the policy that the operator wants are not there.
    Without(gantry_runtime::Error),
}

impl Framework {
    /// Without one the host serves everything.
    pub(crate) fn open(settings: &Settings, host: &dyn Driver) -> Result<Self, Closed> {
        if is_filtered() {
            return Err(Closed::Sandbox);
        }
        let gantry = gantry_runtime::open_with(settings.runtime.clone(), &[host]).map_err(Closed::Without)?;
        let pinned = settings.pinned();
        let has_lanes = settings.soft.allows(Class::Simd)
            && gantry.devices().iter().any(|device| {
                device.class() == Class::Simd
                    && !matches!(device.state(), DeviceState::Excluded(_))
                    && pinned.as_ref().is_none_or(|pinned| pinned == device.name())
            });
        let derivations = has_lanes.then(|| Derivations::new(settings.runtime.cpu().parse().ok()));
        let soft = settings.soft;
        let may_serve = move |device: &RegisteredDevice| soft.allows(device.class());
        let beside = Beside::new(gantry, host::NAME, settings.policy_named, may_serve);
        Ok(Self { beside, derivations, process: Process::current() })
    }

    /// What devices save, as far as that is known.
    #[inline]
    pub(crate) fn worth(&self, algorithm: Algorithm, operation: Operation) -> &Worth {
        self.beside.worth(algorithm, operation)
    }

    /// Key derivations, where there are lanes for them.
    pub(crate) fn derivations(&self) -> Option<&Derivations> {
        self.derivations.as_ref()
    }
}

/// What became of a request that may have gone to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// The host is to do it, after what was held.
    Host,
    Good,
    Bad,
}

/// What a context needs to lead requests elsewhere, under one key.
#[derive(Clone, Default)]
pub(crate) struct Engine {
    session: Option<Session>,
    /// In which the session was opened, or what is under way began.
    process: Option<Process>,
    /// Nanoseconds that were lost so far by staying with the host.
    lost: u32,
    /// The session serves.
    open: bool,
    /// No session can be had under this key.
    refused: bool,
}

pub(crate) fn nanoseconds(begun: Instant) -> u32 {
    u32::try_from(begun.elapsed().as_nanos()).unwrap_or(u32::MAX - 1)
}

impl Engine {
    /// Another key: what was opened under the last one is of no use.
    pub(crate) fn new_key(&mut self) {
        self.forget();
        *self = Self::default();
    }

    /// Which way one request goes. When it is the device's, there is a session.
    pub(crate) fn side(
        &mut self,
        framework: &Framework,
        operation: Operation,
        bytes: usize,
        params: impl Fn() -> SessionParams,
        algorithm: Algorithm,
    ) -> Side {
        self.belong_to(framework);
        if self.refused {
            return Side::Host;
        }
        let saved = framework.beside.saves(algorithm, operation, bytes, || self.session(framework, &params));
        if saved == 0 {
            return Side::Host;
        }
        if !self.open {
            // A session is opened when staying with the host has cost as much as opening it does.
            self.lost = self.lost.saturating_add(saved);
            if self.lost < framework.worth(algorithm, operation).open_ns() || self.session(framework, &params).is_none()
            {
                return Side::Host;
            }
        }
        Side::Device
    }

    /// The session, whoever is to run requests of it.
    pub(crate) fn shared(&mut self, framework: &Framework, params: impl Fn() -> SessionParams) -> Option<Session> {
        self.belong_to(framework);
        if self.refused { None } else { self.session(framework, &params) }
    }

    /// The session for requests that come together, so many bytes in so many of them, if they are better off on a device.
    pub(crate) fn several(
        &mut self,
        framework: &Framework,
        operation: Operation,
        (bytes, requests): (usize, usize),
        params: impl Fn() -> SessionParams,
    ) -> Option<Session> {
        let session = if requests < 2 { None } else { self.shared(framework, params) }?;
        framework.beside.leads(&session, operation, bytes / requests, requests).then_some(session)
    }

    /// The session, and whatever else `open` needs from it, the first time under a key; timed, as that decides from when on
    /// it pays.
    pub(crate) fn open<T>(
        &mut self,
        worth: &Worth,
        open: impl FnOnce(&Session) -> gantry_core::Result<T>,
    ) -> Option<T> {
        let begun = Instant::now();
        let opened = open(self.session.as_ref()?);
        (self.open, self.refused) = (opened.is_ok(), opened.is_err());
        worth.opened_in(nanoseconds(begun));
        opened.ok()
    }

    /// Something begins without a session of its own.
    pub(crate) fn belong_to(&mut self, framework: &Framework) {
        if !self.is_of(framework) {
            self.forget();
            *self = Self { process: Some(framework.process), ..Self::default() };
        }
    }

    /// Whether what was opened may be closed: not what the parent of a fork opened.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.process.is_some_and(Process::is_current)
    }

    /// Whether what is under way began in this process.
    pub(crate) fn is_of(&self, framework: &Framework) -> bool {
        self.process == Some(framework.process)
    }

    /// The session, once it is this context's turn to use it.
    pub(crate) fn session_now(&mut self) -> Option<&Session> {
        self.open = self.session.is_some();
        self.session.as_ref()
    }

    /// A device failed: under this key, everything is the host's.
    pub(crate) fn give_up(&mut self) {
        self.session = None;
        self.refused = true;
    }

    /// The same with one request, and whether that can still be the host's: what a device leaves unserved it leaves as it was, but a
    /// driver that panics has promised nothing.
    pub(crate) fn failed(&mut self, error: &gantry_core::Error, in_place: bool) -> Done {
        self.give_up();
        let panicked = matches!(error, gantry_core::Error::Device { last: Fault::Panicked, .. });
        if in_place && panicked { Done::Bad } else { Done::Host }
    }

    fn session(&mut self, framework: &Framework, params: &impl Fn() -> SessionParams) -> Option<Session> {
        if self.session.is_none() {
            self.session = framework.beside.gantry().session(params()).ok();
            self.refused = self.session.is_none();
        }
        self.session.clone()
    }

    /// In a child the session of the parent is left alone: dropping it might wait for threads that are not here.
    fn forget(&mut self) {
        let session = self.session.take();
        if !self.is_of_this_process() {
            std::mem::forget(session);
        }
    }
}
