//! `gantry torrent verify`.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use gantry_digest::Algorithm;

use super::bencode::Value;
use super::merkle;
use super::metainfo::{DIGEST, Metainfo, PIECE_DIGEST, Tree, V1};
use crate::args::TorrentVerify;
use crate::output::Failure;
use crate::verity::pieces::{Data, digests, first_difference};
use crate::verity::source::Source;

/// Most bytes of a torrent. Of 1 TiB in pieces of 1 MiB it has 52.
const LONGEST: u64 = 256 << 20;
/// Files that stay open for the next read. A torrent may have more files than a process may open.
const OPEN: usize = 16;

pub(crate) fn run(args: &TorrentVerify, threads: usize) -> Result<(), Failure> {
    let name = args.torrent.display();
    let mut bytes = Vec::new();
    let read = fs::File::open(&args.torrent).and_then(|file| file.take(LONGEST + 1).read_to_end(&mut bytes));
    read.map_err(|error| Failure::at(&name, &error))?;
    if bytes.len() as u64 > LONGEST {
        return Err(Failure::Failed(format!("{name}: longer than torrents are")));
    }
    let torrent = Metainfo::read(&bytes).map_err(|wrong| Failure::Failed(format!("{name}: {wrong}")))?;
    let folder = args.folder.as_deref().or(args.torrent.parent()).unwrap_or(Path::new("."));
    if let Some(v1) = &torrent.v1 {
        verify_v1(&Files::open(folder, v1)?, torrent.piece, v1.digests, threads)?;
    }
    match &torrent.v2 {
        Some(v2) => v2.each(&mut |path, tree| verify_v2(&folder.join(path), &tree, torrent.piece, threads)),
        None => Ok(()),
    }
}

fn verify_v1(files: &Files<'_>, piece: u64, expected: &[u8], threads: usize) -> Result<(), Failure> {
    let found = digests(files, Algorithm::Sha1, piece, threads)?;
    let Some(number) = first_difference(&found, expected, PIECE_DIGEST) else { return Ok(()) };
    let begin = number as u64 * piece;
    // A piece may begin in one file and go on in others.
    let (place, file) = files.at(begin);
    let path = files.all.get(file).and_then(|file| file.names).map(|names| files.path(names).display().to_string());
    Err(bad(path.as_deref().unwrap_or("a padding file"), number, place))
}

fn bad(name: &str, number: usize, at: u64) -> Failure {
    Failure::Failed(format!("{name}: piece {number}, from byte {at} on, is not that of the torrent"))
}

fn verify_v2(path: &Path, tree: &Tree<'_>, piece: u64, threads: usize) -> Result<(), Failure> {
    let source = open(path, tree.length)?;
    let Some(root) = tree.root else { return Ok(()) };
    if tree.layer.is_empty() {
        let found = merkle::root_of_file(&source, threads)?;
        return if found == *root { Ok(()) } else { Err(bad(&source.name, 0, 0)) };
    }
    if merkle::root_of_pieces(tree.layer, piece)? != *root {
        return Err(Failure::Failed(format!("{}: the torrent's digests of its pieces are wrong", source.name)));
    }
    let found = merkle::roots_of_pieces(&source, piece, threads)?;
    match first_difference(&found, tree.layer, DIGEST) {
        None => Ok(()),
        Some(number) => Err(bad(&source.name, number, number as u64 * piece)),
    }
}

/// A file of the length that the torrent says.
fn open(path: &Path, length: u64) -> Result<Source, Failure> {
    let source = Source::open(path)?;
    if source.length == length {
        return Ok(source);
    }
    Err(Failure::Failed(format!("{}: it has {} bytes; the torrent says {length}", source.name, source.length)))
}

/// The files of v1, behind each other.
struct Files<'a> {
    folder: &'a Path,
    torrent: &'a V1<'a>,
    all: Vec<Placed<'a>>,
    length: u64,
    /// The files that were read last, by their places in `all`, the last one at the end.
    open: Mutex<Vec<(usize, Arc<Source>)>>,
}

struct Placed<'a> {
    /// `None` for zeros.
    names: Option<Value<'a>>,
    end: u64,
}

impl<'a> Files<'a> {
    fn open(folder: &'a Path, torrent: &'a V1<'a>) -> Result<Self, Failure> {
        let all = Vec::with_capacity(torrent.count);
        let mut files = Files { folder, torrent, all, length: 0, open: Mutex::default() };
        for part in torrent.parts() {
            if let Some(names) = part.names {
                open(&files.path(names), part.length)?;
            }
            files.length += part.length;
            files.all.push(Placed { names: part.names, end: files.length });
        }
        Ok(files)
    }

    fn path(&self, names: Value<'_>) -> PathBuf {
        self.folder.join(self.torrent.path(names))
    }

    /// Which byte of its file one is, and the place of the file in `all`.
    fn at(&self, offset: u64) -> (u64, usize) {
        let number = self.all.partition_point(|file| file.end <= offset);
        (offset - number.checked_sub(1).map_or(0, |before| self.all[before].end), number)
    }

    /// A file, which stays open until `OPEN` others were read.
    fn source(&self, number: usize, names: Value<'_>) -> Result<Arc<Source>, Failure> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = if let Some(place) = open.iter().position(|(known, _)| *known == number) {
            open.remove(place)
        } else {
            if open.len() == OPEN {
                open.remove(0);
            }
            (number, Arc::new(Source::open(&self.path(names))?))
        };
        let source = Arc::clone(&entry.1);
        open.push(entry);
        Ok(source)
    }
}

impl Data for Files<'_> {
    fn length(&self) -> u64 {
        self.length
    }

    fn read_at(&self, mut buffer: &mut [u8], mut offset: u64) -> Result<(), Failure> {
        while !buffer.is_empty() {
            let (place, number) = self.at(offset);
            let Some(file) = self.all.get(number) else {
                return Err(Failure::Failed("a piece behind all files".to_owned()));
            };
            let length = usize::try_from(file.end - offset).map_or(buffer.len(), |left| left.min(buffer.len()));
            let (part, rest) = buffer.split_at_mut(length);
            match file.names {
                Some(names) => self.source(number, names)?.read_at(part, place)?,
                None => part.fill(0),
            }
            (buffer, offset) = (rest, offset + length as u64);
        }
        Ok(())
    }
}
