//! The Unix sockets in the folder of the data path.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;

use nix::sys::socket::{self, AddressFamily, Backlog, SockFlag, SockType, UnixAddr};
use nix::sys::stat::{Mode, umask};

/// Creates the folder of the sockets. Fails if another user could put sockets into the folder.
pub(crate) fn create_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
    gantry_rights::check_trusted(&fs::metadata(folder)?)
}

/// Listens for daemons that run as root or as the user of this process.
pub(crate) fn listen_to_daemons(path: &Path) -> io::Result<OwnedFd> {
    remove_stale_socket(path)?;
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = socket::socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)?;
    // No other user may connect, even for a moment.
    let before = umask(Mode::S_IRWXG | Mode::S_IRWXO);
    let bound = socket::bind(fd.as_raw_fd(), &UnixAddr::new(path)?);
    umask(before);
    bound?;
    socket::listen(&fd, Backlog::new(64)?)?;
    Ok(fd)
}

/// Listens for viewers of all users. The status thread looks up the user of each viewer.
pub(crate) fn listen_to_viewers(path: &Path) -> io::Result<UnixListener> {
    remove_stale_socket(path)?;
    let listener = UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o666))?;
    Ok(listener)
}

/// Removes a socket that no process listens to any more.
fn remove_stale_socket(path: &Path) -> io::Result<()> {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|data| data.file_type().is_socket());
    if !is_socket {
        return Ok(());
    }
    for kind in [SockType::SeqPacket, SockType::Stream] {
        let fd = socket::socket(AddressFamily::Unix, kind, SockFlag::SOCK_CLOEXEC, None)?;
        if socket::connect(fd.as_raw_fd(), &UnixAddr::new(path)?).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another data path is running"));
        }
    }
    fs::remove_file(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_user_puts_sockets_into_the_folder() {
        let above = std::env::temp_dir().join(format!("gantry-esp-folder-{}", std::process::id()));
        let folder = above.join("deep/down");
        create_folder(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o022, 0);
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(create_folder(&folder).unwrap_err().to_string(), "other users may write to it");
        fs::remove_dir_all(&above).unwrap();
    }

    #[test]
    fn only_its_user_connects_to_the_socket_of_daemons() {
        let path = std::env::temp_dir().join(format!("gantry-esp-daemons-{}", std::process::id()));
        let _socket = listen_to_daemons(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o077, 0);
        fs::remove_file(&path).unwrap();
    }
}
