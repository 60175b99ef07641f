//! `gantry torrent create`: writes the keys that libtorrent writes, so that equal files have equal info hashes.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use gantry_digest::Algorithm;

use super::content::{ContentFile, list, utf8};
use super::entry::{Dictionary, Entry, dictionary, text};
use super::joined::Joined;
use super::merkle;
use super::metainfo::BLOCK_SIZE;
use crate::args::{TorrentCreate, TorrentVersion};
use crate::hashing::digest_of;
use crate::hashing::pieces::digests;
use crate::hashing::source::Source;
use crate::hex::hex;
use crate::io::{PUBLIC_MODE, write_new};
use crate::output::{Failure, Output};

pub(super) fn run(args: &TorrentCreate, threads: usize, output: &mut Output) -> Result<(), Failure> {
    let failed = |error| Failure::at(args.path.display(), &error);
    let path = std::path::absolute(&args.path).map_err(failed)?;
    let name = path.file_name().ok_or_else(|| Failure::Usage(format!("{}: it has no name", path.display())))?;
    let name = utf8(name, &path)?;
    let to = args.output.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.torrent")));
    if to.exists() {
        return Err(exists(&to));
    }
    let files = list(&path)?;
    let (has_v1, has_v2) = (args.format != TorrentVersion::V2, args.format != TorrentVersion::V1);
    let length = check(&files, &name, &path, has_v2)?;
    let piece_size = args.piece_size.map_or_else(|| default_piece_size(length), |size| size as u64);
    let new = NewTorrent { files: &files, piece_size, threads, is_hybrid: has_v1 && has_v2 };

    let mut info = dictionary([("name", text(&name)), ("piece length", Entry::Number(piece_size))]);
    let mut torrent = Dictionary::new();
    if args.private {
        info.extend(dictionary([("private", Entry::Number(1))]));
    }
    if has_v1 {
        info.extend(new.v1()?);
    }
    if has_v2 {
        let (keys, layers) = new.v2(&name)?;
        info.extend(keys);
        torrent.extend(dictionary([("piece layers", Entry::Dictionary(layers))]));
    }
    let info = Entry::Dictionary(info);
    let encoded = info.encode();
    torrent.extend(dictionary([("info", info)]));
    torrent.extend(trackers(&args.announce));
    write_new(&to, PUBLIC_MODE, &Entry::Dictionary(torrent).encode()).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => exists(&to),
        _ => Failure::at(to.display(), &error),
    })?;
    for (is_there, version, algorithm) in [(has_v1, "v1", Algorithm::Sha1), (has_v2, "v2", Algorithm::Sha256)] {
        if is_there {
            output.write(&format!("{version}  {}\n", hex(&digest_of(algorithm, &[&encoded]))))?;
        }
    }
    Ok(())
}

fn exists(path: &Path) -> Failure {
    Failure::Failed(format!("{}: it exists already", path.display()))
}

/// Returns the length of all files. Refuses files that no torrent of this version can describe.
fn check(files: &[ContentFile], name: &str, path: &Path, has_v2: bool) -> Result<u64, Failure> {
    let wrong = |text: &str| Err(Failure::Failed(format!("{}: {text}", path.display())));
    match files {
        [alone] if has_v2 && alone.names == [name] => {
            wrong("v2 cannot tell a folder from its only file of the same name; use --format v1")
        }
        _ => match files.iter().try_fold(0u64, |all, file| all.checked_add(file.length)) {
            Some(0) => wrong("it has no data"),
            Some(length) if i64::try_from(length).is_ok() => Ok(length),
            _ => wrong("its files are too long"),
        },
    }
}

/// Returns the size of pieces that libtorrent chooses for data of this length.
fn default_piece_size(length: u64) -> u64 {
    // Most bytes of data in pieces of 16 KiB, 32 KiB and so on.
    const LARGEST: [u64; 10] = [
        2_684_355,
        10_737_418,
        42_949_673,
        171_798_692,
        687_194_767,
        2_748_779_069,
        10_995_116_278,
        43_980_465_111,
        175_921_860_444,
        703_687_441_777,
    ];
    BLOCK_SIZE << LARGEST.iter().filter(|largest| **largest < length).count()
}

fn trackers(urls: &[String]) -> Dictionary {
    let Some(first) = urls.first() else { return Dictionary::new() };
    let mut keys = dictionary([("announce", text(first))]);
    if urls.len() > 1 {
        let tiers = urls.iter().map(|url| Entry::List(vec![text(url)])).collect();
        keys.extend(dictionary([("announce-list", Entry::List(tiers))]));
    }
    keys
}

struct NewTorrent<'a> {
    files: &'a [ContentFile],
    piece_size: u64,
    threads: usize,
    is_hybrid: bool,
}

/// A file of v1, or padding.
#[derive(Clone, Copy)]
enum Part<'a> {
    File(&'a ContentFile),
    Padding(u64),
}

impl Part<'_> {
    fn length(self) -> u64 {
        match self {
            Part::File(file) => file.length,
            Part::Padding(length) => length,
        }
    }

    fn entry(self) -> Entry {
        Entry::Dictionary(match self {
            Part::File(file) => {
                let path = Entry::List(file.names.iter().map(|name| text(name)).collect());
                let mut keys = attributes(file);
                keys.extend(dictionary([("length", Entry::Number(file.length)), ("path", path)]));
                keys
            }
            Part::Padding(length) => {
                let path = Entry::List(vec![text(".pad"), text(&length.to_string())]);
                dictionary([("attr", text("p")), ("length", Entry::Number(length)), ("path", path)])
            }
        })
    }
}

/// Returns the attributes of BEP 47.
fn attributes(file: &ContentFile) -> Dictionary {
    if file.is_executable { dictionary([("attr", text("x"))]) } else { Dictionary::new() }
}

impl NewTorrent<'_> {
    /// Returns the keys of v1.
    fn v1(&self) -> Result<Dictionary, Failure> {
        let parts = self.parts();
        let path = |number: usize| match parts[number] {
            Part::File(file) => Some(file.path.clone()),
            Part::Padding(_) => None,
        };
        let joined = Joined::new(parts.iter().map(|part| part.length()), path);
        let pieces = digests(&joined, Algorithm::Sha1, self.piece_size, self.threads)?;
        let mut keys = dictionary([("pieces", Entry::Bytes(pieces))]);
        match self.files {
            [alone] if alone.names.is_empty() => {
                keys.extend(attributes(alone));
                keys.extend(dictionary([("length", Entry::Number(alone.length))]));
            }
            _ => {
                let files = parts.iter().map(|part| part.entry()).collect();
                keys.extend(dictionary([("files", Entry::List(files))]));
            }
        }
        Ok(keys)
    }

    /// Returns the files of v1. In a hybrid torrent, padding fills the last piece of each file, so that each file begins with a new
    /// piece, as in v2.
    fn parts(&self) -> Vec<Part<'_>> {
        let has_padding = self.is_hybrid && self.files.len() > 1;
        let padding = |file: &ContentFile| match file.length % self.piece_size {
            rest if has_padding && rest > 0 => Some(Part::Padding(self.piece_size - rest)),
            _ => None,
        };
        self.files.iter().flat_map(|file| [Some(Part::File(file)), padding(file)]).flatten().collect()
    }

    /// Returns the keys of v2, and the layers of pieces.
    fn v2(&self, name: &str) -> Result<(Dictionary, Dictionary), Failure> {
        let mut layers = Dictionary::new();
        let mut leaves = Vec::new();
        for file in self.files {
            let mut leaf = attributes(file);
            leaf.extend(dictionary([("length", Entry::Number(file.length))]));
            if file.length > 0 {
                let (root, layer) = self.tree_of(file)?;
                leaf.extend(dictionary([("pieces root", Entry::Bytes(root.clone()))]));
                layers.extend(layer.map(|layer| (root, Entry::Bytes(layer))));
            }
            let names: Vec<&str> = file.names.iter().map(String::as_str).collect();
            leaves.push((if names.is_empty() { vec![name] } else { names }, leaf));
        }
        let leaves: Vec<Leaf<'_>> = leaves.iter().map(|(names, leaf)| (&names[..], leaf)).collect();
        let keys = [("file tree", Entry::Dictionary(file_tree(&leaves))), ("meta version", Entry::Number(2))];
        Ok((dictionary(keys), layers))
    }

    /// Returns the root of a file, and the roots of its pieces if it has several pieces.
    fn tree_of(&self, file: &ContentFile) -> Result<(Vec<u8>, Option<Vec<u8>>), Failure> {
        let source = Source::open(&file.path)?;
        if source.length != file.length {
            return Err(Failure::Failed(format!("{}: its length changed", source.name)));
        }
        if file.length <= self.piece_size {
            return Ok((merkle::root_of_file(&source, self.threads)?.to_vec(), None));
        }
        let layer = merkle::roots_of_pieces(&source, self.piece_size, self.threads)?;
        Ok((merkle::root_of_pieces(&layer, self.piece_size)?.to_vec(), Some(layer)))
    }
}

/// A file of v2: its names below this folder, and its keys.
type Leaf<'a> = (&'a [&'a str], &'a Dictionary);

/// Returns the tree of the files in `leaves`, which must be sorted.
fn file_tree(leaves: &[Leaf<'_>]) -> Dictionary {
    let same_name = |a: &Leaf<'_>, b: &Leaf<'_>| a.0.first() == b.0.first();
    let entries = leaves.chunk_by(same_name).map(|group| {
        let name = group[0].0[0].as_bytes().to_vec();
        let inside = match group {
            [([_], leaf)] => dictionary([("", Entry::Dictionary((*leaf).clone()))]),
            _ => file_tree(&group.iter().map(|(names, leaf)| (&names[1..], *leaf)).collect::<Vec<_>>()),
        };
        (name, Entry::Dictionary(inside))
    });
    entries.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_grow_with_the_data_as_libtorrent_chooses_them() {
        let kib = |length| default_piece_size(length) >> 10;
        assert_eq!([1, 2_684_355, 2_684_356, 10_737_419, 4 << 30, 1 << 40].map(kib), [16, 16, 32, 64, 1024, 16384]);
    }
}
