//! Reads the report of a data path of `gantry esp` from its socket `status`, with limits of time and length.

use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::socket::sockopt::{PeerCredentials, SendTimeout};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, getsockopt, setsockopt, socket};
use nix::sys::time::{TimeVal, TimeValLike as _};

/// Longest time for the whole answer. The data path allows a viewer the same time to read.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// Most bytes of a report. For root it lists each SA and policy, of which there may be 65,536 (frontends/esp/src/table).
const MAX_REPORT: u64 = 64 << 20;

/// Returns the PID of the process behind a socket, and its report.
pub(crate) fn ask(path: &Path) -> io::Result<(i32, Vec<u8>)> {
    let deadline = Instant::now() + ANSWER_TIMEOUT;
    let fd = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    // The timeout for sending is also the timeout for connecting (socket(7)).
    setsockopt(&fd, SendTimeout, &TimeVal::milliseconds(ANSWER_TIMEOUT.as_millis() as i64))?;
    connect(fd.as_raw_fd(), &UnixAddr::new(path)?)?;
    let process = getsockopt(&fd, PeerCredentials)?.pid();
    let (mut stream, mut bytes, mut piece) = (UnixStream::from(fd).take(MAX_REPORT + 1), Vec::new(), vec![0; 64 << 10]);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.get_ref().set_read_timeout(Some(left))?;
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(length) => bytes.extend_from_slice(&piece[..length]),
            // The process was stopped and continued (signal(7)).
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    if bytes.len() as u64 > MAX_REPORT {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {} MiB", MAX_REPORT >> 20)));
    }
    Ok((process, bytes))
}
