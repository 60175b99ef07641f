//! Checksum files, line by line.

use std::ffi::OsStr;
use std::io::{self, BufRead, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::checkfile::{Format, Line, parse_line};
use super::digest::Digest;
use super::names::Id;
use super::recognise::{Recognised, Recogniser};

/// Longest line that is looked at: no name that a system can open comes near. What is longer counts as improper, so
/// that a file without line ends does not fill the memory.
const LONGEST_LINE: u64 = 1 << 20;

/// How lines are read.
#[derive(Clone)]
pub(super) enum Reading {
    /// As coreutils does: lines of one function.
    One(Format, Id),
    /// Whatever they are.
    Any {
        /// If there are any, only these functions count.
        only: Vec<Id>,
        recogniser: Recogniser,
        /// The folder of a bag, whose files are named from there.
        bag: Option<Vec<u8>>,
    },
}

/// A line that has been read.
pub(super) enum Listed {
    Blank,
    Improper,
    File(Expected),
}

/// A file, and what it should be.
pub(super) struct Expected {
    pub(super) name: Vec<u8>,
    /// At least one, in the order of functions.
    pub(super) digests: Vec<(Id, Digest)>,
    /// Nothing but the length of the digest says which function it is of.
    pub(super) assumed: bool,
}

impl Reading {
    pub(super) fn one(id: Id) -> Self {
        Self::One(Format::new(id.tag(), id.digits()), id)
    }

    pub(super) fn any(only: Vec<Id>) -> Self {
        let recogniser = Recogniser::new(b"", false, &only);
        Self::Any { only, recogniser, bag: None }
    }

    /// Begins a checksum file, whose name may say something about its lines.
    pub(super) fn begin(&mut self, list: &OsStr) {
        let Self::Any { only, recogniser, bag } = self else { return };
        let path = Path::new(list);
        let file = path.file_name().unwrap_or_default();
        *bag = bag_of(path).map(|folder| folder.as_os_str().as_bytes().to_vec());
        *recogniser = Recogniser::new(file.as_bytes(), bag.is_some(), only);
    }

    /// Reads one line, with or without its line end.
    pub(super) fn line(&mut self, line: &[u8]) -> Listed {
        match self {
            Self::One(format, id) => match parse_line(line, format) {
                Line::Blank => Listed::Blank,
                Line::Improper => Listed::Improper,
                Line::Entry { name, digest } => {
                    let digests = vec![(*id, Digest::from_hex(digest))];
                    Listed::File(Expected { name: name.into_owned(), digests, assumed: false })
                }
            },
            Self::Any { recogniser, bag, .. } => match recogniser.read(line) {
                Recognised::Blank => Listed::Blank,
                Recognised::Improper => Listed::Improper,
                Recognised::Entry(entry) => {
                    let name = match bag {
                        Some(folder) if !folder.is_empty() => [folder, &b"/"[..], &entry.name].concat(),
                        _ => entry.name.into_owned(),
                    };
                    Listed::File(Expected { name, digests: entry.digests, assumed: entry.assumed })
                }
            },
        }
    }

    /// What an improper line is none of, with a blank behind it.
    pub(super) fn kind(&self) -> String {
        if let Self::One(format, _) = self { format!("{} ", format.tag) } else { String::new() }
    }
}

/// The bag of which a file is a manifest: `manifest-ALGORITHM.txt` or `tagmanifest-ALGORITHM.txt` beside `bagit.txt` (RFC 8493, section 2).
pub(super) fn bag_of(list: &Path) -> Option<&Path> {
    let name = list.file_name()?.as_bytes();
    let manifest = is_manifest(name) || name.strip_prefix(b"tag").is_some_and(is_manifest);
    let folder = list.parent()?;
    (manifest && folder.join("bagit.txt").is_file()).then_some(folder)
}

/// Whether a name in a bag is that of a payload manifest.
pub(super) fn is_manifest(name: &[u8]) -> bool {
    name.starts_with(b"manifest-") && name.ends_with(b".txt")
}

/// Reads a line. `None` at the end; false if it was too long, and has been passed over.
pub(super) fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Option<bool>> {
    line.clear();
    if reader.by_ref().take(LONGEST_LINE).read_until(b'\n', line)? == 0 {
        return Ok(None);
    }
    let whole = (line.len() as u64) < LONGEST_LINE || line.last() == Some(&b'\n');
    if !whole {
        reader.skip_until(b'\n')?;
    }
    Ok(Some(whole))
}
