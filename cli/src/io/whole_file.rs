//! Small files that appear whole or not at all.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The mode of files that the user's umask alone restricts.
pub(crate) const PUBLIC_MODE: u32 = 0o666;

/// Writes a new file, and waits until its content is on the disk. Fails with `AlreadyExists` if the name is taken, even by a link. After
/// any other error, no file is left.
pub(crate) fn write_new(path: &Path, mode: u32, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).inspect_err(|_| drop(fs::remove_file(path)))
}

/// Creates a file or replaces it atomically: readers never see half of it.
pub(crate) fn replace(path: &Path, mode: u32, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.{}", std::process::id()));
    // Removes the file of an earlier process with this PID. `write_new` does not follow a link that another user puts there.
    let _ = fs::remove_file(&temporary);
    write_new(&temporary, mode, bytes)?;
    fs::rename(&temporary, path).inspect_err(|_| drop(fs::remove_file(&temporary)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// Runs `test` in an empty folder.
    fn in_folder(name: &str, test: impl FnOnce(&Path)) {
        let folder = std::env::temp_dir().join(format!("gantry-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        test(&folder);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_new_file_replaces_nothing_and_follows_no_link() {
        in_folder("new-file", |folder| {
            let [path, link, target] = ["file", "link", "target"].map(|name| folder.join(name));
            write_new(&path, PUBLIC_MODE, b"one").unwrap();
            symlink(&target, &link).unwrap();
            for taken in [&path, &link] {
                assert_eq!(write_new(taken, PUBLIC_MODE, b"two").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
            }
            assert_eq!(fs::read(&path).unwrap(), b"one");
            assert!(!target.exists());
        });
    }

    #[test]
    fn a_replaced_file_has_the_mode_and_leaves_nothing_beside_it() {
        in_folder("replaced-file", |folder| {
            let path = folder.join("file");
            for text in ["one", "two"] {
                // Remains of an earlier process with this PID.
                fs::write(folder.join(format!(".file.{}", std::process::id())), "half").unwrap();
                replace(&path, 0o600, text.as_bytes()).unwrap();
                assert_eq!(fs::read_to_string(&path).unwrap(), text);
            }
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            assert_eq!(fs::read_dir(folder).unwrap().count(), 1);
        });
    }
}
