//! One request on the calling thread: on one device after the other, until one gives an outcome.

use super::admission::{UNDER_WAY, Urgency};
use super::session::SessionCore;
use crate::algorithm::{Error, Fault, Outcome, Refusal, Result, Shape};
use crate::driver::{Operands, guarded};
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
