//! The hash functions of messages that are hashed before (HashSLH-DSA, FIPS 205, 10.2.2).

/// The hash function that a message was digested with.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PreHash {
    Sha256,
    Sha384,
    Sha512,
    Sha224,
    Sha512_224,
    Sha512_256,
    Sha3_224,
    Sha3_256,
    Sha3_384,
    Sha3_512,
    /// 32 bytes of it.
    Shake128,
    /// 64 bytes of it.
    Shake256,
}

impl PreHash {
    /// Bytes of a digest.
    pub fn digest_bytes(self) -> usize {
        [32, 48, 64, 28, 28, 32, 28, 32, 48, 64, 32, 64][self as usize]
    }

    /// The object identifier in DER: 2.16.840.1.101.3.4.2, and a number for each function in the order of the variants (NIST's Computer
    /// Security Objects Register).
    pub(crate) fn identifier(self) -> [u8; 11] {
        [0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, self as u8 + 1]
    }
}
