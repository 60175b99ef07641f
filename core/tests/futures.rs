//! Requests as futures, on tokio.

#![cfg(feature = "futures")]

mod devices;

use std::sync::Arc;

use devices::{Deed, Script, Scripted};
use gantry::driver::Capability;
use gantry::route::{BreakEven, Failover};
use gantry::{Algorithm, Gantry, Misuse, Outcome, QueueOptions, SessionParams, Submission, VirtualClock};

/// Of the requests of these tests; no known answer has this length.
const LENGTH: usize = 5;

fn gantry(drivers: &[&Scripted]) -> Gantry {
    let builder = Gantry::builder().policy(BreakEven);
    drivers.iter().fold(builder, |builder, driver| builder.driver(*driver)).build()
}

fn request(user: u64) -> Submission {
    Submission::encrypt(&[], vec![user as u8; LENGTH]).user(user)
}

#[test]
fn tasks_fill_the_lanes_together() {
    let capability = Capability { lanes: 4, break_even: 2, ..Capability::new(Algorithm::Null) };
    let lanes = Scripted::new(Script { capability, ..Script::new("lanes") });
    let software = Scripted::new(Script::new("software"));
    let gantry = gantry(&[&software, &lanes]);
    let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
    let queue = gantry.task_queue(QueueOptions::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..40)
            .map(|user| {
                let running = queue.run(&session, request(user));
                tokio::task::spawn(async move {
                    let completion = running.await.unwrap();
                    assert_eq!((completion.result, completion.user), (Ok(Outcome::Done), user));
                    assert_eq!(completion.submission.data(), [user as u8; LENGTH]);
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!((lanes.served(), software.served()), (40, 0), "no task went alone");
}

#[test]
fn tasks_of_many_threads_share_a_ring_and_wait_for_room() {
    let ring = Scripted::new(Script { ring: Some(3), ..Script::new("ring") });
    let gantry = gantry(&[&ring]);
    let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
    let queue = gantry.task_queue(QueueOptions { depth: 4, ..QueueOptions::default() }).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().unwrap();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..100)
            .map(|user| {
                let (queue, session) = (queue.clone(), session.clone());
                tokio::task::spawn(async move {
                    for _ in 0..3 {
                        let completion = queue.run(&session, request(user)).await.unwrap();
                        assert_eq!((completion.result, completion.user), (Ok(Outcome::Done), user));
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(ring.served(), 300);
}

#[test]
fn a_task_that_goes_leaves_the_others_to_their_requests() {
    let ring = Scripted::new(Script { ring: Some(1), ..Script::new("ring") });
    let gantry = gantry(&[&ring]);
    let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
    let queue = gantry.task_queue(QueueOptions::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..10).map(|user| tokio::task::spawn(queue.run(&session, request(user)))).collect();
        tokio::task::yield_now().await;
        for (user, task) in tasks.into_iter().enumerate() {
            if user % 2 == 0 {
                task.abort();
            } else {
                assert_eq!(task.await.unwrap().unwrap().user, user as u64);
            }
        }
    });
}

#[test]
fn a_wrong_call_is_an_error_of_the_future() {
    let gantry = gantry(&[&Scripted::new(Script::new("device"))]);
    let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
    let queue = gantry.task_queue(QueueOptions::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let wrong = runtime.block_on(queue.run(&session, Submission::digest(Vec::new())));
    assert!(matches!(wrong, Err(Misuse::Operation { .. })));
}

#[test]
fn tasks_leave_a_device_that_stalls_when_somebody_looks() {
    let capability = Capability { direct: false, ..Capability::new(Algorithm::Null) };
    let script = Script { capability, ring: Some(4), tells: true, ..Script::new("stalled") };
    let (stalled, good) = (Scripted::new(script.doing(|_| Deed::Stall)), Scripted::new(Script::new("good")));
    let clock = Arc::new(VirtualClock::default());
    let builder = Gantry::builder().policy(Failover { order: vec!["stalled".into()] }).clock(clock.clone());
    let gantry = builder.driver(&good).driver(&stalled).build();
    let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
    let queue = gantry.task_queue(QueueOptions::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        assert_eq!(queue.look(), None);
        let task = tokio::task::spawn(queue.run(&session, request(1)));
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert!(!task.is_finished());
        let patience = queue.look().expect("a device has the request");
        clock.advance_to(patience.as_nanos() as u64);
        queue.look();
        assert_eq!(task.await.unwrap().unwrap().result, Ok(Outcome::Done));
    });
    assert_eq!((stalled.served(), good.served()), (1, 1));
}
