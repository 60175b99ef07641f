//! The algorithm for each number that a program may pass to `/dev/crypto`.

use Algorithm as A;
use gantry_core::{Algorithm, Kind};

/// A cipher or an AEAD, with its number.
#[derive(Debug)]
pub struct CipherRow {
    /// The value of [`SessionOp::cipher`](crate::SessionOp::cipher).
    pub number: u32,
    /// The kernel's name of the cipher.
    pub name: &'static str,
    /// The algorithms, one for each key length; empty if Gantry has none.
    pub algorithms: &'static [Algorithm],
    /// Length of the IV in bytes. CCM's IV has the kernel's form: a byte with 14 minus the length of the nonce, the nonce, and zeros.
    pub iv_len: usize,
    /// Length of a block in bytes. The length of the data must be a multiple of this length.
    pub block_size: usize,
    /// The kernel module's flag for stream ciphers. SRTP requires the flag. CFB and OFB do not have it.
    pub is_stream: bool,
}

/// A digest or an HMAC, with its number.
#[derive(Debug)]
pub struct HashRow {
    /// The value of [`SessionOp::mac`](crate::SessionOp::mac).
    pub number: u32,
    /// The algorithm. The module uses the algorithm's kernel name.
    pub algorithm: Algorithm,
}

/// Returns the row of a cipher for data of whole blocks, with an IV as long as a block.
const fn whole_blocks(
    number: u32,
    name: &'static str,
    algorithms: &'static [Algorithm],
    block_size: usize,
) -> CipherRow {
    CipherRow { number, name, algorithms, iv_len: block_size, block_size, is_stream: false }
}

/// Returns the row of a cipher or an AEAD for data of any length.
const fn any_length(
    number: u32,
    name: &'static str,
    algorithms: &'static [Algorithm],
    iv_len: usize,
    is_stream: bool,
) -> CipherRow {
    CipherRow { number, name, algorithms, iv_len, block_size: 1, is_stream }
}

/// Every cipher number that the kernel module accepts. The module answers EINVAL to the other numbers of its header. No version of Linux
/// has had the templates of the last two rows, which are AEADs.
pub static CIPHERS: &[CipherRow] = &[
    whole_blocks(1, "cbc(des)", &[], 8),
    whole_blocks(2, "cbc(des3_ede)", &[A::DesEde3Cbc], 8),
    whole_blocks(3, "cbc(blowfish)", &[], 8),
    whole_blocks(11, "cbc(aes)", &[A::Aes128Cbc, A::Aes192Cbc, A::Aes256Cbc], 16),
    any_length(16, "ecb(cipher_null)", &[A::Null], 0, true),
    any_length(21, "ctr(aes)", &[A::Aes128Ctr, A::Aes192Ctr, A::Aes256Ctr], 16, true),
    // For XTS, the module takes only whole blocks, without ciphertext stealing.
    whole_blocks(22, "xts(aes)", &[A::Aes128Xts, A::Aes256Xts], 16),
    CipherRow { iv_len: 0, ..whole_blocks(23, "ecb(aes)", &[A::Aes128Ecb, A::Aes192Ecb, A::Aes256Ecb], 16) },
    any_length(24, "cfb(aes)", &[A::Aes128Cfb, A::Aes192Cfb, A::Aes256Cfb], 16, false),
    any_length(25, "ofb(aes)", &[A::Aes128Ofb, A::Aes192Ofb, A::Aes256Ofb], 16, false),
    any_length(50, "gcm(aes)", &[A::Aes128Gcm, A::Aes192Gcm, A::Aes256Gcm], 12, true),
    any_length(51, "ccm(aes)", &[A::Aes128Ccm, A::Aes192Ccm, A::Aes256Ccm], 16, true),
    whole_blocks(101, "cbc(camellia)", &[], 16),
    whole_blocks(108, "tls11(hmac(sha1),cbc(aes))", &[], 16),
    whole_blocks(109, "tls12(hmac(sha256),cbc(aes))", &[], 16),
];

/// Every digest and MAC number that the module accepts.
pub static HASHES: &[HashRow] = &[
    HashRow { number: 6, algorithm: A::HmacMd5 },
    HashRow { number: 7, algorithm: A::HmacSha1 },
    HashRow { number: 8, algorithm: A::HmacRipemd160 },
    HashRow { number: 13, algorithm: A::Md5 },
    HashRow { number: 14, algorithm: A::Sha1 },
    HashRow { number: 18, algorithm: A::HmacSha256 },
    HashRow { number: 19, algorithm: A::HmacSha384 },
    HashRow { number: 20, algorithm: A::HmacSha512 },
    HashRow { number: 102, algorithm: A::Ripemd160 },
    HashRow { number: 103, algorithm: A::Sha224 },
    HashRow { number: 104, algorithm: A::Sha256 },
    HashRow { number: 105, algorithm: A::Sha384 },
    HashRow { number: 106, algorithm: A::Sha512 },
    HashRow { number: 107, algorithm: A::HmacSha224 },
];

/// Returns the cipher with this number.
pub fn cipher(number: u32) -> Option<&'static CipherRow> {
    CIPHERS.iter().find(|row| row.number == number)
}

/// Returns the digest or MAC with this number.
pub fn hash(number: u32) -> Option<&'static HashRow> {
    HASHES.iter().find(|row| row.number == number)
}

impl CipherRow {
    /// Returns true if the row is an AEAD, and false if it is a cipher without authentication.
    pub fn is_aead(&self) -> bool {
        // The AEADs of TLS, 108 and 109, have no algorithms.
        self.algorithms.first().is_some_and(|algorithm| algorithm.kind() == Kind::Aead) || self.number >= 108
    }

    /// Returns the row's algorithm for a key of `key_len` bytes.
    pub fn algorithm_for_key_len(&self, key_len: usize) -> Option<Algorithm> {
        self.algorithms.iter().copied().find(|algorithm| algorithm.info().key.allows(key_len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_match_the_algorithm_table() {
        for row in CIPHERS {
            for algorithm in row.algorithms {
                let info = algorithm.info();
                assert_eq!(info.kernel, row.name);
                match info.kind {
                    Kind::Cipher => assert!(info.iv.allows(row.iv_len) && row.block_size >= info.block, "{algorithm}"),
                    kind => assert_eq!(kind, Kind::Aead, "{algorithm}"),
                }
                assert_eq!(row.algorithm_for_key_len(info.key.min), Some(*algorithm));
            }
        }
        for row in HASHES {
            assert!(
                matches!(row.algorithm.kind(), Kind::Digest | Kind::Mac) && !row.algorithm.info().kernel.is_empty()
            );
        }
    }

    #[test]
    fn numbers_are_unique() {
        let mut numbers: Vec<u32> =
            CIPHERS.iter().map(|row| row.number).chain(HASHES.iter().map(|row| row.number)).collect();
        let all = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), all);
    }
}
