//! JSON lines: one object for each file, or for each line of a checksum file.
//!
//! | key | value |
//! |---|---|
//! | `path` | the file's name; what is not UTF-8 in it as U+FFFD, and then `path_hex` has its bytes |
//! | `size` | bytes that were read |
//! | `mtime` | of regular files, seconds since 1970 with nanoseconds |
//! | `digests` | an object, with a digest in hexadecimal digits for each function |
//! | `error` | why there are none |

use std::io;
use std::io::Write as _;

use super::console::reason;
use super::digest::Digest;
use super::engine::Found;
use super::names::Id;
use crate::hex::hex;

/// An object that is written member by member to a line.
pub(super) struct Object<'l>(&'l mut Vec<u8>);

impl<'l> Object<'l> {
    pub(super) fn begin(line: &'l mut Vec<u8>) -> Self {
        line.push(b'{');
        Self(line)
    }

    pub(super) fn end(self) {
        self.0.push(b'}');
    }

    /// `path`, or another key for a name.
    pub(super) fn name(&mut self, key: &str, name: &[u8]) {
        self.text(key, &String::from_utf8_lossy(name));
        if std::str::from_utf8(name).is_err() {
            self.text(&format!("{key}_hex"), &hex(name));
        }
    }

    pub(super) fn text(&mut self, key: &str, value: &str) {
        self.key(key);
        string(self.0, value);
    }

    pub(super) fn number(&mut self, key: &str, value: impl std::fmt::Display) {
        self.key(key);
        // Writing to memory does not fail.
        let _ = write!(self.0, "{value}");
    }

    /// What was found out about a file: `size`, `mtime`, `digests`.
    pub(super) fn found(&mut self, ids: impl Iterator<Item = Id>, found: &Found) {
        self.number("size", found.bytes);
        if let Some(stamp) = found.stamp {
            let (seconds, rest) = (stamp.modified.div_euclid(1_000_000_000), stamp.modified.rem_euclid(1_000_000_000));
            // A fraction counts away from zero, and times before 1970 are below it.
            let (sign, seconds, rest) = match (seconds < 0, rest) {
                (true, 0) => ("-", -seconds, 0),
                (true, rest) => ("-", -seconds - 1, 1_000_000_000 - rest),
                (false, rest) => ("", seconds, rest),
            };
            self.number("mtime", format_args!("{sign}{seconds}.{rest:09}"));
        }
        self.digests("digests", ids.zip(found.digests.iter().copied()));
    }

    pub(super) fn digests(&mut self, key: &str, digests: impl Iterator<Item = (Id, Digest)>) {
        self.key(key);
        let mut object = Object::begin(self.0);
        for (id, digest) in digests {
            let mut digits = Vec::new();
            digest.write_hex(&mut digits);
            object.text(id.name(), &String::from_utf8_lossy(&digits));
        }
        object.end();
    }

    pub(super) fn error(&mut self, error: &io::Error) {
        self.text("error", &reason(error));
    }

    fn key(&mut self, key: &str) {
        if self.0.last() != Some(&b'{') {
            self.0.push(b',');
        }
        string(self.0, key);
        self.0.push(b':');
    }
}

fn string(line: &mut Vec<u8>, text: &str) {
    // Strings have a form in JSON, and memory takes it.
    let _ = serde_json::to_writer(line, text);
}
