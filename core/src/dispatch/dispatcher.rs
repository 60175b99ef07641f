//! From routes to devices and back: what batches, queues and coalescers have in common.
//!
//! Requests that may share a route are a [`Group`]. Each part of it goes where the policy says: to a device that works in the
//! calling thread, where it is done at once, or to a ring, from which it comes back later. What a ring has no room for
//! waits in the device's backlog, which every thread that finds room serves in order.
//!
//! Never put another thread's request on a private line: its owner may stop polling. Such requests go by the
//! [shared lines](super::shared), and whoever waits polls those.

#![allow(unsafe_code)]

use std::convert::Infallible;
use std::ops::Deref;
use std::ptr::NonNull;

use smallvec::SmallVec;

use super::direct::blame;
use super::framework::Gantry;
use super::group::{Group, address, address_by_owner};
use super::session::{OpenSession, SessionCore};
use crate::algorithm::{Fault, Operation, Outcome};
use crate::devices::{Coalescer, Line, RegisteredDevice, Sender, Urgency};
use crate::driver::{Operands, survived};
use crate::request::{Inbox, List, Loan, Request};
use crate::route::{Question, Reason, Route, Sizes};
use crate::stats::{Event, Site, Watch};

/// The lines of one thread to the devices that it uses at the moment.
///
/// Requests of our own are those that are at home in `inbox`.
pub(crate) struct Dispatcher<H> {
    pub(crate) inbox: H,
    /// Rarely more than one; more than two allocate.
    pub(crate) lines: SmallVec<[Line; 2]>,
    /// Requests of our own that are in a device or in a backlog.
    pub(crate) out: usize,
    /// Something did not go as it should: what is done may have errors.
    pub(crate) amiss: bool,
    sender: Sender,
    /// Where our next request stands in the virtual time of backlogs whose devices are shared.
    turn: u64,
}

/// Requests that go to one device together.
struct Part<'s> {
    /// Among the candidates of the session that leads.
    place: usize,
    route: Route,
    /// Of all requests.
    bytes: usize,
    list: List,
    /// The session of all of them, where the device does one after the other in this thread. Without it, each knows its own.
    session: Option<OpenSession<'s>>,
}

impl<H: Deref<Target = Inbox>> Dispatcher<H> {
    pub(crate) fn new(inbox: H, sender: Sender) -> Self {
        Self { inbox, lines: SmallVec::new(), out: 0, amiss: false, sender, turn: 0 }
    }

    /// Requests of our own that are out.
    pub(crate) fn out(&self) -> usize {
        self.out
    }

    /// Whether there is something to poll for: requests of our own, or others' that went to a device by our line.
    pub(crate) fn is_busy(&self) -> bool {
        self.out > 0 || self.lines.iter().any(|line| line.pair.in_flight() > 0)
    }

    /// Lays requests of ours down where anybody may take them along. Returns how many then lie there.
    pub(crate) fn post(&mut self, coalescer: &Coalescer, list: List) -> usize {
        self.out += list.len();
        coalescer.post(list)
    }

    /// Takes along everything that lies there, and runs it. `lead` is a session of the coalescer's algorithm.
    pub(crate) fn take_along(&mut self, lead: &SessionCore, coalescer: &Coalescer, done: &mut List) {
        let list = self.take_from(coalescer);
        self.send_taken(lead, list, done);
    }

    /// Takes back what lies there of ours. The rest is run: whoever takes requests from a coalescer must run them;
    /// otherwise an owner could lose track of its own.
    pub(crate) fn recall(&mut self, lead: &SessionCore, coalescer: &Coalescer, done: &mut List) -> List {
        let mut list = self.take_from(coalescer);
        let own = list.extract(|request| request.is_at_home(&self.inbox));
        self.send_taken(lead, list, done);
        own
    }

    fn take_from(&mut self, coalescer: &Coalescer) -> List {
        let list = coalescer.take();
        self.out -= list.iter().filter(|request| request.is_at_home(&self.inbox)).count();
        list
    }

    fn send_taken(&mut self, lead: &SessionCore, list: List, done: &mut List) {
        let mut watch = lead.counters().watch(list.len());
        self.send_all(lead, list, true, &mut watch, done);
    }

    /// Sends requests on their way, those together that may go together. `mixed`: they are not all of one session and thread.
    #[inline]
    pub(crate) fn send_all(
        &mut self,
        lead: &SessionCore,
        mut requests: List,
        mixed: bool,
        watch: &mut Watch<'_>,
        done: &mut List,
    ) {
        while !requests.is_empty() {
            let mut group = Group::new(mixed);
            let together = requests.iter().take_while(|request| group.takes_in(lead, request)).count();
            group.list = requests.take_front(together);
            self.send(lead, group, watch, done);
        }
    }

    /// Sends every request on its way. What no ring keeps is in `done` when this returns. `lead` is a session of theirs.
    pub(crate) fn send(&mut self, lead: &SessionCore, mut group: Group, watch: &mut Watch<'_>, done: &mut List) {
        let Some(operation) = group.operation else { return };
        let (mut tried, mut urgency) = (0, Urgency::Brief);
        // Parts for devices that work in this thread: they run when the rings have theirs.
        let mut later = [const { None }; 4];
        let (mut back, mut all_done) = (List::new(), true);
        while !group.list.is_empty() {
            let requests = group.list.len();
            let route = group.bound.map(|route| Route { requests, ..route });
            let route = route.or_else(|| {
                let (sizes, bytes, needs) = (Sizes::Many(&group.list), group.bytes, group.needs);
                lead.ask(&Question { operation, requests, bytes, sizes, needs, tried })
            });
            let Some((route, place)) = route.and_then(|route| Some((route, lead.place(route.device)?))) else {
                // Nobody can take all of them. Perhaps somebody can take each.
                self.run_one_by_one(std::mem::take(&mut group.list), done);
                break;
            };
            let mut part = group.list.take_front(route.requests.max(1));
            // A queue would do the same in a roundabout way.
            let simple = !group.mixed
                && lead.candidates[place].capability.direct
                && lead.gantry.devices()[route.device].is_inline();
            let session = simple.then(|| lead.opened(place, urgency.on(route)));
            let mut declined = match session {
                None => Self::address(lead, place, route, urgency.on(route), group.mixed, &mut part),
                Some(Ok(_)) => List::new(),
                Some(Err(_)) => std::mem::take(&mut part),
            };
            let session = session.and_then(Result::ok);
            if !declined.is_empty() {
                if part.is_empty() && group.bound.is_none() {
                    tried |= 1 << route.device;
                    urgency = Urgency::Never; // to test one device is enough
                    declined.append(&mut group.list);
                    group.list = declined;
                    continue;
                }
                self.run_one_by_one(declined, done); // not all of these sessions are for this device
            }
            let candidate = &lead.candidates[place];
            let bytes = if group.list.is_empty() {
                group.bytes
            } else {
                part.iter().map(|request| request.note.shape.bytes).sum()
            };
            group.bytes = group.bytes.saturating_sub(bytes);
            let part = Part { place, route, bytes, list: part, session };
            if candidate.capability.direct
                && !group.list.is_empty()
                && let Some(slot) = later.iter_mut().find(|slot| slot.is_none())
            {
                *slot = Some(part);
                continue;
            }
            all_done &= self.run_part(lead, operation, part, group.mixed, watch, &mut back);
        }
        for slot in &mut later {
            let Some(part) = slot.take() else { break };
            all_done &= self.run_part(lead, operation, part, group.mixed, watch, &mut back);
        }
        self.doorbells();
        if all_done {
            return self.keep_own(group.mixed, back, done);
        }
        self.sort(group.mixed, back, done);
    }

    /// Tells devices of what they were given.
    #[inline]
    fn doorbells(&mut self) {
        for line in &mut self.lines {
            line.pair.doorbell();
        }
    }

    /// Whether all of them [are done](Request::is_done), and nothing else came back.
    #[inline]
    fn run_part(
        &mut self,
        lead: &SessionCore,
        operation: Operation,
        part: Part<'_>,
        mixed: bool,
        watch: &mut Watch<'_>,
        back: &mut List,
    ) -> bool {
        let Part { place, route, bytes, mut list, session } = part;
        let Route { device, reason, measure, .. } = route;
        let (requests, before) = (list.len(), back.len());
        let site = lead.site(device, operation);
        if lead.gantry.verifies() != 0 {
            list.each(|handle| {
                if session.is_some() {
                    handle.copy_for(device);
                }
                lead.attest(place, handle);
            });
        }
        watch.sent(site, reason, requests, bytes);
        if mixed && requests > 1 {
            watch.here().event(site, Event::Coalesced, requests);
            watch.here().event(site, Event::Coalescing, 1);
        }
        if !lead.candidates[place].capability.direct {
            let now = lead.gantry.clock().now();
            list.each(|handle| handle.note.since = now.max(1));
        }
        let started = measure.then(|| lead.gantry.start(&lead.candidates[place]));
        let all_done = match session {
            Some(session) => self.run_each(&session, route, list, back),
            None => self.submit(&lead.gantry, device, site, list, mixed, back),
        };
        if let Some(started) = started {
            let what = (lead.params.algorithm(), operation);
            if back.len() - before == requests {
                lead.gantry.learn(what, route, requests, bytes / requests, started);
            } else if let Some(line) = self.lines.iter_mut().find(|line| line.device == device)
                && !lead.candidates[place].capability.direct
            {
                let handing = lead.gantry.clock().now().saturating_sub(started);
                line.begin_lesson(route, what, (requests, bytes / requests), (started, handing));
            }
        }
        watch.back(site, back.len() - before);
        all_done
    }

    /// Runs requests on this device and no other. Those that it fails to do have its fault.
    fn try_on(&mut self, lead: &SessionCore, device: usize, operation: Operation, mut list: List, done: &mut List) {
        let mut back = List::new();
        if let Some(place) = lead.place(device) {
            let route = Route { device, requests: list.len(), reason: Reason::Pinned, measure: false };
            let mut declined = Self::address(lead, place, route, Urgency::Patient, false, &mut list);
            done.append(&mut declined);
            if !lead.candidates[place].capability.direct {
                let now = lead.gantry.clock().now();
                list.each(|handle| handle.note.since = now.max(1)); // it may have to wait for a queue pair
            }
        }
        let site = lead.site(device, operation);
        self.submit(&lead.gantry, device, site, list, false, &mut back);
        self.keep_own(false, back, done);
        while self.out > 0 {
            let back = self.collect(&lead.gantry);
            if back.is_empty() {
                self.wait(&lead.gantry, None);
            }
            self.keep_own(true, back, done);
        }
        self.close(&lead.gantry, done);
    }

    /// Notes on every request where it goes. Those whose session the device declines are left out and returned.
    #[inline]
    fn address(lead: &SessionCore, place: usize, route: Route, urgency: Urgency, mixed: bool, part: &mut List) -> List {
        if !mixed {
            let Ok(session) = lead.opened(place, urgency) else { return std::mem::take(part) };
            part.each(|handle| address(handle, &session, route));
            return List::new();
        }
        let mut declined = List::new();
        for mut handle in std::mem::take(part) {
            if address_by_owner(&mut handle, place, route) {
                part.push(handle);
            } else {
                declined.push(handle);
            }
        }
        declined
    }

    /// Runs requests, one after the other, by the session of all of them. Whether each [is done](Request::is_done).
    #[inline]
    fn run_each(&mut self, session: &OpenSession<'_>, route: Route, mut part: List, back: &mut List) -> bool {
        self.out += part.len();
        let mut all_done = true;
        let ran = survived(|| {
            part.each(|handle| {
                handle.route = Some(route);
                handle.copy_for(route.device);
                let result = handle.entry.operands.reborrow().run_by(&**session);
                handle.entry.finish(result);
                all_done &= handle.is_done();
            });
        });
        if ran.is_err() {
            all_done = false;
            blame(route, &mut part);
        }
        back.append(&mut part);
        all_done
    }

    /// Hands requests to a device. What it does at once is in `back`; whether that is all, and each
    /// [is done](Request::is_done).
    pub(crate) fn submit(
        &mut self,
        gantry: &Gantry,
        device: usize,
        site: Site,
        mut part: List,
        mixed: bool,
        back: &mut List,
    ) -> bool {
        let registered = &gantry.devices()[device];
        let own =
            if mixed { part.iter().filter(|request| request.is_at_home(&self.inbox)).count() } else { part.len() };
        // What stays in a device beyond this call does not stay in a line of ours, if it is not ours.
        let is_ring = part.iter().any(|request| request.note.since > 0);
        if is_ring && registered.is_scarce() {
            return self.share(gantry, registered, device, site, part, back);
        }
        self.out += own;
        let common = own < part.len() && is_ring;
        let index = self.lines.iter().position(|line| line.device == device && line.pair.is_open());
        let mut line = match index {
            Some(index) => self.lines.swap_remove(index),
            None => match registered.take_pair() {
                Ok(Some(pair)) => Line::new(device, pair, site),
                Ok(None) if is_ring => {
                    self.out -= own; // they are counted again on the way that all share
                    return self.share(gantry, registered, device, site, part, back);
                }
                none => {
                    let fault = none.err().unwrap_or(Fault::Declined("all of its queue pairs are in use"));
                    part.fail(&fault, back);
                    return false;
                }
            },
        };
        // Nobody passes those who wait already.
        let all_done =
            !common && registered.health().backlog.is_empty() && line.submit(registered.health(), &mut part, back);
        if part.is_empty() && line.pair.in_flight() == 0 {
            put_away(gantry, line);
            return all_done;
        }
        if !part.is_empty() {
            gantry.counters().here().event(site, Event::Full, part.len());
            registered.health().backlog.push(&mut part, self.sender, &mut line.turn);
            self.lines.push(line);
            // The device may have got room before these were in the backlog, and then nobody would look again.
            gantry.serve(device, false, back);
            return false;
        }
        self.lines.push(line);
        all_done
    }

    /// Leads requests to a device whose queue pairs are shared: by its backlog, in the order of all that wait there.
    fn share(
        &mut self,
        gantry: &Gantry,
        registered: &RegisteredDevice,
        device: usize,
        site: Site,
        mut part: List,
        back: &mut List,
    ) -> bool {
        if !registered.health().backlog.is_empty() {
            gantry.counters().here().event(site, Event::Full, part.len());
        }
        self.out += part.iter().filter(|request| request.is_at_home(&self.inbox)).count();
        registered.health().backlog.push(&mut part, self.sender, &mut self.turn);
        gantry.serve(device, false, back);
        // Those of other threads may be among what came back.
        self.deliver_foreign(back);
        false
    }
}

/// Lets others have the queue pair, in which nothing is.
pub(crate) fn put_away(gantry: &Gantry, line: Line) {
    gantry.devices()[line.device].put_pair(line.pair);
}

impl SessionCore {
    /// Runs one request on a device that has no direct way, by its queue pairs.
    pub(crate) fn run_on_ring(&self, device: usize, operands: Operands<'_>) -> Result<Outcome, Fault> {
        let home = Inbox::new();
        let mut dispatcher = Dispatcher::new(&home, Sender::default());
        let shape = operands.shape();
        let mut request = Request::new(operands, None);
        request.note.shape = shape;
        request.note.algorithm = self.params.algorithm();
        let owner = Some(NonNull::from(self).cast());
        // SAFETY: the session is borrowed for longer than the loan.
        let Ok(loan) =
            unsafe { Loan::of(std::slice::from_mut(&mut request), &home, |_, _| Ok::<_, Infallible>(owner)) };
        loan.run(|list| {
            let mut done = List::new();
            dispatcher.try_on(self, device, shape.operation, list, &mut done);
            done
        });
        request.entry.result()
    }
}
