//! A known answer.

use std::sync::Arc;

use gantry_core::{Algorithm, Prehash};

/// A known answer. Fields that the algorithm does not have are empty.
#[derive(Clone, Debug)]
pub(crate) struct Vector {
    pub(crate) algorithm: Algorithm,
    /// File or set, and line or number in it.
    pub(crate) origin: (Arc<str>, usize),
    pub(crate) key: Vec<u8>,
    /// The key of the MAC, or the public key.
    pub(crate) second_key: Vec<u8>,
    /// IV or nonce. For key encapsulation, the random bytes of a secret; for packets, the number.
    pub(crate) iv: Vec<u8>,
    /// Associated data. For key encapsulation, the random bytes of both keys; for signatures, the context; for packets, SPI, next header,
    /// and a flag for extended numbers.
    pub(crate) aad: Vec<u8>,
    /// Message or plaintext. Empty if an AEAD must refuse the vector, because it then must release no plaintext.
    pub(crate) input: Vec<u8>,
    /// Digest, MAC, ciphertext, signature or secret.
    pub(crate) output: Vec<u8>,
    /// The tag of an AEAD, or of a packet with a short one. For key encapsulation, the secret.
    pub(crate) tag: Vec<u8>,
    /// The prehash mode of a signature.
    pub(crate) prehash: Prehash,
    /// For signatures of digests: the function that makes the digest of the input.
    pub(crate) digest_function: Option<Algorithm>,
    pub(crate) expect: Expect,
}

/// The result that a vector requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// The output is the result of the input.
    Match,
    /// The vector is invalid: opening fails, a computed MAC differs, or core refuses a length.
    Refused,
    /// A thousand digests in a row. The message of each is the `n` digests before it. At the start, each of these is `input` (SHAVS,
    /// SHA3VS).
    MonteCarlo(usize),
    /// The result is not defined, with the reason. Only Wycheproof has such vectors.
    Undefined(&'static str),
}

impl Vector {
    pub(crate) fn new(algorithm: Algorithm, origin: (Arc<str>, usize)) -> Self {
        let (key, second_key, iv, aad) = Default::default();
        let (input, output, tag) = Default::default();
        let (prehash, digest_function, expect) = (Prehash::Pure, None, Expect::Match);
        Self { algorithm, origin, key, second_key, iv, aad, input, output, tag, prehash, digest_function, expect }
    }
}
