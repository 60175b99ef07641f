//! The hash functions.

use core::fmt;
use core::str::FromStr;

/// A hash function.
///
/// Its name is the one in coreutils and OpenSSL, in lower case: [`as_str`](Self::as_str) writes it, [`FromStr`] reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// MD5 (RFC 1321). Broken as a signature's digest: for checksums and names only.
    Md5,
    /// SHA-1 (FIPS 180-4). Collisions are known.
    Sha1,
    /// SHA-224 (FIPS 180-4).
    Sha224,
    /// SHA-256 (FIPS 180-4).
    Sha256,
    /// SHA-384 (FIPS 180-4).
    Sha384,
    /// SHA-512 (FIPS 180-4).
    Sha512,
    /// SHA-512/256 (FIPS 180-4).
    Sha512_256,
    /// SHA3-224 (FIPS 202).
    Sha3_224,
    /// SHA3-256 (FIPS 202).
    Sha3_256,
    /// SHA3-384 (FIPS 202).
    Sha3_384,
    /// SHA3-512 (FIPS 202).
    Sha3_512,
    /// BLAKE2b with digests of 32 bytes (RFC 7693), without a key.
    Blake2b256,
    /// BLAKE2b with digests of 64 bytes (RFC 7693), without a key.
    Blake2b512,
    /// Keccak-256 as in Ethereum: SHA3-256 with the padding of Keccak's submission.
    Keccak256,
}

use Algorithm::{
    Blake2b256, Blake2b512, Keccak256, Md5, Sha1, Sha3_224, Sha3_256, Sha3_384, Sha3_512, Sha224, Sha256, Sha384,
    Sha512, Sha512_256,
};

/// Name, bytes of the digest and bytes of a block, in the order of the variants.
const TABLE: [(Algorithm, &str, usize, usize); 14] = [
    (Md5, "md5", 16, 64),
    (Sha1, "sha1", 20, 64),
    (Sha224, "sha224", 28, 64),
    (Sha256, "sha256", 32, 64),
    (Sha384, "sha384", 48, 128),
    (Sha512, "sha512", 64, 128),
    (Sha512_256, "sha512-256", 32, 128),
    (Sha3_224, "sha3-224", 28, 144),
    (Sha3_256, "sha3-256", 32, 136),
    (Sha3_384, "sha3-384", 48, 104),
    (Sha3_512, "sha3-512", 64, 72),
    (Blake2b256, "blake2b-256", 32, 128),
    (Blake2b512, "blake2b-512", 64, 128),
    (Keccak256, "keccak-256", 32, 136),
];

impl Algorithm {
    /// All algorithms.
    pub const ALL: [Algorithm; TABLE.len()] = {
        let mut all = [Md5; TABLE.len()];
        let mut i = 0;
        while i < all.len() {
            all[i] = TABLE[i].0;
            i += 1;
        }
        all
    };

    /// Bytes of the longest digest.
    pub const MAX_DIGEST_SIZE: usize = 64;

    /// The name, in lower case.
    pub const fn as_str(self) -> &'static str {
        TABLE[self as usize].1
    }

    /// Bytes of a digest.
    pub const fn digest_size(self) -> usize {
        TABLE[self as usize].2
    }

    /// Bytes of a block. HMAC pads its key to this length (RFC 2104), and fs-verity its salt.
    pub const fn block_size(self) -> usize {
        TABLE[self as usize].3
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The error of parsing a string that names no known algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownAlgorithm;

impl fmt::Display for UnknownAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown hash function (one of")?;
        for algorithm in Algorithm::ALL {
            write!(f, " {algorithm}")?;
        }
        f.write_str(")")
    }
}

impl core::error::Error for UnknownAlgorithm {}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(text: &str) -> Result<Self, UnknownAlgorithm> {
        Algorithm::ALL.into_iter().find(|algorithm| algorithm.as_str() == text).ok_or(UnknownAlgorithm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_rows_are_in_the_order_of_the_variants() {
        for (i, algorithm) in Algorithm::ALL.into_iter().enumerate() {
            assert_eq!(algorithm as usize, i);
            assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
            assert!(algorithm.digest_size() <= Algorithm::MAX_DIGEST_SIZE);
        }
        let error = "SHA256".parse::<Algorithm>().unwrap_err();
        assert!(error.to_string().ends_with("blake2b-512 keccak-256)"), "{error}");
    }
}
