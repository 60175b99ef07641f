//! The parameters of a session, from a control request, a message of vhost-user, or a request without a session.

use crate::Error;
use crate::bytes::{Reader, Write};
use crate::constants::sym_op;

/// The parameters of a session, without its keys, which are in the variable part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Session {
    /// A cipher.
    Cipher(Cipher),
    /// A cipher with a digest or MAC, in one request.
    Chain(Chain),
    /// A digest.
    Hash(Hash),
    /// A MAC.
    Mac(Mac),
    /// An AEAD.
    Aead(Aead),
    /// A public or private key.
    Akcipher(Akcipher),
}

/// VIRTIO_CRYPTO_OP_ENCRYPT and VIRTIO_CRYPTO_OP_DECRYPT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// 1: encryption.
    Encrypt = 1,
    /// 2: decryption.
    Decrypt = 2,
}

impl Direction {
    pub(crate) fn from_number(number: u32) -> Result<Self, Error> {
        match number {
            1 => Ok(Self::Encrypt),
            2 => Ok(Self::Decrypt),
            _ => Err(Error::Value("op")),
        }
    }
}

/// `struct virtio_crypto_cipher_session_para`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cipher {
    /// A constant of [`cipher`](crate::constants::cipher).
    pub algo: u32,
    /// Length of the key in bytes.
    pub key_len: u32,
    /// The only direction of the session's requests.
    pub op: Direction,
}

/// VIRTIO_CRYPTO_SYM_ALG_CHAIN_ORDER_.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// 1: HASH_THEN_CIPHER.
    HashThenCipher = 1,
    /// 2: CIPHER_THEN_HASH.
    CipherThenHash = 2,
}

/// VIRTIO_CRYPTO_SYM_HASH_MODE_.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashMode {
    /// 1: a digest; the algorithm is one of [`hash`](crate::constants::hash).
    Plain = 1,
    /// 2: a MAC; the algorithm is one of [`mac`](crate::constants::mac).
    Auth = 2,
    /// 3: a nested hash.
    Nested = 3,
}

/// `struct virtio_crypto_alg_chain_session_para`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The order of the two algorithms when encrypting.
    pub order: Order,
    /// The kind of digest.
    pub hash_mode: HashMode,
    /// The cipher.
    pub cipher: Cipher,
    /// The number of the digest or MAC, depending on [`hash_mode`](Self::hash_mode).
    pub hash_algo: u32,
    /// Length of the digest or MAC in bytes. In a request without a session this field is 0, and
    /// [`data::ChainLengths::result_len`](crate::data::ChainLengths::result_len) has the length.
    pub hash_result_len: u32,
    /// Bytes of the MAC's key; 0 for a digest.
    pub auth_key_len: u32,
    /// Length of the associated data in bytes.
    pub aad_len: u32,
}

/// `struct virtio_crypto_hash_session_para`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hash {
    /// A constant of [`hash`](crate::constants::hash).
    pub algo: u32,
    /// Length of the digest in bytes.
    pub result_len: u32,
}

/// `struct virtio_crypto_mac_session_para`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mac {
    /// A constant of [`mac`](crate::constants::mac).
    pub algo: u32,
    /// Length of the MAC in bytes.
    pub result_len: u32,
    /// Length of the key in bytes.
    pub key_len: u32,
}

/// `struct virtio_crypto_aead_session_para`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aead {
    /// A constant of [`aead`](crate::constants::aead).
    pub algo: u32,
    /// Length of the key in bytes.
    pub key_len: u32,
    /// Length of the tag in bytes.
    pub tag_len: u32,
    /// Length of the associated data in bytes.
    pub aad_len: u32,
    /// The only direction of the session's requests.
    pub op: Direction,
}

/// VIRTIO_CRYPTO_AKCIPHER_KEY_TYPE_.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyType {
    /// 1: a public key.
    Public = 1,
    /// 2: a private key.
    Private = 2,
}

/// VIRTIO_CRYPTO_RSA_RAW_PADDING and VIRTIO_CRYPTO_RSA_PKCS1_PADDING.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// 0: no padding.
    Raw = 0,
    /// 1: PKCS #1 v1.5 (RFC 8017).
    Pkcs1 = 1,
}

/// `struct virtio_crypto_akcipher_session_para`. The key is either DER or a point of SEC 1. The DER is an RSAPublicKey or RSAPrivateKey
/// (RFC 8017, A.1), or an ECPrivateKey (RFC 5915).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Akcipher {
    /// Public or private.
    pub key_type: KeyType,
    /// Length of the key in bytes.
    pub key_len: u32,
    /// The algorithm, with its parameters.
    pub algorithm: PublicKey,
}

/// The parameters of an algorithm, a union in C. The number of the algorithm selects the variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublicKey {
    /// RSA.
    Rsa {
        /// The padding of the data.
        padding: Padding,
        /// A constant of [`rsa_hash`](crate::constants::rsa_hash).
        hash: u32,
    },
    /// An algorithm with a curve, or an unknown algorithm.
    Other {
        /// A constant of [`akcipher`](crate::constants::akcipher).
        algo: u32,
        /// For ECDSA, a constant of [`curve`](crate::constants::curve).
        curve: u32,
    },
}

impl Session {
    /// Returns the length of the key of a cipher, AEAD or public-key algorithm, in bytes. This key comes first in the variable part.
    pub fn key_len(&self) -> u32 {
        match self {
            Self::Cipher(cipher) => cipher.key_len,
            Self::Chain(chain) => chain.cipher.key_len,
            Self::Aead(aead) => aead.key_len,
            Self::Akcipher(akcipher) => akcipher.key_len,
            Self::Hash(_) | Self::Mac(_) => 0,
        }
    }

    /// Returns the length of the MAC's key, in bytes. In the variable part, this key follows the cipher's key, if there is one.
    pub fn auth_key_len(&self) -> u32 {
        match self {
            Self::Chain(Chain { hash_mode: HashMode::Plain, .. }) => 0,
            Self::Chain(chain) => chain.auth_key_len,
            Self::Mac(mac) => mac.key_len,
            _ => 0,
        }
    }
}

impl Cipher {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        let (algo, key_len, op) = (reader.u32()?, reader.u32()?, Direction::from_number(reader.u32()?)?);
        Ok(Self { algo, key_len, op })
    }
}

/// Reads the parameters of cipher sessions: `struct virtio_crypto_sym_create_session_req`, 56 bytes.
pub(crate) fn read_symmetric(reader: &mut Reader<'_>) -> Result<Session, Error> {
    let mut parameters = Reader(reader.take(48)?);
    let kind = reader.u32()?;
    reader.take(4)?;
    match kind {
        sym_op::CIPHER => Cipher::read(&mut parameters).map(Session::Cipher),
        sym_op::ALGORITHM_CHAINING => {
            let (order, hash_mode) = (order(parameters.u32()?)?, hash_mode(parameters.u32()?)?);
            let cipher = Cipher::read(&mut parameters)?;
            parameters.take(4)?;
            let (hash_algo, hash_result_len, auth_key_len) = (parameters.u32()?, parameters.u32()?, parameters.u32()?);
            parameters.take(4)?;
            let auth_key_len = if hash_mode == HashMode::Plain { 0 } else { auth_key_len };
            let aad_len = parameters.u32()?;
            Ok(Session::Chain(Chain { order, hash_mode, cipher, hash_algo, hash_result_len, auth_key_len, aad_len }))
        }
        _ => Err(Error::Value("op_type")),
    }
}

/// Writes the structure of [`read_symmetric`]. The caller passes a cipher or a chain.
pub(crate) fn write_symmetric(session: &Session, bytes: &mut Vec<u8>) {
    let start = bytes.len();
    let kind = match session {
        Session::Chain(chain) => {
            bytes.put_words(&[chain.order as u32, chain.hash_mode as u32]);
            bytes.put_words(&[chain.cipher.algo, chain.cipher.key_len, chain.cipher.op as u32, 0]);
            bytes.put_words(&[chain.hash_algo, chain.hash_result_len, chain.auth_key_len, 0, chain.aad_len]);
            sym_op::ALGORITHM_CHAINING
        }
        Session::Cipher(cipher) => {
            bytes.put_words(&[cipher.algo, cipher.key_len, cipher.op as u32]);
            sym_op::CIPHER
        }
        _ => sym_op::NONE,
    };
    bytes.pad_to(start + 48);
    bytes.put_words(&[kind, 0]);
}

/// Reads the parameters of a cipher in a request without a session.
pub(crate) fn read_stateless_cipher(reader: &mut Reader<'_>) -> Result<Session, Error> {
    Cipher::read(reader).map(Session::Cipher)
}

/// Reads the parameters of a chain in a request without a session. Their order differs from the order in a session.
pub(crate) fn read_stateless_chain(reader: &mut Reader<'_>) -> Result<Session, Error> {
    let (order, aad_len, cipher) = (order(reader.u32()?)?, reader.u32()?, Cipher::read(reader)?);
    let (hash_algo, auth_key_len, hash_mode) = (reader.u32()?, reader.u32()?, hash_mode(reader.u32()?)?);
    let auth_key_len = if hash_mode == HashMode::Plain { 0 } else { auth_key_len };
    Ok(Session::Chain(Chain { order, hash_mode, cipher, hash_algo, hash_result_len: 0, auth_key_len, aad_len }))
}

impl Akcipher {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        let (algo, key_type, key_len) = (reader.u32()?, key_type(reader.u32()?)?, reader.u32()?);
        let (first, second) = (reader.u32()?, reader.u32()?);
        Ok(Self { key_type, key_len, algorithm: PublicKey::new(algo, first, second)? })
    }

    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        let (algo, first, second) = self.algorithm.words();
        bytes.put_words(&[algo, self.key_type as u32, self.key_len, first, second]);
    }
}

impl PublicKey {
    /// Converts the number of the algorithm and the two words of the union: padding and digest for RSA, otherwise the curve and 0.
    pub(crate) fn new(algo: u32, first: u32, second: u32) -> Result<Self, Error> {
        if algo != crate::constants::akcipher::RSA {
            return Ok(Self::Other { algo, curve: first });
        }
        let padding = match first {
            0 => Padding::Raw,
            1 => Padding::Pkcs1,
            _ => return Err(Error::Value("padding_algo")),
        };
        Ok(Self::Rsa { padding, hash: second })
    }

    /// Returns the arguments of [`Self::new`].
    pub(crate) fn words(self) -> (u32, u32, u32) {
        match self {
            Self::Rsa { padding, hash } => (crate::constants::akcipher::RSA, padding as u32, hash),
            Self::Other { algo, curve } => (algo, curve, 0),
        }
    }
}

pub(crate) fn order(number: u32) -> Result<Order, Error> {
    match number {
        1 => Ok(Order::HashThenCipher),
        2 => Ok(Order::CipherThenHash),
        _ => Err(Error::Value("alg_chain_order")),
    }
}

pub(crate) fn hash_mode(number: u32) -> Result<HashMode, Error> {
    match number {
        1 => Ok(HashMode::Plain),
        2 => Ok(HashMode::Auth),
        3 => Ok(HashMode::Nested),
        _ => Err(Error::Value("hash_mode")),
    }
}

pub(crate) fn key_type(number: u32) -> Result<KeyType, Error> {
    match number {
        1 => Ok(KeyType::Public),
        2 => Ok(KeyType::Private),
        _ => Err(Error::Value("keytype")),
    }
}
