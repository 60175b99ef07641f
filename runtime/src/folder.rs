//! Folders for files written by this process. They are accessed by descriptor, so that another user who may rename a parent cannot redirect
//! the files.

use std::fs::{self, DirBuilder, File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

/// A folder of this user. The last part of its path was not a link.
pub(crate) struct Folder(File);

impl Folder {
    /// Opens a folder. Refuses one into which another user [may write](gantry_rights::check_trusted).
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let folder = Self::open_own(path)?;
        gantry_rights::check_trusted(&folder.0.metadata()?)?;
        Ok(folder)
    }

    /// Creates the folder and its parents if missing, but not in a folder of another user than root. If others may write to the folder,
    /// removes all their permissions.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        // Check the link itself, not its target.
        let ancestor = path.ancestors().find_map(|path| fs::symlink_metadata(path).ok());
        if ancestor.is_some_and(|ancestor| ancestor.uid() != 0 && !belongs_to_user(&ancestor)) {
            return Err(denied("the folder belongs to another user"));
        }
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let folder = Self::open_own(path)?;
        if folder.0.metadata()?.mode() & 0o022 != 0 {
            folder.0.set_permissions(Permissions::from_mode(0o700))?;
        }
        Ok(folder)
    }

    fn open_own(path: &Path) -> io::Result<Self> {
        let is_link = |error: io::Error| match error.raw_os_error() {
            Some(libc::ENOTDIR | libc::ELOOP) => denied("it is not a folder"),
            _ => error,
        };
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
        let folder = File::options().read(true).custom_flags(flags.bits()).open(path).map_err(is_link)?;
        if belongs_to_user(&folder.metadata()?) { Ok(Self(folder)) } else { Err(denied("it belongs to another user")) }
    }

    /// Replaces the file of this name atomically, after `write` has succeeded. Only this user may read the file.
    pub(crate) fn replace(&self, name: &str, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let thread = std::thread::current().id();
        // Processes in two containers may have the same PID.
        let temporary = format!(".{name}.{}.{thread:?}.{now}", std::process::id());
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mut file = File::from(openat(&self.0, temporary.as_str(), flags, Mode::S_IRUSR | Mode::S_IWUSR)?);
        let result = write(&mut file).and_then(|()| Ok(renameat(&self.0, temporary.as_str(), &self.0, name)?));
        if result.is_err() {
            // Ignore errors: nothing can be done if the file stays.
            let _ = unlinkat(&self.0, temporary.as_str(), UnlinkatFlags::NoRemoveDir);
        }
        result
    }
}

fn belongs_to_user(file: &Metadata) -> bool {
    file.uid() == geteuid().as_raw()
}

fn denied(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::*;

    /// A folder that is removed when dropped.
    struct TestFolder(PathBuf);

    impl TestFolder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("gantry-folder-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            DirBuilder::new().mode(0o700).create(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for TestFolder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    fn error_of(folder: io::Result<Folder>) -> String {
        folder.err().expect("refused").to_string()
    }

    #[test]
    fn replaces_a_private_file_and_keeps_the_old_one_on_failure() {
        let test_folder = TestFolder::new("replace");
        let path = test_folder.0.join("deep/down");
        let folder = Folder::create(&path).unwrap();
        folder.replace("file", |file| file.write_all(b"old")).unwrap();
        assert_eq!((mode(&test_folder.0.join("deep")), mode(&path), mode(&path.join("file"))), (0o700, 0o700, 0o600));
        let full = |file: &mut File| {
            file.write_all(b"new")?;
            Err(io::ErrorKind::StorageFull.into())
        };
        assert_eq!(folder.replace("file", full).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read(path.join("file")).unwrap(), b"old");
        assert_eq!(fs::read_dir(&path).unwrap().count(), 1, "no temporary file is left");
        // The target of a link is not changed.
        fs::write(test_folder.0.join("other"), "other").unwrap();
        fs::remove_file(path.join("file")).unwrap();
        symlink(test_folder.0.join("other"), path.join("file")).unwrap();
        folder.replace("file", |file| file.write_all(b"new")).unwrap();
        assert!(!path.join("file").is_symlink() && fs::read(test_folder.0.join("other")).unwrap() == b"other");
    }

    #[test]
    fn writes_to_the_opened_folder_after_a_rename() {
        let test_folder = TestFolder::new("renamed");
        let path = test_folder.0.join("folder");
        let folder = Folder::create(&path).unwrap();
        fs::rename(&path, test_folder.0.join("away")).unwrap();
        fs::create_dir(&path).unwrap();
        folder.replace("file", |file| file.write_all(b"text")).unwrap();
        assert!(test_folder.0.join("away/file").exists() && !path.join("file").exists());
    }

    #[test]
    fn refuses_or_closes_folders_writable_by_others() {
        let test_folder = TestFolder::new("open");
        let path = test_folder.0.join("folder");
        assert_eq!(Folder::open(&path).err().unwrap().kind(), io::ErrorKind::NotFound);
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        assert_eq!(error_of(Folder::open(&path)), "other users may write to it");
        Folder::create(&path).unwrap();
        assert_eq!(mode(&path), 0o700);
        Folder::open(&path).unwrap();
        symlink(&path, test_folder.0.join("link")).unwrap();
        fs::write(test_folder.0.join("file"), "").unwrap();
        for name in ["link", "file"] {
            assert_eq!(error_of(Folder::open(&test_folder.0.join(name))), "it is not a folder");
        }
        assert_eq!(error_of(Folder::create(&test_folder.0.join("link"))), "it is not a folder");
        assert!(Folder::create(&test_folder.0.join("file")).is_err());
    }
}
