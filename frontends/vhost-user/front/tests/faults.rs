//! Guest memory, the front end or the back end disappears while requests run.

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{env, thread};

use common::hostile::{ChainOutcome, Hostile};
use common::server::Server;
use common::{ANSWER_TIMEOUT, OK, assert_served, assert_serves_another, is_known_answer};
use gantry_vhost_user::Limits;
use gantry_vhost_user_front::memory::Memory;
use gantry_vhost_user_front::queue::QueueLayout;
use gantry_vhost_user_front::request::Request;
use gantry_vhost_user_front::{Guest, Setup};

/// Puts the rings into the first region, and requests into the second.
fn two_regions(setup: &Setup) -> Setup {
    let queue_layout = QueueLayout { region: 1, slots: 64, ..QueueLayout::default() };
    Setup { queue_layout, regions: vec![(0x10_0000, 1 << 20), (0x100_0000, 2 << 20)], ..setup.clone() }
}

/// Keeps requests in flight while `during` runs, which gets the guest and the count of rounds. Asserts that all requests are answered.
fn keep_in_flight(guest: &mut Guest, requests: &[Request], during: impl FnOnce(&Guest, &AtomicUsize)) {
    let queue = std::mem::take(&mut guest.queues);
    let mut queue = queue.into_iter().next().unwrap();
    let (stop, rounds) = (AtomicBool::new(false), AtomicUsize::new(0));
    let queue = thread::scope(|scope| {
        let running = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let replies = queue.run(requests, Duration::from_secs(10)).unwrap();
                assert!(replies.iter().all(is_known_answer));
                rounds.fetch_add(1, Ordering::Relaxed);
            }
            queue
        });
        during(guest, &rounds);
        stop.store(true, Ordering::Relaxed);
        running.join().unwrap()
    });
    assert!(rounds.load(Ordering::Relaxed) > 10, "{rounds:?}");
    guest.queues = vec![queue];
}

#[test]
fn a_memory_table_may_be_replaced_while_requests_run() {
    let mut hostile = Hostile::new(&two_regions(&Setup::qemu()));
    let requests = vec![common::known_answer_request(&hostile.guest, hostile.session); 32];
    keep_in_flight(&mut hostile.guest, &requests, |guest, rounds| {
        // Maps the same memory again each time.
        let begin = Instant::now();
        let is_within = |seconds| begin.elapsed() < Duration::from_secs(seconds);
        while is_within(1) || rounds.load(Ordering::Relaxed) <= 10 && is_within(60) {
            guest.replace_memory(guest.memory()).unwrap();
        }
    });
    hostile.assert_guest_is_served();
}

#[test]
fn memory_removed_while_requests_run_affects_only_its_own_guest() {
    for replaced in 0..3 {
        let mut hostile = Hostile::new(&two_regions(&Setup::qemu()));
        for _ in 0..32 {
            let prepared = hostile.prepare();
            hostile.guest.queues[0].offer(prepared).unwrap();
        }
        hostile.guest.queues[0].ring.publish().unwrap();
        // Without the requests' region, without the rings' region, and with a different region only.
        let regions: &[(u64, usize)] = match replaced {
            0 => &[(0x10_0000, 1 << 20)],
            1 => &[(0x100_0000, 2 << 20)],
            _ => &[(0x7000_0000, 4096)],
        };
        // The back end may refuse the table, which lacks the rings.
        let _ = hostile.guest.replace_memory(&Memory::new(regions).unwrap());
        hostile.guest.queues[0].ring.kick().unwrap();
        thread::sleep(Duration::from_millis(50));
        hostile.assert_neighbour_is_served();
        hostile.assert_serves_after_reconnect();
    }
}

/// The receiver of a memfd cannot seal it: a read behind its end raises SIGBUS.
#[test]
fn memory_that_shrinks_ends_neither_the_server_nor_another_guest() {
    for setup in [Setup::qemu(), Setup::generic()] {
        for (region, bytes) in [(1, 0), (1, 4096), (0, 0), (0, 4096)] {
            let mut hostile = Hostile::new(&two_regions(&setup));
            let prepared: Vec<_> = (0..32).map(|_| hostile.prepare()).collect();
            for prepared in prepared {
                hostile.guest.queues[0].offer(prepared).unwrap();
            }
            // The front end touches no memory from here to the kick, or it would get the signal itself.
            hostile.guest.queues[0].ring.publish_index(hostile.guest.queues[0].ring.base().unwrap() + 32).unwrap();
            hostile.guest.memory().truncate(region, bytes).unwrap();
            hostile.guest.queues[0].ring.kick().unwrap();
            thread::sleep(Duration::from_millis(50));
            hostile.assert_neighbour_is_served();
            hostile.assert_serves_after_reconnect();
        }
    }
}

#[test]
fn memory_that_shrinks_and_grows_while_requests_run_affects_only_its_own_guest() {
    let mut hostile = Hostile::new(&two_regions(&Setup::qemu()));
    let other = hostile.guest.memory().clone();
    let prepared: Vec<_> = (0..32).map(|_| hostile.prepare()).collect();
    let begin = Instant::now();
    for prepared in prepared {
        hostile.guest.queues[0].offer(prepared).unwrap();
    }
    let index = hostile.guest.queues[0].ring.base().unwrap();
    hostile.guest.queues[0].ring.publish_index(index + 32).unwrap();
    while begin.elapsed() < Duration::from_secs(1) {
        other.truncate(1, 0).unwrap();
        hostile.guest.queues[0].ring.kick().unwrap();
        other.truncate(1, 2 << 20).unwrap();
        hostile.assert_neighbour_is_served();
    }
    hostile.assert_serves_after_reconnect();
}

#[test]
fn a_connection_that_ends_with_requests_in_flight_leaves_a_fresh_device() {
    for setup in [Setup::qemu(), Setup::generic()] {
        let mut hostile = Hostile::new(&setup);
        for _ in 0..20 {
            for _ in 0..64 {
                let prepared = hostile.prepare();
                hostile.guest.queues[0].offer(prepared).unwrap();
            }
            hostile.guest.queues[0].ring.publish().unwrap();
            hostile.guest.connection.shut_down();
            hostile.guest = Guest::connect(&hostile.socket(), &setup).unwrap();
            hostile.session = common::open_cbc(&mut hostile.guest);
            hostile.assert_guest_is_served();
        }
    }
}

#[test]
fn a_killed_server_is_noticed_and_the_next_one_answers_requests_in_flight() {
    let guests = [Limits::default()];
    let mut server = Server::new(&guests);
    let mut guest = Guest::connect(&server.socket(0), &Setup::qemu()).unwrap();
    let session = common::open_cbc(&mut guest);
    common::assert_session_serves(&mut guest, session);
    server.kill();
    let request = common::known_answer_request(&guest, session);
    for _ in 0..8 {
        let prepared = guest.queues[0].prepare(&request).unwrap();
        guest.queues[0].offer(prepared).unwrap();
    }
    guest.queues[0].ring.publish().unwrap();
    assert!(guest.connection.queue_count().is_err(), "no server answers");
    server.restart(&guests);
    guest.reconnect(&server.socket(0)).unwrap();
    for _ in 0..8 {
        let (prepared, written) =
            guest.queues[0].wait_for_finished(ANSWER_TIMEOUT).unwrap().expect("the requests in flight are answered");
        let status = guest.queues[0].take_reply(&prepared, written).unwrap().status();
        // The session was lost with the server.
        assert_eq!(status, common::INVSESS);
    }
    assert_served(&mut guest);
}

/// If the variable has the path of a socket, this process is the front end that is killed.
const KILLED_VARIABLE: &str = "GANTRY_TEST_KILLED";

#[test]
fn a_killed_front_end_leaves_the_device_as_new() {
    if let Some(path) = env::var_os(KILLED_VARIABLE) {
        let mut guest = Guest::connect(path.as_ref(), &Setup::qemu()).unwrap();
        let session = common::open_cbc(&mut guest);
        let requests = vec![common::known_answer_request(&guest, session); 64];
        println!("\nrunning");
        loop {
            assert!(guest.run_all(0, &requests).unwrap().iter().all(|reply| reply.status() == OK));
        }
    }
    let mut hostile = Hostile::new(&Setup::qemu());
    hostile.guest.connection.shut_down();
    for round in 0..10 {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "--nocapture", "a_killed_front_end_leaves_the_device_as_new"])
            .env(KILLED_VARIABLE, hostile.socket())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "running"));
        thread::sleep(Duration::from_millis(20 + round));
        child.kill().unwrap();
        child.wait().unwrap();
        hostile.assert_neighbour_is_served();
        assert_serves_another(&hostile.socket());
    }
}

/// A guest is reset while its requests run: its driver forgets the rings and sets them up again.
#[test]
fn a_guest_that_is_reset_with_requests_in_flight_starts_anew() {
    let mut hostile = Hostile::new(&Setup::qemu());
    for _ in 0..20 {
        for _ in 0..32 {
            let prepared = hostile.prepare();
            hostile.guest.queues[0].offer(prepared).unwrap();
        }
        hostile.guest.queues[0].ring.publish().unwrap();
        hostile.guest.connection.stop_queue(0).unwrap();
        // Only requests that were finished before the stop are returned now.
        let mut done = 0;
        while hostile.outcome_now() != ChainOutcome::NotReturned {
            done += 1;
        }
        hostile.guest.restart_queue(0).unwrap();
        for _ in done..32 {
            assert_eq!(hostile.outcome(), ChainOutcome::Done);
        }
        hostile.assert_guest_is_served();
    }
}
