//! Requests as futures, for any executor.
//!
//! A task is polled at least twice for a request. The first poll only submits the request, so that other ready tasks can add theirs. The
//! second poll sends all of them to the devices together. This is how a server with a task per connection fills a device's lanes, which
//! run requests side by side.
//!
//! A completion wakes only the task of its request. One task at a time, the *poller*, is woken by devices and collects completions for all
//! tasks. When the poller leaves, the next task is woken to take over.
//!
//! There is no coalescing time: the poller sends all waiting requests before it sleeps. A stalled device wakes no task, so a thread wakes
//! a task when the device is late (`late_timer.rs`).

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
#[cfg(any(test, feature = "simulation"))]
use std::time::Duration;

use smallvec::SmallVec;

use super::completion::{Completion, RejectReason, Rejected, Ticket};
use super::late_timer::LateTimer;
use super::queue::Queue;
use super::queue_options::QueueOptions;
use super::session::Session;
use crate::algorithm::{Misuse, Result};
use crate::dispatch::Gantry;
use crate::process::Process;
use crate::request::Submission;

/// A queue shared by many tasks. Cheap to clone.
///
/// Like a [`Queue`], it belongs to the process that made it. In a child of that process each task gets [`Misuse::Forked`].
#[derive(Clone, Debug)]
pub struct TaskQueue {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// The process that made the queue. Outside the lock: if a thread of the parent holds it at a fork, the child can never take it.
    process: Process,
    state: Mutex<State>,
    /// In an `Arc` of its own. `state` holds wakers made from it; wakers made from `Shared` would form a reference cycle.
    bell: Arc<Bell>,
}

/// The waker for devices, the timer, and other threads that return requests. It may ring in the middle of another queue's work, so its
/// lock is held only briefly.
#[derive(Debug, Default)]
struct Bell(Mutex<BellState>);

#[derive(Debug, Default)]
struct BellState {
    /// The poller's waker, while the poller sleeps.
    sleeper: Option<Waker>,
    /// A device has rung since the bell was last cleared.
    has_rung: bool,
}

#[derive(Debug)]
struct State {
    queue: Queue,
    depth: usize,
    /// Wakers of sleeping tasks.
    asleep: BTreeMap<WaitKey, Waker>,
    /// The task that polls the devices: asleep until the devices ring, or woken and about to run. `None` only if no task sleeps.
    poller: Option<WaitKey>,
    /// The thread that detects late devices. Started when a task first sleeps for a device.
    timer: Option<LateTimer>,
    /// A request was submitted since the devices were last armed.
    has_unsent: bool,
    /// Completions to be picked up; `None` for a request whose task has gone.
    finished: HashMap<Ticket, Option<Box<Completion>>>,
    /// Number of tasks that have ever waited for room.
    arrivals: u64,
    deferred: Deferred,
}

/// A task, by the event it waits for. When the poller leaves, the first task in this order takes over. Its request has been in flight
/// longest, so it will probably be woken first in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum WaitKey {
    /// The completion of the request with this sequence number.
    InFlight(u64),
    /// Room in the queue, by the task's position in line.
    Room(u64),
}

/// Wakers to call and to drop after unlocking: either step may run a task's code, which may lock the state.
#[derive(Debug, Default)]
struct Deferred {
    wake: SmallVec<[Waker; 1]>,
    to_drop: SmallVec<[Waker; 1]>,
}

impl Gantry {
    /// Creates a queue for tasks. Ignores [`QueueOptions::immediate`].
    ///
    /// # Errors
    /// [`Misuse::Queue`] if an option is out of range.
    pub fn task_queue(&self, mut options: QueueOptions) -> Result<TaskQueue> {
        options.immediate = None;
        let depth = options.depth;
        let state = Mutex::new(State {
            queue: self.queue(options)?,
            depth,
            asleep: BTreeMap::new(),
            poller: None,
            timer: None,
            has_unsent: false,
            finished: HashMap::new(),
            arrivals: 0,
            deferred: Deferred::default(),
        });
        Ok(TaskQueue { shared: Arc::new(Shared { process: Process::current(), state, bell: Arc::default() }) })
    }
}

impl TaskQueue {
    /// Runs a request. If the queue is full, the future waits for room. Dropping the future cancels a request that no device has yet; a
    /// request on a device is completed and its result discarded.
    ///
    /// Tasks rely on each other: a future that has been woken must be polled or dropped, as executors do.
    ///
    /// # Errors
    /// The future's error is a mistake of the caller. All other errors are in the completion.
    pub fn run(&self, session: &Session, submission: Submission) -> RequestFuture {
        let stage = Stage::New { submission: Box::new(submission), line_position: None };
        RequestFuture { shared: self.shared.clone(), session: session.clone(), stage }
    }

    /// Collects completions and gives up on late devices, without a task. Returns the time after which a device that still has not answered
    /// is late; `None` if no device has requests. For tests with simulated time; programs need not call it.
    #[cfg(any(test, feature = "simulation"))]
    pub fn poll_once(&self) -> Option<Duration> {
        if !self.shared.process.is_current() {
            return None;
        }
        self.shared.with(|state| {
            state.complete();
            state.queue.max_sleep()
        })
    }
}

/// The future of a request.
#[derive(Debug)]
#[must_use = "a request runs when its future is polled"]
pub struct RequestFuture {
    shared: Arc<Shared>,
    session: Session,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    New {
        submission: Box<Submission>,
        /// The position in the line for room.
        line_position: Option<u64>,
    },
    Submitted(Ticket),
    Finished,
}

impl Future for RequestFuture {
    type Output = std::result::Result<Completion, Misuse>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { shared, session, stage } = &mut *self;
        if !shared.process.is_current() {
            *stage = Stage::Finished;
            return Poll::Ready(Err(Misuse::Forked));
        }
        shared.with(|state| match std::mem::replace(stage, Stage::Finished) {
            Stage::New { submission, line_position } => {
                line_position.map(|position| state.mark_awake(WaitKey::Room(position)));
                let (answer, next) =
                    state.submit_or_wait(session, submission, line_position, &shared.bell, context.waker());
                *stage = next;
                answer.map_or(Poll::Pending, |misuse| Poll::Ready(Err(misuse)))
            }
            Stage::Submitted(ticket) => {
                state.mark_awake(ticket.key());
                let done = state.wait_for(ticket, &shared.bell, context.waker());
                if done.is_none() {
                    *stage = Stage::Submitted(ticket);
                }
                done.map_or(Poll::Pending, |completion| Poll::Ready(Ok(completion)))
            }
            Stage::Finished => panic!("`RequestFuture` polled after completion"),
        })
    }
}

impl Drop for RequestFuture {
    fn drop(&mut self) {
        if !self.shared.process.is_current() {
            return;
        }
        match std::mem::replace(&mut self.stage, Stage::Finished) {
            Stage::Submitted(ticket) => self.shared.with(|state| state.abandon(ticket)),
            Stage::New { line_position: Some(position), .. } => self.shared.with(|state| {
                if !state.mark_awake(WaitKey::Room(position)) {
                    state.wake_waiters(1); // this task had been woken for room: wake the next one
                }
            }),
            Stage::New { .. } | Stage::Finished => {}
        }
    }
}

impl Shared {
    /// Runs `work` under the lock, then wakes the tasks in `deferred`.
    fn with<R>(&self, work: impl FnOnce(&mut State) -> R) -> R {
        let mut state = lock(&self.state);
        let answer = work(&mut state);
        state.wake_next_poller();
        let Deferred { wake, to_drop } = std::mem::take(&mut state.deferred);
        drop(state);
        wake.into_iter().for_each(Waker::wake);
        drop(to_drop);
        answer
    }
}

impl Bell {
    /// Clears the bell before devices are armed. Returns the old waker.
    fn clear(&self) -> Option<Waker> {
        std::mem::take(&mut *lock(&self.0)).sleeper
    }

    /// Registers a task to be woken when a device rings. Returns `false` if a device has rung since the last [`clear`](Self::clear).
    fn register(&self, waker: &Waker) -> bool {
        let mut state = lock(&self.0);
        if !state.has_rung {
            state.sleeper = Some(waker.clone());
        }
        !state.has_rung
    }

    fn has_rung(&self) -> bool {
        lock(&self.0).has_rung
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        let sleeper = {
            let mut state = lock(&self.0);
            state.has_rung = true;
            state.sleeper.take()
        };
        sleeper.into_iter().for_each(Waker::wake);
    }
}

impl Ticket {
    fn key(self) -> WaitKey {
        WaitKey::InFlight(self.sequence)
    }
}

impl State {
    /// Notes that the task is awake and no longer the poller. Returns `true` if it slept.
    fn mark_awake(&mut self, key: WaitKey) -> bool {
        self.poller.take_if(|poller| *poller == key);
        let waker = self.asleep.remove(&key);
        let slept = waker.is_some();
        self.deferred.to_drop.extend(waker);
        slept
    }

    /// Submits a request, or puts it in line for room.
    fn submit_or_wait(
        &mut self,
        session: &Session,
        mut submission: Box<Submission>,
        line_position: Option<u64>,
        bell: &Arc<Bell>,
        waker: &Waker,
    ) -> (Option<Misuse>, Stage) {
        let mut has_polled = false;
        loop {
            match self.queue.submit(session, *submission) {
                Ok(ticket) => {
                    self.has_unsent = true;
                    if line_position.is_some() && self.queue.in_flight() < self.depth {
                        self.wake_waiters(1); // the bytes of one completed request may make room for several requests
                    }
                    // Poll this task again after other ready tasks have submitted their requests.
                    self.deferred.wake.push(waker.clone());
                    return (None, Stage::Submitted(ticket));
                }
                Err(Rejected { why: RejectReason::Misuse(misuse), .. }) => {
                    self.wake_waiters(line_position.map_or(0, |_| 1));
                    return (Some(misuse), Stage::Finished);
                }
                Err(Rejected { submission: rejected, .. }) => submission = Box::new(rejected),
            }
            // Completions may make room.
            if has_polled || !self.should_poll(bell) || self.complete() == 0 {
                break;
            }
            has_polled = true;
        }
        let position = line_position.unwrap_or_else(|| {
            self.arrivals += 1;
            self.arrivals
        });
        self.sleep(WaitKey::Room(position), bell, waker);
        (None, Stage::New { submission, line_position: Some(position) })
    }

    /// Takes the completion of a request, or puts the task to sleep.
    fn wait_for(&mut self, ticket: Ticket, bell: &Arc<Bell>, waker: &Waker) -> Option<Completion> {
        if let Some(Some(completion)) = self.finished.remove(&ticket) {
            return Some(*completion);
        }
        if self.should_poll(bell)
            && self.complete() > 0
            && let Some(Some(completion)) = self.finished.remove(&ticket)
        {
            return Some(*completion);
        }
        self.sleep(ticket.key(), bell, waker);
        None
    }

    /// Returns `true` if this task must poll the devices: there is no poller, there are unsent requests, or a device has rung.
    fn should_poll(&self, bell: &Bell) -> bool {
        self.poller.is_none() || self.has_unsent || bell.has_rung()
    }

    /// Puts a task to sleep. If the devices must be polled, the task becomes the poller in place of any other, and arms the devices.
    fn sleep(&mut self, key: WaitKey, bell: &Arc<Bell>, waker: &Waker) {
        self.asleep.insert(key, waker.clone());
        if !self.should_poll(bell) {
            return;
        }
        self.poller = Some(key);
        self.has_unsent = false;
        self.deferred.to_drop.extend(bell.clear());
        let waker_of_devices = Waker::from(bell.clone());
        if !(self.queue.arm(&waker_of_devices) && self.set_timer(waker_of_devices) && bell.register(waker)) {
            // A completion is ready, a device without notifications must be polled, or no thread watches for late devices.
            self.deferred.to_drop.extend(self.asleep.remove(&key));
            self.deferred.wake.push(waker.clone());
        }
    }

    /// Sets the deadline of the thread that detects late devices. Returns `false` if there is a deadline but the thread cannot start.
    fn set_timer(&mut self, waker: Waker) -> bool {
        let Some(deadline) = self.queue.deadline() else { return true };
        if self.timer.is_none() {
            self.timer = LateTimer::start(self.queue.gantry().clock().clone(), waker);
        }
        self.timer.as_ref().inspect(|timer| timer.set(deadline)).is_some()
    }

    /// Handles the drop of a submitted request's future. Cancels the request, or arranges for its result to be discarded.
    fn abandon(&mut self, ticket: Ticket) {
        self.mark_awake(ticket.key());
        if self.finished.remove(&ticket).is_some() {
            return;
        }
        if self.queue.cancel(ticket).is_some() {
            self.wake_waiters(1);
        } else {
            self.finished.insert(ticket, None);
        }
    }

    /// Collects completions and wakes their tasks. Returns the number of completions.
    fn complete(&mut self) -> usize {
        let Self { queue, finished, asleep, poller, deferred, .. } = self;
        let completed = queue.complete(|completion| {
            let key = completion.ticket.key();
            match finished.entry(completion.ticket) {
                Entry::Occupied(abandoned) => {
                    abandoned.remove(); // its task has gone
                }
                Entry::Vacant(free) => {
                    free.insert(Some(Box::new(completion)));
                }
            }
            poller.take_if(|poller| *poller == key);
            deferred.wake.extend(asleep.remove(&key));
        });
        self.wake_waiters(completed);
        completed
    }

    /// Wakes up to `count` tasks that wait for room.
    fn wake_waiters(&mut self, count: usize) {
        for _ in 0..count {
            let Some((&first, _)) = self.asleep.range(WaitKey::Room(0)..).next() else { return };
            self.deferred.wake.extend(self.asleep.remove(&first));
        }
    }

    /// Wakes a task as the new poller, if there is none and a task sleeps.
    fn wake_next_poller(&mut self) {
        if self.poller.is_none()
            && let Some((key, waker)) = self.asleep.pop_first()
        {
            self.poller = Some(key);
            self.deferred.wake.push(waker);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
