//! Pages that processes hand to a command of gantry's which runs them: it can read them when they have ended, however they did.
//!
//! The command makes a socket in a folder of its own, and the variable [`VARIABLE`] names it to everything that it runs. A process that makes its
//! page sends the memory there (unix(7), `SCM_RIGHTS`), once, and whatever keeps it from devices, as a sentence. Where nobody listens, nothing is
//! sent, and nothing fails. A program with borrowed rights, and one within a filter of system calls, sends nothing.

#![allow(unsafe_code, reason = "descriptors that come out of a socket")]

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, UnixAddr, recvmsg, sendmsg};

use super::live::Live;
use super::read::printable;
use crate::rights;
use crate::sandbox::is_filtered;

/// The variable that names the socket.
pub const VARIABLE: &str = "GANTRY_WATCH";

/// Most bytes of a message.
const MOST: usize = 8192;

/// A process waits as long for room in the socket.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whether this process was started by a command that takes pages.
pub fn is_watched() -> bool {
    rights::variable(VARIABLE).is_some()
}

/// Tells the command that started this process something about it, if there is one.
pub fn tell(sentence: &str) {
    if is_watched() && !is_filtered() {
        // Nothing can be done about an error, and nobody can be told.
        let _ = send(sentence, &[]);
    }
}

/// Hands over the page of this process.
pub(super) fn hand_over(page: &OwnedFd) {
    if is_watched() && !is_filtered() {
        let _ = send("", &[page.as_raw_fd()]);
    }
}

/// A message: the process, its program, and a sentence, with zeros between, and what comes with it.
fn send(sentence: &str, descriptors: &[RawFd]) -> io::Result<()> {
    let path = rights::variable(VARIABLE).unwrap_or_default();
    let to = UnixAddr::new(Path::new(&path))?;
    let program = std::env::current_exe().unwrap_or_default();
    let mut text = format!("{}\0", std::process::id()).into_bytes();
    text.extend_from_slice(program.as_os_str().as_bytes());
    text.push(0);
    text.extend_from_slice(sentence.as_bytes());
    text.truncate(MOST);
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(PATIENCE))?;
    let rights = [ControlMessage::ScmRights(descriptors)];
    let control = if descriptors.is_empty() { &rights[..0] } else { &rights[..] };
    sendmsg(socket.as_raw_fd(), &[IoSlice::new(&text)], control, MsgFlags::MSG_NOSIGNAL, Some(&to))?;
    Ok(())
}

/// Takes what processes hand over, in a thread of its own.
pub struct Taking {
    path: PathBuf,
    socket: UnixDatagram,
    thread: JoinHandle<Taken>,
}

/// What processes handed over.
#[derive(Debug, Default)]
pub struct Taken {
    /// Their pages, in the order in which they were made.
    pub pages: Vec<Live>,
    /// Programs, and what keeps each from devices.
    pub told: Vec<(String, String)>,
}

impl Taken {
    /// What programs told, as sentences that name them.
    pub fn sentences(&self) -> impl Iterator<Item = String> {
        self.told.iter().map(|(program, sentence)| format!("{program}: {sentence}"))
    }
}

impl Taking {
    /// Begins to listen in a folder into which only this user may write.
    ///
    /// # Errors
    /// No socket or no thread can be made.
    pub fn begin(folder: &Path) -> io::Result<Self> {
        let path = folder.join("socket");
        let socket = UnixDatagram::bind(&path)?;
        let listening = socket.try_clone()?;
        let thread = Builder::new().spawn(move || take(&listening))?;
        Ok(Self { path, socket, thread })
    }

    /// What [`VARIABLE`] is to say.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Everything that has been handed over until now.
    ///
    /// # Errors
    /// The socket is not there any more.
    pub fn end(self) -> io::Result<Taken> {
        // Behind everything that has been sent.
        self.socket.send_to(&[], &self.path)?;
        Ok(self.thread.join().unwrap_or_default())
    }
}

/// Takes messages until there comes an empty one.
fn take(socket: &UnixDatagram) -> Taken {
    let mut taken = Taken::default();
    loop {
        let mut bytes = [0; MOST];
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let mut space = nix::cmsg_space!([RawFd; 4]);
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let received = match recvmsg::<UnixAddr>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags) {
            Ok(received) => received,
            Err(nix::Error::EINTR) => continue,
            Err(_) => return taken,
        };
        let rights = received.cmsgs().into_iter().flatten().filter_map(|message| match message {
            ControlMessageOwned::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        });
        // SAFETY: the kernel has just made these descriptors for this process, and nobody else knows them.
        let files = rights.flatten().map(|descriptor| File::from(unsafe { OwnedFd::from_raw_fd(descriptor) }));
        let mut files: Vec<File> = files.collect();
        let length = received.bytes;
        if length == 0 {
            return taken;
        }
        let mut fields = bytes[..length].splitn(3, |byte| *byte == 0);
        let mut next = || fields.next().map(printable).unwrap_or_default();
        let (pid, program, sentence) = (next(), next(), next());
        match files.pop() {
            Some(page) => taken.pages.extend(Live::handed(page, pid.parse().unwrap_or(0), &program)),
            None => taken.told.push((program, sentence)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_was_sent_before_the_end_arrives() {
        let folder = std::env::temp_dir().join(format!("gantry-taking-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let taking = Taking::begin(&folder).unwrap();
        let socket = UnixDatagram::unbound().unwrap();
        socket.send_to(b"7\0/bin/x\0it is \x1b[2J so", taking.path()).unwrap();
        socket.send_to(b"no fields", taking.path()).unwrap();
        let taken = taking.end().unwrap();
        let told = [("/bin/x".to_owned(), "it is \u{fffd}[2J so".to_owned()), (String::new(), String::new())];
        assert_eq!((taken.told.as_slice(), taken.pages.len()), (&told[..], 0));
        fs::remove_dir_all(&folder).unwrap();
    }
}
