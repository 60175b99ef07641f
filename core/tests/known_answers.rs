//! Known-answer tests of devices that are slow, or large: who makes a request does not wait for them for long.

mod devices;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use devices::{Deed, Script, Scripted};
use gantry::driver::Capability;
use gantry::route::Failover;
use gantry::stats::Numbers;
use gantry::{
    Algorithm, Clock, DeviceState, Gantry, Operation, Outcome, Queue, QueueOptions, Request, Session, SessionParams,
    Submission, VirtualClock,
};

/// Of the requests of these tests; no known answer has this length.
const LENGTH: usize = 5;
/// For so long a request waits for a test, and one step of it more.
const MOMENT: u64 = 1_000_000;
/// In a batch of a known-answer test of a device without lanes.
const BATCH: u64 = 5;

fn run_one(session: &Session, _: &mut Queue) {
    session.encrypt(&[], &mut [7; LENGTH]).unwrap();
}

fn run_batch(session: &Session, _: &mut Queue) {
    let mut data = [[7; LENGTH]; 3];
    let mut requests = data.each_mut().map(|data| Request::encrypt(&[], data));
    session.process(&mut requests).unwrap();
    assert!(requests.iter().all(|request| request.outcome() == Some(Outcome::Done)));
}

fn run_queue(session: &Session, queue: &mut Queue) {
    queue.submit(session, Submission::encrypt(&[], vec![7; LENGTH])).unwrap();
    queue.wait(|completion| assert_eq!(completion.result, Ok(Outcome::Done)));
}

#[test]
fn no_request_waits_for_a_slow_device_to_be_tested_while_another_is_ready() {
    // What a batch of a test takes: many steps of it in a moment, or none.
    for step in [300_000, 1_500_000, 40_000_000] {
        for run in [run_one, run_batch, run_queue] as [fn(&Session, &mut Queue); 3] {
            for script in Script::in_every_way("slow") {
                let clock = Arc::new(VirtualClock::default());
                let spends = clock.clone();
                let does = move |_| {
                    spends.spend(step / BATCH);
                    Deed::Work
                };
                let slow = Scripted::new(Script { tests: true, ..script }.doing(does));
                let ready = Scripted::new(Script::new("ready"));
                let policy = Failover { order: vec!["slow".into(), "ready".into()] };
                let gantry = Gantry::builder().policy(policy).clock(clock.clone()).driver(&slow).driver(&ready).build();
                let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
                let mut queue = gantry.queue(QueueOptions::default()).unwrap();
                gantry.device("ready").unwrap().admit(Algorithm::Null).unwrap();

                let is_slow = |row: &&Numbers| row.device.as_ref().is_some_and(|(name, _)| name == "slow");
                let served = || gantry.stats().rows.iter().filter(is_slow).map(Numbers::requests).sum::<u64>();
                let mut requests = 0;
                while served() == 0 {
                    let before = clock.now();
                    run(&session, &mut queue);
                    if served() == 0 {
                        // A step is a batch, and the answer by itself besides: less than a batch again.
                        let waited = clock.now() - before;
                        assert!(waited <= MOMENT + 2 * step, "{waited} for steps of {step}");
                    }
                    requests += 1;
                    assert!(requests < 10, "it is admitted after some requests");
                }
                assert_eq!(gantry.device("slow").unwrap().state(), DeviceState::Ready);
            }
        }
    }
}

#[test]
fn who_has_nobody_else_waits_for_the_test() {
    let clock = Arc::new(VirtualClock::default());
    let spends = clock.clone();
    let does = move |_| {
        spends.spend(MOMENT);
        Deed::Work
    };
    let slow = Scripted::new(Script { tests: true, ..Script::new("slow") }.doing(does));
    let gantry = Gantry::builder().clock(clock.clone()).driver(&slow).build();
    let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
    session.encrypt(&[], &mut [7; LENGTH]).unwrap();
    assert!(clock.now() > 2 * MOMENT);
}

#[test]
fn a_device_with_thousands_of_lanes_is_tested_with_a_small_batch() {
    for script in Script::in_every_way("wide") {
        let capability = Capability { lanes: 10_000, ..Capability::new(Algorithm::Null) };
        let tested = Arc::new(AtomicUsize::new(0));
        let counts = tested.clone();
        let does = move |_| {
            counts.fetch_add(1, Ordering::Relaxed);
            Deed::Work
        };
        let wide = Scripted::new(Script { capability, tests: true, ..script }.doing(does));
        let gantry = Gantry::builder().driver(&wide).build();
        gantry.devices()[0].admit(Algorithm::Null).unwrap();
        let steps = [Operation::Encrypt, Operation::Decrypt].len();
        // And each answer by itself, in place and not.
        let most = steps * (128 + 2);
        assert!((steps * 2..=most).contains(&tested.load(Ordering::Relaxed)), "{tested:?}");
    }
}
