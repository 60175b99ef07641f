//! Names of algorithms, from `net/xfrm/xfrm_algo.c` of Linux. Each list there has names with an older name beside some.

/// A cipher of ESP with a separate authentication.
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

/// A cipher and authentication in one.
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
    /// Linux' name.
    pub name: &'static str,
    /// Its name before, which is understood, too.
    pub old: Option<&'static str>,
    /// Lengths of keys, with the nonce, in bits.
    pub key_bits: &'static [u32],
}

/// A row of [`AUTHENTICATIONS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthenticationRow {
    /// The algorithm.
    pub id: Authentication,
    /// Linux' name.
    pub name: &'static str,
    /// Its name before, which is understood, too.
    pub old: Option<&'static str>,
    /// Bits of the tag if the message has no length. HMAC-SHA-256 has 96, whereas RFC 4868 has 128.
    pub default_icv_bits: u32,
    /// Bits of the whole tag.
    pub full_icv_bits: u32,
}

/// A row of [`AEADS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AeadRow {
    /// The algorithm.
    pub id: Aead,
    /// Linux' name.
    pub name: &'static str,
    /// Lengths of keys, with the salt, in bits.
    pub key_bits: &'static [u32],
    /// Lengths of tags, in bits.
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
    /// The row of a name, the new or the old one.
    pub fn named(name: &str) -> Option<&'static CipherRow> {
        CIPHERS.iter().find(|row| row.name == name || row.old == Some(name))
    }
}

impl Authentication {
    /// The row of a name, the new or the old one.
    pub fn named(name: &str) -> Option<&'static AuthenticationRow> {
        AUTHENTICATIONS.iter().find(|row| row.name == name || row.old == Some(name))
    }
}

impl Aead {
    /// The row of a name.
    pub fn named(name: &str) -> Option<&'static AeadRow> {
        AEADS.iter().find(|row| row.name == name)
    }
}

const fn cipher(id: Cipher, name: &'static str, old: Option<&'static str>, key_bits: &'static [u32]) -> CipherRow {
    CipherRow { id, name, old, key_bits }
}

const fn authentication(
    id: Authentication,
    name: &'static str,
    old: Option<&'static str>,
    default_icv_bits: u32,
    full_icv_bits: u32,
) -> AuthenticationRow {
    AuthenticationRow { id, name, old, default_icv_bits, full_icv_bits }
}

const fn aead(id: Aead, name: &'static str, key_bits: &'static [u32], icv_bits: &'static [u32]) -> AeadRow {
    AeadRow { id, name, key_bits, icv_bits }
}
