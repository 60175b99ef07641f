use std::time::Duration;

use gantry_core::{DeviceState, Direction, Gantry, QueueOptions, Region, Request as Asked, Submission};

use super::*;
use crate::tests::{engine, framework};

const DIGESTS: [usize; 3] = [32, 48, 64];

/// `None`, and a word about it, where the PMD has no RSA.
fn with_rsa(device: &str) -> Option<Gantry> {
    let gantry = framework(&[device], 4);
    let has_rsa = engine(device).cryptodev.has_rsa(256);
    if !has_rsa {
        eprintln!("skipped: {device} of this release has no RSA (OpenSSL's PMD has, from 23.11 on)");
    }
    has_rsa.then_some(gantry)
}

fn key(algorithm: Algorithm) -> &'static [u8] {
    gantry_core::sample_key(algorithm).expect("there is one of each RSA")
}

#[test]
fn a_digest_is_padded_as_pkcs1_says() {
    let mut number = [0; 256];
    pad(&[7; 32], &mut number).unwrap();
    assert_eq!((number[..2].to_vec(), number[204]), (vec![0, 1], 0));
    assert!(number[2..204].iter().all(|byte| *byte == 0xff));
    // RFC 8017, 9.2, note 1: SHA-256.
    let info = [
        0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00, 0x04,
        0x20,
    ];
    assert_eq!((&number[205..224], &number[224..]), (&info[..], &[7; 32][..]));
    for length in DIGESTS {
        pad(&vec![7; length], &mut number).unwrap();
        assert_eq!(usize::from(number[255 - length]), length, "the length stands in front");
    }
    assert!(pad(&[7; 20], &mut number).is_err());
}

#[test]
fn a_key_whose_primes_do_not_make_its_modulus_is_none() {
    for (algorithm, size) in ALGORITHMS {
        let numbers = |key: &'_ [u8]| {
            let (modulus, primes) = (key[..size].to_vec(), key[2 * size + rsa::EXPONENT..].to_vec());
            is_sound(&RsaKey { modulus: &modulus, exponent: &[1, 0, 1], primes: Some(&primes) })
                && is_sound(&RsaKey { modulus: &modulus, exponent: &[1, 0, 1], primes: None })
        };
        let right = key(algorithm);
        assert!(numbers(right), "{algorithm}");
        let primes = 2 * size + rsa::EXPONENT;
        for wrong in [0, 1, size - 1, primes, primes + size / 2 - 1, primes + size - 1] {
            let mut key = right.to_vec();
            // The first bit, so that the modulus is short; and the last one, so that it is even.
            key[wrong] ^= if wrong == 0 { 0x80 } else { 1 };
            assert!(!numbers(&key), "{algorithm}, byte {wrong}");
        }
    }
}

#[test]
#[ignore = "needs DPDK, and the shim of scripts/dpdk"]
fn signatures_lead_back_to_their_digest_and_to_no_other() {
    let Some(gantry) = with_rsa("crypto_openssl_rsa") else { return };
    for (algorithm, size) in ALGORITHMS {
        let signing = gantry.session(SessionParams::new(algorithm, key(algorithm))).unwrap();
        let public = SessionParams::new(algorithm, &key(algorithm)[..rsa::public_length(size)]);
        let verifying = gantry.session(public.direction(Direction::Decrypt)).unwrap();
        for length in DIGESTS {
            let (digest, other) = (vec![7; length], vec![8; length]);
            // As many as do not fit into a burst.
            let mut signatures = vec![vec![0; size]; 40];
            let sign = |signature| Asked::sign(&digest, signature);
            let mut requests: Vec<Asked<'_>> =
                signatures.iter_mut().map(|signature| sign(&mut signature[..])).collect();
            signing.process(&mut requests).unwrap();
            let ended = |request: &Asked<'_>| (request.outcome(), request.route().unwrap().device);
            assert!(
                requests.iter().all(|request| ended(request) == (Some(Outcome::Done), 0)),
                "{:?}",
                ended(&requests[0])
            );
            drop(requests);
            assert!(signatures.iter().all(|other| *other == signatures[0]), "no part of it is random");

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
                    cases.iter().map(|(digest, signature, _)| Asked::verify(digest, signature)).collect();
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
fn who_brings_a_key_whose_numbers_do_not_belong_together_takes_the_device_from_nobody() {
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
        let mut done = None;
        while done.is_none() {
            queue.wait(|completion| done = Some(completion));
        }
        let done = done.unwrap();
        assert_eq!((done.result, done.submission.tag()), (Ok(outcome), &expected[..]));
    }
}

#[test]
#[ignore = "needs DPDK, and the shim of scripts/dpdk"]
fn threads_with_a_queue_pair_each_sign_with_one_session() {
    let Some(gantry) = with_rsa("crypto_openssl_rsa_threads") else { return };
    let session = gantry.session(SessionParams::new(Algorithm::Rsa2048Pkcs1, key(Algorithm::Rsa2048Pkcs1))).unwrap();
    let sign = || {
        let mut signatures = vec![vec![0; 256]; 60];
        let mut requests: Vec<_> =
            signatures.iter_mut().map(|signature| Asked::sign(&[9; 32], &mut signature[..])).collect();
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
fn a_device_that_is_stopped_between_signing_and_checking_leaves_its_requests_to_another() {
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
    // Signatures come back, and are to be checked.
    queue.complete(|_| {});
    stopped.cryptodev.stop();
    let mut done = Vec::new();
    while done.len() < 20 {
        queue.wait(|completion| done.push(completion));
    }
    for completion in &done {
        assert_eq!(completion.result, Ok(Outcome::Done));
        assert_eq!((completion.submission.tag(), completion.route.unwrap().device), (&first[..], 1));
    }
    drop((done, queue, session, gantry));
    assert!(stopped.cryptodev.run());
    let ring = stopped.take().unwrap().expect("nobody has all");
    assert_eq!((stopped.abandoned(), stopped.waiting()), (0, 0));
    stopped.put(ring);
}

#[test]
#[ignore = "needs DPDK, and the shim of scripts/dpdk"]
fn a_signature_that_does_not_lead_back_never_leaves() {
    let device = "crypto_openssl_rsa_faulty";
    let Some(_gantry) = with_rsa(device) else { return };
    let engine = engine(device);
    let params = SessionParams::new(Algorithm::Rsa2048Pkcs1, key(Algorithm::Rsa2048Pkcs1));
    let session = RsaSession::new(&engine, &params, 256).unwrap();
    for faulty in [false, true] {
        let mut ring = engine.take().unwrap().expect("nobody has all");
        let number = ring.pair.number;
        let pair = &mut ring.pair;
        let mut slot = ring.free.pop().unwrap();
        let (input, mut output) = ([9; 32], [0xee; 256]);
        let operands = Operands::Sign { input: &input, output: &mut output };
        let (power, step) = session.prepare(&operands, &input, number, &mut pair.room(&slot)).unwrap();
        assert_eq!(step, Step::Sign);
        slot = run(pair, Request::power(slot, power, true, 256));
        // One bit, as a fault in one of the two halves of the computation may turn.
        pair.room(&slot).buffer[DATA + 256 + 200] ^= u8::from(faulty);
        let power = session.check(number, &mut pair.room(&slot)).unwrap();
        slot = run(pair, Request::power(slot, power, false, 256));
        let result = session.finish(operands, &mut pair.room(&slot));
        assert_eq!(result == Ok(Outcome::Done), !faulty, "{result:?}");
        assert_eq!(matches!(result, Err(Fault::Declined(_))), faulty, "a caller's key may be to blame: {result:?}");
        assert_eq!(output == [0xee; 256], faulty, "nothing of it is written");
        session.wipe(pair, &slot);
        ring.free.push(slot);
        engine.put(ring);
    }
}

/// Has a device compute, and waits.
fn run(pair: &mut Pair, request: Request) -> Slot {
    let mut requests = vec![request];
    pair.enqueue(&mut requests).unwrap();
    assert!(requests.is_empty(), "there is room for one");
    let mut back = None;
    while back.is_none() {
        pair.dequeue(|_, slot, status, _| back = Some((slot, status))).unwrap();
    }
    let (slot, status) = back.unwrap();
    assert_eq!(status, Status::Done);
    slot
}
