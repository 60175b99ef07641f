//! Maps algorithms to the operations of cryptodev.

use gantry_core::{Algorithm, Kind};

use crate::sys::CapabilityRecord;

/// Kinds of operations. Their numbers, and the numbers of algorithms below, are those of `shim/gantry_dpdk.h`.
pub(crate) const CIPHER: u32 = 1;
pub(crate) const AUTH: u32 = 2;
pub(crate) const AEAD: u32 = 3;
pub(crate) const CHAIN: u32 = 4;

/// Ciphers.
const NULL: u32 = 1;
const AES_CBC: u32 = 2;
const AES_CTR: u32 = 3;
const AES_ECB: u32 = 4;
const DES3_CBC: u32 = 5;

/// Digests and MACs. `hash_numbers` computes the other numbers from `HMAC_MD5`.
const HMAC_MD5: u32 = 11;
const AES_CMAC: u32 = 21;
const AES_GMAC: u32 = 22;

/// AEADs.
const AES_GCM: u32 = 1;
const AES_CCM: u32 = 2;
const CHACHA20_POLY1305: u32 = 3;

/// The cryptodev operation that computes an algorithm. The values are the shim's numbers of algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CryptodevOp {
    Cipher(u32),
    /// Digests and MACs.
    Auth(u32),
    Aead(u32),
    /// Encrypt, then authenticate, in one operation.
    Chain {
        cipher: u32,
        auth: u32,
    },
}

impl CryptodevOp {
    /// Returns `None` for algorithms without a name in cryptodev, and for XTS. No PMD without hardware has XTS, so results for data with an
    /// incomplete last block could not be verified.
    pub(crate) fn for_algorithm(algorithm: Algorithm) -> Option<Self> {
        use Algorithm as A;
        let info = algorithm.info();
        Some(match algorithm {
            A::Null => Self::Cipher(NULL),
            A::Aes128Ecb | A::Aes192Ecb | A::Aes256Ecb => Self::Cipher(AES_ECB),
            A::Aes128Cbc | A::Aes192Cbc | A::Aes256Cbc => Self::Cipher(AES_CBC),
            A::Aes128Ctr | A::Aes192Ctr | A::Aes256Ctr => Self::Cipher(AES_CTR),
            A::DesEde3Cbc => Self::Cipher(DES3_CBC),
            A::Aes128Cmac | A::Aes192Cmac | A::Aes256Cmac => Self::Auth(AES_CMAC),
            A::Aes128Gmac | A::Aes192Gmac | A::Aes256Gmac => Self::Auth(AES_GMAC),
            A::Aes128Gcm | A::Aes192Gcm | A::Aes256Gcm => Self::Aead(AES_GCM),
            A::Aes128Ccm | A::Aes192Ccm | A::Aes256Ccm => Self::Aead(AES_CCM),
            A::ChaCha20Poly1305 => Self::Aead(CHACHA20_POLY1305),
            _ => match (info.kind, info.cipher, info.digest) {
                (Kind::Digest, ..) => Self::Auth(hash_numbers(algorithm)?.0),
                (Kind::Mac, _, Some(digest)) => Self::Auth(hash_numbers(digest)?.1),
                (Kind::Aead, Some(cipher), Some(digest)) => match Self::for_algorithm(cipher)? {
                    Self::Cipher(cipher) => Self::Chain { cipher, auth: hash_numbers(digest)?.1 },
                    _ => return None,
                },
                _ => return None,
            },
        })
    }

    pub(crate) fn uses_ctr(self) -> bool {
        matches!(self, CryptodevOp::Cipher(AES_CTR) | CryptodevOp::Chain { cipher: AES_CTR, .. })
    }

    pub(crate) fn is_hmac(self) -> bool {
        matches!(self, CryptodevOp::Auth(HMAC_MD5..AES_CMAC))
    }

    /// Returns whether this is CCM, which places nonce and associated data differently.
    pub(crate) fn is_ccm(self) -> bool {
        self == CryptodevOp::Aead(AES_CCM)
    }
}

/// Returns the shim's numbers of a digest and of its HMAC.
fn hash_numbers(digest: Algorithm) -> Option<(u32, u32)> {
    const HASHES: [Algorithm; 10] = [
        Algorithm::Md5,
        Algorithm::Sha1,
        Algorithm::Sha224,
        Algorithm::Sha256,
        Algorithm::Sha384,
        Algorithm::Sha512,
        Algorithm::Sha3_224,
        Algorithm::Sha3_256,
        Algorithm::Sha3_384,
        Algorithm::Sha3_512,
    ];
    let index = HASHES.iter().position(|hash| *hash == digest)? as u32;
    Some((1 + index, HMAC_MD5 + index))
}

/// A device's capability for one algorithm, with the lengths that it takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AlgorithmSupport {
    pub(crate) operation: CryptodevOp,
    /// The record of the algorithm; for a chain, of its cipher.
    pub(crate) main: CapabilityRecord,
    /// The record of a chain's MAC; otherwise `main` again.
    pub(crate) auth: CapabilityRecord,
}

impl AlgorithmSupport {
    /// Returns the capability if the device takes the algorithm's shortest key, its longest tag, and a nonce of the usual length.
    pub(crate) fn find(algorithm: Algorithm, records: &[CapabilityRecord], supports_chains: bool) -> Option<Self> {
        let info = algorithm.info();
        let operation = CryptodevOp::for_algorithm(algorithm)?;
        let find_record = |kind, algorithm, fits: &dyn Fn(&CapabilityRecord) -> bool| {
            records.iter().find(|record| record.kind == kind && record.algorithm == algorithm && fits(record)).copied()
        };
        let iv_len = if info.iv.min == info.iv.max { info.iv.min } else { 12 };
        let cipher = |record: &CapabilityRecord| record.key.allows(info.key.min) && record.iv.allows(iv_len);
        let auth = |record: &CapabilityRecord| {
            record.tag.allows(info.tag.max) && (info.iv.max == 0 || record.iv.allows(iv_len))
        };
        let takes_key = |record: &CapabilityRecord| info.key.min == 0 || record.key.allows(info.key.min);
        let (main, auth) = match operation {
            CryptodevOp::Cipher(number) => find_record(CIPHER, number, &cipher).map(|record| (record, record))?,
            CryptodevOp::Auth(number) => {
                find_record(AUTH, number, &|record| auth(record) && takes_key(record)).map(|record| (record, record))?
            }
            CryptodevOp::Aead(number) => {
                let fits = |record: &CapabilityRecord| cipher(record) && record.tag.allows(info.tag.max);
                find_record(AEAD, number, &fits).map(|record| (record, record))?
            }
            CryptodevOp::Chain { cipher: number, auth } if supports_chains => {
                let tag = |record: &CapabilityRecord| record.tag.allows(info.tag.max);
                (find_record(CIPHER, number, &cipher)?, find_record(AUTH, auth, &tag)?)
            }
            CryptodevOp::Chain { .. } => return None,
        };
        Some(Self { operation, main, auth })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn algorithms_have_the_numbers_of_the_shim() {
        assert_eq!(CryptodevOp::for_algorithm(Algorithm::Aes192Cbc), Some(CryptodevOp::Cipher(AES_CBC)));
        assert_eq!(CryptodevOp::for_algorithm(Algorithm::Sha256), Some(CryptodevOp::Auth(4)));
        assert_eq!(CryptodevOp::for_algorithm(Algorithm::HmacSha1), Some(CryptodevOp::Auth(12)));
        assert_eq!(CryptodevOp::for_algorithm(Algorithm::HmacSha3_512), Some(CryptodevOp::Auth(20)));
        assert_eq!(
            CryptodevOp::for_algorithm(Algorithm::Aes128CtrHmacSha512),
            Some(CryptodevOp::Chain { cipher: AES_CTR, auth: 16 })
        );
        assert!(CryptodevOp::for_algorithm(Algorithm::Aes256Ccm).unwrap().is_ccm());
        for none in [Algorithm::Aes256Xts, Algorithm::ChaCha20, Algorithm::Poly1305, Algorithm::EcdsaP256] {
            assert_eq!(CryptodevOp::for_algorithm(none), None, "{none}");
        }
    }
}
