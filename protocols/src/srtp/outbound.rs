//! The sending end of an SRTP context.

use std::fmt;
use std::ops::Range;

use gantry_core::Process;

use super::Suite;
use super::channel::{Channel, ENCRYPTED, INDEX_LEN};
use crate::burst::{self, FramedPacket};
use crate::crypt::{self, Work};
use crate::packet::{Packet, PacketError};

/// The sending end of a [`Context`](super::Context). Threads may share it: each number of a stream is used once.
pub struct Outbound {
    suite: Suite,
    pub(super) media: Channel,
    pub(super) control: Channel,
    /// True if RTCP packets are encrypted.
    encrypts_control: bool,
    /// The only process that may use the numbers.
    process: Process,
}

/// A packet's final range, and the offset of its MKI.
struct FramedRtp {
    whole: Range<usize>,
    mki_offset: usize,
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

    /// Returns the most bytes that sealing adds before and after a packet.
    pub fn room(&self) -> (usize, usize) {
        (0, self.control.offsets(0).end.max(self.media.offsets(0).end))
    }

    /// Returns the highest number of an RTP stream: the rollover counter, followed by 16 bits of sequence number.
    pub fn last_number(&self, ssrc: u32) -> Option<u64> {
        self.media.streams.highest_number(ssrc)
    }

    /// Returns the number of a source's last RTCP packet.
    pub fn last_control_number(&self, ssrc: u32) -> Option<u32> {
        self.control.streams.highest_number(ssrc).map(|number| number as u32)
    }

    /// Encrypts an RTP packet to SRTP, in place. Its number is used up even if no device then does the work.
    ///
    /// # Errors
    /// Returns why the packet was refused: [`PacketError::Replayed`] if its sequence number was sealed before or is too old. The packet is
    /// unchanged if it was refused before encryption; otherwise its contents are lost.
    pub fn seal(&self, packet: &mut Packet<'_>) -> Result<(), PacketError> {
        burst::run_one(self, packet, seal)
    }

    /// Seals an RTCP packet, or a compound packet (RFC 3550, 6.1), in place.
    ///
    /// # Errors
    /// Fails like [`seal`](Self::seal).
    pub fn seal_control(&self, packet: &mut Packet<'_>) -> Result<(), PacketError> {
        burst::run_one(self, packet, seal_control)
    }
}

/// Writes all of the packet except the devices' part and the MKI. Changes nothing if it fails.
fn frame(
    channel: &Channel,
    packet: &mut Packet<'_>,
    work: &mut Work,
    is_encrypted: bool,
) -> Result<FramedPacket<FramedRtp>, PacketError> {
    let header = channel.header(packet.data())?;
    let Range { start, end } = packet.range();
    let length = end - start;
    let offsets = channel.offsets(length);
    packet.check_room(0, offsets.end - length)?;
    let number = channel.streams.take_number(header.ssrc, header.sequence)?;
    let bytes = &mut packet.buffer()[start..start + offsets.end];
    if channel.is_control() {
        let index = number as u32 | if is_encrypted { ENCRYPTED } else { 0 };
        bytes[offsets.index..offsets.index + INDEX_LEN].copy_from_slice(&index.to_be_bytes());
    }
    channel.fill_work(work, bytes, length, &header, number, is_encrypted);
    let state = FramedRtp { whole: start..start + offsets.end, mki_offset: start + offsets.mki };
    Ok(FramedPacket { device_range: start..start + offsets.device_end, state })
}

/// Seals RTP packets, each under its context, as [`Outbound::seal`] does. Each packet has its own [verdict](Packet::verdict). All
/// contexts must belong to one framework.
pub fn seal(burst: &mut [(&Outbound, &mut Packet<'_>)]) {
    seal_all(burst, |end| (&end.media, true));
}

/// Seals RTCP packets, each under its context, as [`Outbound::seal_control`] does. Each packet has its own [verdict](Packet::verdict).
/// All contexts must belong to one framework.
pub fn seal_control(burst: &mut [(&Outbound, &mut Packet<'_>)]) {
    seal_all(burst, |end| (&end.control, end.encrypts_control));
}

/// Seals a burst. `channel` returns an end's channel, and whether its packets are encrypted.
fn seal_all(burst: &mut [(&Outbound, &mut Packet<'_>)], channel: fn(&Outbound) -> (&Channel, bool)) {
    burst::run(
        burst,
        |end| &channel(end).0.keys,
        |end, packet, work| {
            let (channel, is_encrypted) = channel(end);
            if !end.process.is_current() {
                return Err(PacketError::Forked);
            }
            frame(channel, packet, work, is_encrypted).map(Some)
        },
        crypt::seal,
        |end, packet, FramedRtp { whole, mki_offset }, done| {
            let identifier = &channel(end).0.mki;
            packet.buffer()[mki_offset..mki_offset + identifier.len()].copy_from_slice(identifier);
            done.map(|_| whole)
        },
    );
}

impl fmt::Debug for Outbound {
    /// Omits the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SRTP {:?} out, {} streams", self.suite, self.media.streams.count())
    }
}
