//! What both directions have in common: nonces, and what is authenticated.

use gantry_core::tags_equal;
use zeroize::Zeroizing;

use super::epoch::Unfit;
use super::record::HEADER;
use super::suite::{Layout, Suite};
use crate::crypt::{Aad, Keys, RANDOM_IV, Short, Work};

/// Bytes of number, type, version and length, which TLS 1.2 authenticates (RFC 5246, 6.2.3.1 and 6.2.3.3).
pub(super) const PSEUDO: usize = 13;

/// Sessions and IV of one direction under one set of keys.
pub(super) struct Protection {
    pub(super) suite: Suite,
    pub(super) layout: Layout,
    pub(super) keys: Keys,
    iv: Zeroizing<[u8; 12]>,
}

impl Protection {
    /// The IV has a length that the suite takes.
    pub(super) fn new(suite: Suite, keys: Keys, iv: &[u8]) -> Self {
        let mut kept = Zeroizing::new([0; 12]);
        kept[..iv.len()].copy_from_slice(iv);
        Self { suite, layout: suite.layout(), keys, iv: kept }
    }

    /// The same under other keys.
    pub(super) fn rekey(&self, key: &[u8], iv: &[u8]) -> Result<Self, Unfit> {
        match (self.suite.misfit(key, iv, &[]), &self.keys) {
            (None, Keys::Joint(session)) if tags_equal(session.params().key(), key) => {
                Err(Unfit::Keys("another key than the last one"))
            }
            (None, Keys::Joint(session)) => Ok(Self::new(self.suite, Keys::Joint(session.rekey(key, &[])?), iv)),
            (takes, _) => Err(Unfit::Keys(takes.unwrap_or("other keys after another handshake only"))),
        }
    }

    /// Bytes before the data.
    pub(super) fn head(&self) -> usize {
        HEADER + self.layout.explicit
    }

    /// Fills in the work on a record: a whole one, with its header, its own nonce, and room for the tag.
    pub(super) fn prepare(&self, work: &mut Work, number: u64, record: &[u8]) {
        let Layout { is_13, block, within, tag, .. } = self.layout;
        let head = self.head();
        let data = head..record.len() - if within { 0 } else { tag };
        let [a, b, c, d, rest @ ..] = *self.iv;
        let own = &record[HEADER..head];
        work.iv = match (own.as_array::<8>(), own.as_array::<RANDOM_IV>()) {
            (Some(counter), _) => Short::of([a, b, c, d], *counter, []),
            (_, Some(iv)) => Short::field(*iv),
            // RFC 8446, 5.3; RFC 7905, 2.
            _ => Short::of([a, b, c, d], (u64::from_be_bytes(rest) ^ number).to_be_bytes(), []),
        };
        work.aad = if is_13 {
            Aad::Packet(0..HEADER)
        } else {
            // RFC 7366 counts the IV, which it covers, and AEADs the content.
            let length = if block > 1 { data.end - HEADER } else { data.len() };
            Aad::Other(Short::field(pseudo(number, record, length)))
        };
        work.data = data;
    }
}

/// What the MAC of TLS 1.2 covers before the content.
pub(super) fn pseudo(number: u64, record: &[u8], length: usize) -> [u8; PSEUDO] {
    let mut bytes = [0; PSEUDO];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes[8..11].copy_from_slice(&record[..3]);
    bytes[11..].copy_from_slice(&(length as u16).to_be_bytes());
    bytes
}
