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
fn run_program(command: &[&str], input: &[u8]) -> Vec<u8> {
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
            assert_eq!(run_program(&[name, "-dc"], &compressed), data, "{name} {level}");
            let program_output = run_program(&[name, "-c", &format!("-{level}")], &data);
            let mut decompressed = vec![0; data.len()];
            assert_eq!(session.decompress(&program_output, &mut decompressed), Ok(data.len()));
            assert_eq!(decompressed, data, "{name} {level}");
            lengths.push(compressed.len());
        }
        assert!(lengths[2] < lengths[0], "{name}: levels {levels:?} leave {lengths:?} bytes");
        // Concatenated members or frames are valid files too.
        let two = [compress(&session(algorithm, 1), b"one, "), compress(&session(algorithm, 9), b"two")].concat();
        assert_eq!(run_program(&[name, "-dc"], &two), b"one, two");
    }
}

/// Returns the output of a program for `input`, if the program accepts `input`.
fn output_if_accepted(command: &[&str], input: &[u8]) -> Option<Vec<u8>> {
    let mut child = Command::new(command[0])
        .args(&command[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A program that refuses the beginning closes its input.
    let _ = stdin.write_all(input);
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    output.status.success().then_some(output.stdout)
}

/// Zeros fill the last block of a tape or disk. gzip warns of other bytes, and ends with 2.
#[test]
fn bytes_behind_a_member_are_judged_as_by_gzip() {
    let session = session(Algorithm::Gzip, 6);
    let member = compress(&session, b"a member");
    let zeros = |count| vec![0; count];
    for (what, tail, good) in [
        ("nothing", zeros(0), true),
        ("a zero", zeros(1), true),
        ("zeros", zeros(512), true),
        ("a member", member.clone(), true),
        ("a member and zeros", [&member[..], &zeros(7)].concat(), true),
        ("zeros and a member", [&zeros(7)[..], &member].concat(), false),
        ("zeros and a byte", [&zeros(7)[..], &[1]].concat(), false),
        ("a byte", vec![1], false),
        ("half a member", member[..member.len() / 2].to_vec(), false),
    ] {
        let input = [&member[..], &tail].concat();
        let mut output = vec![0; 100];
        let ours = session.decompress(&input, &mut output).map(|length| output[..length].to_vec());
        let gzip = output_if_accepted(&["gzip", "-dc"], &input);
        assert_eq!(gzip.is_some(), good, "gzip, {what}");
        assert_eq!(ours, gzip.ok_or(Error::Refused(Outcome::Malformed)), "{what}");
    }
    assert_eq!(session.decompress(&zeros(20), &mut [0; 100]), Err(Error::Refused(Outcome::Malformed)));
}

/// CRC-32 (RFC 1952, 8).
fn crc(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| (crc >> 1) ^ (0xEDB8_8320 * (crc & 1));
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

#[test]
fn a_wrong_checksum_of_a_header_is_refused_as_by_gzip_and_zlib() {
    let session = session(Algorithm::Gzip, 6);
    let member = compress(&session, b"a member");
    let body = &member[10..];
    let zlib =
        ["python3", "-c", "import sys, zlib; sys.stdout.buffer.write(zlib.decompress(sys.stdin.buffer.read(), 31))"];
    let has_python = Command::new("python3").arg("--version").output().is_ok();
    if !has_python {
        gantry_lab::skip("python3");
    }
    // Extra bytes, a name and a comment, with the checksum's flag; the last header ends within a field.
    for (flags, fields) in
        [(2, &b""[..]), (6, b"\x03\x00abc"), (10, b"name\0"), (30, b"\x01\x00xname\0comment\0"), (18, b"comment")]
    {
        let header = [&member[..3], &[flags], &member[4..10], fields].concat();
        let right = (crc(&header) as u16).to_le_bytes();
        for checksum in [right, [right[0] ^ 1, right[1]], [right[0], right[1] ^ 0x80]] {
            let input = [&header[..], &checksum, body].concat();
            // Test the input alone, and as the second member of a file.
            for input in [input.clone(), [&member[..], &input].concat()] {
                let mut output = vec![0; 100];
                let ours = session.decompress(&input, &mut output).map(|length| output[..length].to_vec());
                let good = checksum == right && fields != b"comment";
                assert_eq!(ours.is_ok(), good, "flags {flags}, {checksum:x?}, {right:x?}");
                assert_eq!(
                    output_if_accepted(&["gzip", "-dc"], &input),
                    ours.clone().ok(),
                    "gzip, flags {flags}, {checksum:x?}"
                );
                if has_python && input.len() < 2 * member.len() {
                    assert_eq!(output_if_accepted(&zlib, &input), ours.ok(), "zlib, flags {flags}, {checksum:x?}");
                }
            }
        }
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
