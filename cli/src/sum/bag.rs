//! BagIt (RFC 8493): the declaration of a bag, and those of its tags that no manifest verifies.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::bag_names::{Escapes, bag_name};

/// Maximum length of a tag file in bytes; real ones have a few lines.
const MAX_TAG_FILE_BYTES: u64 = 16 << 20;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A folder with a `bagit.txt`.
pub(super) struct Bag {
    pub(super) folder: PathBuf,
    /// Major and minor number; `None` if `bagit.txt` does not have them.
    version: Option<(u32, u32)>,
    /// True if `bagit.txt` begins with a byte order mark, which section 2.1.1 forbids.
    has_byte_order_mark: bool,
}

impl Bag {
    /// Returns the bag in this folder; `None` if the folder is not a bag.
    pub(super) fn open(folder: &Path) -> Option<Self> {
        let declaration = folder.join("bagit.txt");
        if !declaration.is_file() {
            return None;
        }
        let text = read(&declaration).unwrap_or_default();
        let tags = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&text);
        let version = tag_value(tags, "BagIt-Version").and_then(|version| {
            let (major, minor) = version.split_once('.')?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        });
        Some(Self { folder: folder.to_owned(), version, has_byte_order_mark: text.starts_with(BYTE_ORDER_MARK) })
    }

    /// True if the bag is of version 1.0 or later.
    pub(super) fn is_at_least_1_0(&self) -> bool {
        self.version.is_none_or(|version| version >= (1, 0))
    }

    pub(super) fn escapes(&self) -> Escapes {
        if self.is_at_least_1_0() { Escapes::All } else { Escapes::LineEnds }
    }

    /// Compares the tags with the number of files and bytes of the payload, if known. Returns the faults, in words.
    pub(super) fn faults(&self, payload: Option<(u64, u64)>) -> Vec<String> {
        let mut faults = Vec::new();
        if self.has_byte_order_mark {
            faults.push("bagit.txt: begins with a byte order mark, which RFC 8493 forbids".to_owned());
        }
        let Some((files, bytes)) = payload else { return faults };
        // In bags before version 0.96, the file is package-info.txt.
        for name in ["bag-info.txt", "package-info.txt"] {
            let Ok(info) = read(&self.folder.join(name)) else { continue };
            let Some(oxum) = tag_value(&info, "Payload-Oxum") else { continue };
            if oxum
                .split_once('.')
                .is_none_or(|(stated, count)| (stated.parse::<u64>(), count.parse::<u64>()) != (Ok(bytes), Ok(files)))
            {
                let oxum = oxum.escape_debug();
                faults.push(format!("{name}: Payload-Oxum is {oxum}, but the payload has {bytes}.{files}"));
            }
        }
        faults
    }

    /// Returns the files of `fetch.txt` with their addresses, and the numbers of the lines that are not understood.
    ///
    /// # Errors
    /// Fails if `fetch.txt` exists, but cannot be read.
    pub(super) fn read_fetch_list(&self) -> io::Result<(Addresses, Vec<usize>)> {
        let (mut files, mut improper) = (Addresses::new(), Vec::new());
        let text = match read(&self.folder.join("fetch.txt")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((files, improper)),
            read => read?,
        };
        let lines = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&text).split(|&byte| byte == b'\n');
        for (number, line) in lines.enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() {
                continue;
            }
            let entry = || {
                let (address, rest) = split_word(line)?;
                let (length, name) = split_word(rest)?;
                let is_length = length == b"-" || length.iter().all(u8::is_ascii_digit);
                let name = bag_name(name, self.escapes()).filter(|name| name.starts_with(b"data/") && is_length)?;
                Some((name.into_owned(), String::from_utf8_lossy(address).into_owned()))
            };
            match entry() {
                Some((name, address)) => drop(files.insert(name, address)),
                None => improper.push(number + 1),
            }
        }
        Ok((files, improper))
    }
}

/// Addresses of files by their names in the bag.
pub(super) type Addresses = BTreeMap<Vec<u8>, String>;

/// Splits off the first word; `None` if nothing follows it.
fn split_word(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = line.iter().position(u8::is_ascii_whitespace)?;
    Some((&line[..end], line[end..].trim_ascii_start()))
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Opening a pipe in a stranger's bag would block.
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_TAG_FILE_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the value of the first tag of this name.
fn tag_value(tags: &[u8], name: &str) -> Option<String> {
    let mut lines = tags.split(|&byte| byte == b'\n' || byte == b'\r').map(String::from_utf8_lossy);
    lines.find_map(|line| {
        let (label, value) = line.split_once(':')?;
        label.trim().eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
    })
}

/// Returns the bag if the file is one of its manifests: `manifest-ALGORITHM.txt` or `tagmanifest-ALGORITHM.txt` beside `bagit.txt`
/// (section 2).
pub(super) fn bag_of_manifest(list: &Path) -> Option<Bag> {
    let name = list.file_name()?.as_bytes();
    let manifest = is_manifest(name) || name.strip_prefix(b"tag").is_some_and(is_manifest);
    if manifest { Bag::open(list.parent()?) } else { None }
}

/// True if the file of this name in a bag is a payload manifest.
pub(super) fn is_manifest(name: &[u8]) -> bool {
    name.starts_with(b"manifest-") && name.ends_with(b".txt")
}

/// Returns the manifests of a bag, sorted.
pub(super) fn manifests(bag: &Path) -> io::Result<Vec<PathBuf>> {
    let names = fs::read_dir(bag)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    let mut manifests: Vec<PathBuf> = names.into_iter().filter(|path| bag_of_manifest(path).is_some()).collect();
    manifests.sort_unstable();
    Ok(manifests)
}
