//! The files of a new torrent.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::output::Failure;

/// A file of a new torrent.
pub(super) struct ContentFile {
    pub(super) path: PathBuf,
    /// The names of the folders above the file and of the file itself, below the torrent's folder; empty if the torrent is a single file.
    pub(super) names: Vec<String>,
    pub(super) length: u64,
    /// True if its owner may execute it.
    pub(super) is_executable: bool,
}

/// Lists a file, or all files of a folder in the order of v2: by names, folder by folder. Follows symbolic links.
pub(super) fn list(path: &Path) -> Result<Vec<ContentFile>, Failure> {
    let mut files = Vec::new();
    walk(path, &mut Vec::new(), &mut Vec::new(), &mut files)?;
    files.sort_by(|a, b| a.names.cmp(&b.names));
    Ok(files)
}

/// Adds a file, or the files of a folder. `above` has device and inode of the folders that lead here.
fn walk(
    path: &Path,
    names: &mut Vec<String>,
    above: &mut Vec<(u64, u64)>,
    files: &mut Vec<ContentFile>,
) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::at(path.display(), &error);
    let wrong = |text: &str| Failure::Failed(format!("{}: {text}", path.display()));
    let data = fs::metadata(path).map_err(failed)?;
    if data.is_file() {
        let is_executable = data.permissions().mode() & 0o100 != 0;
        files.push(ContentFile { path: path.to_owned(), names: names.clone(), length: data.len(), is_executable });
        return Ok(());
    }
    if !data.is_dir() {
        return Err(wrong("neither a file nor a folder"));
    }
    let identity = (data.dev(), data.ino());
    if above.contains(&identity) {
        return Err(wrong("a link to a folder above it"));
    }
    above.push(identity);
    for entry in fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        names.push(utf8(&entry.file_name(), &entry.path())?);
        walk(&entry.path(), names, above, files)?;
        names.pop();
    }
    above.pop();
    Ok(())
}

/// Returns a name as text. All names in a torrent are text.
pub(super) fn utf8(name: &OsStr, path: &Path) -> Result<String, Failure> {
    name.to_str()
        .map(str::to_owned)
        .ok_or_else(|| Failure::Failed(format!("{}: its name is not UTF-8, as a torrent needs", path.display())))
}
