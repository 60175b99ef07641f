//! Tests that counter mode, CBC decryption, CCM and encrypt-then-authenticate leave no secret on the stack.

use gantry_core::driver::Buffers;
use gantry_core::{Algorithm, Gantry, Operation, Outcome, Request, Session, SessionParams};
use gantry_digest::Level;
use gantry_digest::internal::dispatch::Hash;
use gantry_digest::internal::every_level;
use gantry_digest::internal::kernel::sha1::{self, Sha1};
use gantry_digest::internal::kernel::sha2::{self, Sha256, Sha512};

use super::tests::secrets_of_hmac;
use crate::aes::{Aes, every_aes};
use crate::cbc::CbcKey;
use crate::cmac::CmacKey;
use crate::independent::{CtrPosition, IndependentKey};
use crate::random::Random;
use crate::stack::{holds_secret, stack_after};
use crate::{LanesDriver, NAME};

/// Runs messages with one key and with several. Key stream is secret too.
#[test]
#[cfg_attr(debug_assertions, ignore = "tests optimised code: scripts/test-deep")]
fn ctr_and_cbc_decryption_leave_no_secret_on_the_stack() {
    let random = Random::new(0x6374_7277);
    let iv = [9; 16];
    for aes in every_aes() {
        for bytes in [16, 24, 32] {
            let secret: Vec<Vec<u8>> = (0..3).map(|_| random.bytes(bytes)).collect();
            for (cbc, new) in [(false, IndependentKey::ctr as fn(Aes, &[u8]) -> _), (true, IndependentKey::cbc)] {
                let keys: Vec<IndependentKey> = secret.iter().map(|key| new(aes, key).unwrap()).collect();
                let data: Vec<Vec<u8>> =
                    (0..40).map(|i| random.bytes(if cbc { 16 * (1 + i * 3) } else { 1 + i * 37 })).collect();
                for (key_count, count) in [(1, 1), (1, 40), (3, 40), (1, 3), (2, 6)] {
                    let mut output = data.clone();
                    let stack = stack_after(|| {
                        let jobs = keys[..key_count].iter().cycle().zip(&mut output[..count]);
                        keys[0].run(jobs.map(|(key, data)| key.message(iv, Buffers::InPlace(data))));
                    });
                    let mut secrets: Vec<Vec<u8>> = keys.iter().flat_map(IndependentKey::secrets).collect();
                    if !cbc {
                        let xor = |(a, b): (&Vec<u8>, &Vec<u8>)| a.iter().zip(b).map(|(a, b)| a ^ b).collect();
                        secrets.extend(data.iter().zip(&output).map(xor).filter(|stream: &Vec<u8>| stream[0] != 0));
                        // The unused key stream after the last byte.
                        let mut unused = vec![0; data[39].len().next_multiple_of(16)];
                        keys[0].run(core::iter::once(keys[0].message(iv, Buffers::InPlace(&mut unused))));
                        secrets.push(unused);
                    }
                    assert!(
                        !holds_secret(&stack, &secrets),
                        "{aes:?}, CBC {cbc}, {bytes} bytes, {key_count} keys, {count}"
                    );
                }
                if !cbc {
                    let mut output = data[39].clone();
                    let stack = stack_after(|| {
                        let mut position = CtrPosition::new(iv);
                        for piece in output.chunks_mut(77) {
                            position.run(&keys[0], piece.into());
                        }
                    });
                    let stream = data[39].iter().zip(&output).map(|(a, b)| a ^ b).collect();
                    let secrets = [keys[0].secrets(), vec![stream]].concat();
                    assert!(!holds_secret(&stack, &secrets), "{aes:?}, {bytes} bytes, in pieces");
                }
            }
        }
    }
}

/// Returns the expanded keys of a session.
fn secrets_of(level: Level, algorithm: Algorithm, key: &[u8], mac_key: &[u8]) -> Vec<Vec<u8>> {
    fn hmac<H: Hash>(level: Level, initial: [H::Word; 8], digest: usize, key: &[u8]) -> Vec<Vec<u8>> {
        secrets_of_hmac(H::kernels(level), initial, digest, key)
    }
    let aes = Aes::of(level).unwrap();
    let mut hmac = match algorithm.info().digest {
        Some(Algorithm::Sha1) => hmac::<Sha1>(level, sha1::INITIAL, 20, mac_key),
        Some(Algorithm::Sha256) => hmac::<Sha256>(level, sha2::INITIAL_256, 32, mac_key),
        Some(Algorithm::Sha512) => hmac::<Sha512>(level, sha2::INITIAL_512, 64, mac_key),
        _ => CmacKey::new(aes, key).unwrap().secrets(&[]),
    };
    // SHA-1's chaining value is shorter than its buffer. Trailing zeros are removed, because the stack may differ there.
    for secret in &mut hmac {
        secret.truncate(secret.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
    }
    let (ctr, cbc) = (IndependentKey::ctr(aes, key).unwrap(), IndependentKey::cbc(aes, key).unwrap());
    [hmac, ctr.secrets(), cbc.secrets(), CbcKey::new(aes, key).unwrap().secrets([0; 16], &[])].concat()
}

fn params_of(algorithm: Algorithm, key: &[u8], mac_key: &[u8]) -> SessionParams {
    let params = SessionParams::new(algorithm, key);
    if algorithm.info().digest.is_some() { params.with_mac_key(mac_key) } else { params }
}

/// Seals and opens batches and single messages, under one key and under several.
#[test]
#[cfg_attr(debug_assertions, ignore = "tests optimised code: scripts/test-deep")]
fn sealing_and_opening_leave_no_secret_on_the_stack() {
    let random = Random::new(0x7365_616c);
    for level in every_level() {
        let gantry = Gantry::builder().driver(&LanesDriver::new(level)).build();
        for algorithm in [
            Algorithm::Aes128Ccm,
            Algorithm::Aes256Ccm,
            Algorithm::Aes128CbcHmacSha1,
            Algorithm::Aes128CbcHmacSha256,
            Algorithm::Aes256CtrHmacSha256,
            Algorithm::Aes128CtrHmacSha512,
        ] {
            gantry.device(NAME).unwrap().admit(algorithm).unwrap();
            let keys = [(); 3].map(|()| [random.bytes(algorithm.info().key.max), random.bytes(32)]);
            let sessions = keys.each_ref().map(|[key, mac_key]| {
                let session = gantry.session(params_of(algorithm, key, mac_key)).unwrap();
                session.prepare(Operation::Seal, 64).unwrap();
                session.prepare(Operation::Open, 64).unwrap();
                session
            });
            let mut secrets = Vec::new();
            for [key, mac_key] in &keys {
                secrets.extend(secrets_of(level, algorithm, key, mac_key));
            }
            let iv = random.bytes(algorithm.info().iv.max);
            for (count, key_count) in [(1, 1), (3, 1), (40, 1), (40, 3)] {
                let sessions: Vec<Session> = (0..count).map(|i| sessions[i % key_count].clone()).collect();
                let mut data: Vec<Vec<u8>> = (0..count).map(|i| random.bytes(16 * (i * 5 % 30))).collect();
                let aads: Vec<Vec<u8>> = (0..count).map(|i| random.bytes([12, 8, 0, 300][i % 4])).collect();
                let mut tags = vec![vec![0; algorithm.info().tag.max]; count];
                let check = |work: &mut (dyn FnMut() + Send), what: &str| {
                    assert!(
                        !holds_secret(&stack_after(work), &secrets),
                        "{level:?} {algorithm}, {count}, {key_count} keys: {what}"
                    );
                };
                check(
                    &mut || {
                        let all = data.iter_mut().zip(&aads).zip(&mut tags);
                        let mut requests: Vec<Request<'_>> =
                            all.map(|((data, aad), tag)| Request::seal(&iv, aad, data, tag)).collect();
                        Session::process_each(&sessions, &mut requests).unwrap();
                    },
                    "seal",
                );
                check(
                    &mut || {
                        let all = data.iter_mut().zip(&aads).zip(&tags);
                        let mut requests: Vec<Request<'_>> =
                            all.map(|((data, aad), tag)| Request::open(&iv, aad, data, tag)).collect();
                        Session::process_each(&sessions, &mut requests).unwrap();
                        assert!(requests.iter().all(|request| request.outcome() == Some(Outcome::Done)));
                    },
                    "open",
                );
            }
        }
    }
}
