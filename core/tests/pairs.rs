//! Devices with fewer queue pairs than threads. The threads share the queue pairs.

mod devices;

use std::sync::Arc;

use devices::{Action, Script, Scripted, in_order, request, session};
use gantry_core::driver::DeviceLimits;
use gantry_core::stats::Event;
use gantry_core::{Clock, DeviceState, Gantry, Outcome, Queue, QueueOptions, Request, Session, VirtualClock};

/// Length of these tests' requests; no known answer has this length.
const LENGTH: usize = 5;

/// Returns a ring with this number of queue pairs, which it declares if `declares`.
fn few(pairs: usize, declares: bool) -> Script {
    let queue_pairs = if declares { pairs } else { usize::MAX };
    let limits = DeviceLimits { queue_pairs, ..DeviceLimits::default() };
    Script { ring: Some(3), limits, pairs, ..Script::new("few") }
}

fn run_batch(session: &Session, count: usize) {
    let mut outputs = vec![[0; LENGTH]; count];
    let mut requests: Vec<Request<'_>> =
        outputs.iter_mut().map(|output| Request::encrypt(&[], (&b"12345"[..], &mut output[..]))).collect();
    session.process(&mut requests).unwrap();
    assert!(requests.iter().all(|request| request.outcome() == Some(Outcome::Done)));
    assert!(outputs.iter().all(|output| output == b"12345"));
}

fn drain(queue: &mut Queue) -> Vec<u64> {
    let mut users = Vec::new();
    while queue.in_flight() > 0 {
        queue.wait(|completion| {
            assert_eq!(completion.result, Ok(Outcome::Done));
            assert_eq!(completion.submission.data(), [completion.user as u8; LENGTH]);
            users.push(completion.user);
        });
    }
    users.sort_unstable();
    users
}

#[test]
fn many_threads_and_queues_share_one_or_two_queue_pairs() {
    const THREADS: usize = if cfg!(miri) { 2 } else { 4 };
    const ROUNDS: usize = if cfg!(miri) { 2 } else { 30 };
    for (pairs, declares) in [(1, true), (2, true), (1, false), (2, false)] {
        let device = Scripted::new(few(pairs, declares));
        let gantry = Gantry::builder().driver(&device).build();
        let session = session(&gantry);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for round in 0..ROUNDS {
                        run_batch(&session, 1 + round % 5);
                        session.encrypt(&[], &mut [1; LENGTH]).unwrap();
                    }
                });
                scope.spawn(|| {
                    let mut queue = gantry.queue(QueueOptions::default()).unwrap();
                    for _ in 0..ROUNDS {
                        for user in 0..4 {
                            queue.submit(&session, request(user)).unwrap();
                        }
                        assert_eq!(drain(&mut queue), [0, 1, 2, 3]);
                    }
                });
            }
        });
        let batches: usize = (0..ROUNDS).map(|round| 1 + round % 5 + 1).sum();
        assert_eq!(device.served(), THREADS * (batches + 4 * ROUNDS), "{pairs} {declares}: each once");
        let stats = gantry.stats();
        assert_eq!((stats.events(Event::Fault), stats.events(Event::Quarantined)), (0, 0), "{pairs} {declares}");
        assert_eq!(gantry.devices()[0].state(), DeviceState::Ready);
    }
}

/// Returns queues with requests in flight on a device with one queue pair.
fn queues(gantry: &Gantry, session: &Session) -> Vec<Queue> {
    let mut queues: Vec<Queue> = (0..4).map(|_| gantry.queue(QueueOptions::default()).unwrap()).collect();
    for (user, queue) in queues.iter_mut().enumerate() {
        for _ in 0..3 {
            queue.submit(session, request(user as u64)).unwrap();
        }
        queue.flush();
    }
    queues
}

#[test]
fn a_late_device_with_shared_queue_pairs_is_quarantined_and_returns() {
    for declares in [true, false] {
        for action in [Action::Stall, Action::Fail, Action::Lose, Action::Panic] {
            let clock: Arc<VirtualClock> = Arc::default();
            let bad = Scripted::new(few(1, declares).with_actions(move |n| if n == 2 { action } else { Action::Work }));
            let good = Scripted::new(Script::new("good"));
            let gantry = in_order(&clock, &[&bad, &good]);
            let session = session(&gantry);
            let mut queues = self::queues(&gantry, &session);
            let mut spoilt = 0;
            for queue in &mut queues {
                while queue.in_flight() > 0 {
                    queue.wait(|completion| spoilt += usize::from(completion.result != Ok(Outcome::Done)));
                }
            }
            // A driver that panics may have changed the data of requests in the ring.
            let most = if action == Action::Panic { 3 } else { 0 };
            assert!(spoilt <= most, "{action:?} {spoilt}");
            assert_eq!(gantry.device("few").unwrap().state(), DeviceState::Quarantined);
            assert!(good.served() > 0);

            clock.spend(10_000_000_000);
            let before = bad.served();
            let mut queues = self::queues(&gantry, &session);
            for (user, queue) in queues.iter_mut().enumerate() {
                assert_eq!(drain(queue), [user as u64; 3]);
            }
            run_batch(&session, 3);
            assert_eq!(gantry.device("few").unwrap().state(), DeviceState::Ready);
            assert_eq!(bad.served(), before + 15, "the device serves again");
        }
    }
}

#[test]
fn dropping_a_queue_does_not_affect_others_on_a_shared_queue_pair() {
    for declares in [true, false] {
        let clock = Arc::default();
        let (device, software) = (Scripted::new(few(1, declares)), Scripted::new(Script::new("software")));
        let gantry = in_order(&clock, &[&device, &software]);
        let session = session(&gantry);
        let mut queues = queues(&gantry, &session);
        queues.remove(2);
        queues.remove(0);
        for (user, queue) in [1, 3].into_iter().zip(&mut queues) {
            assert_eq!(drain(queue), [user; 3]);
        }
        run_batch(&session, 3);
        assert_eq!(gantry.device("few").unwrap().state(), DeviceState::Ready);
        assert_eq!(gantry.stats().events(Event::Quarantined), 0);
    }
}
