//! A packet in its buffer, and the reasons to refuse a packet.

use std::ops::Range;

/// The content type of application data in a record of TLS (RFC 8446, section 5.1).
pub(crate) const APPLICATION_DATA: u8 = 23;

/// A packet within a buffer. Protocols add their bytes in the room before and after the packet.
#[derive(Debug)]
pub struct Packet<'b> {
    buffer: &'b mut [u8],
    range: Range<usize>,
    verdict: Result<(), PacketError>,
    /// For [ESP](crate::esp), the protocol of the payload (IANA's numbers), if no IP header states it. For [IPComp](crate::ipcomp), the
    /// protocol of the packet's present contents: IPComp's own, or the payload's.
    pub next_header: u8,
    /// For [TLS](crate::tls), the content type of a record: application data, unless it is [another type](crate::tls::content_type).
    pub content_type: u8,
}

impl<'b> Packet<'b> {
    /// Creates the packet in `range` of the buffer.
    ///
    /// # Panics
    /// Panics if the range is not in the buffer.
    pub fn new(buffer: &'b mut [u8], range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= buffer.len(), "{range:?} of {} bytes", buffer.len());
        Self { buffer, range, verdict: Ok(()), next_header: 0, content_type: APPLICATION_DATA }
    }

    /// Returns the bytes of the packet: none if it was refused after its contents had been changed.
    pub fn data(&self) -> &[u8] {
        &self.buffer[self.range.clone()]
    }

    /// Returns the packet's range in the buffer.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// Returns the result of the last sealing or opening.
    pub fn verdict(&self) -> Result<(), &PacketError> {
        self.verdict.as_ref().copied()
    }

    /// Refuses the packet and leaves it unchanged.
    pub(crate) fn refuse(&mut self, error: PacketError) {
        self.verdict = Err(error);
    }

    /// Refuses the packet and empties its range.
    pub(crate) fn discard(&mut self, error: PacketError) {
        self.range = self.range.start..self.range.start;
        self.verdict = Err(error);
    }

    /// Records success, and the packet's new range.
    pub(crate) fn complete(&mut self, range: Range<usize>) {
        assert!(range.start <= range.end && range.end <= self.buffer.len());
        (self.range, self.verdict) = (range, Ok(()));
    }

    /// Refuses unless `head` bytes before and `tail` bytes after the packet are free.
    pub(crate) fn check_room(&self, head: usize, tail: usize) -> Result<(), PacketError> {
        let (before, behind) = (self.range.start, self.buffer.len() - self.range.end);
        if head <= before && tail <= behind { Ok(()) } else { Err(PacketError::Room { head, tail, before, behind }) }
    }

    /// Returns the whole buffer.
    pub(crate) fn buffer(&mut self) -> &mut [u8] {
        self.buffer
    }
}

/// The reason why a packet was not sealed or opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PacketError {
    /// The buffer has too little room around the packet.
    #[error("the packet needs {head} bytes before it and {tail} behind it, but the buffer has {before} and {behind}")]
    Room {
        /// Bytes needed before the packet.
        head: usize,
        /// Bytes needed after the packet.
        tail: usize,
        /// Free bytes before the packet.
        before: usize,
        /// Free bytes after the packet.
        behind: usize,
    },
    /// Every number has been used under these keys. New keys are needed.
    #[error("sequence numbers exhausted; rekey")]
    Exhausted,
    /// The process was forked from the process that got the keys, so both would use the same numbers.
    #[error("the keys belong to the parent process")]
    Forked,
    /// TLS: an earlier record failed, which ends the connection.
    #[error("the connection has failed")]
    Broken,
    /// TLS: another thread is opening records of this connection.
    #[error("another thread is opening records of this connection")]
    Busy,
    /// The packet is too short or too long, or a field has an impossible value.
    #[error("not a packet of this association or connection: {0}")]
    Malformed(&'static str),
    /// IPComp: the decompressed data do not fit.
    #[error("the decompressed data exceed {max} bytes")]
    Expands {
        /// The most bytes that fit.
        max: usize,
    },
    /// The packet's number was received or sealed before, or is older than the window.
    #[error("replayed or too old")]
    Replayed,
    /// The integrity check value is wrong.
    #[error("the integrity check value is wrong")]
    Forged,
    /// The packet belongs to a new stream, and the context has its maximum of streams.
    #[error("the context has its maximum of {max} streams")]
    Streams {
        /// The maximum number of streams of the context.
        max: usize,
    },
    /// A dummy packet, which hides the amount of traffic (RFC 4303, 2.6).
    #[error("a dummy packet")]
    Dummy,
    /// The system has no random bytes for an IV.
    #[error("the system has no random bytes")]
    Entropy,
    /// No device did the operation.
    #[error(transparent)]
    Device(#[from] gantry_core::Error),
}
