//! The layout of records, independent of their protection.

use crate::packet::PacketError;

/// Bytes of a record's header: type, version, length.
pub(super) const HEADER_LEN: usize = 5;
/// Maximum bytes of content (RFC 8446, 5.1; RFC 5246, 6.2.1).
pub(super) const MAX_CONTENT: usize = 1 << 14;
/// Maximum bytes that protection adds in TLS 1.3 (RFC 8446, 5.2).
pub(super) const MAX_EXPANSION_13: usize = 256;
/// Maximum bytes that protection adds in TLS 1.2 (RFC 5246, 6.2.3).
pub(super) const MAX_EXPANSION_12: usize = 2048;
/// The version in the header of every protected record, in TLS 1.3 too.
pub(super) const VERSION: [u8; 2] = [3, 3];

/// Content types of records (IANA's numbers).
pub mod content_type {
    /// A change of cipher. TLS 1.2 only: in TLS 1.3 such records are not protected.
    pub const CHANGE_CIPHER_SPEC: u8 = 20;
    /// An alert.
    pub const ALERT: u8 = 21;
    /// Messages during a handshake, or after it.
    pub const HANDSHAKE: u8 = 22;
    /// Data of the application.
    pub const APPLICATION_DATA: u8 = crate::packet::APPLICATION_DATA;
    /// A heartbeat (RFC 6520).
    pub const HEARTBEAT: u8 = 24;
}

/// The header of a record, to find records in a stream of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Header {
    /// The content type in the header. In TLS 1.3, the header of a protected record always states application data. Do not pass other
    /// records of TLS 1.3 to [`Inbound::open`](super::Inbound::open), such as a [`content_type::CHANGE_CIPHER_SPEC`] for old middleboxes:
    /// they would end the connection.
    pub content_type: u8,
    /// Bytes of the whole record, including the header.
    pub length: usize,
}

impl Header {
    /// Reads the header at the start of `bytes`. Returns `None` while there are too few.
    ///
    /// # Errors
    /// Fails if the bytes do not begin a record: an unknown type, a major version other than 3 (SSL 3.0 to TLS 1.3), or a length
    /// that no version allows. A caller that knows the version may check more, as [`Inbound::open`](super::Inbound::open) does.
    pub fn read(bytes: &[u8]) -> Result<Option<Self>, PacketError> {
        let known_types = content_type::CHANGE_CIPHER_SPEC..=content_type::HEARTBEAT;
        if bytes.first().is_some_and(|content_type| !known_types.contains(content_type)) {
            return Err(PacketError::Malformed("an unknown content type"));
        }
        if bytes.get(1).is_some_and(|major| *major != VERSION[0]) {
            return Err(PacketError::Malformed("an unknown version of TLS"));
        }
        let &[content_type, _, _, high, low, ..] = bytes else { return Ok(None) };
        let length = usize::from(u16::from_be_bytes([high, low]));
        if length > MAX_CONTENT + MAX_EXPANSION_12 {
            return Err(PacketError::Malformed("longer than a record may be"));
        }
        Ok(Some(Self { content_type, length: HEADER_LEN + length }))
    }

    pub(super) fn write(self, record: &mut [u8]) {
        record[0] = self.content_type;
        record[1..3].copy_from_slice(&VERSION);
        record[3..HEADER_LEN].copy_from_slice(&((self.length - HEADER_LEN) as u16).to_be_bytes());
    }
}

/// Refuses a record unless it may hold `length` bytes of content of this type (RFC 8446, 5.1 and 5.4; RFC 5246, 6.2.1).
pub(super) fn check_content(content_type: u8, length: usize, is_13: bool) -> Result<(), PacketError> {
    let refuse = |error| Err(PacketError::Malformed(error));
    match content_type {
        content_type::CHANGE_CIPHER_SPEC if is_13 => refuse("a change of cipher in TLS 1.3"),
        content_type::CHANGE_CIPHER_SPEC..=content_type::HEARTBEAT if length > MAX_CONTENT => {
            refuse("more content than a record may have")
        }
        content_type::APPLICATION_DATA => Ok(()),
        content_type::CHANGE_CIPHER_SPEC..=content_type::HEARTBEAT if length == 0 => {
            refuse("an empty record that is not application data")
        }
        content_type::CHANGE_CIPHER_SPEC..=content_type::HEARTBEAT => Ok(()),
        _ => refuse("an unknown content type"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_bytes_give_the_length_of_a_record() {
        let bytes = [23, 3, 3, 0x40, 0x11, 9, 9];
        for count in 0..5 {
            assert_eq!(Header::read(&bytes[..count]), Ok(None));
        }
        for count in 5..8 {
            let header = Header { content_type: 23, length: 5 + 0x4011 };
            assert_eq!(Header::read(&bytes[..count]), Ok(Some(header)));
        }
        let longest = [22, 3, 1, 0x48, 0];
        assert_eq!(Header::read(&longest).unwrap().unwrap().length, 5 + MAX_CONTENT + 2048);
        let malformed = |bytes: &[u8]| matches!(Header::read(bytes), Err(PacketError::Malformed(_)));
        assert!(malformed(&[22, 3, 1, 0x48, 1]));
        for content_type in (0..20).chain(25..=255) {
            assert!(malformed(&[content_type]), "{content_type}");
        }
        assert!(malformed(&[22, 2]) && malformed(&[22, 4]) && malformed(b"GET / HTTP/1.1"));
    }
}
