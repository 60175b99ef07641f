//! Kinds of algorithms.

use std::fmt;

/// The kind of an algorithm, which determines its operations and operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
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
    /// Key encapsulation (FIPS 203): a pair of keys is made; public key in, ciphertext and shared secret out; private key and ciphertext
    /// in, the same secret out.
    Kem,
    /// Data in, usually fewer bytes out, and back. The request returns the length of the result, which must fit in the buffer.
    Compression,
    /// A payload and its number in, a packet of a protocol out, and back: framed, padded, encrypted and authenticated.
    Packet,
    /// Public-key encryption: public key and short message in, ciphertext out; private key and ciphertext in, message out.
    Encipherment,
}

impl Kind {
    /// All kinds.
    pub const ALL: &'static [Kind] = &[
        Kind::Digest,
        Kind::Mac,
        Kind::Cipher,
        Kind::Aead,
        Kind::Signature,
        Kind::Exchange,
        Kind::Kem,
        Kind::Compression,
        Kind::Packet,
        Kind::Encipherment,
    ];

    /// Returns the name in messages.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Kind::Mac => "MAC",
            Kind::Aead => "AEAD",
            Kind::Kem => "KEM",
            other => other.name(),
        }
    }

    /// Returns the name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Digest => "digest",
            Kind::Mac => "mac",
            Kind::Cipher => "cipher",
            Kind::Aead => "aead",
            Kind::Signature => "signature",
            Kind::Exchange => "exchange",
            Kind::Kem => "kem",
            Kind::Compression => "compression",
            Kind::Packet => "packet",
            Kind::Encipherment => "encipherment",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
