//! Known-answer tests of slow or large devices: requests wait for these tests only briefly.

mod devices;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use devices::{Action, Script, Scripted, in_order, session};
use gantry_core::driver::Capability;
use gantry_core::route::{Failover, Pin};
use gantry_core::stats::SnapshotRow;
use gantry_core::{
    Algorithm, Clock, DeviceState, Gantry, Operation, Outcome, Queue, QueueOptions, Request, Session, SessionParams,
    Submission, VirtualClock,
};

/// Length of these tests' requests; no known answer has this length.
const LENGTH: usize = 5;
/// Maximum wait of a request for a test in nanoseconds; work in the calling thread is not interrupted.
const MAX_WAIT_NS: u64 = 1_000_000;
/// Requests in a batch of a known-answer test, for a device without lanes.
const TEST_BATCH_REQUESTS: u64 = 5;

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
#[cfg_attr(miri, ignore = "a minute or more")]
fn requests_do_not_wait_for_the_test_of_a_slow_device_while_another_is_ready() {
    // Nanoseconds of a batch of a test: many fit into a moment, or none.
    for step in [300_000, 1_500_000, 40_000_000] {
        for run in [run_one, run_batch, run_queue] as [fn(&Session, &mut Queue); 3] {
            for script in Script::in_every_way("slow") {
                let clock = Arc::new(VirtualClock::default());
                let spends = clock.clone();
                let action = move |_| {
                    spends.spend(step / TEST_BATCH_REQUESTS);
                    Action::Work
                };
                let slow = Scripted::new(Script { tests: true, ..script }.with_actions(action));
                let ready = Scripted::new(Script::new("ready"));
                let policy = Failover { order: vec!["slow".into(), "ready".into()] };
                let gantry = Gantry::builder().policy(policy).clock(clock.clone()).driver(&slow).driver(&ready).build();
                let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
                let mut queue = gantry.queue(QueueOptions::default()).unwrap();
                gantry.device("ready").unwrap().admit(Algorithm::Null).unwrap();

                let is_slow = |row: &&SnapshotRow| row.device.as_ref().is_some_and(|(name, _)| name == "slow");
                let served = || gantry.stats().rows.iter().filter(is_slow).map(SnapshotRow::requests).sum::<u64>();
                let mut requests = 0;
                while served() == 0 {
                    let before = clock.now();
                    run(&session, &mut queue);
                    if served() == 0 {
                        // One request of the test may have begun just before.
                        let waited = clock.now() - before;
                        assert!(waited <= MAX_WAIT_NS + step / TEST_BATCH_REQUESTS, "{waited} for steps of {step}");
                    }
                    requests += 1;
                    assert!(requests < 50, "the device is admitted after some requests");
                }
                assert_eq!(gantry.device("slow").unwrap().state(), DeviceState::Ready);
            }
        }
    }
}

/// Returns a framework with a device pinned by the policy, and another ready device.
fn pinned(script: Script, clock: &Arc<VirtualClock>) -> Gantry {
    let [named, ready] = [script, Script::new("ready")].map(Scripted::new);
    let policy = Pin { device: "named".to_owned() };
    let gantry = Gantry::builder().policy(policy).clock(clock.clone()).driver(&ready).driver(&named).build();
    gantry.device("ready").unwrap().admit(Algorithm::Null).unwrap();
    gantry
}

/// Returns the devices that served requests, with their number.
fn served(gantry: &Gantry) -> Vec<(String, u64)> {
    let rows = gantry.stats().rows;
    let named = |row: &SnapshotRow| Some((row.device.as_ref()?.0.clone(), row.requests()));
    rows.iter().filter_map(named).filter(|(_, requests)| *requests > 0).collect()
}

#[test]
#[cfg_attr(miri, ignore = "a minute or more")]
fn requests_wait_for_a_pinned_device() {
    for step in [1_500_000, 40_000_000] {
        for run in [run_one, run_batch, run_queue] as [fn(&Session, &mut Queue); 3] {
            for script in Script::in_every_way("named") {
                let clock = Arc::new(VirtualClock::default());
                let spends = clock.clone();
                let action = move |_| {
                    spends.spend(step / TEST_BATCH_REQUESTS);
                    Action::Work
                };
                let gantry = pinned(Script { tests: true, ..script }.with_actions(action), &clock);
                let mut queue = gantry.queue(QueueOptions::default()).unwrap();
                run(&session(&gantry), &mut queue);
                assert!(clock.now() > MAX_WAIT_NS, "the test takes more than a moment");
                let served = served(&gantry);
                assert!(matches!(&served[..], [(device, _)] if device == "named"), "{step}: {served:?}");
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "a minute or more")]
fn another_device_serves_if_the_pinned_one_cannot() {
    for action in [Action::Corrupt, Action::Fail, Action::Stall] {
        for run in [run_one, run_batch, run_queue] as [fn(&Session, &mut Queue); 3] {
            let clock = Arc::new(VirtualClock::default());
            let gantry = pinned(
                Script { tests: true, ring: Some(4), ..Script::new("named") }.with_actions(move |_| action),
                &clock,
            );
            let mut queue = gantry.queue(QueueOptions::default()).unwrap();
            run(&session(&gantry), &mut queue);
            let served = served(&gantry);
            assert!(matches!(&served[..], [(device, _)] if device == "ready"), "{action:?}: {served:?}");
        }
    }
}

#[test]
fn a_batch_of_a_test_stays_in_a_slow_ring_while_requests_go_elsewhere() {
    const LATENCY: u64 = 20_000_000;
    let clock = Arc::new(VirtualClock::default());
    let (now, entered) = (clock.clone(), AtomicU64::new(0));
    // The first job of a batch takes long; the others are then done, too.
    let action = move |_| {
        let _ = entered.compare_exchange(0, now.now(), Ordering::Relaxed, Ordering::Relaxed);
        if now.now() < entered.load(Ordering::Relaxed) + LATENCY {
            return Action::Wait;
        }
        Action::Work
    };
    let slow = Scripted::new(Script { ring: Some(8), tests: true, ..Script::new("slow") }.with_actions(action));
    let gantry = in_order(&clock, &[&slow, &Scripted::new(Script::new("ready"))]);
    gantry.device("ready").unwrap().admit(Algorithm::Null).unwrap();
    let session = session(&gantry);
    let waited = || {
        let before = clock.now();
        session.encrypt(&[], &mut [7; LENGTH]).unwrap();
        clock.now() - before
    };
    assert!((MAX_WAIT_NS..=MAX_WAIT_NS + 1000).contains(&waited()));
    for _ in 0..10 {
        assert_eq!(waited(), 0, "requests no longer wait for the batch");
    }
    clock.spend(LATENCY);
    assert_eq!(waited(), 0, "the batch is back, and the rest of the test takes no time");
    assert!(slow.served() > 0 && gantry.device("slow").unwrap().admit(Algorithm::Null).is_ok());
}

#[test]
fn a_finished_batch_of_a_test_releases_its_queue_pair() {
    let clock = Arc::new(VirtualClock::default());
    let hashes = Arc::new(AtomicBool::new(false));
    let is_fast = hashes.clone();
    let digests = move || if is_fast.load(Ordering::Relaxed) { Action::Work } else { Action::Wait };
    let card = Script { ring: Some(8), pairs: 1, digests: Some(Arc::new(digests)), ..Script::new("card") };
    let card = Scripted::new(card);
    let ready = Scripted::new(Script { digests: Some(Arc::new(|| Action::Work)), ..Script::new("ready") });
    let gantry = in_order(&clock, &[&card, &ready]);
    let encrypting = session(&gantry);
    let hashing = gantry.session(SessionParams::new(Algorithm::Sha256, &[])).unwrap();
    gantry.device("card").unwrap().admit(Algorithm::Null).unwrap();
    gantry.device("ready").unwrap().admit(Algorithm::Sha256).unwrap();

    hashing.digest(b"d", &mut [0; 32]).unwrap();
    hashes.store(true, Ordering::Relaxed);
    // No more hashes, and the card has one queue pair.
    let before = card.served();
    encrypting.encrypt(&[], &mut [7; LENGTH]).unwrap();
    assert_eq!(card.served(), before + 1);
    gantry.device("card").unwrap().admit(Algorithm::Sha256).unwrap();
}

#[test]
#[cfg_attr(miri, ignore = "a minute or more")]
fn a_request_waits_for_the_test_of_the_only_device() {
    let clock = Arc::new(VirtualClock::default());
    let spends = clock.clone();
    let action = move |_| {
        spends.spend(MAX_WAIT_NS);
        Action::Work
    };
    let slow = Scripted::new(Script { tests: true, ..Script::new("slow") }.with_actions(action));
    let gantry = Gantry::builder().clock(clock.clone()).driver(&slow).build();
    let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
    session.encrypt(&[], &mut [7; LENGTH]).unwrap();
    assert!(clock.now() > 2 * MAX_WAIT_NS);
}

#[test]
#[cfg_attr(miri, ignore = "a minute or more")]
fn a_device_with_thousands_of_lanes_is_tested_with_a_small_batch() {
    for script in Script::in_every_way("wide") {
        let capability = Capability { lanes: 10_000, ..Capability::new(Algorithm::Null) };
        let tested = Arc::new(AtomicUsize::new(0));
        let counts = tested.clone();
        let action = move |_| {
            counts.fetch_add(1, Ordering::Relaxed);
            Action::Work
        };
        let wide = Scripted::new(Script { capability, tests: true, ..script }.with_actions(action));
        let gantry = Gantry::builder().driver(&wide).build();
        gantry.devices()[0].admit(Algorithm::Null).unwrap();
        let steps = [Operation::Encrypt, Operation::Decrypt].len();
        // In addition, each answer is tested by itself, once in place and once with a separate output.
        let most = steps * (128 + 2);
        assert!((steps * 2..=most).contains(&tested.load(Ordering::Relaxed)), "{tested:?}");
    }
}
