//! The hash functions and block sizes that dm-verity supports.

use std::fmt;

use gantry_digest::Algorithm;

/// A hash function for blocks of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HashFunction {
    /// A function of `gantry-digest`, which hashes blocks side by side.
    Lanes(Algorithm),
    Blake2s256,
    Ripemd160,
    /// RIPEMD-160 under Linux's name, `rmd160`.
    Rmd160,
    Sm3,
}

const FUNCTIONS: [HashFunction; 15] = [
    HashFunction::Lanes(Algorithm::Md5),
    HashFunction::Lanes(Algorithm::Sha1),
    HashFunction::Lanes(Algorithm::Sha224),
    HashFunction::Lanes(Algorithm::Sha256),
    HashFunction::Lanes(Algorithm::Sha384),
    HashFunction::Lanes(Algorithm::Sha512),
    HashFunction::Lanes(Algorithm::Sha3_224),
    HashFunction::Lanes(Algorithm::Sha3_256),
    HashFunction::Lanes(Algorithm::Sha3_384),
    HashFunction::Lanes(Algorithm::Sha3_512),
    HashFunction::Lanes(Algorithm::Blake2b512),
    HashFunction::Blake2s256,
    HashFunction::Ripemd160,
    HashFunction::Rmd160,
    HashFunction::Sm3,
];

impl HashFunction {
    /// Returns the name, as on the command line and in a superblock of dm-verity.
    pub(crate) fn name(self) -> &'static str {
        match self {
            HashFunction::Lanes(algorithm) => algorithm.as_str(),
            HashFunction::Blake2s256 => "blake2s-256",
            HashFunction::Ripemd160 => "ripemd160",
            HashFunction::Rmd160 => "rmd160",
            HashFunction::Sm3 => "sm3",
        }
    }

    /// Returns the number of bytes of a digest.
    pub(crate) fn digest_size(self) -> usize {
        match self {
            HashFunction::Lanes(algorithm) => algorithm.digest_size(),
            HashFunction::Blake2s256 | HashFunction::Sm3 => 32,
            HashFunction::Ripemd160 | HashFunction::Rmd160 => 20,
        }
    }
}

impl fmt::Display for HashFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns the names of all functions.
pub(crate) fn function_names() -> String {
    FUNCTIONS.map(HashFunction::name).join(", ")
}

pub(crate) fn function_of_name(name: &[u8]) -> Option<HashFunction> {
    FUNCTIONS.into_iter().find(|function| function.name().as_bytes() == name)
}

/// True if a block may have this size: 512 to 524288 bytes, like in veritysetup.
pub(crate) fn is_block_size(bytes: usize) -> bool {
    bytes.is_power_of_two() && (512..=512 << 10).contains(&bytes)
}
