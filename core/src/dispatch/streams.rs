//! Messages that come in pieces: where their state lives, and what a step of it does.

use super::admission::Urgency;
use super::session::SessionCore;
use crate::algorithm::{Error, Fault, Operation, Outcome, Refusal, Result, Unsupported};
use crate::driver::{DeviceSession, guarded};
use crate::route::{Needs, Question, Reason, Route, Sizes};

impl SessionCore {
    /// Opens a stream on the device that comes first for so many streams side by side.
    pub(crate) fn open_stream<S>(
        &self,
        operation: Operation,
        side_by_side: usize,
        open: impl Fn(&dyn DeviceSession) -> std::result::Result<S, Unsupported>,
    ) -> Result<(S, Route)> {
        let needs = Needs { in_place: false, streaming: true, max_bytes: 0 };
        let requests = side_by_side.max(1);
        let (mut tried, mut last) = (0, None);
        loop {
            let sizes = Sizes::One(0);
            let question = Question { operation, requests, bytes: 0, sizes, needs, tried };
            let Some(route) = self.ask(&question) else { break };
            let Some(place) = self.place(route.device).filter(|_| tried >> route.device & 1 == 0) else { break };
            tried |= 1 << route.device;
            // A stream stays where it begins: its device is waited for.
            match self.opened(place, Urgency::Patient) {
                Ok(session) => match guarded(|| open(&*session).map_err(Refusal::from)) {
                    Ok(state) => return Ok((state, Route { reason: Reason::Stream, ..route })),
                    Err(Refusal::Fault(fault)) => {
                        self.quarantine(route.device, self.site(route.device, operation));
                        last = Some(fault);
                    }
                    Err(Refusal::Unsupported(_)) => {}
                },
                Err(Refusal::Fault(fault)) => last = Some(fault),
                Err(Refusal::Unsupported(_)) => {}
            }
        }
        Err(self.nobody(operation, last, Vec::new()))
    }

    /// Runs a step of a stream, of so many bytes, and counts it as a request.
    pub(crate) fn step_stream(
        &self,
        operation: Operation,
        route: Route,
        bytes: usize,
        step: impl FnOnce() -> std::result::Result<Outcome, Fault>,
    ) -> Result<Outcome> {
        let mut watch = self.counters().watch(1);
        let site = self.site(route.device, operation);
        watch.sent(site, route.reason, 1, bytes);
        let result = guarded(step);
        watch.back(site, 1);
        watch.here().result(site, &result);
        result.map_err(|last| {
            // A device that declines a step is well: the message ends, and nothing is held against the device.
            if !matches!(last, Fault::Declined(_)) {
                self.quarantine(route.device, site);
            }
            Error::Device { algorithm: self.params.algorithm(), last }
        })
    }
}
