//! The direction of a session.

/// The direction in which a session is used. A device may prepare less for a session of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Both directions. Digests, MACs, key exchange and compression use this value, too.
    #[default]
    Both,
    /// From plaintext to ciphertext only.
    Encrypt,
    /// From ciphertext to plaintext only.
    Decrypt,
}
