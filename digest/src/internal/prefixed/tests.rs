//! Tests of prefixed messages. Each digest must equal that of the prefix and the message in one piece.

use super::*;
use crate::level::every_level;
use crate::random::Random;
use crate::{Algorithm, digest_many};

type NewPrefix = fn(Level, &[u8]) -> Prefix;

/// Returns the digest of the prefix and the message in one piece. `function` is an index of `FUNCTIONS`.
fn expected(function: usize, prefix: &[u8], message: &[u8]) -> Vec<u8> {
    let whole = [prefix, message].concat();
    let mut digest = alloc::vec![0; [32, 64, 136][function]];
    match function {
        0 => digest_many(Algorithm::Sha256, &[whole], &mut digest).unwrap(),
        1 => digest_many(Algorithm::Sha512, &[whole], &mut digest).unwrap(),
        _ => shake256(&[&whole], &mut digest),
    }
    digest
}

const FUNCTIONS: [NewPrefix; 3] = [Prefix::sha256_on, Prefix::sha512_on, Prefix::shake256_on];

#[test]
fn prefixed_messages_equal_digests_of_the_concatenation() {
    let random = Random::new(0x7072_6566);
    for level in every_level() {
        for (function, new) in FUNCTIONS.into_iter().enumerate() {
            // Lengths in bytes. Some prefixes consist of whole blocks, and some messages end near the end of a block.
            for (prefix, length) in
                [(64, 38), (0, 1), (16, 63), (128, 22), (128, 111), (24, 112), (136, 0), (300, 500), (32, 104)]
            {
                let prefix = random.bytes(prefix);
                for count in [1, 2, 3, 5, 15, 16, 17, 40] {
                    let mut messages = PrefixedMessages::new(&new(level, &prefix), length, count);
                    let contents: Vec<_> = (0..count).map(|_| random.bytes(length)).collect();
                    for (i, content) in contents.iter().enumerate() {
                        messages.message_mut(i).copy_from_slice(content);
                    }
                    let size = [8, 16, 24, 32][count % 4];
                    let mut output = alloc::vec![0xa5; count * size];
                    messages.digest(size, &mut output);
                    for (content, digest) in contents.iter().zip(output.chunks_exact(size)) {
                        let expected = &expected(function, &prefix, content)[..size];
                        assert_eq!(digest, expected, "{level:?} {function} {count}");
                    }
                }
            }
        }
    }
}

#[test]
fn digest_in_place_changes_only_the_bytes_of_digests() {
    let random = Random::new(0x706c_6163);
    for level in every_level() {
        for (function, new) in FUNCTIONS.into_iter().enumerate() {
            let (prefix, content) = (random.bytes(64), random.bytes(60));
            let mut messages = PrefixedMessages::new(&new(level, &prefix), 60, 23);
            for i in 0..23 {
                messages.message_mut(i).copy_from_slice(&content);
            }
            for _ in 0..2 {
                messages.digest_in_place(1..22, 22, 32);
            }
            let mut after = content.clone();
            for _ in 0..2 {
                let digest = expected(function, &prefix, &after);
                after[22..54].copy_from_slice(&digest[..32]);
            }
            for i in 0..23 {
                let changed = (1..22).contains(&i);
                assert_eq!(messages.message(i), if changed { &after } else { &content }, "{level:?} {function} {i}");
            }
        }
    }
}

/// Expects a digest from CPython's hashlib.
#[test]
fn shake256_of_parts_equals_that_of_the_concatenation() {
    let mut output = [0; 16];
    shake256(&[b"a", b"", b"bc"], &mut output);
    assert_eq!(output[..8], [0x48, 0x33, 0x66, 0x60, 0x13, 0x60, 0xa8, 0x77]);
}
