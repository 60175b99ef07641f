//! Every call on every level, against known answers and against one message at a time.

#[cfg(panic = "unwind")]
mod bad_input;

use std::sync::{Mutex, PoisonError};

use crate::Algorithm::{
    Blake2b256, Blake2b512, Keccak256, Md5, Sha1, Sha3_224, Sha3_256, Sha3_384, Sha3_512, Sha224, Sha256, Sha384,
    Sha512, Sha512_256,
};
use crate::random::Random;
use crate::*;

/// The digest of one message by each algorithm, then its HMACs under a short and a long key. The message has 300 bytes: byte `i` is `7 * i`
/// modulo 256. The short key has 40 bytes (`3 * i`), and the long key 500 (`5 * i`). The values come from CPython's hashlib, and from
/// RFC 2104 over it. Those of Keccak-256 come from a Keccak in Python that agrees with hashlib's SHA3-256.
#[rustfmt::skip]
const KNOWN: [(Algorithm, &str, &str, &str); 14] = [
    (Md5, "04efd1e6a4e06e3794694154279db582",
        "161a84ce6e9deee30410454bcbaba028",
        "a750683b2f885571ce9ad840ab7bf851"),
    (Sha1, "c171cf8316b7c44ede787146936af403e0ec9de1",
        "89af7ed8ba5cfe6648aba770ba8ed1c10b377a7c",
        "23da2e508f859c1135149668af8c76bd6e79d894"),
    (Sha224, "ee294ec1bbe87e4b681024feb3cc2ed69daff8bf19d887486f3fee9f",
        "38503cb6320dc1a5255249eb6f01f72ddad58df6f8a613967f47b748",
        "1927118aaef5eefc2b204c8b4ad4dbd475cd8f7eadc36f3458035ed1"),
    (Sha256, "9a76b8af8f16f19d60de2b3999c22f9d10be4395c90ea3bfc5eb6cd6254243af",
        "a9e1080962144ebf7349e1eb733b51ac37a5ac51eb68a74581b5f3683312f4f6",
        "17e40f287038e2cd171d22de6a271f44727b56acc6989dccab8cf5ca4970cb9a"),
    (Sha384, "23396a75d57d5ed9a9526c10b751b6c9b196c165a00407e38cf5a0126d387a7217fb03d195b632c402887805e9d47d8d",
        "c8a7c39afe1e23aa2779b0ea003c3971ff43266d39aeddfdcd8494f4e34e36007bdc42566a0b9665b871cb7b0045bbe6",
        "ac623927ea4f699afd805fcfdb0cfe5dc7cfd5f143d8ee23299e731a33710e37623d9dc385ca4ddcbbfa2fceb97cace5"),
    (Sha512, "c59cdec0ad3e782b46895375b8721ded04fe2767263ea52ad3f794e98e990d60b83d2671430d34c6e27c5d0f556a30964f1243b7cb4f98c21ea8b8bde9907fda",
        "89ae3abb4c362b3f190abe057428c7448e4e2d4604ad013fded88572191aa35737da2dbdba9062d0e36049306375985680dbea72549c2a96130fa633555cab72",
        "c005b6c40c5d62c7bf017f4889fb2e1f2190e2e00527b030dda9813b441ac09655c40b07d3e52c549ffbedfbec74ecc3a10769231345fdfd0281d17635752933"),
    (Sha512_256, "b44dfade85a9c8be300d39bd2b96b2b52937ddb66371fabb82d8e9a2c3ee4cac",
        "150b393fcf6a34ec922be54bac40acd46a722144808adf4e1703adae93912675",
        "bd119aae1ab9d95286561a4a38e3937ba6f1cb40709355cb3b99c15f2e4c5128"),
    (Sha3_224, "0639e3532b24e485dd91bf27c8062ff42b416151d6f17552e26a82e9",
        "b77c9e85f17e2016661ded208584ffb29ef85c77b0fc5692ad116f78",
        "463ecadaf9ffe308cac10e19971c37ab222892bf4831ce4740095824"),
    (Sha3_256, "c87546fd20d13b902ade349f6e67c3b1085d6a746ae0e9a01dfa62c26297b2a7",
        "2a42b6ff15c63a5d38764c8d275dbabd89f5ca46b67d71570c4bb1629aba5702",
        "80852c7dc85119dc163f1ba1c5aaa18f5634de4b4f2fc90f0d48840fc5e206a2"),
    (Sha3_384, "ac2957d0f9f01abd7c2a8f2d8f7e2e84c98db55bd1a0fdea4b9f72f67dda32612f060c20b3a4459454eaf5b0ea6a0704",
        "2da7f21dbefc34ed1c15e3ce29f375ddcaeb513892d13b120988bedd54a729bebf71c9e88dcb6284b036edd1111c4447",
        "cd7c6ab783f0c653c00751b0c52f3b60262edd3074348a6ccd3f824a4aec10bb7fdbb4057bdf2c8e1bf82000a13f0fa5"),
    (Sha3_512, "8d37d4297d0d1578535c68997e0f640052de1d21e8c9ed5993f6f7418e2dbda6c5b6dcb299eabecec371d12ed518a831a03ba2a76378d60a46528d1608b4c122",
        "954d4f3920a292091273ccb13daa24997714597e8fcf94e7dfae22074ad8bf0d9a2d65b1d828e7a196377407548e849bb61de1915c9dce4d4a68f7c8b4c4604a",
        "8d5ccf667fba6cec773ed6d80e0edfd905edabe81a690046b580916a8ae3468af5e348c6e4122d40721f1c1bbc86f1c258143449b01f2cf720182e39281bcaa5"),
    (Blake2b256, "91ccce0ba9e15867934e70e07d8d4af1270ec75748be56a3f48f5bc8b6c3967d",
        "c196cc96babe5119f5a35f4b40ef7e6fb374ce1b5d30ffc9f4ae1965e3a41d58",
        "1b7a987b30773a091b4623713f224b81e396a9d42c6f1add58f37e5c34e9fff8"),
    (Blake2b512, "2ded56c1842538deaf0346ae8d4498b943b66c49b0041a98cdddd65d3a4ba027a8ecbf78fc780122ebde2e5d26f2eb2338dc5d0f307cb197cc95542eaf731822",
        "9c46061361e424a1e54559b96b585274ce2edefcc9a39c1e114fb4f689a0890b10405e7a38396849c9ee3b6c95639f5a7667c21eb1e7637a86237eceedae0d66",
        "1fa77b7af899149540ede926844c2a4a61d0432be83fcd6115ae609ef962d010ae8b5f85488407110b859e70565f4c18a1da43cdf65b0557b7076335495582e9"),
    (Keccak256, "e8d0c605aa90a1fe3feb493ad761f5313ddd79b377b06ed215e8c883341c33ae",
        "3e188b6b4d75f859c8ad4262947f8ca2737f8640f429fca897f53ed71795f304",
        "d3fbafd70d368bb95e5e9e686b4ef10f23d710078fac333eb63c1f757c07f64c"),
];

fn bytes(count: usize, factor: usize) -> Vec<u8> {
    (0..count).map(|i| (i * factor) as u8).collect()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// Runs a test with each level as the limit. Other tests may run at the same time, at any level.
pub(crate) fn on_every_level(test: impl Fn(LevelName)) {
    static LIMITED: Mutex<()> = Mutex::new(());
    let _limited = LIMITED.lock().unwrap_or_else(PoisonError::into_inner);
    for level in LevelName::ALL {
        limit_level(level);
        test(level);
    }
}

/// Hashes one message in pieces of `piece` bytes.
pub(crate) fn hash_one(mut hasher: Hasher<'_>, message: &[u8], piece: usize) -> Vec<u8> {
    message.chunks(piece).for_each(|piece| hasher.update(piece));
    let mut digest = vec![0; hasher.algorithm().digest_size()];
    hasher.finish(&mut digest).unwrap();
    digest
}

#[test]
fn digests_and_hmacs_match_known_answers_in_every_lane() {
    let message = bytes(300, 7);
    on_every_level(|level| {
        for (algorithm, digest, short, long) in KNOWN {
            let keys = [HmacKey::new(algorithm, &bytes(40, 3)), HmacKey::new(algorithm, &bytes(500, 5))];
            for count in [1, 2, 3, 5, 17, 40] {
                let messages = vec![&message; count];
                let mut output = vec![0xa5; count * algorithm.digest_size()];
                digest_many(algorithm, &messages, &mut output).unwrap();
                assert_eq!(hex(&output), digest.repeat(count), "{level} {algorithm}, {count}");
                for (key, expected) in keys.iter().zip([short, long]) {
                    hmac_many(key, &messages, &mut output).unwrap();
                    assert_eq!(hex(&output), expected.repeat(count), "{level} {algorithm}, HMAC, {count}");
                }
            }
            for piece in [1, 7, 64, 150, 300] {
                assert_eq!(hex(&hash_one(Hasher::new(algorithm), &message, piece)), digest, "{level} {algorithm}");
                assert_eq!(hex(&hash_one(keys[0].hasher(), &message, piece)), short, "{level} {algorithm}, HMAC");
            }
        }
    });
}

#[test]
fn batches_of_random_lengths_equal_single_messages() {
    let random = Random::new(0x6d61_6e79);
    on_every_level(|level| {
        for algorithm in Algorithm::ALL {
            let size = algorithm.digest_size();
            let messages: Vec<Vec<u8>> = (0..random.below(70)).map(|_| random.bytes(random.length())).collect();
            let keys: Vec<HmacKey> =
                messages.iter().map(|_| HmacKey::new(algorithm, &random.bytes(random.below(200)))).collect();
            let mut output = vec![0xa5; messages.len() * size];
            digest_many(algorithm, &messages, &mut output).unwrap();
            for (message, digest) in messages.iter().zip(output.chunks_exact(size)) {
                let expected = hash_one(Hasher::new(algorithm), message, 100);
                assert_eq!(digest, expected, "{level} {algorithm}, {} bytes", message.len());
            }
            hmac_each(&keys, &messages, &mut output).unwrap();
            for ((message, key), digest) in messages.iter().zip(&keys).zip(output.chunks_exact(size)) {
                assert_eq!(digest, hash_one(key.hasher(), message, 100), "{level} {algorithm}, HMAC");
            }
        }
    });
}

/// The padding changes around the end of each block.
#[test]
fn batches_of_every_length_up_to_three_blocks_equal_single_messages() {
    let message = bytes(400, 11);
    let messages: Vec<&[u8]> = (0..=400).map(|length| &message[..length]).collect();
    on_every_level(|level| {
        for algorithm in Algorithm::ALL {
            let size = algorithm.digest_size();
            let key = HmacKey::new(algorithm, b"the key");
            let (mut digests, mut macs) = (vec![0xa5; messages.len() * size], vec![0xa5; messages.len() * size]);
            digest_many(algorithm, &messages, &mut digests).unwrap();
            hmac_many(&key, &messages, &mut macs).unwrap();
            let both = digests.chunks_exact(size).zip(macs.chunks_exact(size));
            for (message, (digest, mac)) in messages.iter().zip(both) {
                let expected = hash_one(Hasher::new(algorithm), message, 401);
                assert_eq!(digest, expected, "{level} {algorithm}, {} bytes", message.len());
                let expected = hash_one(key.hasher(), message, 401);
                assert_eq!(mac, expected, "{level} {algorithm}, HMAC, {} bytes", message.len());
            }
        }
    });
}

/// Batches of 0 to 40 messages, more than the slots of `run_whole`. In every third batch each message has 24 bytes. The others
/// mix short lengths, lengths around the ends of one and two blocks, and a length of more than five blocks.
#[test]
fn batches_of_every_size_equal_single_messages() {
    let random = Random::new(0x6261_7463);
    on_every_level(|level| {
        for algorithm in Algorithm::ALL {
            let size = algorithm.digest_size();
            let block = algorithm.block_size();
            for count in 0..=40 {
                let lengths = [
                    0,
                    1,
                    24,
                    block - 18,
                    block - 17,
                    block - 9,
                    block - 8,
                    block,
                    2 * block - 17,
                    2 * block,
                    5 * block + 3,
                ];
                let of =
                    |i: usize| random.bytes(if count % 3 == 0 { 24 } else { lengths[(i * 7 + count) % lengths.len()] });
                let messages: Vec<Vec<u8>> = (0..count).map(of).collect();
                let mut output = vec![0xa5; count * size];
                digest_many(algorithm, &messages, &mut output).unwrap();
                for (message, digest) in messages.iter().zip(output.chunks_exact(size)) {
                    assert_eq!(digest, hash_one(Hasher::new(algorithm), message, 401), "{level} {algorithm}, {count}");
                }
            }
        }
    });
}

/// The hash of no code (EIP-1052), the root of an empty trie (Yellow Paper, appendix D), and the parent of two leaves of zeros.
#[test]
fn keccak_256_is_that_of_ethereum() {
    on_every_level(|level| {
        for (message, digest) in [
            (&[][..], "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"),
            (&[0x80], "56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421"),
            (&[0; 64], "ad3228b676f7d3cd4284a5443f17f1962b36e491b30a40b2405849e597ba5fb5"),
        ] {
            for count in [1, 2, 9] {
                let mut output = vec![0; 32 * count];
                digest_many(Keccak256, &vec![message; count], &mut output).unwrap();
                assert_eq!(hex(&output), digest.repeat(count), "{level}");
            }
        }
    });
}

#[test]
fn messages_after_a_prefix_equal_those_with_it() {
    let random = Random::new(0x7072_6566);
    on_every_level(|level| {
        for algorithm in Algorithm::ALL {
            let size = algorithm.digest_size();
            let key = HmacKey::new(algorithm, b"key");
            for (prefix, keyed) in [(0, false), (1, false), (1, true), (60, false), (128, true), (300, false)] {
                let prefix = random.bytes(prefix);
                let mut hasher = if keyed { key.hasher() } else { Hasher::new(algorithm) };
                hasher.update(&prefix);
                for count in [0, 1, 2, 3, 7, 40] {
                    let messages: Vec<Vec<u8>> = (0..count).map(|_| random.bytes(random.length())).collect();
                    let mut output = vec![0xa5; count * size];
                    digest_many_after(&hasher, &messages, &mut output).unwrap();
                    for (message, digest) in messages.iter().zip(output.chunks_exact(size)) {
                        let expected = hash_one(hasher.clone(), message, 401);
                        assert_eq!(digest, expected, "{level} {algorithm}, {count} after {}", prefix.len());
                    }
                }
                let mut wrong = vec![0; size + 1];
                let error = digest_many_after(&hasher, &["a"], &mut wrong);
                assert_eq!(error, Err(Error::OutputLength { needed: size, found: size + 1 }));
            }
        }
    });
}

#[test]
fn hashers_updated_side_by_side_equal_single_ones() {
    let random = Random::new(0x7069_6563);
    on_every_level(|level| {
        for algorithm in Algorithm::ALL {
            let keys = [HmacKey::new(algorithm, b"one"), HmacKey::new(algorithm, &[9; 300])];
            // With each of two keys, and without one.
            let hashers = || {
                let of = |i: usize| keys.get(i % 3).map_or_else(|| Hasher::new(algorithm), HmacKey::hasher);
                (0..20).map(of).collect::<Vec<_>>()
            };
            let mut together = hashers();
            let mut messages = vec![Vec::new(); together.len()];
            for _ in 0..5 {
                let pieces: Vec<Vec<u8>> = messages.iter().map(|_| random.bytes(random.length())).collect();
                messages.iter_mut().zip(&pieces).for_each(|(message, piece)| message.extend_from_slice(piece));
                let mut updates: Vec<_> = together.iter_mut().zip(&pieces).map(|(h, piece)| (h, &piece[..])).collect();
                update_many(&mut updates).unwrap();
            }
            let mut output = vec![0xa5; messages.len() * algorithm.digest_size()];
            finish_many(&mut together.iter_mut().collect::<Vec<_>>(), &mut output).unwrap();
            let digests = output.chunks_exact(algorithm.digest_size());
            for ((message, hasher), digest) in messages.iter().zip(hashers()).zip(digests) {
                assert_eq!(digest, hash_one(hasher, message, 1000), "{level} {algorithm}");
            }
            // `finish_many` has started another message in each hasher.
            for (hasher, fresh) in together.into_iter().zip(hashers()) {
                assert_eq!(hash_one(hasher, b"again", 2), hash_one(fresh, b"again", 5), "{level} {algorithm}");
            }
        }
    });
}

#[test]
fn reset_restarts_a_hasher_and_clones_are_independent() {
    for algorithm in Algorithm::ALL {
        let mut hasher = Hasher::new(algorithm);
        hasher.update(b"to be forgotten");
        let clone = hasher.clone();
        hasher.reset();
        assert_eq!(hash_one(hasher, b"abc", 1), hash_one(Hasher::new(algorithm), b"abc", 3), "{algorithm}");
        assert_eq!(hash_one(clone, b"", 1), hash_one(Hasher::new(algorithm), b"to be forgotten", 3), "{algorithm}");
    }
}

#[test]
fn errors_carry_details_and_leave_the_output_unchanged() {
    let mut output = [0xa5; 100];
    let wrong = digest_many(Sha256, &["a", "b"], &mut output);
    assert_eq!(wrong, Err(Error::OutputLength { needed: 64, found: 100 }));
    assert_eq!(digest_many(Sha256, &[""; 0], &mut output), Err(Error::OutputLength { needed: 0, found: 100 }));
    assert_eq!(digest_many(Sha256, &[""; 0], &mut []), Ok(()));
    let keys = [HmacKey::new(Sha256, b"a"), HmacKey::new(Sha256, b"b"), HmacKey::new(Sha224, b"c")];
    let wrong = hmac_each(&keys[..2], &["a"], &mut output);
    assert_eq!(wrong, Err(Error::KeyCount { messages: 1, keys: 2 }));
    assert_eq!(hmac_each(&keys, &["a"; 3], &mut output[..96]), Err(Error::MixedAlgorithms { index: 2 }));
    let (mut a, mut b) = (Hasher::new(Sha384), Hasher::new(Sha512));
    assert_eq!(update_many(&mut [(&mut a, b"a"), (&mut b, b"b")]), Err(Error::MixedAlgorithms { index: 1 }));
    assert_eq!(finish_many(&mut [&mut a, &mut b], &mut output), Err(Error::MixedAlgorithms { index: 1 }));
    assert_eq!(finish_many(&mut [&mut a], &mut output), Err(Error::OutputLength { needed: 48, found: 100 }));
    assert_eq!(a.finish(&mut output), Err(Error::OutputLength { needed: 48, found: 100 }));
    assert_eq!(hash_one(a, b"", 1), hash_one(Hasher::new(Sha384), b"", 1));
    assert_eq!(output, [0xa5; 100]);
    assert_eq!(update_many(&mut []), Ok(()));
    assert_eq!(finish_many(&mut [], &mut []), Ok(()));
}

#[test]
fn debug_output_omits_keys_and_state() {
    let key = HmacKey::new(Sha256, b"secret");
    assert_eq!(format!("{key:?}"), "HmacKey { algorithm: Sha256, .. }");
    assert_eq!(format!("{:?}", key.hasher()), "Hasher { algorithm: Sha256, .. }");
}

/// The HMACs of a chain are as secret as the password. `last` gets the last one: the XOR of two keys that are one iteration apart.
#[test]
#[cfg(target_arch = "x86_64")]
#[cfg_attr(debug_assertions, ignore = "about optimized code: scripts/test")]
fn derivations_leave_nothing_of_passwords_and_keys_on_the_stack() {
    let random = Random::new(0x6b64_6673);
    for algorithm in Algorithm::ALL {
        let size = algorithm.digest_size();
        let password = random.bytes(40);
        let pad = |with: u8| password.iter().map(|byte| byte ^ with).collect();
        let last = |iterations| {
            let [mut before, mut after] = [iterations - 1, iterations].map(|iterations| {
                let mut key = vec![0; size];
                pbkdf2(algorithm, &password, b"salt", iterations, &mut key).unwrap();
                key
            });
            before.iter_mut().zip(&mut after).for_each(|(before, after)| *after ^= *before);
            after
        };
        let mut keys = [vec![0; size], vec![0; 5 * size], vec![0; 2 * size]];
        let [one, five, expanded] = &mut keys;
        let stack = internal::stack::stack_after(|| {
            pbkdf2(algorithm, &password, b"salt", 3, one).unwrap();
            pbkdf2(algorithm, &password, b"salt", 3, five).unwrap();
            hkdf(algorithm, &password, b"salt", b"info", expanded).unwrap();
        });
        let secrets = [vec![password.clone(), pad(0x36), pad(0x5c), last(2), last(3)], keys.to_vec()].concat();
        assert!(!internal::stack::holds_secret(&stack, &secrets), "{algorithm}");
    }
}

/// Moved values, spilled registers and rows of chaining values could leave copies.
#[test]
#[cfg(target_arch = "x86_64")]
#[cfg_attr(debug_assertions, ignore = "about optimized code: scripts/test")]
fn hmacs_of_many_messages_leave_nothing_of_their_keys_on_the_stack() {
    let random = Random::new(0x6b65_7973);
    for algorithm in Algorithm::ALL {
        for length in [32, 300] {
            let secret = random.bytes(length);
            let pad = |with: u8| secret.iter().map(|byte| byte ^ with).collect();
            let secrets: Vec<Vec<u8>> = vec![secret.clone(), pad(0x36), pad(0x5c)];
            let messages: Vec<Vec<u8>> = (0..30).map(|_| random.bytes(random.length())).collect();
            let mut output = vec![0; 30 * algorithm.digest_size()];
            let stack = internal::stack::stack_after(|| {
                let key = HmacKey::new(algorithm, &secret);
                hmac_many(&key, &messages, &mut output).unwrap();
            });
            assert!(!internal::stack::holds_secret(&stack, &secrets), "{algorithm}, a key of {length} bytes");
        }
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
#[cfg_attr(debug_assertions, ignore = "about optimized code: scripts/test")]
fn keyed_blake3_leaves_nothing_of_its_key_on_the_stack() {
    let random = Random::new(0x626c_616b);
    let key: [u8; 32] = random.bytes(32).try_into().unwrap();
    let messages: Vec<Vec<u8>> =
        (0..30).map(|i| random.bytes(if i == 7 { 100_000 } else { random.length() })).collect();
    let mut digests = [[0; 32]; 30];
    let mut derived = [[0; 32]];
    let stack = internal::stack::stack_after(|| {
        Blake3::keyed(&key).digest_many(&messages, &mut digests).unwrap();
        Blake3::derive_key("a context").digest_many(&[&key], &mut derived).unwrap();
    });
    assert!(!internal::stack::holds_secret(&stack, &[key.to_vec(), derived[0].to_vec()]));
}
