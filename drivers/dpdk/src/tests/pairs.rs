use std::sync::Barrier;
use std::time::Duration;

use gantry_core::{Completion, Gantry, Outcome, QueueOptions, Submission};

use super::{TEXT, engine, framework, session};

/// Requests of each thread.
const REQUESTS: usize = 40;

/// So many threads that submit, wait until all have, and then collect: how many requests each device did, and how many queue pairs
/// of the first were in use while all requests were out.
fn at_once(gantry: &Gantry, device: &str, threads: usize) -> (Vec<usize>, usize) {
    let engine = engine(device);
    let (all_out, seen) = (Barrier::new(threads + 1), Barrier::new(threads + 1));
    let session = session(gantry);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let options = QueueOptions { coalesce: Duration::ZERO, ..QueueOptions::default() };
                    let mut queue = gantry.queue(options).unwrap();
                    for _ in 0..REQUESTS {
                        let submission = Submission::seal(&[3; 16], b"header".to_vec(), TEXT[..992].to_vec(), 16);
                        queue.submit(&session, submission).unwrap();
                    }
                    all_out.wait();
                    seen.wait();
                    let mut done: Vec<Completion> = Vec::new();
                    while done.len() < REQUESTS {
                        queue.wait(|completion| done.push(completion));
                    }
                    assert!(done.iter().all(|done| done.result == Ok(Outcome::Done)));
                    let first = done[0].submission.data();
                    assert!(first != TEXT && done.iter().all(|done| done.submission.data() == first));
                    let by = |device| done.iter().filter(|done| done.route.unwrap().device == device).count();
                    [by(0), by(1)]
                })
            })
            .collect();
        all_out.wait();
        let in_use = engine.in_use();
        seen.wait();
        let mut by_device = vec![0; 2];
        for worker in workers {
            let [first, second] = worker.join().unwrap();
            by_device[0] += first;
            by_device[1] += second;
        }
        (by_device, in_use)
    })
}

#[test]
#[ignore = "needs DPDK, and the shim of scripts/dpdk"]
fn threads_at_once_have_a_queue_pair_each() {
    for name in ["crypto_openssl_each", "crypto_aesni_mb_each"] {
        let gantry = framework(&[name], 5);
        assert_eq!(at_once(&gantry, name, 4), (vec![4 * REQUESTS, 0], 4), "{name}");
    }
}

#[test]
#[ignore = "needs DPDK, and the shim of scripts/dpdk"]
fn threads_beyond_the_queue_pairs_share_them_or_are_served_elsewhere() {
    for name in ["crypto_openssl_few", "crypto_aesni_mb_few"] {
        let gantry = framework(&[name, "crypto_openssl_rest"], 2);
        let (by_device, in_use) = at_once(&gantry, name, 6);
        assert_eq!((by_device.iter().sum::<usize>(), in_use), (6 * REQUESTS, 2), "{name}: {by_device:?}");
        assert!(by_device[0] > 0, "{name}: {by_device:?}");
    }
}

#[test]
#[ignore = "needs DPDK, and the shim of scripts/dpdk"]
fn queue_pairs_of_threads_that_have_ended_are_used_again() {
    let name = "crypto_openssl_ended";
    let gantry = framework(&[name], 3);
    for _ in 0..20 {
        assert_eq!(at_once(&gantry, name, 2), (vec![2 * REQUESTS, 0], 2));
    }
    drop(gantry);
    assert_eq!(engine(name).in_use(), 0);
}

#[test]
#[ignore = "needs DPDK, and the shim of scripts/dpdk"]
fn the_queue_pair_that_was_idle_for_longest_is_handed_out_first() {
    let name = "crypto_null_turns";
    framework(&[name], 3);
    let engine = engine(name);
    // Each has memory of its own, by which it is known.
    let place = |ring: &mut crate::engine::Ring| ring.pair.room(&ring.free[0]).buffer.as_ptr().addr();
    let mut three: Vec<_> = (0..3).map(|_| engine.take().unwrap().expect("there are three")).collect();
    let places: Vec<usize> = three.iter_mut().map(place).collect();
    assert!(engine.take().unwrap().is_none());
    for ring in three {
        engine.put(ring);
    }
    for turn in 0..6 {
        let mut ring = engine.take().unwrap().expect("all are idle");
        assert_eq!(place(&mut ring), places[turn % 3]);
        engine.put(ring);
    }
}
