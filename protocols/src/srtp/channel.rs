//! One protocol and direction of a context: where the parts of its packets lie, and what devices do with them.

use zeroize::Zeroizing;

use super::Kind;
use super::streams::Streams;
use crate::crypt::{Aad, Keys, Short, Work};
use crate::packet::Refused;

/// Media or control packets of one direction.
pub(super) struct Channel {
    kind: Kind,
    pub(super) keys: Keys,
    /// The salt, followed by zeros.
    salt: Zeroizing<u128>,
    /// The master key identifier, in every packet (RFC 3711, 3.1). It may be empty.
    pub(super) mki: Box<[u8]>,
    pub(super) streams: Streams,
}

/// What the header of a packet says.
pub(super) struct Header {
    /// Bytes that are not encrypted.
    length: usize,
    pub(super) ssrc: u32,
    /// Of RTP.
    pub(super) sequence: u16,
}

/// Where what is behind the content of a packet lies, and where the packet ends.
pub(super) struct Places {
    /// The bit E and the number, of RTCP.
    pub(super) word: usize,
    pub(super) mki: usize,
    pub(super) tag: usize,
    /// Where the part ends that devices get.
    pub(super) lent: usize,
    pub(super) end: usize,
}

/// Bytes of the bit E and the number of RTCP, or of the rollover counter.
pub(super) const WORD: usize = 4;
/// The bit E: the packet is encrypted.
pub(super) const ENCRYPTED: u32 = 1 << 31;
/// The most bytes that are encrypted under one number: the blocks that AES-CM counts in 16 bits (RFC 3711, 4.1.1). Those behind would have
/// the keystream of the next number.
const LONGEST: usize = 16 << 16;

const SHORT: Refused = Refused::Malformed("a packet of RTP or RTCP that is cut off");

impl Channel {
    pub(super) fn new(kind: Kind, keys: Keys, salt: &[u8], mki: &[u8], streams: Streams) -> Self {
        let mut padded = Zeroizing::new([0; 16]);
        padded[..salt.len()].copy_from_slice(salt);
        Self { kind, keys, salt: Zeroizing::new(u128::from_be_bytes(*padded)), mki: mki.into(), streams }
    }

    pub(super) fn is_control(&self) -> bool {
        self.kind == Kind::Control
    }

    /// Reads the header of RTP (RFC 3550, 5.1 and 5.3.1) or of RTCP (6.4.1).
    pub(super) fn header(&self, packet: &[u8]) -> Result<Header, Refused> {
        let field = |place: usize| packet.get(place..place + 4).map(be).ok_or(SHORT);
        let first = field(0)?;
        if first >> 30 != 2 {
            return Err(Refused::Malformed("another version than 2 of RTP or RTCP"));
        }
        let (length, ssrc) = match self.kind {
            Kind::Control => (8, field(4)?),
            Kind::Media => {
                let sources = 12 + 4 * (first >> 24 & 0xF) as usize;
                let has_extension = first >> 28 & 1 == 1;
                let extension = if has_extension { 4 + 4 * (field(sources)? & 0xFFFF) as usize } else { 0 };
                (sources + extension, field(8)?)
            }
        };
        match packet.len().checked_sub(length) {
            None => Err(SHORT),
            Some(payload) if payload > LONGEST => Err(Refused::Malformed("longer than what one number can encrypt")),
            Some(_) => Ok(Header { length, ssrc, sequence: first as u16 }),
        }
    }

    /// The places behind `length` bytes of content. HMAC covers what is before the MKI and ends the packet (RFC 3711, 3.1 and 3.4); the
    /// tag of GCM belongs to the encrypted bytes (RFC 7714, 8 and 9).
    pub(super) fn places(&self, length: usize) -> Places {
        let (mki, tag) = (self.mki.len(), self.keys.tag());
        let word = if self.is_control() { WORD } else { 0 };
        let end = length + word + mki + tag;
        match self.keys {
            Keys::Joint(_) => {
                Places { tag: length, lent: length + tag, word: length + tag, mki: length + tag + word, end }
            }
            _ => Places { word: length, mki: length + word, tag: length + word + mki, lent: end, end },
        }
    }

    /// Fills in the work on the first `length` bytes of a packet, except for its tag. Writes behind them, over the tag, what is
    /// authenticated there and sent elsewhere or not at all.
    pub(super) fn plan(
        &self,
        work: &mut Work,
        packet: &mut [u8],
        length: usize,
        header: &Header,
        number: u64,
        encrypted: bool,
    ) {
        let suffix = match self.kind {
            Kind::Media => (number >> 16) as u32,
            Kind::Control => number as u32 | if encrypted { ENCRYPTED } else { 0 },
        };
        let suffix = suffix.to_be_bytes();
        let covered = 0..length + WORD;
        let head = if encrypted { header.length } else { length };
        work.iv = self.iv(header.ssrc, number);
        work.data = head..length;
        work.aad = Aad::Packet(0..head);
        let is_joint = matches!(self.keys, Keys::Joint(_));
        if is_joint && self.is_control() && encrypted {
            let [a, b, c, d, e, f, g, h] = *packet.first_chunk().expect("its header was read");
            let [i, j, k, l] = suffix;
            work.aad = Aad::Other(Short::of([a, b, c, d], [e, f, g, h, i, j, k, l], []));
        } else if is_joint && self.is_control() {
            packet[length..covered.end].copy_from_slice(&suffix);
            work.aad = Aad::Packet(covered.clone());
            work.data = covered.end..covered.end;
        } else if !is_joint {
            packet[length..covered.end].copy_from_slice(&suffix);
        }
        work.covered = covered;
    }

    /// SSRC and number over the end of the salt, and of AES-CM two bytes of counter behind it (RFC 3711, 4.1.1; RFC 7714, 8.1 and 9.1).
    fn iv(&self, ssrc: u32, number: u64) -> Short {
        let own = u128::from(ssrc) << 48 | u128::from(number);
        match self.keys {
            Keys::Joint(_) => {
                let [a, b, c, d, rest @ .., _, _, _, _] = (*self.salt ^ own << 32).to_be_bytes();
                Short::of([a, b, c, d], rest, [])
            }
            _ => Short::field((*self.salt ^ own << 16).to_be_bytes()),
        }
    }
}

/// A field of four bytes.
pub(super) fn be(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte))
}
