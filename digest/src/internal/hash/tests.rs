//! Known digests, and any mixture of messages and streams against the scalar functions.

use super::*;
use crate::internal::kernel::md5::{self, Md5};
use crate::internal::kernel::sha1::{self, Sha1};
use crate::internal::kernel::sha2::{self, Sha256, Sha512};
use crate::level::{Level, every_level};
use crate::random::Random;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// All of `messages` in one batch.
fn side_by_side<H: Hash>(kernels: Kernels<H>, setup: &Setup<H>, messages: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut digests = vec![vec![0xa5; setup.digest_size]; messages.len()];
    let jobs = messages.iter().zip(&mut digests);
    run(kernels, jobs.map(|(input, output)| Job { setup, stream: None, input, output: Some(output) }));
    digests
}

fn digest_one<H: Hash>(kernels: Kernels<H>, setup: &Setup<H>, message: &[u8]) -> Vec<u8> {
    let mut digest = vec![0xa5; setup.digest_size];
    run_one(kernels, Job { setup, stream: None, input: message, output: Some(&mut digest) });
    digest
}

/// On every level: the published digests, alone and in every lane.
fn check_vectors<H: Hash>(setup: impl Fn(Kernels<H>) -> Setup<H>, vectors: &[(&[u8], &str)]) {
    for level in every_level() {
        let kernels = H::kernels(level);
        let setup = setup(kernels);
        for (message, digest) in vectors {
            assert_eq!(hex(&digest_one(kernels, &setup, message)), *digest, "{level:?}");
            for count in [1, 2, kernels.lanes, 2 * kernels.lanes + 1] {
                for result in side_by_side(kernels, &setup, &vec![message.to_vec(); count]) {
                    assert_eq!(hex(&result), *digest, "{level:?}, {count} at once");
                }
            }
        }
    }
}

/// Messages of 0 to 300 bytes, hence every kind of padding, hashed at once and one at a time. Digests the concatenation of their
/// digests, and compares the result with OpenSSL's (by way of Python's hashlib and hmac). Byte `j` of the message of `n` bytes is `7j + n`.
fn check_all_lengths<H: Hash>(setup: impl Fn(Kernels<H>) -> Setup<H>, expected: &str) {
    let messages: Vec<Vec<u8>> = (0..=300).map(|n| (0..n).map(|j| (7usize * j + n) as u8).collect()).collect();
    for level in every_level() {
        let kernels = H::kernels(level);
        let setup = setup(kernels);
        let digests = side_by_side(kernels, &setup, &messages).concat();
        assert_eq!(hex(&digest_one(kernels, &setup, &digests)), expected, "{level:?}");
        let digests: Vec<u8> = messages.iter().flat_map(|message| digest_one(kernels, &setup, message)).collect();
        assert_eq!(hex(&digest_one(kernels, &setup, &digests)), expected, "{level:?}, one at a time");
        // Messages of equal length end together. One call of the kernel can then hash body, padding and outer block.
        for message in &messages {
            let other = |lane: usize| message.iter().map(|byte| byte ^ lane as u8).collect();
            let others: Vec<Vec<u8>> = (0..=2 * kernels.lanes).map(other).collect();
            let each: Vec<Vec<u8>> = others.iter().map(|message| digest_one(kernels, &setup, message)).collect();
            assert_eq!(side_by_side(kernels, &setup, &others), each, "{level:?}, {} bytes each", message.len());
        }
    }
}

#[test]
fn md5_matches_rfc_1321() {
    check_vectors::<Md5>(
        |_| Setup::digest(md5::INITIAL, 16),
        &[
            (b"", "d41d8cd98f00b204e9800998ecf8427e"),
            (b"a", "0cc175b9c0f1b6a831c399e269772661"),
            (b"abc", "900150983cd24fb0d6963f7d28e17f72"),
            (b"message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
            (b"abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"),
            (b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", "d174ab98d277d9f5a5611c2c9f419d9f"),
            (
                b"12345678901234567890123456789012345678901234567890123456789012345678901234567890",
                "57edf4a22be3c955ac49da2e2107b67a",
            ),
        ],
    );
    check_all_lengths::<Md5>(|_| Setup::digest(md5::INITIAL, 16), "a9cf41e638496a4d8f14abe6ae258128");
}

#[test]
fn sha1_matches_fips_180() {
    check_vectors::<Sha1>(
        |_| Setup::digest(sha1::INITIAL, 20),
        &[
            (b"abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
            (b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", "84983e441c3bd26ebaae4aa1f95129e5e54670f1"),
            (&vec![b'a'; 1_000_000], "34aa973cd4c4daa4f61eeb2bdbad27316534016f"),
        ],
    );
    check_all_lengths::<Sha1>(|_| Setup::digest(sha1::INITIAL, 20), "e570432b09ac39935ad256f819b381ba3900dbbd");
}

#[test]
fn sha256_matches_fips_180() {
    check_vectors::<Sha256>(
        |_| Setup::digest(sha2::INITIAL_256, 32),
        &[
            (b"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            (
                b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
            ),
            (&vec![b'a'; 1_000_000], "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"),
        ],
    );
    check_all_lengths::<Sha256>(
        |_| Setup::digest(sha2::INITIAL_256, 32),
        "60d63ff40b5558727a9b786ac0be9300f7ca58fd9ddd3b2f3681b369018a87dc",
    );
    check_all_lengths::<Sha256>(
        |_| Setup::digest(sha2::INITIAL_224, 28),
        "fd64e005f571477279664e8b0ee5e0a19de5edc4c37d71422f639ad8",
    );
}

#[test]
fn sha512_matches_fips_180() {
    check_vectors::<Sha512>(
        |_| Setup::digest(sha2::INITIAL_512, 64),
        &[(
            b"abc",
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
             2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
        )],
    );
    check_all_lengths::<Sha512>(
        |_| Setup::digest(sha2::INITIAL_512, 64),
        "e1f2f7d5d8fc48db06ec2a0eed639593f549caffa40245747258761214a3ec07134903fde52ace6cfae161a82097ba01f33a97d48dd6a80d4521d96d7401357e",
    );
    check_all_lengths::<Sha512>(
        |_| Setup::digest(sha2::INITIAL_384, 48),
        "022ac2b92dcdb9358b044b9475cd22bacae49d2510f5493370847b4c61050cacc2325d1d80119adbc3ca9eaa7ecd3de7",
    );
    check_all_lengths::<Sha512>(
        |_| Setup::digest(sha2::INITIAL_512_256, 32),
        "269c8df4ed9dc95eb220e0cb62dd8db46ae5d865dd2ed2097fc3a4e85c139a20",
    );
}

#[test]
fn hmac_matches_rfc_2202_and_rfc_4231() {
    let jefe = b"what do ya want for nothing?".as_slice();
    let long_key = [0xaa; 131];
    let larger = b"Test Using Larger Than Block-Size Key - Hash Key First".as_slice();
    check_vectors::<Md5>(
        |kernels| Setup::hmac(kernels, md5::INITIAL, 16, b"Jefe"),
        &[(jefe, "750c783e6ab0b503eaa86e310a5db738")],
    );
    check_vectors::<Sha1>(
        |kernels| Setup::hmac(kernels, sha1::INITIAL, 20, b"Jefe"),
        &[(jefe, "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79")],
    );
    check_vectors::<Sha256>(
        |kernels| Setup::hmac(kernels, sha2::INITIAL_256, 32, b"Jefe"),
        &[(jefe, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")],
    );
    check_vectors::<Sha256>(
        |kernels| Setup::hmac(kernels, sha2::INITIAL_256, 32, &long_key),
        &[(larger, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54")],
    );
    check_vectors::<Sha512>(
        |kernels| Setup::hmac(kernels, sha2::INITIAL_512, 64, &long_key),
        &[(
            larger,
            "80b24263c7c1a3ebb71493c1dd7be8b49b46d1f41b4aeec1121b013783f8f352\
             6b56d037e05f2598bd0fd2215d6a1e5295e64f73f63f0aec8b915a985d786598",
        )],
    );
}

#[test]
fn hmac_of_every_message_length_matches_openssl() {
    check_all_lengths::<Md5>(|k| Setup::hmac(k, md5::INITIAL, 16, b"key"), "4f257dfdd4dd2f8324a75e2592f24a7f");
    check_all_lengths::<Sha1>(
        |k| Setup::hmac(k, sha1::INITIAL, 20, b"key"),
        "e7c460250be2ec7ac48fb1183b30ccdcec4cf712",
    );
    check_all_lengths::<Sha256>(
        |k| Setup::hmac(k, sha2::INITIAL_224, 28, b"key"),
        "2bee6c0492a595029fbb725a280f55ae80ac585da791a263306ebdfd",
    );
    check_all_lengths::<Sha256>(
        |k| Setup::hmac(k, sha2::INITIAL_256, 32, b"key"),
        "c8034fa64ea3000645ebbbd38f05b9d9e97672def2e0f016d9b3c205e7f56d14",
    );
    check_all_lengths::<Sha512>(
        |k| Setup::hmac(k, sha2::INITIAL_384, 48, b"key"),
        "cec42346f8e181d56838fba1f5c905a2ad2e8971822c15af23d7c790b63c8f9b54ba886b9256e04978c59764f59e71f9",
    );
    check_all_lengths::<Sha512>(
        |k| Setup::hmac(k, sha2::INITIAL_512, 64, b"key"),
        "964d3e04a90b586625e43a6e851123b02b7dee2141d0080be78586eede324ac6b29f2e63f1951da6ff1ec66e68ae6e687cfa01452527b5a9f90892875c60a6c1",
    );
    check_all_lengths::<Sha512>(
        |k| Setup::hmac(k, sha2::INITIAL_512_256, 32, b"key"),
        "24a2492543f6da1d78364f510512b4106a15de0f6f83ebb3950eb1b65371b9d8",
    );
}

/// Hashes whole messages and pieces of streams in the same lanes, of one session and of several, with random lengths. Compares the
/// digests with those of the scalar function.
fn check_mixed_jobs<H: Hash>(initial: [H::Word; 8], digest: usize) {
    let random = Random::new(0x6c61_6e65_7321);
    let scalar = H::kernels(Level::detect_at_most(Some(crate::LevelName::Base)));
    for level in every_level() {
        let kernels = H::kernels(level);
        for round in 0..40 {
            let setups: Vec<Setup<H>> = match round % 3 {
                0 => vec![Setup::digest(initial, digest)],
                sessions => (0..5 * sessions - 4)
                    .map(|_| Setup::hmac(kernels, initial, digest, &random.bytes(random.below(200))))
                    .collect(),
            };
            let any = || &setups[random.below(setups.len())];
            let mut streams: Vec<(&Setup<H>, Stream<H>, Vec<u8>)> =
                (0..random.below(20)).map(|_| any()).map(|setup| (setup, Stream::new(setup), Vec::new())).collect();
            for _ in 0..6 {
                let whole: Vec<(&Setup<H>, Vec<u8>)> =
                    (0..random.below(40)).map(|_| (any(), random.bytes(random.length()))).collect();
                let pieces: Vec<Vec<u8>> = streams.iter().map(|_| random.bytes(random.length())).collect();
                let mut digests = vec![vec![0; digest]; whole.len()];
                let jobs = whole.iter().zip(&mut digests);
                let jobs =
                    jobs.map(|((setup, input), output)| Job { setup, stream: None, input, output: Some(output) });
                let updates = streams.iter_mut().zip(&pieces);
                let updates =
                    updates.map(|((setup, stream, _), input)| Job { setup, stream: Some(stream), input, output: None });
                run(kernels, jobs.chain(updates));
                for ((setup, message), digest) in whole.iter().zip(&digests) {
                    assert_eq!(*digest, digest_one(scalar, setup, message), "{level:?}, {} bytes", message.len());
                }
                for ((_, _, message), piece) in streams.iter_mut().zip(&pieces) {
                    message.extend(piece);
                }
            }
            // A copy is independent, and a finished stream can be used again.
            let count = streams.len();
            let mut digests = vec![vec![0; digest]; 2 * count];
            let mut copies: Vec<(&Setup<H>, Stream<H>)> =
                streams.iter().map(|(setup, stream, _)| (*setup, stream.clone())).collect();
            let all = streams.iter_mut().map(|(setup, stream, _)| (*setup, stream));
            let all = all.chain(copies.iter_mut().map(|(setup, stream)| (*setup, stream)));
            let jobs = all.zip(&mut digests).enumerate().map(|(i, ((setup, stream), output))| {
                let input: &[u8] = if i < count { b"" } else { b"!" };
                Job { setup, stream: Some(stream), input, output: Some(output) }
            });
            run(kernels, jobs);
            for (i, digest_of) in digests.iter().enumerate() {
                let (setup, _, message) = &streams[i % count];
                let mut message = message.clone();
                if i >= count {
                    message.push(b'!');
                }
                assert_eq!(
                    *digest_of,
                    digest_one(scalar, setup, &message),
                    "{level:?}, a stream of {} bytes",
                    message.len()
                );
            }
            for (setup, stream, _) in &mut streams {
                let mut output = vec![0; digest];
                run_one(kernels, Job { setup, stream: Some(stream), input: b"again", output: Some(&mut output) });
                assert_eq!(output, digest_one(scalar, setup, b"again"));
            }
        }
    }
}

#[test]
fn streams_and_messages_of_random_lengths_share_lanes() {
    check_mixed_jobs::<Md5>(md5::INITIAL, 16);
    check_mixed_jobs::<Sha1>(sha1::INITIAL, 20);
    check_mixed_jobs::<Sha256>(sha2::INITIAL_256, 32);
    check_mixed_jobs::<Sha512>(sha2::INITIAL_512, 64);
}

#[test]
fn every_split_of_a_stream_gives_the_same_digest() {
    let message: Vec<u8> = (0..=255).collect();
    for level in every_level() {
        let kernels = Sha512::kernels(level);
        let setup = Setup::digest(sha2::INITIAL_512, 64);
        let whole = digest_one(kernels, &setup, &message);
        for first in 0..message.len() {
            let mut stream = Stream::new(&setup);
            let (head, tail) = message.split_at(first);
            run_one(kernels, Job { setup: &setup, stream: Some(&mut stream), input: head, output: None });
            let mut digest = vec![0; 64];
            run_one(kernels, Job { setup: &setup, stream: Some(&mut stream), input: tail, output: Some(&mut digest) });
            assert_eq!(digest, whole, "split at {first}");
        }
    }
}

#[test]
fn lengths_beyond_32_bits_are_padded_correctly() {
    // Only the length fields: hashing messages of 2^32 + 5 and 2^64 - 1 bytes would take too long.
    let (blocks, tail) = padding::<Sha256>(5, (1 << 32) + 5);
    assert_eq!((blocks, &tail[56..64]), (1, &(((1u64 << 32) + 5) * 8).to_be_bytes()[..]));
    let (blocks, tail) = padding::<Md5>(5, (1 << 32) + 5);
    assert_eq!((blocks, &tail[56..64]), (1, &(((1u64 << 32) + 5) * 8).to_le_bytes()[..]));
    let (blocks, tail) = padding::<Sha512>(5, u64::MAX);
    assert_eq!((blocks, &tail[112..128]), (1, &(u128::from(u64::MAX) * 8).to_be_bytes()[..]));
}

#[test]
fn keys_and_streams_are_wiped() {
    let kernels = Sha256::kernels(Level::detect_at_most(None));
    let mut setup = Box::new(core::mem::ManuallyDrop::new(Setup::hmac(kernels, sha2::INITIAL_256, 32, b"secret")));
    let mut stream = Box::new(core::mem::ManuallyDrop::new(Stream::new(&setup)));
    run_one(kernels, Job { setup: &setup, stream: Some(&mut stream), input: b"also secret", output: None });
    assert!(stream.chain != [0; 8] && stream.buffer != [0; 64]);
    // SAFETY: each value is dropped once. Only plain fields that `drop` leaves in place are read afterwards.
    unsafe {
        core::mem::ManuallyDrop::drop(&mut setup);
        core::mem::ManuallyDrop::drop(&mut stream);
    }
    assert!(setup.chain == [0; 8] && setup.outer.as_ref().is_some_and(|outer| outer.chain == [0; 8]));
    assert!(stream.chain == [0; 8] && stream.buffer == [0; 64]);
}
