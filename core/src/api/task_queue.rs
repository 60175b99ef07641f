//! Requests as futures, for any executor.
//!
//! A task that asks for something is polled at least twice: the first time its request is only submitted, so that the other
//! tasks that the executor has ready can add theirs; the second time all of them go to the devices together. This is how a
//! server with a task for each connection fills lanes.
//!
//! A completion wakes the task that it is for, and no other. One task at a time, the *poller*, is the one that devices wake;
//! it takes in what is ready, for all. When it leaves, the next one is woken to take over.
//!
//! No task waits for a coalescing time: the poller sends everything that waits before it sleeps. A device that has stalled wakes no
//! task, so a thread does once the device is late (`watch.rs`).

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
#[cfg(any(test, feature = "simulation"))]
use std::time::Duration;

use smallvec::SmallVec;

use super::completion::{Completion, Rejected, Ticket, Why};
use super::queue::Queue;
use super::queue_options::QueueOptions;
use super::session::Session;
use super::watch::Watch;
use crate::algorithm::{Misuse, Result};
use crate::dispatch::Gantry;
use crate::process::Process;
use crate::request::Submission;

/// A queue that many tasks share. Cheap to clone.
///
/// As a [`Queue`], it belongs to the process that made it. In a child of that process each task gets [`Misuse::Forked`].
#[derive(Clone, Debug)]
pub struct TaskQueue {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// The process that made it. Outside of the lock, which a thread of the parent may hold.
    process: Process,
    state: Mutex<State>,
    /// Apart, because the queue inside of `state` keeps it, and would keep itself otherwise.
    bell: Arc<Bell>,
}

/// What devices wake. The lock is held for a moment only: they ring while other queues are at work.
#[derive(Debug, Default)]
struct Bell(Mutex<Ring>);

#[derive(Debug, Default)]
struct Ring {
    /// The poller, while it sleeps.
    sleeper: Option<Waker>,
    /// A device has something, and nobody has looked.
    has_rung: bool,
}

#[derive(Debug)]
struct State {
    queue: Queue,
    depth: usize,
    /// Tasks that sleep.
    asleep: BTreeMap<Who, Waker>,
    /// Who looks after the devices: a task that sleeps until they ring, or one that has been woken and will come. Where there is
    /// none, nobody sleeps.
    poller: Option<Who>,
    /// Notices devices that are late. Started when a task sleeps for a device for the first time.
    watch: Option<Watch>,
    /// Something was submitted since devices were asked to ring.
    unsent: bool,
    /// Requests that are done, and those whose task has gone.
    over: HashMap<Ticket, Option<Box<Completion>>>,
    /// Tasks that have waited for room.
    arrivals: u64,
    after: After,
}

/// A task, by what it waits for: the one whose request has been out for longest comes first, because that will probably be
/// back first, and wakes it anyway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    /// The end of its request, by the number of that.
    InFlight(u64),
    /// Room in the queue, by its place in line.
    Outside(u64),
}

/// Wakers to be woken, and to be dropped, once the lock is free: either may run the code of a task, which may end a request.
#[derive(Debug, Default)]
struct After {
    wake: SmallVec<[Waker; 1]>,
    forget: SmallVec<[Waker; 1]>,
}

impl Gantry {
    /// A queue for tasks. `immediate` has no meaning here and is ignored.
    ///
    /// # Errors
    /// [`Misuse::Queue`] when an option is out of its bounds.
    pub fn task_queue(&self, mut options: QueueOptions) -> Result<TaskQueue> {
        options.immediate = None;
        let depth = options.depth;
        let state = Mutex::new(State {
            queue: self.queue(options)?,
            depth,
            asleep: BTreeMap::new(),
            poller: None,
            watch: None,
            unsent: false,
            over: HashMap::new(),
            arrivals: 0,
            after: After::default(),
        });
        Ok(TaskQueue { shared: Arc::new(Shared { process: Process::current(), state, bell: Arc::default() }) })
    }
}

impl TaskQueue {
    /// Runs a request. When the queue is full the future waits for room. Dropping it cancels a request that no device has yet;
    /// one that a device has is finished, and its result thrown away.
    ///
    /// Tasks rely on each other: a future that has been woken must be polled or dropped, as executors do.
    ///
    /// # Errors
    /// The call was wrong. Whatever else can go wrong is in the completion.
    pub fn run(&self, session: &Session, submission: Submission) -> Running {
        let stage = Stage::New { submission: Box::new(submission), place: None };
        Running { shared: self.shared.clone(), session: session.clone(), stage }
    }

    /// Takes in what is ready, and gives up on devices that are late, without a task. Returns when a device is late that has not answered
    /// until then; `None` when no device has anything. Programs need not call it: tests look at simulated time with it.
    #[cfg(any(test, feature = "simulation"))]
    pub fn look(&self) -> Option<Duration> {
        if !self.shared.process.is_current() {
            return None;
        }
        self.shared.with(|state| {
            state.complete();
            state.queue.patience()
        })
    }
}

/// The future of a request.
#[derive(Debug)]
#[must_use = "a request runs when its future is polled"]
pub struct Running {
    shared: Arc<Shared>,
    session: Session,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    New {
        submission: Box<Submission>,
        /// In the line of those that wait for room.
        place: Option<u64>,
    },
    Submitted(Ticket),
    Over,
}

impl Future for Running {
    type Output = std::result::Result<Completion, Misuse>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { shared, session, stage } = &mut *self;
        if !shared.process.is_current() {
            *stage = Stage::Over;
            return Poll::Ready(Err(Misuse::Forked));
        }
        shared.with(|state| match std::mem::replace(stage, Stage::Over) {
            Stage::New { submission, place } => {
                place.map(|place| state.rouse(Who::Outside(place)));
                let (answer, next) = state.enter(session, submission, place, &shared.bell, context.waker());
                *stage = next;
                answer.map_or(Poll::Pending, |misuse| Poll::Ready(Err(misuse)))
            }
            Stage::Submitted(ticket) => {
                state.rouse(ticket.who());
                let done = state.wait_for(ticket, &shared.bell, context.waker());
                if done.is_none() {
                    *stage = Stage::Submitted(ticket);
                }
                done.map_or(Poll::Pending, |completion| Poll::Ready(Ok(completion)))
            }
            Stage::Over => panic!("a future that is over was polled"),
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.shared.process.is_current() {
            return;
        }
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Submitted(ticket) => self.shared.with(|state| state.leave(ticket)),
            Stage::New { place: Some(place), .. } => self.shared.with(|state| {
                if !state.rouse(Who::Outside(place)) {
                    state.invite(1); // there is room for it, perhaps, which another one takes
                }
            }),
            Stage::New { .. } | Stage::Over => {}
        }
    }
}

impl Shared {
    /// Works on the state; wakes those for whom something has happened.
    fn with<R>(&self, work: impl FnOnce(&mut State) -> R) -> R {
        let mut state = lock(&self.state);
        let answer = work(&mut state);
        state.hand_over();
        let After { wake, forget } = std::mem::take(&mut state.after);
        drop(state);
        wake.into_iter().for_each(Waker::wake);
        drop(forget);
        answer
    }
}

impl Bell {
    /// Forgets what was, before devices are asked to ring. Returns the waker that was there.
    fn silence(&self) -> Option<Waker> {
        std::mem::take(&mut *lock(&self.0)).sleeper
    }

    /// Lets a task be woken when a device rings. `false` when one has done so since the [silence](Self::silence).
    fn wakes(&self, waker: &Waker) -> bool {
        let mut ring = lock(&self.0);
        if !ring.has_rung {
            ring.sleeper = Some(waker.clone());
        }
        !ring.has_rung
    }

    fn has_rung(&self) -> bool {
        lock(&self.0).has_rung
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        let sleeper = {
            let mut ring = lock(&self.0);
            ring.has_rung = true;
            ring.sleeper.take()
        };
        sleeper.into_iter().for_each(Waker::wake);
    }
}

impl Ticket {
    fn who(self) -> Who {
        Who::InFlight(self.sequence)
    }
}

impl State {
    /// The task is here, and sleeps and polls no more. Whether it slept.
    fn rouse(&mut self, who: Who) -> bool {
        self.poller.take_if(|poller| *poller == who);
        let waker = self.asleep.remove(&who);
        let slept = waker.is_some();
        self.after.forget.extend(waker);
        slept
    }

    /// Submits a request, or waits for room with it.
    fn enter(
        &mut self,
        session: &Session,
        mut submission: Box<Submission>,
        place: Option<u64>,
        bell: &Arc<Bell>,
        waker: &Waker,
    ) -> (Option<Misuse>, Stage) {
        let mut has_looked = false;
        loop {
            match self.queue.submit(session, *submission) {
                Ok(ticket) => {
                    self.unsent = true;
                    if place.is_some() && self.queue.in_flight() < self.depth {
                        self.invite(1); // one that ended may have made room for several
                    }
                    // After the others have had their turn.
                    self.after.wake.push(waker.clone());
                    return (None, Stage::Submitted(ticket));
                }
                Err(Rejected { why: Why::Misuse(misuse), .. }) => {
                    self.invite(place.map_or(0, |_| 1));
                    return (Some(misuse), Stage::Over);
                }
                Err(Rejected { submission: back, .. }) => submission = Box::new(back),
            }
            // What comes back now may be what there was no room for.
            if has_looked || !self.is_to_look(bell) || self.complete() == 0 {
                break;
            }
            has_looked = true;
        }
        let place = place.unwrap_or_else(|| {
            self.arrivals += 1;
            self.arrivals
        });
        self.sleep(Who::Outside(place), bell, waker);
        (None, Stage::New { submission, place: Some(place) })
    }

    /// The end of a request, if it has come to that.
    fn wait_for(&mut self, ticket: Ticket, bell: &Arc<Bell>, waker: &Waker) -> Option<Completion> {
        if let Some(Some(completion)) = self.over.remove(&ticket) {
            return Some(*completion);
        }
        if self.is_to_look(bell)
            && self.complete() > 0
            && let Some(Some(completion)) = self.over.remove(&ticket)
        {
            return Some(*completion);
        }
        self.sleep(ticket.who(), bell, waker);
        None
    }

    /// Whether nobody else looks after the devices, or not after what was submitted last.
    fn is_to_look(&self, bell: &Bell) -> bool {
        self.poller.is_none() || self.unsent || bell.has_rung()
    }

    /// Lets a task sleep. It polls from now on, unless another one does that for all.
    fn sleep(&mut self, who: Who, bell: &Arc<Bell>, waker: &Waker) {
        self.asleep.insert(who, waker.clone());
        if !self.is_to_look(bell) {
            return;
        }
        self.poller = Some(who);
        self.unsent = false;
        self.after.forget.extend(bell.silence());
        let waker_of_devices = Waker::from(bell.clone());
        if !(self.queue.arm(&waker_of_devices) && self.is_watched(waker_of_devices) && bell.wakes(waker)) {
            // Something is ready, or a device that does not tell has to be polled, or there is no thread to notice that one is late.
            self.after.forget.extend(self.asleep.remove(&who));
            self.after.wake.push(waker.clone());
        }
    }

    /// Whether something notices a device that is late.
    fn is_watched(&mut self, waker: Waker) -> bool {
        let Some(deadline) = self.queue.deadline() else { return true };
        if self.watch.is_none() {
            self.watch = Watch::start(self.queue.gantry().clock().clone(), waker);
        }
        self.watch.as_ref().inspect(|watch| watch.set(deadline)).is_some()
    }

    /// The task has gone. Its request is taken back, or ends for nobody.
    fn leave(&mut self, ticket: Ticket) {
        self.rouse(ticket.who());
        if self.over.remove(&ticket).is_some() {
            return;
        }
        if self.queue.cancel(ticket).is_some() {
            self.invite(1);
        } else {
            self.over.insert(ticket, None);
        }
    }

    /// Takes in what is ready, and wakes the tasks that it is for. Returns how many requests ended.
    fn complete(&mut self) -> usize {
        let Self { queue, over, asleep, poller, after, .. } = self;
        let came = queue.complete(|completion| {
            let who = completion.ticket.who();
            match over.entry(completion.ticket) {
                Entry::Occupied(gone) => {
                    gone.remove(); // nobody waits for it any more
                }
                Entry::Vacant(free) => {
                    free.insert(Some(Box::new(completion)));
                }
            }
            poller.take_if(|poller| *poller == who);
            after.wake.extend(asleep.remove(&who));
        });
        self.invite(came);
        came
    }

    /// Wakes as many tasks that wait for room.
    fn invite(&mut self, count: usize) {
        for _ in 0..count {
            let Some((&first, _)) = self.asleep.range(Who::Outside(0)..).next() else { return };
            self.after.wake.extend(self.asleep.remove(&first));
        }
    }

    /// Sees to it that somebody looks after the devices, for as long as anybody sleeps.
    fn hand_over(&mut self) {
        if self.poller.is_none()
            && let Some((who, waker)) = self.asleep.pop_first()
        {
            self.poller = Some(who);
            self.after.wake.push(waker);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
