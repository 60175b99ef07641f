//! Tests against DPDK itself, with devices that need no hardware: `scripts/dpdk && cargo test -p gantry-driver-dpdk --
//! --ignored`. All tests share one DPDK, and its devices exist as long as the process, so each test has devices of its own.

/// Tests that keys leave the memory of the process.
mod keys;
/// Tests of data in regions.
mod lending;
/// Tests of several threads with queue pairs.
mod pairs;
/// Tests of the learned policies with DPDK's devices.
mod routes;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gantry_core::driver::{Device, Driver, Found, Operands};
use gantry_core::route::Failover;
use gantry_core::{
    Algorithm, DeviceState, Fault, Gantry, Outcome, QueueOptions, Request, Session, SessionParams, Submission,
};
use gantry_lab::wait_until;

use crate::algorithms::{AlgorithmSupport, CIPHER};
use crate::device::DpdkDevice;
use crate::engine::{Engine, SLOTS};
use crate::session::{DpdkSession, deliver};
use crate::sys::{self, DATA_OFFSET, Layout, QueueError, Request as SlotRequest, SessionConfig, SlotMemory, Status};
use crate::{DpdkDriver, Options, library};

fn shim_path() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    let shims = std::fs::read_dir(target.join("dpdk")).expect("scripts/dpdk has built the shim");
    let shims = shims.filter_map(Result::ok).map(|entry| entry.path());
    shims
        .filter(|path| path.to_string_lossy().contains("libgantry_dpdk.so."))
        .max()
        .expect("scripts/dpdk has built the shim")
}

fn driver(devices: &[&str], queues: u32) -> DpdkDriver {
    DpdkDriver::new(Options {
        devices: devices.iter().map(ToString::to_string).collect(),
        shim: Some(shim_path()),
        memory_mib: 256,
        queue_pairs: Some(queues),
        ..Options::default()
    })
}

pub(crate) fn engine(device: &str) -> Arc<Engine> {
    library::running(device).expect("the device runs")
}

/// Creates a framework that sends every request to the first working device.
pub(crate) fn framework(devices: &[&str], queues: u32) -> Gantry {
    let order = devices.iter().map(|device| format!("dpdk:{}", library::device_name(device))).collect();
    Gantry::builder().driver(&driver(devices, queues)).policy(Failover { order }).build()
}

const TEXT: [u8; 1000] = [7; 1000];

fn session(gantry: &Gantry) -> Session {
    let params = SessionParams::new(Algorithm::Aes128CbcHmacSha256, &[1; 16]).with_mac_key(&[2; 32]).with_tag_len(16);
    gantry.session(params).unwrap()
}

/// Seals `count` messages in one batch. Returns the number of messages that each device sealed, and whether all results are equal and
/// differ from the plaintext.
fn seal(session: &Session, count: usize) -> (Vec<usize>, bool) {
    let mut data = vec![TEXT[..992].to_vec(); count];
    let mut tags = vec![[0; 16]; count];
    let mut requests: Vec<Request<'_>> = data
        .iter_mut()
        .zip(&mut tags)
        .map(|(data, tag)| Request::seal(&[3; 16], b"header", &mut data[..], &mut tag[..]))
        .collect();
    session.process(&mut requests).unwrap();
    assert!(requests.iter().all(|request| request.outcome() == Some(Outcome::Done)));
    let mut by_device = vec![0; 2];
    for request in &requests {
        by_device[request.route().unwrap().device] += 1;
    }
    drop(requests);
    let are_equal = data.iter().all(|text| *text == data[0]) && tags.iter().all(|tag| *tag == tags[0]);
    (by_device, are_equal && data[0] != TEXT[..992])
}

#[test]
#[ignore = "needs DPDK, and the shim of scripts/dpdk"]
fn a_device_that_failed_to_start_is_retried() {
    let (worker, name) = ("crypto_openssl_later", "dpdk:crypto_scheduler_later");
    let scheduler = format!("crypto_scheduler_later,worker={worker},mode=round-robin");
    let incomplete = driver(&[&scheduler], 1);
    let gantry = Gantry::builder().driver(&incomplete).build();
    let state = |gantry: &Gantry| gantry.device(name).unwrap().state();
    assert!(matches!(state(&gantry), DeviceState::Excluded(_)), "{:?}", state(&gantry));
    assert!(gantry.discover(&incomplete, |_| None).is_empty());
    let complete = driver(&[worker, &scheduler], 1);
    assert_eq!(gantry.discover(&complete, |_| None), [name]);
    assert_eq!(state(&gantry), DeviceState::Ready);
    assert!(gantry.discover(&complete, |_| None).is_empty(), "the device runs already");
    assert!(seal(&session(&gantry), 4).1);
}

#[test]
#[ignore = "needs DPDK, and the shim of scripts/dpdk"]
fn a_batch_larger_than_the_ring_completes() {
    let gantry = framework(&["crypto_aesni_mb_full"], 1);
    let session = session(&gantry);
    let before = DpdkDriver::copied_bytes("dpdk:crypto_aesni_mb_full").unwrap();
    let count = 5 * SLOTS as usize + 3;
    assert_eq!(seal(&session, count), (vec![count, 0], true));
    let copied = DpdkDriver::copied_bytes("dpdk:crypto_aesni_mb_full").unwrap() - before;
    // At least: the algorithm's known-answer test runs with the first request, and its bytes are counted too.
    assert!(copied >= (count * (992 + 992 + 16)) as u64, "input and output are copied: {copied}");
}

#[test]
#[ignore = "needs DPDK, and the shim of scripts/dpdk"]
fn requests_of_a_stopped_device_fail_over_and_return_when_it_runs_again() {
    let devices = ["crypto_aesni_mb_stop", "crypto_openssl_stop"];
    let gantry = framework(&devices, 4);
    let session = session(&gantry);
    assert_eq!(seal(&session, 200), (vec![200, 0], true));

    engine(devices[0]).cryptodev.stop();
    assert_eq!(seal(&session, 200), (vec![0, 200], true));
    assert_eq!(gantry.device("dpdk:crypto_aesni_mb_stop").unwrap().state(), DeviceState::Quarantined);

    assert!(engine(devices[0]).cryptodev.run());
    wait_until("it is used again", || seal(&session, 200).0 == [200, 0]);
}

#[test]
#[ignore = "needs DPDK, and the shim of scripts/dpdk"]
fn requests_in_flight_fail_over_and_their_session_is_freed_after_they_return() {
    let devices = ["crypto_openssl_flight", "crypto_openssl_beside"];
    let gantry = framework(&devices, 4);
    let session = session(&gantry);
    seal(&session, 1);
    let stopped = engine(devices[0]);

    let mut queue = gantry.queue(QueueOptions { coalesce: Duration::ZERO, ..QueueOptions::default() }).unwrap();
    for user in 0..20 {
        let submission = Submission::seal(&[3; 16], b"header".to_vec(), TEXT[..992].to_vec(), 16).user(user);
        queue.submit(&session, submission).unwrap();
    }
    stopped.cryptodev.stop();
    let mut completions = Vec::new();
    while completions.len() < 20 {
        queue.wait(|completion| completions.push(completion));
    }
    assert!(completions.iter().all(|completion| completion.result == Ok(Outcome::Done)), "{:?}", completions[0].result);
    let served_by =
        |index| completions.iter().filter(|completion| completion.route.is_some_and(|at| at.device == index)).count();
    assert_eq!((served_by(0), served_by(1)), (0, 20));
    assert_eq!(stopped.abandoned(), 20, "DPDK cannot cancel");

    drop((queue, session, gantry));
    assert_eq!(stopped.sessions_to_free(), 1, "requests in the device still use the session");
    assert!(stopped.cryptodev.run());
    let ring = stopped.take_ring().unwrap().expect("a free queue pair");
    assert_eq!((stopped.abandoned(), stopped.sessions_to_free()), (0, 0));
    stopped.return_ring(ring);
}

#[test]
#[ignore = "needs DPDK, and the shim of scripts/dpdk"]
fn a_refused_request_is_not_resubmitted_forever() {
    framework(&["crypto_openssl_error"], 1);
    let engine = engine("crypto_openssl_error");
    let config =
        SessionConfig { kind: CIPHER, cipher: 2, iv_len: 16, key: &[1; 16], decrypt: true, ..SessionConfig::default() };
    let session = engine.open_session(&config).unwrap();
    let mut ring = engine.take_ring().unwrap().expect("a free queue pair");
    // CBC data cannot have 15 bytes. Core would have rejected the request.
    let layout = Layout { kind: CIPHER, packet_offset: DATA_OFFSET, data_len: 15, tag_len: 0, aad_offset: DATA_OFFSET };
    let mut requests = vec![SlotRequest::new(ring.free_slots.pop().unwrap(), &session, &layout)];
    assert_eq!(ring.pair.enqueue(&mut requests), Err(QueueError::Refused));
    ring.free_slots.extend(requests.into_iter().map(|request| ring.pair.take_back_refused(request)));
    engine.return_ring(ring);
    engine.close_session(session);
}

#[test]
#[ignore = "needs DPDK, and the shim of scripts/dpdk"]
fn a_scheduler_needs_its_workers() {
    let found = driver(&["crypto_scheduler_alone"], 2).discover();
    match &found[0] {
        Found::Excluded { name, reason, .. } => {
            assert_eq!(name, "dpdk:crypto_scheduler_alone");
            assert_eq!(reason, "DPDK created no cryptodev for the device");
        }
        Found::Device(_) => panic!("a scheduler without workers"),
    }
    let worker = "crypto_openssl_worker";
    let scheduler = "crypto_scheduler_two,worker=crypto_openssl_worker,mode=round-robin";
    let gantry = framework(&[scheduler, worker], 2);
    let state = gantry.device("dpdk:crypto_openssl_worker").unwrap().state();
    assert_eq!(state, DeviceState::Excluded("a scheduler uses this device as its worker".to_owned()));
    assert!(gantry.device("dpdk:crypto_scheduler_two").is_some());
}

#[test]
#[ignore = "needs DPDK, and the shim of scripts/dpdk"]
fn attach_declines_while_all_queue_pairs_are_in_use() {
    framework(&["crypto_null_pairs"], 2);
    let engine = engine("crypto_null_pairs");
    let device = DpdkDevice::new("crypto_null_pairs", "test", engine);
    let (one, other) = (device.attach().unwrap().unwrap(), device.attach().unwrap().unwrap());
    assert!(matches!(device.attach(), Ok(None)), "both queue pairs are in use");
    drop(one);
    let again = device.attach().unwrap().expect("a queue pair is free again");
    drop((other, again));
    assert!(matches!(device.attach(), Ok(Some(_))));
}

#[test]
#[ignore = "needs DPDK, and the shim of scripts/dpdk"]
fn a_forked_child_cannot_use_the_devices() {
    framework(&["crypto_null_fork"], 2);
    let device = DpdkDevice::new("crypto_null_fork", "test", engine("crypto_null_fork"));
    assert!(sys::in_child(|| matches!(device.attach(), Err(Fault::Failed(_)))));
    assert!(matches!(device.attach(), Ok(Some(_))), "the parent can use the device");
}

#[test]
#[ignore = "needs DPDK, and the shim of scripts/dpdk"]
fn associated_data_is_padded_with_zeros() {
    framework(&["crypto_openssl_aad"], 1);
    let engine = engine("crypto_openssl_aad");
    let support = AlgorithmSupport::find(Algorithm::Aes128Gcm, &engine.cryptodev.capabilities(), true).unwrap();
    let params = SessionParams::new(Algorithm::Aes128Gcm, &[1; 16]);
    let session = DpdkSession::new(&engine, &params, support, true).unwrap();
    for length in [0, 5, 16, 20] {
        let (mut buffer, aad) = (vec![0xEE; DATA_OFFSET + 64], vec![4; length]);
        let (mut data, mut tag) = ([7; 16], [0; 16]);
        let seal = Operands::Seal { iv: &[3; 12], aad: &aad, data: (&mut data[..]).into(), tag: &mut tag };
        let (_, layout) =
            session.prepare(&seal, None, &mut SlotMemory { buffer: &mut buffer, iv: &mut [0; 16] }).unwrap();
        let (start, padding) = buffer[layout.aad_offset..DATA_OFFSET].split_at(length);
        assert_eq!(start, aad);
        assert!(padding.len() < 16 && padding.iter().all(|byte| *byte == 0), "{length}: {padding:?}");
    }
}

#[test]
fn reports_why_the_shim_cannot_be_loaded() {
    let load = |shim: &str| library::load(&Options { shim: Some(shim.into()), ..Options::default() }).err().unwrap();
    let absent = load("/nowhere/libgantry_dpdk.so.23");
    assert_eq!(absent, "/nowhere/libgantry_dpdk.so.23: No such file or directory");
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let other = maps.split_whitespace().find(|word| word.contains("/libc.so")).expect("a C library");
    assert_eq!(load(other), format!("{other} is not Gantry's DPDK shim"));
}

#[test]
fn unauthenticated_plaintext_is_wiped_from_slot_and_output() {
    for status in [Status::BadTag, Status::Failed("broken")] {
        let mut buffer = vec![0; DATA_OFFSET + 64];
        buffer[DATA_OFFSET..DATA_OFFSET + 16].fill(b'p');
        let mut output = [0xEE; 16];
        let open =
            Operands::Open { iv: &[0; 12], aad: &[], data: (&[1; 16][..], &mut output[..]).into(), tag: &[2; 16] };
        let (result, copied) = deliver(open, None, &mut SlotMemory { buffer: &mut buffer, iv: &mut [0; 16] }, status);
        assert_eq!(result.is_ok(), status == Status::BadTag);
        assert_eq!((output, copied), ([0xEE; 16], 0));
        assert_eq!(buffer[DATA_OFFSET..DATA_OFFSET + 16], [0; 16]);
    }
}
