//! Queue pairs in use: deadlines and measurements of their requests.

use super::candidates::Candidates;
use super::coalescer::CommonState;
use super::health::Health;
use super::pairs::OpenPair;
use crate::algorithm::{Algorithm, Fault, Operation};
use crate::request::{Inbox, List};
use crate::route::{Ledgers, Measurement, Route, learn};
use crate::stats::{Site, Stage};
use crate::sync::{AtomicU64, AtomicUsize, Mutex, Ordering, lock, try_lock};

/// A queue pair in use, by one thread or shared by all.
pub(crate) struct ActivePair {
    pub(crate) device: usize,
    pub(crate) pair: OpenPair,
    /// The earliest start of the next request that this queue pair's thread adds to the backlog, in the backlog's virtual time.
    pub(crate) next_start: u64,
    /// The counters' key for a failure of the device: the last request's from the backlog, or else the key given at the start.
    site: Site,
    /// The address of the oldest request in the device, and the time since when it has been the oldest.
    oldest: Option<(usize, u64)>,
    /// The part of a batch that is being measured, if there is one.
    pending: Option<PendingMeasurement>,
}

/// A part of a batch that is measured for a policy while it is on a queue pair.
struct PendingMeasurement {
    route: Route,
    target: (Algorithm, Operation),
    requests: usize,
    /// Bytes of each request.
    bytes: usize,
    started: u64,
    /// Nanoseconds that the thread took to hand the part over.
    submit_ns: u64,
    /// Nanoseconds that the thread has taken to collect completions so far.
    poll_ns: u64,
    /// Requests that were on the queue pair before the part.
    requests_ahead: usize,
    /// Completions that must still come, including those of the requests ahead.
    missing: usize,
}

/// Requests that came back together and were submitted together. Most such requests are of one kind, so their time is recorded once for
/// all of them.
struct CompletionRun {
    since: u64,
    bytes: usize,
    site: Site,
    requests: usize,
}

impl CompletionRun {
    fn record(self, now: u64, health: &Health, common: &CommonState) {
        if self.requests > 0 {
            let took = now.saturating_sub(self.since);
            health.record_time(self.bytes, took, self.requests);
            common.stats.this_thread().record_time(self.site, Stage::Invoke, took, self.requests as u64);
        }
    }
}

/// The recipients of measurements.
#[derive(Clone, Copy)]
pub(crate) struct Learner<'a> {
    pub(crate) ledgers: &'a Ledgers,
    pub(crate) candidates: &'a Candidates,
}

impl ActivePair {
    pub(crate) fn new(device: usize, pair: OpenPair, site: Site) -> Self {
        Self { device, pair, next_start: 0, site, oldest: None, pending: None }
    }

    /// Returns `true` if no request is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.pair.in_flight() == 0
    }

    /// Calls `work` on the queue pair, and updates the device's load by the change in the number of requests in flight.
    #[inline]
    fn count_load<T>(&mut self, health: &Health, work: impl FnOnce(&mut OpenPair) -> T) -> T {
        let before = self.pair.in_flight();
        let result = work(&mut self.pair);
        health.load.record_change(before, self.pair.in_flight());
        result
    }

    /// Returns the time since when the oldest request has been the oldest.
    pub(crate) fn oldest_since(&self) -> Option<u64> {
        self.oldest.map(|(_, since)| since)
    }

    /// Starts to measure a part that was just submitted; handing it over took `submit_ns` nanoseconds.
    pub(crate) fn begin_measurement(
        &mut self,
        route: Route,
        target: (Algorithm, Operation),
        (requests, bytes): (usize, usize),
        (started, submit_ns): (u64, u64),
    ) {
        let missing = self.pair.in_flight();
        let requests_ahead = missing - requests.min(missing);
        self.pending = Some(PendingMeasurement {
            route,
            target,
            requests,
            bytes,
            started,
            submit_ns,
            poll_ns: 0,
            requests_ahead,
            missing,
        });
    }

    /// Collects completions. If a request is late, quarantines the device and takes all requests back.
    pub(crate) fn poll(&mut self, health: &Health, common: &CommonState, learner: Learner<'_>, returned: &mut List) {
        let now = common.clock.now();
        let mut completed = List::new();
        if self.count_load(health, |pair| pair.poll(&mut completed)).is_err() {
            health.quarantine(self.site);
        }
        self.follow_measurement(completed.len(), now, common, learner);
        let mut run = CompletionRun { since: 0, bytes: 0, site: self.site, requests: 0 };
        completed.each(|handle| {
            let (since, shape) = (handle.meta.since, handle.meta.shape);
            if since > 0 {
                let site = Site::new(self.device, handle.meta.algorithm, shape.operation);
                if (since, shape.bytes, site) != (run.since, run.bytes, run.site) {
                    let next_run = CompletionRun { since, bytes: shape.bytes, site, requests: 0 };
                    std::mem::replace(&mut run, next_run).record(now, health, common);
                }
                run.requests += 1;
                handle.meta.since = now;
            }
        });
        run.record(now, health, common);
        returned.append(&mut completed);
        match (self.pair.oldest(), self.oldest) {
            (None, _) => self.oldest = None,
            (Some((oldest, bytes)), Some((watched, since))) if oldest == watched => {
                if now.saturating_sub(since) > health.deadline_ns(bytes) {
                    health.quarantine(self.site);
                    self.count_load(health, |pair| pair.take_back(returned));
                    self.oldest = None;
                }
            }
            (Some((oldest, _)), _) => self.oldest = Some((oldest, now)),
        }
    }

    fn follow_measurement(&mut self, completed: usize, polled_at: u64, common: &CommonState, learner: Learner<'_>) {
        let Some(pending) = &mut self.pending else { return };
        pending.missing = pending.missing.saturating_sub(completed);
        if completed > 0 {
            // Polling in vain counts as waiting, because a thread with other work would not poll.
            pending.poll_ns += common.clock.now().saturating_sub(polled_at);
        }
        if pending.missing > 0 {
            return;
        }
        let Some(PendingMeasurement {
            route,
            target,
            requests,
            bytes,
            started,
            submit_ns,
            poll_ns,
            requests_ahead,
            ..
        }) = self.pending.take()
        else {
            return;
        };
        // Completions of the requests before the part took a share of the time for polling.
        let share = poll_ns * requests as u64 / (requests + requests_ahead) as u64;
        let measured = Measurement {
            ledgers: learner.ledgers,
            clock: &*common.clock,
            algorithm: target.0,
            operation: target.1,
            device: route.device,
            reason: route.reason,
            requests,
            bytes,
            started,
            requests_ahead,
            cpu_ns: Some(submit_ns + share),
        };
        if let Some(candidates) = learner.candidates.get(target.0) {
            learn(&candidates, &measured);
        }
    }

    /// Returns the time at which the device is late.
    pub(crate) fn deadline(&self, health: &Health) -> Option<u64> {
        let ((_, since), (_, bytes)) = self.oldest.zip(self.pair.oldest())?;
        Some(since.saturating_add(health.deadline_ns(bytes)).saturating_add(1))
    }

    /// Closes the queue pair, because the queue with the inbox `inbox` is being dropped. Requests that return to other inboxes are
    /// declined, so that they run elsewhere.
    pub(crate) fn take_back(&mut self, health: &Health, inbox: &Inbox, returned: &mut List) {
        let mut taken = List::new();
        self.count_load(health, |pair| pair.take_back(&mut taken));
        taken.each(|handle| {
            if handle.fault() == Some(&Fault::Lost) && !handle.comes_back_to(inbox) {
                handle.entry.finish(Err(Fault::Declined("the queue that submitted it was dropped")));
            }
        });
        returned.append(&mut taken);
    }

    /// Offers requests to the device. Returns `true` if the device has taken and completed all of them, as [`OpenPair::submit`] says.
    pub(crate) fn submit(&mut self, health: &Health, offered: &mut List, returned: &mut List) -> bool {
        let submitted = self.count_load(health, |pair| pair.submit(offered, returned));
        if let Err(fault) = &submitted {
            offered.fail(fault, returned); // the remaining requests are retried elsewhere, too
        }
        submitted == Ok(true)
    }

    /// Offers the requests of the backlog in order, whichever thread submitted them.
    pub(crate) fn resume(&mut self, health: &Health, now: u64, returned: &mut List) {
        health.backlog.serve(|offered| {
            offered.each(|handle| {
                self.site = Site::new(self.device, handle.meta.algorithm, handle.meta.shape.operation);
                // Do not count the wait for room as time in the device. 0 would mean that the request goes through no queue pair.
                handle.meta.since = now.max(1);
            });
            // If the submission fails, it ends the offered requests with the fault.
            self.submit(health, offered, returned);
        });
        self.pair.doorbell();
    }
}

// Queue pairs that all threads share.
//
// A thread's private queue pairs hold only its own requests, because the thread may stop polling. Requests that it submits for others, from
// a backlog or a coalescer, go to the device's shared queue pairs. If a device has fewer queue pairs than there are threads, all requests
// go there. Every thread that waits for a request polls the shared queue pairs.

#[derive(Default)]
pub(crate) struct SharedPairs {
    state: Mutex<SharedPairsState>,
    /// Number of requests in flight on the queue pairs.
    in_flight: AtomicUsize,
    /// The time by which to poll again; `u64::MAX` for none.
    deadline: AtomicU64,
}

#[derive(Default)]
struct SharedPairsState {
    /// Open queue pairs, and closed queue pairs from which a request has not come back.
    pairs: Vec<ActivePair>,
    /// The device's counts, and the time since which they have not changed, although requests wait for room.
    stuck: Option<(MovedCounts, u64)>,
}

/// Counts of requests that have entered and left the queue pairs of a device.
type MovedCounts = (u64, u64);

/// The parts of a device that serving its shared queue pairs needs.
pub(crate) struct ServeContext<'a> {
    pub(crate) device: usize,
    pub(crate) health: &'a Health,
    pub(crate) common: &'a CommonState,
    pub(crate) learner: Learner<'a>,
    /// The device has fewer queue pairs than there are threads, so that all queue pairs are shared.
    pub(crate) has_few_pairs: bool,
    /// Takes another queue pair; `None` if there is none.
    pub(crate) take_pair: &'a dyn Fn() -> Result<Option<OpenPair>, Fault>,
    pub(crate) put_pair: &'a dyn Fn(OpenPair),
}

impl SharedPairs {
    /// Returns `true` if a request is in flight on a shared queue pair.
    pub(crate) fn has_requests(&self) -> bool {
        self.in_flight.load(Ordering::SeqCst) > 0
    }

    /// Offers waiting requests to the device, after polling the queue pairs if `poll` is set. Does nothing if another thread is doing so:
    /// every waiting thread calls again.
    pub(crate) fn serve(&self, context: &ServeContext<'_>, poll: bool, returned: &mut List) {
        let ServeContext { health, common, .. } = *context;
        if !self.has_requests() && health.backlog.is_empty() {
            return;
        }
        let Some(mut state) = try_lock(&self.state) else { return };
        if poll {
            for active in &mut state.pairs {
                active.poll(health, common, context.learner, returned);
            }
        }
        let mut refused = None;
        if health.backlog.is_empty() {
            state.stuck = None;
        } else if health.is_ready() {
            refused = state.resume(context, returned);
            refused = refused.or_else(|| state.check_stuck(health, common.clock.now()));
        } else {
            refused = Some(Fault::Declined("the device has just failed")); // it failed before it got the waiting requests
        }
        if let Some(fault) = refused {
            state.stuck = None;
            health.backlog.take().fail(&fault, returned);
        }
        self.update(&mut state, context);
    }

    /// Takes back the waiting requests of the inbox `inbox`, and all requests on the queue pairs that have a request of this inbox. Takes
    /// the lock, so that no thread is offering: a request being offered is neither in the backlog nor on a queue pair.
    pub(crate) fn abandon(&self, context: &ServeContext<'_>, inbox: &Inbox, returned: &mut List) {
        let mut state = lock(&self.state);
        returned.append(&mut context.health.backlog.withdraw(inbox));
        for active in state.pairs.iter_mut().filter(|active| active.pair.has_requests_of(inbox)) {
            active.take_back(context.health, inbox, returned);
        }
        self.update(&mut state, context);
    }

    /// Returns the time at which to act if no request enters or leaves the device until then; `None` if there is no such time.
    pub(crate) fn deadline(&self) -> Option<u64> {
        Some(self.deadline.load(Ordering::Relaxed)).filter(|deadline| *deadline != u64::MAX)
    }

    /// Puts back idle queue pairs, and updates the fields that are read without the lock.
    fn update(&self, state: &mut SharedPairsState, context: &ServeContext<'_>) {
        for idle in state.pairs.extract_if(.., |active| active.is_idle()) {
            (context.put_pair)(idle.pair);
        }
        let health = context.health;
        let stuck =
            state.stuck.map(|(moved, since)| since.saturating_add(stuck_limit_ns(moved, health)).saturating_add(1));
        let deadline = state.pairs.iter().filter_map(|active| active.deadline(health)).chain(stuck).min();
        self.deadline.store(deadline.unwrap_or(u64::MAX), Ordering::Relaxed);
        let in_flight = state.pairs.iter().map(|active| active.pair.in_flight()).sum();
        self.in_flight.store(in_flight, Ordering::SeqCst);
    }
}

impl SharedPairsState {
    /// Offers the backlog to the open queue pairs. If requests are left, takes new queue pairs: one if none is open, or as many as needed
    /// if all are shared. Returns a fault if a queue pair cannot be opened.
    fn resume(&mut self, context: &ServeContext<'_>, returned: &mut List) -> Option<Fault> {
        let (health, now) = (context.health, context.common.clock.now());
        for active in self.pairs.iter_mut().filter(|active| active.pair.is_open()) {
            active.resume(health, now, returned);
        }
        if health.backlog.is_empty() || self.pairs.iter().any(|active| active.pair.is_open()) && !context.has_few_pairs
        {
            return None;
        }
        loop {
            match (context.take_pair)() {
                Ok(Some(pair)) => {
                    let mut active = ActivePair::new(context.device, pair, health.site());
                    active.resume(health, now, returned);
                    let took_some = active.pair.in_flight() > 0;
                    self.pairs.push(active);
                    if !took_some || health.backlog.is_empty() || !context.has_few_pairs {
                        return None;
                    }
                }
                // All queue pairs are in use. The requests wait until a thread puts one back.
                Ok(None) => return None,
                Err(fault) => return Some(fault),
            }
        }
    }

    /// Returns a fault if no request has entered or left the device for long although requests wait for room.
    fn check_stuck(&mut self, health: &Health, now: u64) -> Option<Fault> {
        let moved = health.load.moved_counts();
        match self.stuck {
            Some((last_moved, since)) if last_moved == moved => {
                let fault = if moved.0 == moved.1 {
                    Fault::failed("the device takes no requests")
                } else {
                    // A queue occupies the device but does not poll. The device is not to blame.
                    Fault::Declined("it had no room for too long")
                };
                (now.saturating_sub(since) > stuck_limit_ns(moved, health)).then_some(fault)
            }
            _ => {
                self.stuck = (!health.backlog.is_empty()).then_some((moved, now));
                None
            }
        }
    }
}

/// Returns the maximum nanoseconds that requests wait for room while no request enters or leaves the device.
fn stuck_limit_ns(moved: MovedCounts, health: &Health) -> u64 {
    health.deadline_ns(if moved.0 == moved.1 { 0 } else { usize::MAX })
}
