//! `/dev/crypto` of FreeBSD 14, whose numbers and ioctls differ from Linux's. The numbers come from `sys/opencrypto/cryptodev.h`.
//!
//! The driver of this repository uses Linux's interface. A driver for FreeBSD could start from these tables.

use Algorithm as A;
use gantry_core::Algorithm;

/// Plaintext to ciphertext. Linux has other numbers for both directions.
pub const OP_ENCRYPT: u16 = 1;
/// Ciphertext to plaintext.
pub const OP_DECRYPT: u16 = 2;

/// Name, direction and number of each ioctl of type `c`. The direction is 1 if the program passes data, 2 if it receives data, 3 for both.
pub const IOCTLS: [(&str, u8, u8); 6] = [
    ("CIOCGSESSION", 3, 101),
    ("CIOCFSESSION", 1, 102),
    ("CIOCCRYPT", 3, 103),
    ("CIOCGSESSION2", 3, 106),
    ("CIOCFINDDEV", 3, 108),
    ("CIOCCRYPTAEAD", 3, 109),
];

/// The algorithms of each number. A cipher has one number for all its key lengths.
pub const ALGORITHMS: &[(u32, &[Algorithm])] = &[
    (7, &[A::HmacSha1]),
    (8, &[A::HmacRipemd160]),
    (11, &[A::Aes128Cbc, A::Aes192Cbc, A::Aes256Cbc]),
    (14, &[A::Sha1]),
    (16, &[A::Null]),
    (18, &[A::HmacSha256]),
    (19, &[A::HmacSha384]),
    (20, &[A::HmacSha512]),
    (22, &[A::Aes128Xts, A::Aes256Xts]),
    (23, &[A::Aes128Ctr, A::Aes192Ctr, A::Aes256Ctr]),
    (24, &[A::Aes128Gmac, A::Aes192Gmac, A::Aes256Gmac]),
    (25, &[A::Aes128Gcm, A::Aes192Gcm, A::Aes256Gcm]),
    (31, &[A::ChaCha20]),
    (32, &[A::HmacSha224]),
    (33, &[A::Ripemd160]),
    (34, &[A::Sha224]),
    (35, &[A::Sha256]),
    (36, &[A::Sha384]),
    (37, &[A::Sha512]),
    (38, &[A::Poly1305]),
    (40, &[A::Aes128Ccm, A::Aes192Ccm, A::Aes256Ccm]),
    (41, &[A::ChaCha20Poly1305]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_algorithms_are_unique() {
        let mut numbers: Vec<u32> = ALGORITHMS.iter().map(|row| row.0).collect();
        numbers.sort_unstable();
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]));
        let mut all: Vec<Algorithm> = ALGORITHMS.iter().flat_map(|row| row.1).copied().collect();
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(IOCTLS.windows(2).all(|pair| pair[0].2 < pair[1].2));
    }
}
