//! Waiting for a queue by its descriptor.

use std::os::fd::AsFd;

use gantry_core::{Algorithm, Outcome, QueueOptions, SessionParams, Submission};
use gantry_runtime::{Config, Readiness};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

fn is_readable(readiness: &Readiness, timeout: u16) -> bool {
    let mut descriptors = [PollFd::new(readiness.as_fd(), PollFlags::POLLIN)];
    poll(&mut descriptors, PollTimeout::from(timeout)).unwrap() == 1
}

#[test]
fn the_descriptor_is_readable_when_a_request_has_completed() {
    // A card with interrupts, in real time.
    let mut config = Config::default();
    config.set("devices.model:bcm5822", "on", "test").unwrap();
    config.set("policy", "pin:model:bcm5822", "test").unwrap();
    let gantry = gantry_runtime::open(config).unwrap();
    let session = gantry.session(SessionParams::new(Algorithm::Md5, &[])).unwrap();
    let mut queue = gantry.queue(QueueOptions::default()).unwrap();
    let readiness = Readiness::new().unwrap();
    assert!(!readiness.arm(&mut queue), "nothing is in flight");
    for round in 0..20 {
        queue.submit(&session, Submission::digest(vec![round; 16]).user(u64::from(round))).unwrap();
        let mut completed = 0;
        while completed == 0 {
            if readiness.arm(&mut queue) {
                assert!(is_readable(&readiness, 10_000), "the card notifies");
            }
            completed = queue.complete(|completion| {
                assert_eq!((completion.user, completion.result), (u64::from(round), Ok(Outcome::Done)));
            });
        }
    }
    assert!(!is_readable(&readiness, 0) || !readiness.arm(&mut queue), "nothing is left");
}
