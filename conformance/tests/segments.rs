//! Tests that requests with data in segments have the results of requests with one buffer, on devices that take one buffer only.

mod queued;

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use gantry_core::driver::Driver;
use gantry_core::stats::Event;
use gantry_core::{
    Algorithm, Data, Direction, Esp, Gantry, Kind, Operation, Outcome, Region, Segments, Session, SessionParams,
    Submission,
};
use gantry_driver_lanes::{LanesDriver, Level};
use gantry_driver_software::SoftwareDriver;
use queued::{bytes_of, run, scattered};

/// Enough requests to fill the lanes, and one more.
const REQUESTS: usize = 17;
const AAD: &[u8] = b"header";

/// Opens a session for every algorithm with data of many lengths, on a framework with a single device.
fn sessions() -> Vec<(Gantry, Session)> {
    let drivers: [&dyn Driver; 2] = [&SoftwareDriver, &LanesDriver::new(Level::detect_at_most(None))];
    let mut sessions = Vec::new();
    for driver in drivers {
        let gantry = Gantry::builder().driver(driver).build();
        let offered: Vec<Algorithm> = gantry.devices()[0].capabilities().iter().map(|c| c.algorithm).collect();
        for algorithm in offered {
            let (info, kind) = (algorithm.info(), algorithm.kind());
            if matches!(
                kind,
                Kind::Signature | Kind::Exchange | Kind::Kem | Kind::Compression | Kind::Packet | Kind::Encipherment
            ) {
                continue;
            }
            let bytes = |length: usize| (0..length.min(100)).map(|i| 7 ^ i as u8).collect::<Vec<u8>>();
            let direction = if kind == Kind::Cipher { Direction::Encrypt } else { Direction::Both };
            let params = SessionParams::new(algorithm, &bytes(info.key.max)).with_direction(direction);
            let params = if info.mac_key.max > 0 { params.with_mac_key(&bytes(info.mac_key.max)) } else { params };
            sessions.push((gantry.clone(), gantry.session(params).unwrap()));
        }
    }
    sessions
}

fn message(algorithm: Algorithm, number: usize) -> Vec<u8> {
    let info = algorithm.info();
    let unit = if matches!(info.kind, Kind::Digest | Kind::Mac) { 1 } else { info.block };
    let length = (info.min_data + number * number * 3).next_multiple_of(unit);
    (0..length).map(|i| (number + 3 * i) as u8).collect()
}

fn iv(algorithm: Algorithm) -> Vec<u8> {
    vec![9; algorithm.info().iv.max.min(12).max(algorithm.info().iv.min)]
}

fn request(session: &Session, operation: Operation, data: impl Into<Data>, tag: &[u8]) -> Submission {
    let iv = iv(session.params().algorithm());
    match operation {
        Operation::Digest => Submission::digest(data),
        Operation::Mac => Submission::mac_with_iv(&iv, data),
        Operation::Encrypt => Submission::encrypt(&iv, data),
        Operation::Seal => Submission::seal(&iv, AAD.to_vec(), data, session.params().tag_len()),
        _ => Submission::open(&iv, AAD.to_vec(), data, tag),
    }
}

#[test]
fn segmented_data_give_the_results_of_contiguous_data() {
    for (gantry, session) in sessions() {
        let algorithm = session.params().algorithm();
        let what = format!("{} {algorithm}", gantry.devices()[0].name());
        let before = gantry.stats().events(Event::Copied);
        let operation = algorithm.kind().operations()[0];
        let messages: Vec<Vec<u8>> = (0..REQUESTS).map(|number| message(algorithm, number)).collect();
        let together = run(&session, messages.iter().map(|data| request(&session, operation, data.clone(), &[])));
        let pieces: Vec<Segments> = messages.iter().map(|data| scattered(data)).collect();
        let apart = run(&session, pieces.iter().map(|data| request(&session, operation, data.clone(), &[])));
        for ((together, apart), pieces) in together.iter().zip(&apart).zip(&pieces) {
            assert_eq!((&together.result, &apart.result), (&Ok(Outcome::Done), &Ok(Outcome::Done)), "{what}");
            assert_eq!(together.submission.data(), bytes_of(pieces), "{what}");
            assert_eq!(together.submission.tag(), apart.submission.tag(), "{what}");
        }
        let bytes = messages.iter().map(Vec::len).sum::<usize>() as u64;
        let twice = 1 + u64::from(!matches!(operation, Operation::Digest | Operation::Mac));
        assert_eq!(gantry.stats().events(Event::Copied) - before, twice * bytes, "{what}");

        let opens = gantry.devices()[0].capability(algorithm).unwrap().operations.contains(&Operation::Open);
        if algorithm.kind() != Kind::Aead || !opens {
            continue;
        }
        let sealed: Vec<Vec<u8>> = pieces.iter().map(bytes_of).collect();
        let open = |number: usize, damage| {
            let mut tag = apart[number].submission.tag().to_vec();
            tag[2] ^= damage;
            request(&session, Operation::Open, pieces[number].clone(), &tag)
        };
        for completion in run(&session, (0..REQUESTS).map(|number| open(number, 1))) {
            assert_eq!(completion.result, Ok(Outcome::BadTag), "{what}");
        }
        assert_eq!(pieces.iter().map(bytes_of).collect::<Vec<_>>(), sealed, "{what}: a bad tag changes nothing");
        for completion in run(&session, (0..REQUESTS).map(|number| open(number, 0))) {
            assert_eq!(completion.result, Ok(Outcome::Done), "{what}");
        }
        assert_eq!(pieces.iter().map(bytes_of).collect::<Vec<_>>(), messages, "{what}");
    }
}

/// A peer that changes ciphertext during `open` can make it fail, but cannot get another plaintext accepted.
#[test]
fn open_decrypts_the_bytes_that_it_authenticated() {
    const LENGTH: usize = 64;
    let gantry = Gantry::builder().driver(&SoftwareDriver).build();
    let session = gantry.session(SessionParams::new(Algorithm::Aes128Gcm, &[7; 16])).unwrap();
    let (plain, mut sealed, mut tag) = ([5; LENGTH], [5; LENGTH], [0; 16]);
    session.seal(&[1; 12], &[], &mut sealed, &mut tag).unwrap();
    let owner: Arc<Vec<AtomicU8>> = Arc::new((0..LENGTH).map(|_| AtomicU8::new(0)).collect());
    // SAFETY: the region keeps `owner` alive, and its bytes are accessed through the region only.
    let region = unsafe { Region::foreign(NonNull::from(owner.as_slice()).cast(), LENGTH, owner) };
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                region.write(LENGTH / 2, &[sealed[LENGTH / 2] ^ 1]).unwrap();
                region.write(LENGTH / 2, &[sealed[LENGTH / 2]]).unwrap();
            }
        });
        for _ in 0..500 {
            region.write(0, &sealed[..LENGTH / 2]).unwrap();
            region.write(LENGTH / 2 + 1, &sealed[LENGTH / 2 + 1..]).unwrap();
            let whole = region.segment(0, LENGTH).unwrap();
            let submission = Submission::open(&[1; 12], Vec::new(), whole, &tag).into_output(vec![0xee; LENGTH]);
            let completion = run(&session, std::iter::once(submission)).remove(0);
            let output = completion.submission.data();
            match completion.result.unwrap() {
                Outcome::Done => assert_eq!(output, plain),
                outcome => {
                    assert_eq!(outcome, Outcome::BadTag);
                    assert!(output == [0xee; LENGTH] || output == [0; LENGTH], "no plaintext");
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// Requests with segments, requests with one buffer and direct requests make equal packets.
#[test]
fn segmented_packets_equal_contiguous_packets() {
    let gantry = Gantry::builder().driver(&SoftwareDriver).build();
    let params = SessionParams::new(Algorithm::EspAes128Gcm, &[3; 20]).with_esp(Esp { spi: 4096, extended: true });
    let session = gantry.session(params).unwrap();
    let info = Algorithm::EspAes128Gcm.info();
    let number = |at: usize| (7 << 32) + 1 + at as u64;
    let payload = |at: usize| -> Vec<u8> { (0..at * at * 3).map(|byte| byte as u8).collect() };
    let unprotected = |at: usize| {
        let mut packet = vec![0; info.packet_length(payload(at).len(), 16)];
        packet[info.payload_start()..][..payload(at).len()].copy_from_slice(&payload(at));
        packet
    };
    let direct = |at: usize| {
        let mut packet = unprotected(at);
        session.protect(number(at), at as u8, &mut packet, payload(at).len()).unwrap();
        packet
    };
    let submission = |at: usize, data: Data| Submission::protect(number(at), at as u8, data, payload(at).len());
    let together = run(&session, (0..REQUESTS).map(|at| submission(at, unprotected(at).into())));
    let pieces: Vec<Segments> = (0..REQUESTS).map(|at| scattered(&unprotected(at))).collect();
    let apart = run(&session, pieces.iter().enumerate().map(|(at, data)| submission(at, data.clone().into())));
    for at in 0..REQUESTS {
        assert_eq!((&together[at].result, &apart[at].result), (&Ok(Outcome::Done), &Ok(Outcome::Done)));
        assert_eq!((together[at].submission.data(), bytes_of(&pieces[at])), (&*direct(at), direct(at)));
    }
    let damaged = pieces.iter().map(bytes_of).map(|mut packet| {
        *packet.last_mut().unwrap() ^= 1;
        scattered(&packet)
    });
    let damaged: Vec<Segments> = damaged.collect();
    let before: Vec<Vec<u8>> = damaged.iter().map(bytes_of).collect();
    for completion in run(&session, (0..REQUESTS).map(|at| Submission::unprotect(number(at), damaged[at].clone()))) {
        assert_eq!(completion.result, Ok(Outcome::BadTag));
    }
    assert_eq!(damaged.iter().map(bytes_of).collect::<Vec<_>>(), before, "a bad tag changes nothing");
    let opened = run(&session, (0..REQUESTS).map(|at| Submission::unprotect(number(at), pieces[at].clone())));
    for (at, completion) in opened.iter().enumerate() {
        assert_eq!(
            (&completion.result, completion.submission.payload()),
            (&Ok(Outcome::Done), (payload(at).len(), at as u8))
        );
        assert_eq!(bytes_of(&pieces[at])[info.payload_start()..][..payload(at).len()], payload(at));
    }
}
