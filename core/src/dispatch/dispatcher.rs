//! Sends requests to devices and gets them back: the common part of batches, queues and coalescers.
//!
//! Requests that may share a route are a [`Group`]. Each part of a group goes to the device that the policy chooses. A device that works in
//! the calling thread runs it at once; a queue pair returns it later. Requests for which a queue pair has no room wait in the device's
//! backlog, which every thread that finds room serves in order.
//!
//! Never put another thread's request on a private queue pair: the owner of the pair may stop polling. Such requests go to shared queue
//! pairs, which every waiting thread polls.

#![allow(unsafe_code)]

use std::convert::Infallible;
use std::ops::Deref;
use std::ptr::NonNull;

use smallvec::SmallVec;

use super::direct::mark_panicked;
use super::framework::Gantry;
use super::group::{Group, set_route, set_route_of_own_session};
use super::session::{OpenSession, SessionCore};
use crate::algorithm::{Fault, Operation, Outcome};
use crate::devices::{ActivePair, Coalescer, RegisteredDevice, Sender, TestWait};
use crate::driver::{Operands, catch_panic};
use crate::request::{BorrowedBatch, Inbox, List, Request};
use crate::route::{Question, Reason, Route, Sizes};
use crate::stats::{Event, Site, StageTimer};

/// The queue pairs that one thread uses at the moment.
///
/// Our own requests are the requests that come back to `inbox`.
pub(crate) struct Dispatcher<H> {
    pub(crate) inbox: H,
    /// Open queue pairs: rarely more than one, and more than two need an allocation.
    pub(crate) pairs: SmallVec<[ActivePair; 2]>,
    /// Number of our requests in a device, a backlog or a coalescer.
    pub(crate) in_flight: usize,
    /// A request may have ended with an error.
    pub(crate) has_errors: bool,
    sender: Sender,
    /// Virtual time of our next request in the backlogs of devices whose queue pairs are shared.
    next_start: u64,
}

/// Requests that go to one device together.
struct Part<'s> {
    /// Index of the device among the candidates of the leading session.
    candidate_index: usize,
    route: Route,
    /// Bytes of all requests.
    bytes: usize,
    list: List,
    /// The session of all requests, if an inline device runs them in this thread. If `None`, each request has a pointer to its session.
    session: Option<OpenSession<'s>>,
}

impl<H: Deref<Target = Inbox>> Dispatcher<H> {
    pub(crate) fn new(inbox: H, sender: Sender) -> Self {
        Self { inbox, pairs: SmallVec::new(), in_flight: 0, has_errors: false, sender, next_start: 0 }
    }

    /// Returns the number of our requests in a device, a backlog or a coalescer.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Returns `true` if there is something to poll for: our requests, or requests of other threads on our queue pairs.
    pub(crate) fn is_busy(&self) -> bool {
        self.in_flight > 0 || self.pairs.iter().any(|active| active.pair.in_flight() > 0)
    }

    /// Puts requests of ours into a coalescer, from which any thread may take and run them. Returns the number of requests in the
    /// coalescer.
    pub(crate) fn post(&mut self, coalescer: &Coalescer, list: List) -> usize {
        self.in_flight += list.len();
        coalescer.post(list)
    }

    /// Takes all requests of a coalescer and runs them. `lead` is a session of the coalescer's algorithm.
    pub(crate) fn send_posted(&mut self, lead: &SessionCore, coalescer: &Coalescer, done: &mut List) {
        let list = self.take_from(coalescer);
        self.send_taken(lead, list, done);
    }

    /// Takes all requests of a coalescer, returns our own, and runs the others. A thread that takes requests must run them; otherwise the
    /// owner of a request could lose track of it.
    pub(crate) fn take_own(&mut self, lead: &SessionCore, coalescer: &Coalescer, done: &mut List) -> List {
        let mut list = self.take_from(coalescer);
        let own = list.extract(|request| request.comes_back_to(&self.inbox));
        self.send_taken(lead, list, done);
        own
    }

    fn take_from(&mut self, coalescer: &Coalescer) -> List {
        let list = coalescer.take();
        self.in_flight -= list.iter().filter(|request| request.comes_back_to(&self.inbox)).count();
        list
    }

    fn send_taken(&mut self, lead: &SessionCore, list: List, done: &mut List) {
        let mut timer = lead.counters().timer(list.len());
        self.send_all(lead, list, true, &mut timer, done);
    }

    /// Sends requests, grouped by shared routes. `mixed`: the requests may belong to several sessions or threads.
    #[inline]
    pub(crate) fn send_all(
        &mut self,
        lead: &SessionCore,
        mut requests: List,
        mixed: bool,
        timer: &mut StageTimer<'_>,
        done: &mut List,
    ) {
        while !requests.is_empty() {
            let mut group = Group::new(mixed, requests.len());
            let count = requests.iter().take_while(|request| group.try_add(lead, request)).count();
            group.list = requests.take_front(count);
            if group.stream_route.is_some() {
                // Streams of several devices may alternate.
                let mut others = requests.extract(|request| group.try_add(lead, request));
                group.list.append(&mut others);
            }
            self.send(lead, group, timer, done);
        }
    }

    /// Sends a group. Our requests are in `done` afterwards, unless a queue pair or a backlog keeps them. `lead` is a session of the group.
    pub(crate) fn send(&mut self, lead: &SessionCore, mut group: Group, timer: &mut StageTimer<'_>, done: &mut List) {
        let Some(operation) = group.operation else { return };
        let (mut tried_devices, mut test_wait) = (0, TestWait::Brief);
        // Parts for devices that work in this thread. They run after the other parts were submitted to queue pairs.
        let mut later = [const { None }; 4];
        let (mut returned, mut all_done) = (List::new(), true);
        while !group.list.is_empty() {
            let requests = group.list.len();
            let route = group.stream_route.map(|route| Route { requests, ..route });
            let route = route.or_else(|| {
                let (sizes, bytes, needs) = (Sizes::Many(&group.list), group.bytes, group.needs);
                lead.ask(&Question { operation, requests, bytes, sizes, needs, tried_devices })
            });
            let Some((route, index)) = route.and_then(|route| Some((route, lead.candidate_index(route.device)?)))
            else {
                // No device takes the whole group. One may take each request alone.
                self.run_one_by_one(std::mem::take(&mut group.list), done);
                break;
            };
            let mut part = group.list.take_front(route.requests.max(1));
            // Requests for an inline device run without a queue pair, which would do the same with more overhead.
            let runs_without_pair = !group.mixed
                && lead.candidates[index].capability.synchronous
                && lead.gantry.devices()[route.device].is_inline();
            let session = runs_without_pair.then(|| lead.device_session(index, test_wait.for_route(route)));
            let mut declined = match session {
                None => Self::set_routes(lead, index, route, test_wait.for_route(route), group.mixed, &mut part),
                Some(Ok(_)) => List::new(),
                Some(Err(_)) => std::mem::take(&mut part),
            };
            let session = session.and_then(Result::ok);
            if !declined.is_empty() {
                if part.is_empty() && group.stream_route.is_none() {
                    tried_devices |= 1 << route.device;
                    test_wait = TestWait::None; // testing one device is enough
                    declined.append(&mut group.list);
                    group.list = declined;
                    continue;
                }
                self.run_one_by_one(declined, done); // the device does not open all of these sessions
            }
            let candidate = &lead.candidates[index];
            let bytes = if group.list.is_empty() {
                group.bytes
            } else {
                part.iter().map(|request| request.meta.shape.bytes).sum()
            };
            group.bytes = group.bytes.saturating_sub(bytes);
            let part = Part { candidate_index: index, route, bytes, list: part, session };
            if candidate.capability.synchronous
                && !group.list.is_empty()
                && let Some(slot) = later.iter_mut().find(|slot| slot.is_none())
            {
                *slot = Some(part);
                continue;
            }
            all_done &= self.run_part(lead, operation, part, group.mixed, timer, &mut returned);
        }
        for slot in &mut later {
            let Some(part) = slot.take() else { break };
            all_done &= self.run_part(lead, operation, part, group.mixed, timer, &mut returned);
        }
        self.ring_doorbells();
        if all_done {
            return self.keep_own(group.mixed, returned, done);
        }
        self.sort_completions(group.mixed, returned, done);
    }

    /// Notifies devices of new requests.
    #[inline]
    fn ring_doorbells(&mut self) {
        for active in &mut self.pairs {
            active.pair.doorbell();
        }
    }

    /// Runs a part. Returns `true` if all requests of the part [are done](Request::is_done) and no other requests came back.
    #[inline]
    fn run_part(
        &mut self,
        lead: &SessionCore,
        operation: Operation,
        part: Part<'_>,
        mixed: bool,
        timer: &mut StageTimer<'_>,
        returned: &mut List,
    ) -> bool {
        let Part { candidate_index: index, route, bytes, mut list, session } = part;
        let Route { device, reason, measure, .. } = route;
        let (requests, before) = (list.len(), returned.len());
        let site = lead.site(device, operation);
        if lead.gantry.verify_one_in() != 0 {
            list.each(|handle| {
                if session.is_some() {
                    handle.copy_segments_for(device);
                }
                lead.keep_shadow_if_due(index, handle);
            });
        }
        timer.count_sent(site, reason, requests, bytes);
        if mixed && requests > 1 {
            timer.counters().count_event(site, Event::Coalesced, requests);
            timer.counters().count_event(site, Event::CoalescedBatch, 1);
        }
        if !lead.candidates[index].capability.synchronous {
            let now = lead.gantry.clock().now();
            list.each(|handle| handle.meta.since = now.max(1));
        }
        let started = measure.then(|| lead.gantry.measurement_start(&lead.candidates[index]));
        let all_done = match session {
            Some(session) => self.run_each(&session, route, list, returned),
            None => self.submit(&lead.gantry, device, site, list, mixed, returned),
        };
        if let Some(started) = started {
            let target = (lead.params.algorithm(), operation);
            if returned.len() - before == requests {
                lead.gantry.learn(target, route, requests, bytes / requests, started);
            } else if let Some(active) = self.pairs.iter_mut().find(|active| active.device == device)
                && !lead.candidates[index].capability.synchronous
            {
                let submit_ns = lead.gantry.clock().now().saturating_sub(started);
                active.begin_measurement(route, target, (requests, bytes / requests), (started, submit_ns));
            }
        }
        timer.count_returned(site, returned.len() - before);
        all_done
    }

    /// Runs requests on this device only. If the device fails a request, the fault stays in the request.
    fn try_on(&mut self, lead: &SessionCore, device: usize, operation: Operation, mut list: List, done: &mut List) {
        let mut returned = List::new();
        if let Some(index) = lead.candidate_index(device) {
            let route = Route { device, requests: list.len(), reason: Reason::Pinned, measure: false };
            let mut declined = Self::set_routes(lead, index, route, TestWait::Full, false, &mut list);
            done.append(&mut declined);
            if !lead.candidates[index].capability.synchronous {
                let now = lead.gantry.clock().now();
                list.each(|handle| handle.meta.since = now.max(1)); // lets requests wait for a queue pair
            }
        }
        let site = lead.site(device, operation);
        self.submit(&lead.gantry, device, site, list, false, &mut returned);
        self.keep_own(false, returned, done);
        while self.in_flight > 0 {
            let returned = self.collect(&lead.gantry);
            if returned.is_empty() {
                self.wait(&lead.gantry, None);
            }
            self.keep_own(true, returned, done);
        }
        self.close(&lead.gantry, done);
    }

    /// Sets the device session and route of every request. Removes and returns the requests whose session the device declines.
    #[inline]
    fn set_routes(
        lead: &SessionCore,
        index: usize,
        route: Route,
        test_wait: TestWait,
        mixed: bool,
        part: &mut List,
    ) -> List {
        if !mixed {
            let Ok(session) = lead.device_session(index, test_wait) else { return std::mem::take(part) };
            part.each(|handle| set_route(handle, &session, route));
            return List::new();
        }
        let mut declined = List::new();
        for mut handle in std::mem::take(part) {
            if set_route_of_own_session(&mut handle, index, route) {
                part.push(handle);
            } else {
                declined.push(handle);
            }
        }
        declined
    }

    /// Runs requests one by one with their common session. Returns `true` if each [is done](Request::is_done).
    #[inline]
    fn run_each(&mut self, session: &OpenSession<'_>, route: Route, mut part: List, returned: &mut List) -> bool {
        self.in_flight += part.len();
        let mut all_done = true;
        let ran = catch_panic(|| {
            part.each(|handle| {
                handle.route = Some(route);
                handle.copy_segments_for(route.device);
                let result = handle.entry.operands.reborrow().run_by(&**session);
                handle.entry.finish(result);
                all_done &= handle.is_done();
            });
        });
        if ran.is_err() {
            all_done = false;
            mark_panicked(route, &mut part);
        }
        returned.append(&mut part);
        all_done
    }

    /// Hands requests to a device. Requests that complete at once are in `returned`. Returns `true` if `returned` got all
    /// requests of `part` and no others, and each [is done](Request::is_done).
    pub(crate) fn submit(
        &mut self,
        gantry: &Gantry,
        device: usize,
        site: Site,
        mut part: List,
        mixed: bool,
        returned: &mut List,
    ) -> bool {
        let registered = &gantry.devices()[device];
        let own =
            if mixed { part.iter().filter(|request| request.comes_back_to(&self.inbox)).count() } else { part.len() };
        // A request with a time in `since` goes to a device that may keep it after this call. If the request belongs to another thread, it
        // must then not be on a queue pair of ours.
        let is_ring = part.iter().any(|request| request.meta.since > 0);
        if is_ring && registered.has_few_pairs() {
            return self.share(gantry, registered, device, site, part, returned);
        }
        self.in_flight += own;
        let has_foreign = own < part.len() && is_ring;
        let index = self.pairs.iter().position(|active| active.device == device && active.pair.is_open());
        let mut active = match index {
            Some(index) => self.pairs.swap_remove(index),
            None => match registered.take_pair() {
                Ok(Some(pair)) => ActivePair::new(device, pair, site),
                Ok(None) if is_ring => {
                    self.in_flight -= own; // `share` counts them again
                    return self.share(gantry, registered, device, site, part, returned);
                }
                none => {
                    let fault = none.err().unwrap_or(Fault::Declined("all of its queue pairs are in use"));
                    part.fail(&fault, returned);
                    return false;
                }
            },
        };
        // Requests of other threads go to the backlog below, and no request overtakes a waiting one.
        let all_done = !has_foreign
            && registered.health().backlog.is_empty()
            && active.submit(registered.health(), &mut part, returned);
        if part.is_empty() && active.pair.in_flight() == 0 {
            release_pair(gantry, active);
            return all_done;
        }
        if !part.is_empty() {
            gantry.counters().this_thread().count_event(site, Event::Full, part.len());
            registered.health().backlog.push(&mut part, self.sender, &mut active.next_start);
            self.pairs.push(active);
            // The device may have got room before these requests were in the backlog. Without this check, perhaps no thread would notice.
            gantry.serve(device, false, returned);
            return false;
        }
        self.pairs.push(active);
        all_done
    }

    /// Sends requests to a device with shared queue pairs: through its backlog, in the order of all waiting requests. Always returns
    /// `false`, as `submit` does for requests that are not done.
    fn share(
        &mut self,
        gantry: &Gantry,
        registered: &RegisteredDevice,
        device: usize,
        site: Site,
        mut part: List,
        returned: &mut List,
    ) -> bool {
        if !registered.health().backlog.is_empty() {
            gantry.counters().this_thread().count_event(site, Event::Full, part.len());
        }
        self.in_flight += part.iter().filter(|request| request.comes_back_to(&self.inbox)).count();
        registered.health().backlog.push(&mut part, self.sender, &mut self.next_start);
        gantry.serve(device, false, returned);
        // Requests of other threads may have come back, too.
        self.deliver_foreign(returned);
        false
    }
}

/// Returns an idle queue pair to its device.
pub(crate) fn release_pair(gantry: &Gantry, active: ActivePair) {
    gantry.devices()[active.device].put_pair(active.pair);
}

impl SessionCore {
    /// Runs one request through queue pairs, on a device that does not work in the calling thread.
    pub(crate) fn run_on_queue_pair(&self, device: usize, operands: Operands<'_>) -> Result<Outcome, Fault> {
        let inbox = Inbox::new();
        let mut dispatcher = Dispatcher::new(&inbox, Sender::default());
        let shape = operands.shape();
        let mut request = Request::new(operands, None);
        request.meta.shape = shape;
        request.meta.algorithm = self.params.algorithm();
        let session = Some(NonNull::from(self).cast());
        // SAFETY: the session is borrowed for longer than the batch.
        let Ok(batch) = unsafe {
            BorrowedBatch::new(std::slice::from_mut(&mut request), &inbox, |_, _| Ok::<_, Infallible>(session))
        };
        batch.run(|list| {
            let mut done = List::new();
            dispatcher.try_on(self, device, shape.operation, list, &mut done);
            done
        });
        request.entry.result()
    }
}
