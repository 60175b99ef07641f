//! The algorithms that protect records, and the layout of their records.

use gantry_core::Algorithm as A;
use gantry_core::{Algorithm, Direction, Gantry, SessionParams};

use super::record::{MAX_EXPANSION_12, MAX_EXPANSION_13};
use crate::crypt::{Keys, RANDOM_IV_LEN};

/// The version of TLS, and the algorithms for encryption and authentication. The key's length, 16 or 32 bytes, selects AES-128 or 256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Suite {
    /// TLS 1.3 (RFC 8446); the IV has 12 bytes.
    Tls13(Aead),
    /// TLS 1.2 (RFC 5288, RFC 6655, RFC 7905); the IV has 4 bytes, or 12 bytes with ChaCha20-Poly1305.
    Tls12(Aead),
    /// AES-CBC with HMAC in TLS 1.2 (RFC 5246, 6.2.3.2); the connection has no IV.
    Tls12Cbc(Hmac, MacOrder),
}

/// Encryption and authentication in one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Aead {
    /// AES-GCM.
    AesGcm,
    /// AES-CCM.
    AesCcm,
    /// AES-CCM with tags of 8 bytes.
    AesCcm8,
    /// ChaCha20-Poly1305.
    ChaCha20Poly1305,
}

/// The authentication that complements AES-CBC. The key is as long as the digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Hmac {
    /// HMAC-SHA-1.
    Sha1,
    /// HMAC-SHA-256.
    Sha256,
    /// HMAC-SHA-384.
    Sha384,
}

/// The order of encryption and MAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MacOrder {
    /// The MAC covers the ciphertext. Both peers must have negotiated the extension of RFC 7366.
    EncryptThenMac,
    /// The MAC covers the content, and is encrypted with it. Opening a record takes up to 256 MACs, because nothing may reveal where the
    /// MAC begins.
    MacThenEncrypt,
}

/// The layout of a suite's records.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// True for TLS 1.3, where the content type is encrypted, after the content.
    pub(super) is_13: bool,
    /// Length of the connection's IV in bytes.
    pub(super) iv_len: usize,
    /// Bytes of a record's own nonce or IV, before the data.
    pub(super) explicit_iv_len: usize,
    /// The length of the encrypted part is a multiple of this number of bytes.
    pub(super) block_size: usize,
    /// True if the tag is encrypted with the data.
    pub(super) encrypts_tag: bool,
    /// Length of the tag in bytes.
    pub(super) tag_len: usize,
    /// The most bytes that protection adds.
    pub(super) max_expansion: usize,
    /// The most records that may be sealed under one key.
    pub(super) max_records: u64,
}

/// Full records that a key of AES-GCM may seal in TLS 1.3: 2^24.5 (RFC 8446, 5.5).
const MAX_RECORDS_GCM: u64 = 23_726_566;
/// Records that a key of AES-CCM may seal in TLS 1.3: 2^23 (RFC 9147, 4.5.3; RFC 8446 has no limit for it).
const MAX_RECORDS_CCM: u64 = 1 << 23;

impl Suite {
    pub(super) fn layout(self) -> Layout {
        let aead_tag_len = |aead| if aead == Aead::AesCcm8 { 8 } else { 16 };
        let tls12 = Layout {
            is_13: false,
            iv_len: 0,
            explicit_iv_len: 0,
            block_size: 1,
            encrypts_tag: false,
            tag_len: 16,
            max_expansion: MAX_EXPANSION_12,
            // TLS 1.2 has no key update. The last number stays unused, because `next_number` could not go beyond it.
            max_records: u64::MAX,
        };
        match self {
            Suite::Tls13(aead) => {
                let max_records = match aead {
                    Aead::AesGcm => MAX_RECORDS_GCM,
                    Aead::AesCcm | Aead::AesCcm8 => MAX_RECORDS_CCM,
                    Aead::ChaCha20Poly1305 => u64::MAX,
                };
                Layout {
                    is_13: true,
                    iv_len: 12,
                    tag_len: aead_tag_len(aead),
                    max_expansion: MAX_EXPANSION_13,
                    max_records,
                    ..tls12
                }
            }
            Suite::Tls12(Aead::ChaCha20Poly1305) => Layout { iv_len: 12, ..tls12 },
            Suite::Tls12(aead) => Layout { iv_len: 4, explicit_iv_len: 8, tag_len: aead_tag_len(aead), ..tls12 },
            Suite::Tls12Cbc(hmac, order) => {
                let encrypts_tag = order == MacOrder::MacThenEncrypt;
                Layout {
                    explicit_iv_len: RANDOM_IV_LEN,
                    block_size: 16,
                    encrypts_tag,
                    tag_len: hmac.key_len(),
                    ..tls12
                }
            }
        }
    }

    /// Opens the sessions of one direction. The keys must have no [`unmet_requirement`](Self::unmet_requirement).
    pub(super) fn keys(
        self,
        gantry: &Gantry,
        direction: Direction,
        key: &[u8],
        mac_key: &[u8],
    ) -> gantry_core::Result<Keys> {
        let by_key_len = |[small, large]: [Algorithm; 2]| if key.len() == 16 { small } else { large };
        let open = |algorithm, key: &[u8], mac_key: &[u8], tag_len: Option<usize>| {
            let params = SessionParams::new(algorithm, key).with_mac_key(mac_key).with_direction(direction);
            gantry.session(tag_len.into_iter().fold(params, SessionParams::with_tag_len))
        };
        let tag_len = Some(self.layout().tag_len);
        Ok(match self {
            Suite::Tls13(aead) | Suite::Tls12(aead) => {
                let algorithm = match aead {
                    Aead::AesGcm => by_key_len([A::Aes128Gcm, A::Aes256Gcm]),
                    Aead::AesCcm | Aead::AesCcm8 => by_key_len([A::Aes128Ccm, A::Aes256Ccm]),
                    Aead::ChaCha20Poly1305 => A::ChaCha20Poly1305,
                };
                Keys::Combined(open(algorithm, key, &[], tag_len)?)
            }
            // The MAC of RFC 7366 covers the same parts as the MAC of these combined algorithms: bytes before the IV, the IV and the
            // ciphertext.
            Suite::Tls12Cbc(hmac, MacOrder::EncryptThenMac) => {
                Keys::Combined(open(by_key_len(hmac.algorithms().1), key, mac_key, tag_len)?)
            }
            Suite::Tls12Cbc(hmac, MacOrder::MacThenEncrypt) => Keys::MacThenEncrypt {
                cipher: open(by_key_len([A::Aes128Cbc, A::Aes256Cbc]), key, &[], None)?,
                mac: open(hmac.algorithms().0, mac_key, &[], tag_len)?,
            },
        })
    }

    /// Returns the requirement of the suite that the keys do not meet, if there is one.
    pub(super) fn unmet_requirement(self, key: &[u8], iv: &[u8], mac_key: &[u8]) -> Option<&'static str> {
        let Layout { iv_len, .. } = self.layout();
        match self {
            Suite::Tls13(Aead::ChaCha20Poly1305) | Suite::Tls12(Aead::ChaCha20Poly1305) if key.len() != 32 => {
                Some("a key of 32 bytes")
            }
            _ if !matches!(key.len(), 16 | 32) => Some("a key of 16 or 32 bytes"),
            _ if iv.len() != iv_len => Some(match iv_len {
                0 => "no IV, because each record has its own",
                4 => "an IV of 4 bytes",
                _ => "an IV of 12 bytes",
            }),
            Suite::Tls12Cbc(hmac, _) if mac_key.len() != hmac.key_len() => Some("a MAC key as long as the digest"),
            Suite::Tls13(_) | Suite::Tls12(_) if !mac_key.is_empty() => Some("no MAC key"),
            _ => None,
        }
    }
}

impl Hmac {
    /// Returns the length of the key in bytes. The MAC has the same length.
    fn key_len(self) -> usize {
        match self {
            Hmac::Sha1 => 20,
            Hmac::Sha256 => 32,
            Hmac::Sha384 => 48,
        }
    }

    /// Returns the MAC's algorithm, and the algorithms that combine it with AES-CBC under keys of 128 and 256 bits.
    fn algorithms(self) -> (Algorithm, [Algorithm; 2]) {
        match self {
            Hmac::Sha1 => (A::HmacSha1, [A::Aes128CbcHmacSha1, A::Aes256CbcHmacSha1]),
            Hmac::Sha256 => (A::HmacSha256, [A::Aes128CbcHmacSha256, A::Aes256CbcHmacSha256]),
            Hmac::Sha384 => (A::HmacSha384, [A::Aes128CbcHmacSha384, A::Aes256CbcHmacSha384]),
        }
    }
}
