//! One request on the calling thread: on one device after the other, until one gives an outcome.

use super::session::SessionCore;
use crate::algorithm::{Error, Fault, Outcome, Refusal, Result, Shape};
use crate::devices::{UNDER_WAY, Urgency};
use crate::driver::{Operands, guarded};
use crate::request::{Handle, List, Rare};
use crate::route::{Question, Route};
use crate::stats::{Event, Site, Watch};

/// Why an attempt on a device gave no outcome.
pub(crate) enum AttemptError {
    /// There is no device left.
    Nobody,
    NotOpened {
        device: usize,
        why: Refusal,
    },
    Declined {
        device: usize,
        why: String,
    },
    Failed {
        device: usize,
        fault: Fault,
        is_spoilt: bool,
    },
}

/// The attempts on a request until now.
pub(crate) struct Attempts {
    /// Devices that did not do it, as bits.
    pub(crate) tried: u64,
    pub(crate) last: Option<Fault>,
    /// What devices said that do not do this very request.
    pub(crate) declined: Vec<String>,
    /// Devices whose known-answer test was not over.
    under_way: u64,
    urgency: Urgency,
    /// Nobody is left, or nothing to ask for.
    is_end: bool,
}

impl Attempts {
    pub(crate) fn new(tried: u64) -> Self {
        let (declined, urgency) = (Vec::new(), Urgency::Brief);
        Self { tried, last: None, declined, under_way: 0, urgency, is_end: false }
    }

    fn note(&mut self, error: AttemptError) {
        let device = match error {
            AttemptError::Nobody if self.under_way != 0 => {
                // Whoever is being tested is waited for after all.
                (self.tried, self.under_way, self.urgency) = (self.tried & !self.under_way, 0, Urgency::Patient);
                return;
            }
            AttemptError::Nobody => {
                self.is_end = true;
                return;
            }
            AttemptError::NotOpened { device, why } => {
                match why {
                    Refusal::Fault(Fault::Declined(why)) if why == UNDER_WAY => {
                        self.under_way |= 1 << device;
                        self.urgency = Urgency::Never;
                    }
                    Refusal::Fault(fault) => self.last = Some(fault),
                    Refusal::Unsupported(_) => {}
                }
                device
            }
            AttemptError::Declined { device, why } => {
                self.declined.push(why);
                device
            }
            AttemptError::Failed { device, fault, is_spoilt } => {
                (self.last, self.is_end) = (Some(fault), is_spoilt);
                device
            }
        };
        self.tried |= 1 << device;
    }
}

impl SessionCore {
    /// Runs one request, on one device after the other until one gives an outcome.
    #[inline]
    pub(crate) fn run_direct(
        &self,
        operands: &mut Operands<'_>,
        shape: Shape,
        watch: &mut Watch<'_>,
    ) -> Result<Outcome> {
        self.attempt(operands, shape, watch, None, |_| {}).or_else(|error| {
            let mut attempts = Attempts::new(0);
            attempts.note(error);
            self.run_after(attempts, operands, shape, watch, &mut None)
        })
    }

    /// The same after other attempts. `ran` becomes the last route.
    #[cold]
    pub(crate) fn run_after(
        &self,
        mut attempts: Attempts,
        operands: &mut Operands<'_>,
        shape: Shape,
        watch: &mut Watch<'_>,
        ran: &mut Option<Route>,
    ) -> Result<Outcome> {
        while !attempts.is_end {
            match self.attempt(operands, shape, watch, Some(&attempts), |route| *ran = Some(route)) {
                Ok(outcome) => return Ok(outcome),
                Err(error) => attempts.note(error),
            }
        }
        Err(self.nobody(shape.operation, attempts.last, attempts.declined))
    }

    /// Runs one request on the device that comes first for it, of those that have not been tried `before`.
    #[inline(always)]
    fn attempt(
        &self,
        operands: &mut Operands<'_>,
        shape: Shape,
        watch: &mut Watch<'_>,
        before: Option<&Attempts>,
        ran: impl FnOnce(Route),
    ) -> std::result::Result<Outcome, AttemptError> {
        let (tried, urgency) = before.map_or((0, Urgency::Brief), |before| (before.tried, before.urgency));
        let Some(route) = self.ask(&Question::one(shape, tried)) else { return Err(AttemptError::Nobody) };
        let device = route.device;
        // Unless the policy was not offered that one.
        let Some(place) = self.place(device).filter(|_| tried >> device & 1 == 0) else {
            return Err(AttemptError::Nobody);
        };
        ran(route);
        let opened;
        let session = match self.kept(place) {
            Some(session) => session,
            None => match self.opened(place, urgency.on(route)) {
                Ok(session) => {
                    opened = session;
                    &*opened
                }
                Err(why) => return Err(AttemptError::NotOpened { device, why }),
            },
        };
        let site = self.site(device, shape.operation);
        watch.sent(site, route.reason, 1, shape.bytes);
        if before.is_some_and(|before| before.last.is_some()) {
            watch.here().event(site, Event::Retried, 1);
        }
        let shadow = self.shadow(place, operands);
        let started = route.measure.then(|| self.gantry.start(&self.candidates[place]));
        let failed = |fault| self.failed(device, site, shape, fault);
        let result = if self.candidates[place].capability.direct {
            guarded(|| session.run(operands.reborrow())).map_err(failed)
        } else {
            self.run_on_ring(device, operands.reborrow()).map_err(failed)
        };
        // A device that fails or declines says nothing about its times.
        if let Some(started) = started.filter(|_| result.is_ok()) {
            self.gantry.learn((self.params.algorithm(), shape.operation), route, 1, shape.bytes, started);
        }
        watch.back(site, 1);
        match result {
            Ok(Outcome::Done) if shadow.is_none() => Ok(Outcome::Done),
            Ok(outcome) => {
                watch.here().outcome(site, outcome);
                Ok(self.verified(shadow, site, operands, outcome, device))
            }
            failed => failed,
        }
    }

    /// Counts what a device says of itself that did not do a request, and puts it into quarantine if it is not well.
    #[cold]
    fn failed(&self, device: usize, site: Site, shape: Shape, fault: Fault) -> AttemptError {
        self.counters().here().fault(site, &fault);
        if let Fault::Declined(why) = fault {
            return AttemptError::Declined { device, why: format!("{}: {why}", self.gantry.devices()[device].name()) };
        }
        self.quarantine(device, site);
        AttemptError::Failed { device, is_spoilt: fault.spoils(shape), fault }
    }
}

/// The attempts that devices have made in a batch, to go on with in this thread.
pub(crate) fn after(tried: u64, error: Option<Error>) -> Attempts {
    let mut attempts = Attempts::new(tried);
    match error {
        Some(Error::Device { last, .. }) => attempts.last = Some(last),
        Some(Error::Unserved { reasons, .. }) => attempts.declined = reasons,
        _ => {}
    }
    attempts
}

/// The device panicked over the first of the requests that have no result; the rest it has not seen.
#[cold]
pub(crate) fn blame(route: Route, part: &mut List) {
    let mut fault = Fault::Panicked;
    part.each(|handle| {
        if handle.entry.outcome.is_none() && handle.fault().is_none() {
            handle.route = Some(route);
            handle.entry.finish(Err(std::mem::replace(&mut fault, Fault::failed("the driver panicked"))));
        }
    });
}

/// Counts a result that is not `Done`. `false` if it is a device's failure, and the request is to run elsewhere.
#[cold]
pub(crate) fn settle(handle: &mut Handle) -> bool {
    let (shape, operation) = (handle.note.shape, handle.note.shape.operation);
    let mut tried = handle.note.tried;
    let (owner, request) = handle.parts();
    let Some(route) = request.route else { return true };
    let (site, here) = (owner.site(route.device, operation), owner.counters().here());
    let Rare { error: before, shadow, .. } = request.rare.take().map(|rare| *rare).unwrap_or_default();
    let fault = match (request.entry.outcome, request.entry.fault.take().map(|fault| *fault)) {
        // What another device said before is of no interest any more.
        (Some(outcome), _) => {
            let outcome = owner.verified(shadow, site, &mut request.entry.operands, outcome, route.device);
            request.entry.outcome = Some(outcome);
            here.outcome(site, outcome);
            return true;
        }
        (None, Some(fault)) => fault,
        (None, None) => {
            request.rare = before.map(|error| Box::new(Rare { error: Some(error), ..Rare::default() }));
            return true;
        }
    };
    here.fault(site, &fault);
    let is_spoilt = fault.spoils(shape);
    let algorithm = owner.params.algorithm();
    let error = match fault {
        Fault::Declined(why) => {
            let why = format!("{}: {why}", owner.gantry.devices()[route.device].name());
            Error::Unserved { algorithm, operation, reasons: vec![why] }
        }
        last => {
            owner.quarantine(route.device, site);
            Error::Device { algorithm, last }
        }
    };
    tried |= 1 << route.device;
    request.rare().error = Some(match (before, error) {
        (Some(Error::Unserved { mut reasons, .. }), Error::Unserved { reasons: more, .. }) => {
            reasons.extend(more);
            Error::Unserved { algorithm, operation, reasons }
        }
        (Some(failed @ Error::Device { .. }), Error::Unserved { .. }) => failed,
        (_, error) => error,
    });
    if let Some(bound) = &mut request.bound {
        // A piece is missing: what would come now is the digest of another message.
        *bound.broken = true;
        return true;
    }
    if is_spoilt {
        return true;
    }
    handle.note.tried = tried;
    false
}

/// Runs a request in this thread, after what devices have said that tried before; on one device after the other.
pub(crate) fn run_here(handle: &mut Handle) {
    let (tried, shape) = (handle.note.tried, handle.note.shape);
    let copied = handle.copy_segments();
    let (owner, request) = handle.parts();
    let attempts = after(tried, request.take_error());
    let mut watch = owner.counters().watch(1);
    match owner.run_after(attempts, &mut request.entry.operands, shape, &mut watch, &mut request.route) {
        Ok(outcome) => request.entry.outcome = Some(outcome),
        Err(error) => request.rare().error = Some(error),
    }
    if let Some(route) = request.route.filter(|_| copied > 0) {
        owner.gantry.count_copied(route.device, owner.params.algorithm(), shape.operation, copied);
    }
}
