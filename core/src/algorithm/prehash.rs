//! The input that is signed: the message, its digest, or a representative of it.

use super::ids::Algorithm;

/// The input that is signed, for algorithms that take a context ([`AlgorithmInfo::context`](crate::AlgorithmInfo::context)). Signer and
/// verifier must use the same variant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Prehash {
    /// The message: ML-DSA (FIPS 204, 5.2), SLH-DSA (FIPS 205, 10.2.1).
    #[default]
    Pure,
    /// The digest of the message, which the device computes: HashML-DSA (FIPS 204, 5.4), HashSLH-DSA (FIPS 205, 10.2.2).
    Hash(Algorithm),
    /// ML-DSA only: the representative μ, 64 bytes, which the caller has computed from the public key, the context and the message
    /// (FIPS 204, 6.2, step 6). The session has no context.
    Mu,
}

/// The functions of [`Prehash::Hash`], and the last byte of their object identifiers (NIST, Computer Security Objects Register,
/// 2.16.840.1.101.3.4.2).
const FUNCTIONS: [(Algorithm, u8); 11] = [
    (Algorithm::Sha256, 1),
    (Algorithm::Sha384, 2),
    (Algorithm::Sha512, 3),
    (Algorithm::Sha224, 4),
    (Algorithm::Sha512_256, 6),
    (Algorithm::Sha3_224, 7),
    (Algorithm::Sha3_256, 8),
    (Algorithm::Sha3_384, 9),
    (Algorithm::Sha3_512, 10),
    (Algorithm::Shake128, 11),
    (Algorithm::Shake256, 12),
];

impl Prehash {
    /// Returns the function's object identifier in DER, as the signed message contains it; `None` for other variants and other algorithms.
    pub fn identifier(self) -> Option<[u8; 11]> {
        let Prehash::Hash(algorithm) = self else { return None };
        let (_, last) = FUNCTIONS.iter().find(|(function, _)| *function == algorithm)?;
        Some([0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, *last])
    }

    /// Returns the function whose identifier ends in this byte.
    pub fn of_identifier(last: u8) -> Option<Self> {
        FUNCTIONS.iter().find(|(_, number)| *number == last).map(|(algorithm, _)| Prehash::Hash(*algorithm))
    }
}
