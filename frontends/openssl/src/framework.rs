//! The framework of a provider: opened at the first request that may need it, and once more in each child of a fork.

use std::time::Instant;

use gantry_core::driver::{Class, Driver};
use gantry_core::route::Costs;
use gantry_core::{
    Algorithm, DeviceState, Fault, Gantry, Kind, Operation, Process, RegisteredDevice, Session, SessionParams,
};
use gantry_digest::Algorithm as Hash;
use gantry_runtime::sandbox::is_filtered;

use crate::boundary::HostKdf;
use crate::config::{Settings, Soft};
use crate::derivations::{Derivations, LANES};
use crate::gains::{Gain, Gains, NAMED};
use crate::measure::{self, Measured};
use crate::{host, table};

/// What a device has to be faster by, in percent: less may be chance.
const MARGIN: f32 = 4.0;

/// The same in nanoseconds: a call's way to a device, which the host's does not have and which is in no measurement of either. (131 to
/// 157 with AES-128-GCM on a Zen 4: what gantry takes longer than its table has, less what the host does.)
const WAY_NS: f32 = 150.0;

/// What a request is thought to take while nothing is known, in nanoseconds: with a key pair, or one for each byte and so many more.
const PAIR_NS: u32 = 50_000;
const OTHER_NS: usize = 100;

/// Who serves a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Host,
    Device,
}

/// One operation with requests of one size.
pub(crate) struct Cell {
    pub(crate) operation: Operation,
    pub(crate) bytes: usize,
    /// Where they go, and why.
    pub(crate) device: String,
    pub(crate) why: &'static str,
    /// The fastest of the devices beside the host.
    pub(crate) best: Option<(String, Measured)>,
}

/// A framework, and what it has learned.
pub(crate) struct Framework {
    gantry: Gantry,
    gains: Gains,
    /// Where there are lanes, and the operator allows them.
    derivations: Option<Derivations>,
    soft: Soft,
    /// The policy was named, and is followed wherever it leads.
    named: bool,
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
        Ok(Self {
            gantry,
            gains: Gains::new(settings.asked()),
            derivations,
            soft: settings.soft,
            named: settings.policy_named,
            process: Process::current(),
        })
    }

    pub(crate) fn gain(&self, algorithm: Algorithm, operation: Operation) -> &Gain {
        self.gains.of(algorithm, operation)
    }

    /// Key derivations, where there are lanes for them.
    pub(crate) fn derivations(&self) -> Option<&Derivations> {
        self.derivations.as_ref()
    }

    fn session(&self, params: SessionParams) -> Option<Session> {
        self.gantry.session(params).ok()
    }

    /// Whether the policy leads so many requests elsewhere, where the operator wants them. The host is a device among those that it
    /// compares.
    pub(crate) fn leads_several(&self, session: &Session, operation: Operation, bytes: usize, requests: usize) -> bool {
        let device = session.route(operation, bytes, requests).map(|route| &self.gantry.devices()[route.device]);
        device.is_some_and(|device| self.is_other(device))
    }

    /// Whether a device may have what is the host's otherwise.
    fn is_other(&self, device: &RegisteredDevice) -> bool {
        device.name() != host::NAME && self.soft.allows(device.class())
    }

    /// The devices that may gain with an algorithm: in what they cost, the reading of keys is no part.
    fn rivals(&self, algorithm: Algorithm) -> impl Iterator<Item = &RegisteredDevice> {
        let may_gain =
            move |class: Class| class != Class::Software || self.named || table::software_may_gain(algorithm);
        let devices =
            self.gantry.devices().iter().filter(move |device| self.is_other(device) && may_gain(device.class()));
        devices.filter(move |device| device.capability(algorithm).is_some() && device.state() == DeviceState::Ready)
    }

    /// Follows the policy that the operator named: what a request saves by it.
    fn follow(&self, session: &Session, operation: Operation, bytes: usize) -> u32 {
        let saved = if self.leads_several(session, operation, bytes, 1) { NAMED } else { 0 };
        self.gain(session.params().algorithm(), operation).learn(bytes, saved);
        saved
    }

    /// The host does a request of so many bytes. By the work that it does, the framework learns what the devices cost, the host among
    /// them. Until that is known, nothing is saved.
    fn learn(&self, algorithm: Algorithm, operation: Operation, bytes: usize) -> u32 {
        let work = match algorithm.kind() {
            Kind::Signature | Kind::Exchange => PAIR_NS,
            _ => u32::try_from(OTHER_NS + bytes).unwrap_or(u32::MAX),
        };
        let host = self.gantry.device(host::NAME).and_then(|host| host.costs(algorithm, operation));
        let gain = self.gain(algorithm, operation);
        if host.is_none() || self.gantry.worked(algorithm, operation, work) {
            gain.learn_all(|bytes| host.map_or(0, |host| self.saved_by_best(host, algorithm, operation, bytes)));
        }
        gain.saved_ns(bytes).unwrap_or(0)
    }

    /// Whether a request may go to a device, as far as that is known without its keys.
    pub(crate) fn may_save(&self, algorithm: Algorithm, operation: Operation, bytes: usize) -> bool {
        let known = self.gain(algorithm, operation).saved_ns(bytes);
        known.map_or_else(|| self.named || self.learn(algorithm, operation, bytes) > 0, |saved| saved > 0)
    }

    /// What the best of the devices saves.
    fn saved_by_best(&self, host: &Costs, algorithm: Algorithm, operation: Operation, bytes: usize) -> u32 {
        let known = |costs: &&Costs| costs.is_known();
        let costs = self.rivals(algorithm).filter_map(|device| device.costs(algorithm, operation)).filter(known);
        let best = costs.map(|costs| costs.estimate(1, bytes).wall_ns).fold(f32::INFINITY, f32::min);
        if host.is_known() { saved(host.estimate(1, bytes).wall_ns, best) } else { 0 }
    }

    pub(crate) fn devices(&self) -> impl Iterator<Item = &RegisteredDevice> {
        self.gantry.devices().iter()
    }

    /// Where requests of these sizes go, both ways, and by what the devices are faster.
    pub(crate) fn cells(&self, algorithm: Algorithm, sizes: &[usize]) -> Vec<Cell> {
        let operations = algorithm.kind().operations();
        let each = operations.iter().flat_map(|operation| sizes.iter().map(move |bytes| (*operation, *bytes)));
        each.filter_map(|(operation, bytes)| self.cell(algorithm, operation, bytes)).collect()
    }

    /// Where PBKDF2 derives keys of so many bytes, and by what lanes are faster.
    pub(crate) fn derives(&self, host: &HostKdf<'_>, hash: Hash, bytes: usize) -> Option<Cell> {
        let lanes = self.derivations().filter(|lanes| lanes.knows(hash))?;
        let measured = measure::derivation(&self.gantry, host, hash, bytes)?;
        let blocks = bytes.div_ceil(hash.digest_size());
        let device = if lanes.gains(hash, blocks) { LANES } else { host::NAME };
        let best = Some((LANES.to_owned(), measured));
        Some(Cell { operation: Operation::Derive, bytes, device: device.to_owned(), why: "blocks", best })
    }

    fn cell(&self, algorithm: Algorithm, operation: Operation, bytes: usize) -> Option<Cell> {
        let session = self.session(measure::keys(algorithm))?;
        let best = self.rivals(algorithm).filter_map(|device| {
            let measured = measure::measure(&self.gantry, device, algorithm, operation, bytes)?;
            Some((device.name().to_owned(), measured))
        });
        let best = best.max_by(|a, b| a.1.gain.total_cmp(&b.1.gain));
        let (device, why) = self.decided(&session, operation, bytes, best.as_ref());
        Some(Cell { operation, bytes, device, why, best })
    }

    /// The device that requests of so many bytes go to, and why, where so much was `measured`. What a device saves is learned, for programs
    /// to come.
    fn decided(
        &self,
        session: &Session,
        operation: Operation,
        bytes: usize,
        measured: Option<&(String, Measured)>,
    ) -> (String, &'static str) {
        let algorithm = session.params().algorithm();
        let host = |why| (host::NAME.to_owned(), why);
        if self.named {
            let route = session.route(operation, bytes, 1);
            let name = |place: usize| self.gantry.devices()[place].name().to_owned();
            return route.map_or_else(|| host("only-choice"), |route| (name(route.device), route.reason.code()));
        }
        let Some((name, measured)) = measured else { return host("only-choice") };
        let gain = self.gain(algorithm, operation);
        #[allow(clippy::cast_possible_truncation, reason = "times of milliseconds")]
        let saves = saved(measured.host as f32, measured.device as f32) > 0;
        if saves && gain.saved_ns(bytes).is_none() {
            // So that programs know it from their first requests on.
            self.gantry.calibrate(algorithm, operation, false);
            self.learn(algorithm, operation, bytes);
        }
        if gain.saved_ns(bytes).map_or(saves, |saved| saved > 0) {
            (name.clone(), "measured")
        } else {
            host("measured")
        }
    }
}

/// Nanoseconds that a device saves where the host takes `host`, if that is not chance.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and what is more is as good")]
fn saved(host: f32, device: f32) -> u32 {
    let device = device + WAY_NS;
    if device * (100.0 + MARGIN) < host * 100.0 { (host - device) as u32 } else { 0 }
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
        let gain = framework.gain(algorithm, operation);
        if self.refused || !gain.elsewhere().has(bytes) {
            return Side::Host;
        }
        let saved = match gain.saved_ns(bytes) {
            Some(saved) => saved,
            None if framework.named => {
                let Some(session) = self.session(framework, &params) else { return Side::Host };
                framework.follow(&session, operation, bytes)
            }
            None => framework.learn(algorithm, operation, bytes),
        };
        if saved == 0 {
            return Side::Host;
        }
        if !self.open {
            // A session is opened when staying with the host has cost as much as opening it does.
            self.lost = self.lost.saturating_add(saved);
            if self.lost < gain.open_ns() || self.session(framework, &params).is_none() {
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
        framework.leads_several(&session, operation, bytes / requests, requests).then_some(session)
    }

    /// The session, and whatever else `open` needs from it, the first time under a key; timed, as that decides from when on
    /// it pays.
    pub(crate) fn open<T>(&mut self, gain: &Gain, open: impl FnOnce(&Session) -> gantry_core::Result<T>) -> Option<T> {
        let begun = Instant::now();
        let opened = open(self.session.as_ref()?);
        (self.open, self.refused) = (opened.is_ok(), opened.is_err());
        gain.opened_in(nanoseconds(begun));
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
            self.session = framework.session(params());
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

// The host of the tests computes on the software device.
#[cfg(all(test, feature = "software"))]
mod tests;
