//! Asynchronous dispatch: submit now, complete later.

/// The end of a queue.
mod end;

use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use super::completion::{Completion, Rejected, Ticket, Why};
use super::queue_options::QueueOptions;
use super::queue_sessions::QueueSessions;
use super::session::Session;
use super::waiting::Waiting;
use crate::algorithm::{Misuse, Result, Shape};
use crate::devices::Sender;
use crate::dispatch::{Dispatcher, Gantry, Group, Held, SessionCore, Slots};
use crate::process::Process;
use crate::request::{Handle, Inbox, List, Request, Submission};
use crate::stats::{Event, Site, Stage};

/// Requests that this thread is to run are sent when they are so many, and not before somebody asks for completions: what it costs to
/// send them is then little beside each.
const BURST: usize = 32;
/// So many bytes cost much more than to send them, and are still near.
const BURST_BYTES: usize = 64 << 10;
/// The end of one request in so many is timed.
const TIMED: u64 = 64;

/// A caller's own way to submit requests and to complete them later; of one thread at a time.
///
/// Requests that pay only together wait for others at most the coalescing time. Nothing happens behind the caller's back: the
/// queue works in its own calls, and other threads run its requests only where these wait for others or for room.
///
/// ```
/// # fn requests(gantry: &gantry_core::Gantry, session: &gantry_core::Session, nonce: [u8; 12], data: Vec<u8>) -> gantry_core::Result<()> {
/// use gantry_core::{QueueOptions, Submission};
/// let mut queue = gantry.queue(QueueOptions::default())?;
/// queue.submit(session, Submission::seal(&nonce, Vec::new(), data, 16)).expect("there is room");
/// queue.wait(|completion| assert_eq!(completion.result, Ok(gantry_core::Outcome::Done)));
/// # Ok(()) }
/// ```
///
/// Dropping a queue takes everything back from the devices. Where a device keeps something even so, its memory is never freed.
///
/// A queue belongs to the process that made it. In a child of that process it holds nothing, and [refuses](Misuse::Forked) requests: devices
/// and threads of the parent have those from before.
pub struct Queue {
    gantry: Gantry,
    process: Process,
    options: QueueOptions,
    slots: Slots,
    /// Leaked with the slots.
    sessions: ManuallyDrop<QueueSessions>,
    inbox: ManuallyDrop<Arc<Inbox>>,
    dispatcher: ManuallyDrop<Dispatcher<Arc<Inbox>>>,
    /// Requests that wait for others to go with.
    groups: Vec<Waiting>,
    /// Requests that are done and were not delivered.
    done: List,
    bytes: usize,
    sequence: u64,
    /// Something was submitted since `complete` was called.
    fresh: bool,
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
            process: Process::current(),
            slots: Slots::new(options.depth),
            options,
            sessions: ManuallyDrop::new(QueueSessions::default()),
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
        if self.is_of_parent() {
            return Err(Rejected { submission, why: Misuse::Forked.into() });
        }
        if !self.gantry.shares_devices_with(session.gantry()) {
            let why = Misuse::Framework { algorithm: session.params().algorithm() }.into();
            return Err(Rejected { submission, why });
        }
        let bytes = submission.bytes();
        let too_much = self.bytes.saturating_add(bytes) > self.options.bytes && self.slots.used() > 0;
        if self.slots.is_full() || too_much {
            let site = Site::nowhere(session.params().algorithm(), submission.operation());
            session.core.counters().here().event(site, Event::Rejected, 1);
            return Err(Rejected { submission, why: Why::Full });
        }
        let place = self.sessions.enter(&session.core);
        let core = &*session.core;
        self.sequence += 1;
        // SAFETY: `drop` leaks sessions and inbox, and the slots leak themselves, unless every handle has come back; `sessions`
        // holds a session until its last request has left.
        #[allow(unsafe_code)]
        let mut handle = unsafe { self.slots.put(submission, place, self.sequence, core, &self.inbox) };
        let ticket = Ticket { slot: handle.note.slot, sequence: self.sequence };
        let operands = &handle.entry.operands;
        let checked = match &handle.note.lender {
            None => core.limits.check(operands),
            Some(lender) => core.limits.check_scattered(operands, handle.note.shape.bytes, lender.result),
        };
        match checked {
            Ok((_, outcome)) => handle.entry.outcome = outcome,
            Err(misuse) => {
                self.sessions.leave(place);
                if let Some(Held { submission, .. }) = self.slots.take(handle) {
                    return Err(Rejected { submission, why: misuse.into() });
                }
                unreachable!("a slot that was just filled is not empty");
            }
        }
        self.bytes += bytes;
        self.fresh = true;
        if core.params.is_ordered() {
            self.sessions[place].order.push_back((ticket.slot, None));
        }
        if handle.entry.outcome.is_some() {
            self.done.push(handle);
        } else {
            self.join(&session.core, handle);
        }
        self.deliver_immediately();
        Ok(ticket)
    }

    /// Delivers what is done, polls the devices, and runs what has waited for long enough. Does not wait. Returns how many
    /// completions there were.
    pub fn complete(&mut self, mut each: impl FnMut(Completion)) -> usize {
        if self.is_of_parent() {
            return 0;
        }
        self.turn(false);
        self.deliver(&mut each)
    }

    /// Delivers at least one completion, unless nothing is left to wait for. Returns how many there were.
    pub fn wait(&mut self, mut each: impl FnMut(Completion)) -> usize {
        if self.is_of_parent() {
            return 0;
        }
        loop {
            let came = self.turn(true);
            let delivered = self.deliver(&mut each);
            if delivered > 0 || self.in_flight() == 0 {
                return delivered;
            }
            if !came {
                let longest = self.coalescing_time();
                let due = self.groups.iter().map(|group| group.since.saturating_add(longest)).min();
                self.dispatcher.wait(&self.gantry, due);
            }
        }
    }

    /// Sends everything on its way that waits for others.
    pub fn flush(&mut self) {
        if self.is_of_parent() {
            return;
        }
        for group in std::mem::take(&mut self.groups) {
            self.send(group);
        }
        self.deliver_immediately();
    }

    /// Takes a request back that no device has yet. It will have no completion. `None` when it is too late, or done.
    pub fn cancel(&mut self, ticket: Ticket) -> Option<Submission> {
        if self.is_of_parent() || self.slots.sequence(ticket.slot) != Some(ticket.sequence) {
            return None;
        }
        let is_it = |request: &Request<'static>| request.note.slot == ticket.slot;
        let waiting_handle = self.groups.iter_mut().find_map(|group| {
            let handle = group.group.list.extract(is_it).pop()?;
            group.group.bytes -= handle.note.shape.bytes;
            Some(handle)
        });
        let handle = waiting_handle
            .or_else(|| self.dispatcher.withdraw(&self.gantry, is_it))
            .or_else(|| self.recall(ticket.slot))?;
        self.groups.retain(|group| {
            let stays = group.posted || !group.group.list.is_empty();
            if !stays {
                group.leave(&self.gantry);
            }
            stays
        });
        let Held { mut submission, session, .. } = self.slots.take(handle)?;
        submission.copy_out(None);
        self.bytes = self.bytes.saturating_sub(submission.bytes());
        let entry = &mut self.sessions[session];
        let site = Site::nowhere(entry.core().params.algorithm(), submission.operation());
        entry.order.retain(|(slot, _)| *slot != ticket.slot);
        self.gantry.counters().here().event(site, Event::Cancelled, 1);
        self.advance(session);
        self.sessions.leave(session);
        Some(submission)
    }

    /// Takes a request back from where others might have taken it along, and with it what else lies there of ours: that goes
    /// into groups as before.
    fn recall(&mut self, slot: u32) -> Option<Handle> {
        let algorithm = self.sessions[self.slots.session(slot)].core.as_ref()?.params.algorithm();
        let lies_there = |group: &mut Waiting| group.posted && group.lead.params.algorithm() == algorithm;
        let posted: Vec<Waiting> = self.groups.extract_if(.., lies_there).collect();
        let Waiting { lead, .. } = posted.first()?;
        let mut own = self.dispatcher.recall(lead, self.gantry.common().coalescer(algorithm), &mut self.done);
        let recalled = own.extract(|request| request.note.slot == slot).pop();
        for handle in own {
            let core = self.sessions[self.slots.session(handle.note.slot)].core().clone();
            self.join(&core, handle);
        }
        let waiting = self.groups.iter_mut().filter(|group| group.lead.params.algorithm() == algorithm);
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
        if self.is_of_parent() { 0 } else { self.slots.used() }
    }

    /// Lets `waker` be woken when a completion is ready, and sends everything on its way. `false` when there is nothing to wait
    /// for: a completion is ready now, or a device has requests that does not tell and has to be polled.
    pub fn arm(&mut self, waker: &Waker) -> bool {
        if self.is_of_parent() {
            return false;
        }
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
        let deadline = self.deadline()?;
        Some(Duration::from_nanos(deadline.saturating_sub(self.gantry.clock().now())))
    }

    /// When a device is late that has not answered until then, by the framework's clock.
    pub(super) fn deadline(&self) -> Option<u64> {
        if self.is_of_parent() { None } else { self.dispatcher.deadline(&self.gantry) }
    }

    #[cfg(feature = "futures")]
    pub(super) fn gantry(&self) -> &Gantry {
        &self.gantry
    }

    /// Whether `complete` has something to deliver without looking further.
    fn ready(&self) -> bool {
        !self.done.is_empty() || !self.inbox.is_empty()
    }

    /// Adds a request to those that it can go with.
    fn join(&mut self, core: &Arc<SessionCore>, handle: Handle) {
        let Self { gantry, groups, options, .. } = self;
        let (algorithm, shape) = (core.params.algorithm(), handle.note.shape);
        let joins = |group: &Waiting| {
            !group.posted && group.operation == shape.operation && group.lead.params.algorithm() == algorithm
        };
        let index = if let Some(index) = groups.iter().position(joins) {
            groups[index].group.count_in(shape); // no queue has streams
            index
        } else {
            let mut group = Group::default();
            group.takes_in(core, &handle);
            let Shape { operation, bytes, .. } = shape;
            let enough = core.batch_size(operation, bytes);
            let since = if enough > 1 { gantry.clock().now() } else { 0 };
            if enough > 1 {
                gantry.common().coalescer(algorithm).enter();
            }
            let at_once = options.immediate.is_some() || !core.has_no_rings();
            groups.push(Waiting { group, lead: core.clone(), operation, since, enough, at_once, posted: false });
            groups.len() - 1
        };
        let group = &mut groups[index];
        group.group.mixed |= !Arc::ptr_eq(&group.lead, core);
        group.group.list.push(handle);
        let (requests, bytes) = (group.group.list.len(), group.group.bytes);
        if requests >= group.enough && (group.at_once || requests >= BURST || bytes >= BURST_BYTES) {
            let group = self.groups.swap_remove(index);
            self.send(group);
        }
    }

    /// Runs what is due, or everything with `all`, and takes what is back. Whether something came back.
    fn turn(&mut self, all: bool) -> bool {
        let only_polls = !std::mem::take(&mut self.fresh);
        let longest = self.coalescing_time();
        let now = if self.groups.is_empty() { 0 } else { self.gantry.clock().now() };
        let mut index = 0;
        while index < self.groups.len() {
            let group = &self.groups[index];
            let enough = group.group.list.len() >= group.enough;
            let due = enough || longest == 0 || now >= group.since.saturating_add(longest);
            // The caller has no more to give, and no other queue has such a request.
            let alone = (all || only_polls) && group.coalescer(&self.gantry).queues() <= 1;
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

    /// The coalescing time in nanoseconds.
    fn coalescing_time(&self) -> u64 {
        u64::try_from(self.options.coalesce.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Lays the requests of a group where others may take them along.
    fn post(&mut self, index: usize) {
        let group = &mut self.groups[index];
        let coalescer = group.coalescer(&self.gantry);
        let there = self.dispatcher.post(coalescer, std::mem::take(&mut group.group.list));
        group.posted = true;
        if there >= group.enough {
            let group = self.groups.swap_remove(index);
            self.send(group);
        }
    }

    fn send(&mut self, group: Waiting) {
        group.leave(&self.gantry);
        let lead = &*group.lead;
        if group.posted {
            self.dispatcher.take_along(lead, group.coalescer(&self.gantry), &mut self.done);
        } else {
            let mut watch = lead.counters().watch(group.group.list.len());
            self.dispatcher.send(lead, group.group, &mut watch, &mut self.done);
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
        let slot = handle.note.slot;
        let session = self.slots.session(slot);
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
    fn advance(&mut self, session: u32) {
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
        if self.slots.sequence(handle.note.slot)? % TIMED == 1 { self.time(handle) } else { None }
    }

    #[cold]
    fn time(&self, handle: &Handle) -> Option<(Site, u64)> {
        let site = Site::new(handle.route?.device, handle.note.algorithm, handle.note.shape.operation);
        let now = self.gantry.clock().now();
        if handle.note.since > 0 {
            // It was in a ring, and came back then.
            self.gantry.counters().here().time(site, Stage::Done, now.saturating_sub(handle.note.since), TIMED);
        }
        Some((site, now))
    }

    #[inline]
    fn end(&mut self, mut handle: Handle) -> Completion {
        let slot = handle.note.slot;
        let (outcome, route, algorithm) = (handle.entry.outcome, handle.route, handle.note.algorithm);
        // A `Result` would be moved as a whole, and that costs more than the rest of this.
        let error = if outcome.is_none() { handle.result().err().map(Box::new) } else { None };
        let held = self.slots.take(handle).expect("what is delivered was submitted");
        let Held { mut submission, session, sequence } = held;
        if submission.is_assorted() {
            self.gantry.copy_out(&mut submission, algorithm, outcome, route);
        }
        self.bytes = self.bytes.saturating_sub(submission.bytes());
        self.sessions.leave(session);
        let (ticket, user) = (Ticket { slot, sequence }, submission.user_data());
        let result = outcome.ok_or_else(|| *error.expect("what has no outcome has an error"));
        Completion { ticket, user, result, route, submission }
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "queue of {}, {} in flight", self.options.depth, self.in_flight())
    }
}
