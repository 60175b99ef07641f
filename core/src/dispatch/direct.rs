//! Direct calls: one request on the calling thread, tried on one device after the other until it has an outcome.

use super::session::SessionCore;
use crate::algorithm::{Error, Fault, Outcome, Refusal, Result, Shape};
use crate::devices::{TEST_RUNNING, TestWait};
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
    /// Bit mask of the devices that were tried and gave no outcome.
    pub(crate) tried_devices: u64,
    pub(crate) last_fault: Option<Fault>,
    /// The reasons that devices gave for declining this request.
    pub(crate) decline_reasons: Vec<String>,
    /// Bit mask of devices whose known-answer test was running.
    devices_under_test: u64,
    test_wait: TestWait,
    /// No device is left, or the request cannot be retried.
    is_end: bool,
}

impl Attempts {
    pub(crate) fn new(tried_devices: u64) -> Self {
        let (decline_reasons, test_wait) = (Vec::new(), TestWait::Brief);
        Self { tried_devices, last_fault: None, decline_reasons, devices_under_test: 0, test_wait, is_end: false }
    }

    fn record(&mut self, error: AttemptError) {
        let device = match error {
            AttemptError::NoDevice if self.devices_under_test != 0 => {
                // No other device is left: wait for the devices whose test was running.
                (self.tried_devices, self.devices_under_test, self.test_wait) =
                    (self.tried_devices & !self.devices_under_test, 0, TestWait::Full);
                return;
            }
            AttemptError::NoDevice => {
                self.is_end = true;
                return;
            }
            AttemptError::NotOpened { device, why } => {
                match why {
                    Refusal::Fault(Fault::Declined(why)) if why == TEST_RUNNING => {
                        self.devices_under_test |= 1 << device;
                        self.test_wait = TestWait::None;
                    }
                    Refusal::Fault(fault) => self.last_fault = Some(fault),
                    Refusal::Unsupported(_) => {}
                }
                device
            }
            AttemptError::Declined { device, why } => {
                self.decline_reasons.push(why);
                device
            }
            AttemptError::Failed { device, fault, is_corrupted } => {
                (self.last_fault, self.is_end) = (Some(fault), is_corrupted);
                device
            }
        };
        self.tried_devices |= 1 << device;
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
            self.run_after_attempts(attempts, operands, shape, timer, &mut None)
        })
    }

    /// Runs a request after the attempts in `attempts`. `ran` gets the route of the last attempt.
    #[cold]
    pub(crate) fn run_after_attempts(
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
        Err(self.unserved_error(shape.operation, attempts.last_fault, attempts.decline_reasons))
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
        let (tried_devices, test_wait) =
            before.map_or((0, TestWait::Brief), |before| (before.tried_devices, before.test_wait));
        let Some(route) = self.ask(&Question::one(shape, tried_devices)) else { return Err(AttemptError::NoDevice) };
        let device = route.device;
        // A policy may name a device that it was not offered.
        let Some(index) = self.candidate_index(device).filter(|_| tried_devices >> device & 1 == 0) else {
            return Err(AttemptError::NoDevice);
        };
        ran(route);
        let opened;
        let session = match self.device_session_if_open(index) {
            Some(session) => session,
            None => match self.device_session(index, test_wait.for_route(route)) {
                Ok(session) => {
                    opened = session;
                    &*opened
                }
                Err(why) => return Err(AttemptError::NotOpened { device, why }),
            },
        };
        let site = self.site(device, shape.operation);
        timer.count_sent(site, route.reason, 1, shape.bytes);
        if before.is_some_and(|before| before.last_fault.is_some()) {
            timer.counters().count_event(site, Event::Retried, 1);
        }
        let shadow = self.shadow_copy(index, operands);
        let started = route.measure.then(|| self.gantry.measurement_start(&self.candidates[index]));
        let failed = |fault| self.failed(device, site, shape, fault);
        let result = if self.candidates[index].capability.synchronous {
            call_guarded(|| session.run(operands.reborrow())).map_err(failed)
        } else {
            self.run_on_queue_pair(device, operands.reborrow()).map_err(failed)
        };
        // The time of a failed or declined request says nothing about the device.
        if let Some(started) = started.filter(|_| result.is_ok()) {
            self.gantry.learn((self.params.algorithm(), shape.operation), route, 1, shape.bytes, started);
        }
        timer.count_returned(site, 1);
        match result {
            Ok(Outcome::Done) if shadow.is_none() => Ok(Outcome::Done),
            Ok(outcome) => {
                timer.counters().count_outcome(site, outcome);
                Ok(self.verified_outcome(shadow, site, operands, outcome, device))
            }
            failed => failed,
        }
    }

    /// Counts the fault of a request, and quarantines the device unless the device declined the request.
    #[cold]
    fn failed(&self, device: usize, site: Site, shape: Shape, fault: Fault) -> AttemptError {
        self.counters().this_thread().count_fault(site, &fault);
        if let Fault::Declined(why) = fault {
            return AttemptError::Declined { device, why: format!("{}: {why}", self.gantry.devices()[device].name()) };
        }
        self.quarantine(device, site);
        AttemptError::Failed { device, is_corrupted: fault.corrupts_data(shape), fault }
    }
}

/// Returns the earlier attempts to run a request of a batch. This thread makes the next attempts.
pub(crate) fn earlier_attempts(tried_devices: u64, error: Option<Error>) -> Attempts {
    let mut attempts = Attempts::new(tried_devices);
    match error {
        Some(Error::Device { last, .. }) => attempts.last_fault = Some(last),
        Some(Error::Unserved { reasons, .. }) => attempts.decline_reasons = reasons,
        _ => {}
    }
    attempts
}

/// Ends the requests that have no result after a panic of the driver. The first of them gets the fault `Panicked`. The driver has not seen
/// the requests after it.
#[cold]
pub(crate) fn mark_panicked(route: Route, part: &mut List) {
    let mut fault = Fault::Panicked;
    part.each(|handle| {
        if handle.entry.outcome.is_none() && handle.fault().is_none() {
            handle.route = Some(route);
            handle.entry.finish(Err(std::mem::replace(&mut fault, Fault::failed("the driver panicked"))));
        }
    });
}

/// Counts a result other than `Done`. Returns `false` if the request must run elsewhere, because the device failed or declined it.
#[cold]
pub(crate) fn finalize_result(handle: &mut Handle) -> bool {
    let (shape, operation) = (handle.meta.shape, handle.meta.shape.operation);
    let mut tried_devices = handle.meta.tried_devices;
    let (session, request) = handle.parts();
    let Some(route) = request.route else { return true };
    let (site, counters) = (session.site(route.device, operation), session.counters().this_thread());
    let ColdData { error: before, shadow, .. } = request.cold.take().map(|cold| *cold).unwrap_or_default();
    let fault = match (request.entry.outcome, request.entry.fault.take().map(|fault| *fault)) {
        // After an outcome, the error of an earlier device does not matter.
        (Some(outcome), _) => {
            let outcome = session.verified_outcome(shadow, site, &mut request.entry.operands, outcome, route.device);
            request.entry.outcome = Some(outcome);
            counters.count_outcome(site, outcome);
            return true;
        }
        (None, Some(fault)) => fault,
        // The request already has its final error, for example from another thread that ran it.
        (None, None) => {
            request.cold = before.map(|error| Box::new(ColdData { error: Some(error), ..ColdData::default() }));
            return true;
        }
    };
    counters.count_fault(site, &fault);
    let is_corrupted = fault.corrupts_data(shape);
    let algorithm = session.params.algorithm();
    let error = match fault {
        Fault::Declined(why) => {
            let why = format!("{}: {why}", session.gantry.devices()[route.device].name());
            Error::Unserved { algorithm, operation, reasons: vec![why] }
        }
        last => {
            session.quarantine(route.device, site);
            Error::Device { algorithm, last }
        }
    };
    tried_devices |= 1 << route.device;
    request.cold_mut().error = Some(match (before, error) {
        (Some(Error::Unserved { mut reasons, .. }), Error::Unserved { reasons: more, .. }) => {
            reasons.extend(more);
            Error::Unserved { algorithm, operation, reasons }
        }
        (Some(failed @ Error::Device { .. }), Error::Unserved { .. }) => failed,
        (_, error) => error,
    });
    if let Some(stream) = &mut request.stream {
        // A chunk is missing: the stream would now give the digest of another message.
        *stream.has_lost_chunk = true;
        return true;
    }
    if is_corrupted {
        return true;
    }
    handle.meta.tried_devices = tried_devices;
    false
}

/// Runs a request in this thread, trying one device after the other, except the devices that have already tried it.
pub(crate) fn run_on_this_thread(handle: &mut Handle) {
    let (tried_devices, shape) = (handle.meta.tried_devices, handle.meta.shape);
    let copied = handle.copy_segments();
    let (session, request) = handle.parts();
    let attempts = earlier_attempts(tried_devices, request.take_error());
    let mut timer = session.counters().timer(1);
    match session.run_after_attempts(attempts, &mut request.entry.operands, shape, &mut timer, &mut request.route) {
        Ok(outcome) => request.entry.outcome = Some(outcome),
        Err(error) => request.cold_mut().error = Some(error),
    }
    if let Some(route) = request.route.filter(|_| copied > 0) {
        session.gantry.count_copied(route.device, session.params.algorithm(), shape.operation, copied);
    }
}
