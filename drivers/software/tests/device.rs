//! Tests the software device through core, as programs use it. The conformance suite checks its results with vectors; these
//! tests compare its call paths and check its refusals.

mod common;

use aws_lc_sys as lc;
use common::{Case, bytes, offered, params, software};
use gantry_core::driver::{Buffers, Driver, Found, Operands};
use gantry_core::{Algorithm as A, Error, Fault, Kind, Operation, Outcome, Request, Session, SessionParams};
use gantry_driver_software::SoftwareDriver;

const LENGTHS: [usize; 12] = [0, 1, 15, 16, 17, 63, 64, 65, 200, 255, 1000, 4101];

/// Returns the result of the forward operation, run directly and in place.
fn answer(session: &Session, case: &Case) -> (Vec<u8>, Vec<u8>) {
    let operation = session.params().algorithm().kind().operations()[0];
    let (mut output, mut tag) = case.buffers(session);
    case.run_direct(session, operation, &mut output, &mut tag).unwrap();
    (output, tag)
}

/// Returns true if the results are equal, or if a randomized signature verifies.
fn is_same_result(session: &Session, case: &Case, got: &[u8], expected: &[u8]) -> bool {
    let randomized = session.params().algorithm().info().randomized;
    if randomized { session.verify(&case.input, got).is_ok() } else { got == expected }
}

/// Returns a request from one buffer to another.
fn request<'a>(
    case: &'a Case,
    operation: Operation,
    input: &'a [u8],
    output: &'a mut [u8],
    tag: &'a mut [u8],
) -> Request<'a> {
    let Case { iv, aad, .. } = case;
    match operation {
        Operation::Digest => Request::digest(&case.input, output),
        Operation::Mac => Request::mac_with_iv(iv, &case.input, output),
        Operation::Encrypt => Request::encrypt(iv, (input, output)),
        Operation::Decrypt => Request::decrypt(iv, (input, output)),
        Operation::Seal => Request::seal(iv, aad, (input, output), tag),
        Operation::Open => Request::open(iv, aad, (input, output), tag),
        Operation::Sign => Request::sign(&case.input, output),
        Operation::Verify => Request::verify(&case.input, input),
        Operation::Derive => Request::derive(&case.input, output),
        other => panic!("a case of {other}"),
    }
}

/// Calibrates every operation, because a learning policy skips a device without measurements once another device has some.
#[test]
fn every_operation_can_be_measured() {
    let gantry = software();
    let device = &gantry.devices()[0];
    // A signature of most SLH-DSA sets takes longer than everything else.
    let is_long = |algorithm: A| algorithm.is_slh_dsa() && algorithm != A::SlhDsaSha2_128f;
    for capability in device.capabilities().iter().filter(|capability| !is_long(capability.algorithm)) {
        for &operation in capability.operations {
            gantry.calibrate(capability.algorithm, operation, true);
            let costs = device.costs(capability.algorithm, operation).unwrap();
            assert!(costs.is_known(), "{} {operation}", capability.algorithm);
        }
    }
}

#[test]
fn every_algorithm_is_admitted_by_its_known_answers() {
    let gantry = software();
    for algorithm in offered(&gantry) {
        assert_eq!(gantry.devices()[0].admit(algorithm), Ok(()), "{algorithm}");
    }
}

#[test]
fn batches_of_all_lengths_equal_direct_requests() {
    let gantry = software();
    for algorithm in offered(&gantry) {
        let session = gantry.session(params(algorithm)).unwrap();
        let cases = LENGTHS.map(|len| Case::new(algorithm, len));
        let answers: Vec<_> = cases.iter().map(|case| answer(&session, case)).collect();
        for operation in algorithm.kind().operations() {
            let is_inverse = operation.is_inverse();
            let mut buffers: Vec<_> = (cases.iter().zip(&answers))
                .map(|(case, (output, tag))| {
                    let (_, fresh_tag) = case.buffers(&session);
                    let input = if is_inverse { output } else { &case.input };
                    (input, vec![0x55; output.len()], if is_inverse { tag.clone() } else { fresh_tag })
                })
                .collect();
            let mut requests: Vec<_> = (cases.iter().zip(&mut buffers))
                .map(|(case, (input, output, tag))| request(case, *operation, input, output, tag))
                .collect();
            session.process(&mut requests).unwrap();
            assert!(requests.iter().all(|request| request.outcome() == Some(Outcome::Done)), "{algorithm} {operation}");
            drop(requests);
            if *operation == Operation::Verify {
                continue; // nothing to compare except the outcome
            }
            for ((case, answer), (_, output, tag)) in cases.iter().zip(&answers).zip(&buffers) {
                let expected = if is_inverse { &case.input } else { &answer.0 };
                assert!(
                    is_same_result(&session, case, output, expected) && *tag == answer.1,
                    "{algorithm} {operation} of {}",
                    case.input.len()
                );
            }
        }
    }
}

#[test]
fn streams_equal_single_requests() {
    let gantry = software();
    let streaming = gantry.devices()[0].capabilities().iter().filter(|capability| capability.streaming);
    for algorithm in streaming.map(|capability| capability.algorithm) {
        let session = gantry.session(params(algorithm)).unwrap();
        let case = Case::new(algorithm, 400);
        let (expected, tag) = answer(&session, &case);
        let block = if algorithm.kind() == Kind::Cipher { algorithm.info().block } else { 1 };
        for piece in [1, 2, 3, 4, 5, 9].map(|blocks| blocks * block) {
            match algorithm.kind() {
                Kind::Digest | Kind::Mac => {
                    let mut stream = session.stream(1).unwrap();
                    for message in 0..2 {
                        for piece in case.input.chunks(piece) {
                            stream.update(piece).unwrap();
                        }
                        let mut output = vec![0; expected.len()];
                        stream.clone().finish(&mut output).unwrap();
                        assert_eq!(output, expected, "{algorithm}, copy in message {message}");
                        output.fill(0);
                        stream.finish(&mut output).unwrap();
                        assert_eq!(output, expected, "{algorithm}, message {message}");
                    }
                }
                Kind::Aead => {
                    for (operation, input, expected) in
                        [(Operation::Seal, &case.input, &expected), (Operation::Open, &expected, &case.input)]
                    {
                        let mut stream = session.aead_stream(operation).unwrap();
                        stream.begin(&case.iv, &case.aad).unwrap();
                        let mut output = vec![0; input.len()];
                        for (from, to) in input.chunks(piece).zip(output.chunks_mut(piece)) {
                            stream = stream.clone();
                            stream.update((from, to)).unwrap();
                        }
                        assert!(output == *expected, "{algorithm} {operation} in pieces of {piece}");
                        if operation == Operation::Seal {
                            let mut sealed = vec![0; tag.len()];
                            assert!(stream.seal(&mut vec![0; tag.len() + 1]).is_err(), "a tag of another length");
                            stream.seal(&mut sealed).unwrap();
                            assert_eq!(sealed, tag);
                        } else {
                            stream.clone().open(&tag).unwrap();
                            let mut forged = tag.clone();
                            forged[0] ^= 1;
                            assert!(stream.open(&forged).is_err());
                        }
                        assert!(stream.update((&[0][..], &mut [0][..])).is_err(), "one message, one tag");
                    }
                }
                Kind::Cipher => {
                    for (operation, input, expected) in
                        [(Operation::Encrypt, &case.input, &expected), (Operation::Decrypt, &expected, &case.input)]
                    {
                        let mut stream = session.cipher_stream(operation, &case.iv).unwrap();
                        let mut output = vec![0; input.len()];
                        for (from, to) in input.chunks(piece).zip(output.chunks_mut(piece)) {
                            stream = stream.clone();
                            stream.update((from, to)).unwrap();
                        }
                        assert!(output == *expected, "{algorithm} {operation} in pieces of {piece}");
                    }
                }
                _ => panic!("{algorithm} has no streams"),
            }
        }
    }
}

#[test]
fn a_truncated_tag_is_the_beginning_of_the_whole_one() {
    let gantry = software();
    for algorithm in offered(&gantry).filter(|algorithm| !algorithm.info().randomized) {
        let tags = algorithm.info().tag;
        let case = Case::new(algorithm, 77);
        // A few blocks, if the digest may have any length.
        let most = tags.max.min(600);
        let whole = answer(&gantry.session(params(algorithm).with_tag_len(most)).unwrap(), &case);
        for tag_len in (tags.min.max(1)..=most).step_by(tags.step) {
            let session = gantry.session(params(algorithm).with_tag_len(tag_len)).unwrap();
            let (output, tag) = answer(&session, &case);
            match algorithm {
                // CCM authenticates the length of its tag (RFC 3610, 2.2).
                A::Aes128Ccm | A::Aes192Ccm | A::Aes256Ccm => {
                    assert_eq!((output, tag.len()), (whole.0.clone(), tag_len));
                }
                _ if algorithm.kind() == Kind::Aead => {
                    assert_eq!((output, &tag[..]), (whole.0.clone(), &whole.1[..tag_len]));
                }
                _ => assert_eq!(output, &whole.0[..tag_len], "{algorithm}"),
            }
        }
    }
}

#[test]
fn forgeries_are_refused_and_leave_no_plaintext() {
    let gantry = software();
    for algorithm in offered(&gantry).filter(|algorithm| algorithm.kind() == Kind::Aead) {
        let session = gantry.session(params(algorithm)).unwrap();
        let case = Case::new(algorithm, 333);
        let (sealed, tag) = answer(&session, &case);
        let flip = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            *bytes.last_mut().unwrap() ^= 0x80;
            bytes
        };
        let forgeries = [
            (case.iv.clone(), case.aad.clone(), sealed.clone(), flip(&tag)),
            (case.iv.clone(), case.aad.clone(), flip(&sealed), tag.clone()),
            (case.iv.clone(), flip(&[&case.aad[..], &[0]].concat()), sealed.clone(), tag.clone()),
            (flip(&case.iv), case.aad.clone(), sealed.clone(), tag.clone()),
            (case.iv.clone(), case.aad.clone(), sealed.clone(), tag[1..].to_vec()),
        ];
        let refused = Err(Error::Refused(Outcome::BadTag));
        for (number, (iv, aad, input, tag)) in forgeries.iter().enumerate() {
            let mut data = input.clone();
            assert_eq!(session.open(iv, aad, &mut data, tag), refused, "{algorithm}, forgery {number}");
            assert!(data == *input || data.iter().all(|byte| *byte == 0), "{algorithm}, forgery {number}, in place");
            let mut output = vec![0x55; input.len()];
            assert_eq!(session.open(iv, aad, (&input[..], &mut output[..]), tag), refused);
            let untouched = output.iter().all(|byte| *byte == 0x55);
            assert!(untouched || output.iter().all(|byte| *byte == 0), "{algorithm}, forgery {number}, apart");
        }
        // The failures leave no state behind, neither for the next request nor for the host program.
        let mut data = sealed.clone();
        assert_eq!(session.open(&case.iv, &case.aad, &mut data, &tag), Ok(()), "{algorithm}");
        assert_eq!(data, case.input);
        // SAFETY: the call only reads the error queue of this thread.
        assert_eq!(unsafe { lc::ERR_peek_error() }, 0, "{algorithm}");
    }
}

#[test]
fn gcm_and_ccm_take_every_length_of_nonce() {
    let gantry = software();
    for algorithm in [A::Aes128Gcm, A::Aes192Gcm, A::Aes256Gcm, A::Aes128Ccm, A::Aes192Ccm, A::Aes256Ccm] {
        let session = gantry.session(params(algorithm).with_any_nonce()).unwrap();
        let ivs = session.params().iv_lengths();
        let mut tags = Vec::new();
        // Lengths go up and down, so that no length benefits from the previous one.
        for len in (ivs.min..=ivs.max.min(140)).chain([1000, 7]).filter(|len| ivs.allows(*len)) {
            let case = Case { iv: bytes(len, 3), aad: Vec::new(), input: bytes(50, 4) };
            let (mut data, tag) = answer(&session, &case);
            session.open(&case.iv, &[], &mut data, &tag).unwrap();
            assert_eq!(data, case.input, "{algorithm}, IV of {len}");
            tags.push((len, tag));
        }
        let first = tags.iter().position(|(len, _)| *len == 7).unwrap();
        assert_eq!(tags.last(), tags.get(first), "{algorithm}");
    }
}

#[test]
fn invalid_lengths_are_refused_and_nothing_is_written() {
    let gantry = software();
    for (algorithm, iv, len) in [
        (A::Aes128Ecb, 0, 15),
        (A::Aes128Cbc, 16, 17),
        (A::Aes256Xts, 16, 15),
        (A::Aes256Xts, 16, (16 << 20) + 1),
        (A::DesEde3Cbc, 8, 12),
        (A::Aes128Ccm, 13, 1 << 16),
        (A::Aes192CbcHmacSha384, 16, 1),
    ] {
        let session = gantry.session(params(algorithm)).unwrap();
        let case = Case { iv: bytes(iv, 1), aad: Vec::new(), input: bytes(len, 2) };
        for operation in algorithm.kind().operations() {
            let (mut data, mut tag) = case.buffers(&session);
            let result = case.run_direct(&session, *operation, &mut data, &mut tag);
            assert_eq!(result, Err(Error::Refused(Outcome::BadLength)), "{algorithm} {operation}");
            assert!(data == case.input, "{algorithm} {operation}");
        }
    }
}

#[test]
fn chacha20_does_not_wrap_its_block_counter() {
    let gantry = software();
    let session = gantry.session(params(A::ChaCha20)).unwrap();
    let mut iv = bytes(16, 1);
    iv[..4].copy_from_slice(&(u32::MAX - 1).to_le_bytes());
    let mut data = bytes(128, 2);
    let mut longer = bytes(129, 2);
    assert_eq!(session.encrypt(&iv, &mut longer), Err(Error::Refused(Outcome::BadLength)));
    assert_eq!(longer, bytes(129, 2));
    session.encrypt(&iv, &mut data).unwrap();

    let mut stream = session.cipher_stream(Operation::Decrypt, &iv).unwrap();
    stream.update(&mut data[..100]).unwrap();
    stream.update(&mut data[100..]).unwrap();
    assert_eq!(data, bytes(128, 2));
    let refused = Fault::failed("the algorithm does not accept data of this length");
    assert_eq!(stream.update(&mut [0]), Err(Error::Device { algorithm: A::ChaCha20, last: refused }));
}

#[test]
fn sixteen_threads_share_a_session() {
    let gantry = software();
    for algorithm in offered(&gantry) {
        let session = gantry.session(params(algorithm)).unwrap();
        let cases = [0, 40, 600].map(|len| Case::new(algorithm, len));
        let answers: Vec<_> = cases.iter().map(|case| answer(&session, case)).collect();
        std::thread::scope(|scope| {
            for thread in 0..16 {
                let (session, cases, answers) = (&session, &cases, &answers);
                scope.spawn(move || {
                    for round in 0..12 {
                        let index = (thread + round) % cases.len();
                        let (case, expected) = (&cases[index], &answers[index]);
                        let (output, tag) = answer(session, case);
                        assert!(
                            is_same_result(session, case, &output, &expected.0) && tag == expected.1,
                            "{algorithm}"
                        );
                        let Some(inverse) = algorithm.kind().operations().get(1) else { continue };
                        let (mut data, mut tag) = expected.clone();
                        case.run_direct(session, *inverse, &mut data, &mut tag).unwrap();
                        // Verification has no result but the outcome.
                        assert!(*inverse == Operation::Verify || data == case.input, "{algorithm}");
                    }
                });
            }
        });
    }
}

/// Core checks lengths. If a caller of the driver does not check lengths, the driver must still not access memory outside of
/// the buffers.
#[test]
fn wrong_lengths_without_the_checks_of_core_are_faults() {
    let found = SoftwareDriver.discover().remove(0);
    let Found::Device(device) = found else { panic!("the software device is never excluded") };
    for capability in &device.info().capabilities {
        let algorithm = capability.algorithm;
        let info = algorithm.info();
        if info.key.max != usize::MAX && info.key.max > 0 {
            let short = SessionParams::new(algorithm, &bytes(info.key.min - 1, 1));
            assert!(device.open(&short).is_err(), "{algorithm}: a short key");
        }
        let session = device.open(&params(algorithm)).unwrap();
        let case = Case::new(algorithm, 64);
        let (mut long, mut short) = (bytes(65, 1), bytes(3, 2));
        let data = || Buffers::Separate { input: &case.input, output: &mut [] };
        let (iv, tag_len) = (&case.iv[..], info.tag.max);
        let wrong = match algorithm.kind() {
            // Every length is valid.
            Kind::Digest if info.xof.is_some() => {
                vec![session.run(Operands::Mac { iv, input: &case.input, output: &mut long })]
            }
            Kind::Digest => vec![
                session.run(Operands::Digest { input: &case.input, output: &mut short }),
                session.run(Operands::Digest { input: &case.input, output: &mut long }),
            ],
            Kind::Mac => vec![session.run(Operands::Mac { iv, input: &case.input, output: &mut long })],
            Kind::Cipher => vec![
                session.run(Operands::Cipher { operation: Operation::Encrypt, iv, data: data() }),
                session.run(Operands::Digest { input: &case.input, output: &mut short }),
            ],
            Kind::Signature => vec![
                session.run(Operands::Sign { input: &case.input, output: &mut short }),
                session.run(Operands::Sign { input: &case.input, output: &mut long }),
                session.run(Operands::Derive { input: &case.input, output: &mut long }),
            ],
            Kind::Exchange => vec![
                session.run(Operands::Derive { input: &case.input, output: &mut short }),
                session.run(Operands::Derive { input: &case.input[1..], output: &mut long[..32] }),
                session.run(Operands::Mac { iv: &[], input: &case.input, output: &mut long[..32] }),
            ],
            Kind::Aead => vec![
                session.run(Operands::Seal { iv, aad: &[], data: data(), tag: &mut long }),
                session.run(Operands::Seal { iv, aad: &[], data: (&mut [0; 64]).into(), tag: &mut short }),
                session.run(Operands::Seal { iv: &[], aad: &[], data: (&mut [0; 64]).into(), tag: &mut long }),
                session.run(Operands::Open { iv: &[], aad: &[], data: (&mut [0; 64]).into(), tag: &long[..tag_len] }),
            ],
            Kind::Kem => {
                let (mut ciphertext, mut secret) = (vec![0; info.encapsulation.0], [0; 32]);
                let peer = vec![0; info.public_key.max];
                let mut public = peer.clone();
                vec![
                    session.run(Operands::Decapsulate { input: &ciphertext[1..], output: &mut secret }),
                    session.run(Operands::Decapsulate { input: &ciphertext, output: &mut short }),
                    session.run(Operands::Encapsulate {
                        input: &peer[1..],
                        seed: &[],
                        ciphertext: &mut ciphertext,
                        output: &mut secret,
                    }),
                    session.run(Operands::Encapsulate {
                        input: &peer,
                        seed: &short,
                        ciphertext: &mut ciphertext,
                        output: &mut secret,
                    }),
                    session.run(Operands::Encapsulate {
                        input: &peer,
                        seed: &[],
                        ciphertext: &mut ciphertext[1..],
                        output: &mut secret,
                    }),
                    session.run(Operands::KeyGen { seed: &[], private: &mut long, public: &mut public }),
                    session.run(Operands::KeyGen { seed: &short, private: &mut long[..64], public: &mut public }),
                    session.run(Operands::KeyGen { seed: &[], private: &mut long[..64], public: &mut public[1..] }),
                ]
            }
            Kind::Packet => {
                let mut wrong = |operation, length: usize, mut payload_len| {
                    let (packet, payload_len, next_header) = (&mut long[..length], &mut payload_len, &mut 4);
                    session.run(Operands::Packet { operation, number: 1, packet, payload_len, next_header })
                };
                // Payloads that do not fit the packet, and other operations.
                vec![
                    wrong(Operation::Protect, 65, 7),
                    wrong(Operation::Protect, 3, 0),
                    wrong(Operation::Encrypt, 64, 7),
                    session.run(Operands::Digest { input: &case.input, output: &mut short }),
                ]
            }
            Kind::Compression => {
                let (input, mut written) = (&case.input[..], 0);
                let mut wrong = |operation| {
                    session.run(Operands::Compression {
                        operation,
                        input,
                        output: &mut [0; 200],
                        written: &mut written,
                    })
                };
                vec![wrong(Operation::Encrypt), session.run(Operands::Digest { input, output: &mut short })]
            }
            Kind::Encipherment => {
                let (input, mut written) = (&bytes(tag_len, 9)[..], 0);
                let mut decipher =
                    |input, output| session.run(Operands::Decipher { input, output, written: &mut written });
                vec![
                    decipher(input, &mut short),
                    decipher(&input[1..], &mut bytes(tag_len, 1)),
                    session.run(Operands::Encipher { input, output: &mut long }),
                    session.run(Operands::Encipher { input: &bytes(tag_len + 1, 1), output: &mut bytes(tag_len, 1) }),
                    session.run(Operands::Sign { input, output: &mut bytes(tag_len, 1) }),
                ]
            }
            other => panic!("{algorithm}: no wrong request is defined for {other}"),
        };
        for result in wrong {
            assert!(matches!(result, Err(Fault::Failed(_))), "{algorithm}: {result:?}");
        }
    }
}
