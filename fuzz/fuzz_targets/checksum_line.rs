//! Checksum files come from untrusted sources: no bytes cause a panic, and lines written by a sum program are read back.

#![no_main]

#[allow(dead_code, reason = "the program uses all of it")]
#[path = "../../cli/src/sum/checkfile.rs"]
mod checkfile;

use checkfile::{Format, Line, parse_line};
use libfuzzer_sys::fuzz_target;

const DIGITS: usize = 32;

fuzz_target!(|data: &[u8]| {
    let mut format = Format::new("MD5", DIGITS);
    for line in data.split_inclusive(|&byte| byte == b'\n') {
        if let Line::Entry { name, digest } = parse_line(line, &mut format) {
            assert_eq!(digest.len(), DIGITS);
            assert!(digest.iter().all(u8::is_ascii_hexdigit));
            assert!(!name.contains(&0));
        }
    }

    // The data as a file's name. A name is not empty and has no NUL.
    let name: Vec<u8> = data.iter().copied().filter(|&byte| byte != 0).collect();
    if name.is_empty() {
        return;
    }
    let digest = [b'5'; DIGITS];
    let escaped = escape(&name);
    let backslash: &[u8] = if escaped == name { b"" } else { b"\\" };
    for line in [
        [backslash, &digest, b"  ", &escaped, b"\n"].concat(),
        [backslash, &digest, b" *", &escaped, b"\n"].concat(),
        [backslash, b"MD5 (", &escaped, b") = ", &digest, b"\n"].concat(),
    ] {
        match parse_line(&line, &mut Format::new("MD5", DIGITS)) {
            Line::Entry { name: read, digest: sum } => assert_eq!((&*read, sum), (&name[..], &digest[..])),
            other => panic!("{:?} is {other:?}", String::from_utf8_lossy(&line)),
        }
    }
});

/// Escapes a name as coreutils does.
fn escape(name: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(name.len());
    for &byte in name {
        match byte {
            b'\n' => escaped.extend(b"\\n"),
            b'\r' => escaped.extend(b"\\r"),
            b'\\' => escaped.extend(b"\\\\"),
            _ => escaped.push(byte),
        }
    }
    escaped
}
