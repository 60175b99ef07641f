//! Tests, on a virtual clock, when a caller that is itself a device leaves requests to another device.

#![cfg(not(miri))] // Miri takes hours for the simulated seconds.
#![allow(clippy::cast_precision_loss, clippy::cast_sign_loss, reason = "times of seconds")]

mod timed;

use std::sync::Arc;

use gantry_core::route::{Pin, SizeSet};
use gantry_core::{Algorithm, CallerDevice, Clock, Gantry, SessionParams, VirtualClock};
use timed::{ENCRYPT, Timing};

/// Creates a caller and a device with these nanoseconds per request and per byte.
fn caller_device(clock: &Arc<VirtualClock>, own: (u64, f64), device: (u64, f64)) -> (CallerDevice, Timing) {
    let caller = Timing::new("caller", clock, own.0, own.1);
    let device = Timing::new("device", clock, device.0, device.1);
    let gantry = Gantry::builder().clock(clock.clone()).driver(&caller).driver(&device).build();
    (CallerDevice::new(gantry, "caller", false, |_| true), caller)
}

/// Asks about requests of `bytes` bytes and serves them until the answer is known. Returns the first answer, and the caller's work in ns.
fn learned(clock: &VirtualClock, caller_device: &CallerDevice, caller: &Timing, bytes: usize) -> (u32, u64) {
    let ask = || caller_device.saved_ns(Algorithm::Null, ENCRYPT, bytes, || None);
    let (first, mut work_ns) = (ask(), 0);
    while caller_device.savings(Algorithm::Null, ENCRYPT).saved_ns(bytes).is_none() {
        ask();
        clock.advance_to(clock.now() + caller.time(bytes));
        work_ns += caller.time(bytes);
        assert!(work_ns < 60_000_000_000, "the answer is never known");
    }
    (first, work_ns)
}

#[test]
fn a_slow_caller_leaves_large_requests_once_their_costs_are_known() {
    let clock = Arc::new(VirtualClock::default());
    let (caller_device, caller) = caller_device(&clock, (100, 2.0), (1000, 0.5));
    let (first, work_ns) = learned(&clock, &caller_device, &caller, 4096);
    assert_eq!(first, 0);
    assert!(work_ns > 5_000_000, "a calibration after only {work_ns} ns of work");
    let savings = caller_device.savings(Algorithm::Null, ENCRYPT);
    // The caller takes 8292 ns; the device takes 3048 ns, and the dispatch 150 ns.
    assert!(savings.saved_ns(4096).is_some_and(|saved| saved.abs_diff(5094) < 500), "{:?}", savings.saved_ns(4096));
    assert_eq!(savings.saved_ns(256), Some(0));
    assert!(!savings.sizes().has(256) && savings.sizes().has(4096));
}

#[test]
fn kept_costs_of_one_side_alone_decide_nothing() {
    for kept in ["device", "caller"] {
        let clock = Arc::new(VirtualClock::default());
        let (earlier, caller) = caller_device(&clock, (100, 2.0), (1000, 0.5));
        learned(&clock, &earlier, &caller, 4096);
        let costs: Vec<_> = earlier.gantry().costs().into_iter().filter(|record| record.device == kept).collect();
        assert!(!costs.is_empty());
        let (later, caller) = caller_device(&clock, (100, 2.0), (1000, 0.5));
        later.gantry().import_costs(&costs);
        learned(&clock, &later, &caller, 4096);
        let saved = later.savings(Algorithm::Null, ENCRYPT).saved_ns(4096);
        assert!(saved.is_some_and(|saved| saved.abs_diff(5094) < 500), "{kept}: {saved:?}");
    }
}

#[test]
fn a_device_that_saves_less_than_the_dispatch_costs_gets_no_requests() {
    let clock = Arc::new(VirtualClock::default());
    let (caller_device, caller) = caller_device(&clock, (3000, 0.0), (2900, 0.0));
    learned(&clock, &caller_device, &caller, 4096);
    assert_eq!(caller_device.savings(Algorithm::Null, ENCRYPT).sizes(), SizeSet::NONE);
    assert!(!caller_device.may_save(Algorithm::Null, ENCRYPT, 4096));
}

#[test]
fn follows_a_policy_from_the_first_request_on() {
    let clock = Arc::new(VirtualClock::default());
    let (caller_device, _) = caller_device(&clock, (100, 1.0), (1000, 10.0));
    for (name, saves) in [("device", true), ("caller", false)] {
        let gantry = caller_device.gantry().with_policy(Pin { device: name.to_owned() });
        let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
        let by_policy = CallerDevice::new(gantry, "caller", true, |_| true);
        assert_eq!(by_policy.saved_ns(Algorithm::Null, ENCRYPT, 1, || Some(session)) > 0, saves, "{name}");
    }
    // Devices that may not serve get no requests.
    let gantry = caller_device.gantry().with_policy(Pin { device: "device".to_owned() });
    let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
    let without_devices = CallerDevice::new(gantry, "caller", true, |_| false);
    assert_eq!(without_devices.saved_ns(Algorithm::Null, ENCRYPT, 1, || Some(session)), 0);
}
