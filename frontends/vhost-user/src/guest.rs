//! A guest that is connected: its queues, its memory, its sessions, and what it may use.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use gantry_abi_virtio_crypto::{Features, Status};
use nix::sys::epoll::Epoll;
use virtio_queue::{QueueOwnedT, QueueT};

use crate::burst::Burst;
use crate::chain::Chain;
use crate::control;
use crate::counters::Counters;
use crate::memory::Memory;
use crate::partition::{Limits, Meter};
use crate::ring::Ring;
use crate::session::Sessions;
use crate::task::Task;

/// Data queues of the device; the control queue follows them.
pub(crate) const DATA_QUEUES: usize = 4;
/// All of them.
pub(crate) const QUEUES: usize = DATA_QUEUES + 1;

pub(crate) struct Guest {
    /// No other connection of this server has the number.
    pub(crate) id: u32,
    pub(crate) limits: Limits,
    pub(crate) counters: Counters,
    rings: [Mutex<Ring>; QUEUES],
    /// Something went back into a ring.
    returned: Condvar,
    memory: Mutex<Option<Arc<Memory>>>,
    sessions: Mutex<Sessions>,
    meter: Mutex<Meter>,
    /// Features that both sides have.
    features: AtomicU64,
    /// Nothing is taken from this device until it is reset.
    broken: AtomicBool,
    /// Bytes in work.
    load: AtomicUsize,
    /// A ring waits for bytes in work to become fewer.
    held: AtomicBool,
}

/// When a ring is to be looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// As soon as possible.
    Now,
    /// At this time.
    At(Instant),
    /// When it is kicked.
    Kicked,
    /// When requests of the guest have been answered, by which it is kicked.
    Held,
}

impl Guest {
    pub(crate) fn new(id: u32, limits: Limits, counters: Counters, sessions: Sessions) -> std::io::Result<Self> {
        let mut rings = Vec::with_capacity(QUEUES);
        for _ in 0..QUEUES {
            rings.push(Mutex::new(Ring::new()?));
        }
        let rings = rings.try_into().map_err(|_| std::io::Error::other("a device has another number of queues"))?;
        Ok(Self {
            id,
            limits,
            counters,
            rings,
            returned: Condvar::new(),
            memory: Mutex::new(None),
            sessions: Mutex::new(sessions),
            meter: Mutex::new(Meter::new(limits.rate, Instant::now())),
            features: AtomicU64::new(0),
            broken: AtomicBool::new(false),
            load: AtomicUsize::new(0),
            held: AtomicBool::new(false),
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

    /// Requests that were taken before are answered in the memory that they came from.
    pub(crate) fn set_memory(&self, memory: Option<Memory>) {
        *lock(&self.memory) = memory.map(Arc::new);
    }

    pub(crate) fn set_features(&self, features: u64) {
        self.features.store(features, Release);
    }

    fn features(&self) -> Features {
        Features::of(self.features.load(Acquire))
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Acquire)
    }

    /// The device is as new: for a reset by the front end.
    pub(crate) fn mend(&self) {
        self.broken.store(false, Release);
    }

    /// Stops a ring and waits until all that was taken from it has gone back. The answer is where the next request will be.
    pub(crate) fn stop(&self, index: usize, epoll: &Epoll) -> Option<u16> {
        let mut ring = self.ring(index)?;
        ring.stop(epoll);
        while ring.in_flight > 0 {
            ring = self.returned.wait(ring).unwrap_or_else(PoisonError::into_inner);
        }
        Some(ring.queue.next_avail())
    }

    /// The front end has gone: all rings stop, all keys and all memory are given up.
    pub(crate) fn end(&self, epoll: &Epoll) {
        for index in 0..QUEUES {
            self.stop(index, epoll);
            if let Some(mut ring) = self.ring(index) {
                ring.forget();
            }
        }
        self.sessions().clear();
        self.counters.set_sessions(0);
        self.set_memory(None);
    }

    /// Takes requests of one ring into a burst, at most this guest's share.
    pub(crate) fn take(self: &Arc<Self>, index: usize, burst: &mut Burst, now: Instant) -> Next {
        if self.is_broken() {
            return Next::Kicked;
        }
        let Some(memory) = self.memory() else { return Next::Kicked };
        if memory.is_lost() {
            self.fail();
            return Next::Kicked;
        }
        if let Some(at) = lock(&self.meter).next(now) {
            return Next::At(at);
        }
        let Some(mut ring) = self.ring(index) else { return Next::Kicked };
        if !ring.started {
            return Next::Kicked;
        }
        let taken = if index < DATA_QUEUES {
            self.take_requests(index, &mut ring, &memory, burst)
        } else {
            self.take_control(&mut ring, &memory)
        };
        match taken {
            Some(Next::Kicked) => match ring.queue.enable_notification(memory.map()) {
                Ok(true) => return Next::Now,
                Ok(false) => return Next::Kicked,
                Err(_) => {}
            },
            Some(next) => return next,
            None => {}
        }
        drop(ring);
        self.fail();
        Next::Kicked
    }

    /// `None` where the ring is broken, [`Next::Kicked`] where it is empty.
    fn take_requests(
        self: &Arc<Self>,
        index: usize,
        ring: &mut Ring,
        memory: &Arc<Memory>,
        burst: &mut Burst,
    ) -> Option<Next> {
        let size = ring.queue.size();
        let mut chains = ring.queue.iter(memory.map()).ok()?;
        let sessions = self.sessions();
        let (features, (most, most_bytes)) = (self.features(), self.limits.share());
        let mut next = Some(Next::Now);
        let (mut count, mut bytes) = (0, 0);
        let mut visit = burst.visit(self.clone(), memory.clone(), index);
        while count < most && bytes < most_bytes && !visit.is_full() {
            // One request is always taken: it may be larger than the limit.
            if count + self.load.load(Relaxed) > 0 && self.load.load(Relaxed) + bytes >= self.limits.bytes {
                next = Some(self.hold());
                break;
            }
            let Some(chain) = chains.next() else {
                next = Some(if count == 0 { Next::Kicked } else { Next::Now });
                break;
            };
            let head = chain.head_index();
            if head >= size {
                // What was taken before is answered all the same.
                next = None;
                break;
            }
            let task = visit.task();
            task.begin(head, Chain::walk(chain), memory.map(), &sessions, features);
            (count, bytes) = (count + 1, bytes + task.load);
        }
        drop(visit);
        ring.in_flight += count;
        self.load.fetch_add(bytes, AcqRel);
        self.counters.took(count, bytes);
        lock(&self.meter).take(bytes, Instant::now());
        next
    }

    /// The answers to what is in work will kick the rings.
    fn hold(&self) -> Next {
        self.held.store(true, Release);
        // They may all have been given meanwhile.
        if self.load.load(Acquire) == 0 { Next::Now } else { Next::Held }
    }

    fn take_control(&self, ring: &mut Ring, memory: &Arc<Memory>) -> Option<Next> {
        let size = ring.queue.size();
        let mut sessions = self.sessions();
        let (mut done, mut good) = (Vec::new(), true);
        for chain in ring.queue.iter(memory.map()).ok()?.take(control::BURST) {
            let head = chain.head_index();
            if head >= size {
                good = false;
                break;
            }
            done.push((head, control::answer(&Chain::walk(chain), memory.map(), &mut sessions, self.features())));
        }
        self.counters.set_sessions(sessions.count());
        if done.is_empty() {
            return good.then_some(Next::Kicked);
        }
        for (head, written) in done {
            ring.queue.add_used(memory.map(), head, written).ok()?;
        }
        ring.call(memory.map());
        good.then_some(Next::Now)
    }

    /// Gives requests of one ring back.
    pub(crate) fn give_back(&self, index: usize, memory: &Memory, tasks: &mut [Task]) {
        let Some(mut ring) = self.ring(index) else { return };
        let (mut bytes, mut refused, mut good) = (0, 0, true);
        for task in &mut *tasks {
            bytes += task.load;
            // Without a place for the status the chain goes back empty.
            let written = task.answer(memory.map()).unwrap_or(0);
            refused += usize::from(task.status() != Status::Ok);
            good &= ring.queue.add_used(memory.map(), task.head, written).is_ok();
        }
        ring.call(memory.map());
        ring.in_flight -= tasks.len();
        drop(ring);
        self.returned.notify_all();
        self.counters.refused(refused);
        self.load.fetch_sub(bytes, AcqRel);
        if self.held.swap(false, AcqRel) {
            self.rings().filter(|ring| ring.started).for_each(|ring| ring.kick());
        }
        if !good || memory.is_lost() {
            self.fail();
        }
    }

    /// The guest's rings or its memory are not what they must be. Nothing more is taken from the device until its front end
    /// resets it, and other guests are served as before. The front end hears it by the descriptors that it gave for errors, and
    /// reads it in the configuration's status.
    fn fail(&self) {
        if !self.broken.swap(true, AcqRel) {
            self.counters.broke();
            self.rings().for_each(|ring| ring.report());
        }
    }
}

/// A thread that panicked changed nothing by halves that others rely on.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
