//! The thread that notices for tasks when a device is late.
//!
//! A device that has stalled wakes no task. Where every task sleeps, only time can end the wait, and executors need not have timers. So the
//! framework has one, and only here: the thread starts when a task sleeps for a device for the first time, and ends with its queue.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crate::clock::Clock;
use crate::process::Process;

/// Wakes at a deadline, which moves.
pub(super) struct Watch {
    alarm: Arc<Alarm>,
    /// There until it is dropped.
    thread: Option<JoinHandle<()>>,
    process: Process,
}

struct Alarm {
    clock: Arc<dyn Clock>,
    waker: Waker,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// By the framework's clock. `None`: nothing to wake for.
    due: Option<u64>,
    /// When the thread looks at `due` next, if it does by itself.
    looks_at: Option<u64>,
    /// The thread is in code of a task.
    wakes: bool,
    ends: bool,
}

impl Watch {
    /// Starts the thread. `None` where the system gives no thread.
    pub(super) fn start(clock: Arc<dyn Clock>, waker: Waker) -> Option<Self> {
        let alarm = Arc::new(Alarm { clock, waker, state: Mutex::default(), changed: Condvar::new() });
        let run = alarm.clone();
        let thread = Builder::new().name("gantry-late".to_owned()).spawn(move || run.run()).ok()?;
        Some(Self { alarm, thread: Some(thread), process: Process::current() })
    }

    /// Wakes at `due` instead of before.
    pub(super) fn set(&self, due: u64) {
        let mut state = self.alarm.lock();
        state.due = Some(due);
        // A later deadline costs nothing: the thread finds it when it looks.
        if state.looks_at.is_none_or(|at| due < at) {
            self.alarm.changed.notify_one();
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if !self.process.is_current() {
            // A child of the process has no such thread, and the lock may be held for ever.
            return std::mem::forget(thread);
        }
        let mut state = self.alarm.lock();
        state.ends = true;
        let wakes = state.wakes;
        drop(state);
        self.alarm.changed.notify_one();
        // In code of a task it may wait for this thread, or be this thread. It ends right after that.
        if !wakes {
            let _ = thread.join();
        }
    }
}

impl Alarm {
    fn run(&self) {
        let mut state = self.lock();
        while !state.ends {
            let now = self.clock.now();
            state.looks_at = state.due;
            state = match state.due {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(due) if due > now => {
                    let left = Duration::from_nanos(due - now);
                    self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
                Some(_) => {
                    (state.due, state.wakes) = (None, true);
                    drop(state);
                    self.waker.wake_by_ref();
                    let mut state = self.lock();
                    state.wakes = false;
                    state
                }
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.thread.fmt(f)
    }
}
