//! Tests of data in regions, which a device uses in place or copies.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use gantry_core::{
    Algorithm, Completion, Gantry, Outcome, Queue, QueueOptions, Region, Segment, Session, SessionParams, Submission,
};

use super::{engine, framework};
use crate::DpdkDriver;
use crate::sys;

const KEY: [u8; 32] = [9; 32];
const AAD: [u8; 20] = [4; 20];
/// A byte that no message contains.
const UNTOUCHED: u8 = 0xee;

fn open(gantry: &Gantry, algorithm: Algorithm) -> (Session, Queue) {
    let key = &KEY[..algorithm.info().key.min.max(16)];
    let key = if algorithm == Algorithm::Sha256 { &[] } else { key };
    let params = SessionParams::new(algorithm, key);
    let params = if algorithm == Algorithm::Aes128CbcHmacSha256 { params.with_mac_key(&KEY) } else { params };
    let options = QueueOptions { coalesce: Duration::ZERO, ..QueueOptions::default() };
    (gantry.session(params).unwrap(), gantry.queue(options).unwrap())
}

fn finish(queue: &mut Queue, count: usize) -> Vec<Completion> {
    let mut completions = Vec::new();
    while completions.len() < count {
        queue.wait(|completion| completions.push(completion));
    }
    completions
}

fn run((session, queue): &mut (Session, Queue), submission: Submission) -> Completion {
    queue.submit(session, submission).unwrap();
    finish(queue, 1).remove(0)
}

fn owned_region() -> Region {
    Region::owned(vec![UNTOUCHED; 40_000].into())
}

fn filled(segment: Segment, bytes: &[u8]) -> Segment {
    segment.region().write(segment.offset(), bytes).unwrap();
    segment
}

fn read_all(segment: &Segment) -> Vec<u8> {
    let mut bytes = vec![0; segment.len()];
    segment.region().read(segment.offset(), &mut bytes).unwrap();
    bytes
}

fn message(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 200) as u8).collect()
}

/// Makes a submission that encrypts or seals these data, or computes their digest or MAC.
fn protect(algorithm: Algorithm, data: impl Into<gantry_core::Data>) -> Submission {
    match algorithm {
        Algorithm::Aes128Cbc | Algorithm::Aes128Ctr => Submission::encrypt(&[3; 16], data),
        Algorithm::Sha256 => Submission::digest(data),
        Algorithm::HmacSha256 | Algorithm::Aes128Cmac => Submission::mac(data),
        Algorithm::Aes128CbcHmacSha256 => Submission::seal(&[3; 16], AAD.to_vec(), data, 32),
        _ => Submission::seal(&[3; 12], AAD.to_vec(), data, 16),
    }
}

/// Makes the submission that reverses [`protect`]; `None` for digests and MACs.
fn unprotect(algorithm: Algorithm, data: impl Into<gantry_core::Data>, tag: &[u8]) -> Option<Submission> {
    match algorithm {
        Algorithm::Aes128Cbc | Algorithm::Aes128Ctr => Some(Submission::decrypt(&[3; 16], data)),
        Algorithm::Sha256 | Algorithm::HmacSha256 | Algorithm::Aes128Cmac => None,
        Algorithm::Aes128CbcHmacSha256 => Some(Submission::open(&[3; 16], AAD.to_vec(), data, tag)),
        _ => Some(Submission::open(&[3; 12], AAD.to_vec(), data, tag)),
    }
}

/// Creates a framework that prefers the first of the devices, with a session and a queue.
fn open_on(names: [&str; 2], algorithm: Algorithm) -> (Gantry, (Session, Queue)) {
    let gantry = framework(&names, 4);
    let pair = open(&gantry, algorithm);
    (gantry, pair)
}

/// Names two devices for the use of one test, because the copied bytes of all tests on a device are counted together.
macro_rules! devices {
    ($test:literal) => {
        [concat!("crypto_openssl_", $test), concat!("crypto_aesni_mb_", $test)]
    };
}

#[test]
#[ignore = "needs DPDK, and the shim of scripts/dpdk"]
fn data_in_regions_is_used_in_place_with_the_same_results() {
    use Algorithm as A;
    let devices = devices!("lent");
    let copied = |device: &str| DpdkDriver::copied_bytes(&format!("dpdk:{device}")).unwrap();
    let algorithms = [A::Aes128Cbc, A::Aes128Ctr, A::Aes128Gcm, A::Aes128Ccm, A::Sha256, A::HmacSha256, A::Aes128Cmac];
    for algorithm in algorithms {
        let (_reference_gantry, mut reference) = open_on(devices, algorithm);
        for device in [devices, [devices[1], devices[0]]] {
            let (_gantry, mut opened) = open_on(device, algorithm);
            for length in [128, 144, 1008, 16384] {
                let text = message(length);
                let expected = run(&mut reference, protect(algorithm, text.clone())).submission;
                let expected_back = unprotect(algorithm, expected.data().to_vec(), expected.tag());
                // Known-answer tests run with the first request of an algorithm, so run both requests before counting.
                for submission in [Some(protect(algorithm, text.clone())), expected_back].into_iter().flatten() {
                    assert_eq!(run(&mut opened, submission).result, Ok(Outcome::Done));
                }

                let (region, other) = (owned_region(), owned_region());
                let input = filled(region.segment(3, length).unwrap(), &text);
                let output = other.segment(5001, length).unwrap();
                let before = copied(device[0]);
                let case = format!("{algorithm} on {}, {length} bytes", device[0]);
                let completion = run(&mut opened, protect(algorithm, input.clone()).into_output(output.clone()));
                assert_eq!((&completion.result, completion.route.unwrap().device), (&Ok(Outcome::Done), 0), "{case}");
                assert_eq!(completion.submission.tag(), expected.tag(), "{case}");
                assert_eq!(read_all(&input), text, "{case}: the input changed");
                assert_eq!(copied(device[0]), before, "{case}");
                let Some(reverse) = unprotect(algorithm, output.clone(), expected.tag()) else { continue };
                assert_eq!(read_all(&output), expected.data(), "{case}");
                let neighbours = [other.segment(4990, 11).unwrap(), other.segment(5001 + length, 64).unwrap()];
                assert!(neighbours.iter().all(|piece| read_all(piece).iter().all(|byte| *byte == UNTOUCHED)), "{case}");

                let plain = region.segment(20_000, length).unwrap();
                assert_eq!(run(&mut opened, reverse.into_output(plain.clone())).result, Ok(Outcome::Done), "{case}");
                assert_eq!((read_all(&plain), copied(device[0])), (text, before), "{case}");

                let in_place = run(&mut opened, protect(algorithm, input.clone()));
                assert_eq!(in_place.result, Ok(Outcome::Done), "{case}");
                assert_eq!(read_all(&input), expected.data(), "{case}");
                assert_eq!(copied(device[0]) - before, length as u64, "{case}: only the result is copied");
            }
        }
    }
}

#[test]
#[ignore = "needs DPDK, and the shim of scripts/dpdk"]
fn short_data_is_copied_and_counted() {
    for device in devices!("short") {
        let gantry = framework(&[device], 4);
        for algorithm in [Algorithm::Aes128Cbc, Algorithm::Aes128Gcm] {
            let mut opened = open(&gantry, algorithm);
            run(&mut opened, protect(algorithm, message(112)));
            for (length, copies) in [(16, 2), (112, 2), (128, 0)] {
                let text = message(length);
                let expected = run(&mut opened, protect(algorithm, text.clone())).submission;
                let region = owned_region();
                let input = filled(region.segment(1, length).unwrap(), &text);
                let output = region.segment(2000, length).unwrap();
                let before = DpdkDriver::copied_bytes(&format!("dpdk:{device}")).unwrap();
                let completion = run(&mut opened, protect(algorithm, input).into_output(output.clone()));
                assert_eq!((&completion.result, completion.submission.tag()), (&Ok(Outcome::Done), expected.tag()));
                assert_eq!(read_all(&output), expected.data(), "{algorithm} of {length} bytes on {device}");
                let copied = DpdkDriver::copied_bytes(&format!("dpdk:{device}")).unwrap() - before;
                assert_eq!(copied, copies * length as u64, "{algorithm} of {length} bytes on {device}");
            }
        }
    }
}

#[test]
#[ignore = "needs DPDK, and the shim of scripts/dpdk"]
fn authenticated_foreign_memory_and_data_of_chains_are_copied() {
    for device in devices!("copied") {
        for (algorithm, is_foreign, lent) in [
            (Algorithm::Aes128Gcm, true, false),
            (Algorithm::Aes128Cbc, true, true),
            (Algorithm::Aes128CbcHmacSha256, false, false),
        ] {
            let gantry = framework(&[device], 4);
            let mut opened = open(&gantry, algorithm);
            let text = message(992);
            let expected = run(&mut opened, protect(algorithm, text.clone())).submission;
            let memory: Arc<Vec<AtomicU8>> = Arc::new((0..4000).map(|_| AtomicU8::new(UNTOUCHED)).collect());
            let region = if is_foreign { sys::foreign_region(&memory) } else { owned_region() };
            let input = filled(region.segment(1, 992).unwrap(), &text);
            let output = region.segment(2000, 992).unwrap();
            let before = DpdkDriver::copied_bytes(&format!("dpdk:{device}")).unwrap();
            let completion = run(&mut opened, protect(algorithm, input).into_output(output.clone()));
            assert_eq!((&completion.result, completion.submission.tag()), (&Ok(Outcome::Done), expected.tag()));
            assert_eq!(read_all(&output), expected.data(), "{algorithm}");
            let copied = DpdkDriver::copied_bytes(&format!("dpdk:{device}")).unwrap() - before;
            assert_eq!(copied == 0, lent, "{algorithm} on {device}: {copied}");
        }
    }
}

#[test]
#[ignore = "needs DPDK, and the shim of scripts/dpdk"]
fn a_bad_tag_leaves_no_plaintext_in_a_region() {
    for device in devices!("forged") {
        for algorithm in [Algorithm::Aes128Gcm, Algorithm::Aes128Ccm, Algorithm::Aes128CbcHmacSha256] {
            let gantry = framework(&[device], 4);
            let mut opened = open(&gantry, algorithm);
            let sealed = run(&mut opened, protect(algorithm, message(992))).submission;
            let mut tag = sealed.tag().to_vec();
            tag[5] ^= 1;
            let memory: Arc<Vec<AtomicU8>> = Arc::new((0..4000).map(|_| AtomicU8::new(UNTOUCHED)).collect());
            for region in [owned_region(), sys::foreign_region(&memory)] {
                let input = filled(region.segment(0, 992).unwrap(), sealed.data());
                let output = region.segment(1000, 992).unwrap();
                let out_of_place = unprotect(algorithm, input.clone(), &tag).unwrap().into_output(output.clone());
                for submission in [out_of_place, unprotect(algorithm, input.clone(), &tag).unwrap()] {
                    assert_eq!(run(&mut opened, submission).result, Ok(Outcome::BadTag));
                    let content = read_all(&output);
                    assert!(
                        content == [0; 992] || content == [UNTOUCHED; 992],
                        "{algorithm} on {device}: {:?}",
                        &content[..32]
                    );
                    assert_eq!(read_all(&input), sealed.data(), "{algorithm} on {device}");
                }
            }
        }
    }
}

#[test]
#[ignore = "needs DPDK, and the shim of scripts/dpdk"]
fn a_stopped_device_keeps_its_regions_and_never_writes_to_them_again() {
    for names in [["crypto_openssl_keep", "crypto_openssl_after"], ["crypto_aesni_mb_keep", "crypto_openssl_after"]] {
        let (gantry, mut opened) = open_on(names, Algorithm::Aes128Cbc);
        let stopped = engine(names[0]);
        let text = message(992);
        let expected = run(&mut opened, protect(Algorithm::Aes128Cbc, text.clone())).submission.data().to_vec();
        let (session, mut queue) = opened;

        let memory: Arc<Vec<AtomicU8>> = Arc::new((0..40_000).map(|_| AtomicU8::new(UNTOUCHED)).collect());
        let region = sys::foreign_region(&memory);
        let input = filled(region.segment(0, 992).unwrap(), &text);
        let outputs: Vec<Segment> = (1..=20).map(|at| region.segment(at * 1000, 992).unwrap()).collect();
        for output in &outputs {
            let submission = protect(Algorithm::Aes128Cbc, input.clone()).into_output(output.clone());
            queue.submit(&session, submission).unwrap();
        }
        // The result of a request in place goes through the slot, because another device needs the original input after a fault.
        let in_place = filled(region.segment(30_000, 992).unwrap(), &text);
        queue.submit(&session, protect(Algorithm::Aes128Cbc, in_place.clone())).unwrap();
        stopped.cryptodev.stop();
        let completions = finish(&mut queue, 21);
        assert!(
            completions
                .iter()
                .all(|completion| completion.result == Ok(Outcome::Done) && completion.route.unwrap().device == 1)
        );
        assert!(outputs.iter().chain([&in_place]).all(|output| read_all(output) == expected));
        assert_eq!(stopped.abandoned(), 21, "DPDK cannot cancel");

        for output in outputs {
            filled(output, &[0x55; 992]);
        }
        drop((completions, queue, session, gantry, input, in_place, region));
        assert!(Arc::strong_count(&memory) > 1, "the device still uses the memory");
        let content: Vec<u8> = memory.iter().map(|byte| byte.load(Ordering::Relaxed)).collect();
        assert!(stopped.cryptodev.run());
        let ring = stopped.take_ring().unwrap().expect("a free queue pair");
        assert_eq!((stopped.abandoned(), Arc::strong_count(&memory)), (0, 1));
        assert!(
            memory.iter().map(|byte| byte.load(Ordering::Relaxed)).eq(content),
            "the device wrote to returned memory"
        );
        stopped.return_ring(ring);
    }
}
