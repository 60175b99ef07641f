//! Files without a name until their content is complete.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::AtFlags;
use nix::unistd::linkat;

/// A file that gets its name later, readable by its owner only. Without a name, it disappears when the process ends, however it ends.
pub(crate) struct Scratch {
    pub(super) file: File,
    folder: PathBuf,
    /// The temporary name, on file systems without nameless files.
    name: Option<PathBuf>,
}

impl Scratch {
    /// Creates a file in `folder`.
    pub(super) fn new(folder: &Path) -> io::Result<Self> {
        let options = |flags| OpenOptions::new().read(true).write(true).mode(0o600).custom_flags(flags).clone();
        let folder = folder.to_owned();
        match options(libc::O_TMPFILE).open(&folder) {
            Ok(file) => Ok(Self { file, folder, name: None }),
            // Errors of kernels or file systems without O_TMPFILE (open(2)).
            Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR | libc::ENOENT)) => {
                let name = hidden_name(&folder);
                let file = options(0).create_new(true).open(&name)?;
                Ok(Self { file, folder, name: Some(name) })
            }
            Err(error) => Err(error),
        }
    }

    /// Gives the file the name `path`, which is in its folder. Atomically replaces a file that already has this name.
    pub(super) fn publish(mut self, path: &Path) -> io::Result<File> {
        let old = std::fs::metadata(path);
        if let Ok(old) = &old {
            self.file.set_permissions(old.permissions())?;
        }
        let name = match self.name.take() {
            Some(name) => name,
            None if old.is_err() => {
                self.link(path)?;
                return self.file.try_clone();
            }
            // linkat(2) cannot replace a file, but rename(2) can.
            None => {
                let name = hidden_name(&self.folder);
                self.link(&name)?;
                name
            }
        };
        let renamed = std::fs::rename(&name, path);
        if renamed.is_err() {
            let _ = std::fs::remove_file(&name);
        }
        renamed.and_then(|()| self.file.try_clone())
    }

    fn link(&self, path: &Path) -> io::Result<()> {
        let descriptor = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let folder = nix::fcntl::AT_FDCWD;
        linkat(folder, descriptor.as_str(), folder, path, AtFlags::AT_SYMLINK_FOLLOW).map_err(io::Error::from)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = std::fs::remove_file(name);
        }
    }
}

fn hidden_name(folder: &Path) -> PathBuf {
    folder.join(format!(".gantry-crypt-{}", std::process::id()))
}
