//! Halves of an algorithm.

/// Which way a session is used. Devices may prepare less for a session that goes one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Both ways; also the direction of digests, MACs, key exchange and compression.
    #[default]
    Both,
    /// Encrypt, seal, sign or encipher only. For encipherment, the key is then the public one. For key encapsulation: make keys and encapsulate,
    /// without a key of the session.
    Encrypt,
    /// Decrypt, open, verify, decipher or decapsulate only. For signatures, the key is then the public one.
    Decrypt,
}
