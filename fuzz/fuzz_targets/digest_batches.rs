//! Batches of BLAKE3 and of SHA-1 with collision detection have the results of independent implementations, at every level of the CPU.

#![no_main]

use arbitrary::Arbitrary;
use gantry_digest::{Blake3, Collision, LevelName, Sha1Checked, limit_level};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    level: u8,
    function: Function,
    /// The length of each message. The messages follow each other in `data`, which repeats.
    lengths: Vec<u16>,
    data: &'a [u8],
}

#[derive(Arbitrary, Debug)]
enum Function {
    Blake3,
    Keyed([u8; 32]),
    DeriveKey(String),
    /// Pieces of this many bytes, and whole messages.
    Sha1Checked(u8),
}

fuzz_target!(|input: Input<'_>| {
    limit_level(LevelName::ALL[usize::from(input.level) % LevelName::ALL.len()]);
    let lengths: Vec<usize> = input.lengths.iter().take(70).map(|length| usize::from(length % 5000)).collect();
    let total = lengths.iter().sum();
    let mut bytes = input.data.iter().chain([&0]).cycle().copied().take(total);
    let messages: Vec<Vec<u8>> = lengths.into_iter().map(|length| bytes.by_ref().take(length).collect()).collect();
    match input.function {
        Function::Blake3 => check_blake3(&Blake3::new(), &messages, blake3::Hasher::new()),
        Function::Keyed(key) => check_blake3(&Blake3::keyed(&key), &messages, blake3::Hasher::new_keyed(&key)),
        Function::DeriveKey(context) => {
            check_blake3(&Blake3::derive_key(&context), &messages, blake3::Hasher::new_derive_key(&context));
        }
        Function::Sha1Checked(piece) => check_sha1(&messages, usize::from(piece) + 1),
    }
});

fn check_blake3(blake3: &Blake3, messages: &[Vec<u8>], mut peer: blake3::Hasher) {
    let mut digests = vec![[0xA5; 32]; messages.len()];
    blake3.digest_many(messages, &mut digests).expect("a place for each digest");
    for (message, digest) in messages.iter().zip(digests) {
        assert_eq!(digest, *peer.reset().update(message).finalize().as_bytes());
        assert_eq!(digest, blake3.digest(message));
    }
}

fn check_sha1(messages: &[Vec<u8>], piece: usize) {
    let mut results = vec![Ok([0xA5; 20]); messages.len()];
    Sha1Checked::digest_many(messages, &mut results).expect("a place for each result");
    for (message, result) in messages.iter().zip(results) {
        let peer = sha1_checked::Sha1::try_digest(message);
        assert_eq!(result, if peer.has_collision() { Err(Collision) } else { Ok((*peer.hash()).into()) });
        let mut hasher = Sha1Checked::new();
        message.chunks(piece).for_each(|piece| hasher.update(piece));
        assert_eq!(hasher.finish(), result);
    }
}
