//! Requests of data queues.
//!
//! The device reads the [`Header`], the fixed part, and the readable portion of the variable part, which [`Request::readable_ranges`]
//! splits into operands. The device writes the destination, the result of a digest, and a status byte.

use std::ops::Range;

use crate::bytes::{Reader, Write};
use crate::constants::{FLAG_SESSION_MODE, operation as op, sym_op};
use crate::session::{Aead, Akcipher, Direction, Hash, Mac, Session, read_stateless_chain, read_stateless_cipher};
use crate::{Error, Features};

/// Bytes of the header.
pub const HEADER_LEN: usize = 24;
/// Bytes of the fixed part with [`Features::LEGACY`].
pub const LEGACY_FIXED_LEN: usize = 48;

/// `struct virtio_crypto_op_header`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// A constant of [`operation`](crate::constants::operation).
    pub opcode: u32,
    /// The algorithm of the request, or of its session.
    pub algo: u32,
    /// The number of the session; unused if the request contains its own parameters.
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
    pub lengths: OperandLengths,
    /// True if the fixed part has the stateless layout of [`Features::has_stateless_mode`]. The request may still name a session.
    /// With this layout, the associated data of a chain precede the source; without it, they follow the source.
    pub has_stateless_layout: bool,
}

/// Lengths and offsets of operands in bytes, by service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperandLengths {
    /// `struct virtio_crypto_cipher_para`.
    Cipher {
        /// The length of the IV, the counter or the tweak.
        iv_len: u32,
        /// The length of the input.
        source_len: u32,
        /// The length of the space for the output.
        destination_len: u32,
    },
    /// `struct virtio_crypto_alg_chain_data_para`.
    Chain(ChainLengths),
    /// `struct virtio_crypto_hash_para`.
    Hash {
        /// The length of the message.
        source_len: u32,
        /// The length of the digest.
        result_len: u32,
    },
    /// `struct virtio_crypto_mac_para`.
    Mac {
        /// The length of the message.
        source_len: u32,
        /// The length of the MAC.
        result_len: u32,
    },
    /// `struct virtio_crypto_aead_para`.
    Aead {
        /// The length of the nonce.
        iv_len: u32,
        /// The length of the associated data.
        aad_len: u32,
        /// The length of the plaintext, or of ciphertext and tag.
        source_len: u32,
        /// The length of the space for ciphertext and tag, or for the plaintext.
        destination_len: u32,
        /// The length of the tag; 0 stands for the session's [`tag_len`](crate::session::Aead::tag_len). Virtio 1.1 and Linux's header lack
        /// this field.
        tag_len: u32,
    },
    /// `struct virtio_crypto_akcipher_para`.
    Akcipher {
        /// The length of the input; in a verification, of the signature.
        source_len: u32,
        /// The length of the space for the result; in a verification, of the signed data, which are a second input.
        destination_len: u32,
    },
}

/// Lengths and offsets of a chain: a cipher over one range of the source, and a digest or MAC over a second range, which may overlap it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChainLengths {
    /// The length of the IV.
    pub iv_len: u32,
    /// The length of the input.
    pub source_len: u32,
    /// The length of the space for the output, without the digest.
    pub destination_len: u32,
    /// The offset of the cipher's part in the source.
    pub cipher_start: u32,
    /// The length of the cipher's part.
    pub cipher_len: u32,
    /// The offset of the digest's part in the source.
    pub hash_start: u32,
    /// The length of the digest's part.
    pub hash_len: u32,
    /// The length of the associated data.
    pub aad_len: u32,
    /// The length of the digest.
    pub result_len: u32,
}

/// The ranges of the operands in the variable part, in bytes from its start. They have 64 bits, because the sum of the guest's 32-bit
/// lengths may exceed 32 bits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadableRanges {
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
    /// The length of the readable portion of the variable part, in bytes.
    pub total_len: u64,
}

impl Header {
    /// Parses the front of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader(bytes);
        let (opcode, algo, session_id, flag) = (reader.u32()?, reader.u32()?, reader.u64()?, reader.u32()?);
        reader.take(4)?;
        Ok(Self { opcode, algo, session_id, flag })
    }

    /// Encodes all [`HEADER_LEN`] bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_LEN);
        bytes.put_words(&[self.opcode, self.algo]);
        bytes.extend(self.session_id.to_le_bytes());
        bytes.put_words(&[self.flag, 0]);
        bytes
    }

    /// Returns the service, a constant of [`service`](crate::constants::service).
    pub fn service(&self) -> u32 {
        self.opcode >> 8
    }

    /// Returns true if this request names no session. A device should reject such a request unless [`Features::has_stateless_mode`] returns
    /// true for the request's service.
    pub fn is_stateless(&self, features: Features) -> bool {
        features.has_revision_1() && self.flag & FLAG_SESSION_MODE == 0
    }

    /// Returns the number of bytes of the fixed part, which follows the header.
    pub fn fixed_length(&self, features: Features) -> Result<usize, Error> {
        let (regular_len, stateless_len) = match self.opcode {
            op::CIPHER_ENCRYPT | op::CIPHER_DECRYPT => (48, 76),
            op::HASH | op::MAC => (8, 16),
            op::AEAD_ENCRYPT | op::AEAD_DECRYPT => (24, 32),
            op::AKCIPHER_ENCRYPT | op::AKCIPHER_DECRYPT | op::AKCIPHER_SIGN | op::AKCIPHER_VERIFY => (8, 28),
            other => return Err(Error::Operation(other)),
        };
        Ok(match features.has_revision_1() {
            false => LEGACY_FIXED_LEN,
            true if features.has_stateless_mode(self.service()) => stateless_len,
            true => regular_len,
        })
    }
}

impl Request {
    /// Parses the fixed part. Ignores further bytes.
    pub fn parse(header: &Header, fixed: &[u8], features: Features) -> Result<Self, Error> {
        if features.has_stateless_mode(header.service()) {
            return Self::parse_stateless_layout(header, fixed, header.is_stateless(features));
        }
        let reader = &mut Reader(fixed);
        let lengths = match header.opcode {
            op::CIPHER_ENCRYPT | op::CIPHER_DECRYPT => {
                // `op_type` follows a union, and tells which member the union contains.
                let union_reader = &mut Reader(reader.take(40)?);
                match reader.u32()? {
                    sym_op::CIPHER => read_cipher_lengths(union_reader)?,
                    sym_op::ALGORITHM_CHAINING => OperandLengths::Chain(ChainLengths::read(union_reader)?),
                    _ => return Err(Error::Value("op_type")),
                }
            }
            op::AEAD_ENCRYPT | op::AEAD_DECRYPT => {
                let (iv_len, aad_len, source_len, destination_len) =
                    (reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?);
                OperandLengths::Aead { iv_len, aad_len, source_len, destination_len, tag_len: reader.u32()? }
            }
            other => read_length_pair(other, reader)?,
        };
        Ok(Self { session_parameters: None, lengths, has_stateless_layout: false })
    }

    /// Parses a fixed part with the stateless layout. Skips the session parameters unless `is_stateless`, because a request that names a
    /// session does not use them.
    fn parse_stateless_layout(header: &Header, fixed: &[u8], is_stateless: bool) -> Result<Self, Error> {
        let reader = &mut Reader(fixed);
        let (session_parameters, lengths) = match header.opcode {
            op::CIPHER_ENCRYPT | op::CIPHER_DECRYPT => {
                let union_reader = &mut Reader(reader.take(72)?);
                match reader.u32()? {
                    sym_op::CIPHER => (
                        read_session_parameters(union_reader, is_stateless, 12, read_stateless_cipher)?,
                        read_cipher_lengths(union_reader)?,
                    ),
                    sym_op::ALGORITHM_CHAINING => {
                        let session_parameters =
                            read_session_parameters(union_reader, is_stateless, 32, read_stateless_chain)?;
                        (session_parameters, OperandLengths::Chain(ChainLengths::read(union_reader)?))
                    }
                    _ => return Err(Error::Value("op_type")),
                }
            }
            op::HASH => {
                let (algo, source_len, result_len) = (reader.u32()?, reader.u32()?, reader.u32()?);
                (Some(Session::Hash(Hash { algo, result_len })), OperandLengths::Hash { source_len, result_len })
            }
            op::MAC => {
                let (algo, key_len, source_len, result_len) =
                    (reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?);
                (Some(Session::Mac(Mac { algo, result_len, key_len })), OperandLengths::Mac { source_len, result_len })
            }
            op::AEAD_ENCRYPT | op::AEAD_DECRYPT => {
                let (algo, key_len, direction) = (reader.u32()?, reader.u32()?, reader.u32()?);
                let (iv_len, tag_len, aad_len) = (reader.u32()?, reader.u32()?, reader.u32()?);
                let (source_len, destination_len) = (reader.u32()?, reader.u32()?);
                let session = if is_stateless {
                    Some(Aead { algo, key_len, tag_len, aad_len, op: Direction::from_number(direction)? })
                } else {
                    None
                };
                (
                    session.map(Session::Aead),
                    OperandLengths::Aead { iv_len, aad_len, source_len, destination_len, tag_len },
                )
            }
            other => {
                let session_parameters = read_session_parameters(reader, is_stateless, 20, |reader| {
                    Akcipher::read(reader).map(Session::Akcipher)
                })?;
                (session_parameters, read_length_pair(other, reader)?)
            }
        };
        Ok(Self {
            // The branches of digests and MACs always parse their parameters.
            session_parameters: session_parameters.filter(|_| is_stateless),
            lengths,
            has_stateless_layout: true,
        })
    }

    /// Encodes the header and the fixed part, in the layout that the features choose; ignores `has_stateless_layout`. Includes session
    /// parameters only if the header names no session.
    pub fn encode(&self, header: &Header, features: Features) -> Vec<u8> {
        let mut bytes = header.encode();
        // An unknown opcode has no defined length. Devices refuse it at any length.
        let end = HEADER_LEN + header.fixed_length(features).unwrap_or(LEGACY_FIXED_LEN);
        let has_stateless_layout = features.has_stateless_mode(header.service());
        let session_parameters =
            self.session_parameters.as_ref().filter(|_| has_stateless_layout && header.is_stateless(features));
        let op_type_offset = if has_stateless_layout { 72 } else { 40 };
        match session_parameters {
            Some(Session::Cipher(cipher)) => bytes.put_words(&[cipher.algo, cipher.key_len, cipher.op as u32]),
            Some(Session::Chain(chain)) => {
                bytes.put_words(&[chain.order as u32, chain.aad_len]);
                bytes.put_words(&[chain.cipher.algo, chain.cipher.key_len, chain.cipher.op as u32]);
                bytes.put_words(&[chain.hash_algo, chain.auth_key_len, chain.hash_mode as u32]);
            }
            Some(Session::Hash(hash)) => bytes.put_words(&[hash.algo]),
            Some(Session::Mac(mac)) => bytes.put_words(&[mac.algo, mac.key_len]),
            Some(Session::Aead(aead)) => bytes.put_words(&[aead.algo, aead.key_len, aead.op as u32]),
            Some(Session::Akcipher(akcipher)) => akcipher.write(&mut bytes),
            None if has_stateless_layout => bytes.pad_to(HEADER_LEN + self.lengths.session_parameters_len()),
            None => {}
        }
        match self.lengths {
            OperandLengths::Cipher { iv_len, source_len, destination_len } => {
                bytes.put_words(&[iv_len, source_len, destination_len]);
                bytes.pad_to(HEADER_LEN + op_type_offset);
                bytes.put_words(&[sym_op::CIPHER]);
            }
            OperandLengths::Chain(chain) => {
                bytes.put_words(&[
                    chain.iv_len,
                    chain.source_len,
                    chain.destination_len,
                    chain.cipher_start,
                    chain.cipher_len,
                ]);
                bytes.put_words(&[chain.hash_start, chain.hash_len, chain.aad_len, chain.result_len, 0]);
                bytes.pad_to(HEADER_LEN + op_type_offset);
                bytes.put_words(&[sym_op::ALGORITHM_CHAINING]);
            }
            OperandLengths::Hash { source_len, result_len } | OperandLengths::Mac { source_len, result_len } => {
                bytes.put_words(&[source_len, result_len]);
            }
            OperandLengths::Aead { iv_len, aad_len, source_len, destination_len, tag_len } if has_stateless_layout => {
                bytes.put_words(&[iv_len, tag_len, aad_len, source_len, destination_len]);
            }
            OperandLengths::Aead { iv_len, aad_len, source_len, destination_len, tag_len } => {
                bytes.put_words(&[iv_len, aad_len, source_len, destination_len, tag_len]);
            }
            OperandLengths::Akcipher { source_len, destination_len } => bytes.put_words(&[source_len, destination_len]),
        }
        bytes.pad_to(end);
        bytes
    }

    /// Returns the ranges of the operands that the device reads.
    pub fn readable_ranges(&self, header: &Header) -> ReadableRanges {
        let mut end = 0;
        let mut take = |length: u32| {
            let start = end;
            end += u64::from(length);
            start..end
        };
        let mut ranges = ReadableRanges::default();
        if let Some(session_parameters) = &self.session_parameters {
            (ranges.key, ranges.auth_key) =
                (take(session_parameters.key_len()), take(session_parameters.auth_key_len()));
        }
        match self.lengths {
            OperandLengths::Cipher { iv_len, source_len, .. } => {
                (ranges.iv, ranges.source) = (take(iv_len), take(source_len));
            }
            OperandLengths::Chain(chain) if self.has_stateless_layout => {
                (ranges.iv, ranges.aad, ranges.source) =
                    (take(chain.iv_len), take(chain.aad_len), take(chain.source_len));
            }
            OperandLengths::Chain(ChainLengths { iv_len, source_len, aad_len, .. })
            | OperandLengths::Aead { iv_len, source_len, aad_len, .. } => {
                (ranges.iv, ranges.source, ranges.aad) = (take(iv_len), take(source_len), take(aad_len));
            }
            OperandLengths::Akcipher { source_len, destination_len } if header.opcode == op::AKCIPHER_VERIFY => {
                (ranges.source, ranges.aad) = (take(source_len), take(destination_len));
            }
            OperandLengths::Hash { source_len, .. }
            | OperandLengths::Mac { source_len, .. }
            | OperandLengths::Akcipher { source_len, .. } => {
                ranges.source = take(source_len);
            }
        }
        ranges.total_len = end;
        ranges
    }

    /// Returns the numbers of bytes that the device may write before the status: the destination, then the digest.
    pub fn writable_lengths(&self, header: &Header) -> (u32, u32) {
        match self.lengths {
            OperandLengths::Chain(chain) => (chain.destination_len, chain.result_len),
            OperandLengths::Hash { result_len, .. } | OperandLengths::Mac { result_len, .. } => (0, result_len),
            OperandLengths::Akcipher { .. } if header.opcode == op::AKCIPHER_VERIFY => (0, 0),
            OperandLengths::Cipher { destination_len, .. }
            | OperandLengths::Aead { destination_len, .. }
            | OperandLengths::Akcipher { destination_len, .. } => (destination_len, 0),
        }
    }
}

/// Takes `length` bytes from `reader`. Parses them as session parameters if `is_stateless`, and otherwise skips them and returns `None`.
fn read_session_parameters(
    reader: &mut Reader<'_>,
    is_stateless: bool,
    length: usize,
    read: impl FnOnce(&mut Reader<'_>) -> Result<Session, Error>,
) -> Result<Option<Session>, Error> {
    let mut parameters = Reader(reader.take(length)?);
    is_stateless.then(|| read(&mut parameters)).transpose()
}

fn read_cipher_lengths(reader: &mut Reader<'_>) -> Result<OperandLengths, Error> {
    Ok(OperandLengths::Cipher { iv_len: reader.u32()?, source_len: reader.u32()?, destination_len: reader.u32()? })
}

/// Reads the two lengths of a digest, a MAC or a public-key operation: of the source, and of the result or destination.
fn read_length_pair(opcode: u32, reader: &mut Reader<'_>) -> Result<OperandLengths, Error> {
    let (source_len, second) = (reader.u32()?, reader.u32()?);
    Ok(match opcode {
        op::HASH => OperandLengths::Hash { source_len, result_len: second },
        op::MAC => OperandLengths::Mac { source_len, result_len: second },
        op::AKCIPHER_ENCRYPT | op::AKCIPHER_DECRYPT | op::AKCIPHER_SIGN | op::AKCIPHER_VERIFY => {
            OperandLengths::Akcipher { source_len, destination_len: second }
        }
        other => return Err(Error::Operation(other)),
    })
}

impl OperandLengths {
    /// Returns the number of bytes of session parameters that precede the lengths in the stateless layout.
    fn session_parameters_len(&self) -> usize {
        match self {
            Self::Hash { .. } => 4,
            Self::Mac { .. } => 8,
            Self::Cipher { .. } | Self::Aead { .. } => 12,
            Self::Akcipher { .. } => 20,
            Self::Chain(_) => 32,
        }
    }
}

impl ChainLengths {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        Ok(Self {
            iv_len: reader.u32()?,
            source_len: reader.u32()?,
            destination_len: reader.u32()?,
            cipher_start: reader.u32()?,
            cipher_len: reader.u32()?,
            hash_start: reader.u32()?,
            hash_len: reader.u32()?,
            aad_len: reader.u32()?,
            result_len: reader.u32()?,
        })
    }
}
