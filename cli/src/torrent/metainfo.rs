//! What a torrent says about its files: BitTorrent v1 (BEP 3), padding files (BEP 47) and v2 (BEP 52).
//!
//! Files of a torrent share names, folders and layers. So nothing is kept for a file but places in the torrent, and it is gone through again where
//! its files are verified.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::bencode::{self, Reader, Value};

/// Bytes of a block of v2.
pub(crate) const BLOCK: u64 = 16 << 10;
/// Bytes of a digest of v1 (SHA-1), and of v2 (SHA-256).
pub(crate) const PIECE_DIGEST: usize = 20;
pub(crate) const DIGEST: usize = 32;
/// Most bytes of a piece: no program makes longer ones than 256 MiB.
const LONGEST_PIECE: u64 = 1 << 30;
/// Most bytes of a name: no file system of Linux has longer ones.
const LONGEST_NAME: usize = 255;

/// A torrent. All of it has been looked at.
pub(crate) struct Metainfo<'a> {
    /// Bytes of a piece.
    pub(crate) piece: u64,
    pub(crate) v1: Option<V1<'a>>,
    pub(crate) v2: Option<V2<'a>>,
}

/// Files behind each other, and the digests of their pieces.
pub(crate) struct V1<'a> {
    name: &'a [u8],
    files: Files<'a>,
    /// How many files there are.
    pub(crate) count: usize,
    pub(crate) digests: &'a [u8],
}

#[derive(Clone, Copy)]
enum Files<'a> {
    One { length: u64 },
    List(Value<'a>),
}

/// A file of v1.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    /// The names of its folders and its own, below that of the torrent; `None` for zeros that are in no file.
    pub(crate) names: Option<Value<'a>>,
    pub(crate) length: u64,
}

/// A tree of files, and the roots of their pieces.
pub(crate) struct V2<'a> {
    piece: u64,
    /// Of a file by itself, which has the torrent's name, there is none.
    folder: Option<&'a [u8]>,
    files: Value<'a>,
    /// Roots of files and those of their pieces, in the order of the first.
    layers: Vec<(&'a [u8], &'a [u8])>,
}

/// A file of v2.
pub(crate) struct Tree<'a> {
    pub(crate) length: u64,
    /// Of a file without bytes there is none.
    pub(crate) root: Option<&'a [u8; DIGEST]>,
    /// The roots of its pieces, if it has more than one.
    pub(crate) layer: &'a [u8],
}

impl<'a> Metainfo<'a> {
    /// The error says what is wrong.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self, String> {
        let torrent = bencode::read(bytes).map_err(|wrong| wrong.to_string())?;
        let info = torrent.get("info").ok_or("not a torrent: it has no info")?;
        let name = info.get("name").and_then(Value::bytes).ok_or("it has no name")?;
        component(name)?;
        let piece = info.get("piece length").and_then(Value::number);
        let piece = piece.filter(|bytes| (1..=LONGEST_PIECE).contains(bytes));
        let piece = piece.ok_or("its pieces have no length, or an absurd one")?;
        let v1 = info.get("pieces").map(|pieces| V1::new(info, pieces, name, piece)).transpose()?;
        let v2 = match (info.get("meta version").map(Value::number), info.get("file tree")) {
            (Some(Some(2)), Some(files)) => Some(V2::new(torrent, files, name, piece)?),
            (Some(Some(2)), None) => return Err("it has no file tree".to_owned()),
            (Some(_), _) => return Err("it is of a later version than 2".to_owned()),
            _ => None,
        };
        if v1.is_none() && v2.is_none() {
            return Err("it has no pieces".to_owned());
        }
        Ok(Metainfo { piece, v1, v2 })
    }
}

impl<'a> V1<'a> {
    fn new(info: Value<'a>, pieces: Value<'a>, name: &'a [u8], piece: u64) -> Result<Self, String> {
        let files = match info.get("files") {
            None => Files::One { length: length_of(info)? },
            Some(files) => Files::List(files),
        };
        let (mut count, mut length) = (0, 0u64);
        for part in files.parts().ok_or("its files are no list")? {
            count += 1;
            length = length.checked_add(part?.length).ok_or("its files are too long")?;
        }
        let digests = pieces.bytes().unwrap_or_default();
        let needed = usize::try_from(length.div_ceil(piece)).ok().and_then(|pieces| pieces.checked_mul(PIECE_DIGEST));
        if needed != Some(digests.len()) {
            let found = digests.len() / PIECE_DIGEST;
            return Err(format!("it has digests of {found} pieces; its files have {}", length.div_ceil(piece)));
        }
        Ok(V1 { name, files, count, digests })
    }

    /// The files, in the order of the torrent.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Part<'a>> {
        // None of them is wrong: all have been looked at.
        self.files.parts().into_iter().flatten().flatten()
    }

    /// The path of a file with these names, below the folder of the torrent.
    pub(crate) fn path(&self, names: Value<'a>) -> PathBuf {
        let names = names.list().into_iter().flatten().filter_map(Value::bytes);
        std::iter::once(self.name).chain(names).map(OsStr::from_bytes).collect()
    }
}

impl<'a> Files<'a> {
    /// `None` where there should be a list of files.
    fn parts(self) -> Option<impl Iterator<Item = Result<Part<'a>, String>>> {
        let (one, list) = match self {
            Files::One { length } => (Some(Ok(Part { names: Some(Value::EMPTY_LIST), length })), None),
            Files::List(files) => (None, Some(files.list()?.map(Part::new))),
        };
        Some(one.into_iter().chain(list.into_iter().flatten()))
    }
}

impl<'a> Part<'a> {
    fn new(file: Value<'a>) -> Result<Self, String> {
        let attributes = file.get("attr").and_then(Value::bytes).unwrap_or_default();
        let names = file.get("path").filter(|names| names.list().is_some_and(|mut names| names.next().is_some()));
        let names = names.ok_or("a file has no path")?;
        for name in names.list().into_iter().flatten() {
            component(name.bytes().unwrap_or_default())?;
        }
        let names = (!attributes.contains(&b'p')).then_some(names);
        Ok(Part { names, length: length_of(file)? })
    }
}

impl<'a> V2<'a> {
    fn new(torrent: Value<'a>, files: Value<'a>, name: &'a [u8], piece: u64) -> Result<Self, String> {
        if !piece.is_power_of_two() || piece < BLOCK {
            return Err(format!("pieces of v2 do not have {piece} bytes"));
        }
        // A file by itself has the torrent's name; in a folder of that name are all others.
        let mut reader = files.reader();
        let is_first = reader.enters_dictionary() && reader.key() == Some(name);
        let alone = is_first && reader.value().get("").is_some() && reader.key().is_none();
        let mut layers = Vec::new();
        let mut reader = torrent.get("piece layers").unwrap_or(Value::EMPTY_LIST).reader();
        if reader.enters_dictionary() {
            while let Some(root) = reader.key() {
                layers.extend(reader.value().bytes().map(|layer| (root, layer)));
            }
        }
        layers.sort_unstable_by_key(|(root, _)| *root);
        let v2 = V2 { piece, folder: (!alone).then_some(name), files, layers };
        v2.each(&mut |_, _| Ok::<_, String>(()))?;
        Ok(v2)
    }

    /// Calls `with` for each file with its path, in the order of the torrent, until there is an error.
    pub(crate) fn each<E: From<String>>(
        &self,
        with: &mut impl FnMut(&Path, Tree<'a>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut path = PathBuf::from(OsStr::from_bytes(self.folder.unwrap_or_default()));
        self.walk(&mut self.files.reader(), &mut path, 0, with)
    }

    /// The files of the folder at a place of the tree, which is no deeper than bencoding goes.
    fn walk<E: From<String>>(
        &self,
        reader: &mut Reader<'a>,
        path: &mut PathBuf,
        depth: usize,
        with: &mut impl FnMut(&Path, Tree<'a>) -> Result<(), E>,
    ) -> Result<(), E> {
        if !reader.enters_dictionary() {
            return Err("its file tree is none".to_owned().into());
        }
        while let Some(name) = reader.key() {
            if name.is_empty() && depth > 0 {
                with(path, self.tree(reader.value(), path)?)?;
            } else {
                path.push(component(name)?);
                self.walk(reader, path, depth + 1, with)?;
                path.pop();
            }
        }
        Ok(())
    }

    fn tree(&self, file: Value<'a>, path: &Path) -> Result<Tree<'a>, String> {
        let length = length_of(file)?;
        let root = file.get("pieces root").and_then(Value::bytes);
        let root = root.map(TryInto::try_into).transpose().map_err(|_| "a root of another length than 32 bytes")?;
        let root: Option<&[u8; DIGEST]> = root;
        if root.is_some() != (length > 0) {
            return Err(format!("{}: a root where there is no byte, or none where there are", path.display()));
        }
        let pieces = length.div_ceil(self.piece);
        let layer = match root {
            Some(root) if pieces > 1 => {
                let found = self.layers.binary_search_by_key(&&root[..], |(root, _)| *root);
                let needed = usize::try_from(pieces).ok().and_then(|pieces| pieces.checked_mul(DIGEST));
                let layer = found.ok().map(|place| self.layers[place].1);
                let layer = layer.filter(|layer| Some(layer.len()) == needed);
                layer.ok_or_else(|| format!("it has no digests of the {pieces} pieces of {}", path.display()))?
            }
            _ => &[],
        };
        Ok(Tree { length, root, layer })
    }
}

fn length_of(file: Value<'_>) -> Result<u64, &'static str> {
    file.get("length").and_then(Value::number).ok_or("a file has no length")
}

/// The name of a file or a folder, and of none elsewhere.
fn component(name: &[u8]) -> Result<&OsStr, String> {
    let leads_elsewhere = matches!(name, b"" | b"." | b"..") || name.iter().any(|byte| matches!(byte, b'/' | 0));
    if leads_elsewhere || name.len() > LONGEST_NAME {
        let shown = &name[..name.len().min(LONGEST_NAME)];
        return Err(format!("'{}' is no name of a file", String::from_utf8_lossy(shown).escape_debug()));
    }
    Ok(OsStr::from_bytes(name))
}

#[cfg(test)]
mod tests {
    use gantry_lab::memory::{many, taken};

    use super::*;

    fn wrong(torrent: &[u8]) -> String {
        Metainfo::read(torrent).err().expect("an error")
    }

    #[test]
    fn names_that_lead_out_of_the_folder_are_refused() {
        for name in ["..", ".", "a/b", "", "/etc", "a\0"] {
            let torrent = format!("d4:infod6:lengthi0e4:name{}:{name}12:piece lengthi1e6:pieces0:ee", name.len());
            assert!(wrong(torrent.as_bytes()).ends_with("is no name of a file"), "{name}");
            let torrent = format!(
                "d4:infod5:filesld6:lengthi0e4:pathl1:a{}:{name}eee4:name1:n12:piece lengthi1e6:pieces0:ee",
                name.len()
            );
            assert!(wrong(torrent.as_bytes()).ends_with("is no name of a file"), "{name}");
            let torrent = format!(
                "d4:infod9:file treed{}:{name}d0:d6:lengthi0eeee12:meta versioni2e4:name1:n12:piece lengthi16384eee",
                name.len()
            );
            // Without a name there is none of a file either.
            assert!(Metainfo::read(torrent.as_bytes()).is_err(), "{name}");
        }
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        for (torrent, words) in [
            (&b"de"[..], "it has no info"),
            (b"d4:infod4:name1:n12:piece lengthi0e6:pieces0:ee", "absurd"),
            (b"d4:infod4:name1:n12:piece lengthi9223372036854775807e6:pieces0:ee", "absurd"),
            (b"d4:infod6:lengthi2e4:name1:n12:piece lengthi1e6:pieces20:01234567890123456789ee", "digests of 1 pieces"),
            (b"d4:infod6:lengthi9223372036854775807e4:name1:n12:piece lengthi1e6:pieces0:ee", "digests of 0 pieces"),
            (b"d4:infod4:name1:n12:piece lengthi16384eee", "it has no pieces"),
            (b"d4:infod12:meta versioni3e4:name1:n12:piece lengthi16384eee", "later version"),
            (
                b"d4:infod9:file treed1:nd0:d6:lengthi16385e11:pieces root32:01234567890123456789012345678901eee12:meta versioni2e4:name1:n12:piece lengthi16384eee",
                "no digests of the 2 pieces of n",
            ),
        ] {
            let error = wrong(torrent);
            assert!(error.contains(words), "{error}");
        }
    }

    /// Memory that a torrent may take, for each of its bytes, and beside them.
    const TIMES: usize = 4;
    const BESIDE: usize = 64 << 10;
    const ROOT: &str = "01234567890123456789012345678901";

    /// A torrent of v1 with these files, or of v2 with this file tree and one layer.
    fn of_v1(name: &str, files: &str) -> Vec<u8> {
        format!("d4:infod5:filesl{files}e4:name{}:{name}12:piece lengthi1e6:pieces0:ee", name.len()).into_bytes()
    }

    fn of_v2(name: &str, tree: &str, layer: &str) -> Vec<u8> {
        let length = name.len();
        let info = format!("d9:file treed{tree}e12:meta versioni2e4:name{length}:{name}12:piece lengthi16384ee");
        format!("d4:info{info}12:piece layersd32:{ROOT}{}:{layer}ee", layer.len()).into_bytes()
    }

    fn file(name: &str, pieces: usize) -> String {
        let length = pieces << 14;
        format!("{}:{name}d0:d6:lengthi{length}e11:pieces root32:{ROOT}ee", name.len())
    }

    /// Some thousand files, each of so many pieces.
    fn files(pieces: usize) -> String {
        many(2000, |number| file(&format!("{number:05}"), pieces))
    }

    #[test]
    fn a_torrent_takes_no_more_memory_than_some_times_its_bytes() {
        let pieces = 5000;
        let layer = "x".repeat(pieces * DIGEST);
        let name = "n".repeat(255);
        let folders = |depth: usize| format!("255:{name}d").repeat(depth) + &files(1) + &"e".repeat(depth);
        let parts = "d6:lengthi0e4:pathl1:aee".repeat(2000);
        for (bomb, torrent) in [
            ("a layer that files share", of_v2("n", &files(pieces), &layer)),
            ("folders that files share", of_v2("n", &folders(50), "")),
            ("a name that files share", of_v2(&name, &files(1), "")),
            ("a name that files of v1 share", of_v1(&name, &parts)),
        ] {
            let (read, taken) = taken(|| Metainfo::read(&torrent).map(|_| ()));
            assert_eq!(read, Ok(()), "{bomb}");
            let most = TIMES * torrent.len() + BESIDE;
            assert!(taken.bytes <= most, "{bomb}: {} bytes for {} of torrent", taken.bytes, torrent.len());
        }
    }

    #[test]
    fn values_that_mean_nothing_take_no_memory() {
        for (bomb, value) in [("lists", "le"), ("lists of one", "l0:e"), ("strings", "0:"), ("numbers", "i0e")] {
            let torrent = format!("d1:al{}ee", value.repeat(50_000)).into_bytes();
            let (read, taken) = taken(|| Metainfo::read(&torrent).map(|_| ()));
            assert!(read.is_err_and(|error| error.contains("no info")), "{bomb}");
            assert!(taken.bytes <= BESIDE, "{bomb}: {} bytes for {} of torrent", taken.bytes, torrent.len());
        }
    }

    #[test]
    fn a_name_longer_than_file_systems_have_is_refused() {
        for torrent in [of_v1(&"n".repeat(256), ""), of_v2("n", &file(&"f".repeat(256), 1), "")] {
            assert!(wrong(&torrent).ends_with("is no name of a file"));
        }
    }
}
