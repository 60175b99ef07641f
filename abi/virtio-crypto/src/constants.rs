//! Numbers of the virtio specification. The documentation of each module gives the prefix of its names in `linux/virtio_crypto.h`.

/// The number of a crypto device (virtio specification, "Device ID").
pub const DEVICE_ID: u32 = 20;

/// A value of [`Config::status`](crate::Config::status): VIRTIO_CRYPTO_S_HW_READY. The device accepts requests.
pub const HW_READY: u32 = 1;

/// A flag in the header of a data request: VIRTIO_CRYPTO_FLAG_SESSION_MODE. The request names a session. Without the flag, the
/// request contains its own parameters, if both sides have the stateless feature of the service.
pub const FLAG_SESSION_MODE: u32 = 1;

/// Returns the number of an operation: VIRTIO_CRYPTO_OPCODE.
pub const fn opcode(service: u32, operation: u32) -> u32 {
    service << 8 | operation
}

/// The result of a request: VIRTIO_CRYPTO_OK and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    /// Success.
    Ok = 0,
    /// Any other failure.
    Error = 1,
    /// The tag of an AEAD does not match.
    BadMessage = 2,
    /// The device does not support this operation or algorithm.
    NotSupported = 3,
    /// The session does not exist.
    InvalidSession = 4,
    /// There is no space for another session.
    NoSpace = 5,
    /// The signature is invalid.
    KeyRejected = 6,
}

impl Status {
    /// Returns the status with this number.
    pub const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Ok,
            1 => Self::Error,
            2 => Self::BadMessage,
            3 => Self::NotSupported,
            4 => Self::InvalidSession,
            5 => Self::NoSpace,
            6 => Self::KeyRejected,
            _ => return None,
        })
    }
}

/// Feature bits of the device (VIRTIO_CRYPTO_F_), as bit numbers, not masks.
pub mod feature {
    /// The length of a fixed part depends on the operation.
    pub const REVISION_1: u32 = 0;
    /// Ciphers and chains without a session.
    pub const CIPHER_STATELESS_MODE: u32 = 1;
    /// Digests without a session.
    pub const HASH_STATELESS_MODE: u32 = 2;
    /// MACs without a session.
    pub const MAC_STATELESS_MODE: u32 = 3;
    /// AEADs without a session.
    pub const AEAD_STATELESS_MODE: u32 = 4;
    /// Public keys without a session.
    pub const AKCIPHER_STATELESS_MODE: u32 = 5;
}

/// Services (VIRTIO_CRYPTO_SERVICE_), and bit numbers of [`Config::services`](crate::Config::services).
pub mod service {
    /// Symmetric ciphers, alone or chained with a digest or MAC.
    pub const CIPHER: u32 = 0;
    /// Digests.
    pub const HASH: u32 = 1;
    /// MACs.
    pub const MAC: u32 = 2;
    /// AEADs.
    pub const AEAD: u32 = 3;
    /// Public keys.
    pub const AKCIPHER: u32 = 4;
}

/// Operations of data queues and of the control queue (VIRTIO_CRYPTO_).
pub mod operation {
    use super::{opcode, service};

    /// Encrypts.
    pub const CIPHER_ENCRYPT: u32 = opcode(service::CIPHER, 0);
    /// Decrypts.
    pub const CIPHER_DECRYPT: u32 = opcode(service::CIPHER, 1);
    /// Creates a session of a cipher or a chain.
    pub const CIPHER_CREATE_SESSION: u32 = opcode(service::CIPHER, 2);
    /// Destroys the session.
    pub const CIPHER_DESTROY_SESSION: u32 = opcode(service::CIPHER, 3);
    /// Computes a digest.
    pub const HASH: u32 = opcode(service::HASH, 0);
    /// Creates a session of a digest.
    pub const HASH_CREATE_SESSION: u32 = opcode(service::HASH, 2);
    /// Destroys the session.
    pub const HASH_DESTROY_SESSION: u32 = opcode(service::HASH, 3);
    /// Computes a MAC.
    pub const MAC: u32 = opcode(service::MAC, 0);
    /// Creates a session of a MAC.
    pub const MAC_CREATE_SESSION: u32 = opcode(service::MAC, 2);
    /// Destroys the session.
    pub const MAC_DESTROY_SESSION: u32 = opcode(service::MAC, 3);
    /// Seals.
    pub const AEAD_ENCRYPT: u32 = opcode(service::AEAD, 0);
    /// Opens.
    pub const AEAD_DECRYPT: u32 = opcode(service::AEAD, 1);
    /// Creates a session of an AEAD.
    pub const AEAD_CREATE_SESSION: u32 = opcode(service::AEAD, 2);
    /// Destroys the session.
    pub const AEAD_DESTROY_SESSION: u32 = opcode(service::AEAD, 3);
    /// Encrypts with a public key.
    pub const AKCIPHER_ENCRYPT: u32 = opcode(service::AKCIPHER, 0);
    /// Decrypts with a private key.
    pub const AKCIPHER_DECRYPT: u32 = opcode(service::AKCIPHER, 1);
    /// Signs.
    pub const AKCIPHER_SIGN: u32 = opcode(service::AKCIPHER, 2);
    /// Verifies.
    pub const AKCIPHER_VERIFY: u32 = opcode(service::AKCIPHER, 3);
    /// Creates a session of a public or private key.
    pub const AKCIPHER_CREATE_SESSION: u32 = opcode(service::AKCIPHER, 4);
    /// Destroys the session.
    pub const AKCIPHER_DESTROY_SESSION: u32 = opcode(service::AKCIPHER, 5);
}

/// Ciphers (VIRTIO_CRYPTO_CIPHER_). The header writes `TDES` as `3DES`.
pub mod cipher {
    /// No cipher.
    pub const NO_CIPHER: u32 = 0;
    /// ARC4.
    pub const ARC4: u32 = 1;
    /// AES ECB.
    pub const AES_ECB: u32 = 2;
    /// AES CBC.
    pub const AES_CBC: u32 = 3;
    /// AES CTR.
    pub const AES_CTR: u32 = 4;
    /// DES ECB.
    pub const DES_ECB: u32 = 5;
    /// DES CBC.
    pub const DES_CBC: u32 = 6;
    /// Triple DES ECB.
    pub const TDES_ECB: u32 = 7;
    /// Triple DES CBC.
    pub const TDES_CBC: u32 = 8;
    /// Triple DES CTR.
    pub const TDES_CTR: u32 = 9;
    /// KASUMI F8.
    pub const KASUMI_F8: u32 = 10;
    /// SNOW3G UEA2.
    pub const SNOW3G_UEA2: u32 = 11;
    /// AES F8.
    pub const AES_F8: u32 = 12;
    /// AES XTS.
    pub const AES_XTS: u32 = 13;
    /// ZUC EEA3.
    pub const ZUC_EEA3: u32 = 14;
}

/// Digests (VIRTIO_CRYPTO_HASH_).
pub mod hash {
    /// No digest.
    pub const NO_HASH: u32 = 0;
    /// MD5.
    pub const MD5: u32 = 1;
    /// SHA-1.
    pub const SHA1: u32 = 2;
    /// SHA-224.
    pub const SHA_224: u32 = 3;
    /// SHA-256.
    pub const SHA_256: u32 = 4;
    /// SHA-384.
    pub const SHA_384: u32 = 5;
    /// SHA-512.
    pub const SHA_512: u32 = 6;
    /// SHA3-224.
    pub const SHA3_224: u32 = 7;
    /// SHA3-256.
    pub const SHA3_256: u32 = 8;
    /// SHA3-384.
    pub const SHA3_384: u32 = 9;
    /// SHA3-512.
    pub const SHA3_512: u32 = 10;
    /// SHA3-SHAKE128.
    pub const SHA3_SHAKE128: u32 = 11;
    /// SHA3-SHAKE256.
    pub const SHA3_SHAKE256: u32 = 12;
}

/// MACs (VIRTIO_CRYPTO_MAC_).
pub mod mac {
    /// No MAC.
    pub const NO_MAC: u32 = 0;
    /// HMAC-MD5.
    pub const HMAC_MD5: u32 = 1;
    /// HMAC-SHA-1.
    pub const HMAC_SHA1: u32 = 2;
    /// HMAC-SHA-224.
    pub const HMAC_SHA_224: u32 = 3;
    /// HMAC-SHA-256.
    pub const HMAC_SHA_256: u32 = 4;
    /// HMAC-SHA-384.
    pub const HMAC_SHA_384: u32 = 5;
    /// HMAC-SHA-512.
    pub const HMAC_SHA_512: u32 = 6;
    /// CMAC Triple DES.
    pub const CMAC_TDES: u32 = 25;
    /// CMAC AES.
    pub const CMAC_AES: u32 = 26;
    /// KASUMI F9.
    pub const KASUMI_F9: u32 = 27;
    /// SNOW3G UIA2.
    pub const SNOW3G_UIA2: u32 = 28;
    /// GMAC AES.
    pub const GMAC_AES: u32 = 41;
    /// GMAC TWOFISH.
    pub const GMAC_TWOFISH: u32 = 42;
    /// CBCMAC AES.
    pub const CBCMAC_AES: u32 = 49;
    /// CBCMAC KASUMI F9.
    pub const CBCMAC_KASUMI_F9: u32 = 50;
    /// XCBC AES.
    pub const XCBC_AES: u32 = 53;
    /// ZUC EIA3.
    pub const ZUC_EIA3: u32 = 54;
}

/// AEADs (VIRTIO_CRYPTO_AEAD_).
pub mod aead {
    /// No AEAD.
    pub const NO_AEAD: u32 = 0;
    /// GCM.
    pub const GCM: u32 = 1;
    /// CCM.
    pub const CCM: u32 = 2;
    /// CHACHA20 POLY1305.
    pub const CHACHA20_POLY1305: u32 = 3;
}

/// Public-key algorithms (VIRTIO_CRYPTO_AKCIPHER_). ECDSA has the specification's number, which differs from the number in Linux's header.
pub mod akcipher {
    /// No public key.
    pub const NO_AKCIPHER: u32 = 0;
    /// RSA.
    pub const RSA: u32 = 1;
    /// ECDSA.
    pub const ECDSA: u32 = 2;
}

/// Digests of RSA signatures (VIRTIO_CRYPTO_RSA_).
pub mod rsa_hash {
    /// No digest: the data are padded directly.
    pub const NO_HASH: u32 = 0;
    /// MD2.
    pub const MD2: u32 = 1;
    /// MD3.
    pub const MD3: u32 = 2;
    /// MD4.
    pub const MD4: u32 = 3;
    /// MD5.
    pub const MD5: u32 = 4;
    /// SHA-1.
    pub const SHA1: u32 = 5;
    /// SHA256.
    pub const SHA256: u32 = 6;
    /// SHA384.
    pub const SHA384: u32 = 7;
    /// SHA512.
    pub const SHA512: u32 = 8;
    /// SHA224.
    pub const SHA224: u32 = 9;
}

/// Curves (VIRTIO_CRYPTO_CURVE_).
pub mod curve {
    /// No curve.
    pub const UNKNOWN: u32 = 0;
    /// P-192.
    pub const NIST_P192: u32 = 1;
    /// P-224.
    pub const NIST_P224: u32 = 2;
    /// P-256.
    pub const NIST_P256: u32 = 3;
    /// P-384.
    pub const NIST_P384: u32 = 4;
    /// P-521.
    pub const NIST_P521: u32 = 5;
}

/// Kinds of sessions and requests of the cipher service (VIRTIO_CRYPTO_SYM_OP_).
pub mod sym_op {
    /// No operation.
    pub const NONE: u32 = 0;
    /// A cipher.
    pub const CIPHER: u32 = 1;
    /// A cipher and a digest or MAC.
    pub const ALGORITHM_CHAINING: u32 = 2;
}
