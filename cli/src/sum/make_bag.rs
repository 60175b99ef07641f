//! `gantry sum bag`: turns a folder into a bag.
//!
//! The bag has version 0.97, which every program verifies: some programs do not decode the `%25` of version 1.0.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use gantry_digest::Algorithm;

use super::console::{Console, reason};
use super::digest::Digest;
use super::engine::{Engine, HashedFile, Sink};
use super::function::Functions;
use super::names::HashId;
use super::object::Special;
use super::open::Opener;
use super::walk::{WalkEntry, walk};
use super::{Run, progress};
use crate::hashing::digest_of;
use crate::hex::hex;
use crate::io::{PUBLIC_MODE, write_new};
use crate::machine;

/// The hash functions that other programs know in manifests (RFC 8493, section 2.4): the name, and the algorithm that hashes tag files.
const FUNCTIONS: [(&str, Algorithm); 6] = [
    ("md5", Algorithm::Md5),
    ("sha1", Algorithm::Sha1),
    ("sha224", Algorithm::Sha224),
    ("sha256", Algorithm::Sha256),
    ("sha384", Algorithm::Sha384),
    ("sha512", Algorithm::Sha512),
];

/// Moves the content of a folder to `data`, and adds the tag files. On an error, the folder is unchanged.
///
/// # Errors
/// Describes why the folder cannot become a bag.
pub(super) fn run(run: &Run<'_>, ids: &[HashId], opener: &mut Opener, console: &mut Console) -> Result<u8, String> {
    let folder = Path::new(&run.options.operands[0]);
    if let Some(other) = ids.iter().find(|id| function(**id).is_none()) {
        return Err(format!("{}: bags have md5, sha1, sha224, sha256, sha384 and sha512", other.name()));
    }
    if !folder.is_dir() {
        return Err(format!("{}: not a folder", folder.display()));
    }
    if let Some(aside) = folder_of_interrupted_run(folder) {
        return Err(format!("{}: holds files that an interrupted run moved; move them back first", aside.display()));
    }
    if folder.join("bagit.txt").exists() {
        return Err(format!("{}: a bag already", folder.display()));
    }
    let names = names(run)?;
    let (files, bytes) = hash(run, &names, &opener.functions(ids)?, opener.threads, console)?;
    let tags = tag_files(&files, bytes, ids);
    let at = |error: io::Error| format!("{}: {}", folder.display(), reason(&error));
    let moved = MovedContent::all(folder).map_err(at)?;
    for (written, (name, text)) in tags.iter().enumerate() {
        let path = folder.join(name);
        if let Err(error) = write_new(&path, PUBLIC_MODE, text) {
            moved.undo(&tags[..written]);
            return Err(format!("{}: {}", path.display(), reason(&error)));
        }
    }
    // This rename comes last: until then, the name of the folder `aside` tells the next run that this one was interrupted.
    if let Err(error) = fs::rename(&moved.aside, folder.join("data")) {
        moved.undo(&tags);
        return Err(at(error));
    }
    Ok(0)
}

fn function(id: HashId) -> Option<Algorithm> {
    FUNCTIONS.iter().find(|(name, _)| id.name() == *name).map(|(_, algorithm)| *algorithm)
}

/// Returns the files of the folder. A bag keeps regular files only, with names in UTF-8 (section 2.1.3).
fn names(run: &Run<'_>) -> Result<Vec<OsString>, String> {
    let (mut names, mut fault) = (Vec::new(), None);
    let folder = Path::new(&run.options.operands[0]);
    walk(&run.options.operands, run.options, |step| {
        let (name, wrong) = match step {
            WalkEntry::File(name) if below(folder, &name).to_str().is_none() => (name, "the name is not in UTF-8"),
            WalkEntry::File(name) if has_escape(below(folder, &name).as_os_str().as_bytes()) => {
                (name, "programs would decode the %0A or %0D in the name")
            }
            WalkEntry::File(name) => return names.push(name),
            WalkEntry::Special(_, Special::Folder) => return,
            WalkEntry::Special(name, Special::Link(_)) => (name, "a bag has no symbolic links"),
            WalkEntry::Skipped(name, kind) => (name, kind),
            WalkEntry::Failed(name, error) => {
                fault.get_or_insert(format!("{}: {}", Path::new(&name).display(), reason(&error)));
                return;
            }
        };
        fault.get_or_insert(format!("{}: {wrong}; the folder is unchanged", Path::new(&name).display()));
    });
    fault.map_or(Ok(names), Err)
}

/// Returns the path of a file below the folder.
fn below<'n>(folder: &Path, name: &'n OsStr) -> &'n Path {
    let path = Path::new(name);
    path.strip_prefix(folder).unwrap_or(path)
}

fn has_escape(name: &[u8]) -> bool {
    name.windows(3).any(|three| matches!(&three.to_ascii_uppercase()[..], b"%0A" | b"%0D"))
}

/// A file below the folder, with its digests.
type HashedPath = (PathBuf, Vec<Digest>);

/// Returns the digests of files by their names below the folder, and the sum of their bytes.
fn hash(
    run: &Run<'_>,
    names: &[OsString],
    functions: &Functions,
    threads: Option<usize>,
    console: &mut Console,
) -> Result<(Vec<HashedPath>, u64), String> {
    let bar = run.bar(|| progress::sizes(names.iter().map(PathBuf::from)));
    console.write_above(bar.clone());
    let folder = Path::new(&run.options.operands[0]);
    let mut sink = Collector { folder, files: Vec::with_capacity(names.len()), bytes: 0, first_failure: None };
    Engine::new(Some(functions), names.len(), threads, bar.clone()).run(&mut sink, |pipeline| {
        for name in names {
            pipeline.feed_file(name.clone(), functions.clone(), ());
        }
    });
    bar.finish_and_clear();
    sink.first_failure.map_or(Ok((sink.files, sink.bytes)), Err)
}

struct Collector<'f> {
    folder: &'f Path,
    files: Vec<HashedPath>,
    bytes: u64,
    /// The first failure, in words.
    first_failure: Option<String>,
}

impl Sink<()> for Collector<'_> {
    fn on_file(&mut self, name: OsString, (): (), result: io::Result<HashedFile>) {
        match result {
            Ok(found) => {
                self.bytes += found.bytes;
                self.files.push((below(self.folder, &name).to_owned(), found.digests));
            }
            Err(error) => {
                let words = || format!("{}: {}", Path::new(&name).display(), reason(&error));
                self.first_failure.get_or_insert_with(words);
            }
        }
    }

    fn on_note(&mut self, (): ()) {}

    fn on_wait(&mut self) {}
}

/// Returns the names and contents of the tag files. The declaration comes last, so that an incomplete bag does not count as a bag.
fn tag_files(files: &[(PathBuf, Vec<Digest>)], bytes: u64, ids: &[HashId]) -> Vec<(String, Vec<u8>)> {
    let mut tags: Vec<(String, Vec<u8>)> = Vec::new();
    for (number, id) in ids.iter().enumerate() {
        let mut text = Vec::new();
        for (name, digests) in files {
            digests[number].write_hex(&mut text);
            text.extend(b"  data/");
            escape(name.as_os_str(), &mut text);
            text.push(b'\n');
        }
        tags.push((format!("manifest-{}.txt", id.name()), text));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let info = format!(
        "Bag-Software-Agent: Gantry {}\nBagging-Date: {}\nPayload-Oxum: {bytes}.{}\n",
        env!("CARGO_PKG_VERSION"),
        &machine::date(now)[..10],
        files.len()
    );
    tags.push(("bag-info.txt".to_owned(), info.into_bytes()));
    let declaration = b"BagIt-Version: 0.97\nTag-File-Character-Encoding: UTF-8\n".to_vec();
    let declaration = ("bagit.txt".to_owned(), declaration);
    let all: Vec<_> = tags.iter().chain([&declaration]).cloned().collect();
    for (id, algorithm) in ids.iter().filter_map(|id| Some((id, function(*id)?))) {
        let lines = all.iter().map(|(name, text)| format!("{}  {name}\n", hex(&digest_of(algorithm, &[text]))));
        tags.push((format!("tagmanifest-{}.txt", id.name()), lines.collect::<String>().into_bytes()));
    }
    tags.push(declaration);
    tags
}

/// Appends a name with the escapes of a manifest.
fn escape(name: &OsStr, text: &mut Vec<u8>) {
    for &byte in name.as_bytes() {
        match byte {
            b'\r' => text.extend(b"%0D"),
            b'\n' => text.extend(b"%0A"),
            plain => text.push(plain),
        }
    }
}

/// The prefix of the folder that holds the content until the bag is complete. The PID follows.
const ASIDE_PREFIX: &str = ".data-";

/// Returns the folder of a run that ended while it moved the content.
fn folder_of_interrupted_run(folder: &Path) -> Option<PathBuf> {
    let is_number = |digits: &[u8]| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let is_aside = |name: &OsStr| name.as_bytes().strip_prefix(ASIDE_PREFIX.as_bytes()).is_some_and(is_number);
    let entries = fs::read_dir(folder).ok()?;
    entries.flatten().find(|entry| is_aside(&entry.file_name())).map(|entry| entry.path())
}

/// The content of `folder` after it was moved to `aside`, a folder in `folder`.
struct MovedContent<'a> {
    folder: &'a Path,
    aside: PathBuf,
    names: Vec<OsString>,
}

impl<'a> MovedContent<'a> {
    fn all(folder: &'a Path) -> io::Result<Self> {
        let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
        let aside = folder.join(format!("{ASIDE_PREFIX}{}", std::process::id()));
        fs::create_dir(&aside)?;
        let mut moved = Self { folder, aside, names: Vec::with_capacity(names.len()) };
        for name in names {
            if let Err(error) = fs::rename(folder.join(&name), moved.aside.join(&name)) {
                moved.undo(&[]);
                return Err(error);
            }
            moved.names.push(name);
        }
        Ok(moved)
    }

    /// Removes the written tag files, and moves everything back. A file that cannot be moved stays in `aside`.
    fn undo(self, written: &[(String, Vec<u8>)]) {
        for (name, _) in written {
            let _ = fs::remove_file(self.folder.join(name));
        }
        for name in &self.names {
            let _ = fs::rename(self.aside.join(name), self.folder.join(name));
        }
        let _ = fs::remove_dir(&self.aside);
    }
}
