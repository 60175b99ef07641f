//! A queue pair on which requests are out: what is watched and measured while they are.

use super::candidates::Candidates;
use super::common::Common;
use super::health::Health;
use super::inbox::Inbox;
use super::list::List;
use super::pair::OpenPair;
use crate::algorithm::{Algorithm, Fault, Operation};
use crate::route::{Ledgers, Measurement, Route, learn};
use crate::stats::{Site, Stage};

/// A queue pair in use, of one thread or shared.
pub(crate) struct Line {
    pub(crate) device: usize,
    pub(crate) pair: OpenPair,
    /// Where our next request stands in the backlog's virtual time.
    pub(crate) turn: u64,
    /// What was submitted last.
    site: Site,
    /// The request that has been in the device for longest, and since when it has been that one.
    watch: Option<(usize, u64)>,
    /// The part that is being measured.
    lesson: Option<Lesson>,
}

/// A part of a batch that a policy wants to learn from, while it is in a ring.
struct Lesson {
    route: Route,
    what: (Algorithm, Operation),
    requests: usize,
    /// In each of them.
    bytes: usize,
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

/// Requests that came back together, and were handed over together. Most bursts are of one kind, and what each of their requests took is
/// noted once for all.
struct Alike {
    since: u64,
    bytes: usize,
    site: Site,
    requests: usize,
}

impl Alike {
    fn took_until(self, now: u64, health: &Health, common: &Common) {
        if self.requests > 0 {
            let took = now.saturating_sub(self.since);
            health.took(self.bytes, took, self.requests);
            common.stats.here().time(self.site, Stage::Invoke, took, self.requests as u64);
        }
    }
}

/// Who wants to know what was measured.
#[derive(Clone, Copy)]
pub(crate) struct Learner<'a> {
    pub(crate) ledgers: &'a Ledgers,
    pub(crate) candidates: &'a Candidates,
}

impl Line {
    pub(crate) fn new(device: usize, pair: OpenPair, site: Site) -> Self {
        Self { device, pair, turn: 0, site, watch: None, lesson: None }
    }

    /// Whether nothing is out on it.
    pub(crate) fn is_idle(&self) -> bool {
        self.pair.in_flight() == 0
    }

    /// Does something with the queue pair, and notes how many requests the device has got or given back by it.
    #[inline]
    fn counted<T>(&mut self, health: &Health, work: impl FnOnce(&mut OpenPair) -> T) -> T {
        let before = self.pair.in_flight();
        let result = work(&mut self.pair);
        health.load.count(before, self.pair.in_flight());
        result
    }

    /// Since when the oldest request has been the oldest.
    pub(crate) fn watched_since(&self) -> Option<u64> {
        self.watch.map(|(_, since)| since)
    }

    /// Measures a part that the ring has just been given, in so many nanoseconds.
    pub(crate) fn begin_lesson(
        &mut self,
        route: Route,
        what: (Algorithm, Operation),
        (requests, bytes): (usize, usize),
        (started, handing): (u64, u64),
    ) {
        let until = self.pair.in_flight();
        let ahead = until - requests.min(until);
        self.lesson = Some(Lesson { route, what, requests, bytes, started, handing, taking: 0, ahead, until });
    }

    /// Takes what is ready, and everything when something has been in the device for too long.
    pub(crate) fn poll(&mut self, health: &Health, common: &Common, learner: Learner<'_>, back: &mut List) {
        let now = common.clock.now();
        let mut came = List::new();
        if self.counted(health, |pair| pair.poll(&mut came)).is_err() {
            health.fail(self.site);
        }
        self.follow_lesson(came.len(), now, common, learner);
        let mut alike = Alike { since: 0, bytes: 0, site: self.site, requests: 0 };
        came.each(|handle| {
            let (since, shape) = (handle.note.since, handle.note.shape);
            if since > 0 {
                let site = Site::new(self.device, handle.note.algorithm, shape.operation);
                if (since, shape.bytes, site) != (alike.since, alike.bytes, alike.site) {
                    let one = Alike { since, bytes: shape.bytes, site, requests: 0 };
                    std::mem::replace(&mut alike, one).took_until(now, health, common);
                }
                alike.requests += 1;
                handle.note.since = now;
            }
        });
        alike.took_until(now, health, common);
        back.append(&mut came);
        match (self.pair.oldest(), self.watch) {
            (None, _) => self.watch = None,
            (Some((oldest, bytes)), Some((watched, since))) if oldest == watched => {
                if now.saturating_sub(since) > health.deadline(bytes) {
                    health.fail(self.site);
                    self.counted(health, |pair| pair.take_back(back));
                    self.watch = None;
                }
            }
            (Some((oldest, _)), _) => self.watch = Some((oldest, now)),
        }
    }

    fn follow_lesson(&mut self, came: usize, asked: u64, common: &Common, learner: Learner<'_>) {
        let Some(lesson) = &mut self.lesson else { return };
        lesson.until = lesson.until.saturating_sub(came);
        if came > 0 {
            // To ask in vain is to wait, and a thread with something else to do would not.
            lesson.taking += common.clock.now().saturating_sub(asked);
        }
        if lesson.until > 0 {
            return;
        }
        let Some(Lesson { route, what, requests, bytes, started, handing, taking, ahead, .. }) = self.lesson.take()
        else {
            return;
        };
        let share = taking * requests as u64 / (requests + ahead) as u64;
        let measured = Measurement {
            ledgers: learner.ledgers,
            clock: &*common.clock,
            algorithm: what.0,
            operation: what.1,
            device: route.device,
            reason: route.reason,
            requests,
            bytes,
            started,
            ahead,
            cpu_ns: Some(handing + share),
        };
        if let Some(candidates) = learner.candidates.get(what.0) {
            learn(&candidates, &measured);
        }
    }

    /// When the device is too late.
    pub(crate) fn deadline(&self, health: &Health) -> Option<u64> {
        let ((_, since), (_, bytes)) = self.watch.zip(self.pair.oldest())?;
        Some(since.saturating_add(health.deadline(bytes)).saturating_add(1))
    }

    /// Ends the line, for the sake of `home`. The requests of others go elsewhere, and the device is not to blame.
    pub(crate) fn take_back(&mut self, health: &Health, home: &Inbox, back: &mut List) {
        let mut taken = List::new();
        self.counted(health, |pair| pair.take_back(&mut taken));
        taken.each(|handle| {
            if handle.fault() == Some(&Fault::Lost) && !handle.is_at_home(home) {
                handle.entry.finish(Err(Fault::Declined("the queue that had taken it along is gone")));
            }
        });
        back.append(&mut taken);
    }

    /// Offers requests to the device, and counts those that it keeps. Whether it has done [all](OpenPair::submit).
    pub(crate) fn submit(&mut self, health: &Health, offered: &mut List, back: &mut List) -> bool {
        let submitted = self.counted(health, |pair| pair.submit(offered, back));
        if let Err(fault) = &submitted {
            offered.fail(fault, back); // those that were not taken go elsewhere, too
        }
        submitted == Ok(true)
    }

    /// Offers what waits in the backlog, from whichever thread, in its order.
    pub(crate) fn resume(&mut self, health: &Health, now: u64, back: &mut List) {
        health.backlog.serve(|offered| {
            offered.each(|handle| {
                self.site = Site::new(self.device, handle.note.algorithm, handle.note.shape.operation);
                // The wait for room is no part of what the device takes.
                handle.note.since = now.max(1);
            });
            // An end of the line, and what is offered has the fault.
            self.submit(health, offered, back);
        });
        self.pair.doorbell();
    }
}
