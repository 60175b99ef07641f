//! Requests that are cancelled before a device has them.

use super::*;

#[test]
fn requests_that_no_device_has_can_be_cancelled() {
    let clock = Arc::default();
    let (lanes, _, session, mut queue) = lanes(&clock, Duration::from_micros(20));
    let tickets: Vec<_> = (0..3).map(|user| queue.submit(&session, request(user)).unwrap()).collect();
    let back = queue.cancel(tickets[1]).expect("the request waits to be batched");
    assert_eq!(back.data(), [1; LENGTH]);
    assert!(queue.cancel(tickets[1]).is_none(), "once");
    assert_eq!(drain(&mut queue), [0, 2]);
    assert!(queue.cancel(tickets[0]).is_none(), "the request is done");
    assert_eq!(lanes.served(), 2);

    // Two requests are in the ring, and three wait for room.
    let ring = Scripted::new(Script { ring: Some(2), shared: true, ..Script::new("ring") });
    let gantry = in_order(&Arc::default(), &[&ring]);
    let session = gantry.session(SessionParams::new(Algorithm::Null, &[]).ordered()).unwrap();
    let mut queue = gantry.queue(QueueOptions::default()).unwrap();
    let tickets: Vec<_> = (0..5).map(|user| queue.submit(&session, request(user)).unwrap()).collect();
    assert!(queue.cancel(tickets[0]).is_none(), "the device has the request");
    assert!(queue.cancel(tickets[3]).is_some());
    assert_eq!(drain(&mut queue), [0, 1, 2, 4]);
}

#[test]
fn requests_in_the_coalescer_can_be_cancelled() {
    let clock: Arc<VirtualClock> = Arc::default();
    let (lanes, software, session, mut one) = lanes(&clock, Duration::from_secs(1));
    let mut two =
        session.gantry().queue(QueueOptions { coalesce: Duration::from_secs(1), ..Default::default() }).unwrap();
    let tickets: Vec<_> = (0..2).map(|user| one.submit(&session, request(user)).unwrap()).collect();
    let other = two.submit(&session, request(10)).unwrap();
    assert_eq!(one.complete(|_| {}) + two.complete(|_| {}), 0, "three wait for a fourth");
    assert_eq!(one.cancel(tickets[0]).expect("no device has the request").data(), [0; LENGTH]);
    assert!(one.cancel(tickets[0]).is_none(), "once");
    assert!(two.cancel(other).is_none(), "a queue that takes back its requests runs those of others");
    let mut users = Vec::new();
    two.complete(|completion| users.push(completion.user));
    assert_eq!(users, [10]);
    assert_eq!(one.cancel(tickets[1]).expect("the queue kept its own").data(), [1; LENGTH]);
    assert_eq!((one.in_flight(), two.in_flight()), (0, 0));

    // Queues do not wait for requests that are gone.
    one.submit(&session, request(3)).unwrap();
    assert_eq!(drain(&mut one), [3]);
    assert!(clock.now() < 1_000_000_000);
    assert_eq!(lanes.served() + software.served(), 2);
}

#[test]
fn cancelled_requests_end_once_even_if_another_thread_takes_them() {
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
                let (mut users, mut cancelled) = (Vec::new(), Vec::new());
                for round in 0..EACH {
                    let user = base + round % 100;
                    let tickets = [(); 2].map(|()| queue.submit(session, request(user)).unwrap());
                    queue.complete(|completion| users.push(completion.user));
                    cancelled.extend(queue.cancel(tickets[round as usize % 2]).map(|submission| submission.data()[0]));
                    while queue.in_flight() > 0 {
                        queue.wait(|completion| users.push(completion.user));
                    }
                }
                let own = |user: &u64| (base..base + 100).contains(user);
                assert!(users.iter().all(own) && cancelled.iter().all(|user| own(&u64::from(*user))));
                assert_eq!((users.len() + cancelled.len()) as u64, 2 * EACH, "each ends once");
                (users.len(), cancelled.len())
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
