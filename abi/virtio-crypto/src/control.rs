//! Requests of the control queue, which create and destroy sessions.
//!
//! The device reads the [`Header`], the fixed part, and the keys: the cipher's, then the MAC's. The device writes [`encode_created`] for a
//! new session, and one byte, the status, for a destroyed one.

use crate::bytes::{Reader, Write};
use crate::constants::operation as op;
use crate::session::{Aead, Akcipher, Direction, Hash, Mac, Session, read_symmetric, write_symmetric};
use crate::{Error, Features, Status};

/// Bytes of the header.
pub const HEADER_LEN: usize = 16;
/// Bytes of the fixed part with [`Features::LEGACY`].
pub const LEGACY_FIXED_LEN: usize = 56;
/// Bytes that the device writes for a new session.
pub const CREATED_LEN: usize = 16;

/// `struct virtio_crypto_ctrl_header`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// A constant of [`operation`](crate::constants::operation).
    pub opcode: u32,
    /// The algorithm, which the parameters repeat.
    pub algo: u32,
    /// Unused by the specification.
    pub flag: u32,
    /// The data queue of the session; reserved since virtio 1.1.
    pub queue_id: u32,
}

/// A request of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Creates a session.
    Create(Session),
    /// Destroys the session with this number.
    Destroy(u64),
}

impl Header {
    /// Parses the front of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader(bytes);
        Ok(Self { opcode: reader.u32()?, algo: reader.u32()?, flag: reader.u32()?, queue_id: reader.u32()? })
    }

    /// Encodes all [`HEADER_LEN`] bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_LEN);
        bytes.put_words(&[self.opcode, self.algo, self.flag, self.queue_id]);
        bytes
    }

    /// Returns the number of bytes of the fixed part, which follows the header.
    pub fn fixed_length(&self, features: Features) -> Result<usize, Error> {
        let length = match self.opcode {
            op::CIPHER_CREATE_SESSION | op::AKCIPHER_CREATE_SESSION => 56,
            op::HASH_CREATE_SESSION => 8,
            op::MAC_CREATE_SESSION => 16,
            op::AEAD_CREATE_SESSION => 24,
            _ if self.is_destroy() => 8,
            other => return Err(Error::Operation(other)),
        };
        Ok(if features.has_revision_1() { length } else { LEGACY_FIXED_LEN })
    }

    /// Returns true if the request destroys a session. The device then writes only one byte.
    pub fn is_destroy(&self) -> bool {
        matches!(
            self.opcode,
            op::CIPHER_DESTROY_SESSION
                | op::HASH_DESTROY_SESSION
                | op::MAC_DESTROY_SESSION
                | op::AEAD_DESTROY_SESSION
                | op::AKCIPHER_DESTROY_SESSION
        )
    }
}

impl Request {
    /// Parses the fixed part, which may be longer than its structure.
    pub fn parse(header: &Header, fixed: &[u8]) -> Result<Self, Error> {
        let reader = &mut Reader(fixed);
        Ok(Self::Create(match header.opcode {
            op::CIPHER_CREATE_SESSION => read_symmetric(reader)?,
            op::HASH_CREATE_SESSION => Session::Hash(Hash { algo: reader.u32()?, result_len: reader.u32()? }),
            op::MAC_CREATE_SESSION => {
                Session::Mac(Mac { algo: reader.u32()?, result_len: reader.u32()?, key_len: reader.u32()? })
            }
            op::AEAD_CREATE_SESSION => Session::Aead(Aead {
                algo: reader.u32()?,
                key_len: reader.u32()?,
                tag_len: reader.u32()?,
                aad_len: reader.u32()?,
                op: Direction::from_number(reader.u32()?)?,
            }),
            op::AKCIPHER_CREATE_SESSION => Session::Akcipher(Akcipher::read(reader)?),
            _ if header.is_destroy() => return reader.u64().map(Self::Destroy),
            other => return Err(Error::Operation(other)),
        }))
    }

    /// Encodes the header and the fixed part. Each service has its own opcode for [`Request::Destroy`], which `service` selects.
    /// [`Request::Create`] ignores `service`.
    pub fn encode(&self, service: u32, features: Features) -> Vec<u8> {
        let (opcode, algo) = match self {
            Self::Create(session) => (create_opcode(session), algo(session)),
            Self::Destroy(_) => (destroy_opcode(service), 0),
        };
        let header = Header { opcode, algo, flag: 0, queue_id: 0 };
        let mut bytes = header.encode();
        match self {
            Self::Create(session @ (Session::Cipher(_) | Session::Chain(_))) => write_symmetric(session, &mut bytes),
            Self::Create(Session::Hash(hash)) => bytes.put_words(&[hash.algo, hash.result_len]),
            Self::Create(Session::Mac(mac)) => bytes.put_words(&[mac.algo, mac.result_len, mac.key_len, 0]),
            Self::Create(Session::Aead(aead)) => {
                bytes.put_words(&[aead.algo, aead.key_len, aead.tag_len, aead.aad_len, aead.op as u32, 0]);
            }
            Self::Create(Session::Akcipher(akcipher)) => akcipher.write(&mut bytes),
            Self::Destroy(session) => bytes.extend(session.to_le_bytes()),
        }
        // Only an unknown `service` gives an opcode without a length.
        bytes.pad_to(HEADER_LEN + header.fixed_length(features).unwrap_or(LEGACY_FIXED_LEN));
        bytes
    }
}

/// Encodes `struct virtio_crypto_session_input`, the answer of the device for a new session. The number of the session is valid only with
/// [`Status::Ok`].
pub fn encode_created(session: u64, status: Status) -> [u8; CREATED_LEN] {
    let mut bytes = [0; CREATED_LEN];
    bytes[..8].copy_from_slice(&session.to_le_bytes());
    bytes[8..12].copy_from_slice(&u32::from(status as u8).to_le_bytes());
    bytes
}

/// Parses the bytes of [`encode_created`]: the number of the session, and the status.
pub fn parse_created(bytes: &[u8]) -> Result<(u64, Status), Error> {
    let mut reader = Reader(bytes);
    let (session, status) = (reader.u64()?, reader.u32()?);
    let status = u8::try_from(status).ok().and_then(Status::from_number).ok_or(Error::Value("status"))?;
    Ok((session, status))
}

fn create_opcode(session: &Session) -> u32 {
    match session {
        Session::Cipher(_) | Session::Chain(_) => op::CIPHER_CREATE_SESSION,
        Session::Hash(_) => op::HASH_CREATE_SESSION,
        Session::Mac(_) => op::MAC_CREATE_SESSION,
        Session::Aead(_) => op::AEAD_CREATE_SESSION,
        Session::Akcipher(_) => op::AKCIPHER_CREATE_SESSION,
    }
}

fn destroy_opcode(service: u32) -> u32 {
    use crate::constants::{opcode, service as services};
    opcode(service, if service == services::AKCIPHER { 5 } else { 3 })
}

fn algo(session: &Session) -> u32 {
    match session {
        Session::Cipher(cipher) => cipher.algo,
        Session::Chain(chain) => chain.cipher.algo,
        Session::Hash(hash) => hash.algo,
        Session::Mac(mac) => mac.algo,
        Session::Aead(aead) => aead.algo,
        Session::Akcipher(akcipher) => akcipher.algorithm.words().0,
    }
}
