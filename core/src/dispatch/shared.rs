//! The queue pairs of a device that no thread has to itself.
//!
//! A thread's own lines hold its own requests only: their owner may stop polling. What it does for others, out of a backlog or a
//! coalescer, goes into a ring by the device's shared lines, and so does everything where a device has fewer queue pairs than
//! there are threads. Whoever waits for something polls them.

use super::common::Common;
use super::health::Health;
use super::inbox::Inbox;
use super::line::{Learner, Line};
use super::list::List;
use super::pair::OpenPair;
use crate::algorithm::Fault;
use crate::sync::{AtomicU64, AtomicUsize, Mutex, Ordering, lock, try_lock};

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
