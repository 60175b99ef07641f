//! Digests of earlier runs for files that have not changed since: `--cache FILE`.
//!
//! A file counts as unchanged if the same absolute path has the same size, inode, and times of modification and change. Digests of a file
//! that changed within [`RACY_NANOSECONDS`] before it was read are not kept: a later change could leave the same times.
//!
//! The cache is JSON lines: a header with the version, a line for each file, and the SHA-256 of the preceding lines. It is replaced
//! atomically, from time to time and at the end. After an interrupted run, the next run reads only the files that are not in the cache.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gantry_digest::Algorithm;
use serde::Deserialize;

use super::digest::Digest;
use super::engine::{HashedFile, Pipeline, Sink, Stamp};
use super::function::{Function, Functions};
use super::names::HashId;
use super::object::Object;
use super::record;
use crate::hashing::digest_of;
use crate::hex::{from_hex, hex};
use crate::io::replace;

/// Resolution of file times in nanoseconds: FAT counts in two seconds, and no file system is coarser.
const RACY_NANOSECONDS: i128 = 2_000_000_000;
const HEADER: &[u8] = b"{\"gantry_sum_cache\":1}\n";
/// Most bytes of a cache.
const MAX_CACHE_BYTES: u64 = 4 << 30;
/// Least time between two replacements during a run.
const MIN_SAVE_INTERVAL: Duration = Duration::from_mins(1);
/// Least time between two replacements, as a multiple of the time that the last replacement took.
const MIN_SAVE_INTERVAL_FACTOR: u32 = 20;

/// Known digests of files.
pub(super) struct Cache {
    path: PathBuf,
    rows: HashMap<Vec<u8>, Row>,
    is_changed: bool,
    /// The earliest time of the next replacement.
    next_save: Instant,
    save_interval: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    state: FileState,
    digests: Vec<(HashId, Digest)>,
    /// True if this run looked the file up.
    was_used: bool,
}

/// Metadata of a file. Times are nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileState {
    size: u64,
    inode: u64,
    modified: i128,
    changed: i128,
}

/// The metadata in a line.
#[derive(Deserialize)]
struct StoredState {
    size: u64,
    inode: u64,
    modified: i64,
    changed: i64,
}

/// Feeds a file to the pipeline, with its result if the cache has it.
pub(super) fn feed<N, S: Sink<N>>(
    cache: Option<&RefCell<Cache>>,
    name: OsString,
    functions: Functions,
    note: N,
    pipeline: &mut Pipeline<'_, N, S>,
) {
    match cache.and_then(|cache| cache.borrow_mut().look_up(&name, &functions)) {
        Some(found) => pipeline.feed_known(name, found, note),
        None => pipeline.feed_file(name, functions, note),
    }
}

impl Cache {
    /// Opens a cache. Returns an empty cache if there is no file, and an empty cache with a warning if it is damaged.
    ///
    /// # Errors
    /// Fails if the file exists, but cannot be read, or is not a cache and would be overwritten.
    pub(super) fn open(path: &OsStr) -> Result<(Self, Option<String>), String> {
        let next_save = Instant::now() + MIN_SAVE_INTERVAL;
        let empty = || Self {
            path: path.into(),
            rows: HashMap::new(),
            is_changed: false,
            next_save,
            save_interval: MIN_SAVE_INTERVAL,
        };
        let shown = Path::new(path).display();
        let bytes = match read(Path::new(path)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((empty(), None)),
            Err(error) => return Err(format!("{shown}: {}", super::console::reason(&error))),
        };
        // A part of the header is a damaged cache, and an empty file is a new one.
        if !bytes.starts_with(HEADER) && !HEADER.starts_with(&bytes) {
            return Err(format!("{shown} is not a cache of gantry sum, and would be overwritten"));
        }
        match rows(&bytes) {
            Some(rows) => Ok((Self { rows, ..empty() }, None)),
            None if bytes.is_empty() => Ok((empty(), None)),
            None => {
                Ok((Self { is_changed: true, ..empty() }, Some(format!("{shown} is damaged, so every file is read"))))
            }
        }
    }

    fn look_up(&mut self, name: &OsStr, functions: &[Function]) -> Option<HashedFile> {
        let row = self.rows.get_mut(&cache_key(name)?)?;
        row.was_used = true;
        let stamp = fs::metadata(name).ok().filter(fs::Metadata::is_file).map(|data| Stamp::new(&data))?;
        if row.state != FileState::of(&stamp) || !stamp.was_unchanged_for(RACY_NANOSECONDS) {
            return None;
        }
        let digest =
            |function: &Function| row.digests.iter().find(|(id, _)| *id == function.id).map(|(_, digest)| *digest);
        let digests = functions.iter().map(digest).collect::<Option<Vec<_>>>()?;
        Some(HashedFile { digests, bytes: stamp.size, stamp: Some(stamp), cached: true })
    }

    /// Keeps the digests of a file, if it has not changed since it was opened.
    pub(super) fn insert(&mut self, name: &[u8], functions: &[Function], found: &HashedFile) {
        let name = OsStr::from_bytes(name);
        let Some(key) = cache_key(name).filter(|_| !found.cached && name != "-") else { return };
        let kept = |stamp: &Stamp| {
            let current = fs::metadata(name).map(|data| Stamp::new(&data));
            stamp.was_unchanged_for(RACY_NANOSECONDS)
                && stamp.size == found.bytes
                && current.is_ok_and(|current| current.is_same_state(stamp))
        };
        let Some(stamp) = found.stamp.filter(kept) else {
            self.is_changed |= self.rows.remove(&key).is_some();
            return;
        };
        let state = FileState::of(&stamp);
        let mut digests: Vec<(HashId, Digest)> =
            functions.iter().map(|function| function.id).zip(found.digests.iter().copied()).collect();
        // Keep digests of other functions if the file is unchanged.
        let before = self.rows.get(&key).filter(|row| row.state == state);
        for digest in before.iter().flat_map(|row| &row.digests) {
            if digests.iter().all(|(id, _)| *id != digest.0) {
                digests.push(*digest);
            }
        }
        self.rows.insert(key, Row { state, digests, was_used: true });
        self.is_changed = true;
        let now = Instant::now();
        if now >= self.next_save {
            // Ignore a failure: the attempt at the end of the run reports it.
            let _ = self.save();
            self.next_save = Instant::now() + self.save_interval.max(now.elapsed() * MIN_SAVE_INTERVAL_FACTOR);
        }
    }

    /// Replaces the file of the cache, if anything is new.
    pub(super) fn save(&mut self) -> io::Result<()> {
        if !self.is_changed {
            return Ok(());
        }
        let exists = |path: &[u8]| fs::symlink_metadata(OsStr::from_bytes(path)).is_ok();
        // Drop the files that this run did not look up and that no longer exist.
        self.rows.retain(|path, row| row.was_used || exists(path));
        let mut bytes = HEADER.to_vec();
        for (path, row) in &self.rows {
            let mut object = record::ObjectWriter::begin(&mut bytes);
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
        replace(&self.path, 0o600, &bytes)?;
        self.is_changed = false;
        Ok(())
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let data = file.metadata()?;
    if !data.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    if data.len() > MAX_CACHE_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut { file }, &mut bytes)?;
    Ok(bytes)
}

/// Parses a cache; `None` if it is damaged.
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
    let StoredState { size, inode, modified, changed } = serde_json::from_slice(line).ok()?;
    let state = FileState { size, inode, modified: modified.into(), changed: changed.into() };
    Some((object.name()?, Row { state, digests: object.digests.0, was_used: false }))
}

impl FileState {
    fn of(stamp: &Stamp) -> Self {
        Self { size: stamp.size, inode: stamp.inode, modified: stamp.modified, changed: stamp.changed }
    }
}

/// Returns the absolute path of a file, because names may be relative to a working directory.
fn cache_key(name: &OsStr) -> Option<Vec<u8>> {
    std::path::absolute(name).ok().map(|path| path.into_os_string().into_vec())
}

#[cfg(test)]
mod tests {
    use gantry_lab::memory::{concat_parts, measure};

    use super::*;

    fn cache(lines: &str) -> Vec<u8> {
        let content = [HEADER, lines.as_bytes()].concat();
        let sum = hex(&digest_of(Algorithm::Sha256, &[&content]));
        [content, format!("{{\"sha256\":\"{sum}\"}}\n").into_bytes()].concat()
    }

    #[test]
    fn digests_are_saved_during_a_run() {
        let path = std::env::temp_dir().join(format!("gantry-cache-{}", std::process::id()));
        let (mut during, _) = Cache::open(path.as_os_str()).unwrap();
        (during.next_save, during.save_interval) = (Instant::now(), Duration::ZERO);
        // A file that has not changed for long.
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let data = fs::metadata(file).unwrap();
        let found =
            HashedFile { digests: Vec::new(), bytes: data.len(), stamp: Some(Stamp::new(&data)), cached: false };
        during.insert(file.as_bytes(), &[], &found);
        let (mut after, damaged) = Cache::open(path.as_os_str()).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(damaged, None);
        assert!(after.look_up(OsStr::new(file), &[]).is_some());
    }

    #[test]
    fn memory_for_a_cache_is_bounded_by_its_size() {
        let line = |path: &str, digests: &str, more: &str| {
            format!(
                "{{\"path\":\"{path}\",\"size\":0,\"inode\":0,\"modified\":0,\"changed\":0,\"digests\":{{{digests}}}{more}}}\n"
            )
        };
        let objects = format!(",\"more\":[{}0]", r#"{"":0},"#.repeat(50_000));
        let md5 = format!("\"md5\":\"{}\"", "0".repeat(32));
        for (bomb, lines) in [
            ("short lines", concat_parts(5000, |path| line(&path.to_string(), "", ""))),
            ("lines with a digest", concat_parts(5000, |path| line(&path.to_string(), &md5, ""))),
            ("objects", line("a", &md5, &objects)),
        ] {
            let bytes = cache(&lines);
            let (is_valid, memory) = measure(|| rows(&bytes).is_some());
            assert!(is_valid, "{bomb}");
            assert!(memory.peak_bytes <= 8 * bytes.len(), "{bomb}: {} bytes for {}", memory.peak_bytes, bytes.len());
        }
    }
}
