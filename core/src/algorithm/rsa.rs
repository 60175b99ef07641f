//! RSA: how keys lie in memory.
//!
//! Signatures are those of RFC 8017, of digests of SHA-256, SHA-384 or SHA-512, which the length tells apart: PKCS #1 v1.5 (8.2), and
//! PSS (8.1) whose mask comes from the same function and whose salt has the length of the digest, as TLS 1.3 (RFC 8446, 4.2.3)
//! and JOSE (RFC 7518, 3.5) want it.
//!
//! Keys are of two primes of equal length. All numbers have their high byte first, and zeros before them. Of N bytes of the
//! modulus:
//!
//! | | bytes |
//! |---|---|
//! | modulus n | N |
//! | public exponent e | 4 |
//! | private exponent d | N |
//! | primes p and q | N / 2 each |
//! | d mod p - 1, d mod q - 1, and the inverse of q mod p | N / 2 each |
//!
//! The first two are a public key.

/// Bytes of a public exponent.
pub const EXPONENT: usize = 4;

/// Bytes of a public key with a modulus of so many bytes.
pub const fn public_length(modulus: usize) -> usize {
    modulus + EXPONENT
}

/// Bytes of a private key with a modulus of so many bytes.
pub const fn private_length(modulus: usize) -> usize {
    public_length(modulus) + modulus + 5 * (modulus / 2)
}
