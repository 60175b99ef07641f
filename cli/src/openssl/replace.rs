//! Replaces a file and keeps its owner, mode, access lists and security label.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use gantry_runtime::bounded;
use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fsetxattr};
use rustix::io::Errno;

/// A file to replace.
pub(crate) struct OpenedFile {
    path: PathBuf,
    file: File,
    pub(crate) text: String,
}

impl OpenedFile {
    /// Opens the file at a path, which must not be a link. Fails if this user may not write to it, even if the folder would allow replacing
    /// it.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)?;
        // Reads through the descriptor, because another file may have the name by now.
        let text = bounded::read_to_string(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())))?;
        Ok(Self { path: path.to_owned(), file, text })
    }

    /// Copies the file to `backup`. Returns false if `backup` exists.
    pub(crate) fn copy_to(&self, backup: &Path) -> io::Result<bool> {
        match self.write_like(backup, &self.text) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && fs::symlink_metadata(backup)?.is_file() => {
                Ok(false)
            }
            kept => kept.map(|()| true),
        }
    }

    /// Replaces the file atomically by one with this text.
    pub(crate) fn replace(self, text: &str) -> io::Result<()> {
        let temporary = PathBuf::from(format!("{}.gantry-{}", self.path.display(), std::process::id()));
        self.write_like(&temporary, text)?;
        fs::rename(&temporary, &self.path).inspect_err(|_| drop(fs::remove_file(&temporary)))
    }

    /// Writes a new file, which only this user can read until it has the owner and mode of the old one. Fails if the name exists, because
    /// another user of the folder may have made it.
    fn write_like(&self, path: &Path, text: &str) -> io::Result<()> {
        let mut new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        let written = (|| {
            new.write_all(text.as_bytes())?;
            let (old, created) = (self.file.metadata()?, new.metadata()?);
            if (old.uid(), old.gid()) != (created.uid(), created.gid()) {
                fchown(&new, Some(old.uid()), Some(old.gid()))?;
            }
            new.set_permissions(old.permissions())?;
            copy_attributes(&self.file, &new)?;
            new.sync_all()
        })();
        written.inspect_err(|_| drop(fs::remove_file(path)))
    }
}

/// Copies extended attributes: access lists, the label of SELinux or Smack, user attributes. The kernel sets the attributes that
/// depend on the content.
fn copy_attributes(old: &File, new: &File) -> io::Result<()> {
    const MAX_ATTRIBUTE: usize = 64 << 10;
    let mut names = vec![0; MAX_ATTRIBUTE];
    let length = match flistxattr(old, &mut names[..]) {
        Err(Errno::NOTSUP) => 0,
        length => length?,
    };
    let (mut value, mut present) = (vec![0; MAX_ATTRIBUTE], vec![0; MAX_ATTRIBUTE]);
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        if [&b"security.ima"[..], b"security.evm"].contains(&name) {
            continue;
        }
        let length = fgetxattr(old, name, &mut value[..])?;
        let value = &value[..length];
        // Setting a label may need privileges, and most new files already have the right label.
        if fgetxattr(new, name, &mut present[..]).is_ok_and(|length| present[..length] == *value) {
            continue;
        }
        fsetxattr(new, name, value, XattrFlags::empty())?;
    }
    Ok(())
}
