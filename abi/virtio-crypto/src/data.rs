//! Requests of data queues.
//!
//! The device reads the [`Header`], the fixed part, and the variable part, whose places [`Request::readable`] tells. It writes
//! the destination, the result of a digest, and one byte, the status.

use std::ops::Range;

use crate::bytes::{Reader, Write};
use crate::constants::{FLAG_SESSION_MODE, operation as op, sym_op};
use crate::session::{Aead, Akcipher, Direction, Hash, Mac, Session, read_stateless_chain, read_stateless_cipher};
use crate::{Error, Features};

/// Bytes of the header.
pub const HEADER: usize = 24;
/// Bytes of the fixed part of [`Features::LEGACY`].
pub const LEGACY: usize = 48;

/// `struct virtio_crypto_op_header`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Of [`operation`](crate::constants::operation).
    pub opcode: u32,
    /// The algorithm, which the session says, too.
    pub algo: u32,
    /// The session; without a meaning where the request brings its own parameters.
    pub session_id: u64,
    /// [`FLAG_SESSION_MODE`] or 0; without a meaning with [`Features::LEGACY`].
    pub flag: u32,
}

/// A request without its variable part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The parameters that it brings, where it names no session.
    pub own: Option<Session>,
    /// How much there is to do.
    pub lengths: Data,
    /// It has the form that can do without a session, in which associated data of a chain come before the source, not behind it.
    pub stateless_form: bool,
}

/// Lengths and places, in bytes, by service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// `struct virtio_crypto_cipher_para`.
    Cipher {
        /// The IV, the counter or the tweak.
        iv: u32,
        /// What is read.
        source: u32,
        /// What may be written.
        destination: u32,
    },
    /// `struct virtio_crypto_alg_chain_data_para`.
    Chain(Chain),
    /// `struct virtio_crypto_hash_para`.
    Hash {
        /// The message.
        source: u32,
        /// The digest.
        result: u32,
    },
    /// The same of a MAC.
    Mac {
        /// The message.
        source: u32,
        /// The MAC.
        result: u32,
    },
    /// `struct virtio_crypto_aead_para`.
    Aead {
        /// The nonce.
        iv: u32,
        /// Associated data.
        aad: u32,
        /// Plaintext; or ciphertext and tag.
        source: u32,
        /// Room for ciphertext and tag; or for plaintext.
        destination: u32,
        /// The tag, or 0 where the session says it: virtio 1.1 and Linux' header do not have the field.
        tag: u32,
    },
    /// `struct virtio_crypto_akcipher_para`.
    Akcipher {
        /// What is read; of a verification, the signature.
        source: u32,
        /// Room for the result; of a verification, the signed data, which are read, too.
        destination: u32,
    },
}

/// A cipher over one part of the source and a digest or MAC over another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// The IV.
    pub iv: u32,
    /// What is read.
    pub source: u32,
    /// What may be written, without the digest.
    pub destination: u32,
    /// Where the cipher's part begins.
    pub cipher_start: u32,
    /// Bytes of it.
    pub cipher_len: u32,
    /// Where the digest's part begins.
    pub hash_start: u32,
    /// Bytes of it.
    pub hash_len: u32,
    /// Associated data.
    pub aad: u32,
    /// The digest.
    pub result: u32,
}

/// Where the parts lie in what follows the fixed part. Numbers of a guest: they may be as large as sums of 32-bit lengths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readable {
    /// The key that the request brings.
    pub key: Range<u64>,
    /// The MAC's key that it brings.
    pub auth_key: Range<u64>,
    /// The IV.
    pub iv: Range<u64>,
    /// The source.
    pub source: Range<u64>,
    /// Associated data; of a verification, the signed data.
    pub aad: Range<u64>,
    /// Where the last of them ends.
    pub length: u64,
}

impl Header {
    /// From the front of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader(bytes);
        let (opcode, algo, session_id, flag) = (reader.u32()?, reader.u32()?, reader.u64()?, reader.u32()?);
        reader.take(4)?;
        Ok(Self { opcode, algo, session_id, flag })
    }

    /// All [`HEADER`] bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER);
        bytes.words(&[self.opcode, self.algo]);
        bytes.extend(self.session_id.to_le_bytes());
        bytes.words(&[self.flag, 0]);
        bytes
    }

    /// Of [`service`](crate::constants::service).
    pub fn service(&self) -> u32 {
        self.opcode >> 8
    }

    /// Whether the request brings its own parameters. With [`Features::revision_1`] and without the feature for that it then is one
    /// that a device should reject.
    pub fn is_stateless(&self, features: Features) -> bool {
        features.revision_1() && self.flag & FLAG_SESSION_MODE == 0
    }

    /// Bytes of the fixed part that follows.
    pub fn fixed_length(&self, features: Features) -> Result<usize, Error> {
        let (own, stateless) = match self.opcode {
            op::CIPHER_ENCRYPT | op::CIPHER_DECRYPT => (48, 76),
            op::HASH | op::MAC => (8, 16),
            op::AEAD_ENCRYPT | op::AEAD_DECRYPT => (24, 32),
            op::AKCIPHER_ENCRYPT | op::AKCIPHER_DECRYPT | op::AKCIPHER_SIGN | op::AKCIPHER_VERIFY => (8, 28),
            other => return Err(Error::Operation(other)),
        };
        Ok(match features.revision_1() {
            false => LEGACY,
            true if features.stateless(self.service()) => stateless,
            true => own,
        })
    }
}

impl Request {
    /// From the fixed part, which may be longer than its structure.
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
        Ok(Self { own: None, lengths, stateless_form: false })
    }

    /// The form of requests that can do without a session. Those that name one have parameters that mean nothing.
    fn parse_stateless(header: &Header, fixed: &[u8], brings: bool) -> Result<Self, Error> {
        let reader = &mut Reader(fixed);
        let (own, lengths) = match header.opcode {
            op::CIPHER_ENCRYPT | op::CIPHER_DECRYPT => {
                let parameters = &mut Reader(reader.take(72)?);
                match reader.u32()? {
                    sym_op::CIPHER => (own(parameters, brings, 12, read_stateless_cipher)?, read_cipher(parameters)?),
                    sym_op::ALGORITHM_CHAINING => {
                        let own = own(parameters, brings, 32, read_stateless_chain)?;
                        (own, Data::Chain(Chain::read(parameters)?))
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
                let session = if brings {
                    Some(Aead { algo, key_len, tag_len: tag, aad_len: aad, op: Direction::of(op)? })
                } else {
                    None
                };
                (session.map(Session::Aead), Data::Aead { iv, aad, source, destination, tag })
            }
            other => {
                let own = own(reader, brings, 20, |reader| Akcipher::read(reader).map(Session::Akcipher))?;
                (own, read_pair(other, reader)?)
            }
        };
        Ok(Self { own: own.filter(|_| brings), lengths, stateless_form: true })
    }

    /// Header and fixed part. The request has its own parameters only where the header says so.
    pub fn encode(&self, header: &Header, features: Features) -> Vec<u8> {
        let mut bytes = header.encode();
        // A request that has no length is for tests of those who read it.
        let end = HEADER + header.fixed_length(features).unwrap_or(LEGACY);
        let stateless = features.stateless(header.service());
        let own = self.own.as_ref().filter(|_| stateless && header.is_stateless(features));
        let symmetric = if stateless { 72 } else { 40 };
        match own {
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

    /// Where the parts lie that the device reads.
    pub fn readable(&self, header: &Header) -> Readable {
        let mut end = 0;
        let mut next = |length: u32| {
            let start = end;
            end += u64::from(length);
            start..end
        };
        let mut parts = Readable::default();
        if let Some(own) = &self.own {
            (parts.key, parts.auth_key) = (next(own.key_len()), next(own.auth_key_len()));
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

    /// Bytes that the device may write before the status: the destination, and the digest behind it.
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

/// The parameters that a request brings, or so many bytes that mean nothing.
fn own(
    reader: &mut Reader<'_>,
    brings: bool,
    length: usize,
    read: impl FnOnce(&mut Reader<'_>) -> Result<Session, Error>,
) -> Result<Option<Session>, Error> {
    let mut parameters = Reader(reader.take(length)?);
    brings.then(|| read(&mut parameters)).transpose()
}

fn read_cipher(reader: &mut Reader<'_>) -> Result<Data, Error> {
    Ok(Data::Cipher { iv: reader.u32()?, source: reader.u32()?, destination: reader.u32()? })
}

/// The services whose lengths are two.
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
    /// Bytes of the parameters before the lengths, in the form that can do without a session.
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
