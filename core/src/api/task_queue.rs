//! Requests as futures, for any executor.
//!
//! A task that asks for something is polled at least twice: the first time its request is only submitted, so that the other
//! tasks that the executor has ready can add theirs; the second time all of them go to the devices together. This is how a
//! server with a task for each connection fills lanes.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use super::completion::{Completion, Rejected, Ticket, Why};
use super::queue::Queue;
use super::queue_options::QueueOptions;
use super::session::Session;
use crate::algorithm::{Misuse, Result};
use crate::dispatch::{Gantry, Submission};

/// A queue that many tasks share. Cheap to clone.
#[derive(Clone, Debug)]
pub struct TaskQueue {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Apart, because the queue inside of `state` keeps it, and would keep itself otherwise.
    bell: Arc<Bell>,
}

/// Tasks that wait for something to happen. The lock is held for a moment only: devices wake tasks while other queues are at work.
#[derive(Debug, Default)]
struct Bell(Mutex<Vec<Waker>>);

#[derive(Debug)]
struct State {
    queue: Queue,
    /// Those that are done, and those whose task has gone.
    over: HashMap<Ticket, Option<Box<Completion>>>,
}

impl Gantry {
    /// A queue for tasks. `immediate` has no meaning here and is ignored.
    ///
    /// # Errors
    /// [`Misuse::Queue`] when an option is out of its bounds.
    pub fn task_queue(&self, mut options: QueueOptions) -> Result<TaskQueue> {
        options.immediate = None;
        let state = Mutex::new(State { queue: self.queue(options)?, over: HashMap::new() });
        Ok(TaskQueue { shared: Arc::new(Shared { state, bell: Arc::default() }) })
    }
}

impl TaskQueue {
    /// Runs a request. When the queue is full the future waits for room. Dropping it cancels a request that no device has yet;
    /// one that a device has is finished, and its result thrown away.
    ///
    /// # Errors
    /// The call was wrong. Whatever else can go wrong is in the completion.
    pub fn run(&self, session: &Session, submission: Submission) -> Running {
        Running { shared: self.shared.clone(), session: session.clone(), stage: Stage::New(Box::new(submission)) }
    }

    /// Takes in what is ready, and gives up on devices that are late. Tasks are woken by the devices, and a device that has stalled
    /// wakes nobody: somebody with a timer should call this when the time is over that it returned (see [`Queue::patience`]).
    /// `None` when no device has anything.
    pub fn look(&self) -> Option<Duration> {
        let mut state = lock(&self.shared.state);
        state.complete(&self.shared);
        state.queue.patience()
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
    New(Box<Submission>),
    Submitted(Ticket),
    Over,
}

impl Future for Running {
    type Output = std::result::Result<Completion, Misuse>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let shared = self.shared.clone();
        let mut state = lock(&shared.state);
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::New(submission) => match state.queue.submit(&self.session, *submission) {
                Ok(ticket) => {
                    self.stage = Stage::Submitted(ticket);
                    // After the others have had their turn.
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Err(Rejected { why: Why::Misuse(misuse), .. }) => return Poll::Ready(Err(misuse)),
                Err(Rejected { submission, .. }) => self.stage = Stage::New(Box::new(submission)),
            },
            Stage::Submitted(ticket) => {
                state.complete(&shared);
                if let Some(Some(completion)) = state.over.remove(&ticket) {
                    return Poll::Ready(Ok(*completion));
                }
                self.stage = Stage::Submitted(ticket);
            }
            Stage::Over => panic!("a future that is over was polled"),
        }
        lock(&shared.bell.0).push(context.waker().clone());
        state.look_out(&shared);
        Poll::Pending
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Stage::Submitted(ticket) = self.stage else { return };
        let mut state = lock(&self.shared.state);
        if state.over.remove(&ticket).is_none() && state.queue.cancel(ticket).is_none() {
            state.over.insert(ticket, None);
        }
        drop(state);
        // Perhaps it was the one that would have looked after the others.
        self.shared.bell.ring();
    }
}

impl Bell {
    fn ring(&self) {
        let tasks = std::mem::take(&mut *lock(&self.0));
        tasks.into_iter().for_each(Waker::wake);
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }
}

impl State {
    /// Takes in what is ready, and tells the tasks if there was anything.
    fn complete(&mut self, shared: &Shared) -> bool {
        let Self { queue, over } = self;
        let came = queue.complete(|completion| match over.remove(&completion.ticket) {
            Some(None) => {} // nobody waits for it any more
            _ => drop(over.insert(completion.ticket, Some(Box::new(completion)))),
        });
        if came > 0 {
            shared.bell.ring();
        }
        came > 0
    }

    /// Sees to it that tasks are woken when something is ready.
    fn look_out(&mut self, shared: &Shared) {
        let tells = self.queue.arm(&Waker::from(shared.bell.clone()));
        if !tells && !self.complete(shared) && self.queue.in_flight() > 0 {
            // A device that does not tell has to be polled.
            shared.bell.ring();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
