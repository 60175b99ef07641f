//! The hash functions for prehashed messages (HashSLH-DSA, FIPS 205, 10.2.2).

/// The hash function of a prehashed message.
#[allow(missing_docs, reason = "the names are those of the functions")]
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
    /// The first 32 bytes of SHAKE128.
    Shake128,
    /// The first 64 bytes of SHAKE256.
    Shake256,
}

impl PreHash {
    /// Returns the bytes of a digest.
    pub fn digest_bytes(self) -> usize {
        [32, 48, 64, 28, 28, 32, 28, 32, 48, 64, 32, 64][self as usize]
    }

    /// Returns the object identifier in DER: 2.16.840.1.101.3.4.2, followed by a number. The variants are in the order of these numbers
    /// (NIST's Computer Security Objects Register).
    pub(crate) fn identifier(self) -> [u8; 11] {
        [0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, self as u8 + 1]
    }
}
