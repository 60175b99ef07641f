//! `gantry torrent verify`.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use gantry_digest::Algorithm;

use super::merkle;
use super::metainfo::{DIGEST, Metainfo, PIECE_DIGEST, Part, Tree};
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
    if let Some((parts, pieces)) = &torrent.v1 {
        verify_v1(&Files::open(folder, parts)?, torrent.piece, pieces, threads)?;
    }
    for tree in torrent.v2.iter().flatten() {
        verify_v2(folder, tree, torrent.piece, threads)?;
    }
    Ok(())
}

fn verify_v1(files: &Files, piece: u64, expected: &[u8], threads: usize) -> Result<(), Failure> {
    let found = digests(files, Algorithm::Sha1, piece, threads)?;
    let Some(number) = first_difference(&found, expected, PIECE_DIGEST) else { return Ok(()) };
    let begin = number as u64 * piece;
    // A piece may begin in one file and go on in others.
    let (place, file) = files.at(begin);
    let path = files.all.get(file).and_then(|file| file.path.as_ref()).map(|path| path.display().to_string());
    Err(bad(path.as_deref().unwrap_or("a padding file"), number, place))
}

fn bad(name: &str, number: usize, at: u64) -> Failure {
    Failure::Failed(format!("{name}: piece {number}, from byte {at} on, is not that of the torrent"))
}

fn verify_v2(folder: &Path, tree: &Tree, piece: u64, threads: usize) -> Result<(), Failure> {
    let source = open(&folder.join(&tree.path), tree.length)?;
    let Some(root) = tree.root else { return Ok(()) };
    if tree.layer.is_empty() {
        let found = merkle::root_of_file(&source, threads)?;
        return if found == root { Ok(()) } else { Err(bad(&source.name, 0, 0)) };
    }
    if merkle::root_of_pieces(&tree.layer, piece)? != root {
        return Err(Failure::Failed(format!("{}: the torrent's digests of its pieces are wrong", source.name)));
    }
    let found = merkle::roots_of_pieces(&source, piece, threads)?;
    match first_difference(&found, &tree.layer, DIGEST) {
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
struct Files {
    all: Vec<Placed>,
    length: u64,
    /// The files that were read last, by their places in `all`, the last one at the end.
    open: Mutex<Vec<(usize, Arc<Source>)>>,
}

struct Placed {
    /// `None` for zeros.
    path: Option<PathBuf>,
    begin: u64,
    end: u64,
}

impl Files {
    fn open(folder: &Path, parts: &[Part]) -> Result<Self, Failure> {
        let mut length = 0;
        let mut all = Vec::with_capacity(parts.len());
        for part in parts {
            let path = part.path.as_ref().map(|path| folder.join(path));
            if let Some(path) = &path {
                open(path, part.length)?;
            }
            all.push(Placed { path, begin: length, end: length + part.length });
            length += part.length;
        }
        Ok(Files { all, length, open: Mutex::default() })
    }

    /// Which byte of its file one is, and the place of the file in `all`.
    fn at(&self, offset: u64) -> (u64, usize) {
        let number = self.all.partition_point(|file| file.end <= offset);
        (self.all.get(number).map_or(0, |file| offset - file.begin), number)
    }

    /// A file, which stays open until `OPEN` others were read.
    fn source(&self, number: usize, path: &Path) -> Result<Arc<Source>, Failure> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = if let Some(place) = open.iter().position(|(known, _)| *known == number) {
            open.remove(place)
        } else {
            if open.len() == OPEN {
                open.remove(0);
            }
            (number, Arc::new(Source::open(path)?))
        };
        let source = Arc::clone(&entry.1);
        open.push(entry);
        Ok(source)
    }
}

impl Data for Files {
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
            match &file.path {
                Some(path) => self.source(number, path)?.read_at(part, place)?,
                None => part.fill(0),
            }
            (buffer, offset) = (rest, offset + length as u64);
        }
        Ok(())
    }
}
