//! Checks that common programs read our compressed data and we read theirs, and that decompression bombs stay in their buffers.

mod common;

use std::io::Write as _;
use std::process::{Command, Stdio};

use common::{bytes, software};
use gantry_core::{Algorithm, AlgorithmInfo, Error, Outcome, Session, SessionParams};

fn session(algorithm: Algorithm, level: usize) -> Session {
    software().session(SessionParams::new(algorithm, &[]).with_level(level)).unwrap()
}

fn compress(session: &Session, data: &[u8]) -> Vec<u8> {
    let mut compressed = vec![0; AlgorithmInfo::compressed_max(data.len())];
    let length = session.compress(data, &mut compressed).unwrap();
    compressed.truncate(length);
    compressed
}

/// Returns the output of a program for `input`.
fn program(command: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child =
        Command::new(command[0]).args(&command[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(input).unwrap());
        child.wait_with_output().unwrap()
    });
    assert!(output.status.success(), "{command:?}");
    output.stdout
}

/// Returns a few distinct letters, noise, and a distant repetition.
fn data() -> Vec<u8> {
    let letters: Vec<u8> = bytes(200_000, 3).into_iter().map(|byte| b'a' + byte % 7).collect();
    [&letters[..], &bytes(5000, 4), &letters[..70_000]].concat()
}

#[test]
fn gzip_and_zstd_are_compatible_in_both_directions() {
    let data = data();
    for (algorithm, name, levels) in [(Algorithm::Gzip, "gzip", [1, 6, 9]), (Algorithm::Zstd, "zstd", [1, 3, 19])] {
        if Command::new(name).arg("--version").output().is_err() {
            // Every system has gzip.
            gantry_lab::skip(name);
            continue;
        }
        let mut lengths = Vec::new();
        for level in levels {
            let session = session(algorithm, level);
            let compressed = compress(&session, &data);
            assert_eq!(program(&[name, "-dc"], &compressed), data, "{name} {level}");
            let program_output = program(&[name, "-c", &format!("-{level}")], &data);
            let mut back = vec![0; data.len()];
            assert_eq!(session.decompress(&program_output, &mut back), Ok(data.len()));
            assert_eq!(back, data, "{name} {level}");
            lengths.push(compressed.len());
        }
        assert!(lengths[2] < lengths[0], "{name}: levels {levels:?} leave {lengths:?} bytes");
        // Concatenated members or frames are valid files too.
        let two = [compress(&session(algorithm, 1), b"one, "), compress(&session(algorithm, 9), b"two")].concat();
        assert_eq!(program(&[name, "-dc"], &two), b"one, two");
    }
}

/// A megabyte of zeros compresses to about a thousand bytes. Decompression fills at most the buffer.
#[test]
fn a_decompression_bomb_stays_in_its_buffer() {
    for algorithm in [Algorithm::Deflate, Algorithm::Zlib, Algorithm::Gzip, Algorithm::Zstd] {
        let session = session(algorithm, 9);
        let bomb = compress(&session, &vec![0; 1 << 20]);
        assert!(bomb.len() < 2000, "{algorithm}: {} bytes", bomb.len());
        let mut room = vec![7; 5000];
        let result = session.decompress(&bomb, &mut room[..4096]);
        assert_eq!(result, Err(Error::Refused(Outcome::NoRoom)), "{algorithm}");
        assert_eq!(room[4096..], [7; 904], "{algorithm}");
    }
}

#[test]
fn a_result_that_does_not_fit_is_an_outcome() {
    let gantry = software();
    for algorithm in [Algorithm::Deflate, Algorithm::Zlib, Algorithm::Gzip, Algorithm::Zstd] {
        let session = gantry.session(SessionParams::new(algorithm, &[])).unwrap();
        let noise = bytes(3000, 8);
        for room in [0, 1, 20, 2999] {
            let result = session.compress(&noise, &mut vec![0; room]);
            assert_eq!(result, Err(Error::Refused(Outcome::NoRoom)), "{algorithm}, {room} bytes");
        }
        assert!(compress(&session, &noise).len() <= AlgorithmInfo::compressed_max(noise.len()));
        assert!(compress(&session, &[]).len() <= AlgorithmInfo::compressed_max(0));
    }
}
