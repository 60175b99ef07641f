//! Asynchronous requests: the promises of queues, on scripted devices.

mod cancel;
#[path = "../devices/mod.rs"]
mod devices;
mod sharing;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use devices::{Action, Script, Scripted, in_order, request, session};
use gantry_core::driver::Capability;
use gantry_core::route::{BreakEven, Failover};
use gantry_core::{
    Algorithm, Clock, DeviceState, Error, Gantry, Misuse, Outcome, Priority, Queue, QueueOptions, RejectReason,
    Session, SessionParams, Submission, VirtualClock,
};

/// Length of these tests' requests; no known answer has this length.
const LENGTH: usize = 5;

/// Returns the user numbers of all completions, until nothing is in flight.
fn drain(queue: &mut Queue) -> Vec<u64> {
    let mut users = Vec::new();
    while queue.in_flight() > 0 {
        queue.wait(|completion| {
            assert_eq!(completion.result, Ok(Outcome::Done));
            assert_eq!(completion.submission.data(), [completion.user as u8; LENGTH]);
            users.push(completion.user);
        });
    }
    users
}

#[test]
fn every_submission_has_one_completion_with_its_buffers() {
    const MANY: u64 = if cfg!(miri) { 6 } else { 100 };
    for ring in [None, Some(1), Some(3)] {
        let device = Scripted::new(Script { ring, ..Script::new("device") });
        let gantry = in_order(&Arc::default(), &[&device]);
        let session = session(&gantry);
        let mut queue = gantry.queue(QueueOptions::default()).unwrap();
        for user in 0..MANY {
            queue.submit(&session, request(user)).unwrap();
        }
        assert_eq!(queue.in_flight() as u64, MANY);
        let mut users = drain(&mut queue);
        users.sort_unstable();
        assert_eq!(users, (0..MANY).collect::<Vec<_>>());
        assert_eq!(queue.complete(|_| panic!("nothing is left")), 0);
        assert_eq!(queue.wait(|_| panic!("nothing is left")), 0);
    }
}

#[test]
fn a_full_queue_returns_the_request_with_its_buffers() {
    let device = Scripted::new(Script { ring: Some(2), ..Script::new("device") });
    let gantry = in_order(&Arc::default(), &[&device]);
    let session = session(&gantry);
    let mut queue = gantry.queue(QueueOptions { depth: 4, ..QueueOptions::default() }).unwrap();
    for user in 0..4 {
        queue.submit(&session, request(user)).unwrap();
    }
    let rejected = queue.submit(&session, request(9)).unwrap_err();
    assert_eq!(rejected.why, RejectReason::Full);
    assert_eq!(rejected.submission.data(), [9; LENGTH]);
    queue.wait(|_| {});
    queue.submit(&session, rejected.submission).unwrap();
    drain(&mut queue);

    let mut queue = gantry.queue(QueueOptions { bytes: 3 * LENGTH, ..QueueOptions::default() }).unwrap();
    for user in 0..3 {
        queue.submit(&session, request(user)).unwrap();
    }
    assert_eq!(queue.submit(&session, request(3)).unwrap_err().why, RejectReason::Full);
    drain(&mut queue);
    let large = Submission::encrypt(&[], vec![0; 100]);
    queue.submit(&session, large).expect("an empty queue takes a request beyond its limit");
}

#[test]
fn misuse_is_returned_at_once() {
    let device = Scripted::new(Script::new("device"));
    let gantry = in_order(&Arc::default(), &[&device]);
    let session = session(&gantry);
    let mut queue = gantry.queue(QueueOptions::default()).unwrap();
    let rejected = queue.submit(&session, Submission::digest(vec![1])).unwrap_err();
    assert!(matches!(rejected.why, RejectReason::Misuse(Misuse::Operation { .. })), "{:?}", rejected.why);
    assert_eq!(queue.in_flight(), 0);

    let other = in_order(&Arc::default(), &[&device]);
    let rejected = queue.submit(&self::session(&other), request(0)).unwrap_err();
    assert!(matches!(rejected.why, RejectReason::Misuse(Misuse::Framework { .. })), "{:?}", rejected.why);

    for (what, options) in [
        ("depth", QueueOptions { depth: 0, ..QueueOptions::default() }),
        ("depth", QueueOptions { depth: usize::MAX, ..QueueOptions::default() }),
        ("bytes", QueueOptions { bytes: 0, ..QueueOptions::default() }),
        ("weight", QueueOptions { weight: 0, ..QueueOptions::default() }),
    ] {
        let error = gantry.queue(options).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
}

#[test]
fn max_sleep_ends_when_the_device_is_late() {
    let clock: Arc<VirtualClock> = Arc::default();
    let stalled = Scripted::new(Script { ring: Some(4), ..Script::new("stalled") }.with_actions(|_| Action::Stall));
    let good = Scripted::new(Script::new("good"));
    let gantry = in_order(&clock, &[&stalled, &good]);
    let session = session(&gantry);
    let mut queue = gantry.queue(QueueOptions::default()).unwrap();
    assert_eq!(queue.max_sleep(), None);
    queue.submit(&session, request(7)).unwrap();
    assert_eq!(queue.complete(|_| {}), 0);
    let max_sleep = queue.max_sleep().unwrap();
    assert_eq!(max_sleep, Duration::from_nanos(1_000_000_001), "the default deadline of an unknown device");
    clock.advance_to(max_sleep.as_nanos() as u64 - 2);
    assert_eq!(queue.complete(|_| {}), 0);
    clock.spend(2);
    assert_eq!(queue.complete(|completion| assert_eq!(completion.result, Ok(Outcome::Done))), 1);
    assert_eq!((stalled.served(), good.served()), (1, 1));
}

#[test]
#[cfg_attr(miri, ignore = "minutes, and others lend memory in the same way")]
fn any_coalescing_time_works() {
    let clock = Arc::default();
    for (gather, done) in [(Duration::ZERO, 1), (Duration::from_secs(18_446_744_074), 0), (Duration::MAX, 0)] {
        let (_, _, session, mut queue) = lanes(&clock, gather);
        let mut second = session.gantry().queue(QueueOptions::default()).unwrap();
        // Another queue has a similar request, so a batch may form.
        second.submit(&session, request(7)).unwrap();
        queue.submit(&session, request(0)).unwrap();
        clock.spend(1_000_000_000);
        assert_eq!(queue.complete(|_| {}), done, "{gather:?}");
        queue.flush();
        assert_eq!(queue.complete(|_| {}), 1 - done);
    }
}

/// Returns a device with four lanes, plain software, and a queue with this coalescing time.
fn lanes(clock: &Arc<VirtualClock>, gather: Duration) -> (Scripted, Scripted, Session, Queue) {
    let capability = Capability { lanes: 4, break_even: 2, ..Capability::new(Algorithm::Null) };
    let lanes = Scripted::new(Script { capability, ..Script::new("lanes") });
    let software = Scripted::new(Script::new("software"));
    let gantry = Gantry::builder().policy(BreakEven).clock(clock.clone()).driver(&software).driver(&lanes).build();
    let queue = gantry.queue(QueueOptions { coalesce: gather, ..QueueOptions::default() }).unwrap();
    (lanes, software, session(&gantry), queue)
}

#[test]
fn requests_wait_until_the_batch_is_full() {
    let clock = Arc::default();
    let (lanes, software, session, mut queue) = lanes(&clock, Duration::from_micros(20));
    for user in 0..3 {
        queue.submit(&session, request(user)).unwrap();
    }
    assert_eq!(queue.complete(|_| {}), 0);
    assert_eq!(lanes.served() + software.served(), 0);
    // A request of another session counts, too.
    let other = session.gantry().session(SessionParams::new(Algorithm::Null, &[])).unwrap();
    queue.submit(&other, request(3)).unwrap();
    let mut users = Vec::new();
    assert_eq!(queue.complete(|completion| users.push(completion.user)), 4);
    users.sort_unstable();
    assert_eq!((users, lanes.served()), (vec![0, 1, 2, 3], 4));
}

#[test]
fn requests_for_this_thread_are_sent_in_bursts() {
    let clock = Arc::default();
    let (lanes, _, session, mut queue) = lanes(&clock, Duration::from_micros(20));
    for user in 0..31 {
        queue.submit(&session, request(user)).unwrap();
    }
    assert_eq!(lanes.served(), 0, "no completions were requested, and more requests may come");
    queue.submit(&session, request(31)).unwrap();
    assert_eq!(lanes.served(), 32, "the burst is full");
    assert_eq!(drain(&mut queue).len(), 32);

    let large = || Submission::encrypt(&[], vec![0; 16 << 10]);
    let tickets: Vec<_> = (0..4).map(|_| queue.submit(&session, large()).unwrap()).collect();
    assert!(queue.cancel(tickets[3]).is_none(), "large requests do not wait");
    let small = queue.submit(&session, request(0)).unwrap();
    assert!(queue.cancel(small).is_some());
    assert_eq!(queue.wait(|_| {}), 4);

    // With immediate completions, requests are not held back.
    let notified = Arc::new(AtomicUsize::new(0));
    let count = notified.clone();
    let immediate: Option<Arc<dyn Fn(gantry_core::Completion) + Send + Sync>> = Some(Arc::new(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
    }));
    let mut queue = session.gantry().queue(QueueOptions { immediate, ..QueueOptions::default() }).unwrap();
    for _ in 0..4 {
        queue.submit(&session, request(0)).unwrap();
    }
    assert_eq!(notified.load(Ordering::Relaxed), 4);
}

#[test]
fn requests_wait_at_most_for_the_coalescing_time_and_only_for_others() {
    let clock: Arc<VirtualClock> = Arc::default();
    let (lanes, software, session, mut queue) = lanes(&clock, Duration::from_micros(20));
    let mut second = session.gantry().queue(QueueOptions::default()).unwrap();
    // Another queue has a similar request, so a batch may form.
    second.submit(&session, request(7)).unwrap();
    queue.submit(&session, request(0)).unwrap();
    assert_eq!(queue.complete(|_| {}) + queue.complete(|_| {}), 0);
    clock.spend(20_000);
    let mut users = Vec::new();
    queue.complete(|completion| users.push(completion.user));
    assert_eq!(users, [0]);
    assert_eq!(software.served() + lanes.served(), 1);
    assert_eq!(drain(&mut second), [7]);

    // No other queue has a similar request: waiting ends at the second call without a new request.
    queue.submit(&session, request(1)).unwrap();
    assert_eq!(queue.complete(|_| {}), 0);
    assert_eq!(queue.complete(|_| {}), 1);
}

#[test]
#[cfg_attr(miri, ignore = "minutes, and others lend memory in the same way")]
fn queues_share_batches() {
    let clock: Arc<VirtualClock> = Arc::default();
    let (lanes, _, session, mut one) = lanes(&clock, Duration::from_micros(20));
    let mut two = session.gantry().queue(QueueOptions::default()).unwrap();
    for user in 0..2 {
        one.submit(&session, request(user)).unwrap();
        two.submit(&session, request(10 + user)).unwrap();
    }
    assert_eq!(one.complete(|_| {}), 0);
    assert_eq!(two.complete(|_| {}), 2, "the second queue found a full batch and ran it");
    assert_eq!(lanes.served(), 4);
    let mut users = drain(&mut one);
    users.sort_unstable();
    assert_eq!(users, [0, 1]);
}

#[test]
fn ordered_sessions_complete_in_order() {
    let ring = Scripted::new(Script { ring: Some(8), backwards: true, ..Script::new("ring") });
    let gantry = in_order(&Arc::default(), &[&ring]);
    let ordered = gantry.session(SessionParams::new(Algorithm::Null, &[]).ordered()).unwrap();
    let free = session(&gantry);
    let mut queue = gantry.queue(QueueOptions::default()).unwrap();
    for user in 0..40 {
        queue.submit(if user % 2 == 0 { &ordered } else { &free }, request(user)).unwrap();
    }
    let (even, odd): (Vec<u64>, Vec<u64>) = drain(&mut queue).into_iter().partition(|user| user % 2 == 0);
    assert!(even.is_sorted(), "{even:?}");
    assert!(!odd.is_sorted(), "the device changes the order: {odd:?}");
    assert_eq!((even.len(), odd.len()), (20, 20));
}

#[test]
fn a_queue_can_be_dropped_while_a_device_has_its_requests() {
    for ring in [None, Some(2)] {
        let device = Scripted::new(Script { ring, ..Script::new("device") });
        let gantry = in_order(&Arc::default(), &[&device]);
        let session = session(&gantry);
        let mut queue = gantry.queue(QueueOptions::default()).unwrap();
        for user in 0..5 {
            queue.submit(&session, request(user)).unwrap();
        }
        drop(queue);
        let mut queue = gantry.queue(QueueOptions::default()).unwrap();
        queue.submit(&session, request(6)).unwrap();
        assert_eq!(drain(&mut queue), [6], "the device continues");
    }
}

#[test]
fn immediate_completions_need_no_call() {
    let users: Arc<Mutex<Vec<u64>>> = Arc::default();
    let log = users.clone();
    let immediate = Arc::new(move |completion: gantry_core::Completion| log.lock().unwrap().push(completion.user));
    let device = Scripted::new(Script::new("device"));
    let gantry = in_order(&Arc::default(), &[&device]);
    let session = session(&gantry);
    let options = QueueOptions { immediate: Some(immediate), ..QueueOptions::default() };
    let mut queue = gantry.queue(options).unwrap();
    queue.submit(&session, request(3)).unwrap();
    assert_eq!(*users.lock().unwrap(), [3]);
    assert_eq!(queue.complete(|_| panic!("already delivered")), 0);
}

#[test]
#[cfg_attr(miri, ignore = "minutes, and others lend memory in the same way")]
fn a_stalled_device_is_quarantined_and_returns_after_its_known_answer_test() {
    let clock: Arc<VirtualClock> = Arc::default();
    let stalls = Scripted::new(
        Script { ring: Some(8), ..Script::new("stalls") }
            .with_actions(|n| if n == 2 { Action::Stall } else { Action::Work }),
    );
    let software = Scripted::new(Script::new("software"));
    let gantry = in_order(&clock, &[&stalls, &software]);
    let session = session(&gantry);
    let mut queue = gantry.queue(QueueOptions::default()).unwrap();
    for user in 0..6 {
        queue.submit(&session, request(user)).unwrap();
    }
    let mut users = drain(&mut queue);
    users.sort_unstable();
    assert_eq!(users, (0..6).collect::<Vec<_>>(), "each once");
    assert_eq!(gantry.device("stalls").unwrap().state(), DeviceState::Quarantined);
    let before = stalls.served();
    queue.submit(&session, request(6)).unwrap();
    assert_eq!((drain(&mut queue), stalls.served()), (vec![6], before), "it serves no request");

    clock.spend(10_000_000_000);
    queue.submit(&session, request(7)).unwrap();
    assert_eq!(drain(&mut queue), [7]);
    assert_eq!(gantry.device("stalls").unwrap().state(), DeviceState::Ready);
    assert_eq!(stalls.served(), before + 1, "the device passed its test and serves again");
}

#[test]
fn requests_wait_only_briefly_for_a_device_on_probation() {
    let clock: Arc<VirtualClock> = Arc::default();
    let down = Arc::new(AtomicBool::new(false));
    let silent = down.clone();
    let stalls = Script { ring: Some(8), tests: true, ..Script::new("stalls") };
    let stalls =
        stalls.with_actions(move |_| if silent.load(Ordering::Relaxed) { Action::Stall } else { Action::Work });
    let stalls = Scripted::new(stalls);
    let software = Scripted::new(Script::new("software"));
    let gantry = in_order(&clock, &[&stalls, &software]);
    let session = session(&gantry);
    let mut queue = gantry.queue(QueueOptions::default()).unwrap();
    queue.submit(&session, request(0)).unwrap();
    assert_eq!(drain(&mut queue), [0]);
    down.store(true, Ordering::Relaxed);
    queue.submit(&session, request(1)).unwrap();
    assert_eq!(drain(&mut queue), [1]);
    let state = || gantry.device("stalls").unwrap().state();
    assert_eq!(state(), DeviceState::Quarantined);

    clock.spend(200_000_000);
    let before = clock.now();
    queue.submit(&session, request(2)).unwrap();
    assert_eq!(drain(&mut queue), [2]);
    let waited = clock.now() - before;
    assert!((1_000_000..5_000_000).contains(&waited), "the wait for a device that used to be fast: {waited}");
    assert_eq!(state(), DeviceState::Quarantined);

    let before = clock.now();
    queue.submit(&session, request(3)).unwrap();
    assert_eq!((drain(&mut queue), clock.now() - before), (vec![3], 0), "requests no longer wait for it");

    down.store(false, Ordering::Relaxed);
    clock.spend(1_000_000_000);
    queue.submit(&session, request(4)).unwrap();
    assert_eq!((drain(&mut queue), state()), (vec![4], DeviceState::Quarantined), "its requests are lost");
    clock.spend(1_000_000_000);
    queue.submit(&session, request(5)).unwrap();
    assert_eq!((drain(&mut queue), state()), (vec![5], DeviceState::Ready));
}

#[test]
fn a_request_that_no_device_can_run_returns_its_buffers_with_the_error() {
    let bad = Scripted::new(Script { ring: Some(4), ..Script::new("bad") }.with_actions(|_| Action::Fail));
    let gantry = in_order(&Arc::default(), &[&bad]);
    let session = session(&gantry);
    let mut queue = gantry.queue(QueueOptions::default()).unwrap();
    queue.submit(&session, request(4)).unwrap();
    let mut answers = Vec::new();
    queue.wait(|completion| answers.push((completion.result, completion.submission.data().to_vec())));
    assert!(matches!(answers[..], [(Err(Error::Device { .. }), ref data)] if data == &[4; LENGTH]), "{answers:?}");
}

#[test]
fn a_cancelled_request_no_longer_counts_for_batches() {
    let clock = Arc::default();
    let (lanes, software, session, mut queue) = lanes(&clock, Duration::from_secs(1));
    let ticket = queue.submit(&session, request(0)).unwrap();
    queue.cancel(ticket).unwrap();
    queue.submit(&session, request(1)).unwrap();
    assert_eq!(drain(&mut queue), [1]);
    assert!(clock.now() < 1_000_000_000, "the request does not wait for the cancelled one");
    assert_eq!(lanes.served() + software.served(), 1);
}

#[test]
fn a_group_outlives_the_session_that_began_it() {
    let clock = Arc::default();
    let (lanes, software, first, mut queue) = lanes(&clock, Duration::from_secs(1));
    let gantry = first.gantry().clone();
    let (second, third) = (session(&gantry), session(&gantry));
    let ticket = queue.submit(&first, request(0)).unwrap();
    queue.submit(&second, request(1)).unwrap();
    queue.cancel(ticket).unwrap();
    // The first session's index is free now, and this session takes it.
    queue.submit(&third, Submission::decrypt(&[], vec![2; LENGTH]).user(2)).unwrap();
    let mut users = drain(&mut queue);
    users.sort_unstable();
    assert_eq!(users, [1, 2]);
    assert_eq!(lanes.served() + software.served(), 2);
}

/// A waker that does nothing.
struct Deaf;

impl std::task::Wake for Deaf {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn arming_a_queue_sends_its_waiting_requests() {
    let clock = Arc::default();
    let (_lanes, _software, session, mut one) = lanes(&clock, Duration::from_secs(1));
    let mut other =
        session.gantry().queue(QueueOptions { coalesce: Duration::from_secs(1), ..QueueOptions::default() }).unwrap();
    one.submit(&session, request(1)).unwrap();
    other.submit(&session, request(2)).unwrap();
    let waker = Arc::new(Deaf).into();
    for queue in [&mut one, &mut other] {
        assert!(!queue.arm(&waker), "a completion is ready, or the device must be polled");
    }
    let mut users = Vec::new();
    one.complete(|completion| users.push(completion.user));
    other.complete(|completion| users.push(completion.user));
    assert_eq!(users, [1, 2]);
}
