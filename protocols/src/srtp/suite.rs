//! The algorithms that protect the packets of a context.

use gantry_core::Algorithm;
use gantry_core::Algorithm as A;

use super::Protocol;

/// The algorithms for encryption and authentication, by the names in IANA's registries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Suite {
    /// AES_CM_128_HMAC_SHA1_80 (RFC 3711).
    AesCm128HmacSha1_80,
    /// AES_CM_128_HMAC_SHA1_32: 32 bits of tag for RTP, and 80 for RTCP.
    AesCm128HmacSha1_32,
    /// AES_256_CM_HMAC_SHA1_80 (RFC 6188).
    AesCm256HmacSha1_80,
    /// AES_256_CM_HMAC_SHA1_32: 32 bits of tag for RTP, and 80 for RTCP.
    AesCm256HmacSha1_32,
    /// AEAD_AES_128_GCM (RFC 7714).
    AeadAes128Gcm,
    /// AEAD_AES_256_GCM.
    AeadAes256Gcm,
}

/// The algorithms and lengths of a [`Suite`]. Lengths are in bytes.
#[derive(Clone, Copy)]
pub(super) struct SuiteParameters {
    /// The length of the master key and of the session key.
    pub(super) key_len: usize,
    /// The length of the master salt and of the session salt.
    pub(super) salt_len: usize,
    /// The length of the MAC key; 0 for an AEAD.
    pub(super) mac_key_len: usize,
    /// The length of the tag of RTP.
    tag_len: usize,
    /// The length of the tag of RTCP.
    control_tag_len: usize,
    /// Encrypts packets.
    pub(super) cipher: Algorithm,
    /// Derives keys.
    pub(super) key_derivation: Algorithm,
}

impl Suite {
    pub(super) const fn parameters(self) -> SuiteParameters {
        let (key_len, tag_len, cipher, key_derivation) = match self {
            Suite::AesCm128HmacSha1_80 => (16, 10, A::Aes128Ctr, A::Aes128Ctr),
            Suite::AesCm128HmacSha1_32 => (16, 4, A::Aes128Ctr, A::Aes128Ctr),
            Suite::AesCm256HmacSha1_80 => (32, 10, A::Aes256Ctr, A::Aes256Ctr),
            Suite::AesCm256HmacSha1_32 => (32, 4, A::Aes256Ctr, A::Aes256Ctr),
            Suite::AeadAes128Gcm => (16, 16, A::Aes128Gcm, A::Aes128Ctr),
            Suite::AeadAes256Gcm => (32, 16, A::Aes256Gcm, A::Aes256Ctr),
        };
        // With HMAC, a tag of RTCP always has 80 bits (RFC 3711, 5.2; RFC 4568, 6.2), because forged control packets end calls.
        let (salt_len, mac_key_len, control_tag_len) = if tag_len == 16 { (12, 0, 16) } else { (14, 20, 10) };
        SuiteParameters { key_len, salt_len, mac_key_len, tag_len, control_tag_len, cipher, key_derivation }
    }
}

impl SuiteParameters {
    pub(super) fn tag_len(&self, protocol: Protocol) -> usize {
        match protocol {
            Protocol::Rtp => self.tag_len,
            Protocol::Rtcp => self.control_tag_len,
        }
    }
}
