//! Known digests, and any mixture of messages and streams against plain implementations.

use super::*;
use crate::internal::kernel::blake2b::Blake2b;
use crate::internal::kernel::keccak::{DOMAIN_SHAKE, INITIAL, Keccak};
use crate::level::{Level, every_level};
use crate::random::Random;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// All of `messages` in one batch.
fn side_by_side<F: Function>(kernels: Kernels, setup: &Setup<F>, messages: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut digests = vec![vec![0xa5; setup.digest_size]; messages.len()];
    let jobs = messages.iter().zip(&mut digests);
    let jobs = jobs.map(|(input, output)| Job { setup, stream: None, input, output: Some(output) });
    run(kernels, setup.is_keyed(), jobs);
    digests
}

fn digest_one<F: Function>(kernels: Kernels, setup: &Setup<F>, message: &[u8]) -> Vec<u8> {
    let mut digest = vec![0xa5; setup.digest_size];
    run_one(kernels, Job { setup, stream: None, input: message, output: Some(&mut digest) });
    digest
}

/// Checks the published digests in `vectors` on every level, alone and in every lane. Then hashes messages of 0 to 300 bytes, hence
/// every kind of padding, side by side and one at a time. `all_lengths` is the digest of their digests, from OpenSSL (by way of
/// Python's hashlib and hmac). Byte `j` of the message of `n` bytes is `7j + n` modulo 256.
fn check_vectors<F: Function>(setup: impl Fn(Kernels) -> Setup<F>, vectors: &[(&[u8], &str)], all_lengths: &str) {
    let messages: Vec<Vec<u8>> = (0..=300).map(|n| (0..n).map(|j| (7usize * j + n) as u8).collect()).collect();
    for level in every_level() {
        let kernels = F::kernels(level);
        let setup = setup(kernels);
        for (message, digest) in vectors {
            assert_eq!(hex(&digest_one(kernels, &setup, message)), *digest, "{level:?}");
            for count in [1, 2, kernels.lanes, 2 * kernels.lanes + 1] {
                for result in side_by_side(kernels, &setup, &vec![message.to_vec(); count]) {
                    assert_eq!(hex(&result), *digest, "{level:?}, {count} at once");
                }
            }
        }
        let digests = side_by_side(kernels, &setup, &messages).concat();
        assert_eq!(hex(&digest_one(kernels, &setup, &digests)), all_lengths, "{level:?}");
        let digests: Vec<u8> = messages.iter().flat_map(|message| digest_one(kernels, &setup, message)).collect();
        assert_eq!(hex(&digest_one(kernels, &setup, &digests)), all_lengths, "{level:?}, one at a time");
    }
}

fn sha3<const RATE: usize>(digest: usize) -> Setup<Keccak<RATE>> {
    Setup::digest(INITIAL, digest)
}

/// Published digests of the empty message and of "abc", for each digest length of FIPS 202.
#[test]
fn sha3_matches_fips_202() {
    check_vectors(
        |_| sha3::<144>(28),
        &[
            (b"", "6b4e03423667dbb73b6e15454f0eb1abd4597f9a1b078e3f5b5a6bc7"),
            (b"abc", "e642824c3f8cf24ad09234ee7d3c766fc9a3a5168d0c94ad73b46fdf"),
        ],
        "221d9b6c939acd11db7250bb139edd5e65ddc18bdfe5df33180a5d98",
    );
    check_vectors(
        |_| sha3::<136>(32),
        &[
            (b"", "a7ffc6f8bf1ed76651c14756a061d662f580ff4de43b49fa82d80a4b80f8434a"),
            (b"abc", "3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532"),
        ],
        "69fd44e84eaa578a3fbe34556c6fb7edc16373be06260aadfb158090326efefd",
    );
    check_vectors(
        |_| sha3::<104>(48),
        &[
            (
                b"",
                "0c63a75b845e4f7d01107d852e4c2485c51a50aaaa94fc61995e71bbee983a2a\
                 c3713831264adb47fb6bd1e058d5f004",
            ),
            (
                b"abc",
                "ec01498288516fc926459f58e2c6ad8df9b473cb0fc08c2596da7cf0e49be4b2\
                 98d88cea927ac7f539f1edf228376d25",
            ),
        ],
        "5abc6eff7e90d5d38e9e83f22afb2e3cdaf2ae6c1050ff339f577390f0c1c70df881413bb59710e715d0c43036a18111",
    );
    check_vectors(
        |_| sha3::<72>(64),
        &[
            (
                b"",
                "a69f73cca23a9ac5c8b567dc185a756e97c982164fe25859e0d1dcc1475c80a6\
                 15b2123af1f5f94c11e3e9402c3ac558f500199d95b6d3e301758586281dcd26",
            ),
            (
                b"abc",
                "b751850b1a57168a5693cd924b6b096e08f621827444f70d884f5d0240d2712e\
                 10e116e9192af3c91a7ec57647e3934057340b4cf408d5a56592f8274eec53f0",
            ),
        ],
        "b32985df6c8042bded2d632b2216e39e4f502a38817064ceeb4fdbe5fd5d5fbc\
         4b0c84cf6815c531567e8919184e6ddacc0eddcd620be11c88536507f4c8c7a9",
    );
}

#[test]
fn xof_outputs_start_with_published_values() {
    /// Compares the first bytes of long digests of the empty message. The digests of TurboSHAKE are from RFC 9861, section 5.
    fn begins<F: Function>(digest: &str) {
        let setup = || Setup::<F>::xof(500, 0, DOMAIN_SHAKE);
        for level in every_level() {
            let kernels = F::kernels(level);
            for result in side_by_side(kernels, &setup(), &vec![Vec::new(); 19]) {
                assert!(hex(&result).starts_with(digest), "{level:?}");
            }
            assert!(hex(&digest_one(kernels, &setup(), b"")).starts_with(digest), "{level:?}");
        }
    }
    begins::<Keccak<168>>("7f9c2ba4e88f827d616045507605853ed73b8093f6efbc88eb1a6eacfa66ef26");
    begins::<Keccak<136>>("46b9dd2b0ba88d13233b3feb743eeb243fcd52ea62b81b82b50c27646ed5762f");
    begins::<Keccak<168, 12>>("1e415f1c5983aff2169217277d17bb538cd945a397ddec541f1ce41af2c1b74c");
    begins::<Keccak<136, 12>>("367a329dafea871c7802ec67f905ae13c57695dc2c6663c61035f59a18f8e7db");
}

#[test]
fn hmac_of_every_message_length_matches_openssl() {
    // A key that is longer than all blocks.
    let long = [0xaa; 147];
    check_vectors::<Keccak<144>>(
        |kernels| Setup::hmac(kernels, INITIAL, 28, b"key"),
        &[],
        "15776e5350e57891650ee1b339860faac6d0f4c0fb46d3a087856706",
    );
    check_vectors::<Keccak<144>>(
        |kernels| Setup::hmac(kernels, INITIAL, 28, &long),
        &[],
        "fba6145e364a4476a29fdb074e2d3a721637eaaf3fd109e6046e5bfe",
    );
    check_vectors::<Keccak<136>>(
        |kernels| Setup::hmac(kernels, INITIAL, 32, b"key"),
        &[],
        "a70b2d0052f27be89f8f648a00ce14b6a21da6d068b64986ef661ac4b61a176a",
    );
    check_vectors::<Keccak<136>>(
        |kernels| Setup::hmac(kernels, INITIAL, 32, &long),
        &[],
        "828e76acbfda0ede2072d6fb2d1e6d4f81b44cb1dd8c24e19e4845bc03852a6a",
    );
    check_vectors::<Keccak<104>>(
        |kernels| Setup::hmac(kernels, INITIAL, 48, b"key"),
        &[],
        "2cf551da2884c75212e35081612cc36f28442de845b362249f1369ceda7f684d1acd42336e67db383f6ea185709e1dba",
    );
    check_vectors::<Keccak<72>>(
        |kernels| Setup::hmac(kernels, INITIAL, 64, &long),
        &[],
        "85e2ee8c1e93f8ce383048cb92a37869de1e190e4b6e2da16e0afe1684762125\
         6b47784cc576881f2574e54de4940563335eab132cc1c44295d7959c80859df8",
    );
}

/// The digest of 64 bytes in RFC 7693, appendix A, and the digest of 32 bytes of the same message.
#[test]
fn blake2b_matches_rfc_7693() {
    check_vectors::<Blake2b>(
        |_| Setup::digest(Blake2b::initial(64), 64),
        &[(
            b"abc",
            "ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d1\
             7d87c5392aab792dc252d5de4533cc9518d38aa8dbf1925ab92386edd4009923",
        )],
        "37c508666a6ac79e9eb4c6d15501b2c460bfa5461083ff1c94985b3a4d677ea2\
         9fcef134f3b3765ded58067b3f670b17a733c24f7ea5e301880b389b260ff32a",
    );
    check_vectors::<Blake2b>(
        |_| Setup::digest(Blake2b::initial(32), 32),
        &[(b"abc", "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319")],
        "54574d1ba9335590a9a260c8f4122a5723783d894d53d5c48729e40d329e80ff",
    );
}

fn plain_sha3(rate: usize, digest: usize, message: &[u8]) -> Vec<u8> {
    plain_keccak(rate, 24, &[0x06], digest, message)
}

/// Keccak with the last `rounds` of its 24 rounds, step by step as FIPS 202 defines them, without precomputed tables. `suffix` follows
/// the message, and includes the first bit of the padding. Each further block of a digest takes a block of zeros after the message.
pub(crate) fn plain_keccak(rate: usize, rounds: usize, suffix: &[u8], digest: usize, message: &[u8]) -> Vec<u8> {
    let mut padded = [message, suffix].concat();
    padded.resize(padded.len().next_multiple_of(rate), 0);
    *padded.last_mut().unwrap() |= 0x80;
    padded.resize(padded.len() + digest / rate * rate, 0);
    let mut a = [[0u64; 5]; 5]; // [x][y]
    let mut squeezed = Vec::new();
    for block in padded.chunks(rate) {
        for (i, word) in block.as_chunks().0.iter().enumerate() {
            a[i % 5][i / 5] ^= u64::from_le_bytes(*word);
        }
        let mut register = [true, false, false, false, false, false, false, false];
        for round in 0..24 {
            let before = a;
            let parity = a.map(|column| column.iter().fold(0, |sum, word| sum ^ word));
            for x in 0..5 {
                a[x] = a[x].map(|word| word ^ parity[(x + 4) % 5] ^ parity[(x + 1) % 5].rotate_left(1));
            }
            let (mut x, mut y) = (1, 0);
            for t in 0..24 {
                a[x][y] = a[x][y].rotate_left((t + 1) * (t + 2) / 2 % 64);
                (x, y) = (y, (2 * x + 3 * y) % 5);
            }
            let b = a;
            for x in 0..5 {
                for y in 0..5 {
                    a[x][y] = b[(x + 3 * y) % 5][x];
                }
            }
            let b = a;
            for x in 0..5 {
                for y in 0..5 {
                    a[x][y] ^= !b[(x + 1) % 5][y] & b[(x + 2) % 5][y];
                }
            }
            for j in 0..7 {
                a[0][0] ^= u64::from(register[0]) << ((1 << j) - 1);
                register.rotate_right(1);
                let carry = register[0];
                for tap in [4, 5, 6] {
                    register[tap] ^= carry;
                }
            }
            if round < 24 - rounds {
                a = before;
            }
        }
        squeezed.push((0..rate / 8).flat_map(move |i| a[i % 5][i / 5].to_le_bytes()));
    }
    // The state after the last block of the message, and the states after the zeros.
    let first = squeezed.len() - 1 - digest / rate;
    squeezed.into_iter().skip(first).flatten().take(digest).collect()
}

/// HMAC over SHA-3 (RFC 2104).
fn plain_hmac(rate: usize, digest: usize, key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut block = if key.len() > rate { plain_sha3(rate, digest, key) } else { key.to_vec() };
    block.resize(rate, 0);
    let keyed = |pad: u8, message: &[u8]| {
        let padded: Vec<u8> = block.iter().map(|byte| byte ^ pad).collect();
        plain_sha3(rate, digest, &[&padded, message].concat())
    };
    keyed(0x5c, &keyed(0x36, message))
}

/// BLAKE2b without a key, as in RFC 7693, appendix C.
fn plain_blake2b(digest: usize, message: &[u8]) -> Vec<u8> {
    const SIGMA: [&[u8; 16]; 10] = [
        b"0123456789abcdef",
        b"ea489fd61c02b753",
        b"b8c052fdae367194",
        b"7931dcbe265a40f8",
        b"905724afe1bc683d",
        b"2c6a0b834d75fe19",
        b"c51fed4a0763928b",
        b"db7ec13950f4862a",
        b"6fe9b308c2d714a5",
        b"a2847615fb9e3cd0",
    ];
    let initial = crate::internal::kernel::sha2::INITIAL_512;
    let mut h = initial;
    h[0] ^= 0x0101_0000 ^ digest as u64;
    let mut blocks: Vec<&[u8]> = message.chunks(128).collect();
    let last = blocks.pop().unwrap_or(&[]);
    let mut compress = |block: &[u8], bytes: usize, is_last: bool| {
        let mut padded = block.to_vec();
        padded.resize(128, 0);
        let m: Vec<u64> = padded.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let mut v: Vec<u64> = [h, initial].concat();
        v[12] ^= bytes as u64;
        v[14] ^= if is_last { u64::MAX } else { 0 };
        for i in 0..12 {
            let s = SIGMA[i % 10].map(|digit| m[(digit as char).to_digit(16).unwrap() as usize]);
            for g in 0..8 {
                let (row, turn) = (g % 4, g / 4);
                let at = |line: usize| 4 * line + (row + turn * line) % 4;
                let (a, b, c, d) = (at(0), at(1), at(2), at(3));
                for (word, first, second) in [(s[2 * g], 32, 24), (s[2 * g + 1], 16, 63)] {
                    v[a] = v[a].wrapping_add(v[b]).wrapping_add(word);
                    v[d] = (v[d] ^ v[a]).rotate_right(first);
                    v[c] = v[c].wrapping_add(v[d]);
                    v[b] = (v[b] ^ v[c]).rotate_right(second);
                }
            }
        }
        for i in 0..8 {
            h[i] ^= v[i] ^ v[i + 8];
        }
    };
    for (i, block) in blocks.iter().enumerate() {
        compress(block, 128 * (i + 1), false);
    }
    compress(last, message.len(), true);
    h.iter().flat_map(|word| word.to_le_bytes()).take(digest).collect()
}

/// Returns a length in bytes, mostly near the end of a block.
fn random_length(block_size: usize, random: &Random) -> usize {
    match random.below(4) {
        0 => random.length(),
        _ => (random.below(5) * block_size + random.below(5)).saturating_sub(2),
    }
}

/// Runs whole messages and pieces of streams of random lengths in one batch, each under a random one of `keys`. Compares the digests
/// with `plain(key, message)`. A session is a key and its setup.
fn check_mixed_jobs<F: Function>(
    setup: impl Fn(Kernels, &[u8]) -> Setup<F>,
    keys: &[Vec<u8>],
    plain: impl Fn(&[u8], &[u8]) -> Vec<u8>,
) {
    let random = Random::new(0x7370_6f6e_6765);
    for level in every_level() {
        let kernels = F::kernels(level);
        let sessions: Vec<(Setup<F>, &Vec<u8>)> = keys.iter().map(|key| (setup(kernels, key), key)).collect();
        let is_keyed = sessions[0].0.is_keyed();
        let any = || &sessions[random.below(sessions.len())];
        for _ in 0..6 {
            let mut streams: Vec<_> = (0..random.below(14))
                .map(|_| any())
                .map(|(setup, key)| (setup, *key, Stream::new(setup), Vec::new()))
                .collect();
            for _ in 0..6 {
                let whole: Vec<_> = (0..random.below(20))
                    .map(|_| (any(), random.bytes(random_length(F::BLOCK_SIZE, &random))))
                    .collect();
                let pieces: Vec<Vec<u8>> =
                    streams.iter().map(|_| random.bytes(random_length(F::BLOCK_SIZE, &random))).collect();
                let mut digests: Vec<Vec<u8>> =
                    whole.iter().map(|((setup, _), _)| vec![0; setup.digest_size]).collect();
                let jobs = whole.iter().zip(&mut digests).map(|(((setup, _), input), output)| Job {
                    setup,
                    stream: None,
                    input,
                    output: Some(output),
                });
                let updates = streams.iter_mut().zip(&pieces);
                let updates = updates.map(|((setup, _, stream, _), input)| Job {
                    setup,
                    stream: Some(stream),
                    input,
                    output: None,
                });
                run(kernels, is_keyed, jobs.chain(updates));
                for (((_, key), message), digest) in whole.iter().zip(&digests) {
                    assert_eq!(*digest, plain(key, message), "{level:?}, {} bytes", message.len());
                }
                for ((.., message), piece) in streams.iter_mut().zip(&pieces) {
                    message.extend(piece);
                }
            }
            // A copy is independent, and a finished stream can be used again.
            for (setup, key, stream, message) in &mut streams {
                let mut copy = stream.clone();
                let mut digest = vec![0; setup.digest_size];
                run_one(kernels, Job { setup, stream: Some(stream), input: b"", output: Some(&mut digest) });
                assert_eq!(digest, plain(key, message), "{level:?}, a stream of {} bytes", message.len());
                run_one(kernels, Job { setup, stream: Some(&mut copy), input: b"!", output: Some(&mut digest) });
                message.push(b'!');
                assert_eq!(digest, plain(key, message), "{level:?}, a copy of {} bytes", message.len());
                run_one(kernels, Job { setup, stream: Some(stream), input: b"again", output: Some(&mut digest) });
                assert_eq!(digest, plain(key, b"again"), "{level:?}");
            }
        }
    }
}

#[test]
fn streams_and_messages_of_random_lengths_share_lanes() {
    let keys: Vec<Vec<u8>> = [0, 1, 20, 71, 72, 73, 136, 137, 300].map(|length| vec![length as u8; length]).into();
    let none = &keys[..1];
    check_mixed_jobs(|_, _| sha3::<144>(28), none, |_, message| plain_sha3(144, 28, message));
    check_mixed_jobs(|_, _| sha3::<136>(32), none, |_, message| plain_sha3(136, 32, message));
    check_mixed_jobs(|_, _| sha3::<104>(48), none, |_, message| plain_sha3(104, 48, message));
    check_mixed_jobs(|_, _| sha3::<72>(64), none, |_, message| plain_sha3(72, 64, message));
    check_mixed_jobs::<Keccak<136>>(
        |kernels, key| Setup::hmac(kernels, INITIAL, 32, key),
        &keys,
        |key, message| plain_hmac(136, 32, key, message),
    );
    check_mixed_jobs::<Keccak<72>>(
        |kernels, key| Setup::hmac(kernels, INITIAL, 64, key),
        &keys,
        |key, message| plain_hmac(72, 64, key, message),
    );
    for digest in [1, 32, 136, 168, 500] {
        check_mixed_jobs::<Keccak<168>>(
            |_, _| Setup::xof(digest, 0, DOMAIN_SHAKE),
            none,
            |_, message| plain_keccak(168, 24, &[0x1f], digest, message),
        );
        check_mixed_jobs::<Keccak<136, 12>>(
            |_, _| Setup::xof(digest, 0, DOMAIN_SHAKE),
            none,
            |_, message| plain_keccak(136, 12, &[0x1f], digest, message),
        );
    }
    let blake2b =
        |digest: usize| move |_: Kernels, _: &[u8]| Setup::<Blake2b>::digest(Blake2b::initial(digest), digest);
    check_mixed_jobs(blake2b(32), none, |_, message| plain_blake2b(32, message));
    check_mixed_jobs(blake2b(64), none, |_, message| plain_blake2b(64, message));
}

/// The shortest messages, and every length around the ends of two blocks: alone, in all lanes at once, and in two pieces.
fn check_block_boundaries<F: Function>(setup: &Setup<F>, plain: impl Fn(&[u8]) -> Vec<u8>) {
    let block = F::BLOCK_SIZE;
    let all: Vec<usize> = (0..4).chain(block - 3..block + 4).chain(2 * block - 3..2 * block + 4).collect();
    for level in every_level() {
        let kernels = F::kernels(level);
        for &length in &all {
            let message: Vec<u8> = (0..length).map(|i| (i * 31 + length) as u8).collect();
            let expected = plain(&message);
            assert_eq!(digest_one(kernels, setup, &message), expected, "{level:?}, {length} bytes");
            let others = |lane: usize| message.iter().map(|byte| byte ^ lane as u8).collect();
            let messages: Vec<Vec<u8>> = (0..=kernels.lanes).map(others).collect();
            for (message, digest) in messages.iter().zip(side_by_side(kernels, setup, &messages)) {
                assert_eq!(digest, plain(message), "{level:?}, {length} bytes side by side");
            }
            // Every split in two pieces.
            for first in 0..=length {
                let mut stream = Stream::new(setup);
                let (head, tail) = message.split_at(first);
                run_one(kernels, Job { setup, stream: Some(&mut stream), input: head, output: None });
                let mut digest = vec![0; setup.digest_size];
                run_one(kernels, Job { setup, stream: Some(&mut stream), input: tail, output: Some(&mut digest) });
                assert_eq!(digest, expected, "{level:?}, {length} bytes, split at {first}");
            }
        }
    }
}

#[test]
fn messages_around_block_boundaries_match_the_reference_in_every_split() {
    check_block_boundaries(&sha3::<144>(28), |message| plain_sha3(144, 28, message));
    check_block_boundaries(&sha3::<136>(32), |message| plain_sha3(136, 32, message));
    check_block_boundaries(&sha3::<104>(48), |message| plain_sha3(104, 48, message));
    check_block_boundaries(&sha3::<72>(64), |message| plain_sha3(72, 64, message));
    check_block_boundaries::<Keccak<168>>(&Setup::xof(170, 0, DOMAIN_SHAKE), |message| {
        plain_keccak(168, 24, &[0x1f], 170, message)
    });
    check_block_boundaries::<Keccak<168, 12>>(&Setup::xof(400, 1, 7), |message| {
        plain_keccak(168, 12, &[0, 7], 400, message)
    });
    check_block_boundaries::<Blake2b>(&Setup::digest(Blake2b::initial(32), 32), |message| plain_blake2b(32, message));
}

#[test]
fn keys_and_streams_are_wiped() {
    let kernels = <Keccak<136>>::kernels(Level::detect_at_most(None));
    let setup = Setup::<Keccak<136>>::hmac(kernels, INITIAL, 32, b"secret");
    let mut setup = Box::new(core::mem::ManuallyDrop::new(setup));
    let mut stream = Box::new(core::mem::ManuallyDrop::new(Stream::new(&setup)));
    run_one(kernels, Job { setup: &setup, stream: Some(&mut stream), input: b"also secret", output: None });
    assert!(stream.state != [0; STATE_WORDS] && stream.buffer != [0; MAX_BLOCK_SIZE]);
    // SAFETY: each value is dropped once. Only plain fields that `drop` leaves in place are read afterwards.
    unsafe {
        core::mem::ManuallyDrop::drop(&mut setup);
        core::mem::ManuallyDrop::drop(&mut stream);
    }
    assert!(setup.state == [0; STATE_WORDS] && setup.outer.is_none());
    assert!(stream.state == [0; STATE_WORDS] && stream.buffer == [0; MAX_BLOCK_SIZE]);
}
