//! The receiving end of an SRTP context.

use std::fmt;
use std::ops::Range;
use std::ptr;

use smallvec::{SmallVec, smallvec};

use super::Suite;
use super::channel::{Channel, ENCRYPTED, INDEX_LEN, read_be};
use crate::burst::{self, FramedPacket};
use crate::crypt::{self, Work};
use crate::packet::{Packet, PacketError};

/// The receiving end of a [`Context`](super::Context). Threads may share it: each packet is accepted once.
pub struct Inbound {
    suite: Suite,
    pub(super) media: Channel,
    pub(super) control: Channel,
}

/// Fields read from a packet.
struct ParsedPacket {
    /// The range of the content after opening.
    content: Range<usize>,
    ssrc: u32,
    number: u64,
}

/// Streams whose first packet is being opened.
type NewStreams = SmallVec<[(*const Channel, u32); 8]>;

/// The most rounds that packets of a new stream wait for an earlier packet in the burst, which may turn out to be forged. Without a
/// limit, a burst of forged packets would take one round per packet.
const MAX_WAIT_ROUNDS: usize = 4;

impl Inbound {
    pub(super) fn new(suite: Suite, media: Channel, control: Channel) -> Self {
        Self { suite, media, control }
    }

    /// Returns the highest number received of an RTP stream: the rollover counter, followed by 16 bits of sequence number. Returns `None`
    /// before the first authentic packet, unless the context has a [last number](super::Context::last_number).
    pub fn last_number(&self, ssrc: u32) -> Option<u64> {
        self.media.streams.highest_number(ssrc)
    }

    /// Returns the highest number of a received RTCP packet from a source.
    pub fn last_control_number(&self, ssrc: u32) -> Option<u32> {
        self.control.streams.highest_number(ssrc).map(|number| number as u32)
    }

    /// Decrypts an SRTP packet to RTP, in place.
    ///
    /// # Errors
    /// Returns why the packet was refused. The packet's contents are lost, unless it was refused before decryption.
    pub fn open(&self, packet: &mut Packet<'_>) -> Result<(), PacketError> {
        burst::run_one(self, packet, open)
    }

    /// Opens an SRTCP packet, encrypted or only authenticated, in place.
    ///
    /// # Errors
    /// Fails like [`open`](Self::open).
    pub fn open_control(&self, packet: &mut Packet<'_>) -> Result<(), PacketError> {
        burst::run_one(self, packet, open_control)
    }
}

/// Reads the unencrypted fields. Writes nothing if it fails. Returns `None` if an earlier packet of the same new stream is being opened,
/// because the number of the earlier packet determines the number of this packet.
fn parse(
    channel: &Channel,
    packet: &mut Packet<'_>,
    work: &mut Work,
    new_streams: &mut NewStreams,
) -> Result<Option<FramedPacket<ParsedPacket>>, PacketError> {
    let data = packet.data();
    let Some(length) = data.len().checked_sub(channel.offsets(0).end) else {
        return Err(PacketError::Malformed("a truncated SRTP or SRTCP packet"));
    };
    let offsets = channel.offsets(length);
    let header = channel.header(&data[..length])?;
    if data[offsets.mki..offsets.mki + channel.mki.len()] != *channel.mki {
        return Err(PacketError::Malformed("the MKI is not that of the context"));
    }
    let index = if channel.is_control() { read_be(&data[offsets.index..offsets.index + INDEX_LEN]) } else { ENCRYPTED };
    let is_encrypted = index & ENCRYPTED != 0;
    let sent = if channel.is_control() { index & !ENCRYPTED } else { header.sequence.into() };
    let (number, is_known) = channel.streams.find_number(header.ssrc, sent)?;
    if !is_known {
        let stream = (ptr::from_ref(channel), header.ssrc);
        if new_streams.contains(&stream) {
            return Ok(None);
        }
        new_streams.push(stream);
    }
    let start = packet.range().start;
    let bytes = &mut packet.buffer()[start..start + offsets.end];
    let tag_len = channel.keys.tag_len();
    work.tag[..tag_len].copy_from_slice(&bytes[offsets.tag..offsets.tag + tag_len]);
    channel.fill_work(work, bytes, length, &header, number, is_encrypted);
    let state = ParsedPacket { content: start..start + length, ssrc: header.ssrc, number };
    Ok(Some(FramedPacket { device_range: start..start + offsets.device_end, state }))
}

/// Opens SRTP packets, each under its context, as [`Inbound::open`] does. Each packet has its own [verdict](Packet::verdict). All
/// contexts must belong to one framework.
pub fn open(burst: &mut [(&Inbound, &mut Packet<'_>)]) {
    open_channel(burst, |end| &end.media);
}

/// Opens SRTCP packets, each under its context, as [`Inbound::open_control`] does. Each packet has its own [verdict](Packet::verdict).
/// All contexts must belong to one framework.
pub fn open_control(burst: &mut [(&Inbound, &mut Packet<'_>)]) {
    open_channel(burst, |end| &end.control);
}

fn open_channel(burst: &mut [(&Inbound, &mut Packet<'_>)], channel: fn(&Inbound) -> &Channel) {
    let mut waiting: SmallVec<[bool; 32]> = smallvec![true; burst.len()];
    for round in 0..=MAX_WAIT_ROUNDS {
        if waiting.contains(&true) {
            open_waiting(burst, channel, &mut waiting, round < MAX_WAIT_ROUNDS);
        }
    }
}

/// Opens the waiting packets. If packets `may_wait`, opens only the first packet of a new stream, and leaves its other packets waiting.
fn open_waiting(
    burst: &mut [(&Inbound, &mut Packet<'_>)],
    channel: fn(&Inbound) -> &Channel,
    waiting: &mut [bool],
    may_wait: bool,
) {
    let (mut new_streams, mut waiting) = (NewStreams::new(), waiting.iter_mut());
    burst::run(
        burst,
        |end| &channel(end).keys,
        |end, packet, work| {
            let Some(is_waiting) = waiting.next().filter(|is_waiting| **is_waiting) else { return Ok(None) };
            if !may_wait {
                new_streams.clear();
            }
            let result = parse(channel(end), packet, work, &mut new_streams);
            *is_waiting = matches!(result, Ok(None));
            result
        },
        crypt::open,
        |end, _, ParsedPacket { content, ssrc, number }, done| {
            // Another thread may have opened a copy of the packet since `parse`, or the burst may contain two copies.
            done.and_then(|_| channel(end).streams.mark_received(ssrc, number)).map(|()| content)
        },
    );
}

impl fmt::Debug for Inbound {
    /// Omits the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SRTP {:?} in, {} streams", self.suite, self.media.streams.count())
    }
}
