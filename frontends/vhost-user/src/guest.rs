//! A connected guest: its queues, its memory, its sessions, and its limits.

mod burst;

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use gantry_abi_virtio_crypto::{Features, Status};
use nix::sys::epoll::Epoll;
use virtio_queue::{QueueOwnedT, QueueT};

pub(crate) use self::burst::Burst;
use crate::chain::Chain;
use crate::control;
use crate::counters::Counters;
use crate::memory::Memory;
use crate::partition::{Limits, RateLimiter};
use crate::ring::Ring;
use crate::session::Sessions;
use crate::task::Task;

/// Data queues of the device; the control queue follows them.
pub(crate) const DATA_QUEUES: usize = 4;
pub(crate) const QUEUES: usize = DATA_QUEUES + 1;

pub(crate) struct Guest {
    /// A number that is unique among the connections of this server.
    pub(crate) id: u32,
    pub(crate) limits: Limits,
    pub(crate) counters: Counters,
    rings: [Mutex<Ring>; QUEUES],
    /// Signals that requests have been returned to a ring.
    requests_returned: Condvar,
    memory: Mutex<Option<Arc<Memory>>>,
    sessions: Mutex<Sessions>,
    rate_limiter: Mutex<RateLimiter>,
    features: AtomicU64,
    /// True if the device takes no requests until it is reset.
    broken: AtomicBool,
    /// Bytes in flight.
    bytes_in_flight: AtomicUsize,
    /// True if a ring waits until requests in flight have been returned.
    must_kick_on_return: AtomicBool,
}

/// The time at which a ring is to be visited again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextVisit {
    Now,
    At(Instant),
    /// After the next kick.
    OnKick,
    /// After requests of the guest have been answered, which kicks the ring.
    OnReturn,
}

impl Guest {
    pub(crate) fn new(id: u32, limits: Limits, counters: Counters, sessions: Sessions) -> std::io::Result<Self> {
        let mut rings = Vec::with_capacity(QUEUES);
        for _ in 0..QUEUES {
            rings.push(Mutex::new(Ring::new()?));
        }
        let rings = rings.try_into().map_err(|_| std::io::Error::other("the number of queues does not match"))?;
        Ok(Self {
            id,
            limits,
            counters,
            rings,
            requests_returned: Condvar::new(),
            memory: Mutex::new(None),
            sessions: Mutex::new(sessions),
            rate_limiter: Mutex::new(RateLimiter::new(limits.rate, Instant::now())),
            features: AtomicU64::new(0),
            broken: AtomicBool::new(false),
            bytes_in_flight: AtomicUsize::new(0),
            must_kick_on_return: AtomicBool::new(false),
        })
    }

    pub(crate) fn ring(&self, index: usize) -> Option<MutexGuard<'_, Ring>> {
        self.rings.get(index).map(lock)
    }

    pub(crate) fn rings(&self) -> impl Iterator<Item = MutexGuard<'_, Ring>> {
        self.rings.iter().map(lock)
    }

    pub(crate) fn sessions(&self) -> MutexGuard<'_, Sessions> {
        lock(&self.sessions)
    }

    pub(crate) fn memory(&self) -> Option<Arc<Memory>> {
        lock(&self.memory).clone()
    }

    /// Replaces the memory. Requests taken before are answered in the memory that they came from.
    pub(crate) fn set_memory(&self, memory: Option<Memory>) {
        *lock(&self.memory) = memory.map(Arc::new);
    }

    pub(crate) fn set_features(&self, features: u64) {
        self.features.store(features, Release);
    }

    fn features(&self) -> Features {
        Features::from_bits(self.features.load(Acquire))
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Acquire)
    }

    /// Marks the device as working, after a reset by the front end.
    pub(crate) fn clear_broken(&self) {
        self.broken.store(false, Release);
    }

    /// Stops a ring, and waits until all its requests have been returned. Returns the index of the next request.
    pub(crate) fn stop_ring(&self, index: usize, epoll: &Epoll) -> Option<u16> {
        let mut ring = self.ring(index)?;
        ring.stop(epoll);
        while ring.in_flight > 0 {
            ring = self.requests_returned.wait(ring).unwrap_or_else(PoisonError::into_inner);
        }
        Some(ring.queue.next_avail())
    }

    /// Ends the connection: stops all rings, and releases all keys and memory.
    pub(crate) fn shut_down(&self, epoll: &Epoll) {
        for index in 0..QUEUES {
            self.stop_ring(index, epoll);
            if let Some(mut ring) = self.ring(index) {
                ring.clear_eventfds();
            }
        }
        self.sessions().clear();
        self.counters.set_sessions(0);
        self.set_memory(None);
    }

    /// Takes requests of a data queue into a burst, at most this guest's share. Requests of the control queue are answered at once.
    pub(crate) fn take_requests(self: &Arc<Self>, index: usize, burst: &mut Burst, now: Instant) -> NextVisit {
        if self.is_broken() {
            return NextVisit::OnKick;
        }
        let Some(memory) = self.memory() else { return NextVisit::OnKick };
        if memory.is_lost() {
            self.mark_broken();
            return NextVisit::OnKick;
        }
        if let Some(at) = lock(&self.rate_limiter).blocked_until(now) {
            return NextVisit::At(at);
        }
        let Some(mut ring) = self.ring(index) else { return NextVisit::OnKick };
        if !ring.is_started {
            return NextVisit::OnKick;
        }
        let next_visit = if index < DATA_QUEUES {
            self.take_data_requests(index, &mut ring, &memory, burst)
        } else {
            self.answer_control_requests(&mut ring, &memory)
        };
        match next_visit {
            Some(NextVisit::OnKick) => match ring.queue.enable_notification(memory.map()) {
                Ok(true) => return NextVisit::Now,
                Ok(false) => return NextVisit::OnKick,
                Err(_) => {}
            },
            Some(next) => return next,
            None => {}
        }
        drop(ring);
        self.mark_broken();
        NextVisit::OnKick
    }

    /// Takes requests of a data queue. Returns `None` if the ring is broken, [`NextVisit::OnKick`] if it is empty.
    fn take_data_requests(
        self: &Arc<Self>,
        index: usize,
        ring: &mut Ring,
        memory: &Arc<Memory>,
        burst: &mut Burst,
    ) -> Option<NextVisit> {
        let size = ring.queue.size();
        let mut chains = ring.queue.iter(memory.map()).ok()?;
        let sessions = self.sessions();
        let (features, (max_requests, max_bytes)) = (self.features(), self.limits.visit_quota());
        let mut next = Some(NextVisit::Now);
        let (mut count, mut bytes) = (0, 0);
        let mut visit = burst.begin_visit(self.clone(), memory.clone(), index);
        while count < max_requests && bytes < max_bytes {
            // The size of a request is known only once it is taken, so the last one may exceed the limit. Without requests in flight,
            // one is taken even if the limit is 0.
            if count + self.bytes_in_flight.load(Relaxed) > 0
                && self.bytes_in_flight.load(Relaxed) + bytes >= self.limits.bytes
            {
                next = Some(self.kick_on_return());
                break;
            }
            let Some(chain) = chains.next() else {
                next = Some(if count == 0 { NextVisit::OnKick } else { NextVisit::Now });
                break;
            };
            let head = chain.head_index();
            if head >= size {
                // Earlier requests are still answered.
                next = None;
                break;
            }
            let task = visit.push_task();
            task.read_request(head, Chain::walk(chain), memory.map(), &sessions, features);
            (count, bytes) = (count + 1, bytes + task.charged_bytes);
        }
        drop(visit);
        ring.in_flight += count;
        self.bytes_in_flight.fetch_add(bytes, AcqRel);
        self.counters.record_requests(count, bytes);
        lock(&self.rate_limiter).charge(bytes, Instant::now());
        next
    }

    /// Asks for a kick of all rings at the next return of requests. Returns the time of the next visit.
    fn kick_on_return(&self) -> NextVisit {
        self.must_kick_on_return.store(true, Release);
        // All requests may have been returned in the meantime.
        if self.bytes_in_flight.load(Acquire) == 0 { NextVisit::Now } else { NextVisit::OnReturn }
    }

    fn answer_control_requests(&self, ring: &mut Ring, memory: &Arc<Memory>) -> Option<NextVisit> {
        let size = ring.queue.size();
        let mut sessions = self.sessions();
        let (mut answered, mut is_valid) = (Vec::new(), true);
        for chain in ring.queue.iter(memory.map()).ok()?.take(control::MAX_REQUESTS_PER_VISIT) {
            let head = chain.head_index();
            if head >= size {
                is_valid = false;
                break;
            }
            answered.push((head, control::answer(&Chain::walk(chain), memory.map(), &mut sessions, self.features())));
        }
        self.counters.set_sessions(sessions.count());
        if answered.is_empty() {
            return is_valid.then_some(NextVisit::OnKick);
        }
        for (head, written) in answered {
            ring.queue.add_used(memory.map(), head, written).ok()?;
        }
        ring.call(memory.map());
        is_valid.then_some(NextVisit::Now)
    }

    /// Returns requests to their ring.
    pub(crate) fn return_requests(&self, index: usize, memory: &Memory, tasks: &mut [Task]) {
        let Some(mut ring) = self.ring(index) else { return };
        let (mut bytes, mut refused, mut is_valid) = (0, 0, true);
        for task in &mut *tasks {
            bytes += task.charged_bytes;
            // If the chain has no room for the status, it is returned with 0 bytes written.
            let written = task.answer(memory.map()).unwrap_or(0);
            refused += usize::from(task.status() != Status::Ok);
            is_valid &= ring.queue.add_used(memory.map(), task.head, written).is_ok();
        }
        ring.call(memory.map());
        ring.in_flight -= tasks.len();
        drop(ring);
        self.requests_returned.notify_all();
        self.counters.record_refused(refused);
        self.bytes_in_flight.fetch_sub(bytes, AcqRel);
        if self.must_kick_on_return.swap(false, AcqRel) {
            self.rings().filter(|ring| ring.is_started).for_each(|ring| ring.kick());
        }
        if !is_valid || memory.is_lost() {
            self.mark_broken();
        }
    }

    /// Marks the device as broken, because the guest's rings or its memory are invalid. It takes no requests until its front
    /// end resets it; other guests are not affected. The error descriptors notify the front end, and the status in the
    /// device's configuration becomes 0.
    fn mark_broken(&self) {
        if !self.broken.swap(true, AcqRel) {
            self.counters.record_failure();
            self.rings().for_each(|ring| ring.report_broken());
        }
    }
}

/// Locks the mutex, even if a thread panicked while it held the lock. Its data are consistent at every place that may panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
