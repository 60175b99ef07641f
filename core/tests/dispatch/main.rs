//! Core's promises about requests: every request gets its outcome, from the device that the policy selects, no matter how devices behave.

#[path = "../devices/mod.rs"]
mod devices;
mod panics;
mod policies;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use devices::{Action, Call, Script, Scripted};
use gantry_core::driver::{Capability, Class, Operands, Refusal, Unsupported};
use gantry_core::route::{BreakEven, Failover, Pin, Reason, RoundRobin, SizeThreshold};
use gantry_core::{
    Algorithm, DeviceState, Direction, Error, Fault, Gantry, Misuse, Operation, Outcome, Policy, Request, Session,
    SessionParams, VirtualClock,
};

/// Length of these tests' requests, in bytes. No known answer has this length, so devices can tell these requests from known-answer tests.
const LENGTH: usize = 5;

/// Uses a virtual clock, so that a quarantine does not end early on a slow machine.
fn session_on(policy: impl Policy + 'static, drivers: &[&Scripted]) -> Session {
    let builder = Gantry::builder().policy(policy).clock(Arc::new(VirtualClock::default()));
    let builder = drivers.iter().fold(builder, |builder, driver| builder.driver(*driver));
    builder.build().session(SessionParams::new(Algorithm::Null, &[])).unwrap()
}

/// Runs a batch of requests with different bytes, and checks outputs and outcomes. Returns the names of the devices.
fn run_batch(session: &Session, count: usize) -> Vec<String> {
    let inputs: Vec<[u8; LENGTH]> =
        (0..count).map(|index| (index as u64 * 7919).to_le_bytes()[..LENGTH].try_into().unwrap()).collect();
    let mut outputs = vec![[0xEE; LENGTH]; count];
    let mut requests: Vec<Request<'_>> = (inputs.iter().zip(&mut outputs))
        .map(|(input, output)| Request::encrypt(&[], (&input[..], &mut output[..])))
        .collect();
    session.process(&mut requests).unwrap();
    let served = requests
        .iter()
        .map(|request| {
            assert_eq!(request.outcome(), Some(Outcome::Done));
            session.gantry().devices()[request.route().unwrap().device].name().to_owned()
        })
        .collect();
    assert_eq!(inputs, outputs);
    served
}

fn run_one(session: &Session) {
    let mut output = [0; LENGTH];
    session.encrypt(&[], (&b"12345"[..], &mut output[..])).unwrap();
    assert_eq!(&output, b"12345");
}

fn served(driver: &Scripted) -> usize {
    driver.served.load(Ordering::Relaxed)
}

#[test]
fn a_full_ring_eventually_serves_every_request() {
    const MANY: usize = if cfg!(miri) { 5 } else { 100 };
    for slots in [1, 3, 64, 200] {
        let ring = Scripted::new(Script { ring: Some(slots), ..Script::new("ring") });
        let session = session_on(BreakEven, &[&ring]);
        assert_eq!(run_batch(&session, MANY), vec!["ring"; MANY]);
        assert_eq!(served(&ring), MANY, "each request exactly once");
    }
}

#[test]
fn a_device_with_queue_pairs_only_serves_direct_calls() {
    let capability = Capability { synchronous: false, ..Capability::new(Algorithm::Null) };
    let ring = Scripted::new(Script { ring: Some(4), capability, ..Script::new("ring") });
    let session = session_on(BreakEven, &[&ring]);
    run_one(&session);
    assert_eq!(served(&ring), 1);
}

#[test]
fn waiting_arms_a_device_that_notifies() {
    let ring = Script { ring: Some(4), notifies: true, ..Script::new("ring") }.with_actions(|_| Action::Notify);
    let (ring, other) = (Scripted::new(ring), Scripted::new(Script::new("other")));
    let session = session_on(Pin { device: "ring".into() }, &[&ring, &other]);
    run_one(&session);
    assert_eq!(run_batch(&session, 3), ["ring"; 3]);
    assert_eq!((served(&ring), served(&other)), (4, 0));
}

#[test]
fn failed_and_lost_requests_run_elsewhere_and_quarantine_the_device() {
    for action in [Action::Fail, Action::Lose] {
        for script in Script::in_every_way("bad") {
            let bad = Scripted::new(script.with_actions(move |n| if n == 3 { action } else { Action::Work }));
            let good = Scripted::new(Script::new("good"));
            let session = session_on(Failover { order: vec!["bad".into()] }, &[&good, &bad]);
            run_batch(&session, 10);
            assert_eq!(served(&good) + served(&bad), 11, "one request ran twice, the others once");
            assert_eq!(session.gantry().device("bad").unwrap().state(), DeviceState::Quarantined);
            let before = served(&bad);
            run_batch(&session, 10);
            run_one(&session);
            assert_eq!(served(&bad), before, "a quarantined device serves no request");
        }
    }
}

#[test]
fn a_direct_request_moves_on_when_its_device_fails() {
    let bad = Scripted::new(Script::new("bad").with_actions(|_| Action::Fail));
    let good = Scripted::new(Script::new("good"));
    let session = session_on(Pin { device: "bad".into() }, &[&bad, &good]);
    run_one(&session);
    assert_eq!((served(&bad), served(&good)), (1, 1));
}

#[test]
fn when_every_device_fails_the_error_names_the_last_fault() {
    let one = Scripted::new(Script::new("one").with_actions(|_| Action::Fail));
    let two = Scripted::new(Script::new("two").with_actions(|_| Action::Fail));
    let session = session_on(BreakEven, &[&one, &two]);
    let mut data = [0; LENGTH];
    let error = session.encrypt(&[], &mut data).unwrap_err();
    assert_eq!(error, Error::Device { algorithm: Algorithm::Null, last: Fault::failed("it broke") });
    let mut requests = [Request::encrypt(&[], &mut data)];
    assert!(matches!(session.process(&mut requests), Err(Error::Unserved { .. })), "both are quarantined");
    assert_eq!(requests[0].outcome(), None);
}

#[test]
#[cfg_attr(miri, ignore = "choice of a device, in safe code")]
fn a_declined_session_opens_elsewhere_and_reports_the_reason() {
    let opens = Arc::new(|_| Err(Unsupported::because("not today").into()));
    let shy = Scripted::new(Script { opens, ..Script::new("shy") });
    let good = Scripted::new(Script::new("good"));
    let session = session_on(Pin { device: "shy".into() }, &[&shy, &good]);
    run_one(&session);
    run_batch(&session, 4);
    assert_eq!(served(&good), 5);

    let alone = session_on(BreakEven, &[&shy]);
    let error = alone.encrypt(&[], &mut [0; LENGTH]).unwrap_err().to_string();
    assert!(error.contains("shy") && error.contains("not today"), "{error}");
}

/// Returns a device that fails to open the sessions `first..last`, counted from 0.
fn opens_not(first: usize, last: usize) -> Scripted {
    let opens = move |n| if (first..last).contains(&n) { Err(Fault::failed("unplugged").into()) } else { Ok(()) };
    let opens: Arc<dyn Fn(usize) -> Result<(), Refusal> + Send + Sync> = Arc::new(opens);
    Scripted::new(Script { opens, ..Script::new("loose") })
}

#[test]
#[cfg_attr(miri, ignore = "choice of a device, in safe code")]
fn a_device_whose_test_has_a_fault_is_tested_again_later() {
    // A failure to open a session ends the known-answer test, so the first two tests fail.
    let loose = opens_not(0, 2);
    let good = Scripted::new(Script::new("good"));
    let session = session_on(Pin { device: "loose".into() }, &[&loose, &good]);
    let gantry = session.gantry().clone();
    let pause = |ns| gantry.clock().spend(ns);
    run_one(&session);
    run_batch(&session, 3);
    assert_eq!((served(&loose), served(&good)), (0, 4), "not at once");
    pause(200_000_000);
    run_one(&session);
    assert_eq!((served(&loose), served(&good)), (0, 5), "it failed again");
    pause(150_000_000);
    run_one(&session);
    assert_eq!(served(&loose), 0, "the delay doubles");
    pause(150_000_000);
    run_one(&session);
    run_batch(&session, 3);
    assert_eq!((served(&loose), served(&good)), (4, 6));
    assert!(gantry.device("loose").unwrap().admit(Algorithm::Null).is_ok());

    // A device with a wrong result is not tested again.
    let capability = Capability::new(Algorithm::Sha256);
    let liar = Scripted::new(Script { capability, ..Script::new("liar") });
    let gantry = Gantry::builder().clock(Arc::new(VirtualClock::default())).driver(&liar).build();
    for _ in 0..3 {
        let verdict = gantry.devices()[0].admit(Algorithm::Sha256);
        assert!(matches!(verdict, Err(Refusal::Unsupported(_))), "{verdict:?}");
        gantry.clock().spend(1_000_000_000);
    }
}

#[test]
#[cfg_attr(miri, ignore = "choice of a device, in safe code")]
fn a_device_that_fails_to_open_a_session_is_quarantined_and_retried() {
    let answers = {
        let counting = opens_not(usize::MAX, usize::MAX);
        let gantry = Gantry::builder().driver(&counting).build();
        gantry.devices()[0].admit(Algorithm::Null).unwrap();
        counting.opened()
    };
    for way in [run_one, |session: &Session| drop(run_batch(session, 1))] {
        let loose = opens_not(answers, answers + 1);
        let good = Scripted::new(Script::new("good"));
        let session = session_on(Pin { device: "loose".into() }, &[&loose, &good]);
        let device = session.gantry().device("loose").unwrap();
        way(&session);
        assert_eq!((served(&loose), served(&good)), (0, 1));
        assert_eq!(device.state(), DeviceState::Quarantined);
        session.gantry().clock().spend(200_000_000);
        way(&session);
        assert_eq!((served(&loose), served(&good)), (1, 1));
        assert_eq!(device.state(), DeviceState::Ready, "the device passed its known-answer tests");
    }

    let alone = session_on(BreakEven, &[&opens_not(answers, answers + 1)]);
    let error = alone.encrypt(&[], &mut [0; LENGTH]).unwrap_err();
    assert_eq!(error, Error::Device { algorithm: Algorithm::Null, last: Fault::failed("unplugged") });
}

#[test]
#[cfg_attr(miri, ignore = "choice of a device, in safe code")]
fn a_device_that_declines_a_request_is_not_quarantined() {
    let shy =
        Scripted::new(Script::new("shy").with_actions(|n| if n % 2 == 0 { Action::Decline } else { Action::Work }));
    let good = Scripted::new(Script::new("good"));
    let session = session_on(Pin { device: "shy".into() }, &[&shy, &good]);
    run_one(&session);
    assert_eq!(served(&good), 1);
    run_one(&session);
    assert_eq!(served(&good), 1);
    run_batch(&session, 6);
    assert_eq!(session.gantry().device("shy").unwrap().state(), DeviceState::Ready);

    let never = Scripted::new(Script::new("never").with_actions(|_| Action::Decline));
    let alone = session_on(BreakEven, &[&never]);
    let error = alone.encrypt(&[], &mut [0; LENGTH]).unwrap_err();
    assert!(matches!(&error, Error::Unserved { reasons, .. } if reasons[..] == ["never: not this one"]), "{error}");
}

#[test]
fn requests_leave_a_device_that_takes_none() {
    let full = Scripted::new(Script { ring: Some(0), ..Script::new("full") });
    let good = Scripted::new(Script::new("good"));
    let builder = Gantry::builder().policy(Failover { order: vec!["full".into()] }).driver(&good).driver(&full);
    let gantry = builder.clock(Arc::new(VirtualClock::default())).build();
    let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
    run_batch(&session, 5);
    assert_eq!(served(&good), 5);
}

#[test]
fn a_batch_takes_one_session_per_request_from_one_framework() {
    let device = Scripted::new(Script::new("device"));
    let (one, other) = (session_on(BreakEven, &[&device]), session_on(BreakEven, &[&device]));
    let mut data = [[7; LENGTH]; 2];
    let mut requests: Vec<Request<'_>> = data.iter_mut().map(|data| Request::encrypt(&[], data)).collect();
    let wrong = Err(Misuse::Framework { algorithm: Algorithm::Null }.into());
    assert_eq!(Session::process_each(&[one.clone(), other], &mut requests), wrong);
    assert_eq!(Session::process_each(std::slice::from_ref(&one), &mut requests), wrong);
    assert!(requests.iter().all(|request| request.outcome().is_none()));
    let another = one.gantry().session(SessionParams::new(Algorithm::Null, &[])).unwrap();
    assert_eq!(Session::process_each(&[one, another], &mut requests), Ok(()));
    assert!(requests.iter().all(|request| request.outcome() == Some(Outcome::Done)));
    assert_eq!(Session::process_each::<Session>(&[], &mut []), Ok(()));
}

#[test]
fn mistakes_are_found_before_anything_runs() {
    let device = Scripted::new(Script::new("device"));
    let session = session_on(BreakEven, &[&device]);
    let mut good = [0; LENGTH];
    let mut short = [0; LENGTH - 1];
    let mut requests = [Request::encrypt(&[], &mut good), Request::encrypt(&[], (&[1; LENGTH][..], &mut short[..]))];
    let error = session.process(&mut requests).unwrap_err();
    assert_eq!(
        error,
        Error::Misuse(Misuse::OutputLength { algorithm: Algorithm::Null, got: LENGTH - 1, needs: LENGTH })
    );
    assert_eq!(served(&device), 0);
    assert!(matches!(session.encrypt(&[1], &mut good), Err(Error::Misuse(Misuse::IvLength { .. }))));
    assert!(matches!(session.digest(b"", &mut []), Err(Error::Misuse(Misuse::Operation { .. }))));
    let oneway = SessionParams::new(Algorithm::Null, &[]).with_direction(Direction::Decrypt);
    let oneway = session.gantry().session(oneway).unwrap();
    assert!(matches!(oneway.encrypt(&[], &mut good), Err(Error::Misuse(Misuse::Operation { .. }))));
    assert!(oneway.decrypt(&[], &mut good).is_ok());
}

#[test]
fn an_operation_of_another_kind_reaches_no_device() {
    let capability = Capability::new(Algorithm::Sha256);
    let device = Scripted::new(Script { capability, ..Script::new("device") });
    let gantry = Gantry::builder().driver(&device).build();
    let session = gantry.session(SessionParams::new(Algorithm::Sha256, &[])).unwrap();
    let wrong = Operands::Cipher { operation: Operation::Digest, iv: &[], data: (&mut []).into() };
    assert!(matches!(session.run(wrong), Err(Error::Misuse(Misuse::Operation { .. }))));
    assert_eq!(gantry.devices()[0].state(), DeviceState::Ready);
}

#[test]
fn requests_that_do_not_fit_one_device_run_one_by_one() {
    let apart = Capability { in_place: false, ..Capability::new(Algorithm::Null) };
    let small = Capability { max_bytes: 8, ..Capability::new(Algorithm::Null) };
    let one = Scripted::new(Script { capability: apart, ..Script::new("apart") });
    let two = Scripted::new(Script { capability: small, ..Script::new("small") });
    let session = session_on(BreakEven, &[&one, &two]);
    let (mut short, mut long) = ([7; 3], [0; 100]);
    let mut requests = [Request::encrypt(&[], &mut short), Request::encrypt(&[], (&[9; 100][..], &mut long[..]))];
    session.process(&mut requests).unwrap();
    assert!(requests.iter().all(|request| request.outcome() == Some(Outcome::Done)));
    assert_eq!(long, [9; 100]);
}

#[test]
fn an_algorithm_without_devices_is_an_error() {
    let device = Scripted::new(Script::new("device"));
    let gantry = Gantry::builder().driver(&device).build();
    let error = gantry.session(SessionParams::new(Algorithm::Sha256, &[])).unwrap_err();
    assert_eq!(error.to_string(), "sha256: no device serves digest here");
}

#[test]
#[cfg_attr(miri, ignore = "choice of a device, in safe code")]
fn a_device_that_computes_wrongly_is_never_admitted() {
    // The device returns zeros for every digest.
    let capability = Capability::new(Algorithm::Sha256);
    let liar = Scripted::new(Script { capability, ..Script::new("liar") });
    let gantry = Gantry::builder().driver(&liar).build();
    let session = gantry.session(SessionParams::new(Algorithm::Sha256, &[])).unwrap();
    let error = session.digest(b"abc", &mut [0; 32]).unwrap_err().to_string();
    assert!(error.contains("liar: failed its known-answer test: digest of"), "{error}");
}

#[test]
#[cfg_attr(miri, ignore = "choice of a device, in safe code")]
fn an_excluded_device_is_listed_with_its_reason_and_not_used() {
    let device = Scripted::new(Script::new("device"));
    let other = Scripted::new(Script::new("other"));
    let gantry = (Gantry::builder())
        .driver_with(&device, |info| (info.name == "device").then(|| "turned off".to_owned()))
        .driver(&other)
        .build();
    assert_eq!(gantry.devices()[0].state(), DeviceState::Excluded("turned off".into()));
    let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
    assert_eq!(run_batch(&session, 2), ["other", "other"]);
}

#[test]
fn sixteen_threads_share_a_session() {
    const THREADS: usize = if cfg!(miri) { 3 } else { 16 };
    const MOST: usize = if cfg!(miri) { 4 } else { 20 };
    let ring = Scripted::new(Script { ring: Some(3), ..Script::new("ring") });
    let gantry = Gantry::builder().policy(BreakEven).driver(&ring).build();
    let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for count in 1..MOST {
                    run_batch(&session, count);
                }
            });
        }
    });
    assert_eq!(served(&ring), THREADS * (1..MOST).sum::<usize>());
}

#[test]
fn an_empty_batch_succeeds() {
    let device = Scripted::new(Script::new("device"));
    session_on(BreakEven, &[&device]).process(&mut []).unwrap();
}

#[test]
#[cfg_attr(miri, ignore = "choice of a device, in safe code")]
fn the_policy_can_be_replaced() {
    let one = Scripted::new(Script::new("one"));
    let two = Scripted::new(Script::new("two"));
    let gantry = Gantry::builder().driver(&one).driver(&two).build();
    let pinned = gantry.with_policy(Pin { device: "two".into() });
    let session = pinned.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
    assert_eq!(run_batch(&session, 1), ["two"]);
    assert_eq!(pinned.policy().name(), "pin");
}

#[test]
fn operands_of_streams_do_not_run_alone() {
    struct Nothing;
    impl gantry_core::driver::DigestStream for Nothing {
        fn operation(&self) -> Operation {
            Operation::Digest
        }
        fn update(&mut self, _: &[u8]) -> Result<(), Fault> {
            Ok(())
        }
        fn finish(&mut self, _: &mut [u8]) -> Result<(), Fault> {
            Ok(())
        }
        fn duplicate(&self) -> Box<dyn gantry_core::driver::DigestStream> {
            Box::new(Nothing)
        }
    }
    let device = Scripted::new(Script::new("device"));
    let session = session_on(BreakEven, &[&device]);
    let error = session.run(Operands::Update { stream: &mut Nothing, input: b"" }).unwrap_err();
    assert!(matches!(error, Error::Misuse(Misuse::Stream { .. })));
}

#[test]
fn a_batch_can_move_between_threads() {
    fn travels<T: Send>() {}
    travels::<Request<'static>>();
    travels::<Vec<Request<'_>>>();

    for script in Script::in_every_way("device") {
        let device = Scripted::new(script);
        let session = session_on(BreakEven, &[&device]);
        let mut outputs = [[0; LENGTH]; 3];
        let mut requests: Vec<Request<'_>> =
            outputs.iter_mut().map(|output| Request::encrypt(&[], (&b"12345"[..], &mut output[..]))).collect();
        requests = std::thread::scope(|scope| {
            let other_thread = scope.spawn(|| {
                session.process(&mut requests).unwrap();
                requests
            });
            other_thread.join().unwrap()
        });
        assert!(requests.iter().all(|request| request.outcome() == Some(Outcome::Done)));
        // The requests keep no state of the other thread, so they can run again in this one.
        session.process(&mut requests).unwrap();
        assert!(requests.iter().all(|request| request.outcome() == Some(Outcome::Done)));
        drop(requests);
        assert_eq!((outputs, device.served()), ([*b"12345"; 3], 6));
    }
}
