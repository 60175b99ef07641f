//! The threads that serve all guests.
//!
//! One thread leads: it waits for kicks of any guest, and takes the pending requests into a burst. While the burst has room, it
//! stays the leader as it computes, so that requests that arrive meanwhile share the next burst, across guests. When a burst is
//! full, a larger one would gain nothing, and another thread takes the lead. So a single guest with one request keeps one thread
//! awake, and guests that fill the lanes of every thread get every thread.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

use gantry_core::Priority;
use nix::sys::epoll::{Epoll, EpollEvent, EpollTimeout};

use crate::guest::{Burst, Guest, NextVisit};

/// State shared by all threads.
pub(crate) struct Shared {
    pub(crate) epoll: Epoll,
    guests: RwLock<HashMap<u32, Arc<Guest>>>,
    next_guest: AtomicU32,
    leader: Mutex<Leader>,
    ended: AtomicBool,
}

/// The state of the leading thread: the rings to visit, by urgency.
struct Leader {
    events: Vec<EpollEvent>,
    /// Rings that may have requests, by class.
    ready: [VecDeque<u64>; CLASSES],
    /// Number of rings of other classes that were served while a class waited.
    skipped: [u32; CLASSES],
    /// Rings whose guests have used up their rate for now.
    throttled: Vec<(Instant, u64)>,
}

const CLASSES: usize = Priority::ALL.len();
/// Bits of a token for the ring; the others are the guest's number.
const RING_BITS: u32 = 8;

/// Returns the number that identifies a ring in the event queue.
pub(crate) fn token(guest: &Guest, ring: usize) -> u64 {
    u64::from(guest.id) << RING_BITS | ring as u64
}

impl Shared {
    pub(crate) fn new(epoll: Epoll) -> Self {
        let leader = Leader {
            events: vec![EpollEvent::empty(); 64],
            ready: Default::default(),
            skipped: [0; CLASSES],
            throttled: Vec::new(),
        };
        Self {
            epoll,
            guests: RwLock::default(),
            next_guest: AtomicU32::new(1),
            leader: Mutex::new(leader),
            ended: AtomicBool::new(false),
        }
    }

    /// Returns a number that no other connection has.
    pub(crate) fn number(&self) -> u32 {
        self.next_guest.fetch_add(1, Relaxed)
    }

    pub(crate) fn add(&self, guest: Arc<Guest>) {
        self.guests.write().unwrap_or_else(PoisonError::into_inner).insert(guest.id, guest);
    }

    pub(crate) fn remove(&self, guest: &Guest) {
        self.guests.write().unwrap_or_else(PoisonError::into_inner).remove(&guest.id);
        guest.end(&self.epoll);
    }

    /// Serves until the process ends.
    pub(crate) fn serve(&self) {
        let mut burst = Burst::default();
        while !self.ended.load(Relaxed) {
            let mut leader = self.leader.lock().unwrap_or_else(PoisonError::into_inner);
            // The thread stays the leader unless the burst is full: handing over wakes a thread, which costs more than a small
            // request.
            loop {
                if leader.gather(self, &mut burst).is_err() {
                    // The event queue itself has failed: no guest can be served without it.
                    self.ended.store(true, Relaxed);
                    return;
                }
                if burst.is_full() {
                    break;
                }
                burst.run();
            }
            drop(leader);
            burst.run();
        }
    }

    fn guest(&self, token: u64) -> Option<Arc<Guest>> {
        let guests = self.guests.read().unwrap_or_else(PoisonError::into_inner);
        guests.get(&((token >> RING_BITS) as u32)).cloned()
    }
}

impl Leader {
    /// Waits until there are requests, and takes them.
    fn gather(&mut self, shared: &Shared, burst: &mut Burst) -> nix::Result<()> {
        loop {
            let now = Instant::now();
            let requeue_due = |leader: &mut Self| {
                for (_, token) in leader.throttled.extract_if(.., |(at, _)| *at <= now).collect::<Vec<_>>() {
                    leader.push(shared, token);
                }
            };
            requeue_due(self);
            self.visit(shared, burst, now);
            if burst.is_full() {
                return Ok(());
            }
            // Also takes requests of guests that kicked in the meantime.
            let timeout = match self.throttled.iter().map(|(at, _)| *at).min() {
                _ if !burst.is_empty() || self.ready.iter().any(|ready| !ready.is_empty()) => EpollTimeout::ZERO,
                Some(at) => {
                    // Rounded up, so that the thread does not wake too early.
                    let wait = at.saturating_duration_since(Instant::now()).as_millis() + 1;
                    EpollTimeout::try_from(wait.min(60_000) as u32).unwrap_or(EpollTimeout::MAX)
                }
                None => EpollTimeout::NONE,
            };
            let count = match shared.epoll.wait(&mut self.events, timeout) {
                Ok(count) => count,
                Err(nix::errno::Errno::EINTR) => 0,
                Err(error) => return Err(error),
            };
            for place in 0..count {
                let token = self.events[place].data();
                self.push(shared, token);
            }
            if count > 0 {
                self.visit(shared, burst, Instant::now());
            }
            if !burst.is_empty() {
                return Ok(());
            }
        }
    }

    /// Visits each ready ring once, the most urgent ones first.
    fn visit(&mut self, shared: &Shared, burst: &mut Burst, now: Instant) {
        let mut again = Vec::new();
        while !burst.is_full()
            && let Some(token) = self.pop()
        {
            let Some(guest) = shared.guest(token) else { continue };
            let ring = (token & ((1 << RING_BITS) - 1)) as usize;
            match guest.take(ring, burst, now) {
                NextVisit::Now => again.push(token),
                NextVisit::At(at) => self.throttled.push((at, token)),
                NextVisit::OnKick | NextVisit::OnReturn => {}
            }
        }
        for token in again {
            self.push(shared, token);
        }
    }

    fn push(&mut self, shared: &Shared, token: u64) {
        let Some(guest) = shared.guest(token) else { return };
        let ready = &mut self.ready[class(&guest)];
        if !ready.contains(&token) && !self.throttled.iter().any(|(_, waiting)| *waiting == token) {
            ready.push_back(token);
        }
    }

    /// Removes the next ring: of the most urgent class, unless a lower class has waited for its limit.
    fn pop(&mut self) -> Option<u64> {
        let waiting = |class: &usize| !self.ready[*class].is_empty();
        let overdue = |class: &usize| self.skipped[*class] >= Priority::ALL[*class].patience();
        let class =
            (1..CLASSES).rev().find(|class| waiting(class) && overdue(class)).or_else(|| (0..CLASSES).find(waiting))?;
        for other in class + 1..CLASSES {
            if !self.ready[other].is_empty() {
                self.skipped[other] += 1;
            }
        }
        self.skipped[class] = 0;
        self.ready[class].pop_front()
    }
}

fn class(guest: &Guest) -> usize {
    Priority::ALL.iter().position(|class| *class == guest.limits.class).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use nix::sys::epoll::EpollCreateFlags;

    use super::*;

    /// Returns the number of rings of the most urgent class that are visited before a ring of `class`. The most urgent class always has
    /// rings.
    fn before(class: Priority) -> usize {
        let shared = Shared::new(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).unwrap());
        let mut leader = shared.leader.lock().unwrap();
        leader.ready[Priority::ALL.iter().position(|known| *known == class).unwrap()].push_back(1);
        leader.ready[0].extend(100..200);
        (0..100).take_while(|_| leader.pop() != Some(1)).count()
    }

    #[test]
    fn rings_of_less_urgent_classes_wait_for_a_limited_number_of_others() {
        assert_eq!([Priority::Normal, Priority::Bulk].map(before), [8, 32]);
    }
}
