//! Child processes: recognition, and statistics.

#![cfg(all(unix, not(miri)))]

mod devices;
#[cfg(target_os = "linux")]
mod filter;

use std::sync::Barrier;

use devices::{Script, Scripted};
use gantry_core::{Algorithm, Gantry, Process, SessionParams};

/// Length of these tests' requests; no known answer has this length.
const LENGTH: usize = 5;

/// Returns `true` if `what` holds in a child. It must use only data of this thread, and no locks of the test harness; the allocator's locks
/// survive `fork`.
fn holds_in(make: fn() -> libc::pid_t, what: impl FnOnce() -> bool) -> bool {
    let child = make();
    if child == 0 {
        let holds = what();
        // SAFETY: ends the child without the exit handlers of the test harness.
        unsafe { libc::_exit(i32::from(!holds)) };
    }
    let mut status = -1;
    // SAFETY: waits for the child that was just made.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    status == 0
}

fn fork() -> libc::pid_t {
    // SAFETY: see `holds_in`.
    unsafe { libc::fork() }
}

/// Makes a child without the C library.
fn clone() -> libc::pid_t {
    // SAFETY: see `holds_in`; memory is not shared.
    unsafe { libc::syscall(libc::SYS_clone, libc::c_long::from(libc::SIGCHLD), 0, 0, 0, 0) as libc::pid_t }
}

/// Returns both ways to make a child if children of both are recognized, or else only `fork`.
fn calls() -> &'static [fn() -> libc::pid_t] {
    let both: &[fn() -> libc::pid_t] = &[fork, clone];
    if Process::current_if_unique().is_some() { both } else { &both[..1] }
}

#[test]
fn a_child_is_another_process() {
    for call in calls() {
        let parent = Process::current();
        assert!(parent.is_current() && Process::current_if_unique().is_none_or(Process::is_current));
        assert!(holds_in(*call, || {
            let child = Process::current();
            child != parent
                && child.is_current()
                && holds_in(*call, || !child.is_current() && !parent.is_current() && Process::current().is_current())
                && child.is_current()
        }));
        // A grandchild recognizes itself even if the child never asks.
        assert!(holds_in(*call, || holds_in(*call, || !parent.is_current())));
        assert!(parent.is_current());
    }
}

/// As before Linux 4.14: the C library reports children of `fork` only.
#[test]
#[cfg(target_os = "linux")]
fn detects_forks_if_the_kernel_wipes_no_page() {
    if !filter::is_alone("detects_forks_if_the_kernel_wipes_no_page") || !filter::refuse_wiped_pages() {
        return;
    }
    assert_eq!(Process::current_if_unique(), None);
    let parent = Process::current();
    assert!(holds_in(fork, || {
        let child = Process::current();
        child != parent
            && Process::current_if_unique().is_none()
            && holds_in(fork, || !child.is_current() && !parent.is_current())
    }));
    assert!(holds_in(fork, || holds_in(fork, || !parent.is_current())));
    assert!(parent.is_current() && Process::current_if_unique().is_none());
}

/// A filter that is set later may refuse any system call: here, all but the end of the process.
#[test]
#[cfg(target_os = "linux")]
fn recognizes_a_child_without_system_calls() {
    let parent = Process::current();
    assert!(holds_in(fork, || {
        // SAFETY: plain numbers.
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_STRICT, 0, 0, 0) };
        let knows = !parent.is_current() && Process::current().is_current();
        // SAFETY: ends the child by an allowed call.
        unsafe { libc::syscall(libc::SYS_exit, libc::c_long::from(!knows)) };
        false
    }));
}

#[test]
fn all_threads_of_a_child_are_one_process() {
    let parent = Process::current();
    assert!(holds_in(fork, || {
        let barrier = Barrier::new(8);
        std::thread::scope(|scope| {
            let ask = || {
                barrier.wait();
                Process::current()
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
            let all: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            all.iter().all(|process| *process == all[0] && *process != parent)
        })
    }));
}

#[test]
fn a_child_counts_from_zero() {
    let gantry = Gantry::builder().driver(&Scripted::new(Script::new("device"))).build();
    let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
    let run = |times| (0..times).for_each(|_| session.encrypt(&[], &mut [0; LENGTH]).unwrap());
    run(100);
    assert!(holds_in(fork, || {
        run(10);
        std::thread::scope(|scope| {
            scope.spawn(|| run(1)); // finds a slot although the parent's threads hold theirs
        });
        let snapshot = gantry.stats();
        snapshot.requests() == 11 && snapshot.process == std::process::id()
    }));
    run(1000);
    let snapshot = gantry.stats();
    assert_eq!((snapshot.requests(), snapshot.process), (1100, std::process::id()));
}

#[cfg(feature = "futures")]
mod queues {
    use std::future::Future as _;
    use std::task::{Context, Poll, Waker};

    use gantry_core::{QueueOptions, RejectReason, Submission};

    use super::*;

    /// Requests of a queue are with devices and threads of the parent. A child would wait for them forever, or run them twice.
    #[test]
    fn a_child_leaves_the_queues_of_its_parent_alone() {
        let gantry = Gantry::builder().driver(&Scripted::new(Script::new("device"))).build();
        let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
        let submission = || Submission::encrypt(&[], vec![0; LENGTH]);
        for call in calls() {
            let mut queue = Some(gantry.queue(QueueOptions::default()).unwrap());
            let tasks = gantry.task_queue(QueueOptions::default()).unwrap();
            let begin = || Box::pin(tasks.run(&session, submission()));
            let mut context = Context::from_waker(Waker::noop());
            let mut begun = Some(begin());
            assert!(begun.as_mut().unwrap().as_mut().poll(&mut context).is_pending());
            let ticket = queue.as_mut().unwrap().submit(&session, submission()).unwrap();
            assert!(holds_in(*call, || {
                let theirs = queue.as_mut().unwrap();
                theirs.flush();
                let refuses =
                    theirs.submit(&session, submission()).is_err_and(|rejected| rejected.why != RejectReason::Full);
                let is_empty = theirs.in_flight() == 0 && theirs.cancel(ticket).is_none() && theirs.complete(drop) == 0;
                let sleeps = theirs.max_sleep().is_some() || theirs.arm(Waker::noop());
                let mut polls = [begin(), begun.take().unwrap()].into_iter();
                let no_task = polls.all(|mut task| matches!(task.as_mut().poll(&mut context), Poll::Ready(Err(_))));
                drop(queue.take());
                let mut own = gantry.queue(QueueOptions::default()).unwrap();
                let goes_on = own.submit(&session, submission()).is_ok() && own.wait(drop) == 1;
                refuses && is_empty && !sleeps && no_task && goes_on
            }));
            assert_eq!(queue.unwrap().wait(drop), 1);
            let mut begun = begun.unwrap();
            while begun.as_mut().poll(&mut context).is_pending() {}
        }
    }
}
