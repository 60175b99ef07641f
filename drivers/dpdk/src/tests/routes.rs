//! Tests of the learned policies with DPDK's devices.

use gantry_core::route::Learned;
use gantry_core::{Algorithm, Gantry, Operation, Outcome, Request, Session, SessionParams};

use super::driver;

const SLOW: &str = "crypto_openssl_route";
const FAST: &str = "crypto_aesni_mb_route";
const BATCHES: usize = 400;
const MAX_BATCH: usize = 32;
const MAX_REPETITIONS: usize = 10;

/// In packet-size mode, DPDK's scheduler sends messages from 128 bytes on to a fixed worker, even if the other one is faster.
#[test]
#[ignore = "needs DPDK, and the shim of scripts/dpdk"]
fn a_learned_route_sends_messages_of_1_to_2_kib_to_the_faster_device() {
    for policy in [Learned::Latency, Learned::Throughput] {
        // The slow one comes first, so that a tie does not favour the fast one.
        let gantry = Gantry::builder().driver(&driver(&[SLOW, FAST], 4)).policy(policy).build();
        for (algorithm, operation) in
            [(Algorithm::Aes128Cbc, Operation::Encrypt), (Algorithm::Aes128Gcm, Operation::Seal)]
        {
            let session = gantry.session(SessionParams::new(algorithm, &[1; 16])).unwrap();
            // A known-answer test runs with the first request, before the calibration.
            count_on_slow(&gantry, &session, algorithm, 1024, 1);
            gantry.calibrate(algorithm, operation, false);
            for bytes in [1024, 1504, 2048] {
                let batches = || (0..BATCHES).map(|batch| 1 + batch % MAX_BATCH);
                let (mut slow, all) = (0, batches().sum::<usize>());
                // One request in a hundred may probe the slow device again. Other programs may disturb a measurement, so repeat the count.
                let is_settled = (0..MAX_REPETITIONS).any(|_| {
                    slow = batches().map(|count| count_on_slow(&gantry, &session, algorithm, bytes, count)).sum();
                    slow * 100 <= all
                });
                assert!(is_settled, "{policy:?}, {algorithm}, {bytes} bytes: {slow} of {all} went to the slow device");
            }
        }
    }
}

/// Runs a batch, and returns the number of requests that the slow device did.
fn count_on_slow(gantry: &Gantry, session: &Session, algorithm: Algorithm, bytes: usize, count: usize) -> usize {
    let (mut data, mut tags) = (vec![vec![7; bytes]; count], vec![[0; 16]; count]);
    let mut requests: Vec<Request<'_>> = data
        .iter_mut()
        .zip(&mut tags)
        .map(|(data, tag)| match algorithm {
            Algorithm::Aes128Cbc => Request::encrypt(&[3; 16], &mut data[..]),
            _ => Request::seal(&[3; 12], b"header", &mut data[..], &mut tag[..]),
        })
        .collect();
    session.process(&mut requests).unwrap();
    let slow = format!("dpdk:{SLOW}");
    let is_by_slow = |request: &&Request<'_>| {
        assert_eq!(request.outcome(), Some(Outcome::Done));
        gantry.devices()[request.route().unwrap().device].name() == slow
    };
    requests.iter().filter(is_by_slow).count()
}
