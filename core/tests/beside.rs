//! A caller that is one of the devices itself, on a virtual clock: when it leaves requests to another one.

#![cfg(not(miri))] // simulated seconds: hours
#![allow(clippy::cast_precision_loss, clippy::cast_sign_loss, reason = "times of seconds")]

mod timed;

use std::sync::Arc;

use gantry_core::route::{Pin, SizeSet};
use gantry_core::{Algorithm, Beside, Clock, Gantry, SessionParams, VirtualClock};
use timed::{ENCRYPT, Timing};

/// A caller that takes so long for a request and for each byte, beside a device.
fn beside(clock: &Arc<VirtualClock>, own: (u64, f64), device: (u64, f64)) -> (Beside, Timing) {
    let caller = Timing::new("caller", clock, own.0, own.1);
    let device = Timing::new("device", clock, device.0, device.1);
    let gantry = Gantry::builder().clock(clock.clone()).driver(&caller).driver(&device).build();
    (Beside::new(gantry, "caller", false, |_| true), caller)
}

/// Asks about requests of so many bytes and serves them, until the answer is known: the first answer, and nanoseconds of the caller.
fn learned(clock: &VirtualClock, beside: &Beside, caller: &Timing, bytes: usize) -> (u32, u64) {
    let ask = || beside.saves(Algorithm::Null, ENCRYPT, bytes, || None);
    let (first, mut worked) = (ask(), 0);
    while beside.worth(Algorithm::Null, ENCRYPT).saved_ns(bytes).is_none() {
        ask();
        clock.advance_to(clock.now() + caller.time(bytes));
        worked += caller.time(bytes);
        assert!(worked < 60_000_000_000, "never known");
    }
    (first, worked)
}

#[test]
fn a_slow_caller_leaves_large_requests_once_their_costs_are_known() {
    let clock = Arc::new(VirtualClock::default());
    let (beside, caller) = beside(&clock, (100, 2.0), (1000, 0.5));
    let (first, worked) = learned(&clock, &beside, &caller, 4096);
    assert_eq!(first, 0);
    assert!(worked > 5_000_000, "{worked} ns of work do not pay for a calibration");
    let worth = beside.worth(Algorithm::Null, ENCRYPT);
    // 8292 ns beside 3048, and 150 for the way.
    assert!(worth.saved_ns(4096).is_some_and(|saved| saved.abs_diff(5094) < 500), "{:?}", worth.saved_ns(4096));
    assert_eq!(worth.saved_ns(256), Some(0));
    assert!(!worth.sizes().has(256) && worth.sizes().has(4096));
}

#[test]
fn a_device_that_gains_less_than_the_way_to_it_gets_nothing() {
    let clock = Arc::new(VirtualClock::default());
    let (beside, caller) = beside(&clock, (3000, 0.0), (2900, 0.0));
    learned(&clock, &beside, &caller, 4096);
    assert_eq!(beside.worth(Algorithm::Null, ENCRYPT).sizes(), SizeSet::NONE);
    assert!(!beside.may_save(Algorithm::Null, ENCRYPT, 4096));
}

#[test]
fn a_policy_is_followed_from_the_first_request_on() {
    let clock = Arc::new(VirtualClock::default());
    let (beside, _) = beside(&clock, (100, 1.0), (1000, 10.0));
    for (name, leads) in [("device", true), ("caller", false)] {
        let gantry = beside.gantry().with_policy(Pin { device: name.to_owned() });
        let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
        let follows = Beside::new(gantry, "caller", true, |_| true);
        assert_eq!(follows.saves(Algorithm::Null, ENCRYPT, 1, || Some(session)) > 0, leads, "{name}");
    }
    // Devices that may serve nothing get nothing.
    let gantry = beside.gantry().with_policy(Pin { device: "device".to_owned() });
    let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
    let nobody = Beside::new(gantry, "caller", true, |_| false);
    assert_eq!(nobody.saves(Algorithm::Null, ENCRYPT, 1, || Some(session)), 0);
}
