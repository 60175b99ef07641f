//! What is compressed here is read by the programs that everybody has, and the other way round; and bombs stay in their buffers.

mod common;

use std::io::Write as _;
use std::process::{Command, Stdio};

use common::{bytes, software};
use gantry_core::{Algorithm, AlgorithmInfo, Error, Outcome, Session, SessionParams};

fn session(algorithm: Algorithm, level: usize) -> Session {
    software().session(SessionParams::new(algorithm, &[]).level(level)).unwrap()
}

fn compress(session: &Session, data: &[u8]) -> Vec<u8> {
    let mut compressed = vec![0; AlgorithmInfo::compressed_max(data.len())];
    let length = session.compress(data, &mut compressed).unwrap();
    compressed.truncate(length);
    compressed
}

/// What a program writes that reads `input`.
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

/// Few letters, noise, and what came long before.
fn data() -> Vec<u8> {
    let letters: Vec<u8> = bytes(200_000, 3).into_iter().map(|byte| b'a' + byte % 7).collect();
    [&letters[..], &bytes(5000, 4), &letters[..70_000]].concat()
}

#[test]
fn gzip_and_zstd_read_what_is_written_here_and_the_other_way_round() {
    let data = data();
    for (algorithm, name, levels) in [(Algorithm::Gzip, "gzip", [1, 6, 9]), (Algorithm::Zstd, "zstd", [1, 3, 19])] {
        if Command::new(name).arg("--version").output().is_err() {
            // gzip is part of every system.
            gantry_lab::skip(name);
            continue;
        }
        let mut lengths = Vec::new();
        for level in levels {
            let session = session(algorithm, level);
            let ours = compress(&session, &data);
            assert_eq!(program(&[name, "-dc"], &ours), data, "{name} {level}");
            let theirs = program(&[name, "-c", &format!("-{level}")], &data);
            let mut back = vec![0; data.len()];
            assert_eq!(session.decompress(&theirs, &mut back), Ok(data.len()));
            assert_eq!(back, data, "{name} {level}");
            lengths.push(ours.len());
        }
        assert!(lengths[2] < lengths[0], "{name}: levels {levels:?} leave {lengths:?} bytes");
        // Members and frames one after another are files, too.
        let two = [compress(&session(algorithm, 1), b"one, "), compress(&session(algorithm, 9), b"two")].concat();
        assert_eq!(program(&[name, "-dc"], &two), b"one, two");
    }
}

/// A megabyte of zeros is a thousand bytes; what comes out is as long as the buffer, or nothing.
#[test]
fn a_bomb_ends_where_its_buffer_does() {
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
fn a_result_that_has_no_room_is_no_fault() {
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
