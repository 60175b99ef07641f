//! Messages around the ends of chunks, by themselves, many at a time and in pieces, against a plain implementation.

use super::*;
use crate::internal::dispatch::sponge::Function;
use crate::internal::sponge::tests::plain_keccak;
use crate::level::{Level, every_level};
use crate::random::Random;

/// KT128 as RFC 9861, section 3.2, defines it.
fn reference(digest: usize, message: &[u8]) -> Vec<u8> {
    let whole = [message, &[0]].concat();
    let mut chunks = whole.chunks(CHUNK_SIZE);
    let first = chunks.next().unwrap();
    if chunks.len() == 0 {
        return plain_keccak(168, 12, &[0x07], digest, first);
    }
    let leaves = chunks.len();
    assert!(leaves < 1 << 16);
    let mut node = [first, &NODE_PREFIX].concat();
    node.extend(chunks.flat_map(|chunk| plain_keccak(168, 12, &[0x0b], 32, chunk)));
    if leaves > 0xff {
        node.push((leaves >> 8) as u8);
    }
    node.extend([leaves as u8, if leaves > 0xff { 2 } else { 1 }, 0xff, 0xff]);
    plain_keccak(168, 12, &[0x06], digest, &node)
}

fn message(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 + i / 300 + length) as u8).collect()
}

fn digest_one(kernels: Kernels, message: &[u8], digest: usize) -> Vec<u8> {
    let mut output = vec![0xa5; digest];
    run_one(kernels, Job { stream: None, input: message, output: Some(&mut output) });
    output
}

#[test]
fn messages_around_chunk_boundaries_match_the_reference() {
    // The last message has more leaves than fit side by side, and more than a byte can count.
    let lengths = [0, 1, 166, 167, 168, 8190, 8191, 8192, 8193, 16383, 16384, 16385, 70_000, 64 * 8192, 300 * 8192 + 9];
    let expected: Vec<(Vec<u8>, Vec<u8>)> =
        lengths.iter().map(|&length| (message(length), reference(200, &message(length)))).collect();
    for level in every_level() {
        let kernels = TurboShake128::kernels(level);
        for (message, digest) in &expected {
            assert_eq!(digest_one(kernels, message, 200), *digest, "{level:?}, {} bytes", message.len());
            assert_eq!(digest_one(kernels, message, 7), digest[..7], "{level:?}, {} bytes", message.len());
        }
        // All at once: more messages than the code works on at a time.
        let mut outputs = vec![[0xa5; 200]; 3 * expected.len()];
        let inputs = expected.iter().cycle().map(|(message, _)| message);
        let jobs = inputs.zip(&mut outputs);
        run(kernels, jobs.map(|(input, output)| Job { stream: None, input, output: Some(output) }));
        for ((message, digest), output) in expected.iter().cycle().zip(&outputs) {
            assert_eq!(output[..], *digest, "{level:?}, {} bytes, with others", message.len());
        }
    }
}

/// Pieces end at the end of a chunk, near it, and anywhere.
#[test]
fn pieces_of_many_messages_match_the_reference() {
    let random = Random::new(0x006b_7431_3238);
    let length = || match random.below(8) {
        0 => 0,
        1 => CHUNK_SIZE,
        2 => CHUNK_SIZE * (1 + random.below(12)) + random.below(3) - 1,
        3 => random.below(90_000),
        _ => random.below(9000),
    };
    for level in every_level() {
        let kernels = TurboShake128::kernels(level);
        for _ in 0..4 {
            let mut streams: Vec<(Kt128Stream, Vec<u8>)> =
                (0..=random.below(20)).map(|_| (Kt128Stream::new(), Vec::new())).collect();
            for _ in 0..5 {
                let pieces: Vec<Vec<u8>> = streams.iter().map(|_| random.bytes(length())).collect();
                let whole = random.bytes(length());
                let mut digest = [0; 32];
                let jobs = streams.iter_mut().zip(&pieces);
                let jobs = jobs.map(|((stream, _), input)| Job { stream: Some(stream), input, output: None });
                let between = Job { stream: None, input: &whole, output: Some(&mut digest) };
                run(kernels, core::iter::once(between).chain(jobs));
                assert_eq!(digest[..], reference(32, &whole), "{level:?}, {} bytes among pieces", whole.len());
                for ((_, message), piece) in streams.iter_mut().zip(&pieces) {
                    message.extend(piece);
                }
            }
            // A copy is independent, and a finished stream can be used again.
            for (stream, message) in &mut streams {
                let mut copy = stream.clone();
                let mut digest = [0; 300];
                run_one(kernels, Job { stream: Some(stream), input: b"", output: Some(&mut digest) });
                assert_eq!(digest[..], reference(300, message), "{level:?}, pieces of {} bytes", message.len());
                run_one(kernels, Job { stream: Some(&mut copy), input: &[9; 5000], output: Some(&mut digest) });
                message.extend([9; 5000]);
                assert_eq!(digest[..], reference(300, message), "{level:?}, a copy of {} bytes", message.len());
                run_one(kernels, Job { stream: Some(stream), input: b"again", output: Some(&mut digest) });
                assert_eq!(digest[..], reference(300, b"again"), "{level:?}");
            }
        }
    }
}

/// Updates without bytes after a whole chunk, among more streams than the code works on at a time.
#[test]
fn empty_pieces_after_a_whole_chunk_change_nothing() {
    let kernels = TurboShake128::kernels(Level::detect_at_most(None));
    let message = message(2 * CHUNK_SIZE);
    let mut streams = vec![Kt128Stream::new(); 3 * MAX_TASKS];
    for piece in [&message[..], b"", b""] {
        run(kernels, streams.iter_mut().map(|stream| Job { stream: Some(stream), input: piece, output: None }));
    }
    let mut digest = [0; 32];
    for stream in &mut streams {
        run_one(kernels, Job { stream: Some(stream), input: b"", output: Some(&mut digest) });
        assert_eq!(digest[..], reference(32, &message));
    }
}
