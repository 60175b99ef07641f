//! Parses the lines of checksum files.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use super::bag::{Bag, bag_of_manifest};
use super::checkfile::{Format, Line, parse_line};
use super::digest::Digest;
use super::lines::{Encoding, Lines};
use super::names::HashId;
use super::object::{Recorded, Special};
use super::read_mode::{ReadMode, split_mark};
use super::recognise::{LearnedFunction, Recognised, Recogniser};

/// The way to parse lines.
#[derive(Clone)]
pub(super) enum ListParser {
    /// Like coreutils: lines of one function.
    One(Format, HashId),
    /// Lines of any format.
    Any {
        /// If not empty, only these functions count.
        only: Vec<HashId>,
        recogniser: Recogniser,
        /// The folder of a bag, to which names are relative.
        bag: Option<Vec<u8>>,
        /// True if lines end with NUL, and names are not escaped.
        zero: bool,
    },
}

/// A parsed line.
pub(super) enum ParsedLine {
    Blank,
    Improper,
    File(Expected),
    /// A symbolic link or folder, and its name.
    Special(Vec<u8>, Special),
}

/// A file and its listed digests.
pub(super) struct Expected {
    pub(super) name: Vec<u8>,
    /// The digests, at least one, in the order of functions.
    pub(super) digests: Vec<(HashId, Digest)>,
    /// True if the function is certain: it is named, an earlier file has shown it, or no other function has digests of this length.
    pub(super) is_certain: bool,
    /// Shared with the list's other lines. Receives their function once this file shows it.
    pub(super) learned_function: LearnedFunction,
    /// The size and time of the file, if the list has them.
    pub(super) recorded: Option<Recorded>,
    pub(super) read_mode: ReadMode,
}

impl ListParser {
    pub(super) fn one(id: HashId) -> Self {
        Self::One(Format::new(id.tag(), id.digit_count()), id)
    }

    pub(super) fn any(only: Vec<HashId>, zero: bool) -> Self {
        let recogniser = Recogniser::new(b"", None, &only);
        Self::Any { only, recogniser, bag: None, zero }
    }

    /// Begins a checksum file, whose name may tell the function of its lines.
    pub(super) fn begin(&mut self, list: &OsStr) {
        let Self::Any { only, recogniser, bag, .. } = self else { return };
        let path = Path::new(list);
        let file = path.file_name().unwrap_or_default();
        let found = bag_of_manifest(path);
        *recogniser = Recogniser::new(file.as_bytes(), found.as_ref().map(Bag::escapes), only);
        *bag = found.map(|found| found.folder.into_os_string().into_vec());
        recogniser.below(path.parent().unwrap_or(Path::new("")).as_os_str().as_bytes());
    }

    /// Parses one line, with or without its line end.
    pub(super) fn line(&mut self, line: &[u8]) -> ParsedLine {
        match self {
            Self::One(format, id) => match parse_line(line, format) {
                Line::Blank => ParsedLine::Blank,
                Line::Improper => ParsedLine::Improper,
                Line::Entry { name, digest } => {
                    let digests = vec![(*id, Digest::from_hex(digest))];
                    let (is_certain, learned_function, recorded) = (true, LearnedFunction::default(), None);
                    let (name, read_mode) = (name.into_owned(), ReadMode::Bytes);
                    ParsedLine::File(Expected { name, digests, is_certain, learned_function, recorded, read_mode })
                }
            },
            Self::Any { recogniser, bag, .. } => match recogniser.read(line) {
                Recognised::Blank => ParsedLine::Blank,
                Recognised::Improper => ParsedLine::Improper,
                Recognised::Special(name, special) => ParsedLine::Special(name, special),
                Recognised::Entry(entry) => {
                    let (name, read_mode) = match bag {
                        Some(folder) if !folder.is_empty() => {
                            ([folder, &b"/"[..], &entry.name].concat(), ReadMode::Bytes)
                        }
                        Some(_) => (entry.name.into_owned(), ReadMode::Bytes),
                        None => split_mark(with_slashes(entry.name.into_owned())),
                    };
                    let (learned_function, recorded) = (recogniser.learned_function(), entry.recorded);
                    let (digests, is_certain) = (entry.digests, entry.is_certain);
                    ParsedLine::File(Expected { name, digests, is_certain, learned_function, recorded, read_mode })
                }
            },
        }
    }

    /// Opens a checksum file.
    pub(super) fn lines(&self, file: File) -> io::Result<Lines<File>> {
        let encoding = match self {
            Self::One(..) => Some(Encoding::Raw),
            Self::Any { zero: true, .. } => Some(Encoding::Bytes(0)),
            Self::Any { .. } => None,
        };
        Lines::new(file, encoding)
    }

    /// Returns the format that an improper line should have had, followed by a blank; empty if a line may have any format.
    pub(super) fn kind(&self) -> String {
        if let Self::One(format, _) = self { format!("{} ", format.tag) } else { String::new() }
    }
}

/// Replaces the separators `\` of Windows by `/`, if only the file with `/` exists.
fn with_slashes(name: Vec<u8>) -> Vec<u8> {
    let exists = |name: &[u8]| Path::new(OsStr::from_bytes(name)).symlink_metadata().is_ok();
    if !name.contains(&b'\\') || exists(&name) {
        return name;
    }
    let other: Vec<u8> = name.iter().map(|&byte| if byte == b'\\' { b'/' } else { byte }).collect();
    if exists(&other) { other } else { name }
}
