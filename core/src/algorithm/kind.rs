//! What algorithms do: kinds and their operations.

use std::fmt;

/// What an algorithm does, and with it which operations and operands it has.
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
    /// Data in, fewer bytes out that tell them, and back. The length of the result is known when it is there, and is at most that of the
    /// buffer for it.
    Compression,
    /// A payload and its number in, a packet of a protocol out, and back: framed, padded, encrypted and authenticated.
    Packet,
    /// Public-key encryption: public key and short message in, ciphertext out; private key and ciphertext in, message out.
    Encipherment,
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
            Kind::Kem => &[Operation::KeyGen, Operation::Encapsulate, Operation::Decapsulate],
            Kind::Compression => &[Operation::Compress, Operation::Decompress],
            Kind::Packet => &[Operation::Protect, Operation::Unprotect],
            Kind::Encipherment => &[Operation::Encipher, Operation::Decipher],
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

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
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
    /// Random bytes to a private and a public key.
    KeyGen,
    /// The public key of a peer to a secret, and to a ciphertext that tells it to the peer.
    Encapsulate,
    /// Such a ciphertext to its secret.
    Decapsulate,
    /// Data to what tells them in fewer bytes.
    Compress,
    /// What was compressed to the data.
    Decompress,
    /// A payload to a packet.
    Protect,
    /// A packet to its payload, or nothing.
    Unprotect,
    /// A short message to a ciphertext for the owner of a public key.
    Encipher,
    /// Such a ciphertext to its message.
    Decipher,
}

impl Operation {
    /// All of them.
    pub const ALL: &'static [Operation] = &[
        Operation::Encrypt,
        Operation::Decrypt,
        Operation::Seal,
        Operation::Open,
        Operation::Digest,
        Operation::Mac,
        Operation::Sign,
        Operation::Verify,
        Operation::Derive,
        Operation::KeyGen,
        Operation::Encapsulate,
        Operation::Decapsulate,
        Operation::Compress,
        Operation::Decompress,
        Operation::Protect,
        Operation::Unprotect,
        Operation::Encipher,
        Operation::Decipher,
    ];

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
            Operation::KeyGen => "keygen",
            Operation::Encapsulate => "encapsulate",
            Operation::Decapsulate => "decapsulate",
            Operation::Compress => "compress",
            Operation::Decompress => "decompress",
            Operation::Protect => "protect",
            Operation::Unprotect => "unprotect",
            Operation::Encipher => "encipher",
            Operation::Decipher => "decipher",
        }
    }

    /// Its place among the [operations](Kind::operations) of its kind.
    #[inline]
    pub const fn index(self) -> usize {
        match self {
            Operation::Encrypt
            | Operation::Seal
            | Operation::Digest
            | Operation::Mac
            | Operation::Sign
            | Operation::Derive
            | Operation::KeyGen
            | Operation::Compress
            | Operation::Protect
            | Operation::Encipher => 0,
            Operation::Decrypt
            | Operation::Open
            | Operation::Verify
            | Operation::Encapsulate
            | Operation::Decompress
            | Operation::Unprotect
            | Operation::Decipher => 1,
            Operation::Decapsulate => 2,
        }
    }

    /// Whether it is one of key encapsulation.
    #[inline]
    pub const fn is_of_kem(self) -> bool {
        matches!(self, Operation::KeyGen | Operation::Encapsulate | Operation::Decapsulate)
    }

    /// Whether it is one of compression.
    #[inline]
    pub const fn is_of_compression(self) -> bool {
        matches!(self, Operation::Compress | Operation::Decompress)
    }

    /// Whether a result may take the place of its data.
    #[inline]
    pub(crate) const fn may_be_in_place(self) -> bool {
        !matches!(self, Operation::Compress | Operation::Decompress | Operation::Encipher | Operation::Decipher)
    }

    /// Whether it is one of those that came last, which have operands of their own and take long: one look tells.
    #[inline]
    pub(crate) const fn is_rare(self) -> bool {
        self as u8 >= Operation::KeyGen as u8
    }

    /// Whether it is one on packets.
    #[inline]
    pub const fn is_of_packets(self) -> bool {
        matches!(self, Operation::Protect | Operation::Unprotect)
    }

    /// Whether it finds out what the other operation of its kind cannot have made.
    pub const fn finds_forgeries(self) -> bool {
        matches!(self, Operation::Open | Operation::Verify | Operation::Decompress | Operation::Unprotect)
    }

    /// Whether it takes what the other operation of its kind makes.
    #[inline]
    pub const fn is_back(self) -> bool {
        matches!(
            self,
            Operation::Decrypt
                | Operation::Open
                | Operation::Verify
                | Operation::Decapsulate
                | Operation::Decompress
                | Operation::Unprotect
                | Operation::Decipher
        )
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_knows_its_place_in_its_kind() {
        use Kind::*;
        for kind in [Digest, Mac, Cipher, Aead, Signature, Exchange, Kem, Compression, Packet, Encipherment] {
            for (place, operation) in kind.operations().iter().enumerate() {
                assert_eq!(operation.index(), place, "{kind}: {operation}");
            }
        }
    }
}
