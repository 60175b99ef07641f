//! The other end of `receive.rs`: a process sends its page to the gantry command that started it.

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

use nix::sys::socket::{ControlMessage, MsgFlags, UnixAddr, sendmsg};

use crate::config::stats::VARIABLE;
use crate::rights;
use crate::sandbox::is_filtered;

/// Maximum bytes of a message.
pub(super) const MAX_MESSAGE: usize = 8192;

/// Maximum time that a process waits for room in the socket.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// Returns `true` if this process was started by a command that takes pages.
pub fn is_watched() -> bool {
    rights::variable(VARIABLE).is_some()
}

/// Sends a sentence to the command that started this process, if there is one.
pub fn report_problem(sentence: &str) {
    if is_watched() && !is_filtered() {
        // Ignore errors: there is no way to report them.
        let _ = send(sentence, &[]);
    }
}

/// Sends the page of this process.
pub(super) fn send_page(page: &OwnedFd) {
    if is_watched() && !is_filtered() {
        let _ = send("", &[page.as_raw_fd()]);
    }
}

/// Sends a message: PID, program and sentence, separated by zeros, and the descriptors.
fn send(sentence: &str, descriptors: &[RawFd]) -> io::Result<()> {
    let path = rights::variable(VARIABLE).unwrap_or_default();
    let to = UnixAddr::new(Path::new(&path))?;
    let program = std::env::current_exe().unwrap_or_default();
    let mut text = format!("{}\0", std::process::id()).into_bytes();
    text.extend_from_slice(program.as_os_str().as_bytes());
    text.push(0);
    text.extend_from_slice(sentence.as_bytes());
    text.truncate(MAX_MESSAGE);
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(SEND_TIMEOUT))?;
    let rights = [ControlMessage::ScmRights(descriptors)];
    let control = if descriptors.is_empty() { &rights[..0] } else { &rights[..] };
    sendmsg(socket.as_raw_fd(), &[IoSlice::new(&text)], control, MsgFlags::MSG_NOSIGNAL, Some(&to))?;
    Ok(())
}
