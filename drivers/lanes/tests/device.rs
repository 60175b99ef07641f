//! Tests the lanes through the framework on every CPU level: single requests, batches, and streams.

use gantry_core::{
    Algorithm, Direction, Gantry, Kind, Operation, Outcome, QueueOptions, Request, Session, SessionParams, Stream,
    Submission,
};
use gantry_driver_lanes::{LanesDriver, Level, LevelName};

fn every_level() -> Vec<(LevelName, Gantry)> {
    LevelName::ALL
        .into_iter()
        .map(|name| Level::detect_at_most(Some(name)))
        .map(|level| (level.name(), Gantry::builder().driver(&LanesDriver::new(level)).build()))
        .collect()
}

fn session(gantry: &Gantry, algorithm: Algorithm) -> Session {
    gantry.session(params(algorithm, 0x42)).unwrap()
}

fn params(algorithm: Algorithm, key: u8) -> SessionParams {
    let key: Vec<u8> = (0..algorithm.info().key.max.min(100)).map(|i| key ^ i as u8).collect();
    let direction = if algorithm.kind() == Kind::Cipher { Direction::Encrypt } else { Direction::Both };
    SessionParams::new(algorithm, &key).with_direction(direction)
}

/// Returns messages of various lengths that the algorithm accepts.
fn messages(count: usize, algorithm: Algorithm) -> Vec<Vec<u8>> {
    let info = algorithm.info();
    let unit = if info.kind == Kind::Cipher { info.block } else { 1 };
    let length = |i: usize| info.min_data + i * i * 7 % 1500 / unit * unit;
    (0..count).map(|i| (0..length(i)).map(|j| (i + 3 * j) as u8).collect()).collect()
}

fn offered(gantry: &Gantry, kind: Kind) -> Vec<Algorithm> {
    let all = gantry.device("lanes").unwrap().capabilities();
    let found: Vec<Algorithm> = all.iter().map(|c| c.algorithm).filter(|a| a.kind() == kind).collect();
    assert!(!found.is_empty(), "nothing to test");
    found
}

/// Checks the detected CPU features, because they determine the kernels that the other tests run.
#[test]
#[ignore = "needs GANTRY_TEST_CPU: scripts/arm"]
fn describes_the_features_of_this_cpu() {
    let expected =
        std::env::var("GANTRY_TEST_CPU").expect("set GANTRY_TEST_CPU to the description that this CPU should get");
    let gantry = Gantry::builder().driver(&LanesDriver::default()).build();
    assert_eq!(gantry.device("lanes").unwrap().details().unwrap().description, expected);
}

#[test]
fn hashes_and_hmacs_are_offered_on_every_level() {
    use Algorithm::*;
    for (level, gantry) in every_level() {
        let device = gantry.device("lanes").unwrap();
        for algorithm in [
            Md5,
            Sha1,
            Sha224,
            Sha256,
            Sha384,
            Sha512,
            Sha512_256,
            Sha3_224,
            Sha3_256,
            Sha3_384,
            Sha3_512,
            Shake128,
            Shake256,
            TurboShake128,
            TurboShake256,
            Kt128,
            Blake2b256,
            HmacMd5,
            HmacSha1,
            HmacSha224,
            HmacSha256,
            HmacSha384,
            HmacSha512,
            HmacSha512_256,
            HmacSha3_224,
            HmacSha3_256,
            HmacSha3_384,
            HmacSha3_512,
        ] {
            let capability = device.capability(algorithm).unwrap();
            assert!(capability.lanes >= 2 && capability.break_even <= capability.lanes, "{level} {algorithm}");
            assert!(capability.streaming && capability.synchronous);
            device.admit(algorithm).unwrap();
        }
    }
}

#[test]
fn ciphers_offer_the_operations_that_lanes_accelerate() {
    use Algorithm::*;
    for (level, gantry) in every_level() {
        let device = gantry.device("lanes").unwrap();
        for algorithm in [Aes128Cbc, Aes192Cbc, Aes256Cbc] {
            let capability = device.capability(algorithm).unwrap();
            assert_eq!(capability.operations, [Operation::Encrypt]);
            let session = gantry.session(SessionParams::new(algorithm, &vec![1; algorithm.info().key.max])).unwrap();
            assert!(session.decrypt(&[0; 16], &mut [0; 16]).is_err());
        }
        for algorithm in [Aes128Ctr, Aes192Ctr, Aes256Ctr, Aes128Xts, Aes256Xts] {
            let capability = device.capability(algorithm).unwrap();
            assert_eq!(capability.operations, [Operation::Encrypt, Operation::Decrypt]);
            // Without registers of several blocks, plain software is faster.
            let wide = device.details().unwrap().description.contains("VAES");
            assert_eq!(capability.break_even, if wide { 1 } else { usize::MAX }, "{level}");
            let session = gantry.session(params(algorithm, 1).with_direction(Direction::Both)).unwrap();
            let plain = messages(40, algorithm);
            let mut data = plain.clone();
            let mut requests: Vec<Request<'_>> = data.iter_mut().map(|data| Request::encrypt(&[3; 16], data)).collect();
            session.process(&mut requests).unwrap();
            assert!(data.iter().zip(&plain).all(|(data, plain)| data != plain || plain.len() < 16));
            let mut requests: Vec<Request<'_>> = data.iter_mut().map(|data| Request::decrypt(&[3; 16], data)).collect();
            session.process(&mut requests).unwrap();
            assert_eq!(data, plain, "{level} {algorithm}");
        }
    }
}

#[test]
fn aes_is_offered_where_the_cpu_has_its_instructions() {
    for level in [gantry_digest::internal::base_without_aes(), Level::detect_at_most(Some(LevelName::Base))] {
        let gantry = Gantry::builder().driver(&LanesDriver::new(level)).build();
        let capabilities = gantry.device("lanes").unwrap().capabilities();
        let offered = capabilities.iter().any(|capability| capability.algorithm.name().contains("aes"));
        assert_eq!(offered, level.aes(), "{level:?}");
        let session = gantry.session(params(Algorithm::Aes128Cbc, 1));
        assert_eq!(session.is_ok(), level.aes(), "{level:?}");
    }
}

#[test]
fn gcm_is_offered_where_the_cpu_has_vpclmulqdq() {
    for (level, gantry) in every_level() {
        let device = gantry.device("lanes").unwrap();
        // Without VPCLMULQDQ, plain software is faster.
        let wide = device.details().unwrap().description.contains("VPCLMULQDQ");
        for algorithm in [Algorithm::Aes128Gcm, Algorithm::Aes192Gcm, Algorithm::Aes256Gcm] {
            assert_eq!(device.capability(algorithm).is_some(), wide, "{level}");
            if !wide {
                continue;
            }
            let session = session(&gantry, algorithm);
            let plain = messages(40, algorithm);
            let (mut data, mut tags) = (plain.clone(), vec![[0; 16]; plain.len()]);
            let sealed = data.iter_mut().zip(&mut tags);
            let mut requests: Vec<Request<'_>> =
                sealed.map(|(data, tag)| Request::seal(&[3; 12], b"with it", data, tag)).collect();
            session.process(&mut requests).unwrap();
            // A batch reports exactly the forged messages.
            let is_forged = |place: usize| place.is_multiple_of(7);
            for tag in tags.iter_mut().enumerate().filter(|(place, _)| is_forged(*place)).map(|(_, tag)| tag) {
                tag[11] ^= 4;
            }
            let opened = data.iter_mut().zip(&tags);
            let mut requests: Vec<Request<'_>> =
                opened.map(|(data, tag)| Request::open(&[3; 12], b"with it", data, tag)).collect();
            session.process(&mut requests).unwrap();
            for (place, request) in requests.iter().enumerate() {
                let outcome = if is_forged(place) { Outcome::BadTag } else { Outcome::Done };
                assert_eq!(request.outcome(), Some(outcome), "{level}, {place}");
            }
            drop(requests);
            for (place, (data, plain)) in data.iter().zip(&plain).enumerate() {
                let zeros = vec![0; plain.len()];
                assert_eq!(data, if is_forged(place) { &zeros } else { plain }, "{level}, {place}");
            }
        }
    }
}

#[test]
fn batches_of_any_size_equal_single_requests() {
    for (level, gantry) in every_level() {
        for kind in [Kind::Digest, Kind::Mac] {
            for algorithm in offered(&gantry, kind) {
                let session = session(&gantry, algorithm);
                let length = session.params().tag_len();
                for count in [0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 100] {
                    let inputs = messages(count, algorithm);
                    let mut outputs = vec![vec![0; length]; count];
                    let pairs = inputs.iter().zip(&mut outputs);
                    let mut requests: Vec<Request<'_>> = pairs
                        .map(|(input, output)| match kind {
                            Kind::Digest => Request::digest(input, output),
                            _ => Request::mac(input, output),
                        })
                        .collect();
                    session.process(&mut requests).unwrap();
                    for (input, output) in inputs.iter().zip(&outputs) {
                        let mut expected = vec![0; length];
                        match kind {
                            Kind::Digest => session.digest(input, &mut expected).unwrap(),
                            _ => session.mac(input, &mut expected).unwrap(),
                        }
                        assert_eq!(*output, expected, "{level} {algorithm}, {} bytes, {count} at once", input.len());
                    }
                }
            }
        }
    }
}

#[test]
fn cipher_batches_equal_single_requests() {
    for (level, gantry) in every_level() {
        for algorithm in offered(&gantry, Kind::Cipher) {
            let session = session(&gantry, algorithm);
            for count in [1, 2, 7, 8, 9, 16, 17, 100] {
                let inputs = messages(count, algorithm);
                let ivs: Vec<[u8; 16]> = (0..count).map(|i| [i as u8; 16]).collect();
                let mut in_place = inputs.clone();
                let mut requests: Vec<Request<'_>> =
                    in_place.iter_mut().zip(&ivs).map(|(data, iv)| Request::encrypt(iv, data)).collect();
                session.process(&mut requests).unwrap();
                for ((input, output), iv) in inputs.iter().zip(&in_place).zip(&ivs) {
                    let mut expected = vec![0; input.len()];
                    session.encrypt(iv, (&input[..], &mut expected[..])).unwrap();
                    assert_eq!(*output, expected, "{level} {algorithm}, {} bytes, {count} at once", input.len());
                }
            }
        }
    }
}

#[test]
fn batches_mix_streams_and_whole_messages() {
    for (level, gantry) in every_level() {
        for kind in [Kind::Digest, Kind::Mac] {
            for algorithm in offered(&gantry, kind) {
                let session = session(&gantry, algorithm);
                let length = session.params().tag_len();
                let message: Vec<u8> = (0..3000u32).map(|i| (i * 13) as u8).collect();
                let alone = |message: &[u8]| {
                    let mut output = vec![0; length];
                    match kind {
                        Kind::Digest => session.digest(message, &mut output).unwrap(),
                        _ => session.mac(message, &mut output).unwrap(),
                    }
                    output
                };
                let expected = alone(&message);
                let mut streams: Vec<Stream> = (0..37).map(|_| session.stream(37).unwrap()).collect();
                let mut at = vec![0; streams.len()];
                // Stream `i` gets pieces of 100 + 9i bytes.
                while at.iter().any(|&at| at < message.len()) {
                    let mut requests: Vec<Request<'_>> = Vec::new();
                    for (i, (stream, at)) in streams.iter_mut().zip(&mut at).enumerate() {
                        let end = message.len().min(*at + 100 + 9 * i);
                        requests.push(Request::update(stream, &message[*at..end]));
                        *at = end;
                    }
                    session.process(&mut requests).unwrap();
                }
                let mut outputs = vec![vec![0; length]; streams.len()];
                let mut whole = vec![0; length];
                let mut requests: Vec<Request<'_>> = streams
                    .iter_mut()
                    .zip(&mut outputs)
                    .map(|(stream, output)| Request::finish(stream, output))
                    .collect();
                requests.push(match kind {
                    Kind::Digest => Request::digest(&message, &mut whole),
                    _ => Request::mac(&message, &mut whole),
                });
                session.process(&mut requests).unwrap();
                for output in outputs.iter().chain([&whole]) {
                    assert_eq!(*output, expected, "{level} {algorithm}");
                }
                // A finished stream is reset for a new message, and a copy is independent.
                let stream = &mut streams[0];
                stream.update(&message[..70]).unwrap();
                let mut copy = stream.clone();
                stream.update(&message[70..]).unwrap();
                stream.finish(&mut whole).unwrap();
                assert_eq!(whole, expected);
                copy.finish(&mut whole).unwrap();
                assert_eq!(whole, alone(&message[..70]));
            }
        }
    }
}

#[test]
fn a_cipher_stream_chains_across_its_pieces() {
    for (_, gantry) in every_level() {
        use Algorithm::*;
        for algorithm in [Aes128Cbc, Aes192Cbc, Aes256Cbc, Aes128Ctr, Aes192Ctr, Aes256Ctr] {
            let session = session(&gantry, algorithm);
            let message = vec![7; 160];
            let mut whole = message.clone();
            session.encrypt(&[9; 16], &mut whole).unwrap();
            for split in (0..=160).step_by(algorithm.info().block) {
                let mut stream = session.cipher_stream(Operation::Encrypt, &[9; 16]).unwrap();
                let mut data = message.clone();
                let (head, tail) = data.split_at_mut(split);
                stream.update(head).unwrap();
                stream.clone().update(&mut [0; 16]).unwrap();
                stream.update(tail).unwrap();
                assert_eq!(data, whole, "split at {split}");
            }
        }
    }
}

/// Requests of different sessions that wait in a queue run in one batch.
#[test]
fn sessions_with_different_keys_share_lanes() {
    for (level, gantry) in every_level() {
        for kind in [Kind::Cipher, Kind::Mac] {
            for algorithm in offered(&gantry, kind) {
                let inputs = messages(40, algorithm);
                let sessions: Vec<Session> =
                    (0..inputs.len()).map(|i| gantry.session(params(algorithm, i as u8)).unwrap()).collect();
                let options = QueueOptions { coalesce: std::time::Duration::ZERO, ..QueueOptions::default() };
                let mut queue = gantry.queue(options).unwrap();
                for (i, (session, input)) in sessions.iter().zip(&inputs).enumerate() {
                    let submission = match kind {
                        Kind::Cipher => Submission::encrypt(&[i as u8; 16], input.clone()),
                        _ => Submission::mac(input.clone()),
                    };
                    queue.submit(session, submission.user(i as u64)).unwrap();
                }
                let mut completed = 0;
                while queue.in_flight() > 0 {
                    completed += queue.wait(|completion| {
                        let i = completion.user as usize;
                        completion.result.unwrap().ok().unwrap();
                        let mut expected = inputs[i].clone();
                        if kind == Kind::Cipher {
                            sessions[i].encrypt(&[i as u8; 16], &mut expected).unwrap();
                            assert_eq!(completion.submission.data(), expected, "{level} {algorithm}, session {i}");
                        } else {
                            expected.resize(sessions[i].params().tag_len(), 0);
                            sessions[i].mac(&inputs[i], &mut expected).unwrap();
                            assert_eq!(completion.submission.tag(), expected, "{level} {algorithm}, session {i}");
                        }
                    });
                }
                assert_eq!(completed, inputs.len());
            }
        }
    }
}

/// Runs digests of different lengths in one batch and in a queue. Each must be a prefix of the longest.
#[test]
fn digests_of_any_length_share_lanes() {
    use Algorithm::*;
    const LONGEST: usize = 1000;
    for (level, gantry) in every_level() {
        for algorithm in [Shake128, Shake256, TurboShake128, TurboShake256, Kt128] {
            let of = |bytes: usize| gantry.session(SessionParams::new(algorithm, &[]).with_tag_len(bytes)).unwrap();
            let mut inputs = messages(40, algorithm);
            inputs[7] = vec![5; 30_000];
            let expected = inputs.iter().map(|input| {
                let mut digest = vec![0; LONGEST];
                of(LONGEST).digest(input, &mut digest).unwrap();
                digest
            });
            let expected: Vec<Vec<u8>> = expected.collect();
            let sessions: Vec<Session> = (0..40).map(|i| of(1 + i * i * 31 % LONGEST)).collect();
            let mut digests: Vec<Vec<u8>> =
                sessions.iter().map(|session| vec![0; session.params().tag_len()]).collect();
            let mut requests: Vec<Request<'_>> =
                inputs.iter().zip(&mut digests).map(|(input, digest)| Request::digest(input, digest)).collect();
            Session::process_each(&sessions, &mut requests).unwrap();
            drop(requests);
            for (digest, whole) in digests.iter().zip(&expected) {
                assert_eq!(*digest, whole[..digest.len()], "{level} {algorithm}, {} bytes", digest.len());
            }
            let mut queue = gantry.queue(QueueOptions::default()).unwrap();
            for (i, (session, input)) in sessions.iter().zip(&inputs).enumerate() {
                queue.submit(session, Submission::digest(input.clone()).user(i as u64)).unwrap();
            }
            while queue.in_flight() > 0 {
                queue.wait(|completion| {
                    let i = completion.user as usize;
                    completion.result.unwrap().ok().unwrap();
                    assert_eq!(completion.submission.tag(), digests[i], "{level} {algorithm}, in a queue");
                });
            }
            // The session determines the length of a digest. It has no MAC.
            assert!(sessions[3].digest(&inputs[3], &mut [0; 4]).is_err());
            assert!(of(64 << 10).verify(b"", &[0; 64]).is_err());
        }
    }
}

#[test]
fn one_session_serves_several_threads() {
    for (_, gantry) in every_level() {
        let session = session(&gantry, Algorithm::Sha256);
        let inputs = messages(40, Algorithm::Sha256);
        let batch = || {
            let mut outputs = vec![[0; 32]; inputs.len()];
            let mut requests: Vec<Request<'_>> =
                inputs.iter().zip(&mut outputs).map(|(input, output)| Request::digest(input, output)).collect();
            session.process(&mut requests).unwrap();
            drop(requests);
            outputs
        };
        let expected = batch();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..50).for_each(|_| assert_eq!(batch(), expected)));
            }
        });
    }
}

#[test]
fn a_batch_may_have_a_key_for_each_request() {
    for (level, gantry) in every_level() {
        for algorithm in offered(&gantry, Kind::Cipher) {
            let messages = messages(33, algorithm);
            let info = algorithm.info();
            let iv = vec![9; info.iv.max];
            let sessions: Vec<Session> = (0..33).map(|key| gantry.session(params(algorithm, key)).unwrap()).collect();
            let mut together = messages.clone();
            let mut requests: Vec<Request<'_>> =
                together.iter_mut().map(|data| Request::encrypt(&iv, &mut data[..])).collect();
            Session::process_each(&sessions, &mut requests).unwrap();
            assert!(requests.iter().all(|request| request.outcome() == Some(gantry_core::Outcome::Done)));
            for ((session, mut alone), together) in sessions.iter().zip(messages).zip(&together) {
                session.encrypt(&iv, &mut alone[..]).unwrap();
                assert_eq!(&alone, together, "{level:?}, {algorithm}");
            }
        }
    }
}
