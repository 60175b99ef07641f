//! Maps the algorithms of an XFRM SA to a suite of ESP.

use gantry_abi_xfrm::{Aead, Authentication, Cipher, Sa};
use gantry_protocols::esp::{Integrity, Suite};

use super::Refusal;

/// A suite with its keys.
pub(super) struct KeyedSuite<'s> {
    pub(super) suite: Suite,
    pub(super) key: &'s [u8],
    pub(super) integrity_key: &'s [u8],
}

impl<'s> KeyedSuite<'s> {
    /// Returns the key under which no sequence number may repeat.
    pub(super) fn secret(&self) -> &'s [u8] {
        if self.key.is_empty() { self.integrity_key } else { self.key }
    }

    /// Returns whether the sequence number determines the nonce.
    pub(super) fn has_nonces(&self) -> bool {
        !matches!(self.suite, Suite::AesCbc(_) | Suite::Null(_))
    }

    /// Finds the suite of an SA, whose tag length [`fill_in_tag_length`] has filled in.
    ///
    /// # Errors
    /// ENOSYS, as on Linux, for unsupported algorithms.
    pub(super) fn new(sa: &'s Sa) -> Result<Self, Refusal> {
        let refuse = |what: String| Err(Refusal::new(libc::ENOSYS, what));
        if sa.compression.is_some() {
            return refuse("compression is not supported".to_owned());
        }
        if let Some(aead) = &sa.aead {
            let suite = match (Aead::named(&aead.name).map(|row| row.id), aead.icv_bits) {
                (Some(Aead::AesGcm), icv @ (64 | 96 | 128)) => Suite::AesGcm { icv: (icv / 8) as u8 },
                (Some(Aead::AesCcm), icv @ (64 | 96 | 128)) => Suite::AesCcm { icv: (icv / 8) as u8 },
                (Some(Aead::AesGmac), 128) => Suite::AesGmac,
                (Some(Aead::ChaCha20Poly1305), 128) => Suite::ChaCha20Poly1305,
                (_, icv) => return refuse(format!("{} with a tag of {icv} bits is not supported", aead.name)),
            };
            return Ok(Self { suite, key: aead.key.bytes(), integrity_key: &[] });
        }
        let Some(authentication) = &sa.authentication else {
            return refuse("an SA without authentication is not supported".to_owned());
        };
        let name = &authentication.name;
        let bits = authentication.icv_bits.unwrap_or(0);
        let integrity = match (Authentication::named(name).map(|row| row.id), bits) {
            (Some(Authentication::HmacSha1), 96) => Integrity::HmacSha1,
            (Some(Authentication::HmacSha256), 96) => Integrity::HmacSha256_96,
            (Some(Authentication::HmacSha256), 128) => Integrity::HmacSha256,
            (Some(Authentication::HmacSha384), 192) => Integrity::HmacSha384,
            (Some(Authentication::HmacSha512), 256) => Integrity::HmacSha512,
            _ => return refuse(format!("{name} with a tag of {bits} bits is not supported")),
        };
        let integrity_key = authentication.key.bytes();
        let Some(cipher) = &sa.cipher else {
            return Ok(Self { suite: Suite::Null(integrity), key: &[], integrity_key });
        };
        let suite = match Cipher::named(&cipher.name).map(|row| row.id) {
            Some(Cipher::AesCbc) => Suite::AesCbc(integrity),
            Some(Cipher::AesCtr) => Suite::AesCtr(integrity),
            Some(Cipher::Null) => Suite::Null(integrity),
            _ => return refuse(format!("{} is not supported", cipher.name)),
        };
        Ok(Self { suite, key: cipher.key.bytes(), integrity_key })
    }
}

/// Fills in the tag length in bits if a message leaves it to Linux' default.
pub(super) fn fill_in_tag_length(sa: &mut Sa) {
    if let Some(authentication) = &mut sa.authentication
        && let Some(row) = Authentication::named(&authentication.name)
    {
        authentication.icv_bits.get_or_insert(row.default_icv_bits);
    }
}
