//! Tests RSA keys and signatures.

use std::time::Duration;

use gantry_core::{DeviceState, Gantry, Operation, QueueOptions, Region, Request as CoreRequest, Submission};

use super::*;
use crate::tests::{engine, framework};

const DIGESTS: [usize; 3] = [32, 48, 64];

/// Returns `None` and prints the reason if the PMD has no RSA.
fn with_rsa(device: &str) -> Option<Gantry> {
    let gantry = framework(&[device], 4);
    let has_rsa = engine(device).cryptodev.has_rsa(256);
    if !has_rsa {
        eprintln!("skipped: {device} of this release has no RSA (OpenSSL's PMD has, from 23.11 on)");
    }
    has_rsa.then_some(gantry)
}

fn key(algorithm: Algorithm) -> &'static [u8] {
    gantry_core::sample_key(algorithm).expect("a sample key for each RSA algorithm")
}

#[test]
fn pads_a_digest_with_pkcs1_v1_5() {
    let mut number = [0; 256];
    pad_pkcs1(&[7; 32], &mut number).unwrap();
    assert_eq!((number[..2].to_vec(), number[204]), (vec![0, 1], 0));
    assert!(number[2..204].iter().all(|byte| *byte == 0xff));
    // RFC 8017, 9.2, note 1: SHA-256.
    let info = [
        0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00, 0x04,
        0x20,
    ];
    assert_eq!((&number[205..224], &number[224..]), (&info[..], &[7; 32][..]));
    for length in DIGESTS {
        pad_pkcs1(&vec![7; length], &mut number).unwrap();
        assert_eq!(usize::from(number[255 - length]), length, "the digest's length precedes it");
    }
    assert!(pad_pkcs1(&[7; 20], &mut number).is_err());
}

#[test]
fn rejects_a_key_whose_primes_do_not_multiply_to_its_modulus() {
    for (algorithm, size) in ALGORITHMS {
        let numbers = |key: &'_ [u8]| {
            let (modulus, crt_numbers) = (key[..size].to_vec(), key[2 * size + rsa::EXPONENT_LEN..].to_vec());
            is_valid_key(&RsaKey { modulus: &modulus, exponent: &[1, 0, 1], crt_numbers: Some(&crt_numbers) })
                && is_valid_key(&RsaKey { modulus: &modulus, exponent: &[1, 0, 1], crt_numbers: None })
        };
        let right = key(algorithm);
        assert!(numbers(right), "{algorithm}");
        let crt_start = 2 * size + rsa::EXPONENT_LEN;
        for wrong in [0, 1, size - 1, crt_start, crt_start + size / 2 - 1, crt_start + size - 1] {
            let mut key = right.to_vec();
            // Clear the first bit (the modulus is too short), or flip a last bit (the modulus is even or differs from the
            // product).
            key[wrong] ^= if wrong == 0 { 0x80 } else { 1 };
            assert!(!numbers(&key), "{algorithm}, byte {wrong}");
        }
    }
}

#[test]
#[ignore = "needs DPDK, and the shim of scripts/dpdk"]
fn signatures_verify_with_their_digest_only() {
    let Some(gantry) = with_rsa("crypto_openssl_rsa") else { return };
    for (algorithm, size) in ALGORITHMS {
        let signing = gantry.session(SessionParams::new(algorithm, key(algorithm))).unwrap();
        let public = SessionParams::new(algorithm, &key(algorithm)[..rsa::public_length(size)]);
        let verifying = gantry.session(public.with_direction(Operation::Verify)).unwrap();
        for length in DIGESTS {
            let (digest, other) = (vec![7; length], vec![8; length]);
            // More signatures than a burst holds.
            let mut signatures = vec![vec![0; size]; 40];
            let sign = |signature| CoreRequest::sign(&digest, signature);
            let mut requests: Vec<CoreRequest<'_>> =
                signatures.iter_mut().map(|signature| sign(&mut signature[..])).collect();
            signing.process(&mut requests).unwrap();
            let ended = |request: &CoreRequest<'_>| (request.outcome(), request.route().unwrap().device);
            assert!(
                requests.iter().all(|request| ended(request) == (Some(Outcome::Done), 0)),
                "{:?}",
                ended(&requests[0])
            );
            drop(requests);
            assert!(
                signatures.iter().all(|other| *other == signatures[0]),
                "PKCS #1 v1.5 signatures are deterministic"
            );

            let too_large = key(algorithm)[..size].to_vec();
            for session in [&signing, &verifying] {
                let cases = [
                    (&digest, &signatures[0], Outcome::Done),
                    (&other, &signatures[0], Outcome::BadTag),
                    (&digest, &too_large, Outcome::BadTag),
                    (&digest, &vec![0xff; size], Outcome::BadTag),
                    (&digest, &vec![0; size], Outcome::BadTag),
                ];
                let mut requests: Vec<_> =
                    cases.iter().map(|(digest, signature, _)| CoreRequest::verify(digest, signature)).collect();
                session.process(&mut requests).unwrap();
                for (request, (_, _, expected)) in requests.iter().zip(&cases) {
                    assert_eq!(ended(request), (Some(*expected), 0), "{algorithm}");
                }
            }
        }
    }
}

#[test]
#[ignore = "needs DPDK, and the shim of scripts/dpdk"]
fn an_inconsistent_key_does_not_quarantine_the_device() {
    let Some(gantry) = with_rsa("crypto_openssl_rsa_wrong") else { return };
    let algorithm = Algorithm::Rsa2048Pkcs1;
    let good = gantry.session(SessionParams::new(algorithm, key(algorithm))).unwrap();
    let mut signature = [0; 256];
    // d mod p - 1, d mod q - 1, the inverse of q, and the public exponent.
    for wrong in [516 + 256 + 100, 516 + 384 + 100, 516 + 512 + 100, 258] {
        let mut numbers = key(algorithm).to_vec();
        numbers[wrong] ^= 0x10;
        let session = gantry.session(SessionParams::new(algorithm, &numbers)).unwrap();
        assert!(session.sign(&[9; 32], &mut signature).is_err(), "byte {wrong}");
        assert_eq!(signature, [0; 256]);
        assert_eq!(gantry.devices()[0].state(), DeviceState::Ready, "byte {wrong}");
    }
    good.sign(&[9; 32], &mut signature).unwrap();
}

#[test]
#[ignore = "needs DPDK, and the shim of scripts/dpdk"]
fn a_digest_in_a_region_is_signed_and_verified() {
    let Some(gantry) = with_rsa("crypto_openssl_rsa_region") else { return };
    let session = gantry.session(SessionParams::new(Algorithm::Rsa2048Pkcs1, key(Algorithm::Rsa2048Pkcs1))).unwrap();
    let mut expected = [0; 256];
    session.sign(&[9; 48], &mut expected).unwrap();
    let mut queue = gantry.queue(QueueOptions { coalesce: Duration::ZERO, ..QueueOptions::default() }).unwrap();
    let region = Region::owned([[9; 48], [8; 48]].concat().into());
    let digest = |at| region.segment(at, 48).unwrap();
    let cases = [
        (Submission::sign(digest(0)), Outcome::Done),
        (Submission::verify(digest(0), &expected), Outcome::Done),
        (Submission::verify(digest(48), &expected), Outcome::BadTag),
    ];
    for (submission, outcome) in cases {
        queue.submit(&session, submission).unwrap();
        let mut answered = None;
        while answered.is_none() {
            queue.wait(|completion| answered = Some(completion));
        }
        let completion = answered.unwrap();
        assert_eq!((completion.result, completion.submission.tag()), (Ok(outcome), &expected[..]));
    }
}

#[test]
#[ignore = "needs DPDK, and the shim of scripts/dpdk"]
fn threads_with_their_own_queue_pairs_share_an_rsa_session() {
    let Some(gantry) = with_rsa("crypto_openssl_rsa_threads") else { return };
    let session = gantry.session(SessionParams::new(Algorithm::Rsa2048Pkcs1, key(Algorithm::Rsa2048Pkcs1))).unwrap();
    let sign = || {
        let mut signatures = vec![vec![0; 256]; 60];
        let mut requests: Vec<_> =
            signatures.iter_mut().map(|signature| CoreRequest::sign(&[9; 32], &mut signature[..])).collect();
        session.process(&mut requests).unwrap();
        assert!(requests.iter().all(|request| request.outcome() == Some(Outcome::Done)));
        drop(requests);
        signatures
    };
    let first = sign().remove(0);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(sign)).collect();
        for thread in threads {
            assert!(thread.join().unwrap().iter().all(|signature| *signature == first));
        }
    });
}

#[test]
#[ignore = "needs DPDK, and the shim of scripts/dpdk"]
fn requests_fail_over_if_the_device_stops_between_signing_and_checking() {
    let names = ["crypto_openssl_rsa_stop", "crypto_openssl_rsa_beside"];
    let Some(_one) = with_rsa(names[0]) else { return };
    let gantry = framework(&names, 4);
    let session = gantry.session(SessionParams::new(Algorithm::Rsa2048Pkcs1, key(Algorithm::Rsa2048Pkcs1))).unwrap();
    let mut first = [0; 256];
    session.sign(&[9; 32], &mut first).unwrap();
    let stopped = engine(names[0]);
    let mut queue = gantry.queue(QueueOptions { coalesce: Duration::ZERO, ..QueueOptions::default() }).unwrap();
    for _ in 0..20 {
        queue.submit(&session, Submission::sign(vec![9; 32])).unwrap();
    }
    // Signatures come back, and their checks start.
    queue.complete(|_| {});
    stopped.cryptodev.stop();
    let mut completions = Vec::new();
    while completions.len() < 20 {
        queue.wait(|completion| completions.push(completion));
    }
    for completion in &completions {
        assert_eq!(completion.result, Ok(Outcome::Done));
        assert_eq!((completion.submission.tag(), completion.route.unwrap().device), (&first[..], 1));
    }
    drop((completions, queue, session, gantry));
    assert!(stopped.cryptodev.run());
    let ring = stopped.take_ring().unwrap().expect("a free queue pair");
    assert_eq!((stopped.abandoned(), stopped.sessions_to_free()), (0, 0));
    stopped.return_ring(ring);
}

#[test]
#[ignore = "needs DPDK, and the shim of scripts/dpdk"]
fn a_faulty_signature_is_never_returned() {
    let device = "crypto_openssl_rsa_faulty";
    let Some(_gantry) = with_rsa(device) else { return };
    let engine = engine(device);
    let params = SessionParams::new(Algorithm::Rsa2048Pkcs1, key(Algorithm::Rsa2048Pkcs1));
    let session = RsaSession::new(&engine, &params, 256).unwrap();
    for faulty in [false, true] {
        let mut ring = engine.take_ring().unwrap().expect("a free queue pair");
        let number = ring.pair.index;
        let pair = &mut ring.pair;
        let mut slot = ring.free_slots.pop().unwrap();
        let (input, mut output) = ([9; 32], [0xee; 256]);
        let operands = Operands::Sign { input: &input, output: &mut output };
        let (power, step) = session.prepare(&operands, &input, number, &mut pair.memory(&slot)).unwrap();
        assert_eq!(step, RsaStep::Sign);
        slot = run(pair, Request::modular_power(slot, power, true, 256));
        // Flip one bit, as a fault in half of the computation could.
        pair.memory(&slot).buffer[DATA_OFFSET + 256 + 200] ^= u8::from(faulty);
        let power = session.prepare_check(number, &mut pair.memory(&slot)).unwrap();
        slot = run(pair, Request::modular_power(slot, power, false, 256));
        let result = session.finish(operands, &mut pair.memory(&slot));
        assert_eq!(result == Ok(Outcome::Done), !faulty, "{result:?}");
        assert_eq!(
            matches!(result, Err(Fault::Declined(_))),
            faulty,
            "an inconsistent key also causes this: {result:?}"
        );
        assert_eq!(output == [0xee; 256], faulty, "a faulty signature is not written");
        session.wipe(pair, &slot);
        ring.free_slots.push(slot);
        engine.return_ring(ring);
    }
}

/// Makes a device compute a request, and waits for the result.
fn run(pair: &mut Pair, request: Request) -> Slot {
    let mut requests = vec![request];
    pair.enqueue(&mut requests).unwrap();
    assert!(requests.is_empty(), "there is room for one");
    let mut returned = None;
    while returned.is_none() {
        pair.dequeue(|_, slot, status, _| returned = Some((slot, status))).unwrap();
    }
    let (slot, status) = returned.unwrap();
    assert_eq!(status, Status::Done);
    slot
}
