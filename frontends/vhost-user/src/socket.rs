//! The socket at which a guest's front end finds the server.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use nix::fcntl::OFlag;
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Gid, Uid, chown};

/// The socket of a guest. Every user with write permission for the file may connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Socket {
    /// Path of the file, which the server creates.
    pub path: PathBuf,
    /// Permissions of the file.
    pub mode: u32,
    /// User and group of the file, if they differ from the user and the group of the process.
    pub owner: (Option<u32>, Option<u32>),
}

impl Socket {
    /// Returns the guest's name: the file name without its extension.
    pub fn guest_name(&self) -> String {
        self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Creates the file. Replaces a file that a dead server left behind.
    ///
    /// # Errors
    /// The file belongs to another program, another server answers at the socket, or the folder belongs to another user.
    pub(crate) fn bind(&self) -> io::Result<UnixListener> {
        let listener = match self.bind_restricted() {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && self.is_stale() => {
                fs::remove_file(&self.path)?;
                self.bind_restricted()?
            }
            other => other?,
        };
        self.set_owner_and_mode()?;
        Ok(listener)
    }

    /// Sets mode and owner, so that other users can connect. A user with write permission for the folder could replace the socket by a
    /// link, which is not followed.
    fn set_owner_and_mode(&self) -> io::Result<()> {
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW;
        let socket = File::options().read(true).custom_flags(flags.bits()).open(&self.path)?;
        if !socket.metadata()?.file_type().is_socket() {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "another user has replaced the socket by a file",
            ));
        }
        let socket = format!("/proc/self/fd/{}", socket.as_raw_fd());
        let (user, group) = self.owner;
        if (user, group) != (None, None) {
            chown(socket.as_str(), user.map(Uid::from_raw), group.map(Gid::from_raw))?;
        }
        fs::set_permissions(&socket, Permissions::from_mode(self.mode))
    }

    /// Binds the socket. Only this user can connect until the permissions are set.
    fn bind_restricted(&self) -> io::Result<UnixListener> {
        let previous_mask = umask(Mode::from_bits_truncate(0o177));
        let listener = UnixListener::bind(&self.path);
        umask(previous_mask);
        listener
    }

    fn is_stale(&self) -> bool {
        let is_socket = fs::symlink_metadata(&self.path).is_ok_and(|file| file.file_type().is_socket());
        let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        is_socket && UnixStream::connect(&self.path).err().is_some_and(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(name: &str) -> Socket {
        let folder = std::env::temp_dir().join(format!("gantry-vhost-user-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Socket { path: folder.join(name), mode: 0o620, owner: (None, None) }
    }

    #[test]
    fn only_a_socket_without_a_server_is_replaced() {
        let socket = socket("vm1.sock");
        let first = socket.bind().unwrap();
        assert_eq!(socket.guest_name(), "vm1");
        assert_eq!(fs::metadata(&socket.path).unwrap().permissions().mode() & 0o777, 0o620);
        assert_eq!(socket.bind().unwrap_err().kind(), io::ErrorKind::AddrInUse, "a server answers there");
        drop(first);
        drop(socket.bind().unwrap());
        fs::remove_file(&socket.path).unwrap();
        fs::write(&socket.path, "mine").unwrap();
        assert_eq!(socket.bind().unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(fs::read(&socket.path).unwrap(), b"mine");
        fs::remove_file(&socket.path).unwrap();
    }

    #[test]
    fn a_link_instead_of_a_socket_is_not_followed() {
        let socket = socket("vm2.sock");
        let other = socket.path.with_extension("secret");
        let _closed = UnixListener::bind(&other).unwrap();
        fs::set_permissions(&other, Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(&other, &socket.path).unwrap();
        assert!(socket.set_owner_and_mode().is_err());
        assert_eq!(fs::metadata(&other).unwrap().permissions().mode() & 0o777, 0o600);
        fs::remove_file(&socket.path).unwrap();
        fs::write(&socket.path, "").unwrap();
        assert_eq!(socket.set_owner_and_mode().unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        for path in [&socket.path, &other] {
            fs::remove_file(path).unwrap();
        }
    }
}
