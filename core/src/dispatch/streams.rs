//! Streams: the choice of the device that holds a stream's state, and the steps of a stream.

use super::session::SessionCore;
use crate::algorithm::{Error, Fault, Operation, Outcome, Refusal, Result, Unsupported};
use crate::devices::{TEST_RUNNING, TestWait};
use crate::driver::{DeviceSession, call_guarded};
use crate::route::{Needs, Question, Reason, Route, Sizes};

impl SessionCore {
    /// Opens a stream on the best device for `side_by_side` concurrent streams.
    pub(crate) fn open_stream<S>(
        &self,
        operation: Operation,
        side_by_side: usize,
        open: impl Fn(&dyn DeviceSession) -> std::result::Result<S, Unsupported>,
    ) -> Result<(S, Route)> {
        let needs = Needs { in_place: false, streaming: true, max_bytes: 0 };
        let requests = side_by_side.max(1);
        let (mut tried_devices, mut devices_under_test, mut test_wait, mut last) =
            (0_u64, 0_u64, TestWait::Brief, None);
        loop {
            let sizes = Sizes::One(0);
            let question = Question { operation, requests, bytes: 0, sizes, needs, tried_devices };
            let route = self.ask(&question).filter(|route| tried_devices >> route.device & 1 == 0);
            let Some((route, index)) = route.and_then(|route| Some((route, self.candidate_index(route.device)?)))
            else {
                if devices_under_test == 0 {
                    break;
                }
                // No other device is left: wait for the devices whose test was running.
                (tried_devices, devices_under_test, test_wait) =
                    (tried_devices & !devices_under_test, 0, TestWait::Full);
                continue;
            };
            tried_devices |= 1 << route.device;
            match self.device_session(index, test_wait.for_route(route)) {
                Ok(session) => match call_guarded(|| open(&*session).map_err(Refusal::from)) {
                    Ok(state) => return Ok((state, Route { reason: Reason::Stream, ..route })),
                    Err(Refusal::Fault(fault)) => {
                        self.quarantine(route.device, self.site(route.device, operation));
                        last = Some(fault);
                    }
                    Err(Refusal::Unsupported(_)) => {}
                },
                Err(Refusal::Fault(Fault::Declined(why))) if why == TEST_RUNNING => {
                    devices_under_test |= 1 << route.device;
                }
                Err(Refusal::Fault(fault)) => last = Some(fault),
                Err(Refusal::Unsupported(_)) => {}
            }
        }
        Err(self.unserved_error(operation, last, Vec::new()))
    }

    /// Runs a step of a stream with `bytes` bytes of data, and counts the step as a request.
    pub(crate) fn step_stream(
        &self,
        operation: Operation,
        route: Route,
        bytes: usize,
        step: impl FnOnce() -> std::result::Result<Outcome, Fault>,
    ) -> Result<Outcome> {
        let mut timer = self.counters().timer(1);
        let site = self.site(route.device, operation);
        timer.count_sent(site, route.reason, 1, bytes);
        let result = call_guarded(step);
        timer.count_returned(site, 1);
        timer.counters().count_result(site, &result);
        result.map_err(|last| {
            // A device may decline a step: the message ends, but the device is not quarantined.
            if !matches!(last, Fault::Declined(_)) {
                self.quarantine(route.device, site);
            }
            Error::Device { algorithm: self.params.algorithm(), last }
        })
    }
}
