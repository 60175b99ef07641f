//! The files of a torrent: BitTorrent v1 (BEP 3), padding files and symbolic links (BEP 47), and v2 (BEP 52).
//!
//! Files of a torrent share names, folders and layers, so a torrent can list far more than its own size. Only slices of the torrent are
//! kept for a file, and the torrent is walked again when its files are verified.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::bencode::{self, Reader, Value};

/// Bytes of a block of v2.
pub(crate) const BLOCK_SIZE: u64 = 16 << 10;
/// Bytes of a digest of v1 (SHA-1).
pub(crate) const V1_DIGEST_SIZE: usize = 20;
/// Bytes of a digest of v2 (SHA-256).
pub(crate) const V2_DIGEST_SIZE: usize = 32;
/// Most bytes of a piece: no program makes pieces of more than 256 MiB.
const MAX_PIECE_SIZE: u64 = 1 << 30;
/// Most bytes of a name in Linux's file systems.
const MAX_NAME_LENGTH: usize = 255;

/// A torrent that has been checked completely.
pub(crate) struct Metainfo<'a> {
    /// Name of the torrent's file or folder.
    pub(crate) name: &'a [u8],
    /// Bytes of a piece.
    pub(crate) piece_size: u64,
    pub(crate) v1: Option<V1<'a>>,
    pub(crate) v2: Option<V2<'a>>,
}

/// The files of v1, concatenated, and the digests of their pieces.
pub(crate) struct V1<'a> {
    files: Files<'a>,
    /// Number of files.
    pub(crate) file_count: usize,
    pub(crate) digests: &'a [u8],
}

#[derive(Clone, Copy)]
enum Files<'a> {
    One { length: u64 },
    List(Value<'a>),
}

#[derive(Clone, Copy)]
pub(crate) struct V1File<'a> {
    /// The names of the folders above the file and of the file itself, below the torrent's folder.
    pub(crate) names: Value<'a>,
    pub(crate) kind: V1FileKind<'a>,
    pub(crate) length: u64,
}

#[derive(Clone, Copy)]
pub(crate) enum V1FileKind<'a> {
    File,
    /// Zeros before the next file, without a file of their own.
    Padding,
    /// A symbolic link to the file or folder with these names, below the torrent's folder or below the link's folder.
    Link(Value<'a>),
}

/// Prefix of the names of BitComet's padding files, which have no other mark.
const PADDING_PREFIX: &[u8] = b"_____padding_file_";

/// The file tree of v2, and the roots of pieces.
pub(crate) struct V2<'a> {
    piece_size: u64,
    /// The torrent's folder; `None` for a single file, which has the torrent's name.
    folder: Option<&'a [u8]>,
    files: Value<'a>,
    /// The root of each file with the roots of its pieces, sorted by the root of the file.
    layers: Vec<(&'a [u8], &'a [u8])>,
}

pub(crate) struct V2File<'a> {
    /// The names of a symbolic link's target, as in [`V1FileKind::Link`].
    pub(crate) link: Option<Value<'a>>,
    pub(crate) length: u64,
    /// `None` for an empty file.
    pub(crate) root: Option<&'a [u8; V2_DIGEST_SIZE]>,
    /// The roots of the file's pieces, if it has several pieces. Empty if the torrent lacks them.
    pub(crate) layer: &'a [u8],
}

impl<'a> Metainfo<'a> {
    /// Parses a torrent. The error is a sentence.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self, String> {
        let torrent = bencode::read(bytes).map_err(|wrong| wrong.to_string())?;
        let info = torrent.get("info").ok_or("not a torrent: it has no info")?;
        let name = info.get("name.utf-8").or(info.get("name")).and_then(Value::bytes).ok_or("it has no name")?;
        checked_name(name)?;
        let piece_size = info.get("piece length").and_then(Value::number);
        let piece_size = piece_size.filter(|bytes| (1..=MAX_PIECE_SIZE).contains(bytes));
        let piece_size = piece_size.ok_or("the length of its pieces is missing or absurd")?;
        let v1 = info.get("pieces").map(|pieces| V1::new(info, pieces, piece_size)).transpose()?;
        // libtorrent reads a version below 2, and one that is no number, as v1.
        let v2 = match (info.get("meta version").and_then(Value::number), info.get("file tree")) {
            (Some(2), Some(files)) => Some(V2::new(torrent, files, name, piece_size)?),
            (Some(2), None) => return Err("it has no file tree".to_owned()),
            (Some(3..), _) => return Err("its version is later than 2".to_owned()),
            _ => None,
        };
        if v1.is_none() && v2.is_none() {
            return Err("it has no pieces".to_owned());
        }
        Ok(Metainfo { name, piece_size, v1, v2 })
    }
}

impl<'a> V1<'a> {
    fn new(info: Value<'a>, pieces: Value<'a>, piece_size: u64) -> Result<Self, String> {
        let files = match info.get("files") {
            None => Files::One { length: length_of(info)? },
            Some(files) => Files::List(files),
        };
        let (mut file_count, mut length) = (0, 0u64);
        for part in files.files().ok_or("its files are not a list")? {
            file_count += 1;
            length = length.checked_add(part?.length).ok_or("its files are too long")?;
        }
        let digests = pieces.bytes().unwrap_or_default();
        let needed =
            usize::try_from(length.div_ceil(piece_size)).ok().and_then(|pieces| pieces.checked_mul(V1_DIGEST_SIZE));
        if needed != Some(digests.len()) {
            let found = digests.len() / V1_DIGEST_SIZE;
            return Err(format!("it has digests of {found} pieces; its files have {}", length.div_ceil(piece_size)));
        }
        Ok(V1 { files, file_count, digests })
    }

    /// Returns the files, in the order of the torrent.
    pub(crate) fn files(&self) -> impl Iterator<Item = V1File<'a>> {
        // `new` has checked all of them.
        self.files.files().into_iter().flatten().flatten()
    }
}

/// Returns the path with these names; an empty path for the only file of a torrent.
pub(crate) fn path(names: Value<'_>) -> PathBuf {
    names.list().into_iter().flatten().filter_map(Value::bytes).map(OsStr::from_bytes).collect()
}

impl<'a> Files<'a> {
    /// Returns the files; `None` if there is no list of files.
    fn files(self) -> Option<impl Iterator<Item = Result<V1File<'a>, String>>> {
        let (only_file, list) = match self {
            Files::One { length } => {
                (Some(Ok(V1File { names: Value::EMPTY_LIST, kind: V1FileKind::File, length })), None)
            }
            Files::List(files) => (None, Some(files.list()?.map(V1File::new))),
        };
        Some(only_file.into_iter().chain(list.into_iter().flatten()))
    }
}

impl<'a> V1File<'a> {
    fn new(file: Value<'a>) -> Result<Self, String> {
        let attributes = file.get("attr").and_then(Value::bytes).unwrap_or_default();
        let names = checked_names(file.get("path.utf-8").or(file.get("path"))).ok_or("a file has no path")??;
        let last = names.list().into_iter().flatten().last().and_then(Value::bytes).unwrap_or_default();
        let depth = names.list().into_iter().flatten().count() - 1;
        if let Some(target) = link_target(file, depth)? {
            // Some programs give a link the length of its target, which is in no piece.
            return Ok(V1File { names, kind: V1FileKind::Link(target), length: 0 });
        }
        let is_padding = attributes.contains(&b'p') || last.starts_with(PADDING_PREFIX);
        Ok(V1File {
            names,
            kind: if is_padding { V1FileKind::Padding } else { V1FileKind::File },
            length: length_of(file)?,
        })
    }
}

/// Checks a list of names; `None` if there are no names.
fn checked_names(names: Option<Value<'_>>) -> Option<Result<Value<'_>, String>> {
    let names = names.filter(|names| names.list().is_some_and(|mut names| names.next().is_some()))?;
    let mut all = names.list().into_iter().flatten();
    Some(all.try_for_each(|name| checked_name(name.bytes().unwrap_or_default()).map(|_| ())).map(|()| names))
}

/// Returns the names of a symbolic link's target, if the file is a link; `depth` is the number of folders above it. In BEP 47 the target
/// begins at the torrent's folder. libtorrent writes the link's text unchanged, and its `..` begins at the link's folder.
fn link_target(file: Value<'_>, mut depth: usize) -> Result<Option<Value<'_>>, String> {
    if !file.get("attr").and_then(Value::bytes).unwrap_or_default().contains(&b'l') {
        return Ok(None);
    }
    let names = file.get("symlink path").filter(|names| names.list().is_some_and(|mut names| names.next().is_some()));
    let names = names.ok_or("a symbolic link has no target")?;
    for name in names.list().into_iter().flatten() {
        match name.bytes().unwrap_or_default() {
            b"." => {}
            b".." => depth = depth.checked_sub(1).ok_or("a symbolic link leads out of the torrent")?,
            name => {
                checked_name(name)?;
                depth += 1;
            }
        }
    }
    Ok(Some(names))
}

impl<'a> V2<'a> {
    fn new(torrent: Value<'a>, files: Value<'a>, name: &'a [u8], piece_size: u64) -> Result<Self, String> {
        if !piece_size.is_power_of_two() || piece_size < BLOCK_SIZE {
            return Err(format!("pieces of v2 cannot have {piece_size} bytes"));
        }
        // A single file has the torrent's name; several files are in a folder of that name.
        let mut reader = files.reader();
        let is_first = reader.enter_dictionary() && reader.key() == Some(name);
        let is_single_file = is_first && reader.value().get("").is_some() && reader.key().is_none();
        let mut layers = Vec::new();
        let mut reader = torrent.get("piece layers").unwrap_or(Value::EMPTY_LIST).reader();
        if reader.enter_dictionary() {
            while let Some(root) = reader.key() {
                layers.extend(reader.value().bytes().map(|layer| (root, layer)));
            }
        }
        layers.sort_unstable_by_key(|(root, _)| *root);
        let v2 = V2 { piece_size, folder: (!is_single_file).then_some(name), files, layers };
        v2.for_each_file(&mut |_, _| Ok::<_, String>(()))?;
        Ok(v2)
    }

    /// Calls `on_file` for each file with its path, in the order of the torrent. Stops at the first error.
    pub(crate) fn for_each_file<E: From<String>>(
        &self,
        on_file: &mut impl FnMut(&Path, V2File<'a>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut path = PathBuf::from(OsStr::from_bytes(self.folder.unwrap_or_default()));
        self.walk(&mut self.files.reader(), &mut path, 0, on_file)
    }

    /// Walks the folder at a position of the tree. The parser limits the depth.
    fn walk<E: From<String>>(
        &self,
        reader: &mut Reader<'a>,
        path: &mut PathBuf,
        depth: usize,
        on_file: &mut impl FnMut(&Path, V2File<'a>) -> Result<(), E>,
    ) -> Result<(), E> {
        if !reader.enter_dictionary() {
            return Err("its file tree is not a dictionary".to_owned().into());
        }
        while let Some(name) = reader.key() {
            if name.is_empty() && depth > 0 {
                on_file(path, self.v2_file(reader.value(), path)?)?;
            } else {
                path.push(checked_name(name)?);
                self.walk(reader, path, depth + 1, on_file)?;
                path.pop();
            }
        }
        Ok(())
    }

    fn v2_file(&self, file: Value<'a>, path: &Path) -> Result<V2File<'a>, String> {
        // The last name in the path is the link's name, and the first one is the torrent's.
        if let Some(target) = link_target(file, path.components().count().saturating_sub(2))? {
            return Ok(V2File { link: Some(target), length: 0, root: None, layer: &[] });
        }
        let length = length_of(file)?;
        let root = file.get("pieces root").and_then(Value::bytes);
        let root = root.map(TryInto::try_into).transpose().map_err(|_| "a root does not have 32 bytes")?;
        let root: Option<&[u8; V2_DIGEST_SIZE]> = root;
        let root = root.filter(|root| length > 0 || **root != [0; V2_DIGEST_SIZE]);
        if root.is_some() != (length > 0) {
            return Err(format!("{}: an empty file has a root, or another file has none", path.display()));
        }
        let pieces = length.div_ceil(self.piece_size);
        let layer = match root {
            Some(root) if pieces > 1 => {
                let found = self.layers.binary_search_by_key(&&root[..], |(root, _)| *root);
                let needed = usize::try_from(pieces).ok().and_then(|pieces| pieces.checked_mul(V2_DIGEST_SIZE));
                match found.ok().map(|index| self.layers[index].1) {
                    None => &[],
                    Some(layer) if Some(layer.len()) == needed => layer,
                    Some(_) => {
                        let path = path.display();
                        return Err(format!("it has digests of more or less than the {pieces} pieces of {path}"));
                    }
                }
            }
            _ => &[],
        };
        Ok(V2File { link: None, length, root, layer })
    }
}

fn length_of(file: Value<'_>) -> Result<u64, &'static str> {
    file.get("length").and_then(Value::number).ok_or("a file has no length")
}

/// Checks the name of a file or folder, which must not lead elsewhere.
fn checked_name(name: &[u8]) -> Result<&OsStr, String> {
    let leads_elsewhere = matches!(name, b"" | b"." | b"..") || name.iter().any(|byte| matches!(byte, b'/' | 0));
    if leads_elsewhere || name.len() > MAX_NAME_LENGTH {
        let shown = &name[..name.len().min(MAX_NAME_LENGTH)];
        return Err(format!("'{}' is not a valid file name", String::from_utf8_lossy(shown).escape_debug()));
    }
    Ok(OsStr::from_bytes(name))
}

#[cfg(test)]
mod tests {
    use gantry_lab::memory::{concat_parts, measure};

    use super::*;

    fn read_error(torrent: &[u8]) -> String {
        Metainfo::read(torrent).err().expect("an error")
    }

    #[test]
    fn names_that_lead_out_of_the_folder_are_refused() {
        for name in ["..", ".", "a/b", "", "/etc", "a\0"] {
            let torrent = format!("d4:infod6:lengthi0e4:name{}:{name}12:piece lengthi1e6:pieces0:ee", name.len());
            assert!(read_error(torrent.as_bytes()).ends_with("is not a valid file name"), "{name}");
            let torrent = format!(
                "d4:infod5:filesld6:lengthi0e4:pathl1:a{}:{name}eee4:name1:n12:piece lengthi1e6:pieces0:ee",
                name.len()
            );
            assert!(read_error(torrent.as_bytes()).ends_with("is not a valid file name"), "{name}");
            let torrent = format!(
                "d4:infod9:file treed{}:{name}d0:d6:lengthi0eeee12:meta versioni2e4:name1:n12:piece lengthi16384eee",
                name.len()
            );
            // An empty name makes the file itself invalid, with another message.
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
            (b"d4:infod12:meta versioni3e4:name1:n12:piece lengthi16384eee", "later than 2"),
            (
                b"d4:infod9:file treed1:nd0:d6:lengthi16385e11:pieces root32:01234567890123456789012345678901eee12:meta versioni2e4:name1:n12:piece lengthi16384ee12:piece layersd32:012345678901234567890123456789011:xee",
                "digests of more or less than the 2 pieces of n",
            ),
            (b"d4:infod5:filesld4:attr1:l6:lengthi0e4:pathl1:aeee4:name1:n12:piece lengthi1e6:pieces0:ee", "no target"),
            (
                b"d4:infod5:filesld4:attr1:l4:pathl1:ae12:symlink pathl2:..eee4:name1:n12:piece lengthi1e6:pieces0:ee",
                "leads out of the torrent",
            ),
            (
                b"d4:infod5:filesld4:attr1:l4:pathl1:d1:ae12:symlink pathl2:..2:..eee4:name1:n12:piece lengthi1e6:pieces0:ee",
                "leads out of the torrent",
            ),
            (
                b"d4:infod5:filesld4:attr1:l4:pathl1:ae12:symlink pathl4:/etceee4:name1:n12:piece lengthi1e6:pieces0:ee",
                "'/etc' is not a valid file name",
            ),
            (
                b"d4:infod9:file treed1:ad0:d4:attr1:leee12:meta versioni2e4:name1:n12:piece lengthi16384eee",
                "no target",
            ),
            (
                b"d4:infod9:file treed1:ad0:d4:attr1:l12:symlink pathl2:..eeee12:meta versioni2e4:name1:n12:piece lengthi16384eee",
                "leads out of the torrent",
            ),
        ] {
            let error = read_error(torrent);
            assert!(error.contains(words), "{error}");
        }
    }

    /// Most memory of a torrent: `TIMES` its bytes, plus `BESIDE`.
    const TIMES: usize = 4;
    const BESIDE: usize = 64 << 10;
    const ROOT: &str = "01234567890123456789012345678901";

    /// Makes a torrent of v1 with these files.
    fn of_v1(name: &str, files: &str) -> Vec<u8> {
        format!("d4:infod5:filesl{files}e4:name{}:{name}12:piece lengthi1e6:pieces0:ee", name.len()).into_bytes()
    }

    /// Makes a torrent of v2 with this file tree and one layer.
    fn of_v2(name: &str, tree: &str, layer: &str) -> Vec<u8> {
        let length = name.len();
        let info = format!("d9:file treed{tree}e12:meta versioni2e4:name{length}:{name}12:piece lengthi16384ee");
        format!("d4:info{info}12:piece layersd32:{ROOT}{}:{layer}ee", layer.len()).into_bytes()
    }

    fn file(name: &str, pieces: usize) -> String {
        let length = pieces << 14;
        format!("{}:{name}d0:d6:lengthi{length}e11:pieces root32:{ROOT}ee", name.len())
    }

    /// Makes 2000 files of `pieces` pieces each.
    fn files(pieces: usize) -> String {
        concat_parts(2000, |number| file(&format!("{number:05}"), pieces))
    }

    #[test]
    fn memory_for_a_torrent_is_bounded_by_its_size() {
        let pieces = 5000;
        let layer = "x".repeat(pieces * V2_DIGEST_SIZE);
        let name = "n".repeat(255);
        let folders = |depth: usize| format!("255:{name}d").repeat(depth) + &files(1) + &"e".repeat(depth);
        let parts = "d6:lengthi0e4:pathl1:aee".repeat(2000);
        for (bomb, torrent) in [
            ("a layer that files share", of_v2("n", &files(pieces), &layer)),
            ("folders that files share", of_v2("n", &folders(50), "")),
            ("a name that files share", of_v2(&name, &files(1), "")),
            ("a name that files of v1 share", of_v1(&name, &parts)),
        ] {
            let (result, memory) = measure(|| Metainfo::read(&torrent).map(|_| ()));
            assert_eq!(result, Ok(()), "{bomb}");
            let most = TIMES * torrent.len() + BESIDE;
            assert!(memory.peak_bytes <= most, "{bomb}: {} bytes for {} of torrent", memory.peak_bytes, torrent.len());
        }
    }

    #[test]
    fn unused_values_take_no_memory() {
        for (bomb, value) in [("lists", "le"), ("lists of one", "l0:e"), ("strings", "0:"), ("numbers", "i0e")] {
            let torrent = format!("d1:al{}ee", value.repeat(50_000)).into_bytes();
            let (result, memory) = measure(|| Metainfo::read(&torrent).map(|_| ()));
            assert!(result.is_err_and(|error| error.contains("no info")), "{bomb}");
            assert!(
                memory.peak_bytes <= BESIDE,
                "{bomb}: {} bytes for {} of torrent",
                memory.peak_bytes,
                torrent.len()
            );
        }
    }

    #[test]
    fn a_name_that_is_too_long_for_file_systems_is_refused() {
        for torrent in [of_v1(&"n".repeat(256), ""), of_v2("n", &file(&"f".repeat(256), 1), "")] {
            assert!(read_error(&torrent).ends_with("is not a valid file name"));
        }
    }
}
