//! Folders into which this process writes files of its own. They are worked on by descriptor, so that nobody who may rename what is above can
//! have the process write elsewhere.

use std::fs::{self, DirBuilder, File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

/// A folder of this user's, which is no link.
pub(crate) struct Folder(File);

impl Folder {
    /// One into which nobody else may write.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let folder = Self::of_user(path)?;
        gantry_rights::is_ours(&folder.0.metadata()?)?;
        Ok(folder)
    }

    /// Makes the folder where it is missing, and those above it, in no folder of another user's; and closes it to others.
    pub(crate) fn make(path: &Path) -> io::Result<Self> {
        // A link is its owner's, wherever it leads.
        let above = path.ancestors().find_map(|path| fs::symlink_metadata(path).ok());
        if above.is_some_and(|above| above.uid() != 0 && !is_users(&above)) {
            return Err(denied("the folder belongs to another user"));
        }
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let folder = Self::of_user(path)?;
        if folder.0.metadata()?.mode() & 0o022 != 0 {
            folder.0.set_permissions(Permissions::from_mode(0o700))?;
        }
        Ok(folder)
    }

    fn of_user(path: &Path) -> io::Result<Self> {
        let is_link = |error: io::Error| match error.raw_os_error() {
            Some(libc::ENOTDIR | libc::ELOOP) => denied("it is not a folder"),
            _ => error,
        };
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
        let folder = File::options().read(true).custom_flags(flags.bits()).open(path).map_err(is_link)?;
        if is_users(&folder.metadata()?) { Ok(Self(folder)) } else { Err(denied("it belongs to another user")) }
    }

    /// Puts a file in the place of the one of this name when all of it has been written. Only this user may read it.
    pub(crate) fn replace(&self, name: &str, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let thread = std::thread::current().id();
        // Processes of two containers may have one number.
        let beside = format!(".{name}.{}.{thread:?}.{now}", std::process::id());
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mut file = File::from(openat(&self.0, beside.as_str(), flags, Mode::S_IRUSR | Mode::S_IWUSR)?);
        let written = write(&mut file).and_then(|()| Ok(renameat(&self.0, beside.as_str(), &self.0, name)?));
        if written.is_err() {
            // Nothing can be done if it stays.
            let _ = unlinkat(&self.0, beside.as_str(), UnlinkatFlags::NoRemoveDir);
        }
        written
    }
}

fn is_users(file: &Metadata) -> bool {
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

    /// A path that is gone afterwards.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("gantry-folder-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            DirBuilder::new().mode(0o700).create(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    fn refused(folder: io::Result<Folder>) -> String {
        folder.err().expect("refused").to_string()
    }

    #[test]
    fn a_file_is_its_users_alone_and_a_failure_leaves_the_old_one() {
        let place = Place::new("replace");
        let path = place.0.join("deep/down");
        let folder = Folder::make(&path).unwrap();
        folder.replace("file", |file| file.write_all(b"old")).unwrap();
        assert_eq!((mode(&place.0.join("deep")), mode(&path), mode(&path.join("file"))), (0o700, 0o700, 0o600));
        let full = |file: &mut File| {
            file.write_all(b"new")?;
            Err(io::ErrorKind::StorageFull.into())
        };
        assert_eq!(folder.replace("file", full).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read(path.join("file")).unwrap(), b"old");
        assert_eq!(fs::read_dir(&path).unwrap().count(), 1, "nothing is left beside it");
        // What a link leads to stays.
        fs::write(place.0.join("other"), "other").unwrap();
        fs::remove_file(path.join("file")).unwrap();
        symlink(place.0.join("other"), path.join("file")).unwrap();
        folder.replace("file", |file| file.write_all(b"new")).unwrap();
        assert!(!path.join("file").is_symlink() && fs::read(place.0.join("other")).unwrap() == b"other");
    }

    #[test]
    fn a_folder_goes_on_being_the_one_that_was_opened() {
        let place = Place::new("renamed");
        let path = place.0.join("folder");
        let folder = Folder::make(&path).unwrap();
        fs::rename(&path, place.0.join("away")).unwrap();
        fs::create_dir(&path).unwrap();
        folder.replace("file", |file| file.write_all(b"text")).unwrap();
        assert!(place.0.join("away/file").exists() && !path.join("file").exists());
    }

    #[test]
    fn folders_that_others_may_write_to_are_refused_or_closed() {
        let place = Place::new("open");
        let path = place.0.join("folder");
        assert_eq!(Folder::open(&path).err().unwrap().kind(), io::ErrorKind::NotFound);
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        assert_eq!(refused(Folder::open(&path)), "other users may write to it");
        Folder::make(&path).unwrap();
        assert_eq!(mode(&path), 0o700);
        Folder::open(&path).unwrap();
        symlink(&path, place.0.join("link")).unwrap();
        fs::write(place.0.join("file"), "").unwrap();
        for name in ["link", "file"] {
            assert_eq!(refused(Folder::open(&place.0.join(name))), "it is not a folder");
        }
        assert_eq!(refused(Folder::make(&place.0.join("link"))), "it is not a folder");
        assert!(Folder::make(&place.0.join("file")).is_err());
    }
}
