//! Folders, file by file, in an order that does not depend on the file system.
//!
//! Entries of a folder come by the bytes of their names; where a folder stands among them, its own entries follow. Symbolic links
//! are not followed, except operands and on request.

use std::ffi::{OsStr, OsString};
use std::fs::{self, FileType, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use fast_glob::glob_match;

use super::options::Options;

/// What there is at a name.
#[derive(Debug)]
pub(super) enum Step {
    /// A regular file; or an operand that is no folder, whatever it is.
    File(OsString),
    /// Something that has no content of its own, and what it is.
    Skipped(OsString, &'static str),
    /// A folder or a file that cannot be looked at.
    Failed(OsString, io::Error),
}

/// The files below the operands, where `-r` asks for them; otherwise the operands.
pub(super) fn walk(operands: &[OsString], options: &Options, mut each: impl FnMut(Step)) {
    for operand in operands {
        let data = if options.recursive && operand != "-" { fs::metadata(operand).ok() } else { None };
        match data.filter(Metadata::is_dir) {
            Some(data) => below(Path::new(operand), &data, options, &mut each),
            // Also what cannot be looked at: opening it tells why.
            None => each(Step::File(operand.clone())),
        }
    }
}

/// Whether [`walk`] would look at a file below `root`, going by the names on the way to it.
pub(super) fn wanted(root: &Path, path: &Path, options: &Options) -> bool {
    let filter = Filter { root, options };
    let folders = path.ancestors().skip(1).take_while(|folder| *folder != root && !folder.as_os_str().is_empty());
    filter.takes(path, false) && folders.into_iter().all(|folder| filter.takes(folder, true))
}

/// A folder whose entries are on their way.
struct Folder {
    /// Device and inode, by which links back to it are noticed.
    identity: (u64, u64),
    path: PathBuf,
    /// The last first.
    names: Vec<OsString>,
}

/// The files below one folder.
fn below(root: &Path, data: &Metadata, options: &Options, each: &mut impl FnMut(Step)) {
    let filter = Filter { root, options };
    let mut open: Vec<Folder> = Vec::new();
    let enter = |path: &Path, data: &Metadata, open: &mut Vec<Folder>, each: &mut dyn FnMut(Step)| {
        let identity = (data.dev(), data.ino());
        if open.iter().any(|above| above.identity == identity) {
            return each(Step::Skipped(path.into(), "a link to a folder that it is in"));
        }
        match names(path) {
            Ok(names) => open.push(Folder { identity, path: path.to_owned(), names }),
            Err(error) => each(Step::Failed(path.into(), error)),
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
            // It was removed since its folder was read. A link that leads nowhere is told, if links are followed.
            Err(error) if error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(&path).is_err() => {}
            Err(error) => {
                if filter.takes(&path, false) {
                    each(Step::Failed(path.into(), error));
                }
            }
            Ok(data) if !filter.takes(&path, data.is_dir()) => {}
            Ok(data) if data.is_dir() => enter(&path, &data, &mut open, each),
            Ok(data) if data.is_file() => each(Step::File(path.into())),
            Ok(data) if data.is_symlink() => {}
            Ok(data) => each(Step::Skipped(path.into(), kind(data.file_type()))),
        }
    }
}

/// The names of what is in a folder, the last first.
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
    /// Whether a file is wanted, or a folder entered.
    fn takes(&self, path: &Path, folder: bool) -> bool {
        let options = self.options;
        let matches = |globs: &[OsString]| globs.iter().any(|glob| self.matches(glob, path));
        !matches(&options.exclude) && (folder || options.include.is_empty() || matches(&options.include))
    }

    /// A glob with a slash is about the path below the operand, any other about the name.
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
    use crate::sum::options::{Action, Front, parse};

    #[test]
    fn a_folder_takes_no_more_memory_than_its_names_and_one_path() {
        let top = std::env::temp_dir().join(format!("gantry-walk-{}", std::process::id()));
        let folder = (0..15).fold(top.clone(), |folder, _| folder.join("f".repeat(200)));
        fs::create_dir_all(&folder).unwrap();
        (0..500).for_each(|file| fs::write(folder.join(file.to_string()), "").unwrap());
        let Ok(Action::Run(options)) = parse(Front::Gantry, vec!["-r".into(), top.clone().into()], false) else {
            panic!("options")
        };
        let mut count = 0;
        let walked = || walk(&options.operands, &options, |step| count += usize::from(matches!(step, Step::File(_))));
        let ((), taken) = gantry_lab::memory::taken(walked);
        fs::remove_dir_all(&top).unwrap();
        assert!(count == 500 && taken.bytes < 256 << 10, "{count} files, {taken:?}");
    }
}
