//! Wipes the stack after a key was prepared. Kernels copy no keys to the stack when they use them (`aes::keys`), except the kernels of GCM
//! and encrypt-then-authenticate, which overwrite their copies.

use gantry_core::Algorithm;
pub(crate) use gantry_digest::internal::wipe::{in_own_frame, overwrite_stack};

/// Bytes of stack that preparing an HMAC key may use. The maximum is for a long SHA-512 key, which is hashed.
const HMAC_STACK_BYTES: usize = 32 << 10;
/// Bytes of stack that preparing any other key may use.
const OTHER_STACK_BYTES: usize = 8 << 10;

/// Runs `prepare`, which handles a key of `algorithm`, and overwrites the stack it used: copies of moved values, spilled registers,
/// buffers. The result should hold its secrets behind a pointer.
pub(crate) fn with_wiped_stack<T>(algorithm: Algorithm, prepare: impl FnOnce() -> T) -> T {
    let result = in_own_frame(prepare);
    if algorithm.info().digest.is_some() {
        overwrite_stack::<HMAC_STACK_BYTES>();
    } else {
        overwrite_stack::<OTHER_STACK_BYTES>();
    }
    result
}

#[cfg(all(test, target_arch = "x86_64"))]
mod independent;

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::aes::gcm::{GcmKey, GcmState};
    use crate::aes::{Aes, every_aes};
    use crate::cbc::{CbcJob, CbcKey};
    use crate::cmac::{CmacJob, CmacKey};
    use crate::gcm;
    use crate::independent::IndependentKey;
    use crate::random::Random;
    use crate::session::open;
    use crate::stack::{holds_secret, stack_after};
    use crate::xts::XtsKey;
    use gantry_core::driver::Buffers;
    use gantry_core::{Outcome, SessionParams};
    use gantry_digest::internal::dispatch::{Hash, Kernels};
    use gantry_digest::internal::every_level;
    use gantry_digest::internal::hash::{Job, Setup, run_one};
    use gantry_digest::internal::kernel::sha2::{self, Sha256, Sha512};
    use gantry_digest::internal::vector::Word;

    /// Returns the key, HMAC's pads, and the chaining values after them.
    pub(super) fn secrets_of_hmac<H: Hash>(
        kernels: Kernels<H>,
        initial: [H::Word; 8],
        digest: usize,
        key: &[u8],
    ) -> Vec<Vec<u8>> {
        let mut block = vec![0; H::BLOCK_SIZE];
        if key.len() > H::BLOCK_SIZE {
            let setup = Setup::digest(initial, digest);
            run_one(kernels, Job { setup: &setup, stream: None, input: key, output: Some(&mut block[..digest]) });
        } else {
            block[..key.len()].copy_from_slice(key);
        }
        let mut secrets = secrets_of_pads(key);
        for with in [0x36, 0x5c] {
            let mut chain = initial;
            kernels.compress(&mut chain, &block.iter().map(|byte| byte ^ with).collect::<Vec<u8>>());
            let mut bytes = vec![0; 8 * size_of::<H::Word>()];
            for (part, word) in bytes.chunks_exact_mut(size_of::<H::Word>()).zip(chain) {
                // Little-endian, as in memory.
                word.write(part, false);
            }
            secrets.push(bytes);
        }
        secrets
    }

    fn secrets_of_pads(key: &[u8]) -> Vec<Vec<u8>> {
        let pad = |with: u8| key.iter().map(|byte| byte ^ with).collect();
        vec![key.to_vec(), pad(0x36), pad(0x5c)]
    }

    /// Returns the keys of CMAC and the secrets of its chains. `chains` and `keys` hold the same keys.
    fn secrets_of_cmac(chains: &[CbcKey], keys: &[CmacKey], messages: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let of_chains = chains.iter().flat_map(|key| key.secrets([0; 16], messages));
        of_chains.chain(keys.iter().flat_map(|key| key.secrets(messages))).collect()
    }

    #[test]
    fn key_setup_leaves_no_secret_on_the_stack() {
        let random = Random::new(0x7769_7065);
        for level in every_level() {
            for (algorithm, bytes) in [
                (Algorithm::HmacSha256, 32),
                (Algorithm::HmacSha256, 5000),
                (Algorithm::HmacSha512, 64),
                (Algorithm::HmacSha512, 5000),
                (Algorithm::HmacSha3_256, 32),
                (Algorithm::HmacSha3_256, 5000),
                (Algorithm::Aes128Cbc, 16),
                (Algorithm::Aes256Cbc, 32),
                (Algorithm::Aes256Cmac, 32),
                (Algorithm::Aes256Ctr, 32),
                (Algorithm::Aes192Ccm, 24),
                (Algorithm::Aes128CbcHmacSha256, 16),
                (Algorithm::Aes256CtrHmacSha512, 32),
                (Algorithm::Aes128Xts, 32),
                (Algorithm::Aes256Xts, 64),
                (Algorithm::Aes128Gcm, 16),
                (Algorithm::Aes256Gcm, 32),
            ] {
                let is_gcm = matches!(algorithm, Algorithm::Aes128Gcm | Algorithm::Aes256Gcm);
                if is_gcm && !level.vpclmul() {
                    continue;
                }
                let key = random.bytes(bytes);
                let params = SessionParams::new(algorithm, &key).with_mac_key(&key);
                let mut session = None;
                let stack = stack_after(|| session = open(level, &params).ok());
                let ciphers = |key: &[u8]| {
                    let of = |new: fn(Aes, &[u8]) -> Option<IndependentKey>| new(Aes::of(level).unwrap(), key).unwrap();
                    [of(IndependentKey::ctr).secrets(), of(IndependentKey::cbc).secrets()].concat()
                };
                let secrets = match algorithm {
                    Algorithm::Aes256Ctr | Algorithm::Aes192Ccm => ciphers(&key),
                    Algorithm::Aes128CbcHmacSha256 => {
                        let hmac = secrets_of_hmac(Sha256::kernels(level), sha2::INITIAL_256, 32, &key);
                        [ciphers(&key), hmac].concat()
                    }
                    Algorithm::Aes256CtrHmacSha512 => {
                        let hmac = secrets_of_hmac(Sha512::kernels(level), sha2::INITIAL_512, 64, &key);
                        [ciphers(&key), hmac].concat()
                    }
                    Algorithm::HmacSha256 => secrets_of_hmac(Sha256::kernels(level), sha2::INITIAL_256, 32, &key),
                    Algorithm::HmacSha512 => secrets_of_hmac(Sha512::kernels(level), sha2::INITIAL_512, 64, &key),
                    // `gantry-digest` tests the states after the pads.
                    Algorithm::HmacSha3_256 => secrets_of_pads(&key),
                    Algorithm::Aes256Cmac => {
                        let aes = Aes::of(level).unwrap();
                        let chain = CbcKey::new(aes, &key).unwrap();
                        secrets_of_cmac(&[chain], &[CmacKey::new(aes, &key).unwrap()], &[])
                    }
                    Algorithm::Aes128Xts | Algorithm::Aes256Xts => {
                        XtsKey::new(Aes::of(level).unwrap(), &key, |_| true).unwrap().secrets()
                    }
                    _ if is_gcm => GcmKey::new(Aes::of(level).unwrap(), &key).unwrap().secrets(),
                    _ => CbcKey::new(Aes::of(level).unwrap(), &key).unwrap().secrets([0; 16], &[]),
                };
                assert!(session.is_some());
                assert!(!holds_secret(&stack, &secrets), "{level:?}, {algorithm}, a key of {bytes} bytes");
            }
        }
    }

    /// Runs many messages side by side and single ones, with one key and with several.
    #[test]
    #[cfg_attr(debug_assertions, ignore = "tests optimised code: scripts/test-deep")]
    fn kernels_leave_no_secret_on_the_stack() {
        fn check(secrets: &[Vec<u8>], name: &str, work: impl FnOnce() + Send) {
            assert!(!holds_secret(&stack_after(work), secrets), "{name}");
        }
        let random = Random::new(0x7275_6e73);
        let data: Vec<Vec<u8>> = (0..40).map(|i| random.bytes(16 * (1 + 5 * (i % 9)))).collect();
        // The last block of a CMAC message may be partial, and a message may be empty.
        let messages: Vec<Vec<u8>> = (0..40).map(|i| random.bytes([0, 5, 16, 35, 64, 163, 720][i % 7])).collect();
        let iv = [7; 16];
        for aes in every_aes() {
            for bytes in [16, 24, 32] {
                let of = |count: usize| (0..count).map(|_| random.bytes(bytes)).collect::<Vec<_>>();
                for keys in [of(1), of(3)] {
                    let cbc: Vec<CbcKey> = keys.iter().map(|key| CbcKey::new(aes, key).unwrap()).collect();
                    let cmac: Vec<CmacKey> = keys.iter().map(|key| CmacKey::new(aes, key).unwrap()).collect();
                    for count in [1, 2, 9, data.len()] {
                        let name = format!("{aes:?}, keys of {bytes} bytes, {} of them, {count} messages", keys.len());
                        let mut output = data.clone();
                        let secrets: Vec<Vec<u8>> = cbc.iter().flat_map(|key| key.secrets(iv, &data)).collect();
                        check(&secrets, &format!("CBC, {name}"), || {
                            let jobs = cbc.iter().cycle().zip(&mut output[..count]);
                            cbc[0].run(count, jobs.map(|(key, data)| CbcJob { key, iv, data: Buffers::InPlace(data) }));
                        });
                        let mut macs = vec![[0; 16]; count];
                        let secrets = secrets_of_cmac(&cbc, &cmac, &messages);
                        check(&secrets, &format!("CMAC, {name}"), || {
                            let jobs = cmac.iter().cycle().zip(&messages).zip(&mut macs);
                            cmac[0].run(
                                count,
                                jobs.map(|((key, input), mac)| CmacJob { key, stream: None, input, output: Some(mac) }),
                            );
                        });
                    }
                    let secrets: Vec<Vec<u8>> = cbc.iter().flat_map(|key| key.secrets(iv, &data)).collect();
                    let mut output = data[8].clone();
                    check(&secrets, "CBC, single", || {
                        core::hint::black_box(CbcJob { key: &cbc[0], iv, data: Buffers::InPlace(&mut output) }.run());
                    });
                    let secrets = secrets_of_cmac(&cbc, &cmac, &messages);
                    let mut mac = [0; 16];
                    check(&secrets, "CMAC, single", || {
                        CmacJob { key: &cmac[0], stream: None, input: &messages[3], output: Some(&mut mac) }.run();
                    });
                }
            }
            let gcm = [16, 24, 32].into_iter().filter_map(|bytes| GcmKey::new(aes, &random.bytes(bytes)));
            for (key, length, associated) in
                gcm.flat_map(|key| [(key.clone(), 12, 16), (key.clone(), 16, 16), (key, 12, 2000)])
            {
                let (nonce, associated, mut tag) = (random.bytes(length), random.bytes(associated), [0; 16]);
                let mut message = GcmState::empty();
                key.begin(&mut message, &nonce, &associated);
                let mut secrets = [key.secrets(), message.secrets()].concat();
                secrets.extend(nonce.as_array().map(|nonce| key.masked_nonce(nonce)));
                for bytes in [0, 20, 64, 100, 159, 200, 300, 500, 600, 1100, 5000] {
                    let mut data = random.bytes(bytes);
                    let name = format!(
                        "GCM, {aes:?}, a nonce of {length} bytes, {} associated, {bytes} bytes",
                        associated.len()
                    );
                    check(&secrets, &name, || {
                        gcm::seal(&key, &nonce, &associated, (&mut data).into(), &mut tag).unwrap();
                    });
                    check(&secrets, &name, || {
                        let opened = gcm::open(&key, &nonce, &associated, (&mut data).into(), &tag).unwrap();
                        assert_eq!(opened, Outcome::Done);
                    });
                    for decrypt in [false, true] {
                        check(&secrets, &format!("{name}, in pieces"), || {
                            key.begin(&mut message, &nonce, &associated);
                            for piece in data.chunks_mut(1 + bytes / 3) {
                                key.update(&mut message, decrypt, piece.into()).unwrap();
                            }
                        });
                    }
                }
            }
            for bytes in [32, 64] {
                let keys: Vec<XtsKey> =
                    (0..3).map(|_| XtsKey::new(aes, &random.bytes(bytes), |_| true).unwrap()).collect();
                let secrets: Vec<Vec<u8>> = keys.iter().flat_map(XtsKey::secrets).collect();
                for (key_count, count, decrypt) in [(1, 1, false), (1, 40, false), (3, 40, true), (1, 1, true)] {
                    let mut output = data.clone();
                    let name = format!("XTS, {aes:?}, keys of {bytes} bytes, {key_count} of them, {count} messages");
                    check(&secrets, &name, || {
                        let units = keys[..key_count].iter().cycle().zip(&mut output[..count]);
                        keys[0].run(
                            decrypt,
                            units.map(|(key, data)| key.unit(decrypt, &iv, Buffers::InPlace(data)).unwrap()),
                        );
                    });
                }
            }
        }
    }

    /// Proves that the tests above would find a key.
    #[test]
    fn key_setup_without_wiping_leaves_secrets() {
        let key = Random::new(1).bytes(64);
        for level in every_level() {
            let kernels = Sha512::kernels(level);
            let stack = stack_after(|| {
                core::hint::black_box(Setup::hmac(kernels, sha2::INITIAL_512, 64, &key));
            });
            assert!(holds_secret(&stack, &secrets_of_hmac(kernels, sha2::INITIAL_512, 64, &key)), "{level:?}");
        }
    }
}
