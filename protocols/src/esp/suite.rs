//! Which algorithms protect the packets of an association.

use gantry_core::Algorithm as A;
use gantry_core::{Algorithm, Direction, Gantry, SessionParams};
use zeroize::Zeroizing;

use crate::crypt::{Keys, RANDOM_IV, Short};

/// What encrypts and authenticates. The length of the key says how long AES's is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Suite {
    /// AES-GCM (RFC 4106); the key is AES's and four bytes of salt.
    AesGcm {
        /// Bytes of the integrity check value: 16, 12 or 8.
        icv: u8,
    },
    /// ChaCha20-Poly1305 (RFC 7634); the key is ChaCha20's and four bytes of salt.
    ChaCha20Poly1305,
    /// AES-CBC (RFC 3602).
    AesCbc(Integrity),
    /// AES-CTR (RFC 3686); the key is AES's and four bytes of nonce.
    AesCtr(Integrity),
    /// No encryption (RFC 2410).
    Null(Integrity),
}

/// What authenticates, beside a cipher that does not. The key is as long as the digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Integrity {
    /// HMAC-SHA-1-96 (RFC 2404).
    HmacSha1,
    /// HMAC-SHA-256-128 (RFC 4868).
    HmacSha256,
    /// HMAC-SHA-384-192 (RFC 4868).
    HmacSha384,
    /// HMAC-SHA-512-256 (RFC 4868).
    HmacSha512,
}

/// The row of an [`Integrity`].
struct Hmac {
    mac: Algorithm,
    /// AES-CBC of 128, 192 and 256 bits with it, where the MAC covers what is encrypted and nothing behind it.
    cbc: [Algorithm; 3],
    key: usize,
    icv: usize,
}

impl Integrity {
    const fn hmac(self) -> Hmac {
        let (mac, cbc, key, icv) = match self {
            Integrity::HmacSha1 => {
                (A::HmacSha1, [A::Aes128CbcHmacSha1, A::Aes192CbcHmacSha1, A::Aes256CbcHmacSha1], 20, 12)
            }
            Integrity::HmacSha256 => {
                (A::HmacSha256, [A::Aes128CbcHmacSha256, A::Aes192CbcHmacSha256, A::Aes256CbcHmacSha256], 32, 16)
            }
            Integrity::HmacSha384 => {
                (A::HmacSha384, [A::Aes128CbcHmacSha384, A::Aes192CbcHmacSha384, A::Aes256CbcHmacSha384], 48, 24)
            }
            Integrity::HmacSha512 => {
                (A::HmacSha512, [A::Aes128CbcHmacSha512, A::Aes192CbcHmacSha512, A::Aes256CbcHmacSha512], 64, 32)
            }
        };
        Hmac { mac, cbc, key, icv }
    }
}

/// How packets of a suite look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// Bytes of the salt, behind the key.
    pub(super) salt: usize,
    /// Bytes of the IV in a packet: 8 that are its number, or 16 that nobody may be able to tell before (RFC 3602, 3).
    pub(super) iv: usize,
    /// What the encrypted bytes are a multiple of.
    pub(super) align: usize,
    /// Bytes of the integrity check value.
    pub(super) icv: usize,
    /// The cipher's IV ends in a counter of blocks, behind salt and IV.
    pub(super) counts: bool,
}

impl Layout {
    /// The IV of the cipher for the one in a packet.
    pub(super) fn cipher_iv(&self, salt: [u8; 4], iv: &[u8]) -> Short {
        match (iv.as_array(), iv.as_array::<RANDOM_IV>()) {
            (Some(number), _) if self.counts => Short::of(salt, *number, [0, 0, 0, 1]),
            (Some(number), _) => Short::of(salt, *number, []),
            (_, Some(block)) => Short::field(*block),
            _ => Short::default(),
        }
    }
}

impl Suite {
    pub(super) fn layout(self) -> Layout {
        let aead = |icv| Layout { salt: 4, iv: 8, align: 4, icv, counts: false };
        match self {
            Suite::AesGcm { icv } => aead(icv.into()),
            Suite::ChaCha20Poly1305 => aead(16),
            Suite::AesCbc(integrity) => Layout { salt: 0, iv: 16, align: 16, ..aead(integrity.hmac().icv) },
            Suite::AesCtr(integrity) => Layout { counts: true, ..aead(integrity.hmac().icv) },
            Suite::Null(integrity) => Layout { salt: 0, iv: 0, ..aead(integrity.hmac().icv) },
        }
    }

    /// The sessions of one direction. `extended`: the MAC covers four bytes more behind the packet (RFC 4303, 2.2.1).
    pub(super) fn keys(
        self,
        gantry: &Gantry,
        direction: Direction,
        key: &[u8],
        integrity_key: &[u8],
        extended: bool,
    ) -> gantry_core::Result<Keys> {
        // The nearest algorithm says what is wrong with the length of a key.
        let size = |[small, middle, large]: [Algorithm; 3]| match key.len() {
            ..=16 => small,
            17..=24 => middle,
            _ => large,
        };
        let open = |algorithm, key: &[u8], mac_key: &[u8], tag: Option<usize>| {
            let params = SessionParams::new(algorithm, key).mac_key(mac_key).direction(direction);
            gantry.session(tag.into_iter().fold(params, SessionParams::tag_len))
        };
        let mac = |integrity: Integrity| {
            let Hmac { mac, icv, .. } = integrity.hmac();
            open(mac, integrity_key, &[], Some(icv))
        };
        Ok(match self {
            Suite::AesGcm { icv } => Keys::Joint(open(
                size([A::Aes128Gcm, A::Aes192Gcm, A::Aes256Gcm]),
                key,
                integrity_key,
                Some(icv.into()),
            )?),
            Suite::ChaCha20Poly1305 => Keys::Joint(open(A::ChaCha20Poly1305, key, integrity_key, None)?),
            Suite::AesCbc(integrity) if !extended => {
                let Hmac { cbc, icv, .. } = integrity.hmac();
                Keys::Joint(open(size(cbc), key, integrity_key, Some(icv))?)
            }
            Suite::AesCbc(integrity) => Keys::Apart {
                cipher: Some(open(size([A::Aes128Cbc, A::Aes192Cbc, A::Aes256Cbc]), key, &[], None)?),
                mac: mac(integrity)?,
            },
            Suite::AesCtr(integrity) => Keys::Apart {
                cipher: Some(open(size([A::Aes128Ctr, A::Aes192Ctr, A::Aes256Ctr]), key, &[], None)?),
                mac: mac(integrity)?,
            },
            Suite::Null(integrity) => Keys::Apart { cipher: None, mac: mac(integrity)? },
        })
    }

    /// The algorithm of whole packets, if there is one: by the bytes of the key with its salt.
    pub(super) fn whole(self, key: usize, extended: bool) -> Option<Algorithm> {
        Some(match (self, key) {
            (Suite::AesGcm { .. }, 20) => A::EspAes128Gcm,
            (Suite::AesGcm { .. }, 28) => A::EspAes192Gcm,
            (Suite::AesGcm { .. }, 36) => A::EspAes256Gcm,
            (Suite::ChaCha20Poly1305, 36) => A::EspChaCha20Poly1305,
            // The MAC covers something that is not in the packet.
            _ if extended => return None,
            (Suite::AesCbc(Integrity::HmacSha1), 16) => A::EspAes128CbcHmacSha1,
            (Suite::AesCbc(Integrity::HmacSha1), 32) => A::EspAes256CbcHmacSha1,
            (Suite::AesCbc(Integrity::HmacSha256), 16) => A::EspAes128CbcHmacSha256,
            (Suite::AesCbc(Integrity::HmacSha256), 32) => A::EspAes256CbcHmacSha256,
            _ => return None,
        })
    }

    /// Whether the keys have lengths that the suite does not take, which no session would find.
    pub(super) fn misfit(self, key: &[u8], integrity_key: &[u8]) -> Option<&'static str> {
        let Layout { salt, .. } = self.layout();
        match self {
            Suite::AesGcm { icv } if !matches!(icv, 8 | 12 | 16) => {
                Some("an integrity check value of 8, 12 or 16 bytes")
            }
            _ if key.len() < salt => Some("a key with four bytes of salt behind it"),
            Suite::AesCbc(integrity) | Suite::AesCtr(integrity) | Suite::Null(integrity)
                if integrity_key.len() != integrity.hmac().key =>
            {
                Some("an integrity key as long as the digest")
            }
            Suite::Null(_) if !key.is_empty() => Some("no key, because nothing is encrypted"),
            _ => None,
        }
    }
}

/// A key without its salt, and the salt.
pub(super) fn salted(suite: Suite, key: &[u8]) -> (&[u8], Zeroizing<[u8; 4]>) {
    let (key, salt) = key.split_at(key.len() - suite.layout().salt);
    let mut kept = Zeroizing::new([0; 4]);
    kept[..salt.len()].copy_from_slice(salt);
    (key, kept)
}
