//! The two session messages of vhost-user: VHOST_USER_CREATE_CRYPTO_SESSION and VHOST_USER_CLOSE_CRYPTO_SESSION.
//!
//! The protocol's documentation is incomplete. The payload of the first message is a C structure, with pointers that a receiver
//! ignores. There are three versions:
//!
//! | [`Layout`] | bytes | program | fields |
//! |---|---|---|---|
//! | [`Symmetric`](Layout::Symmetric) | 632 | sent by QEMU 2.11 to 8.0 | number of the session, parameters |
//! | [`Shifted`](Layout::Shifted) | 632 | expected by DPDK 17.11 to 24.11 | number of the session, operation, parameters |
//! | [`Tagged`](Layout::Tagged) | 1,072 | QEMU since 8.1, DPDK since 25.03 | operation, parameters, number of the session |
//!
//! [`Layout::detect`] distinguishes them.

use zeroize::Zeroizing;

use crate::Error;
use crate::bytes::{Reader, Write};
use crate::constants::operation as op;
use crate::constants::sym_op;
use crate::session::{Akcipher, Chain, Cipher, Direction, PublicKey, Session, hash_mode, key_type, order};

/// VHOST_USER_CREATE_CRYPTO_SESSION. The answer is the payload of the message with the number of the session filled in.
pub const CREATE_CRYPTO_SESSION: u32 = 26;
/// VHOST_USER_CLOSE_CRYPTO_SESSION: the session's number, 8 bytes.
pub const CLOSE_CRYPTO_SESSION: u32 = 27;
/// VHOST_USER_PROTOCOL_F_CRYPTO_SESSION, a bit number: the front end sends the two messages above.
pub const PROTOCOL_F_CRYPTO_SESSION: u32 = 7;
/// The number in an answer if no session was created.
pub const NO_SESSION: i64 = -1;

/// The size of the field for a cipher's key, in bytes.
const CIPHER_KEY_SIZE: usize = 64;
/// The size of the field for a MAC's key, in bytes.
const AUTH_KEY_SIZE: usize = 512;
/// The size of the field for a public or private key, in bytes.
const PUBLIC_KEY_SIZE: usize = 1024;

/// The layout of the payload in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Number of the session, parameters: 632 bytes.
    Symmetric,
    /// Number of the session, operation of 4 bytes, parameters: 632 bytes.
    Shifted,
    /// Operation of 8 bytes, parameters, number of the session: 1,072 bytes.
    Tagged,
}

/// A front end's request for a session, with its keys.
#[derive(Clone)]
pub struct Create {
    /// The layout of the payload, and of its answer.
    pub layout: Layout,
    /// The parameters.
    pub session: Session,
    /// The key of the cipher, or the public or private key.
    pub key: Zeroizing<Vec<u8>>,
    /// The key of the MAC.
    pub auth_key: Zeroizing<Vec<u8>>,
}

impl Layout {
    /// Returns the size of the payload, in bytes.
    pub const fn length(self) -> usize {
        match self {
            Self::Symmetric | Self::Shifted => 632,
            Self::Tagged => 1072,
        }
    }

    /// Detects the layout of a payload.
    ///
    /// A payload of 632 bytes is [`Shifted`](Self::Shifted) if two conditions hold. The word after the number of the session is
    /// CIPHER_CREATE_SESSION, and the kind and direction of the session are valid at their places in this layout only. Otherwise
    /// it is [`Symmetric`](Self::Symmetric).
    ///
    /// # Errors
    /// [`Error::Short`] if no layout has the length of the payload.
    pub fn detect(payload: &[u8]) -> Result<Self, Error> {
        match payload.len() {
            1072 => Ok(Self::Tagged),
            632 => {
                // Kind and direction are bytes 24 and 25 of the parameters, which begin at byte 8, or at byte 12 if shifted.
                let has_kind_and_direction = |at: usize| payload[at..at + 2].iter().all(|byte| (1..=2).contains(byte));
                let operation = Reader(&payload[8..]).u32()?;
                let is_shifted =
                    operation == op::CIPHER_CREATE_SESSION && has_kind_and_direction(36) && !has_kind_and_direction(32);
                Ok(if is_shifted { Self::Shifted } else { Self::Symmetric })
            }
            _ => Err(Error::Short),
        }
    }

    /// Turns a payload of this layout into its answer: writes the number of the session, or [`NO_SESSION`].
    pub fn write_answer(self, payload: &mut [u8], session: i64) -> Result<(), Error> {
        let at = if self == Self::Tagged { self.length() - 8 } else { 0 };
        payload.get_mut(at..at + 8).ok_or(Error::Short)?.copy_from_slice(&session.to_le_bytes());
        Ok(())
    }

    /// Returns the number of the session in an answer.
    pub fn parse_answer(self, payload: &[u8]) -> Result<i64, Error> {
        let at = if self == Self::Tagged { self.length() - 8 } else { 0 };
        Ok(Reader(payload.get(at..).ok_or(Error::Short)?).u64()?.cast_signed())
    }
}

impl Create {
    /// Parses a payload, whose layout is detected by [`Layout::detect`].
    ///
    /// # Errors
    /// Fails if no layout has this length, or the operation creates neither a cipher session nor a public-key session. Also fails if a
    /// field has an invalid value, or a key is too long for its field.
    pub fn parse(payload: &[u8]) -> Result<Self, Error> {
        let layout = Layout::detect(payload)?;
        let mut reader = Reader(payload);
        let operation = match layout {
            Layout::Symmetric => {
                reader.take(8)?;
                op::CIPHER_CREATE_SESSION
            }
            Layout::Shifted => {
                reader.take(8)?;
                reader.u32()?
            }
            Layout::Tagged => u32::try_from(reader.u64()?).map_err(|_| Error::Value("op_code"))?,
        };
        match operation {
            op::CIPHER_CREATE_SESSION => Self::parse_symmetric(layout, payload, reader),
            op::AKCIPHER_CREATE_SESSION => Self::parse_public_key(layout, reader),
            other => Err(Error::Operation(other)),
        }
    }

    fn parse_symmetric(layout: Layout, payload: &[u8], mut reader: Reader<'_>) -> Result<Self, Error> {
        let (algo, key_len) = (reader.u32()?, reader.u32()?);
        let (hash_algo, hash_result_len, auth_key_len) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let aad_len = reader.u32()?;
        let (kind, direction) = (reader.u8()?, reader.u8()?);
        let (mode, first) = (reader.u8()?, reader.u8()?);
        let cipher = Cipher { algo, key_len, op: Direction::from_number(u32::from(direction))? };
        let session = match u32::from(kind) {
            sym_op::CIPHER => Session::Cipher(cipher),
            sym_op::ALGORITHM_CHAINING => Session::Chain(Chain {
                order: order(u32::from(first))?,
                hash_mode: hash_mode(u32::from(mode))?,
                cipher,
                hash_algo,
                hash_result_len,
                auth_key_len,
                aad_len,
            }),
            _ => return Err(Error::Value("op_type")),
        };
        // In every layout the keys begin at byte 56. Before them are two pointers, which C compilers align to 8 bytes.
        let mut keys = Reader(payload.get(56..).ok_or(Error::Short)?);
        let key = read_key(keys.take(CIPHER_KEY_SIZE)?, session.key_len())?;
        let auth_key = read_key(keys.take(AUTH_KEY_SIZE)?, session.auth_key_len())?;
        Ok(Self { layout, session, key, auth_key })
    }

    fn parse_public_key(layout: Layout, mut reader: Reader<'_>) -> Result<Self, Error> {
        let (algo, key_type, key_len) = (reader.u32()?, key_type(reader.u32()?)?, reader.u32()?);
        // Skips the padding before the pointer, and the pointer.
        reader.take(12)?;
        let algorithm = PublicKey::new(algo, reader.u32()?, reader.u32()?)?;
        let key = read_key(reader.take(PUBLIC_KEY_SIZE)?, key_len)?;
        let session = Session::Akcipher(Akcipher { key_type, key_len, algorithm });
        Ok(Self { layout, session, key, auth_key: Zeroizing::default() })
    }

    /// Encodes the payload. Truncates keys to the size of their fields. Returns `None` for sessions of other services, and for public
    /// keys in layouts of 632 bytes.
    pub fn encode(&self) -> Option<Zeroizing<Vec<u8>>> {
        let (operation, cipher, chain) = match (&self.session, self.layout) {
            (Session::Akcipher(akcipher), Layout::Tagged) => return Some(self.encode_public_key(akcipher)),
            (Session::Cipher(cipher), _) => (op::CIPHER_CREATE_SESSION, cipher, None),
            (Session::Chain(chain), _) => (op::CIPHER_CREATE_SESSION, &chain.cipher, Some(chain)),
            _ => return None,
        };
        let mut bytes = Zeroizing::new(Vec::with_capacity(self.layout.length()));
        match self.layout {
            Layout::Symmetric => bytes.pad_to(8),
            Layout::Shifted => bytes.put_words(&[0, 0, operation]),
            Layout::Tagged => bytes.put_words(&[operation, 0]),
        }
        bytes.put_words(&[cipher.algo, cipher.key_len]);
        // The four bytes at the end of the parameters are kind, direction, hash mode and order.
        if let Some(chain) = chain {
            bytes.put_words(&[chain.hash_algo, chain.hash_result_len, chain.auth_key_len, chain.aad_len]);
            bytes.extend([2, cipher.op as u8, chain.hash_mode as u8, chain.order as u8]);
        } else {
            bytes.put_words(&[0, 0, 0, 0]);
            bytes.extend([1, cipher.op as u8, 0, 0]);
        }
        bytes.pad_to(56);
        bytes.extend(&self.key[..self.key.len().min(CIPHER_KEY_SIZE)]);
        bytes.pad_to(56 + CIPHER_KEY_SIZE);
        bytes.extend(&self.auth_key[..self.auth_key.len().min(AUTH_KEY_SIZE)]);
        bytes.pad_to(self.layout.length());
        Some(bytes)
    }

    fn encode_public_key(&self, akcipher: &Akcipher) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(Layout::Tagged.length()));
        let (algo, first, second) = akcipher.algorithm.words();
        bytes.put_words(&[op::AKCIPHER_CREATE_SESSION, 0, algo, akcipher.key_type as u32, akcipher.key_len]);
        // The zeros are the padding before the pointer, and the pointer.
        bytes.put_words(&[0, 0, 0, first, second]);
        bytes.extend(&self.key[..self.key.len().min(PUBLIC_KEY_SIZE)]);
        bytes.pad_to(Layout::Tagged.length());
        bytes
    }
}

/// Formats the request without its keys.
impl std::fmt::Debug for Create {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Create").field("layout", &self.layout).field("session", &self.session).finish_non_exhaustive()
    }
}

fn read_key(field: &[u8], length: u32) -> Result<Zeroizing<Vec<u8>>, Error> {
    let key = usize::try_from(length).ok().and_then(|length| field.get(..length));
    Ok(Zeroizing::new(key.ok_or(Error::Value("key_len"))?.to_vec()))
}
