//! A packet in its buffer, and why one is refused.

use std::ops::Range;

use crate::tls::content_type;

/// A packet somewhere in a buffer. What a protocol adds goes into the room before and behind it.
#[derive(Debug)]
pub struct Packet<'b> {
    buffer: &'b mut [u8],
    range: Range<usize>,
    verdict: Result<(), Refused>,
    /// Of [ESP](crate::esp), the protocol of the payload (IANA's numbers), where no header of IP says it. Of [IPComp](crate::ipcomp), that
    /// of what the packet now has: its own, or the payload's.
    pub next_header: u8,
    /// Of [TLS](crate::tls), what a record holds: application data, unless it is [another type](crate::tls::content_type).
    pub content_type: u8,
}

impl<'b> Packet<'b> {
    /// The packet in `range` of the buffer.
    ///
    /// # Panics
    /// The range is not in the buffer.
    pub fn new(buffer: &'b mut [u8], range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= buffer.len(), "{range:?} of {} bytes", buffer.len());
        Self { buffer, range, verdict: Ok(()), next_header: 0, content_type: content_type::APPLICATION_DATA }
    }

    /// The bytes of the packet. None, if it was refused after its contents had been touched.
    pub fn data(&self) -> &[u8] {
        &self.buffer[self.range.clone()]
    }

    /// Where it lies in the buffer.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// What became of it the last time that it was sealed or opened.
    pub fn verdict(&self) -> Result<(), &Refused> {
        self.verdict.as_ref().copied()
    }

    /// Refuses it as it is.
    pub(crate) fn refuse(&mut self, why: Refused) {
        self.verdict = Err(why);
    }

    /// Refuses it, and nothing of it is to be seen any more.
    pub(crate) fn discard(&mut self, why: Refused) {
        self.range = self.range.start..self.range.start;
        self.verdict = Err(why);
    }

    /// It was sealed or opened, and lies there from now on.
    pub(crate) fn is_in(&mut self, range: Range<usize>) {
        assert!(range.start <= range.end && range.end <= self.buffer.len());
        (self.range, self.verdict) = (range, Ok(()));
    }

    /// Whether so many bytes can be added.
    pub(crate) fn has_room(&self, head: usize, tail: usize) -> Result<(), Refused> {
        let (before, behind) = (self.range.start, self.buffer.len() - self.range.end);
        if head <= before && tail <= behind { Ok(()) } else { Err(Refused::Room { head, tail, before, behind }) }
    }

    /// The buffer, from which a protocol takes its part.
    pub(crate) fn buffer(&mut self) -> &mut [u8] {
        self.buffer
    }
}

/// Why a packet was not sealed or opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The buffer has too little room around the packet.
    #[error("{head} bytes are needed before the packet and {tail} behind it; there are {before} and {behind}")]
    Room {
        /// Bytes needed before it.
        head: usize,
        /// Bytes needed behind it.
        tail: usize,
        /// Bytes that there are before it.
        before: usize,
        /// Bytes that there are behind it.
        behind: usize,
    },
    /// Every number that may be used under the keys has been. New keys are needed.
    #[error("every number that may be used under these keys has been")]
    Exhausted,
    /// The keys were given to the process from which this one was forked, and both would use the same numbers under them.
    #[error("the keys are another process's")]
    Forked,
    /// Of TLS, a record before it failed, with which the connection ends.
    #[error("the connection has failed")]
    Broken,
    /// Of TLS, another thread is opening records of the same connection, of which one is the next.
    #[error("another thread is opening records of this connection")]
    Busy,
    /// It is too short, too long, or a field says what cannot be.
    #[error("not a packet of this association or connection: {0}")]
    Malformed(&'static str),
    /// Of IPComp, it decompresses to more than there is room for.
    #[error("it decompresses to more than the {most} bytes that there is room for")]
    Expands {
        /// The most bytes that it may become.
        most: usize,
    },
    /// A packet of this number has come before, or was sealed before, or the number is older than the window.
    #[error("the number of the packet has been used before, or could have been")]
    Replayed,
    /// The integrity check value is not that of the packet.
    #[error("the integrity check value is wrong")]
    Forged,
    /// It is of a new stream, and the context has as many as it may.
    #[error("a stream beyond the {most} of the context")]
    Streams {
        /// The most streams of the context.
        most: usize,
    },
    /// A packet that is there to hide how many there are (RFC 4303, 2.6).
    #[error("a dummy packet")]
    Dummy,
    /// There were no random bytes for an IV.
    #[error("the system has no random bytes")]
    Entropy,
    /// No device did it.
    #[error(transparent)]
    Device(#[from] gantry_core::Error),
}
