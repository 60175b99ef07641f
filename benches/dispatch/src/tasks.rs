//! Measures the cost of a request that is a future, for a given number of tasks in flight.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use gantry_core::{QueueOptions, RequestFuture, Session, Submission};

use crate::{BYTES, Result};

/// The run queue of a minimal executor: indices of woken tasks, oldest first.
type ReadyQueue = Arc<Mutex<VecDeque<usize>>>;

struct Task {
    index: usize,
    ready_queue: ReadyQueue,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ready_queue.lock().expect("no thread panics with the lock").push_back(self.index);
    }
}

/// Runs `tasks` tasks at the same time, each with one request. Returns nanoseconds per task, the median of `RUNS` runs.
pub(crate) fn time_per_task(session: &Session, tasks: usize) -> Result<f64> {
    const RUNS: usize = 51;
    let queue = session.gantry().task_queue(QueueOptions { depth: tasks, ..QueueOptions::default() })?;
    let ready_queue = ReadyQueue::default();
    let wakers: Vec<Waker> =
        (0..tasks).map(|index| Waker::from(Arc::new(Task { index, ready_queue: ready_queue.clone() }))).collect();
    let mut runs = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        let submissions: Vec<_> = (0..tasks).map(|_| Submission::encrypt(&[], vec![0; BYTES])).collect();
        let start = Instant::now();
        let mut running: Vec<Option<RequestFuture>> =
            submissions.into_iter().map(|submission| Some(queue.run(session, submission))).collect();
        let mut next = (0..tasks).collect::<VecDeque<_>>();
        while !next.is_empty() {
            for index in next.drain(..) {
                let Some(task) = &mut running[index] else { continue };
                if let Poll::Ready(done) = pin!(task).poll(&mut Context::from_waker(&wakers[index])) {
                    done?.result?.ok()?;
                    running[index] = None;
                }
            }
            std::mem::swap(&mut next, &mut *ready_queue.lock().expect("no thread panics with the lock"));
        }
        runs.push(start.elapsed().as_secs_f64() * 1e9 / tasks as f64);
    }
    runs.sort_by(f64::total_cmp);
    Ok(runs[RUNS / 2])
}
