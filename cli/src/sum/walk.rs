//! Walks folders, in an order that does not depend on the file system.
//!
//! Entries of a folder are in byte order of their names, each folder followed by its entries. Symbolic links are not followed, except
//! operands, and all links with `-L`.

use std::ffi::{OsStr, OsString};
use std::fs::{self, FileType, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use fast_glob::glob_match;

use super::object::Special;
use crate::args::sum::Options;
use crate::io::sys;

#[derive(Debug)]
pub(super) enum WalkEntry {
    /// A regular file, or an operand that is not a folder.
    File(OsString),
    /// A symbolic link that is not followed, or a folder before its entries.
    Special(OsString, Special),
    /// Neither a file nor a folder, with its kind.
    Skipped(OsString, &'static str),
    /// A folder or file whose metadata cannot be read.
    Failed(OsString, io::Error),
}

/// With `-r`, calls `each` for the files below the operands; without it, for the operands.
pub(super) fn walk(operands: &[OsString], options: &Options, mut each: impl FnMut(WalkEntry)) {
    for operand in operands {
        let data = if options.recursive && operand != "-" { fs::metadata(operand).ok() } else { None };
        match data.filter(Metadata::is_dir) {
            Some(data) => walk_folder(Path::new(operand), &data, options, &mut each),
            // Pass on even missing files: opening them reports the reason.
            None => each(WalkEntry::File(operand.clone())),
        }
    }
}

/// True if [`walk`] would reach a file below `root`, according to the names on its path.
pub(super) fn is_selected(root: &Path, path: &Path, options: &Options) -> bool {
    let filter = Filter { root, options };
    let folders = path.ancestors().skip(1).take_while(|folder| *folder != root && !folder.as_os_str().is_empty());
    filter.accepts(path, false) && folders.into_iter().all(|folder| filter.accepts(folder, true))
}

/// A folder whose entries are being visited.
struct Folder {
    /// Detects links that lead back to this folder.
    identity: Identity,
    path: PathBuf,
    /// Remaining entries in reverse order.
    names: Vec<OsString>,
}

/// Device and inode.
type Identity = (u64, u64);

pub(super) fn identity(data: &Metadata) -> Identity {
    (data.dev(), data.ino())
}

/// Returns the file that standard output writes to, if any: a list of a folder must not contain itself.
fn stdout_identity() -> Option<Identity> {
    let data = sys::stdout().and_then(|file| file.metadata()).ok()?;
    data.is_file().then(|| identity(&data))
}

/// Walks the files below one folder, without the file that standard output writes to.
fn walk_folder(root: &Path, data: &Metadata, options: &Options, each: &mut impl FnMut(WalkEntry)) {
    let (filter, output) = (Filter { root, options }, stdout_identity());
    let mut open: Vec<Folder> = Vec::new();
    let enter = |path: &Path, data: &Metadata, open: &mut Vec<Folder>, each: &mut dyn FnMut(WalkEntry)| {
        let identity = identity(data);
        if open.iter().any(|above| above.identity == identity) {
            return each(WalkEntry::Skipped(path.into(), "a link to a folder that contains it"));
        }
        match names(path) {
            Ok(names) => {
                each(WalkEntry::Special(path.into(), Special::Folder));
                open.push(Folder { identity, path: path.to_owned(), names });
            }
            Err(error) => each(WalkEntry::Failed(path.into(), error)),
        }
    };
    enter(root, data, &mut open, each);
    while let Some(folder) = open.last_mut() {
        let Some(name) = folder.names.pop() else {
            open.pop();
            continue;
        };
        let path = folder.path.join(name);
        let looked_at = if options.follow { fs::metadata(&path) } else { fs::symlink_metadata(&path) };
        match looked_at {
            // The file was removed after its folder was read. A dangling link is reported if links are followed.
            Err(error) if error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(&path).is_err() => {}
            Err(error) => {
                if filter.accepts(&path, false) {
                    each(WalkEntry::Failed(path.into(), error));
                }
            }
            Ok(data) if !filter.accepts(&path, data.is_dir()) => {}
            Ok(other) if other.is_dir() && options.one_file_system && other.dev() != data.dev() => {}
            Ok(data) if data.is_dir() => enter(&path, &data, &mut open, each),
            Ok(data) if data.is_file() && Some(identity(&data)) == output => {}
            Ok(data) if data.is_file() => each(WalkEntry::File(path.into())),
            Ok(data) if data.is_symlink() => match special(&path) {
                Ok(Some(special)) => each(WalkEntry::Special(path.into(), special)),
                // The link was replaced after its folder was read.
                Ok(None) => {}
                Err(error) => each(WalkEntry::Failed(path.into(), error)),
            },
            Ok(data) => each(WalkEntry::Skipped(path.into(), kind(data.file_type()))),
        }
    }
}

/// Returns the symbolic link or folder of this name; `None` for anything else.
pub(super) fn special(path: &Path) -> io::Result<Option<Special>> {
    let data = fs::symlink_metadata(path)?;
    if data.is_symlink() {
        return Ok(Some(Special::Link(fs::read_link(path)?.into_os_string().into_vec())));
    }
    Ok(data.is_dir().then_some(Special::Folder))
}

/// Returns the names of a folder's entries in reverse order.
fn names(path: &Path) -> io::Result<Vec<OsString>> {
    let mut names = fs::read_dir(path)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
    names.sort_unstable_by(|one, other| other.as_bytes().cmp(one.as_bytes()));
    Ok(names)
}

fn kind(kind: FileType) -> &'static str {
    if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_socket() {
        "a socket"
    } else if kind.is_block_device() {
        "a block device"
    } else {
        "a character device"
    }
}

/// `--include` and `--exclude`.
struct Filter<'a> {
    root: &'a Path,
    options: &'a Options,
}

impl Filter<'_> {
    /// True if a file is wanted, or a folder should be entered.
    fn accepts(&self, path: &Path, folder: bool) -> bool {
        let options = self.options;
        let matches = |globs: &[OsString]| globs.iter().any(|glob| self.matches(glob, path));
        !matches(&options.exclude) && (folder || options.include.is_empty() || matches(&options.include))
    }

    /// True if a glob matches. A glob with a slash is compared with the path below the operand, any other glob with the entry's name.
    fn matches(&self, glob: &OsStr, path: &Path) -> bool {
        let subject = if glob.as_bytes().contains(&b'/') {
            path.strip_prefix(self.root).unwrap_or(path).as_os_str()
        } else {
            path.file_name().unwrap_or_default()
        };
        glob_match(glob.as_bytes(), subject.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::sum::{Action, FrontEnd, parse};

    #[test]
    fn memory_for_a_walk_is_bounded() {
        let top = std::env::temp_dir().join(format!("gantry-walk-{}", std::process::id()));
        let folder = (0..15).fold(top.clone(), |folder, _| folder.join("f".repeat(200)));
        fs::create_dir_all(&folder).unwrap();
        (0..500).for_each(|file| fs::write(folder.join(file.to_string()), "").unwrap());
        let Ok(Action::Run(options)) = parse(FrontEnd::Gantry, vec!["-r".into(), top.clone().into()], false) else {
            panic!("options")
        };
        let mut count = 0;
        let walked =
            || walk(&options.operands, &options, |step| count += usize::from(matches!(step, WalkEntry::File(_))));
        let ((), taken) = gantry_lab::memory::measure(walked);
        fs::remove_dir_all(&top).unwrap();
        assert!(count == 500 && taken.peak_bytes < 256 << 10, "{count} files, {taken:?}");
    }
}
