//! RSA: the layout of keys in memory.
//!
//! Signatures follow RFC 8017: PKCS #1 v1.5 (8.2) and PSS (8.1). They sign a digest of SHA-256, SHA-384 or SHA-512; the length of the
//! digest tells which function made it. In PSS the mask uses the same function, and the salt has the length of the digest, as in TLS 1.3
//! (RFC 8446, 4.2.3) and JOSE (RFC 7518, 3.5).
//!
//! Encryption follows PKCS #1 v1.5 (RFC 8017, 7.2), or is the bare permutation (5.1) of numbers below the modulus, which is not secure
//! unless the caller pads them. Ciphertexts have the length of the modulus. Invalid padding of PKCS #1 v1.5 is
//! [`Malformed`](crate::Outcome::Malformed), in time that does not depend on the error. A protocol that reveals this outcome to a peer is
//! Bleichenbacher's oracle. The protocol must continue with random bytes in place of the message (RFC 5246, 7.4.7.1).
//!
//! A key has two primes of equal length. All numbers are big-endian, with leading zeros. For a modulus of N bytes:
//!
//! | | bytes |
//! |---|---|
//! | modulus n | N |
//! | public exponent e | 4 |
//! | private exponent d | N |
//! | primes p and q | N / 2 each |
//! | d mod (p - 1), d mod (q - 1), and the inverse of q mod p | N / 2 each |
//!
//! The first two rows are a public key, and all rows are a private key.

/// The length of a public exponent, in bytes.
pub const EXPONENT_LEN: usize = 4;

/// The minimum padding of PKCS #1 v1.5 in bytes: a message is shorter than the modulus by three fixed and at least eight random bytes.
pub const MIN_PADDING_LEN: usize = 11;

/// Returns the length of a public key with a modulus of `modulus` bytes.
pub const fn public_length(modulus: usize) -> usize {
    modulus + EXPONENT_LEN
}

/// Returns the length of a private key with a modulus of `modulus` bytes.
pub const fn private_length(modulus: usize) -> usize {
    public_length(modulus) + modulus + 5 * (modulus / 2)
}
