//! Leaves no key behind on the stack, where it is prepared. (Where it is used no copy is made: `kernel::aes::keys`. Those of GCM and
//! of encrypt-then-authenticate are overwritten.)

use gantry::Algorithm;

/// Bytes of the stack that preparing a key for HMAC may use: the most is a long one for SHA-512, which is hashed.
const HASHING: usize = 32 << 10;
/// The same of any other key.
const OTHERS: usize = 8 << 10;

/// Runs `prepare`, which works with a key for this, and overwrites what it leaves on the stack: copies of values that moved, spilled
/// registers, buffers. The result should hold its secrets behind a pointer.
pub(crate) fn wiped<T>(algorithm: Algorithm, prepare: impl FnOnce() -> T) -> T {
    let result = below(prepare);
    if algorithm.info().digest.is_some() {
        overwrite::<HASHING>();
    } else {
        overwrite::<OTHERS>();
    }
    result
}

/// A function of its own, so that all of its stack lies where [`overwrite`] has its zeros.
#[inline(never)]
pub(crate) fn below<T>(prepare: impl FnOnce() -> T) -> T {
    prepare()
}

/// Overwrites so many bytes of the stack, of what the caller has called before.
#[inline(never)]
#[allow(clippy::large_stack_arrays, reason = "the stack is what it is about")]
pub(crate) fn overwrite<const DEPTH: usize>() {
    // Whoever has the address may look at them: the compiler cannot leave the zeros out. (Not `&[0; DEPTH]`: that is static.)
    let mut zeros = [0u8; DEPTH];
    core::hint::black_box(&mut zeros);
}

#[cfg(all(test, target_arch = "x86_64"))]
mod independent;

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::cbc::{CbcJob, CbcKey};
    use crate::cmac::{CmacJob, CmacKey};
    use crate::gcm;
    use crate::hash::Start;
    use crate::independent::IndependentKey;
    use crate::kernel::aes::gcm::{GcmKey, Message};
    use crate::kernel::aes::{Aes, every_aes};
    use crate::kernel::keccak::{INITIAL, Keccak};
    use crate::kernel::sha2::{self, Sha256, Sha512};
    use crate::kernel::{Hash, Kernels};
    use crate::level::every_level;
    use crate::random::Random;
    use crate::session::LanesSession;
    use crate::sponge::{self, Function};
    use crate::xts::XtsKey;
    use gantry::driver::Buffers;
    use gantry::{Outcome, SessionParams};

    /// What `work` left on the stack. It has a thread of its own: what the test has in registers, the secrets that it compares with
    /// among them, would be saved on the stack by any function that needs those registers.
    pub(super) fn left_behind(work: impl FnOnce() + Send) -> Vec<u8> {
        std::thread::scope(|scope| scope.spawn(|| left_by(work)).join()).expect("the work is done")
    }

    #[inline(never)]
    fn left_by(work: impl FnOnce()) -> Vec<u8> {
        let mut stack = vec![0u8; 2 * HASHING];
        overwrite::<HASHING>();
        below(work);
        // SAFETY: no more is read than lies between the stack pointer and the end of a thread's stack (2 MiB), and no more written
        // than the vector has.
        unsafe {
            core::arch::asm!(
                "mov rsi, rsp", "sub rsi, {bytes}", "mov rcx, {bytes}", "rep movsb",
                bytes = in(reg) stack.len(), inout("rdi") stack.as_mut_ptr() => _, out("rsi") _, out("rcx") _,
            );
        }
        stack
    }

    /// Whether eight successive bytes of a secret are there.
    pub(super) fn holds(stack: &[u8], secrets: &[Vec<u8>]) -> bool {
        let mut parts: std::collections::HashSet<&[u8]> = secrets.iter().flat_map(|secret| secret.windows(8)).collect();
        parts.remove([0; 8].as_slice()); // the round keys that shorter keys do not have
        stack.windows(8).any(|part| parts.contains(part))
    }

    /// The key, HMAC's pads, and the chaining values behind them.
    pub(super) fn secrets_of_hmac<H: Hash>(
        kernels: Kernels<H>,
        initial: [H::Word; 8],
        digest: usize,
        key: &[u8],
    ) -> Vec<Vec<u8>> {
        secrets_with_pads(key, Start::hmac(kernels, initial, digest, key).secrets())
    }

    /// The same of HMAC over SHA-3.
    fn secrets_of_sponge<F: Function>(start: &sponge::Start<F>, key: &[u8]) -> Vec<Vec<u8>> {
        secrets_with_pads(key, start.secrets())
    }

    fn secrets_with_pads(key: &[u8], behind: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        let pad = |with: u8| key.iter().map(|byte| byte ^ with).collect();
        [key.to_vec(), pad(0x36), pad(0x5c)].into_iter().chain(behind).collect()
    }

    /// The keys of CMAC and those of its chains, which are the same ones.
    fn secrets_of_cmac(chains: &[CbcKey], keys: &[CmacKey], messages: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let of_chains = chains.iter().flat_map(|key| key.secrets([0; 16], messages));
        of_chains.chain(keys.iter().flat_map(|key| key.secrets(messages))).collect()
    }

    #[test]
    fn what_prepares_a_key_leaves_nothing_of_it_on_the_stack() {
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
                let params = SessionParams::new(algorithm, &key).mac_key(&key);
                let mut session = None;
                let stack = left_behind(|| session = LanesSession::open(level, &params).ok());
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
                    Algorithm::HmacSha3_256 => {
                        let kernels = <Keccak<136>>::kernels(level);
                        secrets_of_sponge(&sponge::Start::<Keccak<136>>::hmac(kernels, INITIAL, 32, &key), &key)
                    }
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
                assert!(!holds(&stack, &secrets), "{level:?}, {algorithm}, a key of {bytes} bytes");
            }
        }
    }

    /// What runs with a key: many messages side by side and single ones, with one key and with several.
    #[test]
    #[cfg_attr(debug_assertions, ignore = "about optimized code: scripts/test")]
    fn what_runs_with_a_key_leaves_nothing_of_it_on_the_stack() {
        fn check(secrets: &[Vec<u8>], name: &str, work: impl FnOnce() + Send) {
            assert!(!holds(&left_behind(work), secrets), "{name}");
        }
        let random = Random::new(0x7275_6e73);
        let data: Vec<Vec<u8>> = (0..40).map(|i| random.bytes(16 * (1 + 5 * (i % 9)))).collect();
        // Of messages for CMAC the last block may be short, or missing.
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
                let mut message = Message::none();
                key.begin(&mut message, &nonce, &associated);
                let mut secrets = [key.secrets(), message.secrets()].concat();
                secrets.extend(nonce.as_array().map(|nonce| key.secret_of(nonce)));
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
                for (of_them, count, decrypt) in [(1, 1, false), (1, 40, false), (3, 40, true), (1, 1, true)] {
                    let mut output = data.clone();
                    let name = format!("XTS, {aes:?}, keys of {bytes} bytes, {of_them} of them, {count} messages");
                    check(&secrets, &name, || {
                        let units = keys[..of_them].iter().cycle().zip(&mut output[..count]);
                        keys[0].run(
                            decrypt,
                            units.map(|(key, data)| key.unit(decrypt, &iv, Buffers::InPlace(data)).unwrap()),
                        );
                    });
                }
            }
        }
    }

    /// The same of HMAC over SHA-3: messages and streams. From any state of a message that is known those behind the key can be
    /// computed, so the states that follow from it are secrets, too.
    #[test]
    #[cfg_attr(debug_assertions, ignore = "about optimized code: scripts/test")]
    fn what_runs_with_a_key_of_hmac_over_sha3_leaves_nothing_of_it_on_the_stack() {
        let random = Random::new(0x7368_6133);
        for level in every_level() {
            let kernels = <Keccak<136>>::kernels(level);
            let key = random.bytes(32);
            let start = sponge::Start::<Keccak<136>>::hmac(kernels, INITIAL, 32, &key);
            // Pieces, so that what a stream holds afterwards is the state behind them.
            let pieces = random.bytes(3 * 136 + 50);
            let mut behind = sponge::Stream::new(&start);
            let update = |stream: &mut sponge::Stream<Keccak<136>>, input: &[u8]| {
                sponge::run_one(kernels, sponge::Job { start: &start, stream: Some(stream), input, output: None });
            };
            update(&mut behind, &pieces);
            let mut secrets = secrets_of_sponge(&start, &key);
            secrets.push(behind.secret());
            // One after the other and side by side.
            for count in [1, 2, 5, 19] {
                let mut streams: Vec<_> = (0..count).map(|_| sponge::Stream::new(&start)).collect();
                let mut macs = vec![[0; 32]; count];
                let stack = left_behind(|| {
                    if count == 1 {
                        update(&mut streams[0], &pieces);
                    }
                    let jobs = streams.iter_mut().map(|stream| (Some(stream), &pieces[..], None));
                    let whole = macs.iter_mut().map(|mac| (None, &pieces[..], Some(&mut mac[..])));
                    let jobs = jobs.chain(whole);
                    sponge::run(
                        kernels,
                        true,
                        jobs.map(|(stream, input, output)| sponge::Job { start: &start, stream, input, output }),
                    );
                });
                assert!(!holds(&stack, &secrets), "{level:?}, {count}");
            }
        }
    }

    /// The test above would see it.
    #[test]
    fn without_wiping_the_stack_holds_keys() {
        let key = Random::new(1).bytes(64);
        for level in every_level() {
            let kernels = Sha512::kernels(level);
            let stack = left_behind(|| {
                core::hint::black_box(Start::hmac(kernels, sha2::INITIAL_512, 64, &key));
            });
            assert!(holds(&stack, &secrets_of_hmac(kernels, sha2::INITIAL_512, 64, &key)), "{level:?}");
        }
    }
}
