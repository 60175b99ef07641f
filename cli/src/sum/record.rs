//! JSON lines: one object for each file, symbolic link and folder, or for each line of a checksum file.
//!
//! | key | value |
//! |---|---|
//! | `path` | the file's name, with U+FFFD for bytes that are not UTF-8; `path_hex` then has its bytes |
//! | `size` | bytes that were read |
//! | `mtime` | for regular files, seconds since 1970 with nanoseconds |
//! | `digests` | an object, with a digest in hexadecimal digits for each function |
//! | `type`, `target` | `link` and its target, or `folder`; files have no `type` |
//! | `error` | the reason why there are no digests |

use std::io;
use std::io::Write as _;

use super::console::reason;
use super::digest::Digest;
use super::engine::HashedFile;
use super::names::HashId;
use super::object::{Recorded, Special};
use crate::hex::hex;

/// An object that is written to a line, member by member.
pub(super) struct ObjectWriter<'l>(&'l mut Vec<u8>);

impl<'l> ObjectWriter<'l> {
    pub(super) fn begin(line: &'l mut Vec<u8>) -> Self {
        line.push(b'{');
        Self(line)
    }

    pub(super) fn end(self) {
        self.0.push(b'}');
    }

    /// Writes a name as `key`, and its bytes as `key_hex` if the name is not UTF-8.
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
        // Writing to memory cannot fail.
        let _ = write!(self.0, "{value}");
    }

    /// Writes the results for a file: `size`, `mtime`, `digests`.
    pub(super) fn found(&mut self, ids: impl Iterator<Item = HashId>, found: &HashedFile) {
        self.number("size", found.bytes);
        if let Some(stamp) = found.stamp {
            self.number("mtime", seconds(stamp.modified));
        }
        self.digests("digests", ids.zip(found.digests.iter().copied()));
    }

    pub(super) fn digests(&mut self, key: &str, digests: impl Iterator<Item = (HashId, Digest)>) {
        self.key(key);
        let mut object = ObjectWriter::begin(self.0);
        for (id, digest) in digests {
            let mut digits = Vec::new();
            digest.write_hex(&mut digits);
            object.text(id.name(), &String::from_utf8_lossy(&digits));
        }
        object.end();
    }

    /// Writes `type`, and `target` of a link.
    pub(super) fn special(&mut self, special: &Special) {
        self.special_as(["type", "target"], special);
    }

    /// Writes the listed link or folder as `expected_type` and `expected_target`.
    pub(super) fn expected_special(&mut self, special: &Special) {
        self.special_as(["expected_type", "expected_target"], special);
    }

    fn special_as(&mut self, [type_key, target_key]: [&str; 2], special: &Special) {
        match special {
            Special::Link(target) => {
                self.text(type_key, "link");
                self.name(target_key, target);
            }
            Special::Folder => self.text(type_key, "folder"),
        }
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

/// Formats nanoseconds since 1970 as seconds.
fn seconds(nanoseconds: i128) -> String {
    let (seconds, rest) = (nanoseconds.div_euclid(1_000_000_000), nanoseconds.rem_euclid(1_000_000_000));
    // Before 1970, the fraction counts away from zero.
    let (sign, seconds, rest) = match (seconds < 0, rest) {
        (true, 0) => ("-", -seconds, 0),
        (true, rest) => ("-", -seconds - 1, 1_000_000_000 - rest),
        (false, rest) => ("", seconds, rest),
    };
    format!("{sign}{seconds}.{rest:09}")
}

/// True if a file still has the size and time that were written down. Programs that copy files may drop the fractions of seconds.
pub(super) fn is_as_recorded(recorded: &Recorded, found: &HashedFile) -> bool {
    let Some(Ok(mtime)) = found.stamp.map(|stamp| seconds(stamp.modified).parse::<f64>()) else { return false };
    let same = |one: f64, other: f64| one.total_cmp(&other).is_eq();
    let whole = |seconds: f64| same(seconds, seconds.floor());
    let same_second = same(mtime.floor(), recorded.mtime.floor()) && (whole(mtime) || whole(recorded.mtime));
    recorded.size == found.bytes && (same(mtime, recorded.mtime) || same_second)
}

fn string(line: &mut Vec<u8>, text: &str) {
    // Serializing a string to memory cannot fail.
    let _ = serde_json::to_writer(line, text);
}
