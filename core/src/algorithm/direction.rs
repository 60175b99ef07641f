//! Halves of an algorithm.

/// Which way a session is used. Devices may prepare less for a session that goes one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Both ways; also the direction of digests, MACs, key exchange and compression.
    #[default]
    Both,
    /// From plaintext to ciphertext only.
    Encrypt,
    /// From ciphertext to plaintext only.
    Decrypt,
}
