//! What a torrent says about its files: BitTorrent v1 (BEP 3), padding files (BEP 47) and v2 (BEP 52).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::bencode::{self, Value};

/// Bytes of a block of v2.
pub(crate) const BLOCK: u64 = 16 << 10;
/// Bytes of a digest of v1 (SHA-1), and of v2 (SHA-256).
pub(crate) const PIECE_DIGEST: usize = 20;
pub(crate) const DIGEST: usize = 32;
/// Most bytes of a piece: no program makes longer ones than 256 MiB.
const LONGEST_PIECE: u64 = 1 << 30;

/// A torrent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Metainfo {
    /// Bytes of a piece.
    pub(crate) piece: u64,
    /// Of v1: all files behind each other, and the digests of their pieces.
    pub(crate) v1: Option<(Vec<Part>, Vec<u8>)>,
    /// Of v2.
    pub(crate) v2: Option<Vec<Tree>>,
}

/// A file of v1.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// `None` for zeros that are in no file.
    pub(crate) path: Option<PathBuf>,
    pub(crate) length: u64,
}

/// A file of v2.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    pub(crate) path: PathBuf,
    pub(crate) length: u64,
    /// Of a file without bytes there is none.
    pub(crate) root: Option<[u8; DIGEST]>,
    /// The roots of its pieces, if it has more than one.
    pub(crate) layer: Vec<u8>,
}

impl Metainfo {
    /// Paths are below the folder that holds the file or the folder of the torrent. The error says what is wrong.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, String> {
        let torrent = bencode::read(bytes).map_err(|wrong| wrong.to_string())?;
        let info = torrent.get("info").ok_or("not a torrent: it has no info")?;
        let name = info.get("name").and_then(Value::bytes).ok_or("it has no name")?;
        let name = component(name)?;
        let piece = info.get("piece length").and_then(Value::number);
        let piece = piece.filter(|bytes| (1..=LONGEST_PIECE).contains(bytes));
        let piece = piece.ok_or("its pieces have no length, or an absurd one")?;
        let v1 = match info.get("pieces") {
            Some(pieces) => Some(v1(info, pieces, &name, piece)?),
            None => None,
        };
        let v2 = match (info.get("meta version"), info.get("file tree")) {
            (Some(Value::Integer(2)), Some(files)) => Some(v2(&torrent, files, &name, piece)?),
            (Some(Value::Integer(2)), None) => return Err("it has no file tree".to_owned()),
            (Some(_), _) => return Err("it is of a later version than 2".to_owned()),
            _ => None,
        };
        if v1.is_none() && v2.is_none() {
            return Err("it has no pieces".to_owned());
        }
        Ok(Metainfo { piece, v1, v2 })
    }
}

fn v1(info: &Value<'_>, pieces: &Value<'_>, name: &Path, piece: u64) -> Result<(Vec<Part>, Vec<u8>), String> {
    let length_of = |file: &Value<'_>| file.get("length").and_then(Value::number).ok_or("a file has no length");
    let parts = match info.get("files") {
        None => vec![Part { path: Some(name.to_owned()), length: length_of(info)? }],
        Some(Value::List(files)) => {
            let part = |file: &Value<'_>| {
                let attributes = file.get("attr").and_then(Value::bytes).unwrap_or_default();
                let Some(Value::List(components)) = file.get("path") else { return Err("a file has no path".into()) };
                if components.is_empty() {
                    return Err("a file has no path".to_owned());
                }
                let mut path = name.to_owned();
                for part in components {
                    path.push(component(part.bytes().unwrap_or_default())?);
                }
                let path = (!attributes.contains(&b'p')).then_some(path);
                Ok(Part { path, length: length_of(file)? })
            };
            files.iter().map(part).collect::<Result<_, String>>()?
        }
        Some(_) => return Err("its files are no list".to_owned()),
    };
    let length =
        parts.iter().try_fold(0u64, |sum, part| sum.checked_add(part.length)).ok_or("its files are too long")?;
    let digests = pieces.bytes().unwrap_or_default();
    let needed = usize::try_from(length.div_ceil(piece)).ok().and_then(|pieces| pieces.checked_mul(PIECE_DIGEST));
    if needed != Some(digests.len()) {
        let found = digests.len() / PIECE_DIGEST;
        return Err(format!("it has digests of {found} pieces; its files have {}", length.div_ceil(piece)));
    }
    Ok((parts, digests.to_vec()))
}

fn v2(torrent: &Value<'_>, files: &Value<'_>, name: &Path, piece: u64) -> Result<Vec<Tree>, String> {
    if !piece.is_power_of_two() || piece < BLOCK {
        return Err(format!("pieces of v2 do not have {piece} bytes"));
    }
    let mut trees = Vec::new();
    // A file by itself has the torrent's name; in a folder of that name are all others.
    let alone = match files {
        Value::Dictionary(entries) => match &entries[..] {
            [(key, file)] => *key == name.as_os_str().as_bytes() && file.get("").is_some(),
            _ => false,
        },
        _ => return Err("its file tree is none".to_owned()),
    };
    let folder = if alone { PathBuf::new() } else { name.to_owned() };
    // Not deeper than bencoding goes.
    walk(files, &folder, &mut trees)?;
    for tree in &mut trees {
        let pieces = tree.length.div_ceil(piece);
        if pieces <= 1 {
            continue;
        }
        let root = tree.root.unwrap_or_default();
        let layers = torrent.get("piece layers");
        let layer = match layers {
            Some(Value::Dictionary(layers)) => layers.iter().find(|(key, _)| *key == root),
            _ => None,
        };
        let layer = layer.and_then(|(_, layer)| layer.bytes());
        let needed = usize::try_from(pieces).ok().and_then(|pieces| pieces.checked_mul(DIGEST));
        let fits = layer.filter(|layer| Some(layer.len()) == needed);
        let fits =
            fits.ok_or_else(|| format!("it has no digests of the {pieces} pieces of {}", tree.path.display()))?;
        tree.layer = fits.to_vec();
    }
    Ok(trees)
}

/// The files below a folder, in the order of the torrent.
fn walk(files: &Value<'_>, folder: &Path, trees: &mut Vec<Tree>) -> Result<(), String> {
    let Value::Dictionary(entries) = files else { return Err("its file tree is none".to_owned()) };
    for (key, value) in entries {
        let path = folder.join(component(key)?);
        let Some(file) = value.get("") else {
            walk(value, &path, trees)?;
            continue;
        };
        let length = file.get("length").and_then(Value::number).ok_or("a file has no length")?;
        let root = file.get("pieces root").and_then(Value::bytes);
        let root = root.map(TryInto::try_into).transpose().map_err(|_| "a root of another length than 32 bytes")?;
        if root.is_some() != (length > 0) {
            return Err(format!("{}: a root where there is no byte, or none where there are", path.display()));
        }
        trees.push(Tree { path, length, root, layer: Vec::new() });
    }
    Ok(())
}

/// The name of a file or a folder, and of none elsewhere.
fn component(name: &[u8]) -> Result<PathBuf, String> {
    let leads_elsewhere = matches!(name, b"" | b"." | b"..") || name.iter().any(|byte| matches!(byte, b'/' | 0));
    if leads_elsewhere {
        return Err(format!("'{}' is no name of a file", String::from_utf8_lossy(name).escape_debug()));
    }
    Ok(PathBuf::from(OsStr::from_bytes(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_out_of_the_folder_are_refused() {
        for name in ["..", ".", "a/b", "", "/etc", "a\0"] {
            let torrent = format!("d4:infod6:lengthi0e4:name{}:{name}12:piece lengthi1e6:pieces0:ee", name.len());
            assert!(Metainfo::read(torrent.as_bytes()).unwrap_err().ends_with("is no name of a file"), "{name}");
            let torrent = format!(
                "d4:infod5:filesld6:lengthi0e4:pathl1:a{}:{name}eee4:name1:n12:piece lengthi1e6:pieces0:ee",
                name.len()
            );
            assert!(Metainfo::read(torrent.as_bytes()).unwrap_err().ends_with("is no name of a file"), "{name}");
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
            let error = Metainfo::read(torrent).unwrap_err();
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
        (0..2000).map(|number| file(&format!("{number:05}"), pieces)).collect()
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
            let (read, taken) = gantry_lab::memory::taken(|| Metainfo::read(&torrent).map(|_| ()));
            assert_eq!(read, Ok(()), "{bomb}");
            let most = TIMES * torrent.len() + BESIDE;
            assert!(taken.bytes <= most, "{bomb}: {} bytes for {} of torrent", taken.bytes, torrent.len());
        }
    }

    #[test]
    fn values_that_mean_nothing_take_no_memory() {
        for (bomb, value) in [("lists", "le"), ("lists of one", "l0:e"), ("strings", "0:"), ("numbers", "i0e")] {
            let torrent = format!("d1:al{}ee", value.repeat(50_000)).into_bytes();
            let (read, taken) = gantry_lab::memory::taken(|| Metainfo::read(&torrent).map(|_| ()));
            assert!(read.is_err_and(|error| error.contains("no info")), "{bomb}");
            assert!(taken.bytes <= BESIDE, "{bomb}: {} bytes for {} of torrent", taken.bytes, torrent.len());
        }
    }

    #[test]
    fn a_name_longer_than_file_systems_have_is_refused() {
        for torrent in [of_v1(&"n".repeat(256), ""), of_v2("n", &file(&"f".repeat(256), 1), "")] {
            assert!(Metainfo::read(&torrent).unwrap_err().ends_with("is no name of a file"));
        }
    }
}
