//! The algorithms that protect the packets of an association.

use gantry_core::Algorithm as A;
use gantry_core::esp::HEADER_LEN;
use gantry_core::{Algorithm, Direction, Gantry, SessionParams};
use zeroize::Zeroizing;

use crate::crypt::{Aad, Keys, RANDOM_IV_LEN, ShortBytes};

/// The algorithms for encryption and authentication. The key's length selects AES-128, 192 or 256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Suite {
    /// AES-GCM (RFC 4106). The key is AES's, followed by four bytes of salt.
    AesGcm {
        /// Bytes of the integrity check value: 16, 12 or 8.
        icv: u8,
    },
    /// AES-CCM (RFC 4309). The key is AES's, followed by three bytes of salt.
    AesCcm {
        /// Bytes of the integrity check value: 16, 12 or 8.
        icv: u8,
    },
    /// AES-GMAC (RFC 4543), which authenticates and does not encrypt. The key is AES's, followed by four bytes of salt. Sequence numbers
    /// have 32 bits: with extended numbers, the authenticated bytes are not contiguous in the packet.
    AesGmac,
    /// ChaCha20-Poly1305 (RFC 7634). The key is ChaCha20's, followed by four bytes of salt.
    ChaCha20Poly1305,
    /// AES-CBC (RFC 3602).
    AesCbc(Integrity),
    /// AES-CTR (RFC 3686). The key is AES's, followed by four bytes of nonce.
    AesCtr(Integrity),
    /// No encryption (RFC 2410).
    Null(Integrity),
}

/// The authentication that complements a cipher without authentication. The key is as long as the digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Integrity {
    /// HMAC-SHA-1-96 (RFC 2404).
    HmacSha1,
    /// HMAC-SHA-256-128 (RFC 4868).
    HmacSha256,
    /// HMAC-SHA-256-96 (draft-ietf-ipsec-ciph-sha-256-00), the default of Linux for `hmac(sha256)`.
    HmacSha256_96,
    /// HMAC-SHA-384-192 (RFC 4868).
    HmacSha384,
    /// HMAC-SHA-512-256 (RFC 4868).
    HmacSha512,
}

/// The algorithms and lengths of an [`Integrity`].
struct Hmac {
    mac: Algorithm,
    /// AES-CBC with keys of 128, 192 and 256 bits, combined with this MAC. The MAC covers no bytes after the ciphertext, so extended
    /// numbers need [`Keys::Separate`].
    cbc: [Algorithm; 3],
    key_len: usize,
    icv_len: usize,
}

impl Integrity {
    const fn hmac(self) -> Hmac {
        let (mac, cbc, key_len, icv_len) = match self {
            Integrity::HmacSha1 => {
                (A::HmacSha1, [A::Aes128CbcHmacSha1, A::Aes192CbcHmacSha1, A::Aes256CbcHmacSha1], 20, 12)
            }
            Integrity::HmacSha256 | Integrity::HmacSha256_96 => {
                let icv_len = if matches!(self, Integrity::HmacSha256) { 16 } else { 12 };
                (A::HmacSha256, [A::Aes128CbcHmacSha256, A::Aes192CbcHmacSha256, A::Aes256CbcHmacSha256], 32, icv_len)
            }
            Integrity::HmacSha384 => {
                (A::HmacSha384, [A::Aes128CbcHmacSha384, A::Aes192CbcHmacSha384, A::Aes256CbcHmacSha384], 48, 24)
            }
            Integrity::HmacSha512 => {
                (A::HmacSha512, [A::Aes128CbcHmacSha512, A::Aes192CbcHmacSha512, A::Aes256CbcHmacSha512], 64, 32)
            }
        };
        Hmac { mac, cbc, key_len, icv_len }
    }
}

/// The layout of a suite's packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// Bytes of the salt, which follows the key.
    pub(super) salt_len: usize,
    /// Bytes of the IV in a packet: 8 for the packet's number, 16 unpredictable bytes (RFC 3602, 3), or none ([`Suite::Null`]).
    pub(super) iv_len: usize,
    /// The length of the encrypted part is a multiple of this number of bytes.
    pub(super) align: usize,
    /// Length of the integrity check value in bytes.
    pub(super) icv_len: usize,
    /// True if the cipher's IV is the salt, the packet's IV and a block counter (AES-CTR).
    pub(super) has_block_counter: bool,
    /// False if the payload is additional authenticated data (AES-GMAC). Has no meaning for keys with a separate MAC.
    pub(super) encrypts: bool,
}

impl Layout {
    /// Returns the cipher's IV for the IV in a packet.
    pub(super) fn cipher_iv(&self, salt: [u8; 4], iv: &[u8]) -> ShortBytes {
        match (iv.as_array(), iv.as_array::<RANDOM_IV_LEN>()) {
            (Some(&[a, b, c, d, e, f, g, h]), _) if self.salt_len == 3 => {
                ShortBytes::from_field([salt[0], salt[1], salt[2], a, b, c, d, e, f, g, h])
            }
            (Some(number), _) if self.has_block_counter => ShortBytes::concat(salt, *number, [0, 0, 0, 1]),
            (Some(number), _) => ShortBytes::concat(salt, *number, []),
            (_, Some(block)) => ShortBytes::from_field(*block),
            _ => ShortBytes::default(),
        }
    }

    /// Returns the additional authenticated data of combined keys.
    pub(super) fn aad(&self, extended: bool, spi: u32, number: u64) -> Aad {
        match (self.encrypts, extended) {
            (false, _) => Aad::WholePacket,
            // The packet lacks the upper half of the number, which the AAD has between the SPI and the lower half (RFC 4106, 5).
            (true, true) => Aad::Other(ShortBytes::concat(spi.to_be_bytes(), number.to_be_bytes(), [])),
            (true, false) => Aad::Packet(0..HEADER_LEN),
        }
    }
}

impl Suite {
    pub(super) fn layout(self) -> Layout {
        let aead =
            |icv_len| Layout { salt_len: 4, iv_len: 8, align: 4, icv_len, has_block_counter: false, encrypts: true };
        match self {
            Suite::AesGcm { icv } => aead(icv.into()),
            Suite::AesCcm { icv } => Layout { salt_len: 3, ..aead(icv.into()) },
            Suite::AesGmac => Layout { encrypts: false, ..aead(16) },
            Suite::ChaCha20Poly1305 => aead(16),
            Suite::AesCbc(integrity) => Layout { salt_len: 0, iv_len: 16, align: 16, ..aead(integrity.hmac().icv_len) },
            Suite::AesCtr(integrity) => Layout { has_block_counter: true, ..aead(integrity.hmac().icv_len) },
            Suite::Null(integrity) => Layout { salt_len: 0, iv_len: 0, ..aead(integrity.hmac().icv_len) },
        }
    }

    /// Opens the sessions of one direction. `extended`: the MAC covers four more bytes after the packet (RFC 4303, 2.2.1).
    pub(super) fn keys(
        self,
        gantry: &Gantry,
        direction: Direction,
        key: &[u8],
        integrity_key: &[u8],
        extended: bool,
    ) -> gantry_core::Result<Keys> {
        // The session of the nearest algorithm reports a wrong key length.
        let by_key_len = |[small, middle, large]: [Algorithm; 3]| match key.len() {
            ..=16 => small,
            17..=24 => middle,
            _ => large,
        };
        let open = |algorithm, key: &[u8], mac_key: &[u8], tag_len: Option<usize>| {
            let params = SessionParams::new(algorithm, key).with_mac_key(mac_key).with_direction(direction);
            gantry.session(tag_len.into_iter().fold(params, SessionParams::with_tag_len))
        };
        let mac = |integrity: Integrity| {
            let Hmac { mac, icv_len, .. } = integrity.hmac();
            open(mac, integrity_key, &[], Some(icv_len))
        };
        let aead = |algorithm| open(algorithm, key, integrity_key, Some(self.layout().icv_len)).map(Keys::Combined);
        Ok(match self {
            Suite::AesGcm { .. } | Suite::AesGmac => aead(by_key_len([A::Aes128Gcm, A::Aes192Gcm, A::Aes256Gcm]))?,
            Suite::AesCcm { .. } => aead(by_key_len([A::Aes128Ccm, A::Aes192Ccm, A::Aes256Ccm]))?,
            Suite::ChaCha20Poly1305 => aead(A::ChaCha20Poly1305)?,
            Suite::AesCbc(integrity) if !extended => {
                let Hmac { cbc, icv_len, .. } = integrity.hmac();
                Keys::Combined(open(by_key_len(cbc), key, integrity_key, Some(icv_len))?)
            }
            Suite::AesCbc(integrity) => Keys::Separate {
                cipher: Some(open(by_key_len([A::Aes128Cbc, A::Aes192Cbc, A::Aes256Cbc]), key, &[], None)?),
                mac: mac(integrity)?,
            },
            Suite::AesCtr(integrity) => Keys::Separate {
                cipher: Some(open(by_key_len([A::Aes128Ctr, A::Aes192Ctr, A::Aes256Ctr]), key, &[], None)?),
                mac: mac(integrity)?,
            },
            Suite::Null(integrity) => Keys::Separate { cipher: None, mac: mac(integrity)? },
        })
    }

    /// Returns the algorithm for whole packets, if there is one. `key_len` is the length of key and salt together, in bytes.
    pub(super) fn whole_packet_algorithm(self, key_len: usize, extended: bool) -> Option<Algorithm> {
        Some(match (self, key_len) {
            (Suite::AesGcm { .. }, 20) => A::EspAes128Gcm,
            (Suite::AesGcm { .. }, 28) => A::EspAes192Gcm,
            (Suite::AesGcm { .. }, 36) => A::EspAes256Gcm,
            (Suite::ChaCha20Poly1305, 36) => A::EspChaCha20Poly1305,
            // The MAC covers bytes that are not in the packet.
            _ if extended => return None,
            (Suite::AesCbc(Integrity::HmacSha1), 16) => A::EspAes128CbcHmacSha1,
            (Suite::AesCbc(Integrity::HmacSha1), 32) => A::EspAes256CbcHmacSha1,
            (Suite::AesCbc(Integrity::HmacSha256), 16) => A::EspAes128CbcHmacSha256,
            (Suite::AesCbc(Integrity::HmacSha256), 32) => A::EspAes256CbcHmacSha256,
            _ => return None,
        })
    }

    /// Returns the requirement of the suite that the keys or sequence numbers do not meet, if there is one. Sessions do not check these
    /// requirements.
    pub(super) fn unmet_requirement(self, key: &[u8], integrity_key: &[u8], extended: bool) -> Option<&'static str> {
        let Layout { salt_len, .. } = self.layout();
        match self {
            Suite::AesGcm { icv } | Suite::AesCcm { icv } if !matches!(icv, 8 | 12 | 16) => {
                Some("an integrity check value of 8, 12 or 16 bytes")
            }
            Suite::AesGmac if extended => Some("sequence numbers of 32 bits"),
            Suite::AesCcm { .. } if key.len() < salt_len => Some("a key with three bytes of salt behind it"),
            _ if key.len() < salt_len => Some("a key with four bytes of salt behind it"),
            Suite::AesCbc(integrity) | Suite::AesCtr(integrity) | Suite::Null(integrity)
                if integrity_key.len() != integrity.hmac().key_len =>
            {
                Some("an integrity key as long as the digest")
            }
            Suite::Null(_) if !key.is_empty() => Some("no key, because nothing is encrypted"),
            _ => None,
        }
    }
}

/// Splits a key into key and salt. Pads the salt to four bytes with zeros.
pub(super) fn split_salt(suite: Suite, key: &[u8]) -> (&[u8], Zeroizing<[u8; 4]>) {
    let (key, salt) = key.split_at(key.len() - suite.layout().salt_len);
    let mut padded = Zeroizing::new([0; 4]);
    padded[..salt.len()].copy_from_slice(salt);
    (key, padded)
}
