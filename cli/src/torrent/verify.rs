//! `gantry torrent verify`: compares files with a torrent.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io::Read as _;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use gantry_digest::Algorithm;

use super::bencode::Value;
use super::joined::Joined;
use super::merkle;
use super::metainfo::{Metainfo, V1, V1_DIGEST_SIZE, V1FileKind, V2_DIGEST_SIZE, V2File, path};
use crate::args::TorrentVerify;
use crate::hashing::pieces::digests;
use crate::hashing::source::Source;
use crate::output::{Failure, print_message};

/// Most bytes of a torrent. A torrent of v1 and v2 for 1 TiB in pieces of 1 MiB has 52 MiB.
const MAX_TORRENT: u64 = 256 << 20;

pub(crate) fn run(args: &TorrentVerify, threads: usize) -> Result<(), Failure> {
    let name = args.torrent.display();
    let mut bytes = Vec::new();
    let read = fs::File::open(&args.torrent).and_then(|file| file.take(MAX_TORRENT + 1).read_to_end(&mut bytes));
    read.map_err(|error| Failure::at(&name, &error))?;
    if bytes.len() as u64 > MAX_TORRENT {
        return Err(Failure::Failed(format!("{name}: too long for a torrent")));
    }
    let torrent = Metainfo::read(&bytes).map_err(|wrong| Failure::Failed(format!("{name}: {wrong}")))?;
    let content = content_path(args, torrent.name);
    let mut report = Report { has_differences: false };
    if let Some(v1) = &torrent.v1 {
        verify_v1(&Files::open(&content, v1, &mut report), torrent.piece_size, v1.digests, threads, &mut report)?;
    }
    if let Some(v2) = &torrent.v2 {
        v2.for_each_file(&mut |path, file| {
            // The first name in the path is the torrent's name.
            let below: PathBuf = path.components().skip(1).collect();
            if let Err(failure) =
                verify_v2(&content, &below_content(&content, &below), &file, torrent.piece_size, threads, &mut report)
            {
                report.add(&failure);
            }
            Ok::<_, Failure>(())
        })?;
    }
    if report.has_differences { Err(Failure::Reported) } else { Ok(()) }
}

/// Returns the path of the torrent's file or folder: the torrent's name below the folder in the arguments, or that folder itself.
/// Without a folder in the arguments, looks beside the torrent.
fn content_path(args: &TorrentVerify, name: &[u8]) -> PathBuf {
    let folder = args.folder.as_deref().or(args.torrent.parent()).unwrap_or(Path::new("."));
    let below = folder.join(OsStr::from_bytes(name));
    if args.folder.is_some() && folder.exists() && !below.exists() { folder.to_owned() } else { below }
}

/// Returns a path below the torrent's folder. An empty path names the torrent's only file.
fn below_content(content: &Path, below: &Path) -> PathBuf {
    below.components().fold(content.to_owned(), |path, name| path.join(name))
}

/// Prints a line for each difference.
struct Report {
    has_differences: bool,
}

impl Report {
    fn add(&mut self, wrong: impl fmt::Display) {
        self.has_differences = true;
        print_message(&wrong.to_string());
    }

    /// Adds pieces of a file that do not match; consecutive pieces share a line. `begin` is the offset of the file in the pieces' data.
    fn add_pieces(&mut self, name: &str, pieces: impl Iterator<Item = u64>, piece_size: u64, begin: u64, length: u64) {
        let mut pieces = pieces.peekable();
        while let Some(first) = pieces.next() {
            let mut last = first;
            while let Some(next) = pieces.next_if(|next| *next == last + 1) {
                last = next;
            }
            let from = (first * piece_size).saturating_sub(begin);
            let to = ((last + 1) * piece_size - begin).min(length) - 1;
            if first == last {
                self.add(format_args!("{name}: piece {first} does not match: bytes {from} to {to}"));
            } else {
                self.add(format_args!("{name}: pieces {first} to {last} do not match: bytes {from} to {to}"));
            }
        }
    }
}

fn verify_v1(
    files: &Files<'_>,
    piece_size: u64,
    expected: &[u8],
    threads: usize,
    report: &mut Report,
) -> Result<(), Failure> {
    let found = digests(&files.joined(), Algorithm::Sha1, piece_size, threads)?;
    let differs = |number: u64| {
        let begin = number as usize * V1_DIGEST_SIZE;
        found[begin..begin + V1_DIGEST_SIZE] != expected[begin..begin + V1_DIGEST_SIZE]
    };
    // These pieces cannot be verified, because a part of them is in a missing file.
    let absent = files.all.iter().filter(|file| file.is_absent).flat_map(|file| file.pieces(piece_size));
    let absent: BTreeSet<u64> = absent.collect();
    for file in &files.all {
        let Some(names) = file.names.filter(|_| !file.is_absent) else { continue };
        let wrong = file.pieces(piece_size).filter(|number| differs(*number) && !absent.contains(number));
        let name = files.path(names).display().to_string();
        report.add_pieces(&name, wrong, piece_size, file.begin, file.end - file.begin);
    }
    Ok(())
}

fn verify_v2(
    content: &Path,
    path: &Path,
    file: &V2File<'_>,
    piece_size: u64,
    threads: usize,
    report: &mut Report,
) -> Result<(), Failure> {
    if let Some(target) = file.link {
        return verify_link(content, path, target);
    }
    let source = open_checked(path, file.length)?;
    let Some(root) = file.root else { return Ok(()) };
    let name = &source.name;
    if file.layer.is_empty() {
        if merkle::root_of_file(&source, threads)? != *root {
            report.add(format_args!("{name}: does not match"));
        }
        return Ok(());
    }
    if merkle::root_of_pieces(file.layer, piece_size)? != *root {
        return Err(Failure::Failed(format!("{name}: the torrent's digests of its pieces contradict its root")));
    }
    let found = merkle::roots_of_pieces(&source, piece_size, threads)?;
    let pairs = found.chunks(V2_DIGEST_SIZE).zip(file.layer.chunks(V2_DIGEST_SIZE)).enumerate();
    let wrong = pairs.filter(|(_, (found, expected))| found != expected).map(|(number, _)| number as u64);
    report.add_pieces(name, wrong, piece_size, 0, source.length);
    Ok(())
}

/// Checks that a path is a link to its target, or leads to the same file or folder in another way. As in libtorrent, the target is below
/// the torrent's folder, or else below the link's folder.
fn verify_link(content: &Path, link: &Path, target: Value<'_>) -> Result<(), Failure> {
    let real = |path: &Path| path.canonicalize().map_err(|error| Failure::at(path.display(), &error));
    let (target, folder) = (path(target), link.parent().unwrap_or(content));
    let above = content.join(&target);
    let goes_up = target.components().any(|name| name == Component::ParentDir);
    let target = if above.exists() && !goes_up { above } else { folder.join(target) };
    if real(link)? == real(&target)? {
        return Ok(());
    }
    Err(Failure::Failed(format!("{}: it is no link to {}", link.display(), target.display())))
}

/// Opens a file, and checks its length.
fn open_checked(path: &Path, length: u64) -> Result<Source, Failure> {
    let source = Source::open(path)?;
    if source.length == length {
        return Ok(source);
    }
    Err(Failure::Failed(format!("{}: it has {} bytes; the torrent says {length}", source.name, source.length)))
}

/// The files of v1, concatenated.
struct Files<'a> {
    content: &'a Path,
    all: Vec<PlacedFile<'a>>,
}

struct PlacedFile<'a> {
    /// `None` for padding.
    names: Option<Value<'a>>,
    begin: u64,
    end: u64,
    /// True if the file is missing or has another length.
    is_absent: bool,
}

impl PlacedFile<'_> {
    /// Returns the pieces that contain a byte of the file.
    fn pieces(&self, piece_size: u64) -> Range<u64> {
        let first = self.begin / piece_size;
        first..if self.begin < self.end { self.end.div_ceil(piece_size) } else { first }
    }
}

impl<'a> Files<'a> {
    fn open(content: &'a Path, torrent: &V1<'a>, report: &mut Report) -> Self {
        let all = Vec::with_capacity(torrent.file_count);
        let mut files = Files { content, all };
        let mut begin = 0;
        for part in torrent.files() {
            let path = files.path(part.names);
            let (names, checked) = match part.kind {
                V1FileKind::File => (Some(part.names), open_checked(&path, part.length).map(|_| ())),
                V1FileKind::Padding => (None, Ok(())),
                V1FileKind::Link(target) => (None, verify_link(content, &path, target)),
            };
            let is_absent = checked.inspect_err(|failure| report.add(failure)).is_err();
            let end = begin + part.length;
            files.all.push(PlacedFile { names, begin, end, is_absent });
            begin = end;
        }
        files
    }

    fn path(&self, names: Value<'_>) -> PathBuf {
        below_content(self.content, &path(names))
    }

    /// Returns the content of the files, with zeros for padding and for files that are absent.
    fn joined(&self) -> Joined<'_> {
        let path = |number: usize| {
            let file: &PlacedFile<'_> = &self.all[number];
            file.names.filter(|_| !file.is_absent).map(|names| self.path(names))
        };
        Joined::new(self.all.iter().map(|file| file.end - file.begin), path)
    }
}
