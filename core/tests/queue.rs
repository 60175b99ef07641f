//! Asynchronous dispatch: what queues promise, on devices that do what a test says.

mod devices;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use devices::{Deed, Script, Scripted, in_order, request, session};
use gantry_core::driver::Capability;
use gantry_core::route::{BreakEven, Failover};
use gantry_core::{
    Algorithm, Clock, DeviceState, Error, Gantry, Misuse, Outcome, Priority, Queue, QueueOptions, Session,
    SessionParams, Submission, VirtualClock, Why,
};

/// Of the requests of these tests; no known answer has this length.
const LENGTH: usize = 5;

/// The users of all completions, until nothing is in flight.
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
fn full_hands_the_request_back_with_its_buffers() {
    let device = Scripted::new(Script { ring: Some(2), ..Script::new("device") });
    let gantry = in_order(&Arc::default(), &[&device]);
    let session = session(&gantry);
    let mut queue = gantry.queue(QueueOptions { depth: 4, ..QueueOptions::default() }).unwrap();
    for user in 0..4 {
        queue.submit(&session, request(user)).unwrap();
    }
    let rejected = queue.submit(&session, request(9)).unwrap_err();
    assert_eq!(rejected.why, Why::Full);
    assert_eq!(rejected.submission.data(), [9; LENGTH]);
    queue.wait(|_| {});
    queue.submit(&session, rejected.submission).unwrap();
    drain(&mut queue);

    let mut queue = gantry.queue(QueueOptions { bytes: 3 * LENGTH, ..QueueOptions::default() }).unwrap();
    for user in 0..3 {
        queue.submit(&session, request(user)).unwrap();
    }
    assert_eq!(queue.submit(&session, request(3)).unwrap_err().why, Why::Full);
    drain(&mut queue);
    let large = Submission::encrypt(&[], vec![0; 100]);
    queue.submit(&session, large).expect("one may be larger than all together, where nothing else is");
}

#[test]
fn mistakes_come_back_at_once() {
    let device = Scripted::new(Script::new("device"));
    let gantry = in_order(&Arc::default(), &[&device]);
    let session = session(&gantry);
    let mut queue = gantry.queue(QueueOptions::default()).unwrap();
    let rejected = queue.submit(&session, Submission::digest(vec![1])).unwrap_err();
    assert!(matches!(rejected.why, Why::Misuse(Misuse::Operation { .. })), "{:?}", rejected.why);
    assert_eq!(queue.in_flight(), 0);

    let other = in_order(&Arc::default(), &[&device]);
    let rejected = queue.submit(&self::session(&other), request(0)).unwrap_err();
    assert!(matches!(rejected.why, Why::Misuse(Misuse::Framework { .. })), "{:?}", rejected.why);

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
fn who_sleeps_knows_for_how_long() {
    let clock: Arc<VirtualClock> = Arc::default();
    let stalled = Scripted::new(Script { ring: Some(4), ..Script::new("stalled") }.doing(|_| Deed::Stall));
    let good = Scripted::new(Script::new("good"));
    let gantry = in_order(&clock, &[&stalled, &good]);
    let session = session(&gantry);
    let mut queue = gantry.queue(QueueOptions::default()).unwrap();
    assert_eq!(queue.patience(), None);
    queue.submit(&session, request(7)).unwrap();
    assert_eq!(queue.complete(|_| {}), 0);
    let patience = queue.patience().unwrap();
    assert_eq!(patience, Duration::from_nanos(1_000_000_001), "nothing was learned of this device yet");
    clock.advance_to(patience.as_nanos() as u64 - 2);
    assert_eq!(queue.complete(|_| {}), 0);
    clock.spend(2);
    assert_eq!(queue.complete(|completion| assert_eq!(completion.result, Ok(Outcome::Done))), 1);
    assert_eq!((stalled.served(), good.served()), (1, 1));
}

#[test]
fn no_gathering_time_is_too_long_or_too_short() {
    let clock = Arc::default();
    for (gather, done) in [(Duration::ZERO, 1), (Duration::from_secs(18_446_744_074), 0), (Duration::MAX, 0)] {
        let (_, _, session, mut queue) = lanes(&clock, gather);
        let mut second = session.gantry().queue(QueueOptions::default()).unwrap();
        // Somebody else has something of the kind, so company may come.
        second.submit(&session, request(7)).unwrap();
        queue.submit(&session, request(0)).unwrap();
        clock.spend(1_000_000_000);
        assert_eq!(queue.complete(|_| {}), done, "{gather:?}");
        queue.flush();
        assert_eq!(queue.complete(|_| {}), 1 - done);
    }
}

/// A device with four lanes beside plain software, and a queue that gathers.
fn lanes(clock: &Arc<VirtualClock>, gather: Duration) -> (Scripted, Scripted, Session, Queue) {
    let capability = Capability { lanes: 4, break_even: 2, ..Capability::new(Algorithm::Null) };
    let lanes = Scripted::new(Script { capability, ..Script::new("lanes") });
    let software = Scripted::new(Script::new("software"));
    let gantry = Gantry::builder().policy(BreakEven).clock(clock.clone()).driver(&software).driver(&lanes).build();
    let queue = gantry.queue(QueueOptions { coalesce: gather, ..QueueOptions::default() }).unwrap();
    (lanes, software, session(&gantry), queue)
}

#[test]
fn requests_wait_for_company_until_they_are_enough() {
    let clock = Arc::default();
    let (lanes, software, session, mut queue) = lanes(&clock, Duration::from_micros(20));
    for user in 0..3 {
        queue.submit(&session, request(user)).unwrap();
    }
    assert_eq!(queue.complete(|_| {}), 0);
    assert_eq!(lanes.served() + software.served(), 0);
    // Of another session: company all the same.
    let other = session.gantry().session(SessionParams::new(Algorithm::Null, &[])).unwrap();
    queue.submit(&other, request(3)).unwrap();
    let mut users = Vec::new();
    assert_eq!(queue.complete(|completion| users.push(completion.user)), 4);
    users.sort_unstable();
    assert_eq!((users, lanes.served()), (vec![0, 1, 2, 3], 4));
}

#[test]
fn what_this_thread_would_run_itself_is_sent_in_bursts() {
    let clock = Arc::default();
    let (lanes, _, session, mut queue) = lanes(&clock, Duration::from_micros(20));
    for user in 0..31 {
        queue.submit(&session, request(user)).unwrap();
    }
    assert_eq!(lanes.served(), 0, "nobody has asked for completions, and more may come");
    queue.submit(&session, request(31)).unwrap();
    assert_eq!(lanes.served(), 32, "they are enough");
    assert_eq!(drain(&mut queue).len(), 32);

    let large = || Submission::encrypt(&[], vec![0; 16 << 10]);
    let tickets: Vec<_> = (0..4).map(|_| queue.submit(&session, large()).unwrap()).collect();
    assert!(queue.cancel(tickets[3]).is_none(), "so many bytes do not wait");
    let small = queue.submit(&session, request(0)).unwrap();
    assert!(queue.cancel(small).is_some());
    assert_eq!(queue.wait(|_| {}), 4);

    // Who wants to be told at once gets it at once.
    let told = Arc::new(AtomicUsize::new(0));
    let count = told.clone();
    let immediate: Option<Arc<dyn Fn(gantry_core::Completion) + Send + Sync>> = Some(Arc::new(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
    }));
    let mut queue = session.gantry().queue(QueueOptions { immediate, ..QueueOptions::default() }).unwrap();
    for _ in 0..4 {
        queue.submit(&session, request(0)).unwrap();
    }
    assert_eq!(told.load(Ordering::Relaxed), 4);
}

#[test]
fn nobody_waits_longer_than_the_gathering_time_or_for_nobody() {
    let clock: Arc<VirtualClock> = Arc::default();
    let (lanes, software, session, mut queue) = lanes(&clock, Duration::from_micros(20));
    let mut second = session.gantry().queue(QueueOptions::default()).unwrap();
    // Somebody else has something of the kind, so company may come.
    second.submit(&session, request(7)).unwrap();
    queue.submit(&session, request(0)).unwrap();
    assert_eq!(queue.complete(|_| {}) + queue.complete(|_| {}), 0);
    clock.spend(20_000);
    let mut users = Vec::new();
    queue.complete(|completion| users.push(completion.user));
    assert_eq!(users, [0]);
    assert_eq!(software.served() + lanes.served(), 1);
    assert_eq!(drain(&mut second), [7]);

    // Nobody else has: the second time that nothing was added, there is no point in waiting.
    queue.submit(&session, request(1)).unwrap();
    assert_eq!(queue.complete(|_| {}), 0);
    assert_eq!(queue.complete(|_| {}), 1);
}

#[test]
fn queues_keep_each_other_company() {
    let clock: Arc<VirtualClock> = Arc::default();
    let (lanes, _, session, mut one) = lanes(&clock, Duration::from_micros(20));
    let mut two = session.gantry().queue(QueueOptions::default()).unwrap();
    for user in 0..2 {
        one.submit(&session, request(user)).unwrap();
        two.submit(&session, request(10 + user)).unwrap();
    }
    assert_eq!(one.complete(|_| {}), 0);
    assert_eq!(two.complete(|_| {}), 2, "the second one found enough of them there, and ran them all");
    assert_eq!(lanes.served(), 4);
    let mut users = drain(&mut one);
    users.sort_unstable();
    assert_eq!(users, [0, 1]);
}

#[test]
fn sessions_that_ask_for_order_have_it() {
    let ring = Scripted::new(Script { ring: Some(8), backwards: true, ..Script::new("ring") });
    let gantry = in_order(&Arc::default(), &[&ring]);
    let ordered = gantry.session(SessionParams::new(Algorithm::Null, &[]).in_order()).unwrap();
    let free = session(&gantry);
    let mut queue = gantry.queue(QueueOptions::default()).unwrap();
    for user in 0..40 {
        queue.submit(if user % 2 == 0 { &ordered } else { &free }, request(user)).unwrap();
    }
    let (even, odd): (Vec<u64>, Vec<u64>) = drain(&mut queue).into_iter().partition(|user| user % 2 == 0);
    assert!(even.is_sorted(), "{even:?}");
    assert!(!odd.is_sorted(), "the device really changes the order: {odd:?}");
    assert_eq!((even.len(), odd.len()), (20, 20));
}

#[test]
fn what_no_device_has_can_be_cancelled() {
    let clock = Arc::default();
    let (lanes, _, session, mut queue) = lanes(&clock, Duration::from_micros(20));
    let tickets: Vec<_> = (0..3).map(|user| queue.submit(&session, request(user)).unwrap()).collect();
    let back = queue.cancel(tickets[1]).expect("it waits for company");
    assert_eq!(back.data(), [1; LENGTH]);
    assert!(queue.cancel(tickets[1]).is_none(), "once");
    assert_eq!(drain(&mut queue), [0, 2]);
    assert!(queue.cancel(tickets[0]).is_none(), "it is done");
    assert_eq!(lanes.served(), 2);

    // Two in the ring, and three that wait for room.
    let ring = Scripted::new(Script { ring: Some(2), shared: true, ..Script::new("ring") });
    let gantry = in_order(&Arc::default(), &[&ring]);
    let session = gantry.session(SessionParams::new(Algorithm::Null, &[]).in_order()).unwrap();
    let mut queue = gantry.queue(QueueOptions::default()).unwrap();
    let tickets: Vec<_> = (0..5).map(|user| queue.submit(&session, request(user)).unwrap()).collect();
    assert!(queue.cancel(tickets[0]).is_none(), "it is in the device");
    assert!(queue.cancel(tickets[3]).is_some());
    assert_eq!(drain(&mut queue), [0, 1, 2, 4]);
}

#[test]
fn what_lies_where_others_may_take_it_along_can_be_cancelled() {
    let clock: Arc<VirtualClock> = Arc::default();
    let (lanes, software, session, mut one) = lanes(&clock, Duration::from_secs(1));
    let mut two =
        session.gantry().queue(QueueOptions { coalesce: Duration::from_secs(1), ..Default::default() }).unwrap();
    let tickets: Vec<_> = (0..2).map(|user| one.submit(&session, request(user)).unwrap()).collect();
    let other = two.submit(&session, request(10)).unwrap();
    assert_eq!(one.complete(|_| {}) + two.complete(|_| {}), 0, "three lie there, and wait for a fourth");
    assert_eq!(one.cancel(tickets[0]).expect("no device has it").data(), [0; LENGTH]);
    assert!(one.cancel(tickets[0]).is_none(), "once");
    assert!(two.cancel(other).is_none(), "who took back its own has sent off what others had there");
    let mut users = Vec::new();
    two.complete(|completion| users.push(completion.user));
    assert_eq!(users, [10]);
    assert_eq!(one.cancel(tickets[1]).expect("its own it has kept").data(), [1; LENGTH]);
    assert_eq!((one.in_flight(), two.in_flight()), (0, 0));

    // Nobody counts on those who are gone.
    one.submit(&session, request(3)).unwrap();
    assert_eq!(drain(&mut one), [3]);
    assert!(clock.now() < 1_000_000_000);
    assert_eq!(lanes.served() + software.served(), 2);
}

#[test]
fn requests_that_are_cancelled_while_others_take_them_along_end_once() {
    const EACH: u64 = if cfg!(miri) { 6 } else { 300 };
    let clock = Arc::default();
    let (lanes, software, session, _) = lanes(&clock, Duration::ZERO);
    let (mut done, mut cancelled) = (0, 0);
    std::thread::scope(|scope| {
        let threads = [0, 100].map(|base| {
            let session = &session;
            scope.spawn(move || {
                let options = QueueOptions { coalesce: Duration::from_millis(1), ..QueueOptions::default() };
                let mut queue = session.gantry().queue(options).unwrap();
                let (mut users, mut back) = (Vec::new(), Vec::new());
                for round in 0..EACH {
                    let user = base + round % 100;
                    let tickets = [(); 2].map(|()| queue.submit(session, request(user)).unwrap());
                    queue.complete(|completion| users.push(completion.user));
                    back.extend(queue.cancel(tickets[round as usize % 2]).map(|submission| submission.data()[0]));
                    while queue.in_flight() > 0 {
                        queue.wait(|completion| users.push(completion.user));
                    }
                }
                let own = |user: &u64| (base..base + 100).contains(user);
                assert!(users.iter().all(own) && back.iter().all(|user| own(&u64::from(*user))));
                assert_eq!((users.len() + back.len()) as u64, 2 * EACH, "each ends once");
                (users.len(), back.len())
            })
        });
        for thread in threads {
            let (users, back) = thread.join().unwrap();
            done += users;
            cancelled += back;
        }
    });
    assert!(cancelled > 0);
    assert_eq!(lanes.served() + software.served(), done);
}

#[test]
fn a_queue_can_go_while_a_device_has_its_requests() {
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
        assert_eq!(drain(&mut queue), [6], "the device goes on");
    }
}

#[test]
fn immediate_completions_need_no_call() {
    let seen: Arc<Mutex<Vec<u64>>> = Arc::default();
    let log = seen.clone();
    let immediate = Arc::new(move |completion: gantry_core::Completion| log.lock().unwrap().push(completion.user));
    let device = Scripted::new(Script::new("device"));
    let gantry = in_order(&Arc::default(), &[&device]);
    let session = session(&gantry);
    let options = QueueOptions { immediate: Some(immediate), ..QueueOptions::default() };
    let mut queue = gantry.queue(options).unwrap();
    queue.submit(&session, request(3)).unwrap();
    assert_eq!(*seen.lock().unwrap(), [3]);
    assert_eq!(queue.complete(|_| panic!("it was delivered")), 0);
}

#[test]
fn a_device_that_stalls_is_left_and_comes_back_by_its_known_answers() {
    let clock: Arc<VirtualClock> = Arc::default();
    let stalls = Scripted::new(
        Script { ring: Some(8), ..Script::new("stalls") }.doing(|n| if n == 2 { Deed::Stall } else { Deed::Work }),
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
    assert_eq!((drain(&mut queue), stalls.served()), (vec![6], before), "it serves nobody");

    clock.spend(10_000_000_000);
    queue.submit(&session, request(7)).unwrap();
    assert_eq!(drain(&mut queue), [7]);
    assert_eq!(gantry.device("stalls").unwrap().state(), DeviceState::Ready);
    assert_eq!(stalls.served(), before + 1, "it passed its test and serves again");
}

#[test]
fn who_asks_while_a_device_is_on_trial_waits_for_a_moment_only() {
    let clock: Arc<VirtualClock> = Arc::default();
    let down = Arc::new(AtomicBool::new(false));
    let silent = down.clone();
    let stalls = Script { ring: Some(8), tests: true, ..Script::new("stalls") };
    let stalls = stalls.doing(move |_| if silent.load(Ordering::Relaxed) { Deed::Stall } else { Deed::Work });
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
    assert!((1_000_000..5_000_000).contains(&waited), "a device that used to answer at once: {waited}");
    assert_eq!(state(), DeviceState::Quarantined);

    let before = clock.now();
    queue.submit(&session, request(3)).unwrap();
    assert_eq!((drain(&mut queue), clock.now() - before), (vec![3], 0), "it has been waited for");

    down.store(false, Ordering::Relaxed);
    clock.spend(1_000_000_000);
    queue.submit(&session, request(4)).unwrap();
    assert_eq!((drain(&mut queue), state()), (vec![4], DeviceState::Quarantined), "what it was given is lost");
    clock.spend(1_000_000_000);
    queue.submit(&session, request(5)).unwrap();
    assert_eq!((drain(&mut queue), state()), (vec![5], DeviceState::Ready));
}

#[test]
fn what_no_device_can_do_is_an_error_with_the_buffers() {
    let bad = Scripted::new(Script { ring: Some(4), ..Script::new("bad") }.doing(|_| Deed::Fail));
    let gantry = in_order(&Arc::default(), &[&bad]);
    let session = session(&gantry);
    let mut queue = gantry.queue(QueueOptions::default()).unwrap();
    queue.submit(&session, request(4)).unwrap();
    let mut answers = Vec::new();
    queue.wait(|completion| answers.push((completion.result, completion.submission.data().to_vec())));
    assert!(matches!(answers[..], [(Err(Error::Device { .. }), ref data)] if data == &[4; LENGTH]), "{answers:?}");
}

/// How the requests of several queues share a device that has room for one.
fn served(senders: &[(Priority, u32)], served: usize) -> Vec<usize> {
    let ring = Scripted::new(Script { ring: Some(1), shared: true, ..Script::new("ring") });
    let gantry = in_order(&Arc::default(), &[&ring]);
    let session = session(&gantry);
    let mut queues: Vec<Queue> = (senders.iter())
        .map(|(class, weight)| {
            let options = QueueOptions { class: *class, weight: *weight, depth: 64, ..QueueOptions::default() };
            gantry.queue(options).unwrap()
        })
        .collect();
    let mut log = Vec::new();
    while log.len() < served {
        for (index, queue) in queues.iter_mut().enumerate() {
            while queue.submit(&session, request(index as u64)).is_ok() {}
        }
        for queue in &mut queues {
            queue.complete(|completion| log.push(completion.user as usize));
        }
    }
    log
}

fn count(log: &[usize], sender: usize) -> usize {
    log.iter().filter(|other| **other == sender).count()
}

#[test]
#[cfg_attr(miri, ignore = "thousands of requests")]
fn queues_share_a_full_device_by_weight() {
    let log = served(&[(Priority::Normal, 1), (Priority::Normal, 3)], 4000);
    let (one, three) = (count(&log, 0), count(&log, 1));
    assert!((27..33).contains(&(three * 10 / one)), "{one} and {three}");
}

#[test]
#[cfg_attr(miri, ignore = "thousands of requests")]
fn urgent_requests_go_first_and_nobody_starves() {
    use Priority::{Bulk, Normal, RealTime};
    let log = served(&[(Bulk, 1000), (RealTime, 1), (Normal, 1000)], 8000);
    assert!(count(&log, 1) > 8000 * 3 / 4, "{}", count(&log, 1));
    // Always somebody waits in each class. It is passed by at most so many in a row, and by one of each other class whose turn it is.
    for (sender, class) in [(2, Normal), (0, Bulk)] {
        let most = log.split(|other| *other == sender).map(<[usize]>::len).max();
        assert!(most <= Some(class.patience() as usize + 3), "{class:?}: {most:?}");
    }
}

#[test]
fn many_threads_with_queues_of_their_own_share_a_ring() {
    const THREADS: u64 = if cfg!(miri) { 2 } else { 8 };
    const EACH: u64 = if cfg!(miri) { 4 } else { 200 };
    let ring = Scripted::new(Script { ring: Some(3), shared: true, ..Script::new("ring") });
    let gantry = Gantry::builder().driver(&ring).build();
    let session = session(&gantry);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (gantry, session) = (&gantry, &session);
            scope.spawn(move || {
                let mut queue = gantry.queue(QueueOptions { depth: 16, ..QueueOptions::default() }).unwrap();
                let mut users = Vec::new();
                for user in 0..EACH {
                    let mut next = request(thread * 10 + user % 10);
                    while let Err(rejected) = queue.submit(session, next) {
                        next = rejected.submission;
                        queue.wait(|completion| users.push(completion.user));
                    }
                }
                users.extend(drain(&mut queue));
                assert_eq!(users.len() as u64, EACH);
                assert!(users.iter().all(|user| user / 10 == thread), "each queue has its own");
            });
        }
    });
    assert_eq!(ring.served() as u64, THREADS * EACH);
}

#[test]
fn nobody_waits_for_a_thread_that_has_gone_elsewhere() {
    let ring = Scripted::new(Script { ring: Some(2), shared: true, ..Script::new("ring") });
    let gantry = in_order(&Arc::default(), &[&ring]);
    let session = session(&gantry);
    let mut queues: Vec<Queue> = (0..6).map(|_| gantry.queue(QueueOptions::default()).unwrap()).collect();
    for round in 0..4 {
        for (user, queue) in queues.iter_mut().enumerate() {
            queue.submit(&session, request(user as u64)).unwrap();
        }
        // Each calls until it has its own, and then no more.
        for (user, queue) in queues.iter_mut().enumerate() {
            assert_eq!(drain(queue), [user as u64], "round {round}");
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "waits for seconds of simulated time")]
fn a_queue_that_goes_takes_its_own_requests_and_blames_nobody() {
    let ring = Scripted::new(Script { ring: Some(2), shared: true, ..Script::new("ring") });
    let software = Scripted::new(Script::new("software"));
    let gantry = in_order(&Arc::default(), &[&ring, &software]);
    let session = session(&gantry);
    let mut queues: Vec<Queue> = (0..5).map(|_| gantry.queue(QueueOptions::default()).unwrap()).collect();
    for (user, queue) in queues.iter_mut().enumerate() {
        for _ in 0..3 {
            queue.submit(&session, request(user as u64)).unwrap();
        }
    }
    // Its polls take others' requests along.
    queues[0].wait(|_| {});
    queues.remove(0);
    queues.remove(2);
    for queue in &mut queues {
        assert_eq!(drain(queue).len(), 3);
    }
    assert_eq!(gantry.device("ring").unwrap().state(), DeviceState::Ready);
}

#[test]
fn a_ring_that_is_full_of_what_nobody_takes_out_is_left() {
    let ring = Scripted::new(Script { ring: Some(1), shared: true, ..Script::new("ring") });
    let software = Scripted::new(Script::new("software"));
    let gantry = in_order(&Arc::default(), &[&ring, &software]);
    let session = session(&gantry);
    let mut idle = gantry.queue(QueueOptions::default()).unwrap();
    idle.submit(&session, request(1)).unwrap();
    let mut queue = gantry.queue(QueueOptions::default()).unwrap();
    queue.submit(&session, request(2)).unwrap();
    assert_eq!(drain(&mut queue), [2]);
    assert_eq!(software.served(), 1);
    assert_eq!(gantry.device("ring").unwrap().state(), DeviceState::Ready, "it is not the device's fault");
    assert_eq!(drain(&mut idle), [1]);
}

#[test]
fn what_one_ring_fails_goes_into_another_that_is_full() {
    // A blocking detour would wait for room that only its own thread can make.
    let bad = Scripted::new(Script { ring: Some(8), ..Script::new("bad") }.doing(|_| Deed::Fail));
    let good = Scripted::new(Script { ring: Some(1), shared: true, ..Script::new("good") });
    let clock = Arc::default();
    let all = in_order(&clock, &[&bad, &good]);
    let second = all.with_policy(Failover { order: vec!["good".into()] });
    let (to_bad, to_good) = (session(&all), session(&second));
    let mut queue = all.queue(QueueOptions::default()).unwrap();
    for user in 0..4 {
        queue.submit(&to_good, request(user)).unwrap();
        queue.submit(&to_bad, request(4 + user)).unwrap();
    }
    let before = clock.now();
    let mut users = drain(&mut queue);
    users.sort_unstable();
    assert_eq!(users, (0..8).collect::<Vec<_>>());
    assert!(clock.now() - before < 10_000_000, "and none of them waited for a deadline");
}

#[test]
fn a_cancelled_request_leaves_no_company_behind() {
    let clock = Arc::default();
    let (lanes, software, session, mut queue) = lanes(&clock, Duration::from_secs(1));
    let ticket = queue.submit(&session, request(0)).unwrap();
    queue.cancel(ticket).unwrap();
    queue.submit(&session, request(1)).unwrap();
    assert_eq!(drain(&mut queue), [1]);
    assert!(clock.now() < 1_000_000_000, "it does not wait for one that was taken back");
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
    // The first session's place is free now. This one takes it.
    queue.submit(&third, Submission::decrypt(&[], vec![2; LENGTH]).user(2)).unwrap();
    let mut users = drain(&mut queue);
    users.sort_unstable();
    assert_eq!(users, [1, 2]);
    assert_eq!(lanes.served() + software.served(), 2);
}

/// Does nothing when it is woken.
struct Deaf;

impl std::task::Wake for Deaf {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn who_goes_to_sleep_leaves_nothing_that_only_it_would_send() {
    let clock = Arc::default();
    let (_lanes, _software, session, mut one) = lanes(&clock, Duration::from_secs(1));
    let mut other =
        session.gantry().queue(QueueOptions { coalesce: Duration::from_secs(1), ..QueueOptions::default() }).unwrap();
    one.submit(&session, request(1)).unwrap();
    other.submit(&session, request(2)).unwrap();
    let waker = Arc::new(Deaf).into();
    for queue in [&mut one, &mut other] {
        assert!(!queue.arm(&waker), "its completion is there, or somebody has to look for it");
    }
    let mut users = Vec::new();
    one.complete(|completion| users.push(completion.user));
    other.complete(|completion| users.push(completion.user));
    assert_eq!(users, [1, 2]);
}
