//! Digests of earlier runs, for files that look as they did then: `--cache FILE`.
//!
//! A file looks the same if its size, its inode, and the times of its last change are the same at the same absolute path. What was changed within
//! [`RACY`] before it was read is not kept: a later change could have the same times.
//!
//! The cache is JSON lines: a header with the version, a line for each file, and the SHA-256 of all of that. It is replaced as a whole.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use gantry_digest::Algorithm;
use serde::Deserialize;

use super::digest::Digest;
use super::engine::{Found, Pipeline, Sink, Stamp};
use super::function::{Function, Functions};
use super::names::Id;
use super::object::Object;
use super::record;
use crate::hex::{from_hex, hex};
use crate::verity::digest_of;

/// FAT counts seconds by two, and no file system is coarser. Nanoseconds.
const RACY: i128 = 2_000_000_000;
const HEADER: &[u8] = b"{\"gantry_sum_cache\":1}\n";
/// More is not read.
const MOST: u64 = 4 << 30;

/// What is known of files.
pub(super) struct Cache {
    path: PathBuf,
    rows: HashMap<Vec<u8>, Row>,
    changed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    state: State,
    digests: Vec<(Id, Digest)>,
    /// This run asked for it.
    used: bool,
}

/// What a file looks like. Times are nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    size: u64,
    inode: u64,
    modified: i128,
    changed: i128,
}

/// The stamp of a file, as a line has it.
#[derive(Deserialize)]
struct Stated {
    size: u64,
    inode: u64,
    modified: i64,
    changed: i64,
}

/// Feeds a file to the pipeline, with its result if a cache has it.
pub(super) fn feed<N, S: Sink<N>>(
    cache: Option<&RefCell<Cache>>,
    name: OsString,
    functions: Functions,
    note: N,
    pipeline: &mut Pipeline<'_, N, S>,
) {
    match cache.and_then(|cache| cache.borrow_mut().look_up(&name, &functions)) {
        Some(found) => pipeline.known(name, found, note),
        None => pipeline.file(name, functions, note),
    }
}

impl Cache {
    /// The cache in a file, and a warning if it is damaged, and as if there were none.
    ///
    /// # Errors
    /// A file that is no cache, and would be lost.
    pub(super) fn open(path: &OsStr) -> Result<(Self, Option<String>), String> {
        let empty = || Self { path: path.into(), rows: HashMap::new(), changed: false };
        let shown = Path::new(path).display();
        let bytes = match read(Path::new(path)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((empty(), None)),
            Err(error) => return Err(format!("{shown}: {}", super::console::reason(&error))),
        };
        if !bytes.starts_with(HEADER) && !HEADER.starts_with(&bytes) {
            return Err(format!("{shown} is no cache of gantry sum, and would be written over"));
        }
        match rows(&bytes) {
            Some(rows) => Ok((Self { rows, ..empty() }, None)),
            None if bytes.is_empty() => Ok((empty(), None)),
            None => Ok((Self { changed: true, ..empty() }, Some(format!("{shown} is damaged: every file is read")))),
        }
    }

    fn look_up(&mut self, name: &OsStr, functions: &[Function]) -> Option<Found> {
        let row = self.rows.get_mut(&key(name)?)?;
        row.used = true;
        let stamp = fs::metadata(name).ok().filter(fs::Metadata::is_file).map(|data| Stamp::new(&data))?;
        if row.state != State::of(&stamp) || !stamp.settled(RACY) {
            return None;
        }
        let digest =
            |function: &Function| row.digests.iter().find(|(id, _)| *id == function.id).map(|(_, digest)| *digest);
        let digests = functions.iter().map(digest).collect::<Option<Vec<_>>>()?;
        Some(Found { digests, bytes: stamp.size, stamp: Some(stamp), cached: true })
    }

    /// Keeps what was found out about a file, if it has not changed since it was opened.
    pub(super) fn insert(&mut self, name: &[u8], functions: &[Function], found: &Found) {
        let name = OsStr::from_bytes(name);
        let Some(key) = key(name).filter(|_| !found.cached && name != "-") else { return };
        let kept = |stamp: &Stamp| {
            let now = fs::metadata(name).map(|data| Stamp::new(&data));
            stamp.settled(RACY) && stamp.size == found.bytes && now.is_ok_and(|now| now.agrees(stamp))
        };
        let Some(stamp) = found.stamp.filter(kept) else {
            self.changed |= self.rows.remove(&key).is_some();
            return;
        };
        let state = State::of(&stamp);
        let mut digests: Vec<(Id, Digest)> =
            functions.iter().map(|function| function.id).zip(found.digests.iter().copied()).collect();
        // Digests of other functions are those of the same content, if the file is the same.
        let before = self.rows.get(&key).filter(|row| row.state == state);
        for digest in before.iter().flat_map(|row| &row.digests) {
            if digests.iter().all(|(id, _)| *id != digest.0) {
                digests.push(*digest);
            }
        }
        self.rows.insert(key, Row { state, digests, used: true });
        self.changed = true;
    }

    /// Replaces the file, if there is anything new.
    pub(super) fn save(mut self) -> io::Result<()> {
        if !self.changed {
            return Ok(());
        }
        let exists = |path: &[u8]| fs::symlink_metadata(OsStr::from_bytes(path)).is_ok();
        self.rows.retain(|path, row| row.used || exists(path));
        let mut bytes = HEADER.to_vec();
        for (path, row) in &self.rows {
            let mut object = record::Object::begin(&mut bytes);
            object.name("path", path);
            object.number("size", row.state.size);
            object.number("inode", row.state.inode);
            object.number("modified", row.state.modified);
            object.number("changed", row.state.changed);
            object.digests("digests", row.digests.iter().copied());
            object.end();
            bytes.push(b'\n');
        }
        let sum = hex(&digest_of(Algorithm::Sha256, &[&bytes]));
        bytes.extend(format!("{{\"sha256\":\"{sum}\"}}\n").into_bytes());
        replace(&self.path, &bytes)
    }
}

/// Writes a file beside the other, and puts it in its place.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    let beside = PathBuf::from(name);
    let written = (|| {
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)
    })();
    if written.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::AlreadyExists) {
        // What is half written is of no use; the error is what is told.
        let _ = fs::remove_file(&beside);
    }
    written
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let data = file.metadata()?;
    if !data.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    if data.len() > MOST {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut { file }, &mut bytes)?;
    Ok(bytes)
}

/// The lines of a whole cache.
fn rows(bytes: &[u8]) -> Option<HashMap<Vec<u8>, Row>> {
    let end = bytes.strip_suffix(b"\n")?.iter().rposition(|&byte| byte == b'\n')? + 1;
    let (content, trailer) = bytes.split_at(end);
    let trailer: Trailer = serde_json::from_slice(trailer).ok()?;
    if from_hex(trailer.sha256.as_bytes())? != digest_of(Algorithm::Sha256, &[content]) {
        return None;
    }
    content.strip_prefix(HEADER)?.split_inclusive(|&byte| byte == b'\n').map(row).collect()
}

#[derive(Deserialize)]
struct Trailer {
    sha256: String,
}

fn row(line: &[u8]) -> Option<(Vec<u8>, Row)> {
    let object: Object<'_> = serde_json::from_slice(line).ok()?;
    let Stated { size, inode, modified, changed } = serde_json::from_slice(line).ok()?;
    let state = State { size, inode, modified: modified.into(), changed: changed.into() };
    Some((object.name()?, Row { state, digests: object.digests.0, used: false }))
}

impl State {
    fn of(stamp: &Stamp) -> Self {
        Self { size: stamp.size, inode: stamp.inode, modified: stamp.modified, changed: stamp.changed }
    }
}

/// The absolute path: the same file has another name in another folder.
fn key(name: &OsStr) -> Option<Vec<u8>> {
    std::path::absolute(name).ok().map(|path| path.into_os_string().into_vec())
}

#[cfg(test)]
mod tests {
    use gantry_lab::memory::{many, taken};

    use super::*;

    fn cache(lines: &str) -> Vec<u8> {
        let content = [HEADER, lines.as_bytes()].concat();
        let sum = hex(&digest_of(Algorithm::Sha256, &[&content]));
        [content, format!("{{\"sha256\":\"{sum}\"}}\n").into_bytes()].concat()
    }

    #[test]
    fn a_cache_takes_no_more_memory_than_some_times_its_bytes() {
        let line = |path: &str, digests: &str, more: &str| {
            format!(
                "{{\"path\":\"{path}\",\"size\":0,\"inode\":0,\"modified\":0,\"changed\":0,\"digests\":{{{digests}}}{more}}}\n"
            )
        };
        let objects = format!(",\"more\":[{}0]", r#"{"":0},"#.repeat(50_000));
        let md5 = format!("\"md5\":\"{}\"", "0".repeat(32));
        for (bomb, lines) in [
            ("short lines", many(5000, |path| line(&path.to_string(), "", ""))),
            ("lines with a digest", many(5000, |path| line(&path.to_string(), &md5, ""))),
            ("objects", line("a", &md5, &objects)),
        ] {
            let bytes = cache(&lines);
            let (read, taken) = taken(|| rows(&bytes).is_some());
            assert!(read, "{bomb}");
            assert!(taken.bytes <= 8 * bytes.len(), "{bomb}: {} bytes for {}", taken.bytes, bytes.len());
        }
    }
}
