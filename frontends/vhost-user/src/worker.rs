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
    next_guest_id: AtomicU32,
    scheduler: Mutex<RingScheduler>,
    has_epoll_failed: AtomicBool,
}

/// The rings to visit, by urgency. The leading thread holds it.
struct RingScheduler {
    events: Vec<EpollEvent>,
    /// Rings that may have requests, by class.
    ready_rings: [VecDeque<u64>; CLASSES],
    /// Number of rings of other classes that were served while a class waited.
    skip_counts: [u32; CLASSES],
    /// Rings whose guests have used up their rate for now.
    throttled_rings: Vec<(Instant, u64)>,
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
        let scheduler = RingScheduler {
            events: vec![EpollEvent::empty(); 64],
            ready_rings: Default::default(),
            skip_counts: [0; CLASSES],
            throttled_rings: Vec::new(),
        };
        Self {
            epoll,
            guests: RwLock::default(),
            next_guest_id: AtomicU32::new(1),
            scheduler: Mutex::new(scheduler),
            has_epoll_failed: AtomicBool::new(false),
        }
    }

    /// Returns a number that no other connection has.
    pub(crate) fn assign_guest_id(&self) -> u32 {
        self.next_guest_id.fetch_add(1, Relaxed)
    }

    pub(crate) fn add_guest(&self, guest: Arc<Guest>) {
        self.guests.write().unwrap_or_else(PoisonError::into_inner).insert(guest.id, guest);
    }

    pub(crate) fn remove_guest(&self, guest: &Guest) {
        self.guests.write().unwrap_or_else(PoisonError::into_inner).remove(&guest.id);
        guest.shut_down(&self.epoll);
    }

    /// Serves until the process ends.
    pub(crate) fn serve(&self) {
        let mut burst = Burst::default();
        while !self.has_epoll_failed.load(Relaxed) {
            let mut scheduler = self.scheduler.lock().unwrap_or_else(PoisonError::into_inner);
            // The thread stays the leader unless the burst is full: handing over wakes a thread, which costs more than a small
            // request.
            loop {
                if scheduler.collect_requests(self, &mut burst).is_err() {
                    // The event queue itself has failed: no guest can be served without it.
                    self.has_epoll_failed.store(true, Relaxed);
                    return;
                }
                if burst.is_full() {
                    break;
                }
                burst.run();
            }
            drop(scheduler);
            burst.run();
        }
    }

    fn guest(&self, token: u64) -> Option<Arc<Guest>> {
        let guests = self.guests.read().unwrap_or_else(PoisonError::into_inner);
        guests.get(&((token >> RING_BITS) as u32)).cloned()
    }
}

impl RingScheduler {
    /// Waits until there are requests, and takes them.
    fn collect_requests(&mut self, shared: &Shared, burst: &mut Burst) -> nix::Result<()> {
        loop {
            let now = Instant::now();
            let requeue_unthrottled = |scheduler: &mut Self| {
                for (_, token) in scheduler.throttled_rings.extract_if(.., |(at, _)| *at <= now).collect::<Vec<_>>() {
                    scheduler.push_ready(shared, token);
                }
            };
            requeue_unthrottled(self);
            self.visit_ready_rings(shared, burst, now);
            if burst.is_full() {
                return Ok(());
            }
            // Also takes requests of guests that kicked in the meantime.
            let timeout = match self.throttled_rings.iter().map(|(at, _)| *at).min() {
                _ if !burst.is_empty() || self.ready_rings.iter().any(|rings| !rings.is_empty()) => EpollTimeout::ZERO,
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
            for index in 0..count {
                let token = self.events[index].data();
                self.push_ready(shared, token);
            }
            if count > 0 {
                self.visit_ready_rings(shared, burst, Instant::now());
            }
            if !burst.is_empty() {
                return Ok(());
            }
        }
    }

    /// Visits each ready ring once, the most urgent ones first.
    fn visit_ready_rings(&mut self, shared: &Shared, burst: &mut Burst, now: Instant) {
        let mut rings_to_revisit = Vec::new();
        while !burst.is_full()
            && let Some(token) = self.pop_next()
        {
            let Some(guest) = shared.guest(token) else { continue };
            let ring = (token & ((1 << RING_BITS) - 1)) as usize;
            match guest.take_requests(ring, burst, now) {
                NextVisit::Now => rings_to_revisit.push(token),
                NextVisit::At(at) => self.throttled_rings.push((at, token)),
                NextVisit::OnKick | NextVisit::OnReturn => {}
            }
        }
        for token in rings_to_revisit {
            self.push_ready(shared, token);
        }
    }

    fn push_ready(&mut self, shared: &Shared, token: u64) {
        let Some(guest) = shared.guest(token) else { return };
        let class_rings = &mut self.ready_rings[class(&guest)];
        if !class_rings.contains(&token) && !self.throttled_rings.iter().any(|(_, waiting)| *waiting == token) {
            class_rings.push_back(token);
        }
    }

    /// Removes the next ring: of the most urgent class, unless a lower class has waited for its limit.
    fn pop_next(&mut self) -> Option<u64> {
        let waiting = |class: &usize| !self.ready_rings[*class].is_empty();
        let overdue = |class: &usize| self.skip_counts[*class] >= Priority::ALL[*class].max_passed();
        let class =
            (1..CLASSES).rev().find(|class| waiting(class) && overdue(class)).or_else(|| (0..CLASSES).find(waiting))?;
        for other in class + 1..CLASSES {
            if !self.ready_rings[other].is_empty() {
                self.skip_counts[other] += 1;
            }
        }
        self.skip_counts[class] = 0;
        self.ready_rings[class].pop_front()
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
    fn rings_visited_before(class: Priority) -> usize {
        let shared = Shared::new(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).unwrap());
        let mut scheduler = shared.scheduler.lock().unwrap();
        scheduler.ready_rings[Priority::ALL.iter().position(|other| *other == class).unwrap()].push_back(1);
        scheduler.ready_rings[0].extend(100..200);
        (0..100).take_while(|_| scheduler.pop_next() != Some(1)).count()
    }

    #[test]
    fn rings_of_less_urgent_classes_wait_for_a_limited_number_of_others() {
        assert_eq!([Priority::Normal, Priority::Bulk].map(rings_visited_before), [8, 32]);
    }
}
