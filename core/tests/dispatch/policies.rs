//! Devices that policies choose.

use super::*;

#[test]
#[cfg_attr(miri, ignore = "choice of a device, in safe code")]
fn break_even_sends_full_batches_to_lanes_and_small_remainders_to_software() {
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
#[cfg_attr(miri, ignore = "choice of a device, in safe code")]
fn a_device_with_lanes_and_no_minimum_batch_is_preferred() {
    let capability = Capability { lanes: 8, break_even: 1, ..Capability::new(Algorithm::Null) };
    let software = Scripted::new(Script::new("software"));
    let lanes = Scripted::new(Script { capability, ..Script::new("lanes") });
    let session = session_on(BreakEven, &[&software, &lanes]);
    for count in [1, 3, 8, 11] {
        assert_eq!(run_batch(&session, count), vec!["lanes"; count]);
    }
}

#[test]
#[cfg_attr(miri, ignore = "choice of a device, in safe code")]
fn a_device_that_never_pays_serves_as_the_last_resort() {
    let never = Capability { break_even: usize::MAX, ..Capability::new(Algorithm::Null) };
    let rare = Capability { lanes: 8, break_even: 6, ..Capability::new(Algorithm::Null) };
    let never = Scripted::new(Script { capability: never, class: Class::Simd, ..Script::new("never") });
    let rare = Scripted::new(Script { capability: rare, ..Script::new("seldom") });
    let software = Scripted::new(Script { class: Class::Software, ..Script::new("software") });
    for (others, serves) in [(vec![&software], "software"), (vec![&rare], "seldom"), (vec![], "never")] {
        let session = session_on(BreakEven, &[vec![&never], others].concat());
        for count in [1, 5] {
            assert_eq!(run_batch(&session, count), vec![serves; count]);
        }
    }
}

/// Its capability promises to beat plain software.
#[test]
#[cfg_attr(miri, ignore = "choice of a device, in safe code")]
fn simd_without_minimum_batch_is_preferred_to_plain_software() {
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
#[cfg_attr(miri, ignore = "choice of a device, in safe code")]
fn fixed_policies_select_their_devices() {
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
#[cfg_attr(miri, ignore = "choice of a device, in safe code")]
fn routes_avoid_devices_that_cannot_serve_the_request() {
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
