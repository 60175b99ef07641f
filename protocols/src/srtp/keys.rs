//! Session keys from master keys (RFC 3711, 4.3), and the sessions under them.

use gantry_core::{Algorithm, Direction, Gantry, SessionParams};
use zeroize::Zeroizing;

use super::Kind;
use super::suite::{Row, Suite};
use crate::crypt::Keys;

/// The keys of one protocol of a context.
pub(super) struct SessionKeys {
    pub(super) key: Zeroizing<Vec<u8>>,
    /// Empty where the cipher authenticates.
    pub(super) mac_key: Zeroizing<Vec<u8>>,
    pub(super) salt: Zeroizing<Vec<u8>>,
}

/// Where the label stands in the IV: before 48 bits of index, which are 0 without a key derivation rate, and 16 of counter.
const LABEL: usize = 7;

impl SessionKeys {
    /// Derives them with AES-CM, on a device of the framework.
    pub(super) fn derive(
        gantry: &Gantry,
        suite: Suite,
        kind: Kind,
        key: &[u8],
        salt: &[u8],
    ) -> gantry_core::Result<Self> {
        let row = suite.row();
        let prf = gantry.session(SessionParams::new(row.derives, key).direction(Direction::Encrypt))?;
        let first_label = match kind {
            Kind::Media => 0,
            Kind::Control => 3,
        };
        let derive = |label: u8, length: usize| {
            // A salt of 96 bits has 16 zero bits behind it (RFC 7714, 11).
            let mut iv = Zeroizing::new([0; 16]);
            iv[..salt.len()].copy_from_slice(salt);
            iv[LABEL] ^= first_label + label;
            let mut derived = Zeroizing::new(vec![0; length]);
            if length > 0 {
                prf.encrypt(&iv[..], &mut derived[..])?;
            }
            gantry_core::Result::Ok(derived)
        };
        Ok(Self { key: derive(0, row.key)?, mac_key: derive(1, row.mac_key)?, salt: derive(2, row.salt)? })
    }

    /// The sessions of one direction.
    pub(super) fn sessions(
        &self,
        gantry: &Gantry,
        suite: Suite,
        kind: Kind,
        direction: Direction,
    ) -> gantry_core::Result<Keys> {
        let row @ Row { cipher, mac_key, .. } = suite.row();
        let params = SessionParams::new(cipher, &self.key).direction(direction);
        if mac_key == 0 {
            return gantry.session(params.tag_len(row.tag(kind))).map(Keys::Joint);
        }
        let mac = SessionParams::new(Algorithm::HmacSha1, &self.mac_key).tag_len(row.tag(kind));
        Ok(Keys::Apart { cipher: Some(gantry.session(params)?), mac: gantry.session(mac)? })
    }
}
