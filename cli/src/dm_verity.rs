//! The hash functions and block sizes that dm-verity supports.

use std::fmt;

use gantry_digest::Algorithm;

/// A hash function for blocks of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    /// A function of `gantry-digest`, which hashes blocks side by side.
    Lanes(Algorithm),
    Blake2s256,
    Ripemd160,
    /// RIPEMD-160 under Linux's name, `rmd160`.
    Rmd160,
    Sm3,
}

const HASHES: [Function; 15] = [
    Function::Lanes(Algorithm::Md5),
    Function::Lanes(Algorithm::Sha1),
    Function::Lanes(Algorithm::Sha224),
    Function::Lanes(Algorithm::Sha256),
    Function::Lanes(Algorithm::Sha384),
    Function::Lanes(Algorithm::Sha512),
    Function::Lanes(Algorithm::Sha3_224),
    Function::Lanes(Algorithm::Sha3_256),
    Function::Lanes(Algorithm::Sha3_384),
    Function::Lanes(Algorithm::Sha3_512),
    Function::Lanes(Algorithm::Blake2b512),
    Function::Blake2s256,
    Function::Ripemd160,
    Function::Rmd160,
    Function::Sm3,
];

impl Function {
    /// Returns the name, which is the same in dm-verity.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Function::Lanes(algorithm) => algorithm.as_str(),
            Function::Blake2s256 => "blake2s-256",
            Function::Ripemd160 => "ripemd160",
            Function::Rmd160 => "rmd160",
            Function::Sm3 => "sm3",
        }
    }

    /// Returns the number of bytes of a digest.
    pub(crate) fn digest_size(self) -> usize {
        match self {
            Function::Lanes(algorithm) => algorithm.digest_size(),
            Function::Blake2s256 | Function::Sm3 => 32,
            Function::Ripemd160 | Function::Rmd160 => 20,
        }
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns the names of all functions.
pub(crate) fn names() -> String {
    HASHES.map(Function::name).join(", ")
}

pub(crate) fn hash_of_name(name: &[u8]) -> Option<Function> {
    HASHES.into_iter().find(|function| function.name().as_bytes() == name)
}

/// True if a block may have this size: 512 to 524288 bytes, like in veritysetup.
pub(crate) fn is_block(bytes: usize) -> bool {
    bytes.is_power_of_two() && (512..=512 << 10).contains(&bytes)
}
