use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use gantry_core::driver::{Batch, Completions, Job};
use gantry_core::{Fault, Outcome};

use crate::faults::{Faults, Injected, gone};
use crate::profile::{Completion, Profile, Rate, transfer_ns};
use crate::random::Random;
use crate::session::{Answer, ModelSession};
use crate::time::Time;

/// What a device has done so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meter {
    /// Requests that it took.
    pub requests: u64,
    /// Their bytes of data.
    pub bytes: u64,
    /// How often a request that was next found no room in the ring.
    pub full: u64,
    /// Nanoseconds that its units worked, all of them together.
    pub busy_ns: u64,
}

/// What all queues of a device share.
pub(crate) struct Card {
    pub(crate) profile: Profile,
    pub(crate) time: Time,
    pub(crate) faults: Faults,
    state: Mutex<State>,
    /// For the card's thread: there is something to do.
    work: Condvar,
    /// For queues that take back: the card's thread has laid a job down.
    laid_down: Condvar,
    requests: AtomicU64,
    bytes: AtomicU64,
    full: AtomicU64,
    busy_ns: AtomicU64,
}

/// A request's place: its queue, when it is ready, and its number. In this order a queue finds what is ready at the front.
type Place = (u64, u64, u64);

struct State {
    entries: BTreeMap<Place, Entry>,
    /// Places of the ring that are taken; those that are being submitted have no entry yet.
    taken: usize,
    /// When each unit is free.
    units: Box<[u64]>,
    /// When the way that all units share is free.
    shared: u64,
    /// When the last request is ready, of a device that keeps order.
    last: u64,
    /// Requests and queues, counted.
    numbers: u64,
    random: Random,
    /// What the card's thread has to compute.
    to_compute: VecDeque<Place>,
    /// Who wants to be woken, by queue.
    wakers: BTreeMap<u64, Waker>,
    stopped: bool,
}

/// A request in the ring.
struct Entry {
    /// Absent while the card's thread has it.
    job: Option<Job>,
    answer: Option<Answer>,
    injected: Option<Injected>,
}

impl Card {
    pub(crate) fn new(profile: Profile, time: Time, faults: Faults) -> Self {
        let state = State {
            entries: BTreeMap::new(),
            taken: 0,
            units: vec![0; profile.units].into(),
            shared: 0,
            last: 0,
            numbers: 0,
            random: Random::new(profile.seed),
            to_compute: VecDeque::new(),
            wakers: BTreeMap::new(),
            stopped: false,
        };
        Self {
            profile,
            time,
            faults,
            state: Mutex::new(state),
            work: Condvar::new(),
            laid_down: Condvar::new(),
            requests: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            full: AtomicU64::new(0),
            busy_ns: AtomicU64::new(0),
        }
    }

    pub(crate) fn meter(&self) -> Meter {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Meter {
            requests: read(&self.requests),
            bytes: read(&self.bytes),
            full: read(&self.full),
            busy_ns: read(&self.busy_ns),
        }
    }

    /// Software of a modelled board: what it costs is the calling thread's.
    pub(crate) fn direct(
        &self,
        rate: &Rate,
        bytes: usize,
        run: impl FnOnce() -> Result<Outcome, Fault>,
    ) -> Result<Outcome, Fault> {
        let start = self.time.now();
        let result = run();
        let ns = Profile::unit_ns(rate, bytes);
        self.count(bytes, ns);
        self.time.spend(ns, start);
        result
    }

    pub(crate) fn new_queue(&self) -> u64 {
        self.lock().number()
    }

    pub(crate) fn submit(&self, queue: u64, batch: &mut Batch<'_>) {
        if self.faults.says_full() {
            return;
        }
        while batch.len() > 0 {
            let start = self.time.now();
            if !self.reserve() {
                self.full.fetch_add(1, Ordering::Relaxed);
                return;
            }
            let Some(job) = batch.take() else {
                self.lock().taken -= 1;
                return;
            };
            let injected = self.faults.of_request();
            if self.faults.is_gone() {
                self.lock().taken -= 1;
                batch.complete(job, Err(gone()));
                continue;
            }
            self.time.spend(self.profile.submit_ns, start);
            self.insert(queue, job, injected);
        }
    }

    fn reserve(&self) -> bool {
        let mut state = self.lock();
        let room = state.taken < self.profile.ring;
        state.taken += usize::from(room);
        room
    }

    /// Puts a job into the place of the ring that was reserved for it.
    fn insert(&self, queue: u64, mut job: Job, injected: Option<Injected>) {
        let bytes = job.operands().bytes();
        let rate = job.session_as::<ModelSession>().map(|session| session.rate);
        let now = self.time.now();
        let mut state = self.lock();
        let ready = match rate {
            Some(rate) => {
                let (unit_ns, ready) = state.schedule(&self.profile, &rate, bytes, now);
                self.count(bytes, unit_ns);
                match injected {
                    Some(Injected::Stall) => u64::MAX,
                    Some(Injected::Late) => ready.saturating_add(10 * unit_ns),
                    _ => ready,
                }
            }
            None => now, // its answer will be that this is another device's
        };
        let place = (queue, ready, state.number());
        state.entries.insert(place, Entry { job: Some(job), answer: None, injected });
        if self.time.is_real() {
            state.to_compute.push_back(place);
            drop(state);
            self.work.notify_one();
        } else if ready != u64::MAX {
            self.time.announce(ready);
        }
    }

    /// Gives back what is ready. Returns how many jobs of the queue stay.
    pub(crate) fn poll(&self, queue: u64, done: &mut Completions<'_>) -> usize {
        loop {
            let start = self.time.now();
            let gone_now = self.faults.is_gone();
            let until = if gone_now { u64::MAX } else { start };
            let mut state = self.lock();
            let first = state.of_queue(queue, until).find(|(_, entry)| self.is_ripe(entry)).map(|(place, _)| *place);
            let Some(Entry { job: Some(mut job), answer, injected }) = first.and_then(|place| state.remove(place))
            else {
                return state.of_queue(queue, u64::MAX).count();
            };
            drop(state);
            let mut answer = match injected {
                _ if gone_now => Answer::failed(gone()),
                Some(Injected::Error) => Answer::failed(Fault::failed("an injected error")),
                _ => answer.unwrap_or_else(|| Answer::compute(&mut job)),
            };
            if matches!(injected, Some(Injected::Wrong | Injected::Panic)) {
                answer.spoil();
            }
            let result = answer.deliver(&mut job);
            assert!(injected != Some(Injected::Panic), "an injected panic");
            self.time.spend(self.profile.complete_ns, start);
            done.complete(job, result);
        }
    }

    /// Whether an entry can be handed over as soon as its time has come.
    fn is_ripe(&self, entry: &Entry) -> bool {
        entry.job.is_some() && (entry.answer.is_some() || !self.time.is_real() || self.faults.is_gone())
    }

    pub(crate) fn arm(&self, queue: u64, waker: &Waker) -> bool {
        // Where time is virtual, there is nobody to wake anybody.
        if self.profile.completion == Completion::Polled || !self.time.is_real() {
            return false;
        }
        self.lock().wakers.insert(queue, waker.clone());
        self.work.notify_one();
        true
    }

    /// Drops every job of a queue that is dropped itself.
    pub(crate) fn take_back(&self, queue: u64) {
        let mut state = self.lock();
        state.wakers.remove(&queue);
        state.to_compute.retain(|place| place.0 != queue);
        loop {
            let first = state.of_queue(queue, u64::MAX).next().map(|(place, entry)| (*place, entry.job.is_some()));
            match first {
                None => break,
                // The card's thread reads it at this moment, and needs the lock to lay it down.
                Some((_, false)) => state = self.laid_down.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some((place, true)) => drop(state.remove(place)),
            }
        }
    }

    /// What the card's thread does: it computes answers, and wakes who wants to be woken.
    pub(crate) fn work(&self) {
        let mut state = self.lock();
        while !state.stopped {
            if let Some(place) = state.to_compute.pop_front() {
                let Some(mut job) = state.entries.get_mut(&place).and_then(|entry| entry.job.take()) else { continue };
                drop(state);
                let answer = Answer::compute(&mut job);
                state = self.lock();
                if let Some(entry) = state.entries.get_mut(&place) {
                    entry.answer = Some(answer);
                    entry.job = Some(job);
                }
                self.laid_down.notify_all();
                continue;
            }
            let now = self.time.now();
            let (due, next) = state.due(now);
            if !due.is_empty() {
                drop(state);
                due.iter().for_each(Waker::wake_by_ref);
                state = self.lock();
                continue;
            }
            state = match next {
                None => self.work.wait(state).unwrap_or_else(PoisonError::into_inner),
                // A sleep ends some 50 µs late: the last bit of the way is walked.
                Some(next) if next - now > 100_000 => {
                    let nap = Duration::from_nanos(next - now - 60_000);
                    self.work.wait_timeout(state, nap).unwrap_or_else(PoisonError::into_inner).0
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
        self.work.notify_one();
    }

    fn count(&self, bytes: usize, unit_ns: u64) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.busy_ns.fetch_add(unit_ns, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// The entries of a queue that are ready at `until`, the first one first.
    fn of_queue(&self, queue: u64, until: u64) -> impl Iterator<Item = (&Place, &Entry)> {
        self.entries.range((queue, 0, 0)..=(queue, until, u64::MAX))
    }

    fn remove(&mut self, place: Place) -> Option<Entry> {
        let entry = self.entries.remove(&place);
        self.taken -= usize::from(entry.is_some());
        entry
    }

    /// How long a unit works on a request that arrives now, and when it is ready.
    fn schedule(&mut self, profile: &Profile, rate: &Rate, bytes: usize, now: u64) -> (u64, u64) {
        let mut unit_ns = Profile::unit_ns(rate, bytes);
        if profile.jitter_percent > 0 {
            let percent = self.random.below(u64::from(profile.jitter_percent) + 1);
            unit_ns = unit_ns.saturating_add(unit_ns / 100 * percent);
        }
        // There is at least one: `Profile::check`.
        let unit = self.units.iter_mut().min_by_key(|free| **free).expect("an engine has units");
        let start = now.max(*unit);
        let mut ready = start.saturating_add(unit_ns);
        if let Some(cap) = profile.cap_megabits {
            let from = self.shared.max(start.saturating_add(rate.setup_ns));
            self.shared = from.saturating_add(transfer_ns(bytes, cap));
            ready = ready.max(self.shared);
        }
        *unit = ready;
        if profile.in_order {
            ready = ready.max(self.last);
            self.last = ready;
        }
        (unit_ns, ready)
    }

    /// The wakers whose queues have something ready at `now`; they are taken out. And when the next one will be.
    fn due(&mut self, now: u64) -> (Vec<Waker>, Option<u64>) {
        let (mut due, mut next) = (Vec::new(), None::<u64>);
        let armed: Vec<u64> = self.wakers.keys().copied().collect();
        for queue in armed {
            let ready = self.of_queue(queue, u64::MAX - 1).find(|(_, entry)| entry.answer.is_some());
            match ready.map(|(place, _)| place.1) {
                Some(ready) if ready <= now => due.extend(self.wakers.remove(&queue)),
                Some(ready) => next = Some(next.map_or(ready, |next| next.min(ready))),
                None => {}
            }
        }
        (due, next)
    }
}
