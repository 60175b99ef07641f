//! A file put in the place of another, whose owner, mode, access lists and security label it gets.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use gantry_runtime::bounded;
use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fsetxattr};
use rustix::io::Errno;

/// A file that is to be replaced.
pub(crate) struct Old {
    path: PathBuf,
    file: File,
    pub(crate) text: String,
}

impl Old {
    /// Opens a file by the path that leads to it without a link. One that its user may not write to stays, even in a folder where it could be
    /// replaced.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)?;
        // The file that is open, whatever has its name now.
        let text = bounded::read_to_string(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())))?;
        Ok(Self { path: path.to_owned(), file, text })
    }

    /// Copies it to `backup`. False where there is such a file.
    pub(crate) fn keep(&self, backup: &Path) -> io::Result<bool> {
        match self.write_like(backup, &self.text) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && fs::symlink_metadata(backup)?.is_file() => {
                Ok(false)
            }
            kept => kept.map(|()| true),
        }
    }

    /// Puts a file with this text in its place. A file is the old one or the new one, whatever happens in between.
    pub(crate) fn replace(self, text: &str) -> io::Result<()> {
        let beside = PathBuf::from(format!("{}.gantry-{}", self.path.display(), std::process::id()));
        self.write_like(&beside, text)?;
        fs::rename(&beside, &self.path).inspect_err(|_| drop(fs::remove_file(&beside)))
    }

    /// Writes a new file that only this user can read until it has all that the old one has. It is an error where there is one of this name, or a
    /// link: somebody who may write to the folder could have put it there.
    fn write_like(&self, path: &Path, text: &str) -> io::Result<()> {
        let mut new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        let written = (|| {
            new.write_all(text.as_bytes())?;
            let (old, own) = (self.file.metadata()?, new.metadata()?);
            if (old.uid(), old.gid()) != (own.uid(), own.gid()) {
                fchown(&new, Some(old.uid()), Some(old.gid()))?;
            }
            new.set_permissions(old.permissions())?;
            copy_attributes(&self.file, &new)?;
            new.sync_all()
        })();
        written.inspect_err(|_| drop(fs::remove_file(path)))
    }
}

/// Copies access lists, the label of SELinux or Smack, and what users have added. The kernel makes those that vouch for a file's bytes.
fn copy_attributes(old: &File, new: &File) -> io::Result<()> {
    const MOST: usize = 64 << 10;
    let mut names = vec![0; MOST];
    let length = match flistxattr(old, &mut names[..]) {
        Err(Errno::NOTSUP) => 0,
        length => length?,
    };
    let (mut value, mut has) = (vec![0; MOST], vec![0; MOST]);
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        if [&b"security.ima"[..], b"security.evm"].contains(&name) {
            continue;
        }
        let length = fgetxattr(old, name, &mut value[..])?;
        let value = &value[..length];
        // Not all users may set a label, and mostly a new file has the right one.
        if fgetxattr(new, name, &mut has[..]).is_ok_and(|length| has[..length] == *value) {
            continue;
        }
        fsetxattr(new, name, value, XattrFlags::empty())?;
    }
    Ok(())
}
