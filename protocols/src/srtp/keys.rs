//! Session keys derived from master keys (RFC 3711, 4.3), and their sessions.

use gantry_core::{Algorithm, Direction, Gantry, SessionParams};
use zeroize::Zeroizing;

use super::Protocol;
use super::suite::{Suite, SuiteParameters};
use crate::crypt::Keys;

/// The keys of one protocol of a context.
pub(super) struct SessionKeys {
    pub(super) key: Zeroizing<Vec<u8>>,
    /// The MAC key; empty for an AEAD.
    pub(super) mac_key: Zeroizing<Vec<u8>>,
    pub(super) salt: Zeroizing<Vec<u8>>,
}

/// Offset of the label in the IV. The label precedes 48 bits of index, which are 0 without a key derivation rate, and 16 bits of counter.
const LABEL_OFFSET: usize = 7;

impl SessionKeys {
    /// Derives the keys with AES-CM, on a device of the framework.
    pub(super) fn derive(
        gantry: &Gantry,
        suite: Suite,
        protocol: Protocol,
        key: &[u8],
        salt: &[u8],
    ) -> gantry_core::Result<Self> {
        let parameters = suite.parameters();
        let prf =
            gantry.session(SessionParams::new(parameters.key_derivation, key).with_direction(Direction::Encrypt))?;
        let first_label = match protocol {
            Protocol::Rtp => 0,
            Protocol::Rtcp => 3,
        };
        let derive = |label: u8, length: usize| {
            // 16 zero bits follow a salt of 96 bits (RFC 7714, 11).
            let mut iv = Zeroizing::new([0; 16]);
            iv[..salt.len()].copy_from_slice(salt);
            iv[LABEL_OFFSET] ^= first_label + label;
            let mut derived = Zeroizing::new(vec![0; length]);
            if length > 0 {
                prf.encrypt(&iv[..], &mut derived[..])?;
            }
            gantry_core::Result::Ok(derived)
        };
        Ok(Self {
            key: derive(0, parameters.key_len)?,
            mac_key: derive(1, parameters.mac_key_len)?,
            salt: derive(2, parameters.salt_len)?,
        })
    }

    /// Opens the sessions of one direction.
    pub(super) fn sessions(
        &self,
        gantry: &Gantry,
        suite: Suite,
        protocol: Protocol,
        direction: Direction,
    ) -> gantry_core::Result<Keys> {
        let parameters @ SuiteParameters { cipher, mac_key_len, .. } = suite.parameters();
        let params = SessionParams::new(cipher, &self.key).with_direction(direction);
        if mac_key_len == 0 {
            return gantry.session(params.with_tag_len(parameters.tag_len(protocol))).map(Keys::Combined);
        }
        let mac = SessionParams::new(Algorithm::HmacSha1, &self.mac_key).with_tag_len(parameters.tag_len(protocol));
        Ok(Keys::Separate { cipher: Some(gantry.session(params)?), mac: gantry.session(mac)? })
    }
}
