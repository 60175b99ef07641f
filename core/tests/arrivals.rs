//! Devices that are plugged in or removed while programs have sessions.

mod devices;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use devices::{Action, Script, Scripted, request, session};
use gantry_core::driver::{Class, DeviceInfo, Driver, Found};
use gantry_core::route::Failover;
use gantry_core::{DeviceState, Gantry, Outcome, QueueOptions, RegisteredDevice, Request, Session, VirtualClock};

/// Length of these tests' requests; no known answer has this length.
const LENGTH: usize = 5;

/// Returns a framework that prefers the device `engine` as soon as it exists.
fn gantry(devices: &[&Scripted]) -> Gantry {
    let order = ["engine", "software"].map(str::to_owned).to_vec();
    let builder = Gantry::builder().policy(Failover { order }).clock(Arc::new(VirtualClock::default()));
    devices.iter().fold(builder, |builder, device| builder.driver(*device)).build()
}

fn none_excluded(_: &DeviceInfo) -> Option<String> {
    None
}

/// Runs a request, and returns the name of its device.
fn runs_on(session: &Session) -> &str {
    let mut data = [7; LENGTH];
    let mut requests = [Request::encrypt(&[], &mut data)];
    session.process(&mut requests).unwrap();
    let device = requests[0].route().unwrap().device;
    session.gantry().devices()[device].name()
}

#[test]
fn an_added_device_serves_later_sessions() {
    for script in Script::in_every_way("engine") {
        let (software, engine) = (Scripted::new(Script::new("software")), Scripted::new(script));
        let gantry = gantry(&[&software]);
        let older = session(&gantry);
        assert_eq!(runs_on(&older), "software");
        assert_eq!(gantry.discover(&engine, none_excluded), ["engine"]);
        let younger = session(&gantry);
        assert_eq!((runs_on(&younger), runs_on(&older)), ("engine", "software"));
        assert_eq!(gantry.discover(&engine, none_excluded), [""; 0], "the engine is already in the list");
        assert_eq!(gantry.devices().len(), 2);
        let stats = gantry.stats();
        let of_engine =
            |row: &&gantry_core::stats::SnapshotRow| row.device.as_ref().is_some_and(|(name, _)| name == "engine");
        assert_eq!(stats.rows.iter().find(of_engine).unwrap().requests(), 1);
    }
}

/// Groups with several sessions use the candidate indexes of the leading session.
#[test]
fn older_and_newer_sessions_share_queues_and_batches() {
    for script in Script::in_every_way("engine") {
        let (software, engine) = (Scripted::new(Script::new("software")), Scripted::new(script));
        let gantry = gantry(&[&software]);
        let older = session(&gantry);
        let mut queue = gantry.queue(QueueOptions::default()).unwrap();
        queue.submit(&older, request(1)).unwrap();
        gantry.discover(&engine, none_excluded);
        let younger = session(&gantry);
        for (user, session) in [(2, &younger), (3, &older), (4, &younger)] {
            queue.submit(session, request(user)).unwrap();
        }
        let mut users = Vec::new();
        while queue.in_flight() > 0 {
            queue.complete(|done| users.push((done.user, done.result.unwrap())));
        }
        users.sort_unstable_by_key(|(user, _)| *user);
        assert_eq!(users, [1, 2, 3, 4].map(|user| (user, Outcome::Done)));

        for sessions in [[&younger, &older], [&older, &younger]] {
            let mut data = [[7; LENGTH]; 2];
            let mut requests: Vec<Request<'_>> = data.iter_mut().map(|data| Request::encrypt(&[], data)).collect();
            Session::process_each(&sessions.map(Clone::clone), &mut requests).unwrap();
            assert!(requests.iter().all(|request| request.outcome() == Some(Outcome::Done)));
        }
    }
}

/// A card is pulled out and put back: the driver finds another device with the same name.
#[test]
fn a_replugged_device_replaces_the_failed_one() {
    let (software, plugged) = (Scripted::new(Script::new("software")), Arc::new(AtomicBool::new(true)));
    let works = plugged.clone();
    let card = Script::new("engine")
        .with_actions(move |_| if works.load(Ordering::SeqCst) { Action::Work } else { Action::Fail });
    let (card, new_card) = (Scripted::new(card), Scripted::new(Script::new("engine")));
    let gantry = gantry(&[&software, &card]);
    let older = session(&gantry);
    assert_eq!(runs_on(&older), "engine");
    plugged.store(false, Ordering::SeqCst);
    assert_eq!(runs_on(&older), "software", "no request is lost");
    assert_eq!(gantry.device("engine").unwrap().state(), DeviceState::Quarantined);

    assert_eq!(gantry.discover(&new_card, none_excluded), ["engine"]);
    assert_eq!((runs_on(&session(&gantry)), runs_on(&older)), ("engine", "software"));
    assert_eq!(gantry.device("engine").unwrap().state(), DeviceState::Ready);
    let states: Vec<DeviceState> =
        gantry.devices().iter().filter(|device| device.name() == "engine").map(RegisteredDevice::state).collect();
    assert!(matches!(&states[..], [DeviceState::Excluded(_), DeviceState::Ready]), "{states:?}");
    let rows = gantry.stats().rows;
    let names = rows.iter().filter(|row| row.device.as_ref().is_some_and(|(name, _)| name == "engine"));
    assert_eq!(names.count(), 1, "both are counted under one name");
    let served = new_card.served.load(Ordering::Relaxed);
    assert_eq!(runs_on(&older), "software");
    assert_eq!(new_card.served.load(Ordering::Relaxed), served, "only newer sessions use the new card");
}

#[test]
fn discover_skips_excluded_devices() {
    struct Missing;
    impl Driver for Missing {
        fn name(&self) -> &'static str {
            "missing"
        }

        fn discover(&self) -> Vec<Found> {
            let (name, reason) = ("engine".to_owned(), "no such card".to_owned());
            vec![Found::Excluded { name, class: Class::Hardware, reason }]
        }
    }
    let engine = Scripted::new(Script::new("engine"));
    let gantry = gantry(&[&Scripted::new(Script::new("software"))]);
    assert!(gantry.discover(&Missing, none_excluded).is_empty());
    assert!(gantry.discover(&engine, |info| Some(format!("{} is off", info.name))).is_empty());
    assert_eq!((gantry.devices().len(), runs_on(&session(&gantry))), (1, "software"));
}

/// Devices with different names are all added, up to the limit of 64.
#[test]
fn a_framework_takes_at_most_64_devices() {
    struct Many;
    impl Driver for Many {
        fn name(&self) -> &'static str {
            "many"
        }

        fn discover(&self) -> Vec<Found> {
            let devices = (0..80).map(|number| {
                let name: &'static str = Box::leak(format!("card{number}").into_boxed_str());
                Scripted::new(Script::new(name)).discover().remove(0)
            });
            devices.collect()
        }
    }
    let gantry = gantry(&[&Scripted::new(Script::new("software"))]);
    assert_eq!(gantry.discover(&Many, none_excluded).len(), 63);
    assert!(gantry.discover(&Many, none_excluded).is_empty());
    assert_eq!(runs_on(&session(&gantry)), "software");
}
