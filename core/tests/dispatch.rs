//! What core promises about requests: every one gets its outcome, from the device that the policy names, whatever devices
//! do.

mod devices;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use devices::{Deed, Script, Scripted};
use gantry_core::driver::{Capability, Class, Operands, Refusal, Unsupported};
use gantry_core::route::{BreakEven, Failover, Pin, Reason, RoundRobin, SizeThreshold};
use gantry_core::{
    Algorithm, DeviceState, Direction, Error, Fault, Gantry, Misuse, Operation, Outcome, Policy, Request, Session,
    SessionParams, VirtualClock,
};

/// Of the requests of these tests; no known answer has this length.
const LENGTH: usize = 5;

/// In simulated time, which stands still: a quarantine does not end while a slow machine looks elsewhere.
fn session_on(policy: impl Policy + 'static, drivers: &[&Scripted]) -> Session {
    let builder = Gantry::builder().policy(policy).clock(Arc::new(VirtualClock::default()));
    let builder = drivers.iter().fold(builder, |builder, driver| builder.driver(*driver));
    builder.build().session(SessionParams::new(Algorithm::Null, &[])).unwrap()
}

/// Runs a batch of requests with different bytes, and checks each output and outcome. Returns the devices that served.
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
fn a_ring_that_is_full_serves_every_request_in_the_end() {
    const MANY: usize = if cfg!(miri) { 5 } else { 100 };
    for slots in [1, 3, 64, 200] {
        let ring = Scripted::new(Script { ring: Some(slots), ..Script::new("ring") });
        let session = session_on(BreakEven, &[&ring]);
        assert_eq!(run_batch(&session, MANY), vec!["ring"; MANY]);
        assert_eq!(served(&ring), MANY, "each request exactly once");
    }
}

#[test]
fn a_device_without_a_direct_way_serves_single_requests_too() {
    let capability = Capability { direct: false, ..Capability::new(Algorithm::Null) };
    let ring = Scripted::new(Script { ring: Some(4), capability, ..Script::new("ring") });
    let session = session_on(BreakEven, &[&ring]);
    run_one(&session);
    assert_eq!(served(&ring), 1);
}

#[test]
fn who_waits_for_a_device_that_tells_lets_it_tell() {
    let ring = Script { ring: Some(4), tells: true, ..Script::new("ring") }.doing(|_| Deed::Tell);
    let (ring, other) = (Scripted::new(ring), Scripted::new(Script::new("other")));
    let session = session_on(Pin { device: "ring".into() }, &[&ring, &other]);
    run_one(&session);
    assert_eq!(run_batch(&session, 3), ["ring"; 3]);
    assert_eq!((served(&ring), served(&other)), (4, 0));
}

#[test]
fn what_a_device_fails_or_loses_is_done_by_another_and_the_device_is_left() {
    for deed in [Deed::Fail, Deed::Lose] {
        for script in Script::in_every_way("bad") {
            let bad = Scripted::new(script.doing(move |n| if n == 3 { deed } else { Deed::Work }));
            let good = Scripted::new(Script::new("good"));
            let session = session_on(Failover { order: vec!["bad".into()] }, &[&good, &bad]);
            run_batch(&session, 10);
            assert_eq!(served(&good) + served(&bad), 11, "one was done twice, and each by somebody");
            assert_eq!(session.gantry().device("bad").unwrap().state(), DeviceState::Quarantined);
            let before = served(&bad);
            run_batch(&session, 10);
            run_one(&session);
            assert_eq!(served(&bad), before, "a quarantined device serves nobody");
        }
    }
}

#[test]
fn a_direct_request_moves_on_when_its_device_fails() {
    let bad = Scripted::new(Script::new("bad").doing(|_| Deed::Fail));
    let good = Scripted::new(Script::new("good"));
    let session = session_on(Pin { device: "bad".into() }, &[&bad, &good]);
    run_one(&session);
    assert_eq!((served(&bad), served(&good)), (1, 1));
}

#[test]
fn when_every_device_fails_the_error_names_the_last_fault() {
    let one = Scripted::new(Script::new("one").doing(|_| Deed::Fail));
    let two = Scripted::new(Script::new("two").doing(|_| Deed::Fail));
    let session = session_on(BreakEven, &[&one, &two]);
    let mut data = [0; LENGTH];
    let error = session.encrypt(&[], &mut data).unwrap_err();
    assert_eq!(error, Error::Device { algorithm: Algorithm::Null, last: Fault::failed("it broke") });
    let mut requests = [Request::encrypt(&[], &mut data)];
    assert!(matches!(session.process(&mut requests), Err(Error::Unserved { .. })), "both are quarantined");
    assert_eq!(requests[0].outcome(), None);
}

#[test]
fn a_device_that_declines_a_session_is_passed_over_and_says_why() {
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

/// A device that has a fault when it is asked to open a session for the `first` time to before the `last`.
fn opens_not(first: usize, last: usize) -> Scripted {
    let opens = move |n| if (first..last).contains(&n) { Err(Fault::failed("unplugged").into()) } else { Ok(()) };
    let opens: Arc<dyn Fn(usize) -> Result<(), Refusal> + Send + Sync> = Arc::new(opens);
    Scripted::new(Script { opens, ..Script::new("loose") })
}

#[test]
fn a_device_that_fails_its_first_test_for_a_passing_reason_is_tried_again_after_a_while() {
    // The known-answer test opens a session for each operation and answer.
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
    assert_eq!(served(&loose), 0, "and has twice as long to recover");
    pause(150_000_000);
    run_one(&session);
    run_batch(&session, 3);
    assert_eq!((served(&loose), served(&good)), (4, 6));
    assert!(gantry.device("loose").unwrap().admit(Algorithm::Null).is_ok());

    // What it did wrong it would do wrong again.
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
fn a_device_that_cannot_open_a_session_at_the_moment_is_quarantined_and_opens_it_later() {
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
        assert_eq!(device.state(), DeviceState::Ready, "it came back by its known answers");
    }

    let alone = session_on(BreakEven, &[&opens_not(answers, answers + 1)]);
    let error = alone.encrypt(&[], &mut [0; LENGTH]).unwrap_err();
    assert_eq!(error, Error::Device { algorithm: Algorithm::Null, last: Fault::failed("unplugged") });
}

#[test]
fn a_device_that_declines_a_request_is_well_and_keeps_getting_others() {
    let shy = Scripted::new(Script::new("shy").doing(|n| if n % 2 == 0 { Deed::Decline } else { Deed::Work }));
    let good = Scripted::new(Script::new("good"));
    let session = session_on(Pin { device: "shy".into() }, &[&shy, &good]);
    run_one(&session);
    assert_eq!(served(&good), 1);
    run_one(&session);
    assert_eq!(served(&good), 1);
    run_batch(&session, 6);
    assert_eq!(session.gantry().device("shy").unwrap().state(), DeviceState::Ready);

    let never = Scripted::new(Script::new("never").doing(|_| Deed::Decline));
    let alone = session_on(BreakEven, &[&never]);
    let error = alone.encrypt(&[], &mut [0; LENGTH]).unwrap_err();
    assert!(matches!(&error, Error::Unserved { reasons, .. } if reasons[..] == ["never: not this one"]), "{error}");
}

#[test]
fn a_driver_that_panics_has_failed_and_leaves_no_request_behind() {
    for script in Script::in_every_way("bad") {
        let bad = Scripted::new(script.doing(|n| if n == 2 { Deed::Panic } else { Deed::Work }));
        let good = Scripted::new(Script::new("good"));
        let session = session_on(Failover { order: vec!["bad".into()] }, &[&good, &bad]);
        run_batch(&session, 20);
        assert_eq!(session.gantry().device("bad").unwrap().state(), DeviceState::Quarantined);
        run_batch(&session, 20);
        assert_eq!(served(&good) + served(&bad), 41, "what it lost was done again");
    }
}

#[test]
fn a_driver_that_panics_outside_its_queues_has_failed_and_nobody_falls_with_it() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Call {
        Run,
        Open,
        Attach,
    }
    let one = run_one as fn(&Session);
    let batch = |session: &Session| drop(run_batch(session, 3));
    for (call, way) in [(Call::Run, one), (Call::Open, one), (Call::Open, batch), (Call::Attach, batch)] {
        let armed = Arc::new(AtomicBool::new(false));
        let (run, open, attach) = (armed.clone(), armed.clone(), armed.clone());
        let panics = move |here: &AtomicBool, place| assert!(place != call || !here.load(Ordering::Relaxed), "a bug");
        let script = Script {
            opens: Arc::new(move |_| {
                panics(&open, Call::Open);
                Ok(())
            }),
            attaches: Arc::new(move || {
                panics(&attach, Call::Attach);
                Ok(())
            }),
            queues: true,
            ..Script::new("bad")
        };
        let bad = Scripted::new(script.doing(move |_| {
            panics(&run, Call::Run);
            Deed::Work
        }));
        let good = Scripted::new(Script::new("good"));
        let session = session_on(Pin { device: "bad".into() }, &[&bad, &good]);
        let device = session.gantry().device("bad").unwrap();
        device.admit(Algorithm::Null).unwrap();
        armed.store(true, Ordering::Relaxed);
        way(&session);
        assert_eq!(device.state(), DeviceState::Quarantined, "{call:?}");
        armed.store(false, Ordering::Relaxed);
        session.gantry().clock().spend(200_000_000);
        let before = served(&bad);
        way(&session);
        assert!(served(&bad) > before, "{call:?}: it came back");
    }

    // In its known-answer test: it is not admitted, and asked again.
    let calls = AtomicBool::new(true);
    let opens = Arc::new(move |_| {
        assert!(!calls.swap(false, Ordering::Relaxed), "a bug");
        Ok(())
    });
    let bad = Scripted::new(Script { opens, ..Script::new("bad") });
    let session = session_on(BreakEven, &[&bad]);
    assert!(matches!(session.encrypt(&[], &mut [0; LENGTH]), Err(Error::Device { .. })));
    session.gantry().clock().spend(200_000_000);
    run_one(&session);
}

#[test]
fn nobody_computes_from_data_that_a_panic_may_have_changed() {
    for script in Script::in_every_way("bad") {
        let bad = || Scripted::new(script.clone().doing(|_| Deed::Panic));
        let good = Scripted::new(Script::new("good"));
        let fault = Error::Device { algorithm: Algorithm::Null, last: Fault::Panicked };

        let mut data = [7; LENGTH];
        let session = session_on(Pin { device: "bad".into() }, &[&bad(), &good]);
        assert_eq!(session.encrypt(&[], &mut data), Err(fault.clone()));

        let session = session_on(Pin { device: "bad".into() }, &[&bad(), &good]);
        let mut requests = [Request::encrypt(&[], &mut data)];
        assert_eq!(session.process(&mut requests), Err(fault));
        assert_eq!(requests[0].outcome(), None);
        assert_eq!(served(&good), 0);
        session.encrypt(&[], &mut data).unwrap();
    }
}

#[test]
fn only_the_request_over_which_a_driver_panics_is_lost() {
    let [each, queue, _] = Script::in_every_way("bad");
    for script in [each, queue] {
        let bad = Scripted::new(script.doing(|n| if n == 1 { Deed::Panic } else { Deed::Work }));
        let good = Scripted::new(Script::new("good"));
        let session = session_on(Pin { device: "bad".into() }, &[&bad, &good]);
        let mut data = [[7; LENGTH]; 4];
        let mut requests: Vec<_> = data.iter_mut().map(|data| Request::encrypt(&[], data)).collect();
        assert!(matches!(session.process(&mut requests), Err(Error::Device { last: Fault::Panicked, .. })));
        let done = Some(Outcome::Done);
        assert_eq!(requests.iter().map(Request::outcome).collect::<Vec<_>>(), [done, None, done, done]);
        assert_eq!((served(&bad), served(&good)), (2, 2));
    }
}

#[test]
fn a_driver_that_keeps_a_job_is_left_in_time_and_holds_the_caller_until_it_drops_it() {
    let script = Script { ring: Some(4), ..Script::new("keeper") };
    let kept = script.kept.clone();
    let keeper = Scripted::new(script.doing(|n| if n == 0 { Deed::Keep } else { Deed::Work }));
    let good = Scripted::new(Script::new("good"));
    let session = session_on(Pin { device: "keeper".into() }, &[&keeper, &good]);
    let (dropped, returned) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while session.gantry().device("keeper").unwrap().state() != DeviceState::Quarantined {
                std::thread::yield_now();
            }
            // Others do not wait for it.
            run_one(&session);
            assert!(!returned.load(Ordering::SeqCst), "the driver could still write to the buffers");
            dropped.store(true, Ordering::SeqCst);
            kept.lock().unwrap().clear();
        });
        run_batch(&session, 3);
        returned.store(true, Ordering::SeqCst);
        assert!(dropped.load(Ordering::SeqCst));
    });
    // The other thread's request may have come when the device was on trial again.
    assert_eq!(served(&keeper) + served(&good), 5);
    assert!(served(&good) >= 1, "what it kept was done elsewhere");
}

#[test]
fn a_device_that_takes_nothing_is_not_waited_for() {
    let full = Scripted::new(Script { ring: Some(0), ..Script::new("full") });
    let good = Scripted::new(Script::new("good"));
    let builder = Gantry::builder().policy(Failover { order: vec!["full".into()] }).driver(&good).driver(&full);
    let gantry = builder.clock(Arc::new(VirtualClock::default())).build();
    let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
    run_batch(&session, 5);
    assert_eq!(served(&good), 5);
}

#[test]
fn break_even_sends_crowds_to_lanes_and_the_few_that_are_left_to_software() {
    let capability = Capability { lanes: 16, break_even: 6, ..Capability::new(Algorithm::Null) };
    let software = Scripted::new(Script::new("software"));
    let lanes = Scripted::new(Script { capability, ..Script::new("lanes") });
    let session = session_on(BreakEven, &[&software, &lanes]);
    for (count, in_lanes) in [(1, 0), (5, 0), (6, 6), (16, 16), (19, 16), (22, 22), (35, 32), (100, 96)] {
        let devices = run_batch(&session, count);
        assert_eq!(devices.iter().filter(|device| *device == "lanes").count(), in_lanes, "of {count}");
    }
    let route = session.route(Operation::Encrypt, LENGTH, 20).unwrap();
    assert_eq!((route.requests, route.reason), (16, Reason::EnoughRequests));
}

#[test]
fn of_two_devices_that_need_no_company_the_one_with_lanes_serves() {
    let capability = Capability { lanes: 8, break_even: 1, ..Capability::new(Algorithm::Null) };
    let software = Scripted::new(Script::new("software"));
    let lanes = Scripted::new(Script { capability, ..Script::new("lanes") });
    let session = session_on(BreakEven, &[&software, &lanes]);
    for count in [1, 3, 8, 11] {
        assert_eq!(run_batch(&session, count), vec!["lanes"; count]);
    }
}

#[test]
fn a_device_that_never_pays_serves_when_nobody_else_can() {
    let never = Capability { break_even: usize::MAX, ..Capability::new(Algorithm::Null) };
    let seldom = Capability { lanes: 8, break_even: 6, ..Capability::new(Algorithm::Null) };
    let never = Scripted::new(Script { capability: never, class: Class::Simd, ..Script::new("never") });
    let seldom = Scripted::new(Script { capability: seldom, ..Script::new("seldom") });
    let software = Scripted::new(Script { class: Class::Software, ..Script::new("software") });
    for (others, serves) in [(vec![&software], "software"), (vec![&seldom], "seldom"), (vec![], "never")] {
        let session = session_on(BreakEven, &[vec![&never], others].concat());
        for count in [1, 5] {
            assert_eq!(run_batch(&session, count), vec![serves; count]);
        }
    }
}

/// Its capability says that it is worth its start against plain software.
#[test]
fn of_two_devices_that_need_no_company_simd_serves_before_plain_software() {
    let software = Scripted::new(Script { class: Class::Software, ..Script::new("software") });
    let other = Scripted::new(Script { class: Class::Simd, ..Script::new("other") });
    for devices in [[&software, &other], [&other, &software]] {
        let session = session_on(BreakEven, &devices);
        for count in [1, 3] {
            assert_eq!(run_batch(&session, count), vec!["other"; count]);
        }
    }
}

#[test]
fn fixed_policies_do_what_they_say() {
    let one = Scripted::new(Script::new("one"));
    let two = Scripted::new(Script::new("two"));
    let drivers: &[&Scripted] = &[&one, &two];

    assert_eq!(run_batch(&session_on(Pin { device: "two".into() }, drivers), 3), ["two", "two", "two"]);
    assert_eq!(run_batch(&session_on(Failover { order: vec!["absent".into(), "two".into()] }, drivers), 1), ["two"]);

    let turns = session_on(RoundRobin::default(), drivers);
    assert_ne!(run_batch(&turns, 1), run_batch(&turns, 1));

    let threshold = session_on(SizeThreshold { bytes: 100, small: "one".into(), large: "two".into() }, drivers);
    let mut buffers = [vec![0; 10], vec![0; 99], vec![0; 100], vec![0; 1000], vec![0; 1]];
    let mut requests: Vec<Request<'_>> = buffers.iter_mut().map(|data| Request::encrypt(&[], data)).collect();
    threshold.process(&mut requests).unwrap();
    let devices: Vec<usize> = requests.iter().map(|request| request.route().unwrap().device).collect();
    assert_eq!(devices, [0, 0, 1, 1, 0]);
}

#[test]
fn routes_lead_around_what_a_device_cannot_do() {
    let small = Capability { max_bytes: 8, ..Capability::new(Algorithm::Null) };
    let apart = Capability { in_place: false, ..Capability::new(Algorithm::Null) };
    let oneway = Capability { operations: &[Operation::Decrypt], ..Capability::new(Algorithm::Null) };
    for capability in [small, apart, oneway] {
        let narrow = Scripted::new(Script { capability, ..Script::new("narrow") });
        let wide = Scripted::new(Script::new("wide"));
        let session = session_on(Pin { device: "narrow".into() }, &[&narrow, &wide]);
        let mut data = [7; 9];
        session.encrypt(&[], &mut data).unwrap();
        let mut requests = [Request::encrypt(&[], &mut data)];
        session.process(&mut requests).unwrap();
        assert_eq!(requests[0].route().unwrap().device, 1);
    }
}

#[test]
fn sessions_of_a_batch_are_of_one_framework_and_one_for_each_request() {
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
    let oneway = SessionParams::new(Algorithm::Null, &[]).direction(Direction::Decrypt);
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
fn requests_that_no_device_can_take_together_are_run_one_by_one() {
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
fn nobody_serves_an_algorithm_that_no_device_offers() {
    let device = Scripted::new(Script::new("device"));
    let gantry = Gantry::builder().driver(&device).build();
    let error = gantry.session(SessionParams::new(Algorithm::Sha256, &[])).unwrap_err();
    assert_eq!(error.to_string(), "sha256: no device serves digest here");
}

#[test]
fn a_device_that_computes_wrongly_is_never_admitted() {
    // The digest of everything is zeros.
    let capability = Capability::new(Algorithm::Sha256);
    let liar = Scripted::new(Script { capability, ..Script::new("liar") });
    let gantry = Gantry::builder().driver(&liar).build();
    let session = gantry.session(SessionParams::new(Algorithm::Sha256, &[])).unwrap();
    let error = session.digest(b"abc", &mut [0; 32]).unwrap_err().to_string();
    assert!(error.contains("liar: failed its known-answer test: digest of"), "{error}");
}

#[test]
fn an_excluded_device_is_listed_with_its_reason_and_serves_nobody() {
    let device = Scripted::new(Script::new("device"));
    let other = Scripted::new(Script::new("other"));
    let gantry = (Gantry::builder())
        .driver_with(&device, |name| (name == "device").then(|| "turned off".to_owned()))
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
fn a_batch_of_nothing_is_done() {
    let device = Scripted::new(Script::new("device"));
    session_on(BreakEven, &[&device]).process(&mut []).unwrap();
}

#[test]
fn a_policy_under_which_devices_were_tested_can_be_changed() {
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
fn a_batch_goes_from_thread_to_thread() {
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
            let there = scope.spawn(|| {
                session.process(&mut requests).unwrap();
                requests
            });
            there.join().unwrap()
        });
        // And once more here: nothing of the other thread is left in them.
        assert!(requests.iter().all(|request| request.outcome() == Some(Outcome::Done)));
        session.process(&mut requests).unwrap();
        assert!(requests.iter().all(|request| request.outcome() == Some(Outcome::Done)));
        drop(requests);
        assert_eq!((outputs, device.served()), ([*b"12345"; 3], 6));
    }
}
