//! A connection, which stands for a program's netlink socket.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use gantry_abi_xfrm::{Datagram, KeyVisibility, Message};
use nix::errno::Errno;
use nix::sys::socket::{self, MsgFlags};
use zeroize::Zeroizing;

/// Maximum size in bytes of a request, and of a part of a long answer. Every program has room for a part of this size.
const MAX_REQUEST_BYTES: usize = 64 << 10;
pub(crate) const MAX_DUMP_PART_BYTES: usize = 4096;
/// Maximum number of datagrams that wait for a program that does not read. Netlink, too, drops events when a socket is full.
const MAX_QUEUED_DATAGRAMS: usize = 1024;

/// A connection of a program.
#[derive(Debug)]
pub(crate) struct Connection {
    fd: OwnedFd,
    /// Netlink port to which the program has bound its socket.
    pub(crate) port: u32,
    /// Netlink groups: bit n - 1 is group n.
    pub(crate) groups: u32,
    /// True if the program wants refusals with a text.
    pub(crate) wants_texts: bool,
    send_queue: VecDeque<Datagram>,
    pub(crate) is_closed: bool,
}

impl Connection {
    pub(crate) fn new(fd: OwnedFd) -> Self {
        Self { fd, port: 0, groups: 0, wants_texts: false, send_queue: VecDeque::new(), is_closed: false }
    }

    /// Reads one datagram, which may contain keys. Returns `None` if there is no datagram, or the connection is closed. Also returns `None`
    /// while an answer waits, so that at most one answer waits for a program that does not read.
    pub(crate) fn read(&mut self) -> Option<Zeroizing<Vec<u8>>> {
        if self.has_queued_datagrams() || self.is_closed {
            return None;
        }
        let mut datagram = Zeroizing::new(vec![0; MAX_REQUEST_BYTES]);
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

    /// Sends a datagram, or queues it after the datagrams that wait.
    pub(crate) fn send(&mut self, datagram: Datagram) {
        if !datagram.is_empty() {
            self.send_queue.push_back(datagram);
            self.flush();
        }
    }

    /// Sends an event if the program has joined its group.
    pub(crate) fn notify(&mut self, message: &Message) {
        let has_joined = message.group().is_some_and(|group| self.groups & 1 << (group - 1) != 0);
        if has_joined && self.send_queue.len() < MAX_QUEUED_DATAGRAMS {
            let mut datagram = Datagram::new();
            datagram.push(message, 0, 0, 0, KeyVisibility::Zeros);
            self.send(datagram);
        }
    }

    /// Returns whether datagrams wait for room.
    pub(crate) fn has_queued_datagrams(&self) -> bool {
        !self.send_queue.is_empty()
    }

    /// Sends the waiting datagrams, as far as there is room.
    pub(crate) fn flush(&mut self) {
        while let Some(datagram) = self.send_queue.front() {
            let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
            match socket::send(self.fd.as_raw_fd(), datagram.as_bytes(), flags) {
                Ok(_) => _ = self.send_queue.pop_front(),
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

/// Accepts a connection of a program.
pub(crate) fn accept(listener: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    use std::os::fd::FromRawFd as _;
    match socket::accept4(listener.as_raw_fd(), socket::SockFlag::SOCK_CLOEXEC) {
        // SAFETY: the call has just created the descriptor, which has no other owner.
        Ok(fd) => Ok(Some(unsafe { OwnedFd::from_raw_fd(fd) })),
        Err(Errno::EAGAIN | Errno::EINTR | Errno::ECONNABORTED) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
