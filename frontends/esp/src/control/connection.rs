//! A connection: what a program takes for a socket of netlink.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use gantry_abi_xfrm::{Datagram, Keys, Message};
use nix::errno::Errno;
use nix::sys::socket::{self, MsgFlags};
use zeroize::Zeroizing;

/// Bytes of the longest request, and of a part of a long answer: what every program has room for.
const LONGEST: usize = 64 << 10;
pub(crate) const PART: usize = 4096;
/// Datagrams that wait for a program that does not read. Netlink drops events, too, when a socket is full.
const EVENTS: usize = 1024;

/// One of them.
#[derive(Debug)]
pub(crate) struct Connection {
    fd: OwnedFd,
    /// What the program has bound its socket to.
    pub(crate) port: u32,
    /// Bit n - 1 is group n.
    pub(crate) groups: u32,
    /// Refusals have a text.
    pub(crate) texts: bool,
    waiting: VecDeque<Datagram>,
    pub(crate) is_closed: bool,
}

impl Connection {
    pub(crate) fn new(fd: OwnedFd) -> Self {
        Self { fd, port: 0, groups: 0, texts: false, waiting: VecDeque::new(), is_closed: false }
    }

    /// Reads one datagram, which may have keys. Returns `None` without one, at the end, and while answers wait: a program that does not read
    /// its answers is not read either, so that one answer at most waits for it.
    pub(crate) fn read(&mut self) -> Option<Zeroizing<Vec<u8>>> {
        if self.is_behind() || self.is_closed {
            return None;
        }
        let mut datagram = Zeroizing::new(vec![0; LONGEST]);
        match socket::recv(self.fd.as_raw_fd(), &mut datagram, MsgFlags::MSG_DONTWAIT) {
            Ok(0) => self.is_closed = true,
            Ok(length) => {
                datagram.truncate(length);
                return Some(datagram);
            }
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(_) => self.is_closed = true,
        }
        None
    }

    /// Sends a datagram, or puts it behind those that wait.
    pub(crate) fn send(&mut self, datagram: Datagram) {
        if !datagram.is_empty() {
            self.waiting.push_back(datagram);
            self.flush();
        }
    }

    /// Tells of something that has happened, if the program has joined the group.
    pub(crate) fn tell(&mut self, message: &Message) {
        let has_joined = message.group().is_some_and(|group| self.groups & 1 << (group - 1) != 0);
        if has_joined && self.waiting.len() < EVENTS {
            let mut datagram = Datagram::new();
            datagram.push(message, 0, 0, 0, Keys::Zeros);
            self.send(datagram);
        }
    }

    /// Whether something waits for room.
    pub(crate) fn is_behind(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Sends what waits, as far as there is room.
    pub(crate) fn flush(&mut self) {
        while let Some(datagram) = self.waiting.front() {
            let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
            match socket::send(self.fd.as_raw_fd(), datagram.as_bytes(), flags) {
                Ok(_) => _ = self.waiting.pop_front(),
                Err(Errno::EAGAIN) => return,
                Err(Errno::EINTR) => {}
                Err(_) => {
                    self.is_closed = true;
                    return;
                }
            }
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Takes a program that has come.
pub(crate) fn accept(listener: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    use std::os::fd::FromRawFd as _;
    match socket::accept4(listener.as_raw_fd(), socket::SockFlag::SOCK_CLOEXEC) {
        // SAFETY: the call has just made the descriptor, which nobody else has.
        Ok(fd) => Ok(Some(unsafe { OwnedFd::from_raw_fd(fd) })),
        Err(Errno::EAGAIN | Errno::EINTR | Errno::ECONNABORTED) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
