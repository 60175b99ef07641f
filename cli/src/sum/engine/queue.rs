//! The queue of files for the workers, and of their results.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::sum::engine::HashedFile;
use crate::sum::function::Functions;

/// A file to hash.
pub(super) struct Job {
    /// Its index among the files of the run.
    pub(super) number: u64,
    pub(super) name: OsString,
    pub(super) functions: Functions,
}

impl Job {
    pub(super) fn finish(self, outcome: JobOutcome) -> (u64, FinishedJob) {
        (self.number, FinishedJob { name: self.name, functions: self.functions, outcome })
    }
}

/// A file with its result.
pub(super) struct FinishedJob {
    pub(super) name: OsString,
    pub(super) functions: Functions,
    pub(super) outcome: JobOutcome,
}

pub(super) enum JobOutcome {
    Hashed(HashedFile),
    Failed(io::Error),
    /// The reporting thread has to read the file when all earlier files have been reported.
    ReadInTurn,
}

/// The queue between the feeding thread and the workers.
pub(super) struct Queue {
    state: Mutex<State>,
    /// Signals that there are files, or that there will be no more files.
    work_available: Condvar,
    /// Signals that the first result is ready.
    result_ready: Condvar,
}

struct State {
    todo: VecDeque<Job>,
    /// Results in order, from the first uncollected one; `None` while a worker has the file.
    results: VecDeque<Option<FinishedJob>>,
    /// The number of the first entry of `results`.
    first_number: u64,
    /// The number after the last file that a worker took.
    taken_end: u64,
    /// Number of empty slots of all workers.
    free_slots: usize,
    /// Number of workers that wait for files.
    idle_workers: usize,
    is_closed: bool,
    /// True if a worker panicked: its files will never have results.
    has_panicked: bool,
}

impl Queue {
    /// Creates a queue for workers with `slots` slots in total.
    pub(super) fn new(slots: usize) -> Self {
        let state = State {
            todo: VecDeque::new(),
            results: VecDeque::new(),
            first_number: 0,
            taken_end: 0,
            free_slots: slots,
            idle_workers: 0,
            is_closed: false,
            has_panicked: false,
        };
        Self { state: Mutex::new(state), work_available: Condvar::new(), result_ready: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent whenever the lock is released.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the slots of workers that could not be started.
    pub(super) fn remove_slots(&self, slots: usize) {
        self.lock().free_slots -= slots;
    }

    /// Closes the queue: no more files will follow.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.work_available.notify_all();
    }

    /// Records that a worker panicked and that its files will never have results.
    pub(super) fn record_panic(&self) {
        self.lock().has_panicked = true;
        self.result_ready.notify_one();
    }

    /// Appends files; the calling thread reads the files that are not for workers.
    pub(super) fn append(&self, jobs: impl Iterator<Item = Job>, for_workers: impl Fn(&Job) -> bool) {
        let mut state = self.lock();
        for job in jobs {
            if for_workers(&job) {
                state.results.push_back(None);
                state.todo.push_back(job);
            } else {
                state.results.push_back(Some(job.finish(JobOutcome::ReadInTurn).1));
            }
        }
        if state.idle_workers > 0 {
            self.work_available.notify_all();
        }
    }

    /// Delivers a worker's `results`, and takes files for its `free_slots` slots, of which `freed` have become empty since its last call.
    /// With `wait`, waits for files; if `jobs` is then empty, there will be no more files.
    pub(super) fn exchange(
        &self,
        results: &mut Vec<(u64, FinishedJob)>,
        (free_slots, freed): (usize, usize),
        jobs: &mut Vec<Job>,
        wait: bool,
    ) {
        let mut state = self.lock();
        state.free_slots += freed;
        let first_number = state.first_number;
        let mut ready = false;
        for (number, done) in results.drain(..) {
            state.results[(number - first_number) as usize] = Some(done);
            ready |= number == first_number;
        }
        if ready {
            self.result_ready.notify_one();
        }
        while wait && state.todo.is_empty() && !state.is_closed {
            state.idle_workers += 1;
            state = self.work_available.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle_workers -= 1;
        }
        // Shares files in proportion to free slots, so that the last files of a run are spread evenly over the workers.
        let share = (state.todo.len() * free_slots).div_ceil(state.free_slots.max(1)).min(free_slots);
        state.free_slots -= share;
        jobs.extend(state.todo.drain(..share));
        if let Some(last) = jobs.last() {
            state.taken_end = last.number + 1;
        }
    }

    /// Moves at least one result, the next in order, to `ready`. Calls `waiting` before it blocks.
    pub(super) fn collect(&self, ready: &mut VecDeque<FinishedJob>, waiting: impl FnOnce()) {
        let mut state = self.lock();
        if !matches!(state.results.front(), Some(Some(_))) {
            drop(state);
            waiting();
            state = self.lock();
        }
        loop {
            while let Some(done) = state.results.front_mut().and_then(Option::take) {
                ready.push_back(done);
                state.results.pop_front();
                state.first_number += 1;
            }
            if !ready.is_empty() {
                return;
            }
            assert!(!state.has_panicked, "a worker panicked");
            state = self.result_ready.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns the number after the last file that a worker took.
    pub(super) fn taken_end(&self) -> u64 {
        self.lock().taken_end
    }
}
