//! From routes to devices and back: what `Session::process`, queues and gatherers have in common.
//!
//! Requests that may share a route are a [`Crowd`]. Each part of it goes where the policy says: to a device that works in the
//! calling thread, where it is done at once, or to a ring, from which it comes back by and by. What a ring has no room for
//! waits in the device's [`Backlog`](crate::backlog::Backlog), in which every thread that finds room serves all of them
//! in their order.
//!
//! A thread's own lines hold its own requests only, because it may do something else once it has these. What it does for others,
//! out of a backlog or a meeting, goes into a ring by the device's [`Common`] lines, and whoever waits polls those.

use std::ops::Deref;
use std::task::Waker;
use std::time::Duration;

use smallvec::SmallVec;

use crate::backlog::Sender;
use crate::driver::{DeviceQueue, DeviceSession};
use crate::error::{Error, Fault};
use crate::gather::{Meeting, this_thread};
use crate::guard::survived;
use crate::inbox::Inbox;
use crate::job::{Handle, Link, List};
use crate::line::Line;
use crate::registry::{Gantry, RegisteredDevice};
use crate::request::{Aside, Shape};
use crate::route::{Needs, Question, Reason, Route, Sizes, learned};
use crate::session::{Inner, Setbacks};
use crate::stats::{Event, Site, Stage, Watch};
use crate::sync::{AtomicU64, AtomicUsize, Mutex, Ordering, lock, try_lock};
use crate::{Algorithm, Operation, Request};

/// So many nanoseconds a thread waits awake for a device that tells: about what it costs to fall asleep and to be woken.
const AWAKE: u64 = 50_000;

/// What requests have in common that can share a route: the same operation, and streams of one device, with whole messages
/// among them as they come.
#[derive(Default)]
pub(crate) struct Crowd {
    pub(crate) list: List,
    operation: Option<Operation>,
    pub(crate) needs: Needs,
    /// Of all requests.
    pub(crate) bytes: usize,
    /// The route of the streams: their state is on that device already.
    bound: Option<Route>,
    /// They are not all of one session, or not all of one thread.
    pub(crate) mixed: bool,
}

impl Crowd {
    /// Of nobody.
    #[inline]
    pub(crate) fn new(mixed: bool) -> Self {
        Self { mixed, ..Self::default() }
    }

    /// Whether a request can go along; if so, what it needs is needed by all. `inner` is the session of one that is here.
    #[inline]
    pub(crate) fn takes_in(&mut self, inner: &Inner, request: &Request<'_>) -> bool {
        let shape = request.link.shape;
        // Nearly always it is one more whole message.
        let whole = self.bound.is_none() && request.body.bound.is_none();
        let fits = whole && self.operation == Some(shape.operation) || self.agrees_with(inner, request);
        if fits {
            self.count_in(shape);
        }
        fits
    }

    /// Whether it can go along otherwise: the first one always can, and streams have a device already.
    #[inline(never)]
    fn agrees_with(&mut self, inner: &Inner, request: &Request<'_>) -> bool {
        let Shape { operation, bytes, .. } = request.link.shape;
        let before = self.operation.replace(operation);
        if before.is_some_and(|before| before != operation) {
            self.operation = before;
            return false;
        }
        let theirs = request.body.bound.as_ref().map(|bound| bound.route);
        if let Some(route) = self.bound.or(theirs) {
            // Whole messages go along only where they may go by themselves.
            let mixed = self.bound.is_none() && before.is_some() || theirs.is_none();
            let elsewhere = theirs.is_some_and(|theirs| theirs.device != route.device);
            if elsewhere || mixed && !inner.serves(route.device, self.needs.max_bytes.max(bytes)) {
                return false;
            }
            self.bound = Some(route);
        }
        true
    }

    /// Takes in another whole message of the same operation, where no streams are.
    #[inline]
    pub(crate) fn count_in(&mut self, Shape { bytes, in_place, .. }: Shape) {
        self.bytes += bytes;
        self.needs.in_place |= in_place;
        self.needs.max_bytes = self.needs.max_bytes.max(bytes);
    }
}

/// The lines of one thread to the devices that it uses at the moment.
///
/// Requests of our own are those that are at home in `inbox`.
pub(crate) struct Dispatcher<H> {
    inbox: H,
    /// Rarely more than one; more than two allocate.
    trunks: SmallVec<[Trunk; 2]>,
    /// Requests of our own that are in a device or in a backlog.
    out: usize,
    /// Something did not go as it should: what is done may have errors.
    pub(crate) amiss: bool,
    sender: Sender,
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
    session: Option<&'s dyn DeviceSession>,
}

/// A line to a device on which something is out.
pub(crate) struct Trunk {
    device: usize,
    line: Line,
    /// Where our next request stands in the backlog's virtual time.
    turn: u64,
    /// What was submitted last.
    site: Site,
    /// The request that has been in the device for longest, and since when we have been waiting for just that one.
    watch: Option<(usize, u64)>,
    /// The part that is being measured.
    lesson: Option<Lesson>,
}

/// A part that a policy wants to learn from, while it is in a ring.
struct Lesson {
    route: Route,
    what: (Algorithm, Operation),
    /// Requests, and bytes in each.
    size: (usize, usize),
    started: u64,
    /// Nanoseconds in which the thread handed it over.
    handing: u64,
    /// Nanoseconds in which the thread took back what came, until now.
    taking: u64,
    /// Requests that were in the ring before.
    ahead: usize,
    /// Requests that have to come back until those of the part have.
    until: usize,
}

/// The lines to a device that are nobody's own. Whoever waits for something polls them, and nobody waits for another to do so.
#[derive(Default)]
pub(crate) struct Common {
    shared: Mutex<Shared>,
    /// Requests in the lines.
    aboard: AtomicUsize,
    /// When to look again at the latest.
    until: AtomicU64,
}

#[derive(Default)]
struct Shared {
    /// One that is open, and those from which something did not come back.
    trunks: Vec<Trunk>,
    /// Since when nothing has moved in the device while requests waited for room, and what had moved until then.
    stuck: Option<(Moved, u64)>,
}

/// How many requests have entered the rings of a device, and how many have left.
pub(crate) type Moved = (u64, u64);

impl<H: Deref<Target = Inbox>> Dispatcher<H> {
    pub(crate) fn new(inbox: H, sender: Sender) -> Self {
        Self { inbox, trunks: SmallVec::new(), out: 0, amiss: false, sender }
    }

    /// Requests of our own that are out.
    pub(crate) fn out(&self) -> usize {
        self.out
    }

    /// Whether there is something to poll for: requests of our own, or others' that went to a device by our line.
    pub(crate) fn is_busy(&self) -> bool {
        self.out > 0 || self.trunks.iter().any(|trunk| trunk.line.in_flight() > 0)
    }

    /// Lays requests of ours down where anybody may take them along. Returns how many then lie there.
    pub(crate) fn post(&mut self, meeting: &Meeting, list: List) -> usize {
        self.out += list.len();
        meeting.post(list)
    }

    /// Whether something is in a line of ours.
    pub(crate) fn has_lines(&self) -> bool {
        !self.trunks.is_empty()
    }

    /// Takes along everything that lies there, and runs it. `lead` is a session of the meeting's algorithm.
    pub(crate) fn gather(&mut self, lead: &Inner, meeting: &Meeting, done: &mut List) {
        let list = self.take_along(meeting);
        self.send_taken(lead, list, done);
    }

    /// Takes back what lies there of ours. The rest is run: where everything is only ever taken to be run, nobody who looks a
    /// moment later can find that what is its own is neither there nor on its way.
    pub(crate) fn recall(&mut self, lead: &Inner, meeting: &Meeting, done: &mut List) -> List {
        let mut list = self.take_along(meeting);
        let own = list.extract(|request| request.is_at_home(&self.inbox));
        self.send_taken(lead, list, done);
        own
    }

    fn take_along(&mut self, meeting: &Meeting) -> List {
        let list = meeting.take();
        self.out -= list.iter().filter(|request| request.is_at_home(&self.inbox)).count();
        list
    }

    fn send_taken(&mut self, lead: &Inner, list: List, done: &mut List) {
        let mut watch = lead.counters().watch(list.len());
        self.send_all(lead, list, true, &mut watch, done);
    }

    /// Sends requests on their way, those together that may go together. `mixed`: they are not all of one session and thread.
    #[inline]
    pub(crate) fn send_all(
        &mut self,
        lead: &Inner,
        mut requests: List,
        mixed: bool,
        watch: &mut Watch<'_>,
        done: &mut List,
    ) {
        while !requests.is_empty() {
            let mut crowd = Crowd::new(mixed);
            let together = requests.iter().take_while(|request| crowd.takes_in(lead, request)).count();
            crowd.list = requests.take_front(together);
            self.send(lead, crowd, watch, done);
        }
    }

    /// Sends every request on its way. What no ring keeps is in `done` when this returns. `lead` is a session of theirs.
    pub(crate) fn send(&mut self, lead: &Inner, mut crowd: Crowd, watch: &mut Watch<'_>, done: &mut List) {
        let Some(operation) = crowd.operation else { return };
        let mut tried = 0;
        // Parts for devices that work in this thread: they run when the rings have theirs.
        let mut later = [const { None }; 4];
        let (mut back, mut all_done) = (List::new(), true);
        while !crowd.list.is_empty() {
            let requests = crowd.list.len();
            let route = crowd.bound.map(|route| Route { requests, ..route });
            let route = route.or_else(|| {
                let (sizes, bytes, needs) = (Sizes::Many(&crowd.list), crowd.bytes, crowd.needs);
                lead.ask(&Question { operation, requests, bytes, sizes, needs, tried })
            });
            let Some((route, place)) = route.and_then(|route| Some((route, lead.place(route.device)?))) else {
                // Nobody can take all of them. Perhaps somebody can take each.
                self.run_one_by_one(std::mem::take(&mut crowd.list), done);
                break;
            };
            let mut part = crowd.list.take_front(route.requests.max(1));
            // A queue would do the same in a roundabout way.
            let simple = !crowd.mixed
                && lead.candidates[place].capability.direct
                && lead.gantry.devices()[route.device].is_inline();
            let session = simple.then(|| lead.opened(place));
            let mut declined = match session {
                None => Self::address(lead, place, route, crowd.mixed, &mut part),
                Some(Ok(_)) => List::new(),
                Some(Err(_)) => std::mem::take(&mut part),
            };
            let session = session.and_then(Result::ok).map(|session| &**session);
            if !declined.is_empty() {
                if part.is_empty() && crowd.bound.is_none() {
                    tried |= 1 << place;
                    declined.append(&mut crowd.list);
                    crowd.list = declined;
                    continue;
                }
                self.run_one_by_one(declined, done); // not all of these sessions are for this device
            }
            let candidate = &lead.candidates[place];
            let bytes = if crowd.list.is_empty() {
                crowd.bytes
            } else {
                part.iter().map(|request| request.link.shape.bytes).sum()
            };
            crowd.bytes = crowd.bytes.saturating_sub(bytes);
            let part = Part { place, route, bytes, list: part, session };
            if candidate.capability.direct
                && !crowd.list.is_empty()
                && let Some(slot) = later.iter_mut().find(|slot| slot.is_none())
            {
                *slot = Some(part);
                continue;
            }
            all_done &= self.run_part(lead, operation, part, crowd.mixed, watch, &mut back);
        }
        for slot in &mut later {
            let Some(part) = slot.take() else { break };
            all_done &= self.run_part(lead, operation, part, crowd.mixed, watch, &mut back);
        }
        if all_done {
            return self.keep_own(crowd.mixed, back, done);
        }
        self.sort(crowd.mixed, back, done);
    }

    /// Whether all of them [are done](crate::request::Body::is_done), and nothing else came back.
    #[inline]
    fn run_part(
        &mut self,
        lead: &Inner,
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
            list.each(|handle| lead.attest(place, &mut handle.body));
        }
        watch.sent(site, reason, requests, bytes);
        if mixed && requests > 1 {
            watch.here().event(site, Event::Gathered, requests);
            watch.here().event(site, Event::Gathering, 1);
        }
        if !lead.candidates[place].capability.direct {
            let now = lead.gantry.clock().now();
            list.each(|handle| handle.link.since = now.max(1));
        }
        let started = measure.then(|| lead.gantry.clock().now());
        let all_done = match session {
            Some(session) => self.run_each(session, route, list, back),
            None => self.submit(&lead.gantry, device, site, list, mixed, back),
        };
        if let Some(started) = started {
            let (what, size) = ((lead.params.algorithm(), operation), (requests, bytes / requests));
            if back.len() - before == requests {
                learned::learn(&lead.gantry, what, (device, reason), size, started, 0, None);
            } else if let Some(trunk) = self.trunks.iter_mut().find(|trunk| trunk.device == device) {
                let handing = lead.gantry.clock().now().saturating_sub(started);
                let until = trunk.line.in_flight();
                let ahead = until - requests.min(until);
                trunk.lesson = Some(Lesson { route, what, size, started, handing, taking: 0, ahead, until });
            }
        }
        watch.back(site, back.len() - before);
        all_done
    }

    /// Runs requests on this device and no other. Those that it fails to do have its fault.
    pub(crate) fn try_on(
        &mut self,
        lead: &Inner,
        device: usize,
        operation: Operation,
        mut list: List,
        done: &mut List,
    ) {
        let mut back = List::new();
        if let Some(place) = lead.place(device) {
            let route = Route { device, requests: list.len(), reason: Reason::Pinned, measure: false };
            let mut declined = Self::address(lead, place, route, false, &mut list);
            done.append(&mut declined);
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

    /// Takes what is ready, and passes on what waits. Whether something came back.
    pub(crate) fn poll(&mut self, gantry: &Gantry, done: &mut List) -> bool {
        let back = self.collect(gantry);
        if back.is_empty() {
            return false;
        }
        self.sort(true, back, done);
        true
    }

    /// What is back, from our own lines and from where others have a hand in it.
    fn collect(&mut self, gantry: &Gantry) -> List {
        let mut back = self.inbox.take();
        for trunk in &mut self.trunks {
            trunk.poll(gantry, &mut back);
        }
        self.trunks.retain(|trunk| trunk.line.is_open() || trunk.line.in_flight() > 0);
        if self.out > self.in_own_lines() + back.len() {
            // Somebody may have taken ours along, to wherever it was.
            (0..gantry.devices().len()).for_each(|device| serve(gantry, device, true, &mut back));
        } else {
            // Where ours made room, there is something for others.
            self.trunks.iter().for_each(|trunk| serve(gantry, trunk.device, true, &mut back));
        }
        back
    }

    fn in_own_lines(&self) -> usize {
        self.trunks.iter().map(|trunk| trunk.line.in_flight()).sum()
    }

    /// Polls until nothing is out, and puts the queues back.
    pub(crate) fn finish(&mut self, gantry: &Gantry, done: &mut List) {
        while self.out > 0 {
            if !self.poll(gantry, done) {
                self.wait(gantry, None);
            }
        }
        self.close(gantry, done);
    }

    /// Waits until it makes sense to poll again, or until then. Returns after a while even so, as [`Clock::wait`] does.
    pub(crate) fn wait(&mut self, gantry: &Gantry, until: Option<u64>) {
        let clock = gantry.clock();
        let until = until.into_iter().chain(self.deadline(gantry)).min();
        // Who falls asleep is late when it is time: a moment is waited for awake.
        let since = self.trunks.iter().filter_map(|trunk| trunk.watch).map(|(_, since)| since).max();
        let patient = since.is_some_and(|since| clock.now().saturating_sub(since) > AWAKE);
        if patient && self.inbox.sleep(this_thread()) && self.arm(&this_thread()) {
            let left = until.map_or(u64::MAX, |until| until.saturating_sub(clock.now()));
            std::thread::park_timeout(Duration::from_nanos(left));
        }
        clock.wait(until);
    }

    /// When a device is late that has something of ours, or what is in the common lines is to be looked at.
    pub(crate) fn deadline(&self, gantry: &Gantry) -> Option<u64> {
        let own = self.trunks.iter().filter_map(|trunk| trunk.deadline(gantry)).min();
        let elsewhere = self.out > self.in_own_lines();
        let common = gantry.devices().iter().filter(|_| elsewhere).filter_map(|device| {
            let common = device.common()?;
            let waits = common.aboard.load(Ordering::SeqCst) > 0 || !device.backlog().is_empty();
            waits.then(|| common.until())?
        });
        own.into_iter().chain(common).min()
    }

    /// Puts the queues back, in which nothing of ours is.
    fn close(&mut self, gantry: &Gantry, done: &mut List) {
        loop {
            while let Some(idle) = self.trunks.iter().position(|trunk| trunk.line.in_flight() == 0) {
                self.trunks.swap_remove(idle).put_away(gantry);
            }
            if self.trunks.is_empty() {
                return;
            }
            // A device that says of itself that it works in the calling thread has kept requests of others.
            let mut back = List::new();
            self.trunks.iter_mut().for_each(|trunk| trunk.poll(gantry, &mut back));
            if back.is_empty() {
                self.wait(gantry, None);
            }
            self.sort(true, back, done);
        }
    }

    /// Ends everything: takes back what no device has, drops the lines, and takes what they give back. What then is still
    /// [`out`](Self::out) is in hands from which it does not come.
    pub(crate) fn abandon(&mut self, gantry: &Gantry, done: &mut List) {
        let mut back = List::new();
        for trunk in &mut self.trunks {
            trunk.take_back(gantry, &self.inbox, &mut back);
        }
        if self.out > back.len() {
            for device in gantry.devices() {
                let Some(common) = device.common() else { continue };
                back.append(&mut device.backlog().withdraw(&self.inbox));
                let mut shared = lock(&common.shared);
                for trunk in shared.trunks.iter_mut().filter(|trunk| trunk.line.has_of(&self.inbox)) {
                    trunk.take_back(gantry, &self.inbox, &mut back);
                }
                common.note(&mut shared, gantry, device);
            }
        }
        back.append(&mut self.inbox.take());
        self.keep_own(true, back, done);
    }

    /// Takes one request back, if no device has it yet.
    pub(crate) fn withdraw(&mut self, gantry: &Gantry, is_it: impl Fn(&Request<'static>) -> bool) -> Option<Handle> {
        let present = gantry.devices().iter().filter(|device| device.common().is_some());
        let handle = { present }.find_map(|device| device.backlog().withdraw_one(&self.inbox, &is_it))?;
        self.out -= 1;
        Some(handle)
    }

    /// Lets every device that has requests of ours wake `waker`. `false` if one of them has to be polled, as those are that others
    /// have a hand in.
    pub(crate) fn arm(&mut self, waker: &Waker) -> bool {
        self.out == self.in_own_lines() && self.trunks.iter_mut().all(|trunk| trunk.line.arm(waker))
    }

    /// Notes on every request where it goes. Those whose session the device declines are left out and returned.
    #[inline]
    fn address(lead: &Inner, place: usize, route: Route, mixed: bool, part: &mut List) -> List {
        if !mixed {
            let Ok(session) = lead.opened(place) else { return std::mem::take(part) };
            part.each(|handle| handle.send_to(session, Some(route)));
            return List::new();
        }
        let mut declined = List::new();
        for mut handle in std::mem::take(part) {
            match handle.owner().opened(place).cloned() {
                Ok(session) => {
                    handle.send_to(&session, Some(route));
                    part.push(handle);
                }
                Err(_) => declined.push(handle),
            }
        }
        declined
    }

    /// Runs requests, one after the other, by the session of all of them. Whether each [is done](crate::request::Body::is_done).
    #[inline]
    fn run_each(&mut self, session: &dyn DeviceSession, route: Route, mut part: List, back: &mut List) -> bool {
        self.out += part.len();
        let mut all_done = true;
        let ran = survived(|| {
            part.each(|handle| {
                let body = &mut handle.body;
                body.route = Some(route);
                let result = body.operands.reborrow().run_by(session);
                body.finish(result);
                all_done &= body.is_done();
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
    /// [is done](crate::request::Body::is_done).
    fn submit(
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
        self.out += own;
        // What stays in a device beyond this call does not stay in a line of ours, if it is not ours.
        let common = own < part.len() && part.iter().any(|request| request.link.since > 0);
        let index = self.trunks.iter().position(|trunk| trunk.device == device && trunk.line.is_open());
        let mut trunk = match index {
            Some(index) => self.trunks.swap_remove(index),
            None => match registered.take_queue() {
                Ok(queue) => Trunk::new(device, queue, site),
                Err(fault) => {
                    part.each(|handle| handle.body.finish(Err(fault.clone())));
                    back.append(&mut part);
                    return false;
                }
            },
        };
        // Nobody passes those who wait already.
        let all_done = !common && registered.backlog().is_empty() && trunk.submit(registered, &mut part, back);
        if part.is_empty() && trunk.line.in_flight() == 0 {
            trunk.put_away(gantry);
            return all_done;
        }
        if !part.is_empty() {
            gantry.counters().here().event(site, Event::Full, part.len());
            registered.backlog().push(&mut part, self.sender, &mut trunk.turn);
            self.trunks.push(trunk);
            // The device may have got room before these were in the backlog, and then nobody would look again.
            serve(gantry, device, false, back);
            return false;
        }
        self.trunks.push(trunk);
        all_done
    }

    /// What came back: ours are repaired and done, those of others are told.
    fn sort(&mut self, mut mixed: bool, mut back: List, done: &mut List) {
        while !back.is_empty() {
            let mut own = List::new();
            self.keep_own(mixed, std::mem::take(&mut back), &mut own);
            if own.iter().all(|request| request.body.is_done()) {
                return done.append(&mut own);
            }
            self.amiss = true;
            for mut handle in own {
                if handle.body.is_done() || settle(&mut handle) {
                    done.push(handle);
                } else {
                    self.again(handle, &mut back, done);
                }
            }
            mixed = true;
        }
    }

    /// Runs a request elsewhere that a device failed to do: in this thread, or in a ring, from which it comes back as others do.
    #[cold]
    fn again(&mut self, mut handle: Handle, back: &mut List, done: &mut List) {
        let owner = handle.owner();
        let Shape { operation, bytes, .. } = handle.link.shape;
        let tried = handle.link.tried;
        let route = owner.ask(&Question::one(handle.link.shape, tried));
        let ring = route.and_then(|route| {
            let place = owner.place(route.device)?;
            let ring = tried >> place & 1 == 0 && !owner.candidates[place].capability.direct;
            Some((route, place, owner.opened(place).ok().filter(|_| ring)?.clone()))
        });
        let Some((route, place, session)) = ring else {
            run_here(&mut handle);
            return done.push(handle);
        };
        let (gantry, site, mut watch) =
            (owner.gantry.clone(), owner.site(route.device, operation), owner.counters().watch(1));
        watch.sent(site, route.reason, 1, bytes);
        watch.here().event(site, Event::Retried, 1);
        let (owner, body) = handle.parts();
        owner.attest(place, body);
        handle.link.tried |= 1 << place;
        handle.link.since = gantry.clock().now().max(1);
        handle.send_to(&session, Some(route));
        self.submit(&gantry, route.device, site, List::from_iter([handle]), false, back);
    }

    fn keep_own(&mut self, mixed: bool, mut back: List, own: &mut List) {
        // Only trunks and gatherers serve others.
        if mixed || !self.trunks.is_empty() {
            self.deliver_foreign(&mut back);
        }
        self.out -= back.len();
        own.append(&mut back);
    }

    fn deliver_foreign(&self, list: &mut List) {
        if list.iter().all(|request| request.is_at_home(&self.inbox)) {
            return;
        }
        list.extract(|request| !request.is_at_home(&self.inbox)).for_each(Handle::deliver);
    }

    /// Runs each request by itself.
    fn run_one_by_one(&mut self, mut list: List, done: &mut List) {
        self.amiss = true;
        list.each(run_here);
        self.deliver_foreign(&mut list);
        done.append(&mut list);
    }
}

impl Trunk {
    fn new(device: usize, queue: Box<dyn DeviceQueue>, site: Site) -> Self {
        Self { device, line: Line::new(queue), turn: 0, site, watch: None, lesson: None }
    }

    /// Takes what is ready, and everything when something has been in the device for too long.
    fn poll(&mut self, gantry: &Gantry, back: &mut List) {
        let now = gantry.clock().now();
        let device = &gantry.devices()[self.device];
        let mut came = List::new();
        let before = self.line.in_flight();
        if self.line.poll(&mut came).is_err() {
            device.fail(self.site);
        }
        device.count(before, self.line.in_flight());
        let count = came.len();
        if let Some(Lesson { route, what, size, started, handing, taking, ahead, until }) = &mut self.lesson {
            *until = until.saturating_sub(count);
            if count > 0 {
                // To ask in vain is to wait, and a thread with something else to do would not.
                *taking += gantry.clock().now().saturating_sub(now);
            }
            if *until == 0 {
                let share = *taking * size.0 as u64 / (size.0 + *ahead) as u64;
                learned::learn(
                    gantry,
                    *what,
                    (route.device, route.reason),
                    *size,
                    *started,
                    *ahead,
                    Some(*handing + share),
                );
                self.lesson = None;
            }
        }
        came.each(|handle| {
            let Link { since, shape, .. } = handle.link;
            if since > 0 {
                let took = now.saturating_sub(since);
                device.took(shape.bytes, took);
                let owner = handle.owner();
                let site = owner.site(self.device, shape.operation);
                owner.counters().here().time(site, Stage::Invoke, took, 1);
                handle.link.since = now;
            }
        });
        back.append(&mut came);
        match (self.line.oldest(), self.watch) {
            (None, _) => self.watch = None,
            (Some((oldest, bytes)), Some((watched, since))) if oldest == watched => {
                if now.saturating_sub(since) > device.deadline(bytes) {
                    device.fail(self.site);
                    let before = self.line.in_flight();
                    self.line.take_back(back);
                    device.count(before, self.line.in_flight());
                    self.watch = None;
                }
            }
            (Some((oldest, _)), _) => self.watch = Some((oldest, now)),
        }
    }

    /// When the device is too late.
    fn deadline(&self, gantry: &Gantry) -> Option<u64> {
        let ((_, since), (_, bytes)) = self.watch.zip(self.line.oldest())?;
        Some(since.saturating_add(gantry.devices()[self.device].deadline(bytes)).saturating_add(1))
    }

    /// Ends the line, for the sake of `home`. The requests of others go elsewhere, and the device is not to blame.
    fn take_back(&mut self, gantry: &Gantry, home: &Inbox, back: &mut List) {
        let before = self.line.in_flight();
        let mut taken = List::new();
        self.line.take_back(&mut taken);
        gantry.devices()[self.device].count(before, self.line.in_flight());
        taken.each(|handle| {
            if handle.body.fault() == Some(&Fault::Lost) && !handle.is_at_home(home) {
                handle.body.finish(Err(Fault::Declined("the queue that had taken it along is gone")));
            }
        });
        back.append(&mut taken);
    }

    /// Lets others have the queue, in which nothing is.
    fn put_away(self, gantry: &Gantry) {
        if let Some(queue) = self.line.into_queue() {
            gantry.devices()[self.device].put_queue(queue);
        }
    }

    /// Offers requests to the device, and counts those that it keeps. Whether it has done [all](Line::submit).
    fn submit(&mut self, device: &RegisteredDevice, offered: &mut List, back: &mut List) -> bool {
        let before = self.line.in_flight();
        let submitted = self.line.submit(offered, back);
        if let Err(fault) = &submitted {
            // Those that were not taken go elsewhere, too.
            offered.each(|handle| handle.body.finish(Err(fault.clone())));
            back.append(offered);
        }
        device.count(before, self.line.in_flight());
        submitted == Ok(true)
    }

    /// Offers what waits in the backlog, whoever's it is, in its order.
    fn resume(&mut self, device: &RegisteredDevice, now: u64, back: &mut List) {
        device.backlog().serve(|offered| {
            offered.each(|handle| {
                self.site = handle.owner().site(self.device, handle.link.shape.operation);
                // The wait for room is no part of what the device takes.
                handle.link.since = now.max(1);
            });
            // An end of the line, and what is offered has the fault.
            self.submit(device, offered, back);
        });
    }
}

/// Takes what is ready in the common lines of a device if it is to `poll`, and offers what waits for it. Where another thread is at it, that is as
/// good: whoever waits looks again.
fn serve(gantry: &Gantry, device: usize, poll: bool, back: &mut List) {
    let registered = &gantry.devices()[device];
    let Some(common) = registered.common() else { return };
    if common.aboard.load(Ordering::SeqCst) == 0 && registered.backlog().is_empty() {
        return;
    }
    let Some(mut shared) = try_lock(&common.shared) else { return };
    let Shared { trunks, stuck } = &mut *shared;
    if poll {
        for trunk in &mut *trunks {
            trunk.poll(gantry, back);
        }
    }
    let mut refused = None;
    if registered.backlog().is_empty() {
        *stuck = None;
    } else if registered.is_ready() {
        let open = trunks.iter_mut().find(|trunk| trunk.line.is_open());
        let attached = if open.is_none() { Some(registered.take_queue()) } else { None };
        match (open, attached) {
            (Some(trunk), _) => trunk.resume(registered, gantry.clock().now(), back),
            (None, Some(Ok(queue))) => {
                let mut trunk = Trunk::new(device, queue, registered.site());
                trunk.resume(registered, gantry.clock().now(), back);
                trunks.push(trunk);
            }
            (None, Some(Err(fault))) => refused = Some(fault),
            (None, None) => {}
        }
        refused = refused.or_else(|| is_stuck(stuck, registered, gantry.clock().now()));
    } else {
        refused = Some(Fault::Declined("the device has just failed")); // which these know nothing of
    }
    if let Some(fault) = refused {
        *stuck = None;
        let mut left = registered.backlog().take();
        left.each(|handle| handle.body.finish(Err(fault.clone())));
        back.append(&mut left);
    }
    common.note(&mut shared, gantry, registered);
}

/// Whether nothing has moved in a device for long, although requests wait for room.
fn is_stuck(stuck: &mut Option<(Moved, u64)>, device: &RegisteredDevice, now: u64) -> Option<Fault> {
    let moved = device.moved();
    match *stuck {
        Some((before, since)) if before == moved => {
            let fault = if moved.0 == moved.1 {
                Fault::failed("the device takes no requests")
            } else {
                // Whoever has the room does not poll. That is not the device's fault.
                Fault::Declined("it has had no room for too long")
            };
            (now.saturating_sub(since) > patience(moved, device)).then_some(fault)
        }
        _ => {
            *stuck = (!device.backlog().is_empty()).then_some((moved, now));
            None
        }
    }
}

/// For how long nothing may move in a device while requests wait for room.
fn patience(moved: Moved, device: &RegisteredDevice) -> u64 {
    device.deadline(if moved.0 == moved.1 { 0 } else { usize::MAX })
}

impl Common {
    /// When there is something to be done about what is aboard although no device has moved, if that is known.
    fn until(&self) -> Option<u64> {
        Some(self.until.load(Ordering::Relaxed)).filter(|until| *until != u64::MAX)
    }

    /// Puts away what is not needed, and notes what others go by.
    fn note(&self, shared: &mut Shared, gantry: &Gantry, device: &RegisteredDevice) {
        while let Some(idle) = shared.trunks.iter().position(|trunk| trunk.line.in_flight() == 0) {
            shared.trunks.swap_remove(idle).put_away(gantry);
        }
        let stuck = shared.stuck.map(|(moved, since)| since.saturating_add(patience(moved, device)).saturating_add(1));
        let until = shared.trunks.iter().filter_map(|trunk| trunk.deadline(gantry)).chain(stuck).min();
        self.until.store(until.unwrap_or(u64::MAX), Ordering::Relaxed);
        let aboard = shared.trunks.iter().map(|trunk| trunk.line.in_flight()).sum();
        self.aboard.store(aboard, Ordering::SeqCst);
    }
}

/// The device panicked over the first of the requests that have no result; the rest it has not seen.
#[cold]
fn blame(route: Route, part: &mut List) {
    let mut fault = Fault::Panicked;
    part.each(|handle| {
        if handle.body.outcome.is_none() && handle.body.fault().is_none() {
            handle.body.route = Some(route);
            handle.body.finish(Err(std::mem::replace(&mut fault, Fault::failed("the driver panicked"))));
        }
    });
}

/// Counts a result that is not `Done`. `false` if it is a device's failure, and the request is to run elsewhere.
#[cold]
fn settle(handle: &mut Handle) -> bool {
    let (shape, operation) = (handle.link.shape, handle.link.shape.operation);
    let mut tried = handle.link.tried;
    let (owner, body) = handle.parts();
    let Some(route) = body.route else { return true };
    let (site, here) = (owner.site(route.device, operation), owner.counters().here());
    let Aside { fault, error: before, witness } = body.aside.take().map(|aside| *aside).unwrap_or_default();
    let fault = match (body.outcome, fault) {
        // What another device said before is of no interest any more.
        (Some(outcome), _) => {
            let outcome = owner.verified(witness, site, &mut body.operands, outcome, route.device);
            body.outcome = Some(outcome);
            here.outcome(site, outcome);
            return true;
        }
        (None, Some(fault)) => fault,
        (None, None) => {
            body.aside = before.map(|error| Box::new(Aside { error: Some(error), ..Aside::default() }));
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
    tried |= owner.place(route.device).map_or(0, |place| 1 << place);
    body.aside().error = Some(match (before, error) {
        (Some(Error::Unserved { mut reasons, .. }), Error::Unserved { reasons: more, .. }) => {
            reasons.extend(more);
            Error::Unserved { algorithm, operation, reasons }
        }
        (Some(failed @ Error::Device { .. }), Error::Unserved { .. }) => failed,
        (_, error) => error,
    });
    if let Some(bound) = &mut body.bound {
        // A piece is missing: what would come now is the digest of another message.
        *bound.broken = true;
        return true;
    }
    if is_spoilt {
        return true;
    }
    handle.link.tried = tried;
    false
}

/// Runs a request in this thread, after what devices have said that tried before; on one device after the other.
pub(crate) fn run_here(handle: &mut Handle) {
    let (tried, shape) = (handle.link.tried, handle.link.shape);
    let (owner, body) = handle.parts();
    let mut setbacks = Setbacks::new(tried);
    match body.take_error() {
        Some(Error::Device { last, .. }) => setbacks.last = Some(last),
        Some(Error::Unserved { reasons, .. }) => setbacks.declined = reasons,
        _ => {}
    }
    let mut watch = owner.counters().watch(1);
    match owner.run_after(setbacks, &mut body.operands, shape, &mut watch, &mut body.route) {
        Ok(outcome) => body.outcome = Some(outcome),
        Err(error) => body.aside().error = Some(error),
    }
}
