//! Queues that share devices: weights, classes, rings and backlogs.

use super::*;

/// Returns the senders of `served` requests, in order, on a device with room for one.
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
fn urgent_requests_go_first_and_no_class_starves() {
    use Priority::{Bulk, Normal, RealTime};
    let log = served(&[(Bulk, 1000), (RealTime, 1), (Normal, 1000)], 8000);
    assert!(count(&log, 1) > 8000 * 3 / 4, "{}", count(&log, 1));
    // Requests wait in every class. Each is overtaken at most `max_passed` times in a row, and once by each class whose turn it is.
    for (sender, class) in [(2, Normal), (0, Bulk)] {
        let most = log.split(|other| *other == sender).map(<[usize]>::len).max();
        assert!(most <= Some(class.max_passed() as usize + 3), "{class:?}: {most:?}");
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
                assert!(users.iter().all(|user| user / 10 == thread), "each queue has its own requests");
            });
        }
    });
    assert_eq!(ring.served() as u64, THREADS * EACH);
}

#[test]
#[cfg_attr(miri, ignore = "minutes, and others lend memory in the same way")]
fn requests_do_not_depend_on_threads_that_stopped_polling() {
    let ring = Scripted::new(Script { ring: Some(2), shared: true, ..Script::new("ring") });
    let gantry = in_order(&Arc::default(), &[&ring]);
    let session = session(&gantry);
    let mut queues: Vec<Queue> = (0..6).map(|_| gantry.queue(QueueOptions::default()).unwrap()).collect();
    for round in 0..4 {
        for (user, queue) in queues.iter_mut().enumerate() {
            queue.submit(&session, request(user as u64)).unwrap();
        }
        // Each queue polls only until it has its own request.
        for (user, queue) in queues.iter_mut().enumerate() {
            assert_eq!(drain(queue), [user as u64], "round {round}");
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "waits for seconds of simulated time")]
fn dropping_a_queue_quarantines_no_device() {
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
    // The polls of this queue serve requests of other queues, too.
    queues[0].wait(|_| {});
    queues.remove(0);
    queues.remove(2);
    for queue in &mut queues {
        assert_eq!(drain(queue).len(), 3);
    }
    assert_eq!(gantry.device("ring").unwrap().state(), DeviceState::Ready);
}

#[test]
#[cfg_attr(miri, ignore = "minutes, and others lend memory in the same way")]
fn requests_leave_a_full_ring_that_is_not_polled() {
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
    assert_eq!(gantry.device("ring").unwrap().state(), DeviceState::Ready, "the device is not to blame");
    assert_eq!(drain(&mut idle), [1]);
}

#[test]
fn failed_requests_go_to_another_ring_even_if_it_is_full() {
    // A blocking retry would wait for room that only its own thread can make.
    let bad = Scripted::new(Script { ring: Some(8), ..Script::new("bad") }.with_actions(|_| Action::Fail));
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
    assert!(clock.now() - before < 10_000_000, "no request waited for a deadline");
}
