//! Sessions that are opened ahead of their requests, and rekeyed.

mod devices;

use devices::{Script, Scripted, session};
use gantry_core::driver::{Refusal, Unsupported};
use gantry_core::route::BreakEven;
use gantry_core::{Error, Gantry, Operation, Session};
use std::sync::Arc;

/// Length of these tests' requests; no known answer has this length.
const LENGTH: usize = 5000;

fn framework(devices: &[&Scripted]) -> Gantry {
    devices.iter().fold(Gantry::builder().policy(BreakEven), |builder, device| builder.driver(*device)).build()
}

#[test]
fn a_prepared_session_is_open_before_its_first_request() {
    let device = Scripted::new(Script::new("device"));
    let gantry = framework(&[&device]);
    session(&gantry).prepare(Operation::Encrypt, LENGTH).unwrap();
    let tested = device.opened();
    let sessions: Vec<Session> = (0..10_000).map(|_| session(&gantry)).collect();
    assert_eq!(device.opened(), tested, "an unused session is not open");
    for session in &sessions {
        session.prepare(Operation::Encrypt, LENGTH).unwrap();
    }
    assert_eq!(device.opened(), tested + 10_000);
    for session in &sessions {
        session.encrypt(&[], &mut vec![7; LENGTH]).unwrap();
    }
    assert_eq!((device.opened(), device.served()), (tested + 10_000, 10_000));
}

#[test]
fn a_session_is_prepared_on_the_next_device_if_the_first_declines() {
    let declining = Scripted::new(Script {
        opens: Arc::new(|n| if n < 8 { Ok(()) } else { Err(Unsupported::because("no such keys").into()) }),
        ..Script::new("declining")
    });
    let other = Scripted::new(Script::new("other"));
    let gantry = framework(&[&declining, &other]);
    // The known-answer test has opened several sessions already.
    let declined = (0..20).map(|_| session(&gantry)).find(|session| {
        let before = other.opened();
        session.prepare(Operation::Encrypt, LENGTH).unwrap();
        other.opened() > before
    });
    declined.expect("one session is declined").encrypt(&[], &mut vec![7; LENGTH]).unwrap();
    assert_eq!(other.served(), 1);
}

#[test]
fn a_session_that_no_device_opens_cannot_be_prepared() {
    let refuses = |_| Err(Refusal::from(Unsupported::because("no such keys")));
    let gantry = framework(&[&Scripted::new(Script { opens: Arc::new(refuses), ..Script::new("refusing") })]);
    let why = session(&gantry).prepare(Operation::Encrypt, LENGTH).unwrap_err();
    assert!(matches!(why, Error::Unserved { .. }) && why.to_string().contains("no such keys"), "{why}");
}

#[test]
fn rekeying_opens_the_session_on_the_same_devices() {
    let device = Scripted::new(Script::new("device"));
    let gantry = framework(&[&device]);
    let old = session(&gantry);
    old.encrypt(&[], &mut vec![7; LENGTH]).unwrap();
    let opened = device.opened();
    let new = old.rekey(&[], &[]).unwrap();
    assert_eq!(device.opened(), opened + 1, "before its first request");
    drop(old);
    new.encrypt(&[], &mut vec![7; LENGTH]).unwrap();
    assert_eq!(device.opened(), opened + 1);
    assert!(new.rekey(&[1], &[]).is_err(), "the null cipher has no keys of one byte");
    let unused = session(&gantry).rekey(&[], &[]).unwrap();
    assert_eq!(device.opened(), opened + 1, "a session that is not open stays so");
    drop(unused);
}
