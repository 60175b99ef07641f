//! Tests of several threads with queue pairs.

use std::sync::Barrier;
use std::time::Duration;

use gantry_core::{Completion, Gantry, Outcome, QueueOptions, Submission};

use super::{TEXT, engine, framework, session};

/// Requests per thread.
const REQUESTS: usize = 40;

/// Runs threads that submit requests, wait until every thread has submitted, and collect the completions. Returns the number of requests
/// that each device did, and the number of queue pairs of `device` that were in use while all requests were in flight.
fn run_threads(gantry: &Gantry, device: &str, threads: usize) -> (Vec<usize>, usize) {
    let engine = engine(device);
    let (all_submitted, counted) = (Barrier::new(threads + 1), Barrier::new(threads + 1));
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
                    all_submitted.wait();
                    counted.wait();
                    let mut completions: Vec<Completion> = Vec::new();
                    while completions.len() < REQUESTS {
                        queue.wait(|completion| completions.push(completion));
                    }
                    assert!(completions.iter().all(|completion| completion.result == Ok(Outcome::Done)));
                    let first = completions[0].submission.data();
                    assert!(
                        first != TEXT && completions.iter().all(|completion| completion.submission.data() == first)
                    );
                    let by = |device| {
                        completions.iter().filter(|completion| completion.route.unwrap().device == device).count()
                    };
                    [by(0), by(1)]
                })
            })
            .collect();
        all_submitted.wait();
        let in_use = engine.in_use();
        counted.wait();
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
fn concurrent_threads_use_separate_queue_pairs() {
    for name in ["crypto_openssl_each", "crypto_aesni_mb_each"] {
        let gantry = framework(&[name], 5);
        assert_eq!(run_threads(&gantry, name, 4), (vec![4 * REQUESTS, 0], 4), "{name}");
    }
}

#[test]
#[ignore = "needs DPDK, and the shim of scripts/dpdk"]
fn threads_without_a_queue_pair_share_one_or_use_another_device() {
    for name in ["crypto_openssl_few", "crypto_aesni_mb_few"] {
        let gantry = framework(&[name, "crypto_openssl_rest"], 2);
        let (by_device, in_use) = run_threads(&gantry, name, 6);
        assert_eq!((by_device.iter().sum::<usize>(), in_use), (6 * REQUESTS, 2), "{name}: {by_device:?}");
        assert!(by_device[0] > 0, "{name}: {by_device:?}");
    }
}

#[test]
#[ignore = "needs DPDK, and the shim of scripts/dpdk"]
fn queue_pairs_of_finished_threads_are_reused() {
    let name = "crypto_openssl_ended";
    let gantry = framework(&[name], 3);
    for _ in 0..20 {
        assert_eq!(run_threads(&gantry, name, 2), (vec![2 * REQUESTS, 0], 2));
    }
    drop(gantry);
    assert_eq!(engine(name).in_use(), 0);
}

#[test]
#[ignore = "needs DPDK, and the shim of scripts/dpdk"]
fn the_longest_idle_queue_pair_is_reused_first() {
    let name = "crypto_null_turns";
    framework(&[name], 3);
    let engine = engine(name);
    // Each queue pair has its own memory, which identifies it.
    let memory_address = |ring: &mut crate::engine::Ring| ring.pair.memory(&ring.free_slots[0]).buffer.as_ptr().addr();
    let mut three: Vec<_> = (0..3).map(|_| engine.take_ring().unwrap().expect("there are three")).collect();
    let addresses: Vec<usize> = three.iter_mut().map(memory_address).collect();
    assert!(engine.take_ring().unwrap().is_none());
    for ring in three {
        engine.return_ring(ring);
    }
    for turn in 0..6 {
        let mut ring = engine.take_ring().unwrap().expect("all are idle");
        assert_eq!(memory_address(&mut ring), addresses[turn % 3]);
        engine.return_ring(ring);
    }
}
