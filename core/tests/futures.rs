//! Requests as futures, on tokio and other executors.

#![cfg(feature = "futures")]

mod devices;

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake};

use devices::{Action, Script, Scripted, request};
use gantry_core::driver::Capability;
use gantry_core::route::{BreakEven, Failover};
use gantry_core::{
    Algorithm, Completion, Gantry, Misuse, Outcome, QueueOptions, Session, SessionParams, Submission, TaskQueue,
    VirtualClock,
};

/// Length of these tests' requests; no known answer has this length.
const LENGTH: usize = 5;

/// Uses a virtual clock, so that no device is late on a slow machine.
fn gantry(drivers: &[&Scripted]) -> Gantry {
    let builder = Gantry::builder().policy(BreakEven).clock(Arc::new(VirtualClock::default()));
    drivers.iter().fold(builder, |builder, driver| builder.driver(*driver)).build()
}

#[test]
fn tasks_fill_the_lanes_together() {
    let capability = Capability { lanes: 4, break_even: 2, ..Capability::new(Algorithm::Null) };
    let lanes = Scripted::new(Script { capability, ..Script::new("lanes") });
    let software = Scripted::new(Script::new("software"));
    let gantry = gantry(&[&software, &lanes]);
    let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
    let queue = gantry.task_queue(QueueOptions::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..40)
            .map(|user| {
                let running = queue.run(&session, request(user));
                tokio::task::spawn(async move {
                    let completion = running.await.unwrap();
                    assert_eq!((completion.result, completion.user), (Ok(Outcome::Done), user));
                    assert_eq!(completion.submission.data(), [user as u8; LENGTH]);
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!((lanes.served(), software.served()), (40, 0), "no request ran alone");
}

#[test]
fn tasks_of_many_threads_share_a_ring_and_wait_for_room() {
    let ring = Scripted::new(Script { ring: Some(3), ..Script::new("ring") });
    let gantry = gantry(&[&ring]);
    let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
    let queue = gantry.task_queue(QueueOptions { depth: 4, ..QueueOptions::default() }).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().unwrap();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..100)
            .map(|user| {
                let (queue, session) = (queue.clone(), session.clone());
                tokio::task::spawn(async move {
                    for _ in 0..3 {
                        let completion = queue.run(&session, request(user)).await.unwrap();
                        assert_eq!((completion.result, completion.user), (Ok(Outcome::Done), user));
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(ring.served(), 300);
}

#[test]
fn dropping_tasks_does_not_affect_others() {
    let ring = Scripted::new(Script { ring: Some(1), ..Script::new("ring") });
    let gantry = gantry(&[&ring]);
    let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
    let queue = gantry.task_queue(QueueOptions::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..10).map(|user| tokio::task::spawn(queue.run(&session, request(user)))).collect();
        tokio::task::yield_now().await;
        for (user, task) in tasks.into_iter().enumerate() {
            if user % 2 == 0 {
                task.abort();
            } else {
                assert_eq!(task.await.unwrap().unwrap().user, user as u64);
            }
        }
    });
}

#[test]
fn misuse_is_the_error_of_the_future() {
    let gantry = gantry(&[&Scripted::new(Script::new("device"))]);
    let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
    let queue = gantry.task_queue(QueueOptions::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let wrong = runtime.block_on(queue.run(&session, Submission::digest(Vec::new())));
    assert!(matches!(wrong, Err(Misuse::Operation { .. })));
}

/// Returns a device that can notify but never answers, another device, their clock, and a framework.
fn silent() -> (Scripted, Scripted, Arc<VirtualClock>, Gantry) {
    let capability = Capability { synchronous: false, ..Capability::new(Algorithm::Null) };
    let script = Script { capability, ring: Some(4), notifies: true, ..Script::new("stalled") };
    let (stalled, good) = (Scripted::new(script.with_actions(|_| Action::Stall)), Scripted::new(Script::new("good")));
    let clock = Arc::new(VirtualClock::default());
    let builder = Gantry::builder().policy(Failover { order: vec!["stalled".into()] }).clock(clock.clone());
    let gantry = builder.driver(&good).driver(&stalled).build();
    (stalled, good, clock, gantry)
}

/// Later than any deadline.
const AFTER_ANY_DEADLINE_NS: u64 = 10_000_000_000;

#[test]
fn tasks_leave_a_stalled_device_without_an_explicit_timer() {
    let (stalled, good, clock, gantry) = silent();
    let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
    let queue = gantry.task_queue(QueueOptions::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let task = tokio::task::spawn(queue.run(&session, request(1)));
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert!(!task.is_finished());
        clock.advance_to(AFTER_ANY_DEADLINE_NS);
        assert_eq!(task.await.unwrap().unwrap().result, Ok(Outcome::Done));
    });
    assert_eq!((stalled.served(), good.served()), (1, 1));
}

/// Runs one task on a thread that parks: no reactor, no timer. `before_it_parks` gets the number of polls so far.
fn block_on<T>(future: impl Future<Output = T>, before_it_parks: impl Fn(usize)) -> T {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut future = std::pin::pin!(future);
    for polls in 1.. {
        if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return result;
        }
        before_it_parks(polls);
        std::thread::park();
    }
    unreachable!()
}

#[test]
fn an_executor_without_timers_leaves_a_stalled_device() {
    let (stalled, good, clock, gantry) = silent();
    let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
    let queue = gantry.task_queue(QueueOptions::default()).unwrap();
    // The second poll sends the request to the device.
    let make_late = |polls| {
        if polls == 2 {
            clock.advance_to(AFTER_ANY_DEADLINE_NS);
        }
    };
    let completion = block_on(queue.run(&session, request(1)), make_late).unwrap();
    assert_eq!(completion.result, Ok(Outcome::Done));
    assert_eq!((stalled.served(), good.served()), (1, 1));
}

#[test]
fn tasks_do_not_wait_for_the_coalescing_time() {
    let capability = Capability { lanes: 4, break_even: 2, ..Capability::new(Algorithm::Null) };
    let lanes = Scripted::new(Script { capability, ..Script::new("lanes") });
    let software = Scripted::new(Script::new("software"));
    let gantry = gantry(&[&software, &lanes]);
    let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
    let options = QueueOptions { coalesce: std::time::Duration::from_hours(1), ..QueueOptions::default() };
    // Another queue has a request that could be batched with this one. Time stands still.
    let mut other = gantry.queue(options.clone()).unwrap();
    other.submit(&session, request(7)).unwrap();
    let queue = gantry.task_queue(options).unwrap();
    let completion = block_on(queue.run(&session, request(1)), |_| ()).unwrap();
    assert_eq!((completion.result, completion.user), (Ok(Outcome::Done), 1));
    assert!(format!("{queue:?}").contains("timer: None"), "no device has requests in flight: {queue:?}");
    assert_eq!(other.wait(|completion| assert_eq!(completion.user, 7)), 1);
}

/// An executor that counts the polls of each task. A task is a request and checks its own result.
struct Counting {
    tasks: Vec<Option<Task>>,
    polls: Vec<usize>,
    ready: Arc<Mutex<VecDeque<usize>>>,
}

type Task = Pin<Box<dyn Future<Output = Result<Completion, Misuse>>>>;

struct Call {
    task: usize,
    ready: Arc<Mutex<VecDeque<usize>>>,
}

impl Wake for Call {
    fn wake(self: Arc<Self>) {
        let mut ready = self.ready.lock().unwrap();
        if !ready.contains(&self.task) {
            ready.push_back(self.task);
        }
    }
}

impl Counting {
    fn new() -> Self {
        Self { tasks: Vec::new(), polls: Vec::new(), ready: Arc::default() }
    }

    fn spawn(&mut self, queue: &TaskQueue, session: &Session, submission: Submission) {
        self.ready.lock().unwrap().push_back(self.tasks.len());
        self.tasks.push(Some(Box::pin(queue.run(session, submission))));
        self.polls.push(0);
    }

    /// Polls ready tasks, `most` times at most.
    fn run(&mut self, most: usize) {
        for _ in 0..most {
            let Some(task) = self.ready.lock().unwrap().pop_front() else { return };
            let Some(future) = &mut self.tasks[task] else { continue };
            self.polls[task] += 1;
            let waker = Arc::new(Call { task, ready: self.ready.clone() }).into();
            if let Poll::Ready(answer) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                assert_eq!(answer.unwrap().result, Ok(Outcome::Done));
                self.tasks[task] = None;
            }
        }
    }

    /// Runs all tasks to their end. Returns the maximum number of polls of a task.
    fn finish(&mut self) -> usize {
        self.run(usize::MAX);
        assert_eq!(self.tasks.iter().flatten().count(), 0, "no task sleeps forever");
        self.polls.iter().max().copied().unwrap_or(0)
    }
}

/// Returns a device that notifies of each completion.
fn notifying(slots: usize) -> Scripted {
    Scripted::new(Script { ring: Some(slots), notifies: true, ..Script::new("ring") }.with_actions(|_| Action::Notify))
}

/// Maximum polls of a task, however many tasks there are: to submit, to send, to take over the polling, for a notification, and in vain
/// while waiting for room.
const MAX_POLLS: usize = 8;
const MANY: u64 = if cfg!(miri) { 12 } else { 2000 };

#[test]
fn a_completion_wakes_its_own_task_and_at_most_one_other() {
    let ready = Arc::new(AtomicUsize::new(0));
    let remaining = ready.clone();
    let one_less = |count: usize| count.checked_sub(1);
    let is_ready = move || remaining.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok();
    let device = Scripted::new(
        Script { ring: Some(MANY as usize), notifies: true, ..Script::new("ring") }
            .with_actions(move |_| if is_ready() { Action::Work } else { Action::Wait }),
    );
    let gantry = gantry(&[&device]);
    let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
    let queue = gantry.task_queue(QueueOptions { depth: MANY as usize, ..QueueOptions::default() }).unwrap();
    let mut tasks = Counting::new();
    (0..MANY).for_each(|user| tasks.spawn(&queue, &session, request(user)));
    tasks.run(usize::MAX);
    assert!(tasks.polls.iter().all(|polls| *polls == 2), "one poll to submit, and one to send");
    for done in 1..=MANY as usize {
        ready.store(1, Ordering::SeqCst);
        queue.poll_once();
        tasks.run(usize::MAX);
        assert_eq!(tasks.tasks.iter().filter(|task| task.is_none()).count(), done);
    }
    assert!(tasks.finish() <= 4, "one more to poll for all, and one for the result");
}

#[test]
fn tasks_do_not_sleep_for_devices_in_the_calling_thread() {
    let device = Scripted::new(Script::new("device"));
    let gantry = gantry(&[&device]);
    let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
    let queue = gantry.task_queue(QueueOptions { depth: MANY as usize, ..QueueOptions::default() }).unwrap();
    let mut tasks = Counting::new();
    (0..MANY).for_each(|user| tasks.spawn(&queue, &session, request(user)));
    assert_eq!(tasks.finish(), 2);
    assert_eq!(device.served() as u64, MANY);
}

#[test]
fn tasks_that_wait_for_room_are_woken_when_there_is_some() {
    for depth in [1, 3, 64] {
        let ring = Scripted::new(Script { ring: Some(3), ..Script::new("ring") });
        for device in [Scripted::new(Script::new("device")), notifying(depth), ring] {
            let gantry = gantry(&[&device]);
            let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
            let queue = gantry.task_queue(QueueOptions { depth, ..QueueOptions::default() }).unwrap();
            let mut tasks = Counting::new();
            (0..MANY).for_each(|user| tasks.spawn(&queue, &session, request(user)));
            tasks.finish();
            let polls: usize = tasks.polls.iter().sum();
            assert!(polls <= MAX_POLLS * tasks.polls.len(), "{polls} with room for {depth}");
        }
    }
}

#[test]
fn a_large_completed_request_makes_room_for_several_small_ones() {
    let device = notifying(100);
    let gantry = gantry(&[&device]);
    let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
    let queue = gantry.task_queue(QueueOptions { bytes: 100 * LENGTH, ..QueueOptions::default() }).unwrap();
    let mut tasks = Counting::new();
    tasks.spawn(&queue, &session, Submission::encrypt(&[], vec![1; 100 * LENGTH]));
    (0..100).for_each(|user| tasks.spawn(&queue, &session, request(user)));
    tasks.run(1);
    assert!(tasks.finish() <= MAX_POLLS);
}

/// Returns a device that stalls, another device, their clock, and a framework.
fn stalling() -> (Scripted, Scripted, Arc<VirtualClock>, Gantry) {
    let stalled = Scripted::new(Script { ring: Some(100), ..Script::new("stalled") }.with_actions(|_| Action::Stall));
    let (good, clock) = (Scripted::new(Script::new("good")), Arc::new(VirtualClock::default()));
    let builder = Gantry::builder().policy(Failover { order: vec!["stalled".into()] }).clock(clock.clone());
    let gantry = builder.driver(&good).driver(&stalled).build();
    (stalled, good, clock, gantry)
}

#[test]
fn one_task_polls_for_all_if_a_device_does_not_notify() {
    const TASKS: usize = if cfg!(miri) { 5 } else { 50 };
    const POLLS: usize = if cfg!(miri) { 50 } else { 1000 };
    let (_stalled, good, clock, gantry) = stalling();
    let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
    let queue = gantry.task_queue(QueueOptions::default()).unwrap();
    let mut tasks = Counting::new();
    (0..TASKS as u64).for_each(|user| tasks.spawn(&queue, &session, request(user)));
    tasks.run(POLLS);
    let (pollers, others): (Vec<usize>, Vec<usize>) = tasks.polls.iter().partition(|polls| **polls > MAX_POLLS);
    assert_eq!((pollers.len(), others), (1, vec![2; TASKS - 1]), "{pollers:?}");

    // When the polling task is dropped, another one takes over. With more tasks, there is still only one.
    let poller = tasks.polls.iter().position(|polls| *polls > MAX_POLLS).unwrap();
    tasks.tasks[poller] = None;
    (0..TASKS as u64).for_each(|user| tasks.spawn(&queue, &session, request(user)));
    tasks.polls.fill(0);
    tasks.run(POLLS);
    assert_eq!(tasks.polls.iter().filter(|polls| **polls > MAX_POLLS).count(), 1, "{:?}", tasks.polls);

    clock.advance_to(AFTER_ANY_DEADLINE_NS);
    tasks.polls.fill(0);
    assert!(tasks.finish() <= MAX_POLLS);
    assert_eq!(good.served(), 2 * TASKS - 1 + 1, "the request of the dropped task ended, too");
}

#[test]
fn a_dropped_task_passes_its_wakeup_on() {
    let device = notifying(10);
    let gantry = gantry(&[&device]);
    let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
    let queue = gantry.task_queue(QueueOptions { depth: 1, ..QueueOptions::default() }).unwrap();
    let mut tasks = Counting::new();
    (0..4).for_each(|user| tasks.spawn(&queue, &session, request(user)));
    while tasks.tasks[0].is_some() {
        tasks.run(1);
    }
    // The second task has been woken but not polled yet.
    tasks.tasks[1] = None;
    assert!(tasks.finish() <= MAX_POLLS);
    assert_eq!(device.served(), 3);
}

#[test]
fn a_task_behind_an_abandoned_request_is_served() {
    let device = notifying(10);
    let gantry = gantry(&[&device]);
    let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
    let queue = gantry.task_queue(QueueOptions { depth: 1, ..QueueOptions::default() }).unwrap();
    let mut tasks = Counting::new();
    tasks.spawn(&queue, &session, request(0));
    tasks.run(2); // the device has the request
    tasks.spawn(&queue, &session, request(1));
    tasks.run(1);
    tasks.tasks[0] = None;
    assert!(tasks.finish() <= MAX_POLLS);
    assert_eq!(device.served(), 2);
}

#[test]
fn a_waker_may_drop_another_future() {
    /// Drops a future when woken.
    struct Ends(Mutex<Option<gantry_core::RequestFuture>>);
    impl Wake for Ends {
        fn wake(self: Arc<Self>) {
            let ended = self.0.lock().unwrap().take();
            drop(ended);
        }
    }
    let (_stalled, good, clock, gantry) = stalling();
    let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
    let queue = gantry.task_queue(QueueOptions::default()).unwrap();
    let mut other = queue.run(&session, request(1));
    let noop = std::task::Waker::noop();
    assert!(Pin::new(&mut other).poll(&mut Context::from_waker(noop)).is_pending());
    let ends = Arc::new(Ends(Mutex::new(None))).into();
    let mut tasks = [0, 2].map(|user| queue.run(&session, request(user)));
    for _ in 0..2 {
        for (task, waker) in tasks.iter_mut().zip([noop, &ends]) {
            assert!(Pin::new(task).poll(&mut Context::from_waker(waker)).is_pending());
        }
    }
    let ends = Arc::new(Ends(Mutex::new(Some(other))));
    let waker = ends.clone().into();
    assert!(Pin::new(&mut tasks[1]).poll(&mut Context::from_waker(&waker)).is_pending());
    clock.advance_to(AFTER_ANY_DEADLINE_NS);
    queue.poll_once();
    assert!(ends.0.lock().unwrap().is_none(), "the waker was called");
    assert_eq!(good.served(), 3);
}
