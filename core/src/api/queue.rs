//! Asynchronous requests: submit now, complete later.

mod drop;

use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use super::completion::{Completion, RejectReason, Rejected, Ticket};
use super::pending_group::PendingGroup;
use super::queue_options::QueueOptions;
use super::queue_sessions::QueueSessions;
use super::session::Session;
use crate::algorithm::{Misuse, Result, Shape};
use crate::devices::Sender;
use crate::dispatch::{Dispatcher, Gantry, Group, SessionCore, Slots, TakenSlot};
use crate::process::Process;
use crate::request::{Handle, Inbox, List, Request, Submission};
use crate::stats::{Event, Site, Stage};

/// Without queue pairs, a group is sent at this many requests, or when the caller asks for completions. The fixed cost of sending is then
/// small for each request.
const MAX_BURST: usize = 32;
/// A group of this many bytes is sent, too: running it costs far more than sending it, and the data is still in the cache.
const MAX_BURST_BYTES: usize = 64 << 10;
/// One completion in this many is timed.
const TIMED_EVERY: u64 = 64;

/// A queue to submit requests and to complete them later. One thread uses it at a time.
///
/// Requests that gain from batching wait for others, at most for the coalescing time. The queue has no thread: it works in its own calls.
/// Another thread may run a request only if the request waits to be batched, or for room on a device.
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
/// Dropping a queue takes its requests back from the devices. If a device keeps a request even then, the queue's memory is leaked.
///
/// A queue belongs to the process that made it. In a child of that process the queue is empty, and [refuses](Misuse::Forked) requests: the
/// earlier requests are with the devices and threads of the parent.
pub struct Queue {
    gantry: Gantry,
    process: Process,
    options: QueueOptions,
    slots: Slots,
    /// This field and the next two are leaked together with the slots, if a request has not come back when the queue is dropped.
    sessions: ManuallyDrop<QueueSessions>,
    inbox: ManuallyDrop<Arc<Inbox>>,
    dispatcher: ManuallyDrop<Dispatcher<Arc<Inbox>>>,
    /// Requests that wait to be batched.
    groups: Vec<PendingGroup>,
    /// Finished requests that have not been delivered.
    done: List,
    /// Bytes of the submissions that were accepted and have not been delivered.
    bytes: usize,
    sequence: u64,
    /// A request was submitted since the last call of `complete`, `wait` or `arm`.
    has_submitted: bool,
}

impl Gantry {
    /// Creates a queue for asynchronous requests.
    ///
    /// # Errors
    /// [`Misuse::Queue`] if an option is out of range.
    pub fn queue(&self, options: QueueOptions) -> Result<Queue> {
        let check = |what, value: usize, max| {
            let misuse = Misuse::Queue { what, got: value, max };
            if (1..=max).contains(&value) { Ok(()) } else { Err(misuse) }
        };
        check("depth", options.depth, 1 << 16)?;
        check("bytes", options.bytes, usize::MAX >> 1)?;
        check("weight", options.weight as usize, 1024)?;
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
            has_submitted: false,
        })
    }
}

impl Queue {
    /// Takes a request. Sends its group of waiting requests if the group is full.
    ///
    /// # Errors
    /// Returns the submission if the queue is full or the caller made a mistake.
    #[allow(clippy::result_large_err, reason = "the submission comes back with its buffers, not in a box")]
    pub fn submit(&mut self, session: &Session, submission: Submission) -> std::result::Result<Ticket, Rejected> {
        if self.is_forked() {
            return Err(Rejected { submission, why: Misuse::Forked.into() });
        }
        if !self.gantry.shares_devices_with(session.gantry()) {
            let why = Misuse::Framework { algorithm: session.params().algorithm() }.into();
            return Err(Rejected { submission, why });
        }
        let bytes = submission.bytes();
        let exceeds_bytes = self.bytes.saturating_add(bytes) > self.options.bytes && self.slots.used() > 0;
        if self.slots.is_full() || exceeds_bytes {
            let site = Site::without_device(session.params().algorithm(), submission.operation());
            session.core.counters().this_thread().count_event(site, Event::Rejected, 1);
            return Err(Rejected { submission, why: RejectReason::Full });
        }
        let session_index = self.sessions.add_request(&session.core);
        let core = &*session.core;
        self.sequence += 1;
        // SAFETY: the handle points into the slots, `sessions` and the inbox. `drop` leaks them all unless every handle has come back, and
        // `sessions` holds a session until its last request has left.
        #[allow(unsafe_code)]
        let mut handle = unsafe { self.slots.put(submission, session_index, self.sequence, core, &self.inbox) };
        let ticket = Ticket { slot: handle.meta.slot, sequence: self.sequence };
        let operands = &handle.entry.operands;
        let check = match &handle.meta.segment_source {
            None => core.limits.check(operands),
            Some(segment_source) => {
                core.limits.check_scattered(operands, handle.meta.shape.bytes, segment_source.result_len)
            }
        };
        match check {
            Ok((_, outcome)) => handle.entry.outcome = outcome,
            Err(misuse) => {
                self.sessions.remove_request(session_index);
                if let Some(TakenSlot { submission, .. }) = self.slots.take(handle) {
                    return Err(Rejected { submission, why: misuse.into() });
                }
                unreachable!("a slot that was just filled is not empty");
            }
        }
        self.bytes += bytes;
        self.has_submitted = true;
        if core.params.is_ordered() {
            self.sessions[session_index].order.push_back((ticket.slot, None));
        }
        if handle.entry.outcome.is_some() {
            self.done.push(handle);
        } else {
            self.add_to_group(&session.core, handle);
        }
        self.deliver_immediately();
        Ok(ticket)
    }

    /// Sends the groups whose coalescing time is over or that no longer expect requests, polls the devices, and delivers finished requests.
    /// Does not wait. Returns the number of completions.
    pub fn complete(&mut self, mut each: impl FnMut(Completion)) -> usize {
        if self.is_forked() {
            return 0;
        }
        self.send_and_poll(false);
        self.deliver(&mut each)
    }

    /// Waits for at least one completion and delivers it, unless no request is in flight. Returns the number of completions.
    pub fn wait(&mut self, mut each: impl FnMut(Completion)) -> usize {
        if self.is_forked() {
            return 0;
        }
        loop {
            let has_returned = self.send_and_poll(true);
            let delivered = self.deliver(&mut each);
            if delivered > 0 || self.in_flight() == 0 {
                return delivered;
            }
            if !has_returned {
                let coalescing_ns = self.coalescing_ns();
                let deadline = self.groups.iter().map(|group| group.since.saturating_add(coalescing_ns)).min();
                self.dispatcher.wait(&self.gantry, deadline);
            }
        }
    }

    /// Sends all requests that wait to be batched.
    pub fn flush(&mut self) {
        if self.is_forked() {
            return;
        }
        for group in std::mem::take(&mut self.groups) {
            self.send(group);
        }
        self.deliver_immediately();
    }

    /// Takes back a request that no device has yet. The request gets no completion. Returns `None` if a device has it, or if it is
    /// finished.
    pub fn cancel(&mut self, ticket: Ticket) -> Option<Submission> {
        if self.is_forked() || self.slots.sequence(ticket.slot) != Some(ticket.sequence) {
            return None;
        }
        let is_it = |request: &Request<'static>| request.meta.slot == ticket.slot;
        let waiting_handle = self.groups.iter_mut().find_map(|group| {
            let handle = group.group.list.extract(is_it).pop()?;
            group.group.bytes -= handle.meta.shape.bytes;
            Some(handle)
        });
        let handle = waiting_handle
            .or_else(|| self.dispatcher.withdraw(&self.gantry, is_it))
            .or_else(|| self.take_from_coalescer(ticket.slot))?;
        self.groups.retain(|group| {
            let is_kept = group.is_posted || !group.group.list.is_empty();
            if !is_kept {
                group.leave_coalescer(&self.gantry);
            }
            is_kept
        });
        let TakenSlot { mut submission, session_index, .. } = self.slots.take(handle)?;
        submission.copy_out(None);
        self.bytes = self.bytes.saturating_sub(submission.bytes());
        let entry = &mut self.sessions[session_index];
        let site = Site::without_device(entry.core().params.algorithm(), submission.operation());
        entry.order.retain(|(slot, _)| *slot != ticket.slot);
        self.gantry.counters().this_thread().count_event(site, Event::Cancelled, 1);
        self.release_next_ordered(session_index);
        self.sessions.remove_request(session_index);
        Some(submission)
    }

    /// Takes a request back from the coalescer, along with this queue's other requests there. The latter go back into groups.
    fn take_from_coalescer(&mut self, slot: u32) -> Option<Handle> {
        let algorithm = self.sessions[self.slots.session_index(slot)].core.as_ref()?.params.algorithm();
        let is_posted = |group: &mut PendingGroup| group.is_posted && group.lead.params.algorithm() == algorithm;
        let posted: Vec<PendingGroup> = self.groups.extract_if(.., is_posted).collect();
        let PendingGroup { lead, .. } = posted.first()?;
        let mut own = self.dispatcher.take_own(lead, self.gantry.common().coalescer(algorithm), &mut self.done);
        let found = own.extract(|request| request.meta.slot == slot).pop();
        for handle in own {
            let core = self.sessions[self.slots.session_index(handle.meta.slot)].core().clone();
            self.add_to_group(&core, handle);
        }
        let waiting = self.groups.iter_mut().filter(|group| group.lead.params.algorithm() == algorithm);
        for group in waiting {
            // Keep the time since which these requests have waited.
            group.since = posted.iter().fold(group.since, |since, before| since.min(before.since));
        }
        for group in &posted {
            group.leave_coalescer(&self.gantry);
        }
        self.deliver_immediately();
        found
    }

    /// Returns the number of requests that were accepted and have not been delivered.
    pub fn in_flight(&self) -> usize {
        if self.is_forked() { 0 } else { self.slots.used() }
    }

    /// Registers `waker` for the next completion, and sends all waiting requests. Returns `false` if no wake-up is to be expected: the
    /// queue is empty, a completion is ready, or a device that cannot notify has requests and must be polled.
    pub fn arm(&mut self, waker: &Waker) -> bool {
        if self.is_forked() {
            return false;
        }
        // The requests are sent now, because no later call may come when their coalescing time is over.
        self.flush();
        self.send_and_poll(true);
        if self.in_flight() == 0 || self.has_completions() || !self.inbox.register_waker(waker.clone()) {
            return false;
        }
        self.dispatcher.arm(waker)
    }

    /// Returns the longest time to sleep after [`arm`](Self::arm), even if nothing wakes the caller. By then a device that has not answered
    /// is late, and the next call of [`complete`](Self::complete) detects it. Returns `None` if no device has requests.
    pub fn max_sleep(&self) -> Option<Duration> {
        let deadline = self.deadline()?;
        Some(Duration::from_nanos(deadline.saturating_sub(self.gantry.clock().now())))
    }

    /// Returns the time, by the framework's clock, at which a device is late or shared queue pairs are due; `None` without requests.
    pub(super) fn deadline(&self) -> Option<u64> {
        if self.is_forked() { None } else { self.dispatcher.deadline(&self.gantry) }
    }

    #[cfg(feature = "futures")]
    pub(super) fn gantry(&self) -> &Gantry {
        &self.gantry
    }

    /// Returns `true` if `complete` can deliver a request without polling a device.
    fn has_completions(&self) -> bool {
        !self.done.is_empty() || !self.inbox.is_empty()
    }

    /// Adds a request to the group of its algorithm and operation, and sends the group if it is full.
    fn add_to_group(&mut self, core: &Arc<SessionCore>, handle: Handle) {
        let Self { gantry, groups, options, .. } = self;
        let (algorithm, shape) = (core.params.algorithm(), handle.meta.shape);
        let is_joinable = |group: &PendingGroup| {
            !group.is_posted && group.operation == shape.operation && group.lead.params.algorithm() == algorithm
        };
        let index = if let Some(index) = groups.iter().position(is_joinable) {
            groups[index].group.add_shape(shape); // it fits, because queues take no streams
            index
        } else {
            let mut group = Group::default();
            group.try_add(core, &handle);
            let Shape { operation, bytes, .. } = shape;
            let batch_size = core.batch_size(operation, bytes);
            let since = if batch_size > 1 { gantry.clock().now() } else { 0 };
            if batch_size > 1 {
                gantry.common().coalescer(algorithm).add_queue();
            }
            let sends_when_full = options.immediate.is_some() || !core.all_synchronous();
            let lead = core.clone();
            groups.push(PendingGroup { group, lead, operation, since, batch_size, sends_when_full, is_posted: false });
            groups.len() - 1
        };
        let group = &mut groups[index];
        group.group.mixed |= !Arc::ptr_eq(&group.lead, core);
        group.group.list.push(handle);
        let (requests, bytes) = (group.group.list.len(), group.group.bytes);
        if requests >= group.batch_size && (group.sends_when_full || requests >= MAX_BURST || bytes >= MAX_BURST_BYTES)
        {
            let group = self.groups.swap_remove(index);
            self.send(group);
        }
    }

    /// Sends due groups, posts the others to their coalescers, and collects completions. With `all`, or if nothing was submitted since the
    /// last call, also sends each group whose algorithm has no requests in other queues. Returns `true` if a request came back.
    fn send_and_poll(&mut self, all: bool) -> bool {
        let only_polls = !std::mem::take(&mut self.has_submitted);
        let coalescing_ns = self.coalescing_ns();
        let now = if self.groups.is_empty() { 0 } else { self.gantry.clock().now() };
        let mut index = 0;
        while index < self.groups.len() {
            let group = &self.groups[index];
            let is_full = group.group.list.len() >= group.batch_size;
            let is_due = is_full || coalescing_ns == 0 || now >= group.since.saturating_add(coalescing_ns);
            // The caller seems to have no more requests for now, and no other queue has requests of this algorithm.
            let is_alone = (all || only_polls) && group.coalescer(&self.gantry).queues() <= 1;
            if is_due || is_alone {
                let group = self.groups.swap_remove(index);
                self.send(group);
                continue;
            }
            if !group.is_posted {
                self.post(index);
            }
            index += 1;
        }
        let has_returned = self.dispatcher.is_busy() && self.dispatcher.poll(&self.gantry, &mut self.done);
        self.deliver_immediately();
        has_returned
    }

    /// Returns the coalescing time in nanoseconds.
    fn coalescing_ns(&self) -> u64 {
        u64::try_from(self.options.coalesce.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Posts the requests of a group to the coalescer, from which other threads may send them. If a full batch then waits there, sends it.
    fn post(&mut self, index: usize) {
        let group = &mut self.groups[index];
        let coalescer = group.coalescer(&self.gantry);
        let waiting = self.dispatcher.post(coalescer, std::mem::take(&mut group.group.list));
        group.is_posted = true;
        if waiting >= group.batch_size {
            let group = self.groups.swap_remove(index);
            self.send(group);
        }
    }

    fn send(&mut self, group: PendingGroup) {
        group.leave_coalescer(&self.gantry);
        let lead = &*group.lead;
        if group.is_posted {
            self.dispatcher.send_posted(lead, group.coalescer(&self.gantry), &mut self.done);
        } else {
            let mut timer = lead.counters().timer(group.group.list.len());
            self.dispatcher.send(lead, group.group, &mut timer, &mut self.done);
        }
    }

    /// Delivers finished requests. Requests of ordered sessions are delivered in order.
    fn deliver(&mut self, each: &mut impl FnMut(Completion)) -> usize {
        let mut delivered = 0;
        while let Some(handle) = self.done.pop() {
            if let Some(handle) = self.hold_for_order(handle) {
                let timed = self.time_completion(&handle);
                delivered += 1;
                each(self.complete_request(handle));
                if let Some((site, since)) = timed {
                    let took = self.gantry.clock().now().saturating_sub(since);
                    self.gantry.counters().this_thread().record_time(site, Stage::Callback, took, TIMED_EVERY);
                }
            }
        }
        if self.slots.used() == 0 {
            // Other threads ran the requests of these groups. The coalescer must not count this queue as waiting.
            self.groups.drain(..).for_each(|group| group.leave_coalescer(&self.gantry));
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

    /// Holds a request back if it is not the next request of its ordered session. Otherwise moves the request after it to the finished
    /// requests, if that request is done.
    #[inline]
    fn hold_for_order(&mut self, handle: Handle) -> Option<Handle> {
        if !handle.session().params.is_ordered() {
            return Some(handle);
        }
        let slot = handle.meta.slot;
        let session_index = self.slots.session_index(slot);
        let entry = &mut self.sessions[session_index];
        let Some(position) = entry.order.iter().position(|(other, _)| *other == slot) else { return Some(handle) };
        if entry.order[position].1.is_none() && position > 0 {
            entry.order[position].1 = Some(handle);
            return None;
        }
        entry.order.pop_front();
        self.release_next_ordered(session_index);
        Some(handle)
    }

    /// Moves the next request of an ordered session to the finished requests, if it is done.
    fn release_next_ordered(&mut self, session_index: u32) {
        let order = &mut self.sessions[session_index].order;
        if let Some((_, done)) = order.front_mut()
            && let Some(handle) = done.take()
        {
            self.done.push_front(handle);
        }
    }

    /// For one request in [`TIMED_EVERY`], records the time from the answer of its queue pair until now ([`Stage::Done`]). Returns the site
    /// of this request and the present time.
    #[inline]
    fn time_completion(&self, handle: &Handle) -> Option<(Site, u64)> {
        let is_timed = self.slots.sequence(handle.meta.slot)? % TIMED_EVERY == 1;
        if is_timed { self.record_completion_time(handle) } else { None }
    }

    #[cold]
    fn record_completion_time(&self, handle: &Handle) -> Option<(Site, u64)> {
        let site = Site::new(handle.route?.device, handle.meta.algorithm, handle.meta.shape.operation);
        let now = self.gantry.clock().now();
        if handle.meta.since > 0 {
            // The request was on a queue pair, and came back at `since`.
            let elapsed_ns = now.saturating_sub(handle.meta.since);
            self.gantry.counters().this_thread().record_time(site, Stage::Done, elapsed_ns, TIMED_EVERY);
        }
        Some((site, now))
    }

    #[inline]
    fn complete_request(&mut self, mut handle: Handle) -> Completion {
        let slot = handle.meta.slot;
        let (outcome, route, algorithm) = (handle.entry.outcome, handle.route, handle.meta.algorithm);
        // Moving a whole `Result` would cost more than the rest of this function.
        let error = if outcome.is_none() { handle.result().err().map(Box::new) } else { None };
        let taken = self.slots.take(handle).expect("a delivered request has a slot");
        let TakenSlot { mut submission, session_index, sequence } = taken;
        if submission.has_mixed_buffers() {
            self.gantry.copy_out(&mut submission, algorithm, outcome, route);
        }
        self.bytes = self.bytes.saturating_sub(submission.bytes());
        self.sessions.remove_request(session_index);
        let (ticket, user) = (Ticket { slot, sequence }, submission.user_data());
        let result = outcome.ok_or_else(|| *error.expect("a request without an outcome has an error"));
        Completion { ticket, user, result, route, submission }
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "queue of {}, {} in flight", self.options.depth, self.in_flight())
    }
}
