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

/// Where a guest is served, and who may connect: whoever may write to the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Socket {
    /// The file, which is made.
    pub path: PathBuf,
    /// Its permissions.
    pub mode: u32,
    /// Its user and group, where they are to be others than the process has.
    pub owner: (Option<u32>, Option<u32>),
}

impl Socket {
    /// The guest's name: that of the file without what follows the last dot.
    pub fn guest(&self) -> String {
        self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Makes the file, in place of one that a server left behind that has gone.
    ///
    /// # Errors
    /// The file is somebody else's, another server answers there, or the folder is not ours.
    pub(crate) fn bind(&self) -> io::Result<UnixListener> {
        let listener = match self.bind_closed() {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && self.is_stale() => {
                fs::remove_file(&self.path)?;
                self.bind_closed()?
            }
            other => other?,
        };
        self.permit()?;
        Ok(listener)
    }

    /// Lets others connect. Another user who may write to the folder could put a link in the place of the socket, which is not followed.
    fn permit(&self) -> io::Result<()> {
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW;
        let socket = File::options().read(true).custom_flags(flags.bits()).open(&self.path)?;
        if !socket.metadata()?.file_type().is_socket() {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user has put a file in its place"));
        }
        let socket = format!("/proc/self/fd/{}", socket.as_raw_fd());
        let (user, group) = self.owner;
        if (user, group) != (None, None) {
            chown(socket.as_str(), user.map(Uid::from_raw), group.map(Gid::from_raw))?;
        }
        fs::set_permissions(&socket, Permissions::from_mode(self.mode))
    }

    /// Nobody but this user can connect until the permissions are set.
    fn bind_closed(&self) -> io::Result<UnixListener> {
        let before = umask(Mode::from_bits_truncate(0o177));
        let listener = UnixListener::bind(&self.path);
        umask(before);
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
    fn a_socket_that_nobody_answers_at_is_replaced_and_others_are_not() {
        let socket = socket("vm1.sock");
        let first = socket.bind().unwrap();
        assert_eq!(socket.guest(), "vm1");
        assert_eq!(fs::metadata(&socket.path).unwrap().permissions().mode() & 0o777, 0o620);
        assert_eq!(socket.bind().unwrap_err().kind(), io::ErrorKind::AddrInUse, "somebody answers there");
        drop(first);
        drop(socket.bind().unwrap());
        fs::remove_file(&socket.path).unwrap();
        fs::write(&socket.path, "mine").unwrap();
        assert_eq!(socket.bind().unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(fs::read(&socket.path).unwrap(), b"mine");
        fs::remove_file(&socket.path).unwrap();
    }

    #[test]
    fn a_link_in_the_place_of_a_socket_is_not_followed() {
        let socket = socket("vm2.sock");
        let other = socket.path.with_extension("secret");
        let _closed = UnixListener::bind(&other).unwrap();
        fs::set_permissions(&other, Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(&other, &socket.path).unwrap();
        assert!(socket.permit().is_err());
        assert_eq!(fs::metadata(&other).unwrap().permissions().mode() & 0o777, 0o600);
        fs::remove_file(&socket.path).unwrap();
        fs::write(&socket.path, "").unwrap();
        assert_eq!(socket.permit().unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        for path in [&socket.path, &other] {
            fs::remove_file(path).unwrap();
        }
    }
}
