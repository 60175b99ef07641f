//! Tests that no branch and no address in a kernel, or in its callers, depends on a key or on data. `scripts/constant-time` runs the
//! ignored tests, in valgrind and in an optimised build. Valgrind does not support AVX-512, VAES and SHA instructions. The other tests
//! single-step the AES kernels that use AVX-512 or VAES (`steps.rs`), also in an optimised build (`scripts/test-deep`).

pub(crate) mod memcheck;
mod steps;

use std::sync::Arc;

use gantry_core::driver::{Buffers, Capability};
use gantry_core::{Algorithm, Direction, Gantry, Kind, Operation, Outcome, Request, Session, SessionParams};
use gantry_digest::Level;
use gantry_digest::internal::dispatch::sponge::Function;
use gantry_digest::internal::dispatch::{Hash, Kernels};
use gantry_digest::internal::every_level;
use gantry_digest::internal::hash::{self, Job, Setup};
use gantry_digest::internal::kernel::keccak::{self, Keccak};
use gantry_digest::internal::kernel::sha2::{self, Sha512};
use gantry_digest::internal::kernel::{sha1, sha1::Sha1};
use gantry_digest::internal::sponge;

use crate::aes::gcm::{GcmKey, GcmState};
use crate::aes::{Aes, every_aes};
use crate::cbc::{CbcJob, CbcKey};
use crate::cmac::{CmacJob, CmacKey};
use crate::independent::IndependentKey;
use crate::{LanesDriver, NAME};
use memcheck::{count_decisions, is_secret, mark_public, mark_secret, self_test};
use steps::record_traces;

/// Returns secret bytes of these lengths.
fn secrets(lengths: &[usize]) -> Vec<Vec<u8>> {
    lengths.iter().map(|&length| secret_bytes(length)).collect()
}

fn secret_bytes(length: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..length).map(|i| (i * 29 + length) as u8).collect();
    mark_secret(&mut bytes);
    bytes
}

/// Calls `test` with a session of each algorithm on every level. The keys are secret.
fn for_each_session(kind: Kind, test: impl Fn(&Session, &Capability)) {
    for level in every_level() {
        let gantry = Gantry::builder().driver(&LanesDriver::new(level)).build();
        let device = gantry.device(NAME).unwrap();
        let mut tested = 0;
        for capability in device.capabilities().iter().filter(|capability| capability.algorithm.kind() == kind) {
            let algorithm = capability.algorithm;
            device.admit(algorithm).unwrap();
            let key = secret_bytes(algorithm.info().key.max.min(200));
            let direction =
                if capability.operations == [Operation::Encrypt] { Direction::Encrypt } else { Direction::Both };
            let mut session = None;
            let mac_key = secret_bytes(algorithm.info().mac_key.max.min(200));
            let params = SessionParams::new(algorithm, &key).with_mac_key(&mac_key).with_direction(direction);
            let opened = count_decisions(|| session = gantry.session(params).ok());
            // Opening an XTS session reveals if both halves of the key are equal.
            let revealed = usize::from(matches!(algorithm, Algorithm::Aes128Xts | Algorithm::Aes256Xts));
            assert_eq!(opened, revealed, "{level:?} {algorithm}: opening the session");
            test(&session.expect("a session"), capability);
            tested += 1;
        }
        assert!(tested > 0, "{level:?}: nothing to test");
    }
}

#[test]
#[ignore = "needs valgrind: scripts/constant-time"]
fn detects_a_branch_on_a_secret() {
    self_test();
}

#[test]
#[ignore = "needs valgrind: scripts/constant-time"]
fn digests_and_macs_do_not_branch_on_secrets() {
    for kind in [Kind::Digest, Kind::Mac] {
        for_each_session(kind, |session, capability| {
            let algorithm = capability.algorithm;
            let length = session.params().tag_len();
            let messages =
                secrets(&[0, 1, 16, 55, 56, 64, 111, 112, 128, 200, 1000, 64, 64, 64, 64, 64, 64, 64, 3, 3, 700, 9000]);
            let mut outputs = vec![vec![0; length]; messages.len()];
            let mut requests: Vec<Request<'_>> = messages
                .iter()
                .zip(&mut outputs)
                .map(|(input, output)| match kind {
                    Kind::Digest => Request::digest(input, output),
                    _ => Request::mac(input, output),
                })
                .collect();
            assert_eq!(count_decisions(|| session.process(&mut requests).unwrap()), 0, "{algorithm}: a batch");
            let mut alone = vec![0; length];
            let one = count_decisions(|| match kind {
                Kind::Digest => session.digest(&messages[10], &mut alone).unwrap(),
                _ => session.mac(&messages[10], &mut alone).unwrap(),
            });
            assert_eq!(one, 0, "{algorithm}: one message");
            let mut stream = session.stream(1).unwrap();
            let mut streamed = vec![0; length];
            let in_pieces = count_decisions(|| {
                for piece in messages[10].chunks(77) {
                    stream.update(piece).unwrap();
                }
                stream.finish(&mut streamed).unwrap();
            });
            assert_eq!(in_pieces, 0, "{algorithm}: a stream");
            for output in [&mut outputs[10], &mut alone, &mut streamed] {
                assert!(is_secret(output), "{algorithm}: the output is not marked as secret");
                mark_public(output);
            }
            assert!(outputs[10] == alone && outputs[10] == streamed, "{algorithm}: the results differ");
        });
    }
}

#[test]
#[ignore = "needs valgrind: scripts/constant-time"]
fn ciphers_do_not_branch_on_secrets() {
    for_each_session(Kind::Cipher, |session, capability| {
        let algorithm = capability.algorithm;
        for &operation in capability.operations {
            let what = format!("{algorithm}, {operation}");
            // Whole blocks, and partial ones for CTR and XTS. Core refuses lengths that an algorithm does not accept.
            let lengths = [0, 16, 32, 64, 160, 1024, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 4096, 17, 1000];
            let mut data = secrets(&lengths);
            let request = |data| match operation {
                Operation::Encrypt => Request::encrypt(&[7; 16], data),
                _ => Request::decrypt(&[7; 16], data),
            };
            let mut requests: Vec<Request<'_>> = data.iter_mut().map(request).collect();
            assert_eq!(count_decisions(|| session.process(&mut requests).unwrap()), 0, "{what}: a batch");
            let (mut alone, mut streamed) = (secret_bytes(1024), secret_bytes(1024));
            let one = count_decisions(|| {
                let iv = &[7; 16];
                if operation == Operation::Encrypt {
                    session.encrypt(iv, &mut alone)
                } else {
                    session.decrypt(iv, &mut alone)
                }
                .unwrap();
            });
            assert_eq!(one, 0, "{what}: one message");
            let mut outputs = vec![&mut data[5], &mut alone];
            if capability.streaming {
                let mut stream = session.cipher_stream(operation, &[7; 16]).unwrap();
                let in_pieces =
                    count_decisions(|| streamed.chunks_mut(80).for_each(|piece| stream.update(piece).unwrap()));
                assert_eq!(in_pieces, 0, "{what}: a stream");
                outputs.push(&mut streamed);
            }
            for output in &mut outputs {
                assert!(is_secret(output), "{what}: the output is not marked as secret");
                mark_public(output);
            }
            assert!(outputs.iter().all(|output| *output == outputs[0]), "{what}: the results differ");
        }
    });
}

/// The only branch that depends on a secret is on the result of comparing a computed tag.
#[test]
#[ignore = "needs valgrind: scripts/constant-time"]
fn aeads_branch_only_on_the_result_of_the_tag_comparison() {
    for_each_session(Kind::Aead, |session, capability| {
        let algorithm = capability.algorithm;
        let (iv, aad) = (vec![7; algorithm.info().iv.max], vec![3; 200]);
        let lengths = [0, 16, 32, 64, 160, 1024, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 4096, 48, 1008];
        let (plain, mut data) = (secrets(&lengths), secrets(&lengths));
        let mut tags = vec![vec![0; session.params().tag_len()]; lengths.len()];
        let messages = data.iter_mut().zip(&mut tags).enumerate();
        let mut requests: Vec<Request<'_>> =
            messages.map(|(i, (data, tag))| Request::seal(&iv, &aad[..10 * i], data, tag)).collect();
        assert_eq!(count_decisions(|| session.process(&mut requests).unwrap()), 0, "{algorithm}: a batch");
        let (mut alone, mut tag) = (plain[5].clone(), tags[0].clone());
        let sealed = count_decisions(|| session.seal(&iv, &aad[..50], &mut alone, &mut tag).unwrap());
        assert_eq!(sealed, 0, "{algorithm}: one message");
        for bytes in data.iter_mut().chain(&mut tags).chain([&mut alone, &mut tag]) {
            assert!(bytes.is_empty() || is_secret(bytes), "{algorithm}: the output is not marked as secret");
            mark_public(bytes);
        }
        assert!((&alone, &tag) == (&data[5], &tags[5]), "{algorithm}: the results differ");
        // Every third tag is wrong.
        for tag in tags.iter_mut().step_by(3) {
            tag[2] ^= 1;
        }
        let messages = data.iter_mut().zip(&tags).enumerate();
        let mut requests: Vec<Request<'_>> =
            messages.map(|(i, (data, tag))| Request::open(&iv, &aad[..10 * i], data, tag)).collect();
        let opened = count_decisions(|| session.process(&mut requests).unwrap());
        assert_eq!(opened, lengths.len(), "{algorithm}: opening a batch");
        for (i, request) in requests.iter().enumerate() {
            assert_eq!(
                request.outcome(),
                Some(if i % 3 == 0 { Outcome::BadTag } else { Outcome::Done }),
                "{algorithm}"
            );
        }
        drop(requests);
        let opened = count_decisions(|| session.open(&iv, &aad[..50], &mut alone, &tag).unwrap());
        assert_eq!(opened, 1, "{algorithm}: opening one message");
    });
}

/// Runs lanes with different keys, as in a batch of several sessions.
#[test]
#[ignore = "needs valgrind: scripts/constant-time"]
fn lanes_with_different_keys_do_not_branch_on_secrets() {
    fn hmac<H: Hash>(level: Level, initial: [H::Word; 8], digest: usize) {
        let kernels: Kernels<H> = H::kernels(level);
        let messages = secrets(&[64; 40]);
        let mut outputs = vec![vec![0; digest]; messages.len()];
        let hashed = count_decisions(|| {
            let setups: Vec<Setup<H>> = messages.iter().map(|key| Setup::hmac(kernels, initial, digest, key)).collect();
            let jobs = setups.iter().zip(&messages).zip(&mut outputs);
            let jobs = jobs.map(|((setup, input), output)| Job { setup, stream: None, input, output: Some(output) });
            hash::run(kernels, jobs);
        });
        assert_eq!(hashed, 0, "{level:?}");
    }
    fn sha3<F: Function>(level: Level, digest: usize) {
        let kernels = F::kernels(level);
        let messages = secrets(&[64; 40]);
        let mut outputs = vec![vec![0; digest]; messages.len()];
        let hashed = count_decisions(|| {
            let hmac = |key: &Vec<u8>| sponge::Setup::<F>::hmac(kernels, keccak::INITIAL, digest, key);
            let setups: Vec<_> = messages.iter().map(hmac).collect();
            let jobs = setups.iter().zip(&messages).zip(&mut outputs);
            let jobs =
                jobs.map(|((setup, input), output)| sponge::Job { setup, stream: None, input, output: Some(output) });
            sponge::run(kernels, true, jobs);
        });
        assert_eq!(hashed, 0, "{level:?}: HMAC over SHA-3");
    }
    for level in every_level() {
        sha3::<Keccak<136>>(level, 32);
        sha3::<Keccak<72>>(level, 64);
        hmac::<Sha1>(level, sha1::INITIAL, 20);
        hmac::<Sha512>(level, sha2::INITIAL_512, 64);
        let aes = Aes::of(level).expect("AES instructions");
        let keys = secrets(&[32; 40]);
        let mut data = secrets(&[64; 40]);
        let encrypted = count_decisions(|| {
            let keys: Vec<CbcKey> = keys.iter().map(|key| CbcKey::new(aes, key).unwrap()).collect();
            let jobs = keys.iter().zip(&mut data);
            keys[0].run(keys.len(), jobs.map(|(key, data)| CbcJob { key, iv: [0; 16], data: Buffers::InPlace(data) }));
        });
        assert_eq!(encrypted, 0, "{level:?}: CBC");
        let mut macs = vec![[0; 16]; data.len()];
        let absorbed = count_decisions(|| {
            let keys: Vec<CmacKey> = keys.iter().map(|key| CmacKey::new(aes, key).unwrap()).collect();
            let jobs = keys.iter().zip(&data).zip(&mut macs);
            let jobs = jobs.map(|((key, input), mac)| CmacJob { key, stream: None, input, output: Some(mac) });
            keys[0].run(keys.len(), jobs);
        });
        assert_eq!(absorbed, 0, "{level:?}: CMAC");
    }
}

/// Runs without valgrind, which does not support the instructions of GCM.
#[test]
#[cfg_attr(debug_assertions, ignore = "tests optimised code: scripts/test-deep")]
fn gcm_traces_do_not_depend_on_secrets() {
    for aes in every_aes() {
        for bytes in [16, 32] {
            let Some(mut key) = GcmKey::new(aes, &vec![0; bytes]) else { continue };
            // The lengths give a short message, eight lines, fewer lines and partial lines, in one piece and in several. The counters
            // depend on the key if the nonce does not have 12 bytes.
            for (nonce, short, pieces) in [(12, 64, &[16, 0][..]), (12, 100, &[5, 70, 1000, 3]), (16, 5, &[600, 70])] {
                for decrypt in [false, true] {
                    let secret = |run: usize, length: usize| vec![[0x00, 0xb7][run]; length];
                    let key = std::cell::RefCell::new(&mut key);
                    let data = std::cell::RefCell::new(secret(0, 2000));
                    let [one, other] = record_traces(
                        |run| {
                            Arc::get_mut(&mut key.borrow_mut()).unwrap().replace(aes, &secret(run, bytes));
                            data.borrow_mut().fill(secret(run, 1)[0]);
                        },
                        || {
                            let (key, mut data) = (key.borrow(), data.borrow_mut());
                            let (aad, mut rest) = data.split_at_mut(20);
                            let whole = Buffers::InPlace(&mut rest[..short]);
                            core::hint::black_box(key.crypt_message(decrypt, &[7; 16][..nonce], aad, whole).unwrap());
                            let mut message = GcmState::empty();
                            key.begin(&mut message, &[7; 16][..nonce], aad);
                            for piece in pieces {
                                let (piece, after) = rest.split_at_mut(*piece);
                                key.update(&mut message, decrypt, Buffers::InPlace(piece)).unwrap();
                                rest = after;
                            }
                            core::hint::black_box(key.tag(&message));
                        },
                    );
                    assert!(one.len() > 300, "traced only {} instructions", one.len());
                    let first = one.iter().zip(&other).position(|(one, other)| one != other);
                    assert_eq!(
                        first,
                        None,
                        "{nonce}, {pieces:?}: {:x?} or {:x?}",
                        one[first.unwrap()],
                        other[first.unwrap()]
                    );
                    assert_eq!(one.len(), other.len());
                }
            }
        }
    }
}

/// Covers VAES and AVX-512, which valgrind does not support.
#[test]
#[cfg_attr(debug_assertions, ignore = "tests optimised code: scripts/test-deep")]
fn ctr_and_cbc_decryption_traces_do_not_depend_on_secrets() {
    // Valgrind covers the other levels. No message has only a few bytes, because the C library copies so few bytes in general registers.
    for aes in every_level().into_iter().filter(|level| level.wide_aes()).filter_map(Aes::of) {
        for bytes in [16, 24, 32] {
            for (is_ctr, new) in [(true, IndependentKey::ctr as fn(Aes, &[u8]) -> _), (false, IndependentKey::cbc)] {
                let secret = |run: usize, length: usize| vec![[0x00, 0xb7][run]; length];
                let key = std::cell::RefCell::new(new(aes, &secret(0, bytes)).unwrap());
                let data = std::cell::RefCell::new(secret(0, 2000));
                let [one, other] = record_traces(
                    |run| {
                        key.borrow_mut().set(aes, &secret(run, bytes));
                        data.borrow_mut().fill(secret(run, 1)[0]);
                    },
                    || {
                        let (key, mut data) = (key.borrow(), data.borrow_mut());
                        let mut rest = &mut data[..];
                        // Groups of registers, smaller groups (only with `Ymm`), single registers, and a part of a register. Each
                        // counter wraps after the first block.
                        for length in [1024, 608, 224, 16, 48] {
                            let (piece, after) = rest.split_at_mut(length);
                            key.run(core::iter::once(key.message([0xff; 16], Buffers::InPlace(piece))));
                            rest = after;
                        }
                        if is_ctr {
                            key.run(core::iter::once(key.message([0xff; 16], Buffers::InPlace(&mut rest[..24]))));
                        }
                    },
                );
                assert!(one.len() > 300, "traced only {} instructions", one.len());
                assert_eq!(one.iter().zip(&other).position(|(one, other)| one != other), None, "{aes:?}, {bytes}");
                assert_eq!(one.len(), other.len());
            }
        }
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "tests optimised code: scripts/test-deep")]
fn traces_show_a_branch_on_a_secret() {
    let secret = std::cell::Cell::new(0);
    for decides in [false, true] {
        let [one, other] = record_traces(
            |run| secret.set(run),
            || {
                if decides && core::hint::black_box(&secret).get() == 1 {
                    core::hint::black_box(7);
                }
            },
        );
        assert_eq!(one != other, decides);
    }
}

/// The only branch that depends on a secret is on the result of comparing the tag. The position of a wrong byte affects no branch.
#[test]
#[ignore = "needs valgrind: scripts/constant-time"]
fn tag_comparison_does_not_reveal_the_position_of_a_wrong_byte() {
    let gantry = Gantry::builder().driver(&LanesDriver::default()).build();
    let session = gantry.session(SessionParams::new(Algorithm::HmacSha256, &secret_bytes(32))).unwrap();
    let message = secret_bytes(100);
    let mut tag = vec![0; 32];
    session.mac(&message, &mut tag).unwrap();
    mark_public(&mut tag);
    let verify = |wrong: Option<usize>| {
        let mut tag = tag.clone();
        if let Some(wrong) = wrong {
            tag[wrong] ^= 1;
        }
        let mut result = false;
        let decisions = count_decisions(|| result = session.verify(&message, &tag).is_ok());
        assert_eq!(result, wrong.is_none());
        decisions
    };
    for wrong in [None, Some(0), Some(15), Some(31)] {
        assert_eq!(verify(wrong), 1, "{wrong:?}");
    }
}
