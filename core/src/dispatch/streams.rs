//! Messages that come in pieces: where their state lives, and what a step of it does.

use super::session::SessionCore;
use crate::algorithm::{Error, Fault, Operation, Outcome, Refusal, Result, Unsupported};
use crate::devices::{UNDER_WAY, Urgency};
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
        let (mut tried, mut under_way, mut urgency, mut last) = (0_u64, 0_u64, Urgency::Brief, None);
        loop {
            let sizes = Sizes::One(0);
            let question = Question { operation, requests, bytes: 0, sizes, needs, tried };
            let route = self.ask(&question).filter(|route| tried >> route.device & 1 == 0);
            let Some((route, place)) = route.and_then(|route| Some((route, self.place(route.device)?))) else {
                if under_way == 0 {
                    break;
                }
                // Whoever is being tested is waited for after all.
                (tried, under_way, urgency) = (tried & !under_way, 0, Urgency::Patient);
                continue;
            };
            tried |= 1 << route.device;
            match self.opened(place, urgency.on(route)) {
                Ok(session) => match guarded(|| open(&*session).map_err(Refusal::from)) {
                    Ok(state) => return Ok((state, Route { reason: Reason::Stream, ..route })),
                    Err(Refusal::Fault(fault)) => {
                        self.quarantine(route.device, self.site(route.device, operation));
                        last = Some(fault);
                    }
                    Err(Refusal::Unsupported(_)) => {}
                },
                Err(Refusal::Fault(Fault::Declined(why))) if why == UNDER_WAY => under_way |= 1 << route.device,
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
