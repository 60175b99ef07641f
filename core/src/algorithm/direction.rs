//! The direction of a session.

/// The direction in which a session is used. A device may prepare less for a session of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Both directions. Digests, MACs, key exchange and compression use this value, too.
    #[default]
    Both,
    /// Forward only: encrypt, seal, protect, encipher, sign, encapsulate, and make KEM keys.
    Encrypt,
    /// Backward only: decrypt, open, unprotect, decipher, verify and decapsulate.
    Decrypt,
}
