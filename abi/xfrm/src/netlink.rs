//! Netlink datagrams: messages, attributes and acknowledgements.

use zeroize::Zeroizing;

use crate::Error;
use crate::bytes::{Reader, Write};
use crate::constants::{ERROR_TEXT, flag, message};

/// `struct nlmsghdr` without its length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// A constant of [`constants::message`](crate::constants::message).
    pub kind: u16,
    /// Bits of [`constants::flag`](crate::constants::flag).
    pub flags: u16,
    /// The number that an answer repeats.
    pub sequence: u32,
    /// The port of the program's socket; 0 is the kernel.
    pub port: u32,
}

/// Bytes of `struct nlmsghdr`.
pub(crate) const HEADER_SIZE: usize = 16;
/// Bytes of `struct nlattr`.
const ATTRIBUTE_HEADER_SIZE: usize = 4;
/// Bits of `nla_type` that are not flags.
const TYPE_MASK: u16 = 0x3fff;

impl Header {
    /// Returns whether all entries are requested.
    pub const fn is_dump(&self) -> bool {
        self.flags & flag::DUMP == flag::DUMP
    }

    /// Returns whether success must be acknowledged.
    pub const fn wants_ack(&self) -> bool {
        self.flags & flag::ACK != 0
    }
}

/// A message of a datagram: its header and body.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The header.
    pub header: Header,
    /// The received header, which an acknowledgement repeats, and the body.
    bytes: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Returns the bytes after the header.
    pub fn body(&self) -> &'a [u8] {
        &self.bytes[HEADER_SIZE..]
    }
}

/// Iterates over the messages of a datagram. As in `netlink_rcv_skb` of Linux, bytes after the last whole message are ignored.
pub const fn frames(datagram: &[u8]) -> Frames<'_> {
    Frames(datagram)
}

/// The iterator of [`frames`].
#[derive(Clone, Debug)]
pub struct Frames<'a>(&'a [u8]);

impl<'a> Iterator for Frames<'a> {
    type Item = Frame<'a>;

    fn next(&mut self) -> Option<Frame<'a>> {
        let mut reader = Reader(self.0);
        let length = reader.u32().ok()? as usize;
        let kind = reader.u16().ok()?;
        let flags = reader.u16().ok()?;
        let sequence = reader.u32().ok()?;
        let port = reader.u32().ok()?;
        if length < HEADER_SIZE {
            return None;
        }
        let bytes = self.0.get(..length)?;
        self.0 = self.0.get(aligned(length)..).unwrap_or_default();
        Some(Frame { header: Header { kind, flags, sequence, port }, bytes })
    }
}

/// Iterates over the attributes after a body's structure. An item is the number of an attribute, without flags, and its content.
pub(crate) fn attributes(bytes: &[u8]) -> Attributes<'_> {
    Attributes(bytes)
}

pub(crate) struct Attributes<'a>(&'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = Result<(u16, &'a [u8]), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        // An error or padding leaves the empty slice, and so ends the iteration.
        let bytes = std::mem::take(&mut self.0);
        let mut reader = Reader(bytes);
        // Fewer bytes than a header are padding.
        let (Ok(length), Ok(kind)) = (reader.u16(), reader.u16()) else { return None };
        let (length, kind) = (length as usize, kind & TYPE_MASK);
        let Some(content) = bytes.get(ATTRIBUTE_HEADER_SIZE..length) else { return Some(Err(Error::Attribute(kind))) };
        self.0 = bytes.get(aligned(length)..).unwrap_or_default();
        Some(Ok((kind, content)))
    }
}

/// Consecutive messages, to be sent at once. The bytes are zeroized on drop.
#[derive(Default)]
pub struct Datagram {
    bytes: Zeroizing<Vec<u8>>,
    /// The offset of the message between `begin` and `end`.
    begin: usize,
}

impl std::fmt::Debug for Datagram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Datagram").field("len", &self.bytes.len()).finish_non_exhaustive()
    }
}

impl Datagram {
    /// Creates a datagram without messages.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the bytes to send.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the length in bytes. Readers of netlink have buffers of at least 4096 bytes, so the sender of a dump starts another datagram
    /// before the length exceeds 4096 bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns true if there is no message.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Removes all messages, and zeroizes them.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Removes and zeroizes the messages after the first `length` bytes. `length` is an earlier result of [`Self::len`].
    pub fn truncate(&mut self, length: usize) {
        let length = length.min(self.bytes.len());
        self.bytes[length..].fill(0);
        self.bytes.truncate(length);
    }

    /// Appends NLMSG_ERROR to `port` in answer to `request`: `errno` is 0, or the positive number of an error. Omits the request's
    /// body, and sets NLM_F_CAPPED. `text` describes the error, up to its first NUL, for sockets that have set NETLINK_EXT_ACK.
    pub fn acknowledge(&mut self, request: &Frame<'_>, port: u32, errno: i32, text: Option<&str>) {
        let tlvs = if text.is_some() { flag::ACK_TLVS } else { 0 };
        let Header { sequence, .. } = request.header;
        self.begin(Header { kind: message::ERROR, flags: flag::CAPPED | tlvs, sequence, port });
        // In a message, the number of an error is negative.
        self.u32(errno.unsigned_abs().wrapping_neg());
        self.bytes(&request.bytes[..HEADER_SIZE]);
        if let Some(text) = text {
            self.attribute(ERROR_TEXT, |content| {
                content.bytes(text.split('\0').next().unwrap_or_default().as_bytes());
                content.u8(0);
            });
        }
        self.end();
    }

    /// Appends NLMSG_DONE, the end of the dump that answers `request`.
    pub fn done(&mut self, request: &Header, port: u32) {
        self.begin(Header { kind: message::DONE, flags: flag::MULTI, sequence: request.sequence, port });
        self.u32(0);
        self.end();
    }

    pub(crate) fn begin(&mut self, header: Header) {
        self.begin = self.bytes.len();
        self.u32(0);
        self.u16(header.kind);
        self.u16(header.flags);
        self.u32(header.sequence);
        self.u32(header.port);
    }

    /// Ends the message that `begin` started: writes its length. The length includes padding, as in `nlmsg_end` of Linux, because iproute2
    /// refuses a shorter length.
    pub(crate) fn end(&mut self) {
        self.align();
        let length = (self.bytes.len() - self.begin) as u32;
        self.bytes[self.begin..][..4].copy_from_slice(&length.to_ne_bytes());
    }

    /// Appends an attribute of at most 65535 bytes. `content` writes its content.
    pub(crate) fn attribute(&mut self, kind: u16, content: impl FnOnce(&mut Self)) {
        self.align();
        let begin = self.bytes.len();
        self.u16(0);
        self.u16(kind);
        content(self);
        let length = u16::try_from(self.bytes.len() - begin).expect("types bound their lengths");
        self.bytes[begin..][..2].copy_from_slice(&length.to_ne_bytes());
        self.align();
    }

    fn align(&mut self) {
        self.zeros(aligned(self.bytes.len()) - self.bytes.len());
    }
}

impl Write for Datagram {
    /// Grows by moving to a new vector and zeroizing the old one, because a `Vec` that grows leaves its contents in the old memory.
    fn bytes(&mut self, bytes: &[u8]) {
        let needed = self.bytes.len() + bytes.len();
        if needed > self.bytes.capacity() {
            let mut larger = Zeroizing::new(Vec::with_capacity((2 * needed).max(1024)));
            larger.extend_from_slice(&self.bytes);
            self.bytes = larger;
        }
        self.bytes.extend_from_slice(bytes);
    }
}

/// Rounds a length up, as NLMSG_ALIGN and NLA_ALIGN do.
pub(crate) const fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}
