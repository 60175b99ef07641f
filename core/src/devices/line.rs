//! A queue pair on which requests are out: what is watched and measured while they are.

use super::candidates::Candidates;
use super::coalescer::Common;
use super::health::Health;
use super::pairs::OpenPair;
use crate::algorithm::{Algorithm, Fault, Operation};
use crate::request::{Inbox, List};
use crate::route::{Ledgers, Measurement, Route, learn};
use crate::stats::{Site, Stage};
use crate::sync::{AtomicU64, AtomicUsize, Mutex, Ordering, lock, try_lock};

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

// The queue pairs of a device that no thread has to itself.
//
// A thread's own lines hold its own requests only: their owner may stop polling. What it does for others, out of a backlog or a
// coalescer, goes into a ring by the device's shared lines, and so does everything where a device has fewer queue pairs than
// there are threads. Whoever waits for something polls them.

#[derive(Default)]
pub(crate) struct SharedLines {
    lines: Mutex<Lines>,
    /// Requests in the lines.
    aboard: AtomicUsize,
    /// When to look again at the latest.
    until: AtomicU64,
}

#[derive(Default)]
struct Lines {
    /// Those that are open, and those from which something did not come back.
    lines: Vec<Line>,
    /// Since when nothing has moved in the device while requests waited for room, and what had moved until then.
    stuck: Option<(Moved, u64)>,
}

/// How many requests have entered the rings of a device, and how many have left.
type Moved = (u64, u64);

/// What serving a device needs of it.
pub(crate) struct Served<'a> {
    pub(crate) device: usize,
    pub(crate) health: &'a Health,
    pub(crate) common: &'a Common,
    pub(crate) learner: Learner<'a>,
    /// The device has fewer queue pairs than there are threads: all of them are shared.
    pub(crate) is_scarce: bool,
    /// Another queue pair; `None` while there is none.
    pub(crate) take_pair: &'a dyn Fn() -> Result<Option<OpenPair>, Fault>,
    pub(crate) put_pair: &'a dyn Fn(OpenPair),
}

impl SharedLines {
    /// Whether a request is in one of the lines.
    pub(crate) fn has_any(&self) -> bool {
        self.aboard.load(Ordering::SeqCst) > 0
    }

    /// Takes what is ready if the lines are to be polled, and offers what waits for the device. Where another thread is at it,
    /// that is as good: whoever waits looks again.
    pub(crate) fn serve(&self, served: &Served<'_>, poll: bool, back: &mut List) {
        let Served { health, common, .. } = *served;
        if !self.has_any() && health.backlog.is_empty() {
            return;
        }
        let Some(mut lines) = try_lock(&self.lines) else { return };
        if poll {
            for line in &mut lines.lines {
                line.poll(health, common, served.learner, back);
            }
        }
        let mut refused = None;
        if health.backlog.is_empty() {
            lines.stuck = None;
        } else if health.is_ready() {
            refused = lines.resume(served, back);
            refused = refused.or_else(|| lines.is_stuck(health, common.clock.now()));
        } else {
            refused = Some(Fault::Declined("the device has just failed")); // which these know nothing of
        }
        if let Some(fault) = refused {
            lines.stuck = None;
            health.backlog.take().fail(&fault, back);
        }
        self.note(&mut lines, served);
    }

    /// Takes back what waits of `home`, and everything that is in the same line as a request of it. Nobody offers anything to the
    /// device meanwhile: what is being offered is neither in the backlog nor in a line.
    pub(crate) fn abandon(&self, served: &Served<'_>, home: &Inbox, back: &mut List) {
        let mut lines = lock(&self.lines);
        back.append(&mut served.health.backlog.withdraw(home));
        for line in lines.lines.iter_mut().filter(|line| line.pair.has_of(home)) {
            line.take_back(served.health, home, back);
        }
        self.note(&mut lines, served);
    }

    /// When there is something to be done about what is aboard although the device has not moved, if that is known.
    pub(crate) fn until(&self) -> Option<u64> {
        Some(self.until.load(Ordering::Relaxed)).filter(|until| *until != u64::MAX)
    }

    /// Puts away what is not needed, and notes what others go by.
    fn note(&self, lines: &mut Lines, served: &Served<'_>) {
        for idle in lines.lines.extract_if(.., |line| line.is_idle()) {
            (served.put_pair)(idle.pair);
        }
        let health = served.health;
        let stuck = lines.stuck.map(|(moved, since)| since.saturating_add(patience(moved, health)).saturating_add(1));
        let until = lines.lines.iter().filter_map(|line| line.deadline(health)).chain(stuck).min();
        self.until.store(until.unwrap_or(u64::MAX), Ordering::Relaxed);
        let aboard = lines.lines.iter().map(|line| line.pair.in_flight()).sum();
        self.aboard.store(aboard, Ordering::SeqCst);
    }
}

impl Lines {
    /// Offers what waits to the lines that are open, and to others for as long as the device has queue pairs and requests are left.
    /// A fault where there is no way into the device at all.
    fn resume(&mut self, served: &Served<'_>, back: &mut List) -> Option<Fault> {
        let (health, now) = (served.health, served.common.clock.now());
        for line in self.lines.iter_mut().filter(|line| line.pair.is_open()) {
            line.resume(health, now, back);
        }
        if health.backlog.is_empty() || self.lines.iter().any(|line| line.pair.is_open()) && !served.is_scarce {
            return None;
        }
        loop {
            match (served.take_pair)() {
                Ok(Some(pair)) => {
                    let mut line = Line::new(served.device, pair, health.site());
                    line.resume(health, now, back);
                    let took = line.pair.in_flight() > 0;
                    self.lines.push(line);
                    if !took || health.backlog.is_empty() || !served.is_scarce {
                        return None;
                    }
                }
                // All are in use, and come back to be shared: the requests wait.
                Ok(None) => return None,
                Err(fault) => return Some(fault),
            }
        }
    }

    /// Whether nothing has moved in a device for long, although requests wait for room.
    fn is_stuck(&mut self, health: &Health, now: u64) -> Option<Fault> {
        let moved = health.load.moved();
        match self.stuck {
            Some((before, since)) if before == moved => {
                let fault = if moved.0 == moved.1 {
                    Fault::failed("the device takes no requests")
                } else {
                    // The queue that has the room does not poll. That is not the device's fault.
                    Fault::Declined("it has had no room for too long")
                };
                (now.saturating_sub(since) > patience(moved, health)).then_some(fault)
            }
            _ => {
                self.stuck = (!health.backlog.is_empty()).then_some((moved, now));
                None
            }
        }
    }
}

/// For how long nothing may move in a device while requests wait for room.
fn patience(moved: Moved, health: &Health) -> u64 {
    health.deadline(if moved.0 == moved.1 { 0 } else { usize::MAX })
}
