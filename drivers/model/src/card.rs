//! A modelled card: its ring, its units, and the schedule of requests.

mod session;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use gantry_core::driver::{Batch, Completions, Job};
use gantry_core::{Fault, Outcome};

use self::session::Answer;
pub(crate) use self::session::ModelSession;
use crate::clock::ModelClock;
use crate::faults::{FaultInjector, InjectedFault, gone_fault};
use crate::profile::{Completion, Profile, Rate, transfer_ns};
use crate::random::Random;

/// The work that a device has done so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meter {
    /// Number of requests accepted.
    pub requests: u64,
    /// Bytes of data in these requests.
    pub bytes: u64,
    /// Number of times that a request found no room in the ring.
    pub times_full: u64,
    /// Nanoseconds of work of all units together.
    pub busy_ns: u64,
}

/// State shared by all queues of a device.
pub(crate) struct Card {
    pub(crate) profile: Profile,
    pub(crate) clock: ModelClock,
    pub(crate) faults: FaultInjector,
    state: Mutex<State>,
    /// Tells the card's thread that there is work.
    work_available: Condvar,
    /// Tells a queue that is being dropped that the card's thread has returned a job.
    job_returned: Condvar,
    requests: AtomicU64,
    bytes: AtomicU64,
    times_full: AtomicU64,
    busy_ns: AtomicU64,
}

/// The key of a request in the ring: the number of its queue, the time at which the request is ready, and the number of the request. These
/// keys sort the requests of each queue by the time at which they are ready.
type EntryKey = (u64, u64, u64);

struct State {
    entries: BTreeMap<EntryKey, Entry>,
    /// Number of places of the ring in use. Requests that are being submitted have a place, but no entry yet.
    used_places: usize,
    /// The time at which each unit becomes free.
    units_free_at: Box<[u64]>,
    /// The time at which the bandwidth shared by all units becomes free.
    shared_free_at: u64,
    /// The time at which the last request is ready, if the device keeps the order.
    last_ready_at: u64,
    /// The number of the newest request or queue.
    last_number: u64,
    random: Random,
    /// Requests to be computed by the card's thread.
    to_compute: VecDeque<EntryKey>,
    /// The waker of each queue that waits, by the number of the queue.
    wakers: BTreeMap<u64, Waker>,
    stopped: bool,
}

/// A request in the ring.
struct Entry {
    /// `None` while the card's thread computes it.
    job: Option<Job>,
    answer: Option<Answer>,
    injected: Option<InjectedFault>,
}

impl Card {
    pub(crate) fn new(profile: Profile, clock: ModelClock, faults: FaultInjector) -> Self {
        let state = State {
            entries: BTreeMap::new(),
            used_places: 0,
            units_free_at: vec![0; profile.units].into(),
            shared_free_at: 0,
            last_ready_at: 0,
            last_number: 0,
            random: Random::new(profile.seed),
            to_compute: VecDeque::new(),
            wakers: BTreeMap::new(),
            stopped: false,
        };
        Self {
            profile,
            clock,
            faults,
            state: Mutex::new(state),
            work_available: Condvar::new(),
            job_returned: Condvar::new(),
            requests: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            times_full: AtomicU64::new(0),
            busy_ns: AtomicU64::new(0),
        }
    }

    pub(crate) fn meter(&self) -> Meter {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Meter {
            requests: read(&self.requests),
            bytes: read(&self.bytes),
            times_full: read(&self.times_full),
            busy_ns: read(&self.busy_ns),
        }
    }

    /// Runs a request of a modelled board's software, which takes the time of the calling thread.
    pub(crate) fn run_on_caller(
        &self,
        rate: &Rate,
        bytes: usize,
        run: impl FnOnce() -> Result<Outcome, Fault>,
    ) -> Result<Outcome, Fault> {
        let start = self.clock.now();
        let result = run();
        let ns = Profile::unit_ns(rate, bytes);
        self.count_request(bytes, ns);
        self.clock.spend(ns, start);
        result
    }

    pub(crate) fn new_queue(&self) -> u64 {
        self.lock().next_number()
    }

    pub(crate) fn submit(&self, queue: u64, batch: &mut Batch<'_>) {
        if self.faults.take_full_fault() {
            return;
        }
        while batch.len() > 0 {
            let start = self.clock.now();
            if !self.reserve_place() {
                self.times_full.fetch_add(1, Ordering::Relaxed);
                return;
            }
            let Some(job) = batch.take() else {
                self.lock().used_places -= 1;
                return;
            };
            let injected = self.faults.next_fault();
            if self.faults.is_gone() {
                self.lock().used_places -= 1;
                batch.complete(job, Err(gone_fault()));
                continue;
            }
            self.clock.spend(self.profile.submit_ns, start);
            self.insert(queue, job, injected);
        }
    }

    fn reserve_place(&self) -> bool {
        let mut state = self.lock();
        let has_room = state.used_places < self.profile.ring;
        state.used_places += usize::from(has_room);
        has_room
    }

    /// Puts a job into its reserved place in the ring.
    fn insert(&self, queue: u64, mut job: Job, injected: Option<InjectedFault>) {
        let bytes = job.operands().bytes();
        let rate = job.session_as::<ModelSession>().map(|session| session.rate);
        let now = self.clock.now();
        let mut state = self.lock();
        let ready = match rate {
            Some(rate) => {
                let (unit_ns, ready) = state.schedule(&self.profile, &rate, bytes, now);
                self.count_request(bytes, unit_ns);
                match injected {
                    Some(InjectedFault::Stall) => u64::MAX,
                    Some(InjectedFault::Late) => ready.saturating_add(10 * unit_ns),
                    _ => ready,
                }
            }
            None => now, // a session of another device: its answer is a fault
        };
        let key = (queue, ready, state.next_number());
        state.entries.insert(key, Entry { job: Some(job), answer: None, injected });
        if self.clock.is_real() {
            state.to_compute.push_back(key);
            drop(state);
            self.work_available.notify_one();
        } else if ready != u64::MAX {
            self.clock.announce(ready);
        }
    }

    /// Completes the ready requests of a queue. Returns the number of the queue's jobs that remain in the ring.
    pub(crate) fn poll(&self, queue: u64, done: &mut Completions<'_>) -> usize {
        loop {
            let start = self.clock.now();
            let gone_now = self.faults.is_gone();
            let until = if gone_now { u64::MAX } else { start };
            let mut state = self.lock();
            let first =
                state.queue_entries(queue, until).find(|(_, entry)| self.can_complete(entry)).map(|(key, _)| *key);
            let Some(Entry { job: Some(mut job), answer, injected }) = first.and_then(|key| state.remove(key)) else {
                return state.queue_entries(queue, u64::MAX).count();
            };
            drop(state);
            let mut answer = match injected {
                _ if gone_now => Answer::failed(gone_fault()),
                Some(InjectedFault::Error) => Answer::failed(Fault::failed("an injected error")),
                _ => answer.unwrap_or_else(|| Answer::compute(&mut job)),
            };
            if matches!(injected, Some(InjectedFault::Wrong | InjectedFault::Panic)) {
                answer.flip_bit();
            }
            let result = answer.deliver(&mut job);
            assert!(injected != Some(InjectedFault::Panic), "an injected panic");
            self.clock.spend(self.profile.complete_ns, start);
            done.complete(job, result);
        }
    }

    /// Returns true if the queue can complete an entry as soon as the entry is ready, without waiting for the card's thread.
    fn can_complete(&self, entry: &Entry) -> bool {
        entry.job.is_some() && (entry.answer.is_some() || !self.clock.is_real() || self.faults.is_gone())
    }

    pub(crate) fn arm(&self, queue: u64, waker: &Waker) -> bool {
        // In virtual time, no thread could wake another.
        if self.profile.completion == Completion::Polled || !self.clock.is_real() {
            return false;
        }
        self.lock().wakers.insert(queue, waker.clone());
        self.work_available.notify_one();
        true
    }

    /// Drops every job of a queue that is being dropped.
    pub(crate) fn drop_jobs(&self, queue: u64) {
        let mut state = self.lock();
        state.wakers.remove(&queue);
        state.to_compute.retain(|key| key.0 != queue);
        loop {
            let first = state.queue_entries(queue, u64::MAX).next().map(|(key, entry)| (*key, entry.job.is_some()));
            match first {
                None => break,
                // The card's thread is using the job, and needs the lock to return it.
                Some((_, false)) => state = self.job_returned.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some((key, true)) => drop(state.remove(key)),
            }
        }
    }

    /// Runs the card's thread: computes answers, and calls wakers.
    pub(crate) fn run_thread(&self) {
        let mut state = self.lock();
        while !state.stopped {
            if let Some(key) = state.to_compute.pop_front() {
                let Some(mut job) = state.entries.get_mut(&key).and_then(|entry| entry.job.take()) else { continue };
                drop(state);
                let answer = Answer::compute(&mut job);
                state = self.lock();
                if let Some(entry) = state.entries.get_mut(&key) {
                    entry.answer = Some(answer);
                    entry.job = Some(job);
                }
                self.job_returned.notify_all();
                continue;
            }
            let now = self.clock.now();
            let (due_wakers, next) = state.take_due_wakers(now);
            if !due_wakers.is_empty() {
                drop(state);
                due_wakers.iter().for_each(Waker::wake_by_ref);
                state = self.lock();
                continue;
            }
            state = match next {
                None => self.work_available.wait(state).unwrap_or_else(PoisonError::into_inner),
                // A sleep ends about 50 µs late, so the thread yields for the last 60 µs.
                Some(next) if next - now > 100_000 => {
                    let sleep = Duration::from_nanos(next - now - 60_000);
                    self.work_available.wait_timeout(state, sleep).unwrap_or_else(PoisonError::into_inner).0
                }
                Some(_) => {
                    drop(state);
                    std::thread::yield_now();
                    self.lock()
                }
            };
        }
    }

    pub(crate) fn stop(&self) {
        self.lock().stopped = true;
        self.work_available.notify_one();
    }

    fn count_request(&self, bytes: usize, unit_ns: u64) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.busy_ns.fetch_add(unit_ns, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Returns the entries of a queue that are ready at `until`, earliest first.
    fn queue_entries(&self, queue: u64, until: u64) -> impl Iterator<Item = (&EntryKey, &Entry)> {
        self.entries.range((queue, 0, 0)..=(queue, until, u64::MAX))
    }

    fn remove(&mut self, key: EntryKey) -> Option<Entry> {
        let entry = self.entries.remove(&key);
        self.used_places -= usize::from(entry.is_some());
        entry
    }

    /// Schedules a request that arrives now. Returns the nanoseconds of a unit's work, and the time at which the request is
    /// ready.
    fn schedule(&mut self, profile: &Profile, rate: &Rate, bytes: usize, now: u64) -> (u64, u64) {
        let mut unit_ns = Profile::unit_ns(rate, bytes);
        if profile.jitter_percent > 0 {
            let percent = self.random.below(u64::from(profile.jitter_percent) + 1);
            unit_ns = unit_ns.saturating_add(unit_ns / 100 * percent);
        }
        // `Profile::validate` ensures that there is at least one.
        let unit = self.units_free_at.iter_mut().min_by_key(|free_at| **free_at).expect("an engine has units");
        let start = now.max(*unit);
        let mut ready = start.saturating_add(unit_ns);
        if let Some(cap) = profile.cap_megabits {
            let from = self.shared_free_at.max(start.saturating_add(rate.setup_ns));
            self.shared_free_at = from.saturating_add(transfer_ns(bytes, cap));
            ready = ready.max(self.shared_free_at);
        }
        *unit = ready;
        if profile.in_order {
            ready = ready.max(self.last_ready_at);
            self.last_ready_at = ready;
        }
        (unit_ns, ready)
    }

    /// Removes and returns the wakers of queues with a ready request at `now`, and the time of the next ready request.
    fn take_due_wakers(&mut self, now: u64) -> (Vec<Waker>, Option<u64>) {
        let (mut due_wakers, mut next) = (Vec::new(), None::<u64>);
        let armed: Vec<u64> = self.wakers.keys().copied().collect();
        for queue in armed {
            let ready = self.queue_entries(queue, u64::MAX - 1).find(|(_, entry)| entry.answer.is_some());
            match ready.map(|(key, _)| key.1) {
                Some(ready) if ready <= now => due_wakers.extend(self.wakers.remove(&queue)),
                Some(ready) => next = Some(next.map_or(ready, |next| next.min(ready))),
                None => {}
            }
        }
        (due_wakers, next)
    }
}
