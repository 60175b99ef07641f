//! What `fork` does to statistics.

#![cfg(not(miri))]

mod devices;

use devices::{Script, Scripted};
use gantry::{Algorithm, Gantry, SessionParams};

/// Of the requests of this test; no known answer has this length.
const LENGTH: usize = 5;

#[test]
fn a_child_goes_on_with_a_copy_of_its_parents_numbers_and_says_so() {
    let gantry = Gantry::builder().driver(&Scripted::new(Script::new("device"))).build();
    let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
    let run = |times| (0..times).for_each(|_| session.encrypt(&[], &mut [0; LENGTH]).unwrap());
    run(100);
    // SAFETY: the child uses what this thread alone uses, and leaves by `_exit`. Of the test harness's locks it takes none;
    // the allocator's survive `fork`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        run(10);
        std::thread::scope(|scope| {
            scope.spawn(|| run(1)); // finds a slot although those of the parent's threads are still taken
        });
        let snapshot = gantry.stats();
        let right = snapshot.requests() == 111 && snapshot.process != std::process::id();
        // SAFETY: ends the child without running what the test harness wants to do at exit.
        unsafe { libc::_exit(i32::from(!right)) };
    }
    run(1000);
    let mut status = -1;
    // SAFETY: waits for the child that was just made.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child saw its parent's numbers and its own");
    let snapshot = gantry.stats();
    assert_eq!((snapshot.requests(), snapshot.process), (1100, std::process::id()));
}
