//! Messages at any address, and messages with an `as_ref` that panics or may return other bytes at each call.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::{hash_one, on_every_level};
use crate::random::Random;
use crate::*;

/// Bytes before and after an output, which must keep their value.
const BORDER: usize = 67;

/// Runs `work` on an output of this size at an odd address. Returns the output.
fn between_borders(size: usize, work: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut bytes = vec![0xa5; BORDER + size + BORDER];
    work(&mut bytes[BORDER..BORDER + size]);
    assert!([&bytes[..BORDER], &bytes[BORDER + size..]].concat().iter().all(|byte| *byte == 0xa5));
    bytes[BORDER..BORDER + size].to_vec()
}

#[test]
fn messages_and_outputs_may_lie_at_any_address() {
    let bytes = Random::new(0x616c_6967).bytes(1500);
    on_every_level(|level| {
        for algorithm in Algorithm::ALL {
            let size = algorithm.digest_size();
            for length in [24, 64, algorithm.block_size(), 3 * algorithm.block_size() + 5] {
                let messages: Vec<&[u8]> = (0..=64).map(|address| &bytes[address..][..length]).collect();
                let output = between_borders(messages.len() * size, |output| {
                    digest_many(algorithm, &messages, output).unwrap();
                });
                for (message, digest) in messages.iter().zip(output.chunks_exact(size)) {
                    assert_eq!(digest, hash_one(Hasher::new(algorithm), message, 401), "{level} {algorithm}, {length}");
                }
            }
        }
        for function in NodeHash::ALL {
            for address in 0..=64 {
                let children = bytes[address..][..20 * 64].as_chunks().0;
                let (aligned, mut expected) = (children.to_vec(), vec![[0; 32]; 20]);
                hash_pairs(function, &aligned, &mut expected).unwrap();
                let output = between_borders(20 * 32, |output| {
                    hash_pairs(function, children, output.as_chunks_mut().0).unwrap();
                });
                assert_eq!(output, expected.as_flattened(), "{level} {function:?}, {address}");
            }
        }
    });
}

/// A message that gets its bytes from `answer`. `answer` takes the number of the call, counted over all messages.
struct Message<'a> {
    bytes: &'a [u8],
    calls: &'a Cell<usize>,
    answer: &'a dyn Fn(usize, &'a [u8]) -> &'a [u8],
}

impl AsRef<[u8]> for Message<'_> {
    fn as_ref(&self) -> &[u8] {
        self.calls.set(self.calls.get() + 1);
        (self.answer)(self.calls.get(), self.bytes)
    }
}

/// Runs `test` for every function that asks messages for their bytes: with a name, the digest size in bytes, and a closure for the call.
fn with_every_call(test: impl Fn(&str, usize, &dyn Fn(&[Message<'_>], &mut [u8]))) {
    for algorithm in Algorithm::ALL {
        let (name, size) = (algorithm.as_str(), algorithm.digest_size());
        let (key, mut prefix) = (HmacKey::new(algorithm, b"key"), Hasher::new(algorithm));
        prefix.update(b"prefix");
        test(name, size, &|messages, output| digest_many(algorithm, messages, output).unwrap());
        test(name, size, &|messages, output| digest_many_after(&prefix, messages, output).unwrap());
        test(name, size, &|messages, output| hmac_many(&key, messages, output).unwrap());
        test(name, size, &|messages, output| {
            let keys: Vec<_> = messages.iter().map(|_| HmacKey::new(algorithm, b"key")).collect();
            hmac_each(&keys, messages, output).unwrap();
        });
    }
    test("BLAKE3", 32, &|messages, output| Blake3::new().digest_many(messages, output.as_chunks_mut().0).unwrap());
    test("checked SHA-1", 20, &|messages, output| {
        let mut results = vec![Ok([0; 20]); messages.len()];
        Sha1Checked::digest_many(messages, &mut results).unwrap();
        output.as_chunks_mut().0.iter_mut().zip(results).for_each(|(output, result)| *output = result.unwrap());
    });
}

/// Empty messages and messages of one, two and many blocks. There are more messages than slots and lanes.
fn some_bytes() -> Vec<Vec<u8>> {
    let random = Random::new(0x7061_6e69);
    (0..40).map(|i| random.bytes([24, 0, 64, 100, 120, 700, 3][i % 7])).collect()
}

#[test]
fn a_panic_of_any_message_reaches_the_caller_and_the_next_call_is_right() {
    let (bytes, calls, last) = (some_bytes(), Cell::new(0), Cell::new(0));
    let answer = |call, bytes| if call == last.get() { resume_unwind(Box::new("no bytes")) } else { bytes };
    let messages: Vec<_> = bytes.iter().map(|bytes| Message { bytes, calls: &calls, answer: &answer }).collect();
    on_every_level(|level| {
        with_every_call(|name, size, call| {
            // Calls of `as_ref` are counted from 1, so no message panics if `panics_at` is 0.
            let digests = |panics_at| {
                calls.set(0);
                last.set(panics_at);
                between_borders(messages.len() * size, |output| {
                    let result = catch_unwind(AssertUnwindSafe(|| call(&messages, output)));
                    let panic = result.err().map(|panic| *panic.downcast_ref::<&str>().unwrap());
                    assert_eq!(panic, (panics_at > 0).then_some("no bytes"), "{level} {name}, call {panics_at}");
                })
            };
            let expected = digests(0);
            (1..=calls.get()).for_each(|call| _ = digests(call));
            assert_eq!(digests(0), expected, "{level} {name}");
        });
    });
}

/// Such a message may get the digest of any bytes, so the test compares no digests.
#[test]
fn messages_that_change_their_length_from_call_to_call_spoil_no_other_memory() {
    let (bytes, calls, random) = (Random::new(0x6368_616e).bytes(2000), Cell::new(0), Random::new(0x6765));
    let answer = |_, _: &_| &bytes[..[0, 24, 55, 64, 119, 120, 700, 2000][random.below(8)]];
    let messages: Vec<_> = (0..70).map(|_| Message { bytes: &[], calls: &calls, answer: &answer }).collect();
    on_every_level(|_| {
        with_every_call(|_, size, call| {
            for count in [1, 2, 17, 70] {
                between_borders(count * size, |output| call(&messages[..count], output));
            }
        });
    });
}

#[test]
#[cfg(target_arch = "x86_64")]
#[cfg_attr(debug_assertions, ignore = "about optimized code: scripts/test")]
fn messages_that_panic_leave_nothing_of_their_keys_on_the_stack() {
    struct Bytes(Option<Vec<u8>>);

    impl AsRef<[u8]> for Bytes {
        fn as_ref(&self) -> &[u8] {
            self.0.as_deref().unwrap_or_else(|| resume_unwind(Box::new("no bytes")))
        }
    }

    let random = Random::new(0x756e_7769);
    let messages: Vec<_> = (0..30).map(|i| Bytes((i < 29).then(|| random.bytes(random.length())))).collect();
    for algorithm in Algorithm::ALL {
        let secret = random.bytes(40);
        let pad = |with: u8| secret.iter().map(|byte| byte ^ with).collect();
        let secrets: Vec<Vec<u8>> = vec![secret.clone(), pad(0x36), pad(0x5c)];
        let mut output = vec![0; 30 * algorithm.digest_size()];
        let stack = internal::stack::stack_after(|| {
            let key = HmacKey::new(algorithm, &secret);
            let many = AssertUnwindSafe(|| hmac_many(&key, &messages, &mut output));
            assert!(catch_unwind(many).is_err());
        });
        assert!(!internal::stack::holds_secret(&stack, &secrets), "{algorithm}");
    }
}
