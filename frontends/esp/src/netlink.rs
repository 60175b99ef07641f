//! Netlink messages (netlink(7)) and sockets for them, used for routes, rules and the firewall.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libc::c_int;
use nix::errno::Errno;
use nix::sys::socket::{self, MsgFlags, NetlinkAddr};

use crate::sys;

// linux/netlink.h
const REQUEST: u16 = 1;
pub(crate) const ACK: u16 = 4;
pub(crate) const REPLACE: u16 = 0x100;
pub(crate) const EXCLUSIVE: u16 = 0x200;
const DUMP: u16 = 0x300;
pub(crate) const CREATE: u16 = 0x400;
pub(crate) const APPEND: u16 = 0x800;
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// Marks an attribute that consists of attributes.
const NESTED: u16 = 1 << 15;
pub(crate) const HEADER: usize = 16;

/// A message, or the content of an attribute, under construction.
pub(crate) struct Message(pub(crate) Vec<u8>);

impl Message {
    /// Starts a message with its header; `finish` fills in the message's length.
    pub(crate) fn new(kind: u16, flags: u16) -> Self {
        let mut bytes = vec![0; 4];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend((REQUEST | flags).to_ne_bytes());
        bytes.extend([0; 8]);
        Self(bytes)
    }

    /// Starts the content of a nested attribute.
    pub(crate) fn content() -> Self {
        Self(Vec::new())
    }

    /// Appends a structure of the protocol.
    pub(crate) fn structure(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    pub(crate) fn attribute(mut self, kind: u16, content: &[u8]) -> Self {
        self.0.extend((4 + content.len() as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(content);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    pub(crate) fn nested(self, kind: u16, content: &Self) -> Self {
        self.attribute(kind | NESTED, &content.0)
    }

    pub(crate) fn number(self, kind: u16, number: u32) -> Self {
        self.attribute(kind, &number.to_ne_bytes())
    }

    pub(crate) fn address(self, kind: u16, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => self.attribute(kind, &address.octets()),
            IpAddr::V6(address) => self.attribute(kind, &address.octets()),
        }
    }

    /// Fills in the length, and returns the message.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        let length = self.0.len() as u32;
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        self.0
    }
}

#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

impl Socket {
    /// Opens a socket. `protocol` is one of libc's `NETLINK_*`.
    pub(crate) fn connect(protocol: c_int) -> io::Result<Self> {
        let socket = sys::socket(libc::AF_NETLINK, libc::SOCK_RAW, protocol)?;
        socket::connect(socket.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
        Ok(Self(socket))
    }

    /// Opens a socket that receives the notifications of `groups`.
    pub(crate) fn listen(protocol: c_int, groups: &[c_int]) -> io::Result<Self> {
        /// Bytes that the kernel may buffer for the socket: some ten thousand notifications.
        const BUFFER: c_int = 8 << 20;
        let socket = Self::connect(protocol)?;
        // Without the privilege the buffer is smaller; a reader learns of lost notifications.
        let _ = sys::set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, BUFFER);
        for group in groups {
            sys::set_option(&socket, libc::SOL_NETLINK, libc::NETLINK_ADD_MEMBERSHIP, *group)?;
        }
        Ok(socket)
    }

    /// Returns the port number that the kernel gave the socket. Notifications caused by its requests carry this number.
    pub(crate) fn port(&self) -> io::Result<u32> {
        Ok(socket::getsockname::<NetlinkAddr>(self.0.as_raw_fd())?.pid())
    }

    /// Sends a request to the kernel. The errors in `tolerated` count as success. The last message must ask for an answer (`ACK`).
    pub(crate) fn request(&self, messages: &[u8], tolerated: &[i32]) -> io::Result<()> {
        // Discards further errors of an earlier request.
        while socket::recv(self.0.as_raw_fd(), &mut [0; 64], MsgFlags::MSG_DONTWAIT).is_ok() {}
        socket::send(self.0.as_raw_fd(), messages, MsgFlags::empty())?;
        let mut answer = [0; 4096];
        let length = socket::recv(self.0.as_raw_fd(), &mut answer, MsgFlags::empty())?;
        match answer[..length].get(HEADER..HEADER + 4).and_then(|errno| errno.first_chunk()) {
            Some(errno) => match i32::from_ne_bytes(*errno).wrapping_neg() {
                0 => Ok(()),
                errno if tolerated.contains(&errno) => Ok(()),
                errno => Err(io::Error::from_raw_os_error(errno)),
            },
            None => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Returns the bodies (structure and attributes) of all objects of a kind. `structure` may narrow the selection.
    pub(crate) fn dump(&self, kind: u16, structure: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        let message = Message::new(kind, ACK | DUMP).structure(structure);
        socket::send(self.0.as_raw_fd(), &message.finish(), MsgFlags::empty())?;
        let mut bodies = Vec::new();
        let mut answer = vec![0; 1 << 16];
        loop {
            let length = socket::recv(self.0.as_raw_fd(), &mut answer, MsgFlags::empty())?;
            for (kind, _, body) in messages(&answer[..length]) {
                match kind {
                    DONE => return Ok(bodies),
                    ERROR => return Err(io::ErrorKind::InvalidData.into()),
                    // Every rtnetlink structure is at least as long as the structure of routes.
                    _ if body.len() >= 12 => bodies.push(body.to_vec()),
                    _ => {}
                }
            }
        }
    }

    /// Reads all pending datagrams. Returns whether `matches` is true for one of them, or datagrams were lost.
    pub(crate) fn drain_any(&self, mut matches: impl FnMut(&[u8]) -> bool) -> bool {
        let mut buffer = vec![0; 1 << 15];
        let mut any = false;
        loop {
            match socket::recv(self.0.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(length) => any |= matches(&buffer[..length]),
                Err(Errno::EINTR) => {}
                Err(Errno::ENOBUFS) => any = true,
                Err(_) => return any,
            }
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Iterates over the messages of a datagram: kind, port of the sender of the request, and body. Stops at a message
/// with a wrong length.
pub(crate) fn messages(mut datagram: &[u8]) -> impl Iterator<Item = (u16, u32, &[u8])> {
    std::iter::from_fn(move || {
        let header = datagram.first_chunk::<HEADER>()?;
        let word = |at: usize| u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let length = word(0) as usize;
        let message = datagram.get(..length).filter(|_| length >= HEADER)?;
        datagram = datagram.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((u16::from_ne_bytes([header[4], header[5]]), word(12), &message[HEADER..]))
    })
}

/// Returns the content of the attribute `kind`.
pub(crate) fn attribute(all: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(all).find(|(found, _)| *found == kind).map(|(_, content)| content)
}

/// Iterates over attributes: kind and content. Stops at an attribute with a wrong length.
pub(crate) fn attributes(mut all: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let header = all.first_chunk::<4>()?;
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let kind = u16::from_ne_bytes([header[2], header[3]]) & !NESTED;
        let content = all.get(4..length)?;
        all = all.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, content))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_as_it_was_written() {
        let content = Message::content().number(1, 7);
        let message = Message::new(40, ACK).structure(&[1, 2, 3, 4]).attribute(5, b"abc").nested(6, &content).finish();
        let mut two = message.clone();
        two.extend(&message);
        let all: Vec<_> = messages(&two).collect();
        assert_eq!(all.len(), 2);
        for (kind, port, body) in all {
            assert_eq!((kind, port, &body[..4]), (40, 0, &[1, 2, 3, 4][..]));
            assert_eq!(attribute(&body[4..], 5), Some(&b"abc"[..]));
            assert_eq!(attribute(attribute(&body[4..], 6).unwrap(), 1), Some(&7_u32.to_ne_bytes()[..]));
            assert_eq!(attribute(&body[4..], 7), None);
        }
    }

    #[test]
    fn reading_stops_at_a_wrong_length() {
        let message = Message::new(40, 0).attribute(5, b"abcd").finish();
        for length in 0..message.len() {
            assert_eq!(messages(&message[..length]).count(), 0);
        }
        for wrong in [0_u32, 15, 1000] {
            let mut message = message.clone();
            message[..4].copy_from_slice(&wrong.to_ne_bytes());
            assert_eq!(messages(&message).count(), 0);
        }
        let attributes = &message[HEADER..];
        for length in 0..attributes.len() {
            assert_eq!(attribute(&attributes[..length], 5), None);
        }
        assert_eq!(attribute(&[2, 0, 5, 0, 1, 1, 1, 1], 5), None);
    }
}
