//! Which suite of ESP an SA of XFRM asks for.

use gantry_abi_xfrm::Sa;
use gantry_protocols::esp::{Integrity, Suite};

use super::Refusal;

/// A suite with its keys.
pub(super) struct Keyed<'s> {
    pub(super) suite: Suite,
    pub(super) key: &'s [u8],
    pub(super) integrity_key: &'s [u8],
}

/// Authentications that ESP has here: Linux' names for them, and the bits of the tag that the suite has. Without XFRMA_ALG_AUTH_TRUNC Linux
/// takes 96 bits of each but the last two (net/xfrm/xfrm_algo.c).
const AUTHENTICATIONS: [(&[&str], Integrity, u32, u32); 4] = [
    (&["hmac(sha1)", "sha1"], Integrity::HmacSha1, 96, 96),
    (&["hmac(sha256)", "sha256"], Integrity::HmacSha256, 128, 96),
    (&["hmac(sha384)", "sha384"], Integrity::HmacSha384, 192, 192),
    (&["hmac(sha512)", "sha512"], Integrity::HmacSha512, 256, 256),
];

impl<'s> Keyed<'s> {
    /// The suite of an SA.
    ///
    /// # Errors
    /// ENOSYS, as Linux says it, for what there is not.
    pub(super) fn of(sa: &'s Sa) -> Result<Self, Refusal> {
        let refuse = |what: String| Err(Refusal::new(libc::ENOSYS, what));
        if sa.compression.is_some() {
            return refuse("compression is not served".to_owned());
        }
        if let Some(aead) = &sa.aead {
            let key = aead.key.bytes();
            let suite = match (&*aead.name, aead.icv_bits) {
                ("rfc4106(gcm(aes))", icv @ (64 | 96 | 128)) => Suite::AesGcm { icv: (icv / 8) as u8 },
                ("rfc7539esp(chacha20,poly1305)", 128) => Suite::ChaCha20Poly1305,
                (name, icv) => return refuse(format!("{name} with a tag of {icv} bits is not served")),
            };
            return Ok(Self { suite, key, integrity_key: &[] });
        }
        let Some(authentication) = &sa.authentication else {
            return refuse("an SA without authentication is not served".to_owned());
        };
        let name = &*authentication.name;
        let Some((_, integrity, bits, default)) = AUTHENTICATIONS.iter().find(|(names, ..)| names.contains(&name))
        else {
            return refuse(format!("{name} is not served"));
        };
        let got = authentication.icv_bits.unwrap_or(*default);
        if got != *bits {
            return refuse(format!("{name} with a tag of {got} bits is not served; auth-trunc says {bits}"));
        }
        let (cipher, key) =
            sa.cipher.as_ref().map_or(("cipher_null", &[][..]), |cipher| (&*cipher.name, cipher.key.bytes()));
        let suite = match cipher {
            "cbc(aes)" | "aes" => Suite::AesCbc(*integrity),
            "rfc3686(ctr(aes))" => Suite::AesCtr(*integrity),
            "ecb(cipher_null)" | "cipher_null" => Suite::Null(*integrity),
            other => return refuse(format!("{other} is not served")),
        };
        Ok(Self { suite, key, integrity_key: authentication.key.bytes() })
    }
}
