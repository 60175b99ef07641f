//! What algorithms do: kinds and their operations.

use std::fmt;

/// What an algorithm does, and with it which operations and operands it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Message in, digest out.
    Digest,
    /// Key and message in, authentication code out.
    Mac,
    /// Key, IV and data in, data of the same length out. No integrity, and no padding.
    Cipher,
    /// Authenticated encryption with associated data.
    Aead,
    /// Private key and message in, signature out; public key, message and signature in, yes or no out.
    Signature,
    /// Private key and the peer's public key in, shared secret out.
    Exchange,
}

impl Kind {
    /// The operations of this kind, in the order in which tables list them.
    pub const fn operations(self) -> &'static [Operation] {
        match self {
            Kind::Digest => &[Operation::Digest],
            Kind::Mac => &[Operation::Mac],
            Kind::Cipher => &[Operation::Encrypt, Operation::Decrypt],
            Kind::Aead => &[Operation::Seal, Operation::Open],
            Kind::Signature => &[Operation::Sign, Operation::Verify],
            Kind::Exchange => &[Operation::Derive],
        }
    }

    /// The name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Digest => "digest",
            Kind::Mac => "mac",
            Kind::Cipher => "cipher",
            Kind::Aead => "aead",
            Kind::Signature => "signature",
            Kind::Exchange => "exchange",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Plaintext to ciphertext, without integrity.
    Encrypt,
    /// Ciphertext to plaintext, without integrity.
    Decrypt,
    /// Plaintext to ciphertext and tag.
    Seal,
    /// Ciphertext and tag to plaintext, or nothing.
    Open,
    /// Message to digest.
    Digest,
    /// Message to authentication code.
    Mac,
    /// Message to signature.
    Sign,
    /// Message and signature to a verdict.
    Verify,
    /// The public key of a peer to the secret shared with it.
    Derive,
}

impl Operation {
    /// The name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Operation::Encrypt => "encrypt",
            Operation::Decrypt => "decrypt",
            Operation::Seal => "seal",
            Operation::Open => "open",
            Operation::Digest => "digest",
            Operation::Mac => "mac",
            Operation::Sign => "sign",
            Operation::Verify => "verify",
            Operation::Derive => "derive",
        }
    }

    /// Whether it takes what the other operation of its kind makes.
    #[inline]
    pub const fn is_back(self) -> bool {
        matches!(self, Operation::Decrypt | Operation::Open | Operation::Verify)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
