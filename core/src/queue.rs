//! Asynchronous dispatch: submit now, complete later.

use std::collections::VecDeque;
use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use crate::backlog::{Priority, Sender};
use crate::dispatch::{Crowd, Dispatcher};
use crate::error::{Misuse, Result};
use crate::gather::Meeting;
use crate::inbox::Inbox;
use crate::job::{Handle, List};
use crate::registry::Gantry;
use crate::request::Shape;
use crate::session::Session;
use crate::slots::{Held, Slots};
use crate::stats::{Event, Site, Stage};
use crate::{Completion, Operation, Submission};

/// How many times a queue that is dropped looks for requests that other threads have in hand, before it leaves its memory to
/// them.
const PATIENCE: usize = 1000;
/// Requests that this thread is to run are sent when they are so many, and not before somebody asks for completions: what it costs to
/// send them is then little beside each.
const BURST: usize = 32;
/// So many bytes cost much more than to send them, and are still near.
const BURST_BYTES: usize = 64 << 10;
/// The end of one request in so many is timed.
const TIMED: u64 = 64;

/// What a queue is like.
#[derive(Clone)]
pub struct QueueOptions {
    /// Most requests that are in the queue or in devices at once: 1 to 65536.
    pub depth: usize,
    /// Most bytes of them. A single request may be larger, when nothing else is there.
    pub bytes: usize,
    /// How urgent the requests are, where a device has too little room for all.
    pub class: Priority,
    /// The share of such a device, relative to other queues of the class: 1 to 1024.
    pub weight: u32,
    /// How long a request waits for company at most. With zero it goes with those that are there when `complete` is called.
    pub gather: Duration,
    /// Called for each completion as soon as this queue finds it, instead of by [`Queue::complete`].
    pub immediate: Option<Arc<dyn Fn(Completion) + Send + Sync>>,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self {
            depth: 256,
            bytes: 64 << 20,
            class: Priority::default(),
            weight: 1,
            gather: Duration::from_micros(20),
            immediate: None,
        }
    }
}

impl fmt::Debug for QueueOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { depth, bytes, class, weight, gather, immediate } = self;
        let immediate = immediate.is_some();
        write!(f, "depth {depth}, {bytes} bytes, {class:?}, weight {weight}, {gather:?}, immediate {immediate}")
    }
}

/// Names a request of one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    slot: u32,
    sequence: u64,
}

/// A submission that was not taken, with its buffers.
#[derive(Debug)]
pub struct Rejected {
    /// As it was given.
    pub submission: Submission,
    /// Why.
    pub why: Why,
}

/// Why a submission was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// The queue holds as much as it may. Complete something first.
    #[error("the queue is full")]
    Full,
    /// The call was wrong.
    #[error(transparent)]
    Misuse(#[from] Misuse),
}

/// A caller's own way to submit requests and to complete them later; of one thread at a time.
///
/// Requests that pay only together wait for company at most the gathering time. Nothing happens behind the caller's back: the
/// queue works in its own calls, and other threads run its requests only where these wait for company or for room.
///
/// ```
/// # fn requests(gantry: &gantry::Gantry, session: &gantry::Session, nonce: [u8; 12], data: Vec<u8>) -> gantry::Result<()> {
/// use gantry::{QueueOptions, Submission};
/// let mut queue = gantry.queue(QueueOptions::default())?;
/// queue.submit(session, Submission::seal(&nonce, Vec::new(), data, 16)).expect("there is room");
/// queue.wait(|completion| assert_eq!(completion.result, Ok(gantry::Outcome::Done)));
/// # Ok(()) }
/// ```
///
/// Dropping a queue takes everything back from the devices. Where a device keeps something even so, its memory is never freed.
pub struct Queue {
    gantry: Gantry,
    options: QueueOptions,
    slots: Slots,
    /// Leaked with the slots. An entry is used again when none of its requests is left.
    sessions: ManuallyDrop<Vec<Entry>>,
    inbox: ManuallyDrop<Arc<Inbox>>,
    dispatcher: ManuallyDrop<Dispatcher<Arc<Inbox>>>,
    /// Requests that wait for company.
    groups: Vec<Group>,
    /// Requests that are done and were not delivered.
    done: List,
    bytes: usize,
    sequence: u64,
    /// Something was submitted since `complete` was called.
    fresh: bool,
}

/// A session with requests in the queue.
struct Entry {
    /// In a box: requests point to what is inside.
    session: Session,
    requests: usize,
    /// Of a session that keeps order: its requests as they were submitted, and what has been done of them.
    order: VecDeque<(u32, Option<Handle>)>,
}

/// Requests of one algorithm and operation that wait for company.
struct Group {
    crowd: Crowd,
    /// A session of the algorithm. Not its place in the queue: that may be another session's when its requests are gone.
    lead: Session,
    operation: Operation,
    since: u64,
    /// How many would be enough.
    company: usize,
    /// They are sent as soon as there are enough. A ring begins at once; this thread would only do now what it can do later, when there is
    /// more of it.
    at_once: bool,
    /// They lie where other threads may take them along.
    posted: bool,
}

impl Group {
    /// Where threads meet that have requests like these.
    fn meeting<'g>(&self, gantry: &'g Gantry) -> &'g Meeting {
        gantry.meeting(self.lead.params().algorithm())
    }

    /// These wait no longer.
    fn leave(&self, gantry: &Gantry) {
        if self.company > 1 {
            self.meeting(gantry).leave();
        }
    }
}

impl Gantry {
    /// A queue for asynchronous requests.
    ///
    /// # Errors
    /// [`Misuse::Queue`] when an option is out of its bounds.
    pub fn queue(&self, options: QueueOptions) -> Result<Queue> {
        let within = |what, value: usize, most| {
            let wrong = Misuse::Queue { what, got: value, most };
            if (1..=most).contains(&value) { Ok(()) } else { Err(wrong) }
        };
        within("depth", options.depth, 1 << 16)?;
        within("bytes", options.bytes, usize::MAX >> 1)?;
        within("weight", options.weight as usize, 1024)?;
        let inbox = Arc::new(Inbox::new());
        let sender = Sender { class: options.class, weight: options.weight };
        Ok(Queue {
            gantry: self.clone(),
            slots: Slots::new(options.depth),
            options,
            sessions: ManuallyDrop::new(Vec::new()),
            dispatcher: ManuallyDrop::new(Dispatcher::new(inbox.clone(), sender)),
            inbox: ManuallyDrop::new(inbox),
            groups: Vec::new(),
            done: List::new(),
            bytes: 0,
            sequence: 0,
            fresh: false,
        })
    }
}

impl Queue {
    /// Takes a request, and runs it and those that waited with it if they are enough.
    ///
    /// # Errors
    /// The submission comes back when the queue is full or the call was wrong.
    #[allow(clippy::result_large_err, reason = "the submission comes back with its buffers, not in a box")]
    pub fn submit(&mut self, session: &Session, submission: Submission) -> std::result::Result<Ticket, Rejected> {
        if !self.gantry.shares_devices_with(session.gantry()) {
            let why = Misuse::Framework { algorithm: session.params().algorithm() }.into();
            return Err(Rejected { submission, why });
        }
        let bytes = submission.bytes();
        let too_much = self.bytes.saturating_add(bytes) > self.options.bytes && self.slots.used() > 0;
        if self.slots.is_full() || too_much {
            let site = Site::nowhere(session.params().algorithm(), submission.operation());
            session.inner.counters().here().event(site, Event::Rejected, 1);
            return Err(Rejected { submission, why: Why::Full });
        }
        let place = self.entry(session);
        let inner = &*self.sessions[place].session.inner;
        self.sequence += 1;
        // SAFETY: `drop` leaks sessions and inbox, and the slots leak themselves, unless every handle has come back; an entry of
        // `sessions` is not replaced before its requests are gone.
        #[allow(unsafe_code)]
        let mut handle = unsafe { self.slots.put(submission, place as u32, self.sequence, inner, &self.inbox) };
        let ticket = Ticket { slot: handle.link.slot, sequence: self.sequence };
        match inner.limits.check(&handle.body.operands) {
            Ok((_, outcome)) => handle.body.outcome = outcome,
            Err(misuse) => {
                if let Some(Held { submission, .. }) = self.slots.take(handle) {
                    return Err(Rejected { submission, why: misuse.into() });
                }
                unreachable!("a slot that was just filled is not empty");
            }
        }
        let in_order = inner.params.is_ordered();
        self.bytes += bytes;
        self.fresh = true;
        let entry = &mut self.sessions[place];
        entry.requests += 1;
        if in_order {
            entry.order.push_back((ticket.slot, None));
        }
        if handle.body.outcome.is_some() {
            self.done.push(handle);
        } else {
            self.join(place, handle);
        }
        self.deliver_immediately();
        Ok(ticket)
    }

    /// Delivers what is done, polls the devices, and runs what has waited for long enough. Does not wait. Returns how many
    /// completions there were.
    pub fn complete(&mut self, mut each: impl FnMut(Completion)) -> usize {
        self.turn(false);
        self.deliver(&mut each)
    }

    /// Delivers at least one completion, unless nothing is left to wait for. Returns how many there were.
    pub fn wait(&mut self, mut each: impl FnMut(Completion)) -> usize {
        loop {
            let came = self.turn(true);
            let delivered = self.deliver(&mut each);
            if delivered > 0 || self.in_flight() == 0 {
                return delivered;
            }
            if !came {
                let gather = self.gather();
                let due = self.groups.iter().map(|group| group.since.saturating_add(gather)).min();
                self.dispatcher.wait(&self.gantry, due);
            }
        }
    }

    /// Sends everything on its way that waits for company.
    pub fn flush(&mut self) {
        for group in std::mem::take(&mut self.groups) {
            self.send(group);
        }
        self.deliver_immediately();
    }

    /// Takes a request back that no device has yet. It will have no completion. `None` when it is too late, or done.
    pub fn cancel(&mut self, ticket: Ticket) -> Option<Submission> {
        if self.slots.sequence(ticket.slot) != Some(ticket.sequence) {
            return None;
        }
        let is_it = |request: &crate::Request<'static>| request.link.slot == ticket.slot;
        let gathered = self.groups.iter_mut().find_map(|group| {
            let handle = group.crowd.list.extract(is_it).pop()?;
            group.crowd.bytes -= handle.link.shape.bytes;
            Some(handle)
        });
        let handle =
            gathered.or_else(|| self.dispatcher.withdraw(&self.gantry, is_it)).or_else(|| self.recall(ticket.slot))?;
        self.groups.retain(|group| {
            let stays = group.posted || !group.crowd.list.is_empty();
            if !stays {
                group.leave(&self.gantry);
            }
            stays
        });
        let Held { submission, session, .. } = self.slots.take(handle)?;
        self.bytes -= submission.bytes();
        let entry = &mut self.sessions[session as usize];
        let inner = &entry.session.inner;
        let site = Site::nowhere(inner.params.algorithm(), submission.operation());
        inner.counters().here().event(site, Event::Cancelled, 1);
        entry.requests -= 1;
        entry.order.retain(|(slot, _)| *slot != ticket.slot);
        self.advance(session as usize);
        Some(submission)
    }

    /// Takes a request back from where others might have taken it along, and with it what else lies there of ours: that goes
    /// into groups as before.
    fn recall(&mut self, slot: u32) -> Option<Handle> {
        let algorithm = self.sessions[self.slots.session(slot) as usize].session.params().algorithm();
        let lies_there = |group: &mut Group| group.posted && group.lead.params().algorithm() == algorithm;
        let posted: Vec<Group> = self.groups.extract_if(.., lies_there).collect();
        let Group { lead, .. } = posted.first()?;
        let mut own = self.dispatcher.recall(&lead.inner, self.gantry.meeting(algorithm), &mut self.done);
        let recalled = own.extract(|request| request.link.slot == slot).pop();
        for handle in own {
            self.join(self.slots.session(handle.link.slot) as usize, handle);
        }
        let waiting = self.groups.iter_mut().filter(|group| group.lead.params().algorithm() == algorithm);
        for group in waiting {
            // They have waited since then.
            group.since = posted.iter().fold(group.since, |since, before| since.min(before.since));
        }
        for group in &posted {
            group.leave(&self.gantry);
        }
        self.deliver_immediately();
        recalled
    }

    /// Requests that were taken and have not been delivered.
    pub fn in_flight(&self) -> usize {
        self.slots.used()
    }

    /// Lets `waker` be woken when a completion is ready, and sends everything on its way. `false` when there is nothing to wait
    /// for: a completion is ready now, or a device has requests that does not tell and has to be polled.
    pub fn arm(&mut self, waker: &Waker) -> bool {
        // Nobody would come by when their time is over.
        self.flush();
        self.turn(true);
        if self.in_flight() == 0 || self.ready() || !self.inbox.sleep(waker.clone()) {
            return false;
        }
        self.dispatcher.arm(waker)
    }

    /// How long one may sleep at most after [`arm`](Self::arm), whoever wakes one: then a device is late that has not answered
    /// until now, and the next call of [`complete`](Self::complete) notices. `None` when no device has anything.
    pub fn patience(&self) -> Option<Duration> {
        let deadline = self.dispatcher.deadline(&self.gantry)?;
        Some(Duration::from_nanos(deadline.saturating_sub(self.gantry.clock().now())))
    }

    /// Whether `complete` has something to deliver without looking further.
    fn ready(&self) -> bool {
        !self.done.is_empty() || !self.inbox.is_empty()
    }

    /// The place of a session in the queue.
    fn entry(&mut self, session: &Session) -> usize {
        let is_it = |entry: &Entry| Arc::ptr_eq(&entry.session.inner, &session.inner);
        if let Some(place) = self.sessions.iter().rposition(is_it) {
            return place;
        }
        let entry = Entry { session: session.clone(), requests: 0, order: VecDeque::new() };
        if let Some(place) = self.sessions.iter().position(|entry| entry.requests == 0) {
            self.sessions[place] = entry;
            return place;
        }
        self.sessions.push(entry);
        self.sessions.len() - 1
    }

    /// Adds a request to those that it can go with.
    fn join(&mut self, place: usize, handle: Handle) {
        let Self { gantry, sessions, groups, options, .. } = self;
        let session = &sessions[place].session;
        let inner = &*session.inner;
        let (algorithm, shape) = (inner.params.algorithm(), handle.link.shape);
        let joins = |group: &Group| {
            !group.posted && group.operation == shape.operation && group.lead.params().algorithm() == algorithm
        };
        let index = if let Some(index) = groups.iter().position(joins) {
            groups[index].crowd.count_in(shape); // no queue has streams
            index
        } else {
            let mut crowd = Crowd::default();
            crowd.takes_in(inner, &handle);
            let Shape { operation, bytes, .. } = shape;
            let company = inner.company(operation, bytes, usize::MAX).requests;
            let since = if company > 1 { gantry.clock().now() } else { 0 };
            if company > 1 {
                gantry.meeting(algorithm).enter();
            }
            let at_once = options.immediate.is_some() || !inner.has_no_rings();
            groups.push(Group { crowd, lead: session.clone(), operation, since, company, at_once, posted: false });
            groups.len() - 1
        };
        let group = &mut groups[index];
        group.crowd.mixed |= !Arc::ptr_eq(&group.lead.inner, &session.inner);
        group.crowd.list.push(handle);
        let (requests, bytes) = (group.crowd.list.len(), group.crowd.bytes);
        if requests >= group.company && (group.at_once || requests >= BURST || bytes >= BURST_BYTES) {
            let group = self.groups.swap_remove(index);
            self.send(group);
        }
    }

    /// Runs what is due, or everything with `all`, and takes what is back. Whether something came back.
    fn turn(&mut self, all: bool) -> bool {
        let only_polls = !std::mem::take(&mut self.fresh);
        let gather = self.gather();
        let now = if self.groups.is_empty() { 0 } else { self.gantry.clock().now() };
        let mut index = 0;
        while index < self.groups.len() {
            let group = &self.groups[index];
            let enough = group.crowd.list.len() >= group.company;
            let due = enough || gather == 0 || now >= group.since.saturating_add(gather);
            // Nobody else comes by: the caller has no more to give, and no other thread has anything like it.
            let alone = (all || only_polls) && group.meeting(&self.gantry).threads() <= 1;
            if due || alone {
                let group = self.groups.swap_remove(index);
                self.send(group);
                continue;
            }
            if !group.posted {
                self.post(index);
            }
            index += 1;
        }
        let came = self.dispatcher.is_busy() && self.dispatcher.poll(&self.gantry, &mut self.done);
        self.deliver_immediately();
        came
    }

    /// The gathering time in nanoseconds.
    fn gather(&self) -> u64 {
        u64::try_from(self.options.gather.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Lays the requests of a group where others may take them along.
    fn post(&mut self, index: usize) {
        let group = &mut self.groups[index];
        let meeting = group.meeting(&self.gantry);
        let there = self.dispatcher.post(meeting, std::mem::take(&mut group.crowd.list));
        group.posted = true;
        if there >= group.company {
            let group = self.groups.swap_remove(index);
            self.send(group);
        }
    }

    fn send(&mut self, group: Group) {
        group.leave(&self.gantry);
        let lead = &*group.lead.inner;
        if group.posted {
            self.dispatcher.gather(lead, self.gantry.meeting(lead.params.algorithm()), &mut self.done);
        } else {
            let mut watch = lead.counters().watch(group.crowd.list.len());
            self.dispatcher.send(lead, group.crowd, &mut watch, &mut self.done);
        }
    }

    /// Ends what is done, in order where that was asked for.
    fn deliver(&mut self, each: &mut impl FnMut(Completion)) -> usize {
        let mut delivered = 0;
        while let Some(handle) = self.done.pop() {
            if let Some(handle) = self.in_turn(handle) {
                let timed = self.time_end(&handle);
                delivered += 1;
                each(self.end(handle));
                if let Some((site, since)) = timed {
                    let took = self.gantry.clock().now().saturating_sub(since);
                    self.gantry.counters().here().time(site, Stage::Callback, took, TIMED);
                }
            }
        }
        if self.slots.used() == 0 {
            // Others took these requests along. Nobody waits here any more, and nobody may think so.
            self.groups.drain(..).for_each(|group| group.leave(&self.gantry));
        }
        delivered
    }

    #[inline]
    fn deliver_immediately(&mut self) {
        if self.options.immediate.is_some() {
            self.deliver_to_function();
        }
    }

    #[inline(never)]
    fn deliver_to_function(&mut self) {
        if let Some(immediate) = self.options.immediate.clone() {
            self.deliver(&mut |completion| immediate(completion));
        }
    }

    /// Keeps a request back that is not the next one of a session that keeps order. What it held up comes after it.
    #[inline]
    fn in_turn(&mut self, handle: Handle) -> Option<Handle> {
        if !handle.owner().params.is_ordered() {
            return Some(handle);
        }
        let slot = handle.link.slot;
        let session = self.slots.session(slot) as usize;
        let entry = &mut self.sessions[session];
        let Some(place) = entry.order.iter().position(|(other, _)| *other == slot) else { return Some(handle) };
        if entry.order[place].1.is_none() && place > 0 {
            entry.order[place].1 = Some(handle);
            return None;
        }
        entry.order.pop_front();
        self.advance(session);
        Some(handle)
    }

    /// Moves the next request of a session that keeps order to those that are done, if it is.
    fn advance(&mut self, session: usize) {
        let order = &mut self.sessions[session].order;
        if let Some((_, done)) = order.front_mut()
            && let Some(handle) = done.take()
        {
            self.done.push_front(handle);
        }
    }

    /// For one request in [`TIMED`]: counts how long its completion took, and says what is counted of it and the time.
    #[inline]
    fn time_end(&self, handle: &Handle) -> Option<(Site, u64)> {
        if self.slots.sequence(handle.link.slot)? % TIMED == 1 { self.time(handle) } else { None }
    }

    #[cold]
    fn time(&self, handle: &Handle) -> Option<(Site, u64)> {
        let (route, slot) = (handle.body.route?, handle.link.slot);
        let inner = &self.sessions[self.slots.session(slot) as usize].session.inner;
        let (site, now) = (inner.site(route.device, handle.link.shape.operation), self.gantry.clock().now());
        if handle.link.since > 0 {
            // It was in a ring, and came back then.
            inner.counters().here().time(site, Stage::Done, now.saturating_sub(handle.link.since), TIMED);
        }
        Some((site, now))
    }

    #[inline]
    fn end(&mut self, mut handle: Handle) -> Completion {
        let (slot, algorithm) = (handle.link.slot, handle.owner().params.algorithm());
        let (outcome, route) = (handle.body.outcome, handle.body.route);
        // A `Result` would be moved as a whole, and that costs more than the rest of this.
        let error = if outcome.is_none() { handle.body.end(algorithm).err().map(Box::new) } else { None };
        let Held { submission, session, sequence } = self.slots.take(handle).expect("what is delivered was submitted");
        self.bytes -= submission.bytes();
        self.sessions[session as usize].requests -= 1;
        let (ticket, user) = (Ticket { slot, sequence }, submission.user_data());
        let result = outcome.ok_or_else(|| *error.expect("what has no outcome has an error"));
        Completion { ticket, user, result, route, submission }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        for group in std::mem::take(&mut self.groups) {
            if group.posted {
                self.send(group); // others' requests lie there, too: all are run
                continue;
            }
            group.leave(&self.gantry);
            self.done.extend(group.crowd.list);
        }
        self.dispatcher.abandon(&self.gantry, &mut self.done);
        for entry in &mut *self.sessions {
            self.done.extend(entry.order.drain(..).filter_map(|(_, handle)| handle));
        }
        // Those that another thread runs at this moment come back when it has.
        for _ in 0..PATIENCE {
            if self.dispatcher.out() == 0 {
                break;
            }
            std::thread::yield_now();
            self.dispatcher.abandon(&self.gantry, &mut self.done);
        }
        while let Some(handle) = self.done.pop() {
            self.slots.take(handle);
        }
        if self.slots.used() == 0 {
            self.inbox.settle();
            // SAFETY: nothing points into these any more, and they are not used again.
            #[allow(unsafe_code)]
            unsafe {
                ManuallyDrop::drop(&mut self.dispatcher);
                ManuallyDrop::drop(&mut self.sessions);
                ManuallyDrop::drop(&mut self.inbox);
            }
        }
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "queue of {}, {} in flight", self.options.depth, self.in_flight())
    }
}
