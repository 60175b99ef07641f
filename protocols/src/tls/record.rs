//! What records look like, whatever protects them.

use crate::packet::Refused;

/// Bytes of a record's header: type, version, length.
pub(super) const HEADER: usize = 5;
/// Most bytes of content (RFC 8446, 5.1; RFC 5246, 6.2.1).
pub(super) const MOST: usize = 1 << 14;
/// Most bytes that protection adds in TLS 1.3 (RFC 8446, 5.2), and in TLS 1.2 (RFC 5246, 6.2.3).
pub(super) const EXPANSION_13: usize = 256;
pub(super) const EXPANSION_12: usize = 2048;
/// The version in the header of every protected record, of TLS 1.3 too.
pub(super) const VERSION: [u8; 2] = [3, 3];

/// What records hold (IANA's numbers).
pub mod content_type {
    /// TLS 1.2 only: in TLS 1.3 such records are not protected.
    pub const CHANGE_CIPHER_SPEC: u8 = 20;
    /// An alert.
    pub const ALERT: u8 = 21;
    /// Messages of a handshake, or after it.
    pub const HANDSHAKE: u8 = 22;
    /// What the connection is there for.
    pub const APPLICATION_DATA: u8 = 23;
    /// RFC 6520.
    pub const HEARTBEAT: u8 = 24;
}

/// The header of a record, for whoever takes records from a stream of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Header {
    /// What the record says that it holds. Of protected records of TLS 1.3 it is always application data; others are to be kept from
    /// [`Inbound::open`](super::Inbound::open), as a [`content_type::CHANGE_CIPHER_SPEC`] that comes for old middleboxes' sake.
    pub content_type: u8,
    /// Bytes of the whole record, with its header.
    pub length: usize,
}

impl Header {
    /// The header of the record that the bytes begin with; `None` while there are too few to tell.
    ///
    /// # Errors
    /// They are not the beginning of a record: a type that there is not, a version before SSL 3 or after TLS 1, or a length that
    /// no version allows. A caller who knows the version may be stricter; [`Inbound::open`](super::Inbound::open) is.
    pub fn read(bytes: &[u8]) -> Result<Option<Self>, Refused> {
        let known = content_type::CHANGE_CIPHER_SPEC..=content_type::HEARTBEAT;
        if bytes.first().is_some_and(|content_type| !known.contains(content_type)) {
            return Err(Refused::Malformed("a type that no record has"));
        }
        if bytes.get(1).is_some_and(|major| *major != VERSION[0]) {
            return Err(Refused::Malformed("a version that no record has"));
        }
        let &[content_type, _, _, high, low, ..] = bytes else { return Ok(None) };
        let length = usize::from(u16::from_be_bytes([high, low]));
        if length > MOST + EXPANSION_12 {
            return Err(Refused::Malformed("longer than a record can be"));
        }
        Ok(Some(Self { content_type, length: HEADER + length }))
    }

    pub(super) fn write(self, record: &mut [u8]) {
        record[0] = self.content_type;
        record[1..3].copy_from_slice(&VERSION);
        record[3..HEADER].copy_from_slice(&((self.length - HEADER) as u16).to_be_bytes());
    }
}

/// Whether a record may hold so many bytes of a type (RFC 8446, 5.1 and 5.4; RFC 5246, 6.2.1).
pub(super) fn check(content_type: u8, length: usize, is_13: bool) -> Result<(), Refused> {
    let refused = |why| Err(Refused::Malformed(why));
    match content_type {
        content_type::CHANGE_CIPHER_SPEC if is_13 => refused("a change of the cipher in TLS 1.3"),
        content_type::CHANGE_CIPHER_SPEC..=content_type::HEARTBEAT if length > MOST => {
            refused("more content than a record can have")
        }
        content_type::APPLICATION_DATA => Ok(()),
        content_type::CHANGE_CIPHER_SPEC..=content_type::HEARTBEAT if length == 0 => {
            refused("a record of nothing, which is no application data")
        }
        content_type::CHANGE_CIPHER_SPEC..=content_type::HEARTBEAT => Ok(()),
        _ => refused("a type that no record has"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_record_is_told_as_soon_as_it_can_be() {
        let bytes = [23, 3, 3, 0x40, 0x11, 9, 9];
        for count in 0..5 {
            assert_eq!(Header::read(&bytes[..count]), Ok(None));
        }
        for count in 5..8 {
            let header = Header { content_type: 23, length: 5 + 0x4011 };
            assert_eq!(Header::read(&bytes[..count]), Ok(Some(header)));
        }
        let longest = [22, 3, 1, 0x48, 0];
        assert_eq!(Header::read(&longest).unwrap().unwrap().length, 5 + MOST + 2048);
        let malformed = |bytes: &[u8]| matches!(Header::read(bytes), Err(Refused::Malformed(_)));
        assert!(malformed(&[22, 3, 1, 0x48, 1]));
        for content_type in (0..20).chain(25..=255) {
            assert!(malformed(&[content_type]), "{content_type}");
        }
        assert!(malformed(&[22, 2]) && malformed(&[22, 4]) && malformed(b"GET / HTTP/1.1"));
    }
}
