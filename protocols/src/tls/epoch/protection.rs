//! Nonces and authenticated bytes, for both directions.

use gantry_core::tags_equal;
use zeroize::Zeroizing;

use super::super::record::HEADER_LEN;
use super::super::suite::{Layout, Suite};
use super::ParameterError;
use crate::crypt::{Aad, Keys, RANDOM_IV_LEN, ShortBytes, Work};

/// Bytes of number, type, version and length, which TLS 1.2 authenticates (RFC 5246, 6.2.3.1 and 6.2.3.3).
pub(super) const PSEUDO_HEADER_LEN: usize = 13;

/// The sessions and the IV of one direction under one set of keys.
pub(super) struct Protection {
    pub(super) suite: Suite,
    pub(super) layout: Layout,
    pub(super) keys: Keys,
    iv: Zeroizing<[u8; 12]>,
}

impl Protection {
    /// Creates the protection. The IV must have a length that the suite accepts.
    pub(super) fn new(suite: Suite, keys: Keys, iv: &[u8]) -> Self {
        let mut padded = Zeroizing::new([0; 12]);
        padded[..iv.len()].copy_from_slice(iv);
        Self { suite, layout: suite.layout(), keys, iv: padded }
    }

    /// Returns a copy of this protection under other keys.
    pub(super) fn rekey(&self, key: &[u8], iv: &[u8]) -> Result<Self, ParameterError> {
        match (self.suite.unmet_requirement(key, iv, &[]), &self.keys) {
            (None, Keys::Combined(session)) if tags_equal(session.params().key(), key) => {
                Err(ParameterError::Keys("a key other than the last one"))
            }
            (None, Keys::Combined(session)) => Ok(Self::new(self.suite, Keys::Combined(session.rekey(key, &[])?), iv)),
            (takes, _) => Err(ParameterError::Keys(takes.unwrap_or("new keys only after a new handshake"))),
        }
    }

    /// Returns the number of bytes before the data.
    pub(super) fn head_len(&self) -> usize {
        HEADER_LEN + self.layout.explicit_iv_len
    }

    /// Fills in the work on a whole record, which has its header, its own nonce, and room for the tag.
    pub(super) fn fill_work(&self, work: &mut Work, number: u64, record: &[u8]) {
        let Layout { is_13, block_size, encrypts_tag, tag_len, .. } = self.layout;
        let head = self.head_len();
        let data = head..record.len() - if encrypts_tag { 0 } else { tag_len };
        let [a, b, c, d, rest @ ..] = *self.iv;
        let own = &record[HEADER_LEN..head];
        work.iv = match (own.as_array::<8>(), own.as_array::<RANDOM_IV_LEN>()) {
            (Some(counter), _) => ShortBytes::concat([a, b, c, d], *counter, []),
            (_, Some(iv)) => ShortBytes::from_field(*iv),
            // RFC 8446, 5.3; RFC 7905, 2.
            _ => ShortBytes::concat([a, b, c, d], (u64::from_be_bytes(rest) ^ number).to_be_bytes(), []),
        };
        work.aad = if is_13 {
            Aad::Packet(0..HEADER_LEN)
        } else {
            // For RFC 7366, the length includes the IV, which the MAC covers. For AEADs, it is the length of the content alone.
            let length = if block_size > 1 { data.end - HEADER_LEN } else { data.len() };
            Aad::Other(ShortBytes::from_field(pseudo_header(number, record, length)))
        };
        work.data = data;
    }
}

/// Returns the bytes that TLS 1.2 authenticates before the content.
pub(super) fn pseudo_header(number: u64, record: &[u8], length: usize) -> [u8; PSEUDO_HEADER_LEN] {
    let mut bytes = [0; PSEUDO_HEADER_LEN];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes[8..11].copy_from_slice(&record[..3]);
    bytes[11..].copy_from_slice(&(length as u16).to_be_bytes());
    bytes
}
