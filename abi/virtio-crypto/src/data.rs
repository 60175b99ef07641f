//! Requests of data queues.
//!
//! The device reads the [`Header`], the fixed part, and the variable part, which [`Request::readable`] splits. The device writes the
//! destination, the result of a digest, and a status byte.

use std::ops::Range;

use crate::bytes::{Reader, Write};
use crate::constants::{FLAG_SESSION_MODE, operation as op, sym_op};
use crate::session::{Aead, Akcipher, Direction, Hash, Mac, Session, read_stateless_chain, read_stateless_cipher};
use crate::{Error, Features};

/// Bytes of the header.
pub const HEADER: usize = 24;
/// Bytes of the fixed part with [`Features::LEGACY`].
pub const LEGACY: usize = 48;

/// `struct virtio_crypto_op_header`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// A constant of [`operation`](crate::constants::operation).
    pub opcode: u32,
    /// The algorithm of the request, or of its session.
    pub algo: u32,
    /// The session; unused if the request contains its own parameters.
    pub session_id: u64,
    /// [`FLAG_SESSION_MODE`] or 0; unused with [`Features::LEGACY`].
    pub flag: u32,
}

/// A request without its variable part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The parameters of a request without a session.
    pub session_parameters: Option<Session>,
    /// The lengths of the operands.
    pub lengths: Data,
    /// True for the form of [`Features::stateless`], even if the request names a session. In this form, a chain's associated data precede
    /// its source. In the other form they follow the source.
    pub stateless_form: bool,
}

/// Lengths and offsets of operands in bytes, by service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// `struct virtio_crypto_cipher_para`.
    Cipher {
        /// The length of the IV, the counter or the tweak.
        iv: u32,
        /// The length of the input.
        source: u32,
        /// The length of the space for the output.
        destination: u32,
    },
    /// `struct virtio_crypto_alg_chain_data_para`.
    Chain(Chain),
    /// `struct virtio_crypto_hash_para`.
    Hash {
        /// The length of the message.
        source: u32,
        /// The length of the digest.
        result: u32,
    },
    /// `struct virtio_crypto_mac_para`.
    Mac {
        /// The length of the message.
        source: u32,
        /// The length of the MAC.
        result: u32,
    },
    /// `struct virtio_crypto_aead_para`.
    Aead {
        /// The length of the nonce.
        iv: u32,
        /// The length of the associated data.
        aad: u32,
        /// The length of the plaintext, or of ciphertext and tag.
        source: u32,
        /// The length of the space for ciphertext and tag, or for the plaintext.
        destination: u32,
        /// The length of the tag; 0 stands for the session's [`tag_len`](crate::session::Aead::tag_len). Virtio 1.1 and Linux's header lack
        /// this field.
        tag: u32,
    },
    /// `struct virtio_crypto_akcipher_para`.
    Akcipher {
        /// The length of the input; in a verification, of the signature.
        source: u32,
        /// The length of the space for the result; in a verification, of the signed data, which are a second input.
        destination: u32,
    },
}

/// A cipher over one part of the source, and a digest or MAC over another part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// The length of the IV.
    pub iv: u32,
    /// The length of the input.
    pub source: u32,
    /// The length of the space for the output, without the digest.
    pub destination: u32,
    /// The offset of the cipher's part in the source.
    pub cipher_start: u32,
    /// The length of the cipher's part.
    pub cipher_len: u32,
    /// The offset of the digest's part in the source.
    pub hash_start: u32,
    /// The length of the digest's part.
    pub hash_len: u32,
    /// The length of the associated data.
    pub aad: u32,
    /// The length of the digest.
    pub result: u32,
}

/// The places of the operands in the variable part, relative to its start. The guest chooses the lengths, whose sum may exceed 32 bits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readable {
    /// The key in a request without a session.
    pub key: Range<u64>,
    /// The MAC's key in a request without a session.
    pub auth_key: Range<u64>,
    /// The IV.
    pub iv: Range<u64>,
    /// The source.
    pub source: Range<u64>,
    /// The associated data; in a verification, the signed data.
    pub aad: Range<u64>,
    /// The length of the variable part.
    pub length: u64,
}

impl Header {
    /// Parses the front of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader(bytes);
        let (opcode, algo, session_id, flag) = (reader.u32()?, reader.u32()?, reader.u64()?, reader.u32()?);
        reader.take(4)?;
        Ok(Self { opcode, algo, session_id, flag })
    }

    /// Encodes all [`HEADER`] bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER);
        bytes.words(&[self.opcode, self.algo]);
        bytes.extend(self.session_id.to_le_bytes());
        bytes.words(&[self.flag, 0]);
        bytes
    }

    /// Returns the service, a constant of [`service`](crate::constants::service).
    pub fn service(&self) -> u32 {
        self.opcode >> 8
    }

    /// Returns true if this request names no session. A device should reject such a request unless [`Features::stateless`] returns true for
    /// the request's service.
    pub fn is_stateless(&self, features: Features) -> bool {
        features.revision_1() && self.flag & FLAG_SESSION_MODE == 0
    }

    /// Returns the number of bytes of the fixed part, which follows the header.
    pub fn fixed_length(&self, features: Features) -> Result<usize, Error> {
        let (regular, stateless) = match self.opcode {
            op::CIPHER_ENCRYPT | op::CIPHER_DECRYPT => (48, 76),
            op::HASH | op::MAC => (8, 16),
            op::AEAD_ENCRYPT | op::AEAD_DECRYPT => (24, 32),
            op::AKCIPHER_ENCRYPT | op::AKCIPHER_DECRYPT | op::AKCIPHER_SIGN | op::AKCIPHER_VERIFY => (8, 28),
            other => return Err(Error::Operation(other)),
        };
        Ok(match features.revision_1() {
            false => LEGACY,
            true if features.stateless(self.service()) => stateless,
            true => regular,
        })
    }
}

impl Request {
    /// Parses the fixed part. Ignores bytes after its structure.
    pub fn parse(header: &Header, fixed: &[u8], features: Features) -> Result<Self, Error> {
        if features.stateless(header.service()) {
            return Self::parse_stateless(header, fixed, header.is_stateless(features));
        }
        let reader = &mut Reader(fixed);
        let lengths = match header.opcode {
            op::CIPHER_ENCRYPT | op::CIPHER_DECRYPT => {
                let mut parameters = Reader(reader.take(40)?);
                match reader.u32()? {
                    sym_op::CIPHER => read_cipher(&mut parameters)?,
                    sym_op::ALGORITHM_CHAINING => Data::Chain(Chain::read(&mut parameters)?),
                    _ => return Err(Error::Value("op_type")),
                }
            }
            op::AEAD_ENCRYPT | op::AEAD_DECRYPT => {
                let (iv, aad, source, destination) = (reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?);
                Data::Aead { iv, aad, source, destination, tag: reader.u32()? }
            }
            other => read_pair(other, reader)?,
        };
        Ok(Self { session_parameters: None, lengths, stateless_form: false })
    }

    /// Parses the stateless form. Skips the session parameters if the request names a session and so does not use them.
    fn parse_stateless(header: &Header, fixed: &[u8], is_stateless: bool) -> Result<Self, Error> {
        let reader = &mut Reader(fixed);
        let (session_parameters, lengths) = match header.opcode {
            op::CIPHER_ENCRYPT | op::CIPHER_DECRYPT => {
                let parameters = &mut Reader(reader.take(72)?);
                match reader.u32()? {
                    sym_op::CIPHER => (
                        read_parameters(parameters, is_stateless, 12, read_stateless_cipher)?,
                        read_cipher(parameters)?,
                    ),
                    sym_op::ALGORITHM_CHAINING => {
                        let session_parameters = read_parameters(parameters, is_stateless, 32, read_stateless_chain)?;
                        (session_parameters, Data::Chain(Chain::read(parameters)?))
                    }
                    _ => return Err(Error::Value("op_type")),
                }
            }
            op::HASH => {
                let (algo, source, result) = (reader.u32()?, reader.u32()?, reader.u32()?);
                (Some(Session::Hash(Hash { algo, result_len: result })), Data::Hash { source, result })
            }
            op::MAC => {
                let (algo, key_len, source, result) = (reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?);
                (Some(Session::Mac(Mac { algo, result_len: result, key_len })), Data::Mac { source, result })
            }
            op::AEAD_ENCRYPT | op::AEAD_DECRYPT => {
                let (algo, key_len, op) = (reader.u32()?, reader.u32()?, reader.u32()?);
                let (iv, tag, aad) = (reader.u32()?, reader.u32()?, reader.u32()?);
                let (source, destination) = (reader.u32()?, reader.u32()?);
                let session = if is_stateless {
                    Some(Aead { algo, key_len, tag_len: tag, aad_len: aad, op: Direction::from_number(op)? })
                } else {
                    None
                };
                (session.map(Session::Aead), Data::Aead { iv, aad, source, destination, tag })
            }
            other => {
                let session_parameters =
                    read_parameters(reader, is_stateless, 20, |reader| Akcipher::read(reader).map(Session::Akcipher))?;
                (session_parameters, read_pair(other, reader)?)
            }
        };
        Ok(Self { session_parameters: session_parameters.filter(|_| is_stateless), lengths, stateless_form: true })
    }

    /// Encodes the header and the fixed part. Includes session parameters only if the header names no session.
    pub fn encode(&self, header: &Header, features: Features) -> Vec<u8> {
        let mut bytes = header.encode();
        // Only tests encode an unknown opcode, whose length is not defined.
        let end = HEADER + header.fixed_length(features).unwrap_or(LEGACY);
        let stateless = features.stateless(header.service());
        let session_parameters =
            self.session_parameters.as_ref().filter(|_| stateless && header.is_stateless(features));
        let symmetric = if stateless { 72 } else { 40 };
        match session_parameters {
            Some(Session::Cipher(cipher)) => bytes.words(&[cipher.algo, cipher.key_len, cipher.op as u32]),
            Some(Session::Chain(chain)) => {
                bytes.words(&[chain.order as u32, chain.aad_len]);
                bytes.words(&[chain.cipher.algo, chain.cipher.key_len, chain.cipher.op as u32]);
                bytes.words(&[chain.hash_algo, chain.auth_key_len, chain.hash_mode as u32]);
            }
            Some(Session::Hash(hash)) => bytes.words(&[hash.algo]),
            Some(Session::Mac(mac)) => bytes.words(&[mac.algo, mac.key_len]),
            Some(Session::Aead(aead)) => bytes.words(&[aead.algo, aead.key_len, aead.op as u32]),
            Some(Session::Akcipher(akcipher)) => akcipher.write(&mut bytes),
            None if stateless => bytes.fill(HEADER + self.lengths.parameters()),
            None => {}
        }
        match self.lengths {
            Data::Cipher { iv, source, destination } => {
                bytes.words(&[iv, source, destination]);
                bytes.fill(HEADER + symmetric);
                bytes.words(&[sym_op::CIPHER]);
            }
            Data::Chain(chain) => {
                bytes.words(&[chain.iv, chain.source, chain.destination, chain.cipher_start, chain.cipher_len]);
                bytes.words(&[chain.hash_start, chain.hash_len, chain.aad, chain.result, 0]);
                bytes.fill(HEADER + symmetric);
                bytes.words(&[sym_op::ALGORITHM_CHAINING]);
            }
            Data::Hash { source, result } | Data::Mac { source, result } => bytes.words(&[source, result]),
            Data::Aead { iv, aad, source, destination, tag } if stateless => {
                bytes.words(&[iv, tag, aad, source, destination]);
            }
            Data::Aead { iv, aad, source, destination, tag } => bytes.words(&[iv, aad, source, destination, tag]),
            Data::Akcipher { source, destination } => bytes.words(&[source, destination]),
        }
        bytes.fill(end);
        bytes
    }

    /// Returns the places of the operands that the device reads.
    pub fn readable(&self, header: &Header) -> Readable {
        let mut end = 0;
        let mut next = |length: u32| {
            let start = end;
            end += u64::from(length);
            start..end
        };
        let mut parts = Readable::default();
        if let Some(session_parameters) = &self.session_parameters {
            (parts.key, parts.auth_key) = (next(session_parameters.key_len()), next(session_parameters.auth_key_len()));
        }
        match self.lengths {
            Data::Cipher { iv, source, .. } => (parts.iv, parts.source) = (next(iv), next(source)),
            Data::Chain(chain) if self.stateless_form => {
                (parts.iv, parts.aad, parts.source) = (next(chain.iv), next(chain.aad), next(chain.source));
            }
            Data::Chain(Chain { iv, source, aad, .. }) | Data::Aead { iv, source, aad, .. } => {
                (parts.iv, parts.source, parts.aad) = (next(iv), next(source), next(aad));
            }
            Data::Akcipher { source, destination } if header.opcode == op::AKCIPHER_VERIFY => {
                (parts.source, parts.aad) = (next(source), next(destination));
            }
            Data::Hash { source, .. } | Data::Mac { source, .. } | Data::Akcipher { source, .. } => {
                parts.source = next(source);
            }
        }
        parts.length = end;
        parts
    }

    /// Returns the numbers of bytes that the device may write before the status: the destination, then the digest.
    pub fn writable(&self, header: &Header) -> (u32, u32) {
        match self.lengths {
            Data::Chain(chain) => (chain.destination, chain.result),
            Data::Hash { result, .. } | Data::Mac { result, .. } => (0, result),
            Data::Akcipher { .. } if header.opcode == op::AKCIPHER_VERIFY => (0, 0),
            Data::Cipher { destination, .. } | Data::Aead { destination, .. } | Data::Akcipher { destination, .. } => {
                (destination, 0)
            }
        }
    }
}

/// Parses `length` bytes of parameters; skips them and returns `None` if `is_stateless` is false.
fn read_parameters(
    reader: &mut Reader<'_>,
    is_stateless: bool,
    length: usize,
    read: impl FnOnce(&mut Reader<'_>) -> Result<Session, Error>,
) -> Result<Option<Session>, Error> {
    let mut parameters = Reader(reader.take(length)?);
    is_stateless.then(|| read(&mut parameters)).transpose()
}

fn read_cipher(reader: &mut Reader<'_>) -> Result<Data, Error> {
    Ok(Data::Cipher { iv: reader.u32()?, source: reader.u32()?, destination: reader.u32()? })
}

/// Reads the operands of a service that has two lengths.
fn read_pair(opcode: u32, reader: &mut Reader<'_>) -> Result<Data, Error> {
    let (source, second) = (reader.u32()?, reader.u32()?);
    Ok(match opcode {
        op::HASH => Data::Hash { source, result: second },
        op::MAC => Data::Mac { source, result: second },
        op::AKCIPHER_ENCRYPT | op::AKCIPHER_DECRYPT | op::AKCIPHER_SIGN | op::AKCIPHER_VERIFY => {
            Data::Akcipher { source, destination: second }
        }
        other => return Err(Error::Operation(other)),
    })
}

impl Data {
    /// Returns the number of bytes of parameters before the lengths in the stateless form.
    fn parameters(&self) -> usize {
        match self {
            Self::Hash { .. } => 4,
            Self::Mac { .. } => 8,
            Self::Cipher { .. } | Self::Aead { .. } => 12,
            Self::Akcipher { .. } => 20,
            Self::Chain(_) => 32,
        }
    }
}

impl Chain {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        Ok(Self {
            iv: reader.u32()?,
            source: reader.u32()?,
            destination: reader.u32()?,
            cipher_start: reader.u32()?,
            cipher_len: reader.u32()?,
            hash_start: reader.u32()?,
            hash_len: reader.u32()?,
            aad: reader.u32()?,
            result: reader.u32()?,
        })
    }
}
