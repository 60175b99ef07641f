//! One protocol and direction of a context: the layout of packets, and the part of a packet that devices process.

use zeroize::Zeroizing;

use super::Protocol;
use super::streams::Streams;
use crate::crypt::{Aad, Keys, ShortBytes, Work};
use crate::packet::PacketError;

/// RTP or RTCP packets of one direction.
pub(super) struct Channel {
    protocol: Protocol,
    pub(super) keys: Keys,
    /// The salt, followed by zeros.
    salt: Zeroizing<u128>,
    /// The master key identifier, in every packet (RFC 3711, 3.1). It may be empty.
    pub(super) mki: Box<[u8]>,
    pub(super) streams: Streams,
}

/// Fields of a packet's header.
pub(super) struct Header {
    /// Length of the unencrypted header in bytes.
    length: usize,
    pub(super) ssrc: u32,
    /// The sequence number of RTP.
    pub(super) sequence: u16,
}

/// Offsets of the fields after a packet's content, and of the packet's end.
pub(super) struct Offsets {
    /// The E bit and the number of RTCP.
    pub(super) index: usize,
    pub(super) mki: usize,
    pub(super) tag: usize,
    /// The end of the part that devices get.
    pub(super) device_end: usize,
    pub(super) end: usize,
}

/// Bytes of RTCP's E bit and number, or of the rollover counter.
pub(super) const INDEX_LEN: usize = 4;
/// The E bit: the packet is encrypted.
pub(super) const ENCRYPTED: u32 = 1 << 31;
/// The most bytes that are encrypted under one number: AES-CM counts blocks in 16 bits (RFC 3711, 4.1.1). More would reuse the
/// keystream of the next number.
const MAX_PAYLOAD_LEN: usize = 16 << 16;

const TRUNCATED: PacketError = PacketError::Malformed("a truncated RTP or RTCP packet");

impl Channel {
    pub(super) fn new(protocol: Protocol, keys: Keys, salt: &[u8], mki: &[u8], streams: Streams) -> Self {
        let mut padded = Zeroizing::new([0; 16]);
        padded[..salt.len()].copy_from_slice(salt);
        Self { protocol, keys, salt: Zeroizing::new(u128::from_be_bytes(*padded)), mki: mki.into(), streams }
    }

    pub(super) fn is_control(&self) -> bool {
        self.protocol == Protocol::Rtcp
    }

    /// Reads the header of RTP (RFC 3550, 5.1 and 5.3.1) or of RTCP (6.4.1).
    pub(super) fn header(&self, packet: &[u8]) -> Result<Header, PacketError> {
        let field = |offset: usize| packet.get(offset..offset + 4).map(read_be).ok_or(TRUNCATED);
        let first = field(0)?;
        if first >> 30 != 2 {
            return Err(PacketError::Malformed("the version of RTP or RTCP is not 2"));
        }
        let (length, ssrc) = match self.protocol {
            Protocol::Rtcp => (8, field(4)?),
            Protocol::Rtp => {
                let sources = 12 + 4 * (first >> 24 & 0xF) as usize;
                let has_extension = first >> 28 & 1 == 1;
                let extension = if has_extension { 4 + 4 * (field(sources)? & 0xFFFF) as usize } else { 0 };
                (sources + extension, field(8)?)
            }
        };
        match packet.len().checked_sub(length) {
            None => Err(TRUNCATED),
            Some(payload) if payload > MAX_PAYLOAD_LEN => {
                Err(PacketError::Malformed("longer than one packet number can encrypt"))
            }
            Some(_) => Ok(Header { length, ssrc, sequence: first as u16 }),
        }
    }

    /// Returns the offsets after `length` bytes of content. HMAC covers all bytes before the MKI, and the HMAC tag is the end of the packet
    /// (RFC 3711, 3.1 and 3.4). GCM's tag follows the ciphertext (RFC 7714, 8 and 9).
    pub(super) fn offsets(&self, length: usize) -> Offsets {
        let (mki_len, tag_len) = (self.mki.len(), self.keys.tag_len());
        let index_len = if self.is_control() { INDEX_LEN } else { 0 };
        let end = length + index_len + mki_len + tag_len;
        match self.keys {
            Keys::Combined(_) => Offsets {
                tag: length,
                device_end: length + tag_len,
                index: length + tag_len,
                mki: length + tag_len + index_len,
                end,
            },
            _ => Offsets {
                index: length,
                mki: length + index_len,
                tag: length + index_len + mki_len,
                device_end: end,
                end,
            },
        }
    }

    /// Fills in the work on the first `length` bytes of a packet, except the tag. Some authenticated bytes do not lie next to the others,
    /// or are not in the packet. This function copies these bytes to the AAD, or writes them after the content. There they overwrite
    /// fields that a receiver has already read, or that a sender writes later.
    pub(super) fn fill_work(
        &self,
        work: &mut Work,
        packet: &mut [u8],
        length: usize,
        header: &Header,
        number: u64,
        is_encrypted: bool,
    ) {
        let suffix = match self.protocol {
            Protocol::Rtp => (number >> 16) as u32,
            Protocol::Rtcp => number as u32 | if is_encrypted { ENCRYPTED } else { 0 },
        };
        let suffix = suffix.to_be_bytes();
        let mac_range = 0..length + INDEX_LEN;
        let head = if is_encrypted { header.length } else { length };
        work.iv = self.iv(header.ssrc, number);
        work.data = head..length;
        work.aad = Aad::Packet(0..head);
        let is_combined = matches!(self.keys, Keys::Combined(_));
        if is_combined && self.is_control() && is_encrypted {
            let [a, b, c, d, e, f, g, h] = *packet.first_chunk().expect("its header was read");
            let [i, j, k, l] = suffix;
            work.aad = Aad::Other(ShortBytes::concat([a, b, c, d], [e, f, g, h, i, j, k, l], []));
        } else if is_combined && self.is_control() {
            packet[length..mac_range.end].copy_from_slice(&suffix);
            work.aad = Aad::Packet(mac_range.clone());
            work.data = mac_range.end..mac_range.end;
        } else if !is_combined {
            packet[length..mac_range.end].copy_from_slice(&suffix);
        }
        work.mac_range = mac_range;
    }

    /// XORs SSRC and number into the salt. In AES-CM two bytes of block counter follow (RFC 3711, 4.1.1; RFC 7714, 8.1 and 9.1).
    fn iv(&self, ssrc: u32, number: u64) -> ShortBytes {
        let own = u128::from(ssrc) << 48 | u128::from(number);
        match self.keys {
            Keys::Combined(_) => {
                let [a, b, c, d, rest @ .., _, _, _, _] = (*self.salt ^ own << 32).to_be_bytes();
                ShortBytes::concat([a, b, c, d], rest, [])
            }
            _ => ShortBytes::from_field((*self.salt ^ own << 16).to_be_bytes()),
        }
    }
}

/// Reads a big-endian field of at most four bytes.
pub(super) fn read_be(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte))
}
