//! Collisions in every lane, and agreement with the crate `sha1-checked`.

use super::*;
use crate::level::every_level;
use crate::random::Random;
use crate::tests::on_every_level;

/// Messages of collisions: the first blocks of the two documents of SHAttered (2017, <https://shattered.io>), and the two messages of
/// "SHA-1 is a Shambles" (2020, <https://sha-mbles.github.io>).
const COLLISIONS: [&[u8]; 4] = [
    include_bytes!("../../tests/data/shattered-1.bin"),
    include_bytes!("../../tests/data/shattered-2.bin"),
    include_bytes!("../../tests/data/sha-mbles-1.bin"),
    include_bytes!("../../tests/data/sha-mbles-2.bin"),
];

/// The result of the crate `sha1-checked`.
fn reference_digest(message: &[u8]) -> Result<[u8; DIGEST_SIZE], Collision> {
    let result = ::sha1_checked::Sha1::try_digest(message);
    if result.has_collision() { Err(Collision) } else { Ok((*result.hash()).into()) }
}

fn digest_many(messages: &[impl AsRef<[u8]>]) -> Vec<Result<[u8; DIGEST_SIZE], Collision>> {
    let mut results = vec![Ok([0xa5; DIGEST_SIZE]); messages.len()];
    Sha1Checked::digest_many(messages, &mut results).unwrap();
    results
}

#[test]
fn collisions_are_refused_in_every_lane_and_batch() {
    let random = Random::new(0x7368_6131);
    let others: Vec<Vec<u8>> = (0..40).map(|_| random.bytes(random.length())).collect();
    on_every_level(|level| {
        for collision in COLLISIONS {
            // The collision alone, and with bytes after it.
            for message in [collision, &[collision, b"more"].concat()] {
                assert_eq!(Sha1Checked::digest(message), Err(Collision), "{level}");
                for count in [1, 2, 3, 5, 8, 16, 17, 33, 40] {
                    for place in 0..count {
                        let mut messages: Vec<&[u8]> = others[..count].iter().map(Vec::as_slice).collect();
                        messages[place] = message;
                        for (i, result) in digest_many(&messages).into_iter().enumerate() {
                            assert_eq!(result.is_err(), i == place, "{level}, {place} of {count}");
                        }
                    }
                    assert_eq!(digest_many(&vec![message; count]), vec![Err(Collision); count], "{level}, {count}");
                }
            }
        }
    });
}

#[test]
fn collisions_in_pieces_are_refused_and_the_next_message_is_not() {
    on_every_level(|level| {
        for collision in COLLISIONS {
            for piece in [1, 63, 64, 100, 640] {
                let mut hasher = Sha1Checked::new();
                collision.chunks(piece).for_each(|piece| hasher.update(piece));
                assert_eq!(hasher.clone().finish(), Err(Collision), "{level}, pieces of {piece}");
                assert_eq!(hasher.finish(), Err(Collision), "{level}, pieces of {piece}");
                hasher.update(b"abc");
                assert_eq!(hasher.finish(), reference_digest(b"abc"), "{level}");
            }
        }
    });
}

/// A block of a collision is harmless after blocks other than its own, and the first blocks of a collision are harmless alone.
#[test]
fn parts_of_collisions_have_the_results_of_sha1_checked() {
    let mut messages = Vec::new();
    for collision in COLLISIONS {
        messages.extend((0..=collision.len()).map(|length| collision[..length].to_vec()));
        messages.extend((0..collision.len() / 64).map(|block| collision[64 * block..].to_vec()));
        messages.extend((0..collision.len()).map(|place| {
            let mut changed = collision.to_vec();
            changed[place] ^= 1;
            changed
        }));
    }
    let expected: Vec<_> = messages.iter().map(|message| reference_digest(message)).collect();
    assert!(expected.iter().filter(|result| result.is_err()).count() >= COLLISIONS.len());
    on_every_level(|level| {
        assert_eq!(digest_many(&messages), expected, "{level}");
        for (message, expected) in messages.iter().zip(&expected) {
            assert_eq!(Sha1Checked::digest(message), *expected, "{level}, {} bytes", message.len());
        }
    });
}

/// Without SHA instructions, one message has another kernel: `every_level` also masks single features, unlike `on_every_level`.
#[test]
fn kernels_of_every_level_refuse_collisions() {
    let random = Random::new(0x6c65_7665);
    let others: Vec<Vec<u8>> = (0..17).map(|_| random.bytes(random.length())).collect();
    for level in every_level() {
        for count in [1, 2, 4, 5, 17] {
            let messages: Vec<&[u8]> = others.iter().map(Vec::as_slice).chain(COLLISIONS).collect();
            for messages in messages.chunks(count) {
                let mut outputs = vec![[0xa5; OUTPUT_SIZE]; messages.len()];
                run_whole(level, &SETUP, None, &Slices(messages), outputs.as_flattened_mut());
                for (message, output) in messages.iter().zip(&outputs) {
                    assert_eq!(split_output(output), reference_digest(message), "{level:?}, batches of {count}");
                }
            }
        }
    }
}

#[test]
fn random_messages_have_the_digest_of_sha1() {
    let random = Random::new(0x7261_6e64);
    on_every_level(|level| {
        let messages: Vec<Vec<u8>> = (0..300).map(|_| random.bytes(random.length())).collect();
        for (result, message) in digest_many(&messages).into_iter().zip(&messages) {
            assert_eq!(result, reference_digest(message), "{level}, {} bytes", message.len());
            assert!(result.is_ok());
        }
    });
}

#[test]
fn batches_of_every_size_and_length_have_the_results_of_sha1_checked() {
    let random = Random::new(0x7369_7a65);
    let messages: Vec<Vec<u8>> = (0..=300).map(|length| random.bytes(length)).collect();
    let expected: Vec<_> = messages.iter().map(|message| reference_digest(message)).collect();
    on_every_level(|level| {
        assert_eq!(digest_many(&messages), expected, "{level}");
        for count in 0..=40 {
            // The messages have one to five blocks.
            let range = 24 + 5 * count..24 + 6 * count;
            assert_eq!(digest_many(&messages[range.clone()]), expected[range], "{level}, {count}");
        }
    });
}

#[test]
fn results_of_another_number_than_the_messages_are_refused() {
    let error = Sha1Checked::digest_many(&["a", "b"], &mut [Err(Collision)]);
    assert_eq!(error, Err(Error::OutputLength { needed: 40, found: 20 }));
}
