//! A thread that wakes tasks when a device is late.
//!
//! A stalled device wakes no task. When all tasks sleep, only a timer can end the wait, and executors need not have timers. The thread
//! starts when a task first sleeps for a device, and ends with its queue. The framework starts no other threads.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crate::clock::Clock;
use crate::process::Process;

/// A thread that calls a waker at a deadline, which can be moved.
pub(super) struct LateTimer {
    alarm: Arc<Alarm>,
    /// `Some` until dropped.
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
    /// The deadline by the framework's clock; `None` if there is none.
    deadline: Option<u64>,
    /// The time at which the thread checks `deadline` next; `None` while it waits without a timeout.
    waits_until: Option<u64>,
    /// The thread is calling the waker, which may run a task's code.
    is_waking: bool,
    is_stopped: bool,
}

impl LateTimer {
    /// Starts the thread. Returns `None` if the system cannot create one.
    pub(super) fn start(clock: Arc<dyn Clock>, waker: Waker) -> Option<Self> {
        let alarm = Arc::new(Alarm { clock, waker, state: Mutex::default(), changed: Condvar::new() });
        let run = alarm.clone();
        let thread = Builder::new().name("gantry-late".to_owned()).spawn(move || run.run()).ok()?;
        Some(Self { alarm, thread: Some(thread), process: Process::current() })
    }

    /// Moves the deadline.
    pub(super) fn set(&self, deadline: u64) {
        let mut state = self.alarm.lock();
        state.deadline = Some(deadline);
        // A later deadline needs no notification: the thread sees it at its next check.
        if state.waits_until.is_none_or(|at| deadline < at) {
            self.alarm.changed.notify_one();
        }
    }
}

impl Drop for LateTimer {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if !self.process.is_current() {
            // A child of the process lacks this thread, and the lock may be held forever.
            return std::mem::forget(thread);
        }
        let mut state = self.alarm.lock();
        state.is_stopped = true;
        let is_waking = state.is_waking;
        drop(state);
        self.alarm.changed.notify_one();
        // Joining could deadlock: the waker may wait for the thread that drops `self`, or may itself drop `self`. The timer's thread ends
        // right after the waker returns.
        if !is_waking {
            let _ = thread.join();
        }
    }
}

impl Alarm {
    fn run(&self) {
        let mut state = self.lock();
        while !state.is_stopped {
            let now = self.clock.now();
            state.waits_until = state.deadline;
            state = match state.deadline {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) if deadline > now => {
                    let left = Duration::from_nanos(deadline - now);
                    self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
                Some(_) => {
                    (state.deadline, state.is_waking) = (None, true);
                    drop(state);
                    self.waker.wake_by_ref();
                    let mut state = self.lock();
                    state.is_waking = false;
                    state
                }
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for LateTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.thread.fmt(f)
    }
}
