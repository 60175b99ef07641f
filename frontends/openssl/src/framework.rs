//! The framework of a provider: opened at the first request that may need it, and once more in each child of a fork.

use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use gantry::driver::{Class, Driver};
use gantry::{Algorithm, Fault, Gantry, Kind, Operation, RegisteredDevice, Session, SessionParams};
use gantry_runtime::forks::GENERATION;
use gantry_runtime::sandbox::is_filtered;

use crate::boundary::HostDigests;
use crate::choice::{Choice, Choices, Side, State};
use crate::company::{self, Company};
use crate::config::{Settings, Soft};
use crate::trial::Measured;
use crate::{table, trial};

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
    choices: Choices,
    /// By algorithm: those of digests, of which one is enough.
    digests: Box<[OnceLock<Option<Session>>]>,
    soft: Soft,
    /// The policy was named, and is followed without a trial.
    named: bool,
    pub(crate) generation: u32,
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
        Ok(Self {
            gantry,
            choices: Choices::new(|algorithm| settings.asked(Some(algorithm))),
            digests: Algorithm::ALL.iter().map(|_| OnceLock::new()).collect(),
            soft: settings.soft,
            named: settings.policy_named,
            generation: GENERATION.load(Relaxed),
        })
    }

    pub(crate) fn choice(&self, algorithm: Algorithm, operation: Operation) -> &Choice {
        self.choices.of(algorithm, operation)
    }

    /// The session of a digest.
    pub(crate) fn digest(&self, algorithm: Algorithm) -> Option<&Session> {
        let session = || self.gantry.session(SessionParams::new(algorithm, &[]).coalesce(true)).ok();
        self.digests[algorithm as usize].get_or_init(session).as_ref()
    }

    fn session(&self, params: SessionParams) -> Option<Session> {
        match params.algorithm().kind() {
            Kind::Digest => self.digest(params.algorithm()).cloned(),
            _ => self.gantry.session(params).ok(),
        }
    }

    /// Whether the policy leads so many requests elsewhere, where the operator wants them. The host is a device among those that it
    /// compares.
    pub(crate) fn leads_several(&self, session: &Session, operation: Operation, bytes: usize, requests: usize) -> bool {
        let device = session.route(operation, bytes, requests).map(|route| &self.gantry.devices()[route.device]);
        device.is_some_and(|device| device.name() != crate::host::NAME && self.soft.allows(device.class()))
    }

    /// What becomes of requests for which no device is faster alone.
    fn without_device(&self, session: &Session, operation: Operation, bytes: usize) -> State {
        let may_meet = operation == Operation::Digest && self.has_lanes();
        if may_meet && session.coalesces(operation, bytes) { State::Company } else { State::Host }
    }

    /// Whose the first piece of a digest is, of so many bytes, when it meets nobody; `None` where it cannot meet others.
    pub(crate) fn may_meet(&self, algorithm: Algorithm, bytes: usize) -> Option<Side> {
        match self.choice(algorithm, Operation::Digest).state(bytes) {
            State::Company => Some(Side::Host),
            State::Device if self.has_lanes() => Some(Side::Device),
            State::Device | State::Unasked | State::Host => None,
        }
    }

    /// Whether the operator allows the devices that have lanes.
    fn has_lanes(&self) -> bool {
        self.soft.allows(Class::Simd)
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

    /// What messages of several threads gain together, where no device is faster with one alone.
    pub(crate) fn company(&self, algorithm: Algorithm, host: &HostDigests) -> Option<Company> {
        const BYTES: usize = 16 << 10;
        let session = self.digest(algorithm)?;
        self.gantry.calibrate(algorithm, Operation::Digest, false);
        self.ask(session, Operation::Digest, BYTES);
        let state = self.choice(algorithm, Operation::Digest).state(BYTES);
        (state == State::Company).then(|| company::measure(&self.gantry, session, host))?
    }

    fn cell(&self, algorithm: Algorithm, operation: Operation, bytes: usize) -> Option<Cell> {
        // Nearly any key will do, but XTS wants its halves to differ.
        let any: Vec<u8> = (0..).take(algorithm.info().key.max.min(64)).collect();
        let params = SessionParams::new(algorithm, gantry::sample_key(algorithm).unwrap_or(&any));
        let params = trial::trial_keys(&params, operation).0;
        let session = self.session(params.clone())?;
        let (device, why) = self.decided(&session, operation, bytes);
        let rival = |device: &&RegisteredDevice| {
            let (name, class) = (device.name(), device.class());
            let may_gain = class != Class::Software || self.named || table::software_may_gain(algorithm);
            name != crate::host::NAME && self.soft.allows(class) && may_gain && device.capability(algorithm).is_some()
        };
        let best = self.gantry.devices().iter().filter(rival).filter_map(|device| {
            let measured = trial::measure(&self.gantry, &params, (device.name(), device.class()), operation, bytes)?;
            Some((device.name().to_owned(), measured))
        });
        let best = best.max_by(|a, b| a.1.gain.total_cmp(&b.1.gain));
        Some(Cell { operation, bytes, device, why, best })
    }

    /// The device that requests of so many bytes go to, and why.
    fn decided(&self, session: &Session, operation: Operation, bytes: usize) -> (String, &'static str) {
        let host = |why| (crate::host::NAME.to_owned(), why);
        let Some(route) = session.route(operation, bytes, 1) else { return host("only-choice") };
        let name = self.gantry.devices()[route.device].name().to_owned();
        if name == crate::host::NAME || self.named {
            return (name, route.reason.code());
        }
        let tried = self.ask(session, operation, bytes).is_some();
        match self.choice(session.params().algorithm(), operation).state(bytes) {
            State::Device => (name, "trial"),
            State::Company => (name, "company"),
            _ => host(if tried { "trial" } else { "not-asked" }),
        }
    }

    /// Asks the policy about one request of so many bytes, and tries out what it says: the times of the host and of its device, if it names
    /// one.
    fn ask(&self, session: &Session, operation: Operation, bytes: usize) -> Option<(u32, u32)> {
        let algorithm = session.params().algorithm();
        let choice = self.choice(algorithm, operation);
        let device = session.route(operation, bytes, 1).map(|route| &self.gantry.devices()[route.device]);
        let device = device.filter(|device| device.name() != crate::host::NAME && self.soft.allows(device.class()));
        match device {
            None => choice.set(bytes, self.without_device(session, operation, bytes)),
            Some(_) if self.named => choice.set(bytes, State::Device),
            Some(device) if device.class() == Class::Software && !table::software_may_gain(algorithm) => {
                choice.set(bytes, State::Host);
            }
            Some(device) => {
                let times =
                    trial::times(&self.gantry, session.params(), device.name(), operation, Choice::sample(bytes));
                match times {
                    Some((host, device)) => choice.tried(bytes, host, device),
                    None => choice.set(bytes, self.without_device(session, operation, bytes)),
                }
                return times;
            }
        }
        None
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
    generation: u32,
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
    /// There is no session yet.
    pub(crate) fn is_new(&self) -> bool {
        self.session.is_none() && !self.refused
    }

    /// Another key: what was opened under the last one is of no use.
    pub(crate) fn new_key(&mut self) {
        self.forget_if_older(GENERATION.load(Relaxed));
        *self = Self { generation: self.generation, ..Self::default() };
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
        self.forget_if_older(framework.generation);
        let choice = framework.choice(algorithm, operation);
        if self.refused || !choice.elsewhere().has(bytes) {
            return Side::Host;
        }
        if choice.state(bytes) == State::Unasked {
            match self.session(framework, &params) {
                Some(session) => {
                    framework.ask(&session, operation, bytes);
                }
                None => return Side::Host,
            }
        }
        if choice.state(bytes) != State::Device {
            return Side::Host;
        }
        if !self.open {
            // A session is opened when staying with the host has cost as much as opening it does.
            self.lost = self.lost.saturating_add(choice.gain_ns(bytes));
            if self.lost < choice.open_ns() || self.session(framework, &params).is_none() {
                return Side::Host;
            }
        }
        Side::Device
    }

    /// The session, whoever is to run requests of it.
    pub(crate) fn shared(&mut self, framework: &Framework, params: impl Fn() -> SessionParams) -> Option<Session> {
        self.forget_if_older(framework.generation);
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
    pub(crate) fn open<T>(&mut self, choice: &Choice, open: impl FnOnce(&Session) -> gantry::Result<T>) -> Option<T> {
        let begun = Instant::now();
        let opened = open(self.session.as_ref()?);
        (self.open, self.refused) = (opened.is_ok(), opened.is_err());
        choice.opened_in(nanoseconds(begun));
        opened.ok()
    }

    /// Something begins without a session of its own.
    pub(crate) fn belong_to(&mut self, framework: &Framework) {
        self.forget_if_older(framework.generation);
    }

    /// Whether what was opened may be closed: not what the parent of a fork opened.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.generation == GENERATION.load(Relaxed)
    }

    /// Whether what is under way began in this process.
    pub(crate) fn is_of(&self, framework: &Framework) -> bool {
        self.generation == framework.generation
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
    pub(crate) fn failed(&mut self, error: &gantry::Error, in_place: bool) -> Done {
        self.give_up();
        let panicked = matches!(error, gantry::Error::Device { last: Fault::Panicked, .. });
        if in_place && panicked { Done::Bad } else { Done::Host }
    }

    fn session(&mut self, framework: &Framework, params: &impl Fn() -> SessionParams) -> Option<Session> {
        if self.session.is_none() {
            self.session = framework.session(params());
            self.refused = self.session.is_none();
        }
        self.session.clone()
    }

    /// After a fork, what the parent opened is left alone: dropping it might wait for threads that are not here.
    fn forget_if_older(&mut self, generation: u32) {
        if self.generation != generation {
            std::mem::forget(self.session.take());
            *self = Self { generation, ..Self::default() };
        }
    }
}
