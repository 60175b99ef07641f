//! Names of algorithms, from `net/xfrm/xfrm_algo.c` of Linux. Some algorithms also have an older name.

/// A cipher of ESP without authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cipher {
    /// None (RFC 2410).
    Null,
    /// AES-CBC (RFC 3602).
    AesCbc,
    /// AES-CTR (RFC 3686); the last 4 bytes of the key are the nonce.
    AesCtr,
    /// Triple DES (RFC 2451).
    TripleDesCbc,
    /// Camellia-CBC (RFC 4312).
    CamelliaCbc,
}

/// An authentication of ESP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Authentication {
    /// None.
    Null,
    /// HMAC-MD5 (RFC 2403).
    HmacMd5,
    /// HMAC-SHA-1 (RFC 2404).
    HmacSha1,
    /// HMAC-SHA-256 (RFC 4868).
    HmacSha256,
    /// HMAC-SHA-384 (RFC 4868).
    HmacSha384,
    /// HMAC-SHA-512 (RFC 4868).
    HmacSha512,
    /// AES-XCBC-MAC (RFC 3566).
    AesXcbc,
    /// AES-CMAC (RFC 4494).
    AesCmac,
}

/// Encryption and authentication in one algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Aead {
    /// AES-GCM (RFC 4106); the last 4 bytes of the key are the salt.
    AesGcm,
    /// AES-CCM (RFC 4309); the last 3 bytes of the key are the salt.
    AesCcm,
    /// AES-GMAC: authentication alone (RFC 4543); the last 4 bytes of the key are the salt.
    AesGmac,
    /// ChaCha20-Poly1305 (RFC 7634); the last 4 bytes of the key are the salt.
    ChaCha20Poly1305,
}

/// A row of [`CIPHERS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CipherRow {
    /// The algorithm.
    pub id: Cipher,
    /// The name in Linux.
    pub name: &'static str,
    /// The older name, which is also accepted.
    pub old_name: Option<&'static str>,
    /// Key lengths, including the nonce, in bits.
    pub key_bits: &'static [u32],
}

/// A row of [`AUTHENTICATIONS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthenticationRow {
    /// The algorithm.
    pub id: Authentication,
    /// The name in Linux.
    pub name: &'static str,
    /// The older name, which is also accepted.
    pub old_name: Option<&'static str>,
    /// Bits of the tag if the message does not give its length. HMAC-SHA-256 has 96, although RFC 4868 specifies 128.
    pub default_icv_bits: u32,
    /// Bits of the tag before it is truncated.
    pub full_icv_bits: u32,
}

/// A row of [`AEADS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AeadRow {
    /// The algorithm.
    pub id: Aead,
    /// The name in Linux.
    pub name: &'static str,
    /// Key lengths, including the salt, in bits.
    pub key_bits: &'static [u32],
    /// Tag lengths, in bits.
    pub icv_bits: &'static [u32],
}

/// Names of ciphers.
pub const CIPHERS: &[CipherRow] = &[
    cipher(Cipher::Null, "ecb(cipher_null)", Some("cipher_null"), &[0]),
    cipher(Cipher::AesCbc, "cbc(aes)", Some("aes"), &[128, 192, 256]),
    cipher(Cipher::AesCtr, "rfc3686(ctr(aes))", None, &[160, 224, 288]),
    cipher(Cipher::TripleDesCbc, "cbc(des3_ede)", Some("des3_ede"), &[192]),
    cipher(Cipher::CamelliaCbc, "cbc(camellia)", Some("camellia"), &[128, 192, 256]),
];

/// Names of authentications.
pub const AUTHENTICATIONS: &[AuthenticationRow] = &[
    authentication(Authentication::Null, "digest_null", None, 0, 0),
    authentication(Authentication::HmacMd5, "hmac(md5)", Some("md5"), 96, 128),
    authentication(Authentication::HmacSha1, "hmac(sha1)", Some("sha1"), 96, 160),
    authentication(Authentication::HmacSha256, "hmac(sha256)", Some("sha256"), 96, 256),
    authentication(Authentication::HmacSha384, "hmac(sha384)", None, 192, 384),
    authentication(Authentication::HmacSha512, "hmac(sha512)", None, 256, 512),
    authentication(Authentication::AesXcbc, "xcbc(aes)", None, 96, 128),
    authentication(Authentication::AesCmac, "cmac(aes)", None, 96, 128),
];

/// Names of AEADs.
pub const AEADS: &[AeadRow] = &[
    aead(Aead::AesGcm, "rfc4106(gcm(aes))", &[160, 224, 288], &[64, 96, 128]),
    aead(Aead::AesCcm, "rfc4309(ccm(aes))", &[152, 216, 280], &[64, 96, 128]),
    aead(Aead::AesGmac, "rfc4543(gcm(aes))", &[160, 224, 288], &[128]),
    aead(Aead::ChaCha20Poly1305, "rfc7539esp(chacha20,poly1305)", &[288], &[128]),
];

impl Cipher {
    /// Returns the row with this name, new or old.
    pub fn named(name: &str) -> Option<&'static CipherRow> {
        CIPHERS.iter().find(|row| row.name == name || row.old_name == Some(name))
    }
}

impl Authentication {
    /// Returns the row with this name, new or old.
    pub fn named(name: &str) -> Option<&'static AuthenticationRow> {
        AUTHENTICATIONS.iter().find(|row| row.name == name || row.old_name == Some(name))
    }
}

impl Aead {
    /// Returns the row with this name.
    pub fn named(name: &str) -> Option<&'static AeadRow> {
        AEADS.iter().find(|row| row.name == name)
    }
}

const fn cipher(id: Cipher, name: &'static str, old_name: Option<&'static str>, key_bits: &'static [u32]) -> CipherRow {
    CipherRow { id, name, old_name, key_bits }
}

const fn authentication(
    id: Authentication,
    name: &'static str,
    old_name: Option<&'static str>,
    default_icv_bits: u32,
    full_icv_bits: u32,
) -> AuthenticationRow {
    AuthenticationRow { id, name, old_name, default_icv_bits, full_icv_bits }
}

const fn aead(id: Aead, name: &'static str, key_bits: &'static [u32], icv_bits: &'static [u32]) -> AeadRow {
    AeadRow { id, name, key_bits, icv_bits }
}
