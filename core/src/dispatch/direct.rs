//! Direct calls: one request on the calling thread, tried on one device after the other until it has an outcome.

use super::session::SessionCore;
use crate::algorithm::{Error, Fault, Outcome, Refusal, Result, Shape};
use crate::devices::{TEST_RUNNING, Urgency};
use crate::driver::{Operands, call_guarded};
use crate::request::{ColdData, Handle, List};
use crate::route::{Question, Route};
use crate::stats::{Event, Site, StageTimer};

/// The reason why an attempt on a device gave no outcome.
pub(crate) enum AttemptError {
    /// No device is left.
    NoDevice,
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
        is_corrupted: bool,
    },
}

/// The attempts to run a request so far.
pub(crate) struct Attempts {
    /// Bit mask of the devices that did not run the request.
    pub(crate) tried: u64,
    pub(crate) last: Option<Fault>,
    /// The reasons that devices gave for declining this request.
    pub(crate) declined: Vec<String>,
    /// Bit mask of devices whose known-answer test was running.
    testing: u64,
    urgency: Urgency,
    /// No device is left, or the request cannot be retried.
    is_end: bool,
}

impl Attempts {
    pub(crate) fn new(tried: u64) -> Self {
        let (declined, urgency) = (Vec::new(), Urgency::Brief);
        Self { tried, last: None, declined, testing: 0, urgency, is_end: false }
    }

    fn record(&mut self, error: AttemptError) {
        let device = match error {
            AttemptError::NoDevice if self.testing != 0 => {
                // No other device is left: wait for the devices whose test was running.
                (self.tried, self.testing, self.urgency) = (self.tried & !self.testing, 0, Urgency::Patient);
                return;
            }
            AttemptError::NoDevice => {
                self.is_end = true;
                return;
            }
            AttemptError::NotOpened { device, why } => {
                match why {
                    Refusal::Fault(Fault::Declined(why)) if why == TEST_RUNNING => {
                        self.testing |= 1 << device;
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
            AttemptError::Failed { device, fault, is_corrupted } => {
                (self.last, self.is_end) = (Some(fault), is_corrupted);
                device
            }
        };
        self.tried |= 1 << device;
    }
}

impl SessionCore {
    /// Runs one request, trying one device after the other until it has an outcome.
    #[inline]
    pub(crate) fn run_direct(
        &self,
        operands: &mut Operands<'_>,
        shape: Shape,
        timer: &mut StageTimer<'_>,
    ) -> Result<Outcome> {
        self.attempt(operands, shape, timer, None, |_| {}).or_else(|error| {
            let mut attempts = Attempts::new(0);
            attempts.record(error);
            self.run_after(attempts, operands, shape, timer, &mut None)
        })
    }

    /// Runs a request after the attempts in `attempts`. `ran` gets the route of the last attempt.
    #[cold]
    pub(crate) fn run_after(
        &self,
        mut attempts: Attempts,
        operands: &mut Operands<'_>,
        shape: Shape,
        timer: &mut StageTimer<'_>,
        ran: &mut Option<Route>,
    ) -> Result<Outcome> {
        while !attempts.is_end {
            match self.attempt(operands, shape, timer, Some(&attempts), |route| *ran = Some(route)) {
                Ok(outcome) => return Ok(outcome),
                Err(error) => attempts.record(error),
            }
        }
        Err(self.unserved_error(shape.operation, attempts.last, attempts.declined))
    }

    /// Runs one request on the best device that `before` does not list as tried.
    #[inline(always)]
    fn attempt(
        &self,
        operands: &mut Operands<'_>,
        shape: Shape,
        timer: &mut StageTimer<'_>,
        before: Option<&Attempts>,
        ran: impl FnOnce(Route),
    ) -> std::result::Result<Outcome, AttemptError> {
        let (tried, urgency) = before.map_or((0, Urgency::Brief), |before| (before.tried, before.urgency));
        let Some(route) = self.ask(&Question::one(shape, tried)) else { return Err(AttemptError::NoDevice) };
        let device = route.device;
        // A policy may name a device that it was not offered.
        let Some(place) = self.place(device).filter(|_| tried >> device & 1 == 0) else {
            return Err(AttemptError::NoDevice);
        };
        ran(route);
        let opened;
        let session = match self.opened_session(place) {
            Some(session) => session,
            None => match self.opened(place, urgency.for_route(route)) {
                Ok(session) => {
                    opened = session;
                    &*opened
                }
                Err(why) => return Err(AttemptError::NotOpened { device, why }),
            },
        };
        let site = self.site(device, shape.operation);
        timer.sent(site, route.reason, 1, shape.bytes);
        if before.is_some_and(|before| before.last.is_some()) {
            timer.here().event(site, Event::Retried, 1);
        }
        let shadow = self.shadow(place, operands);
        let started = route.measure.then(|| self.gantry.start(&self.candidates[place]));
        let failed = |fault| self.failed(device, site, shape, fault);
        let result = if self.candidates[place].capability.direct {
            call_guarded(|| session.run(operands.reborrow())).map_err(failed)
        } else {
            self.run_on_ring(device, operands.reborrow()).map_err(failed)
        };
        // The time of a failed or declined request says nothing about the device.
        if let Some(started) = started.filter(|_| result.is_ok()) {
            self.gantry.learn((self.params.algorithm(), shape.operation), route, 1, shape.bytes, started);
        }
        timer.back(site, 1);
        match result {
            Ok(Outcome::Done) if shadow.is_none() => Ok(Outcome::Done),
            Ok(outcome) => {
                timer.here().outcome(site, outcome);
                Ok(self.verified_outcome(shadow, site, operands, outcome, device))
            }
            failed => failed,
        }
    }

    /// Counts the fault of a request, and quarantines the device unless the device declined the request.
    #[cold]
    fn failed(&self, device: usize, site: Site, shape: Shape, fault: Fault) -> AttemptError {
        self.counters().here().fault(site, &fault);
        if let Fault::Declined(why) = fault {
            return AttemptError::Declined { device, why: format!("{}: {why}", self.gantry.devices()[device].name()) };
        }
        self.quarantine(device, site);
        AttemptError::Failed { device, is_corrupted: fault.corrupts_data(shape), fault }
    }
}

/// Returns the earlier attempts to run a request of a batch. This thread makes the next attempts.
pub(crate) fn earlier_attempts(tried: u64, error: Option<Error>) -> Attempts {
    let mut attempts = Attempts::new(tried);
    match error {
        Some(Error::Device { last, .. }) => attempts.last = Some(last),
        Some(Error::Unserved { reasons, .. }) => attempts.declined = reasons,
        _ => {}
    }
    attempts
}

/// Ends the requests that have no result after a panic of the driver. The first of them gets the fault `Panicked`. The driver has not seen
/// the requests after it.
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

/// Counts a result other than `Done`. Returns `false` if the device failed and the request must run elsewhere.
#[cold]
pub(crate) fn settle(handle: &mut Handle) -> bool {
    let (shape, operation) = (handle.meta.shape, handle.meta.shape.operation);
    let mut tried = handle.meta.tried;
    let (owner, request) = handle.parts();
    let Some(route) = request.route else { return true };
    let (site, here) = (owner.site(route.device, operation), owner.counters().here());
    let ColdData { error: before, shadow, .. } = request.cold.take().map(|cold| *cold).unwrap_or_default();
    let fault = match (request.entry.outcome, request.entry.fault.take().map(|fault| *fault)) {
        // After an outcome, the error of an earlier device does not matter.
        (Some(outcome), _) => {
            let outcome = owner.verified_outcome(shadow, site, &mut request.entry.operands, outcome, route.device);
            request.entry.outcome = Some(outcome);
            here.outcome(site, outcome);
            return true;
        }
        (None, Some(fault)) => fault,
        (None, None) => {
            request.cold = before.map(|error| Box::new(ColdData { error: Some(error), ..ColdData::default() }));
            return true;
        }
    };
    here.fault(site, &fault);
    let is_corrupted = fault.corrupts_data(shape);
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
    request.cold_mut().error = Some(match (before, error) {
        (Some(Error::Unserved { mut reasons, .. }), Error::Unserved { reasons: more, .. }) => {
            reasons.extend(more);
            Error::Unserved { algorithm, operation, reasons }
        }
        (Some(failed @ Error::Device { .. }), Error::Unserved { .. }) => failed,
        (_, error) => error,
    });
    if let Some(bound) = &mut request.bound {
        // A chunk is missing: the stream would now give the digest of another message.
        *bound.broken = true;
        return true;
    }
    if is_corrupted {
        return true;
    }
    handle.meta.tried = tried;
    false
}

/// Runs a request in this thread, trying one device after the other, except the devices that have already tried it.
pub(crate) fn run_here(handle: &mut Handle) {
    let (tried, shape) = (handle.meta.tried, handle.meta.shape);
    let copied = handle.copy_segments();
    let (owner, request) = handle.parts();
    let attempts = earlier_attempts(tried, request.take_error());
    let mut timer = owner.counters().timer(1);
    match owner.run_after(attempts, &mut request.entry.operands, shape, &mut timer, &mut request.route) {
        Ok(outcome) => request.entry.outcome = Some(outcome),
        Err(error) => request.cold_mut().error = Some(error),
    }
    if let Some(route) = request.route.filter(|_| copied > 0) {
        owner.gantry.count_copied(route.device, owner.params.algorithm(), shape.operation, copied);
    }
}
