//! Which suite of ESP an SA of XFRM asks for.

use gantry_abi_xfrm::{Aead, Authentication, Cipher, Sa};
use gantry_protocols::esp::{Integrity, Suite};

use super::Refusal;

/// A suite with its keys.
pub(super) struct Keyed<'s> {
    pub(super) suite: Suite,
    pub(super) key: &'s [u8],
    pub(super) integrity_key: &'s [u8],
}

impl<'s> Keyed<'s> {
    /// The key with which no number may be used twice.
    pub(super) fn secret(&self) -> &'s [u8] {
        if self.key.is_empty() { self.integrity_key } else { self.key }
    }

    /// Whether the number of a packet is its nonce.
    pub(super) fn has_nonces(&self) -> bool {
        matches!(self.suite, Suite::AesGcm { .. } | Suite::ChaCha20Poly1305 | Suite::AesCtr(_))
    }

    /// The suite of an SA, of which [`complete`] has said the bits of the tag.
    ///
    /// # Errors
    /// ENOSYS, as Linux says it, for what there is not.
    pub(super) fn of(sa: &'s Sa) -> Result<Self, Refusal> {
        let refuse = |what: String| Err(Refusal::new(libc::ENOSYS, what));
        if sa.compression.is_some() {
            return refuse("compression is not served".to_owned());
        }
        if let Some(aead) = &sa.aead {
            let suite = match (Aead::named(&aead.name).map(|row| row.id), aead.icv_bits) {
                (Some(Aead::AesGcm), icv @ (64 | 96 | 128)) => Suite::AesGcm { icv: (icv / 8) as u8 },
                (Some(Aead::ChaCha20Poly1305), 128) => Suite::ChaCha20Poly1305,
                (_, icv) => return refuse(format!("{} with a tag of {icv} bits is not served", aead.name)),
            };
            return Ok(Self { suite, key: aead.key.bytes(), integrity_key: &[] });
        }
        let Some(authentication) = &sa.authentication else {
            return refuse("an SA without authentication is not served".to_owned());
        };
        let name = &authentication.name;
        let (integrity, bits) = match Authentication::named(name).map(|row| row.id) {
            Some(Authentication::HmacSha1) => (Integrity::HmacSha1, 96),
            Some(Authentication::HmacSha256) => (Integrity::HmacSha256, 128),
            Some(Authentication::HmacSha384) => (Integrity::HmacSha384, 192),
            Some(Authentication::HmacSha512) => (Integrity::HmacSha512, 256),
            _ => return refuse(format!("{name} is not served")),
        };
        let got = authentication.icv_bits.unwrap_or(0);
        if got != bits {
            return refuse(format!("{name} with a tag of {got} bits is not served; auth-trunc says {bits}"));
        }
        let integrity_key = authentication.key.bytes();
        let Some(cipher) = &sa.cipher else {
            return Ok(Self { suite: Suite::Null(integrity), key: &[], integrity_key });
        };
        let suite = match Cipher::named(&cipher.name).map(|row| row.id) {
            Some(Cipher::AesCbc) => Suite::AesCbc(integrity),
            Some(Cipher::AesCtr) => Suite::AesCtr(integrity),
            Some(Cipher::Null) => Suite::Null(integrity),
            _ => return refuse(format!("{} is not served", cipher.name)),
        };
        Ok(Self { suite, key: cipher.key.bytes(), integrity_key })
    }
}

/// Says how many bits the tag has, where a message leaves it to Linux' default.
pub(super) fn complete(sa: &mut Sa) {
    if let Some(authentication) = &mut sa.authentication
        && let Some(row) = Authentication::named(&authentication.name)
    {
        authentication.icv_bits.get_or_insert(row.default_icv_bits);
    }
}
