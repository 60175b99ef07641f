//! The end that sends.

use std::fmt;
use std::ops::Range;

use gantry_core::Process;

use super::Suite;
use super::channel::{Channel, ENCRYPTED, WORD};
use crate::burst::{self, Begun};
use crate::crypt::{self, Work};
use crate::packet::{Packet, Refused};

/// The sending end of a [`Context`](super::Context). Threads may share it: no number of a stream is used twice.
pub struct Outbound {
    suite: Suite,
    pub(super) media: Channel,
    pub(super) control: Channel,
    /// Whether packets of RTCP are encrypted.
    encrypts_control: bool,
    /// The only process that has its numbers.
    process: Process,
}

/// Where a packet will lie, and its MKI.
struct Framed {
    whole: Range<usize>,
    mki: usize,
}

impl Outbound {
    pub(super) fn new(
        suite: Suite,
        media: Channel,
        control: Channel,
        encrypts_control: bool,
        process: Process,
    ) -> Self {
        Self { suite, media, control, encrypts_control, process }
    }

    /// Most bytes that sealing adds before a packet, and behind it.
    pub fn room(&self) -> (usize, usize) {
        (0, self.control.places(0).end.max(self.media.places(0).end))
    }

    /// The highest number of a stream of RTP: its rollover counter, and 16 bits of sequence number behind it.
    pub fn last_number(&self, ssrc: u32) -> Option<u64> {
        self.media.streams.last(ssrc)
    }

    /// The number of the last packet of RTCP from a source.
    pub fn last_control_number(&self, ssrc: u32) -> Option<u32> {
        self.control.streams.last(ssrc).map(|number| number as u32)
    }

    /// Makes a packet of SRTP from one of RTP, in place. Its number is used up even if no device then does it.
    ///
    /// # Errors
    /// Why there is none. [`Refused::Replayed`] says that a packet with this sequence number was sealed before, or could have been.
    /// Where no device was asked yet the packet is as it was; else nothing of it is left.
    pub fn seal(&self, packet: &mut Packet<'_>) -> Result<(), Refused> {
        burst::one(self, packet, seal)
    }

    /// Makes a packet of SRTCP from one of RTCP, or from several one behind the other, in place.
    ///
    /// # Errors
    /// As of [`seal`](Self::seal).
    pub fn seal_control(&self, packet: &mut Packet<'_>) -> Result<(), Refused> {
        burst::one(self, packet, seal_control)
    }
}

/// Writes all of the packet but what devices do and the MKI. Nothing is changed if there is an error.
fn frame(
    channel: &Channel,
    packet: &mut Packet<'_>,
    work: &mut Work,
    encrypted: bool,
) -> Result<Begun<Framed>, Refused> {
    let header = channel.header(packet.data())?;
    let Range { start, end } = packet.range();
    let length = end - start;
    let places = channel.places(length);
    packet.has_room(0, places.end - length)?;
    let number = channel.streams.take(header.ssrc, header.sequence)?;
    let bytes = &mut packet.buffer()[start..start + places.end];
    if channel.is_control() {
        let word = number as u32 | if encrypted { ENCRYPTED } else { 0 };
        bytes[places.word..places.word + WORD].copy_from_slice(&word.to_be_bytes());
    }
    channel.plan(work, bytes, length, &header, number, encrypted);
    let notes = Framed { whole: start..start + places.end, mki: start + places.mki };
    Ok(Begun { lent: start..start + places.lent, notes })
}

/// Seals packets of RTP, each under its context, as [`Outbound::seal`] does; the [verdict](Packet::verdict) is in each. All contexts are of
/// one framework.
pub fn seal(burst: &mut [(&Outbound, &mut Packet<'_>)]) {
    seal_all(burst, |end| (&end.media, true));
}

/// Seals packets of RTCP, each under its context, as [`Outbound::seal_control`] does; the [verdict](Packet::verdict) is in each. All
/// contexts are of one framework.
pub fn seal_control(burst: &mut [(&Outbound, &mut Packet<'_>)]) {
    seal_all(burst, |end| (&end.control, end.encrypts_control));
}

/// `channel`: that of an end, and whether its packets are encrypted.
fn seal_all(burst: &mut [(&Outbound, &mut Packet<'_>)], channel: fn(&Outbound) -> (&Channel, bool)) {
    burst::run(
        burst,
        |end| &channel(end).0.keys,
        |end, packet, work| {
            let (channel, encrypted) = channel(end);
            if !end.process.is_current() {
                return Err(Refused::Forked);
            }
            frame(channel, packet, work, encrypted).map(Some)
        },
        crypt::seal,
        |end, packet, Framed { whole, mki }, done| {
            let identifier = &channel(end).0.mki;
            packet.buffer()[mki..mki + identifier.len()].copy_from_slice(identifier);
            done.map(|_| whole)
        },
    );
}

impl fmt::Debug for Outbound {
    /// Shows no keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SRTP {:?} out, {} streams", self.suite, self.media.streams.count())
    }
}
