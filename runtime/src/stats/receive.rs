//! Pages that processes send to the gantry command that started them. The command can read the pages even after a process was killed.
//!
//! The command creates a socket in a private folder, and passes its path in the variable [`VARIABLE`](super::VARIABLE). A process sends its
//! page there once (unix(7), `SCM_RIGHTS`), and a sentence about problems with devices, if any. A process whose command does not listen
//! continues without sending. A program with elevated rights, or under a system call filter, sends nothing.

#![allow(unsafe_code, reason = "descriptors that come out of a socket")]

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::thread::{Builder, JoinHandle};

use nix::sys::socket::{ControlMessageOwned, MsgFlags, UnixAddr, recvmsg};

use super::live_page::LivePage;
use super::read::printable;
use super::send::MAX_MESSAGE;

/// A thread that receives the messages of processes.
pub struct PageReceiver {
    path: PathBuf,
    socket: UnixDatagram,
    thread: JoinHandle<ReceivedPages>,
}

/// The messages received from processes.
#[derive(Debug, Default)]
pub struct ReceivedPages {
    /// Pages, in the order of their creation.
    pub pages: Vec<LivePage>,
    /// Programs, and their sentences about problems with devices.
    pub problems: Vec<(String, String)>,
}

impl ReceivedPages {
    /// Returns the sentences, prefixed with their program.
    pub fn problem_lines(&self) -> impl Iterator<Item = String> {
        self.problems.iter().map(|(program, sentence)| format!("{program}: {sentence}"))
    }
}

impl PageReceiver {
    /// Starts to listen in a folder into which only this user may write.
    ///
    /// # Errors
    /// The socket or the thread cannot be created.
    pub fn begin(folder: &Path) -> io::Result<Self> {
        let path = folder.join("socket");
        let socket = UnixDatagram::bind(&path)?;
        let listening = socket.try_clone()?;
        let thread = Builder::new().spawn(move || receive(&listening))?;
        Ok(Self { path, socket, thread })
    }

    /// Returns the value for [`VARIABLE`](super::VARIABLE).
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Stops listening, and returns all messages so far.
    ///
    /// # Errors
    /// The socket no longer exists.
    pub fn end(self) -> io::Result<ReceivedPages> {
        // The empty message comes after all earlier ones.
        self.socket.send_to(&[], &self.path)?;
        Ok(self.thread.join().unwrap_or_default())
    }
}

/// Receives messages until an empty message arrives.
fn receive(socket: &UnixDatagram) -> ReceivedPages {
    let mut received = ReceivedPages::default();
    loop {
        let mut bytes = [0; MAX_MESSAGE];
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let mut space = nix::cmsg_space!([RawFd; 4]);
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let message = match recvmsg::<UnixAddr>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags) {
            Ok(message) => message,
            Err(nix::Error::EINTR) => continue,
            Err(_) => return received,
        };
        let rights = message.cmsgs().into_iter().flatten().filter_map(|control| match control {
            ControlMessageOwned::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        });
        // SAFETY: the kernel has just created these descriptors for this process, and nothing else owns them.
        let files = rights.flatten().map(|descriptor| File::from(unsafe { OwnedFd::from_raw_fd(descriptor) }));
        let mut files: Vec<File> = files.collect();
        let length = message.bytes;
        if length == 0 {
            return received;
        }
        let mut fields = bytes[..length].splitn(3, |byte| *byte == 0);
        let mut next = || fields.next().map(printable).unwrap_or_default();
        let (pid, program, sentence) = (next(), next(), next());
        match files.pop() {
            Some(page) => received.pages.extend(LivePage::from_descriptor(page, pid.parse().unwrap_or(0), &program)),
            None => received.problems.push((program, sentence)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn receives_all_messages_before_the_end() {
        let folder = std::env::temp_dir().join(format!("gantry-receive-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let receiver = PageReceiver::begin(&folder).unwrap();
        let socket = UnixDatagram::unbound().unwrap();
        socket.send_to(b"7\0/bin/x\0it is \x1b[2J so", receiver.path()).unwrap();
        socket.send_to(b"no fields", receiver.path()).unwrap();
        let received = receiver.end().unwrap();
        let expected = [("/bin/x".to_owned(), "it is \u{fffd}[2J so".to_owned()), (String::new(), String::new())];
        assert_eq!((received.problems.as_slice(), received.pages.len()), (&expected[..], 0));
        fs::remove_dir_all(&folder).unwrap();
    }
}
