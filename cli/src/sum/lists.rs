//! Parses the lines of checksum files.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use super::bag::{Bag, bag_of};
use super::checkfile::{Format, Line, parse_line};
use super::digest::Digest;
use super::lines::{Encoding, Lines};
use super::names::Id;
use super::object::{Recorded, Special};
use super::reading::{Reading, marked};
use super::recognise::{Learned, Recognised, Recogniser};

/// The way to parse lines.
#[derive(Clone)]
pub(super) enum ListParser {
    /// Like coreutils: lines of one function.
    One(Format, Id),
    /// Lines of any format.
    Any {
        /// If not empty, only these functions count.
        only: Vec<Id>,
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
    pub(super) digests: Vec<(Id, Digest)>,
    /// True if the function is certain: it is named, or it is the only function with digests of this length.
    pub(super) stated: bool,
    /// Shared with the list's other lines. Receives their function once this file shows it.
    pub(super) learned: Learned,
    /// The size and time of the file, if the list has them.
    pub(super) recorded: Option<Recorded>,
    pub(super) reading: Reading,
}

impl ListParser {
    pub(super) fn one(id: Id) -> Self {
        Self::One(Format::new(id.tag(), id.digits()), id)
    }

    pub(super) fn any(only: Vec<Id>, zero: bool) -> Self {
        let recogniser = Recogniser::new(b"", None, &only);
        Self::Any { only, recogniser, bag: None, zero }
    }

    /// Begins a checksum file, whose name may tell the function of its lines.
    pub(super) fn begin(&mut self, list: &OsStr) {
        let Self::Any { only, recogniser, bag, .. } = self else { return };
        let path = Path::new(list);
        let file = path.file_name().unwrap_or_default();
        let found = bag_of(path);
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
                    let (stated, learned, recorded) = (true, Learned::default(), None);
                    let (name, reading) = (name.into_owned(), Reading::Bytes);
                    ParsedLine::File(Expected { name, digests, stated, learned, recorded, reading })
                }
            },
            Self::Any { recogniser, bag, .. } => match recogniser.read(line) {
                Recognised::Blank => ParsedLine::Blank,
                Recognised::Improper => ParsedLine::Improper,
                Recognised::Special(name, special) => ParsedLine::Special(name, special),
                Recognised::Entry(entry) => {
                    let (name, reading) = match bag {
                        Some(folder) if !folder.is_empty() => {
                            ([folder, &b"/"[..], &entry.name].concat(), Reading::Bytes)
                        }
                        Some(_) => (entry.name.into_owned(), Reading::Bytes),
                        None => marked(of_windows(entry.name.into_owned())),
                    };
                    let (learned, recorded) = (recogniser.learned(), entry.recorded);
                    let (digests, stated) = (entry.digests, entry.stated);
                    ParsedLine::File(Expected { name, digests, stated, learned, recorded, reading })
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

    /// Returns the format that an improper line should have had, followed by a blank.
    pub(super) fn kind(&self) -> String {
        if let Self::One(format, _) = self { format!("{} ", format.tag) } else { String::new() }
    }
}

/// Replaces the separators `\` of Windows by `/`, if only the file with `/` exists.
fn of_windows(name: Vec<u8>) -> Vec<u8> {
    let exists = |name: &[u8]| Path::new(OsStr::from_bytes(name)).symlink_metadata().is_ok();
    if !name.contains(&b'\\') || exists(&name) {
        return name;
    }
    let other: Vec<u8> = name.iter().map(|&byte| if byte == b'\\' { b'/' } else { byte }).collect();
    if exists(&other) { other } else { name }
}
