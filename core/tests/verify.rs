//! Verification by sampling detects wrong results before the caller sees them.

mod devices;

use std::sync::Arc;

use devices::{Action, Script, Scripted};
use gantry_core::driver::Class;
use gantry_core::route::Failover;
use gantry_core::stats::Event;
use gantry_core::{
    Algorithm, DeviceState, Gantry, Outcome, QueueOptions, Request, Session, SessionParams, Submission, VirtualClock,
};

/// Length of these tests' requests; no known answer has this length.
const LENGTH: usize = 5;

fn session(every: u32, liar: &Scripted, software: &Scripted) -> Session {
    let policy = Failover { order: vec!["liar".into()] };
    // Time stands still, so no quarantine ends.
    let builder = Gantry::builder().policy(policy).verify(every).clock(Arc::new(VirtualClock::default()));
    let gantry = builder.driver(software).driver(liar).build();
    gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap()
}

fn software() -> Scripted {
    Scripted::new(Script { class: Class::Software, ..Script::new("software") })
}

fn state(session: &Session) -> DeviceState {
    session.gantry().device("liar").unwrap().state()
}

#[test]
fn wrong_results_are_corrected_and_quarantine_the_device_on_every_path() {
    for script in Script::in_every_way("liar") {
        for action in [Action::Corrupt, Action::Refuse] {
            let liar =
                || Scripted::new(script.clone().with_actions(move |n| if n == 3 { action } else { Action::Work }));
            let direct = session(1, &liar(), &software());
            let batch = session(1, &liar(), &software());
            let queue = session(1, &liar(), &software());

            for round in 0..6 {
                let mut data = [round; LENGTH];
                direct.encrypt(&[], &mut data).unwrap();
                assert_eq!(data, [round; LENGTH]);
            }

            let mut data = [[9; LENGTH]; 6];
            let mut requests: Vec<Request<'_>> = data.iter_mut().map(|data| Request::encrypt(&[], data)).collect();
            batch.process(&mut requests).unwrap();
            assert!(requests.iter().all(|request| request.outcome() == Some(Outcome::Done)));
            assert_eq!(data, [[9; LENGTH]; 6]);

            let mut submissions = queue.gantry().queue(QueueOptions::default()).unwrap();
            for user in 0..6 {
                submissions.submit(&queue, Submission::encrypt(&[], vec![user as u8; LENGTH]).user(user)).unwrap();
            }
            while submissions.in_flight() > 0 {
                submissions.wait(|completion| {
                    assert_eq!(completion.result, Ok(Outcome::Done));
                    assert_eq!(completion.submission.data(), [completion.user as u8; LENGTH]);
                });
            }

            for session in [direct, batch, queue] {
                assert_eq!(state(&session), DeviceState::Quarantined);
                let stats = session.gantry().stats();
                assert!(stats.events(Event::Mismatched) == 1 && stats.events(Event::Verified) > 1);
            }
        }
    }
}

#[test]
fn one_in_n_requests_is_verified() {
    let (liar, software) = (Scripted::new(Script::new("liar")), software());
    let session = session(10, &liar, &software);
    let mut data = [0; LENGTH];
    (0..100).for_each(|_| session.encrypt(&[], &mut data).unwrap());
    assert_eq!(session.gantry().stats().events(Event::Verified), 10);
    assert_eq!((liar.served(), software.served(), state(&session)), (100, 10, DeviceState::Ready));
}

#[test]
fn verification_is_off_by_default_and_never_applies_to_software() {
    let (liar, software) = (Scripted::new(Script::new("liar").with_actions(|_| Action::Corrupt)), software());
    let session = session(0, &liar, &software);
    session.encrypt(&[], &mut [0; LENGTH]).unwrap();
    assert_eq!((software.served(), state(&session)), (0, DeviceState::Ready));

    let alone = Gantry::builder().verify(1).driver(&software).build();
    alone.session(SessionParams::new(Algorithm::Null, &[])).unwrap().encrypt(&[], &mut [0; LENGTH]).unwrap();
    assert_eq!((software.served(), alone.stats().events(Event::Verified)), (1, 0));
}
