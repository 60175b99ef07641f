//! The end that receives.

use std::fmt;
use std::ops::Range;
use std::ptr;

use smallvec::{SmallVec, smallvec};

use super::Suite;
use super::channel::{Channel, ENCRYPTED, WORD, be};
use crate::burst::{self, Begun};
use crate::crypt::{self, Work};
use crate::packet::{Packet, Refused};

/// The receiving end of a [`Context`](super::Context). Threads may share it: each packet comes once.
pub struct Inbound {
    suite: Suite,
    pub(super) media: Channel,
    pub(super) control: Channel,
}

/// What was read of a packet.
struct Taken {
    /// What is left of it when it is opened.
    content: Range<usize>,
    ssrc: u32,
    number: u64,
}

/// Streams whose first packet is being opened.
type News = SmallVec<[(*const Channel, u32); 8]>;

/// How often packets of a new stream wait for one before them in the burst, which may turn out to be forged. Without a bound, a burst of
/// forged packets would take as many rounds.
const WAITS: usize = 4;

impl Inbound {
    pub(super) fn new(suite: Suite, media: Channel, control: Channel) -> Self {
        Self { suite, media, control }
    }

    /// The highest number of a stream of RTP that has come: its rollover counter, and 16 bits of sequence number behind it. `None` before
    /// there was an authentic packet of it.
    pub fn last_number(&self, ssrc: u32) -> Option<u64> {
        self.media.streams.last(ssrc)
    }

    /// The highest number of a packet of RTCP that has come from a source.
    pub fn last_control_number(&self, ssrc: u32) -> Option<u32> {
        self.control.streams.last(ssrc).map(|number| number as u32)
    }

    /// Makes a packet of RTP from one of SRTP, in place.
    ///
    /// # Errors
    /// Why there is none. Nothing of the packet is left, but where it was refused before a device was asked.
    pub fn open(&self, packet: &mut Packet<'_>) -> Result<(), Refused> {
        burst::one(self, packet, open)
    }

    /// Makes a packet of RTCP from one of SRTCP, in place, whether it is encrypted or only authenticated.
    ///
    /// # Errors
    /// As of [`open`](Self::open).
    pub fn open_control(&self, packet: &mut Packet<'_>) -> Result<(), Refused> {
        burst::one(self, packet, open_control)
    }
}

/// Reads what is not encrypted, and writes nothing if there is an error. `None` for a packet of a new stream of which another is being
/// opened: that one's number says where this one's is.
fn take(
    channel: &Channel,
    packet: &mut Packet<'_>,
    work: &mut Work,
    news: &mut News,
) -> Result<Option<Begun<Taken>>, Refused> {
    let data = packet.data();
    let Some(length) = data.len().checked_sub(channel.places(0).end) else {
        return Err(Refused::Malformed("a packet of SRTP or SRTCP that is cut off"));
    };
    let places = channel.places(length);
    let header = channel.header(&data[..length])?;
    if data[places.mki..places.mki + channel.mki.len()] != *channel.mki {
        return Err(Refused::Malformed("the MKI of another master key"));
    }
    let word = if channel.is_control() { be(&data[places.word..places.word + WORD]) } else { ENCRYPTED };
    let encrypted = word & ENCRYPTED != 0;
    let sent = if channel.is_control() { word & !ENCRYPTED } else { header.sequence.into() };
    let (number, is_known) = channel.streams.find(header.ssrc, sent)?;
    if !is_known {
        let stream = (ptr::from_ref(channel), header.ssrc);
        if news.contains(&stream) {
            return Ok(None);
        }
        news.push(stream);
    }
    let start = packet.range().start;
    let bytes = &mut packet.buffer()[start..start + places.end];
    let tag = channel.keys.tag();
    work.tag[..tag].copy_from_slice(&bytes[places.tag..places.tag + tag]);
    channel.plan(work, bytes, length, &header, number, encrypted);
    let notes = Taken { content: start..start + length, ssrc: header.ssrc, number };
    Ok(Some(Begun { lent: start..start + places.lent, notes }))
}

/// Opens packets of SRTP, each under its context, as [`Inbound::open`] does; the [verdict](Packet::verdict) is in each. All contexts are of
/// one framework.
pub fn open(burst: &mut [(&Inbound, &mut Packet<'_>)]) {
    open_all(burst, |end| &end.media);
}

/// Opens packets of SRTCP, each under its context, as [`Inbound::open_control`] does; the [verdict](Packet::verdict) is in each. All
/// contexts are of one framework.
pub fn open_control(burst: &mut [(&Inbound, &mut Packet<'_>)]) {
    open_all(burst, |end| &end.control);
}

fn open_all(burst: &mut [(&Inbound, &mut Packet<'_>)], channel: fn(&Inbound) -> &Channel) {
    let mut waits: SmallVec<[bool; 32]> = smallvec![true; burst.len()];
    for round in 0..=WAITS {
        if waits.contains(&true) {
            open_some(burst, channel, &mut waits, round < WAITS);
        }
    }
}

/// Opens the packets that wait; if they `may_wait`, not those that are behind the first of a new stream.
fn open_some(
    burst: &mut [(&Inbound, &mut Packet<'_>)],
    channel: fn(&Inbound) -> &Channel,
    waits: &mut [bool],
    may_wait: bool,
) {
    let (mut news, mut waits) = (News::new(), waits.iter_mut());
    burst::run(
        burst,
        |end| &channel(end).keys,
        |end, packet, work| {
            let Some(waits) = waits.next().filter(|waits| **waits) else { return Ok(None) };
            if !may_wait {
                news.clear();
            }
            let result = take(channel(end), packet, work, &mut news);
            *waits = matches!(result, Ok(None));
            result
        },
        crypt::open,
        |end, _, Taken { content, ssrc, number }, done| {
            // Meanwhile another thread may have had the same, or it was twice in the burst.
            done.and_then(|_| channel(end).streams.note(ssrc, number)).map(|()| content)
        },
    );
}

impl fmt::Debug for Inbound {
    /// Shows no keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SRTP {:?} in, {} streams", self.suite, self.media.streams.count())
    }
}
