//! The lifetime and number of keys on a device.

mod devices;

use std::sync::Arc;

use devices::{Script, Scripted, in_order, session};
use gantry_core::driver::DeviceLimits;
use gantry_core::stats::Event;
use gantry_core::{DeviceState, Outcome, QueueOptions, Request, Session, Submission};

/// Length of these tests' requests; no known answer has this length.
const LENGTH: usize = 5;

fn request() -> Submission {
    Submission::encrypt(&[], vec![7; LENGTH])
}

fn run_one(session: &Session) {
    let mut output = [0; LENGTH];
    session.encrypt(&[], (&b"12345"[..], &mut output[..])).unwrap();
    assert_eq!(&output, b"12345");
}

fn run_batch(session: &Session, count: usize) {
    let mut data = vec![[7; LENGTH]; count];
    let mut requests: Vec<Request<'_>> = data.iter_mut().map(|data| Request::encrypt(&[], data)).collect();
    session.process(&mut requests).unwrap();
    assert!(requests.iter().all(|request| request.outcome() == Some(Outcome::Done)));
}

#[test]
fn keys_are_dropped_with_the_last_request_of_their_session() {
    for script in Script::in_every_way("device") {
        let device = Scripted::new(script);
        let gantry = in_order(&Arc::default(), &[&device]);
        let mut queue = gantry.queue(QueueOptions::default()).unwrap();
        let (first, second) = (session(&gantry), session(&gantry));
        for session in [&first, &second, &first] {
            queue.submit(session, request()).unwrap();
        }
        queue.flush();
        drop(first);
        assert_eq!(device.open(), 2, "its requests are in flight");
        while queue.in_flight() > 0 {
            queue.wait(|completion| assert_eq!(completion.result, Ok(Outcome::Done)));
        }
        assert_eq!(device.open(), 1);
        drop(second);
        assert_eq!(device.open(), 0);
        queue.submit(&session(&gantry), request()).unwrap();
        queue.wait(|_| {});
        assert_eq!(device.open(), 0);
    }
}

#[test]
fn ten_thousand_sessions_have_a_request_each_in_one_queue() {
    const SESSIONS: usize = if cfg!(miri) { 100 } else { 10_000 };
    const AT_A_TIME: usize = 200;
    for script in Script::in_every_way("device") {
        let device = Scripted::new(script);
        let gantry = in_order(&Arc::default(), &[&device]);
        let mut queue = gantry.queue(QueueOptions::default()).unwrap();
        let mut done = 0;
        for user in 0..SESSIONS as u64 {
            let submission = Submission::encrypt(&[], user.to_le_bytes()[..LENGTH].to_vec()).user(user);
            queue.submit(&session(&gantry), submission).unwrap();
            let room = if user + 1 == SESSIONS as u64 { 0 } else { AT_A_TIME - 1 };
            while queue.in_flight() > room {
                queue.wait(|completion| {
                    assert_eq!(completion.result, Ok(Outcome::Done));
                    assert_eq!(completion.submission.data(), &completion.user.to_le_bytes()[..LENGTH]);
                    done += 1;
                });
            }
        }
        assert_eq!((done, device.open()), (SESSIONS, 0));
        assert!(device.max_open() <= AT_A_TIME + 1, "{}", device.max_open());
    }
}

#[test]
fn a_cancelled_request_releases_its_session() {
    // One request is in the ring, and two wait for room.
    let device = Scripted::new(Script { ring: Some(1), shared: true, ..Script::new("device") });
    let gantry = in_order(&Arc::default(), &[&device]);
    let mut queue = gantry.queue(QueueOptions::default()).unwrap();
    let tickets = [(); 3].map(|()| queue.submit(&session(&gantry), request()).unwrap());
    queue.flush();
    assert_eq!(device.open(), 3);
    assert!(queue.cancel(tickets[1]).is_some());
    assert_eq!(device.open(), 2);
    queue.wait(|_| {});
    queue.wait(|_| {});
    assert_eq!((queue.in_flight(), device.open()), (0, 0));
}

/// Returns scripts of devices with at most four open sessions, for each path.
fn with_four_sessions() -> [Script; 3] {
    let limits = DeviceLimits { sessions: 4, ..DeviceLimits::default() };
    Script::in_every_way("small").map(|script| Script { limits, ..script })
}

#[test]
fn sessions_take_turns_on_a_device_with_few_sessions() {
    const SESSIONS: usize = if cfg!(miri) { 10 } else { 100 };
    for script in with_four_sessions() {
        let device = Scripted::new(script);
        let gantry = in_order(&Arc::default(), &[&device]);
        let sessions: Vec<Session> = (0..SESSIONS).map(|_| session(&gantry)).collect();
        for session in sessions.iter().chain(&sessions) {
            run_one(session);
            run_batch(session, 3);
        }
        assert_eq!(device.served(), SESSIONS * 2 * 4);
        assert!(device.max_open() <= 4, "including known-answer tests: {}", device.max_open());
        drop(sessions);
        assert_eq!(device.open(), 0);
    }
}

#[test]
fn a_session_that_ends_leaves_the_session_cache() {
    for script in with_four_sessions() {
        let device = Scripted::new(script);
        let gantry = in_order(&Arc::default(), &[&device]);
        let (one, other) = (session(&gantry), session(&gantry));
        run_one(&one);
        run_one(&other);
        assert_eq!(device.open(), 2);
        drop(one);
        assert_eq!(device.open(), 1);
        run_one(&session(&gantry));
        assert_eq!(device.open(), 1, "opened and closed");
    }
}

#[test]
fn threads_share_a_device_with_few_sessions() {
    const THREADS: usize = if cfg!(miri) { 3 } else { 8 };
    const ROUNDS: usize = if cfg!(miri) { 2 } else { 50 };
    for script in with_four_sessions() {
        let (device, software) = (Scripted::new(script), Scripted::new(Script::new("software")));
        let gantry = in_order(&Arc::default(), &[&device, &software]);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    let sessions = [(); 4].map(|()| session(&gantry));
                    for session in sessions.iter().cycle().take(ROUNDS) {
                        run_one(session);
                        run_batch(session, 3);
                    }
                });
            }
        });
        assert_eq!(device.served() + software.served(), THREADS * ROUNDS * 4);
        assert!(device.max_open() <= 4, "{}", device.max_open());
        assert_eq!(gantry.device("small").unwrap().state(), DeviceState::Ready);
        assert_eq!(gantry.stats().events(Event::Quarantined), 0);
        assert_eq!(device.open(), 0);
    }
}

#[test]
fn sessions_beyond_the_limit_of_a_device_run_elsewhere() {
    const SESSIONS: usize = 20;
    for script in with_four_sessions() {
        let (device, software) = (Scripted::new(script), Scripted::new(Script::new("software")));
        let gantry = in_order(&Arc::default(), &[&device, &software]);
        let mut queue = gantry.queue(QueueOptions::default()).unwrap();
        for _ in 0..SESSIONS {
            queue.submit(&session(&gantry), request()).unwrap();
        }
        while queue.in_flight() > 0 {
            queue.wait(|completion| assert_eq!(completion.result, Ok(Outcome::Done)));
        }
        assert_eq!(device.served() + software.served(), SESSIONS);
        assert!(device.max_open() <= 4 && device.open() == 0);
        assert_eq!(gantry.device("small").unwrap().state(), DeviceState::Ready);
    }
}
