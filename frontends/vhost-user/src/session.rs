//! The sessions of one guest.

use std::collections::HashMap;
use std::sync::Arc;

use gantry_abi_virtio_crypto::Status;
use gantry_abi_virtio_crypto::constants::rsa_hash;
use gantry_abi_virtio_crypto::session::{self as abi, HashMode, KeyType, Order, Padding, PublicKey};
use gantry_core::{Direction, Gantry, Operation, Session, SessionParams};

use crate::algorithms;
use crate::keys;

/// The operation of a session's requests.
#[derive(Debug)]
pub(crate) enum GuestSession {
    /// Encryption or decryption.
    Cipher { session: Session, encrypt: bool },
    /// Encryption or decryption, and a digest or MAC of `result_length` bytes over the data before or after it.
    CipherAndHash {
        cipher: Session,
        encrypt: bool,
        hash: Session,
        is_mac: bool,
        result_length: usize,
        cipher_first: bool,
    },
    /// A digest.
    Hash { session: Session },
    /// A MAC of `result_length` bytes.
    Mac { session: Session, result_length: usize },
    /// Sealing or opening, with tags of `tag_length` bytes.
    Aead { session: Session, encrypt: bool, tag_length: usize },
    /// All operations with an RSA key.
    Rsa(Rsa),
}

/// An RSA key. Each session is present if some device serves it.
#[derive(Debug)]
pub(crate) struct Rsa {
    /// True for a private key, which signs and deciphers. It also enciphers as its public half does, which tests of Linux' kernel require.
    pub(crate) is_private: bool,
    /// Signatures, and the length of their digests in bytes.
    pub(crate) signature: Option<(Session, usize)>,
    /// Encryption.
    pub(crate) encryption: Option<Session>,
}

/// Sessions by number. Numbers are valid only for this guest: another guest's table has other sessions under them, or none.
pub(crate) struct Sessions {
    gantry: Gantry,
    max_sessions: usize,
    open_sessions: HashMap<u64, Arc<GuestSession>>,
    next_number: u64,
}

impl Sessions {
    /// Creates a table of at most `max_sessions` sessions.
    pub(crate) fn new(gantry: Gantry, max_sessions: usize) -> Self {
        Self { gantry, max_sessions, open_sessions: HashMap::new(), next_number: 1 }
    }

    /// Opens a session. Returns its number.
    ///
    /// # Errors
    /// [`Status::NoSpace`] if all sessions are in use, and the errors of [`create_session`].
    pub(crate) fn open(&mut self, params: &abi::Session, key: &[u8], auth_key: &[u8]) -> Result<u64, Status> {
        if self.open_sessions.len() >= self.max_sessions {
            return Err(Status::NoSpace);
        }
        let session = create_session(&self.gantry, params, key, auth_key)?;
        let number = self.next_number;
        self.next_number += 1;
        self.open_sessions.insert(number, Arc::new(session));
        Ok(number)
    }

    /// Closes a session. Its keys are zeroized when its last request in flight has ended.
    pub(crate) fn close(&mut self, number: u64) -> bool {
        self.open_sessions.remove(&number).is_some()
    }

    pub(crate) fn clear(&mut self) {
        self.open_sessions.clear();
    }

    pub(crate) fn get(&self, number: u64) -> Option<&Arc<GuestSession>> {
        self.open_sessions.get(&number)
    }

    pub(crate) fn count(&self) -> usize {
        self.open_sessions.len()
    }

    /// Creates a session for a request that names no session.
    pub(crate) fn create_stateless(
        &self,
        params: &abi::Session,
        key: &[u8],
        auth_key: &[u8],
    ) -> Result<Arc<GuestSession>, Status> {
        create_session(&self.gantry, params, key, auth_key).map(Arc::new)
    }
}

/// Creates a session of the framework for a guest's parameters.
///
/// # Errors
/// [`Status::NotSupported`] for an algorithm that no device serves, [`Status::Error`] for inconsistent lengths.
fn create_session(gantry: &Gantry, params: &abi::Session, key: &[u8], auth_key: &[u8]) -> Result<GuestSession, Status> {
    match params {
        abi::Session::Cipher(params) => {
            let (session, encrypt) = cipher_session(gantry, params, key)?;
            Ok(GuestSession::Cipher { session, encrypt })
        }
        abi::Session::Chain(params) => {
            let (cipher, encrypt) = cipher_session(gantry, &params.cipher, key)?;
            let (hash, is_mac) = match params.hash_mode {
                HashMode::Plain => (hash_session(gantry, params.hash_algo)?, false),
                HashMode::Auth => (mac_session(gantry, params.hash_algo, auth_key)?, true),
                HashMode::Nested => return Err(Status::NotSupported),
            };
            // The specification does not define the associated data of a chain's MAC.
            if params.aad_len != 0 {
                return Err(Status::NotSupported);
            }
            let digest_length = hash.params().tag_len();
            let result_length =
                if params.hash_result_len == 0 { digest_length } else { params.hash_result_len as usize };
            if result_length > digest_length {
                return Err(Status::Error);
            }
            let cipher_first = params.order == Order::CipherThenHash;
            Ok(GuestSession::CipherAndHash { cipher, encrypt, hash, is_mac, result_length, cipher_first })
        }
        abi::Session::Hash(params) => {
            let session = hash_session(gantry, params.algo)?;
            let fits = params.result_len as usize == session.params().tag_len();
            if fits { Ok(GuestSession::Hash { session }) } else { Err(Status::Error) }
        }
        abi::Session::Mac(params) => {
            let session = mac_session(gantry, params.algo, auth_key)?;
            let result_length = params.result_len as usize;
            let fits = (1..=session.params().tag_len()).contains(&result_length);
            if fits { Ok(GuestSession::Mac { session, result_length }) } else { Err(Status::Error) }
        }
        abi::Session::Aead(params) => {
            let algorithm = algorithms::aead(params.algo, params.key_len).ok_or(Status::NotSupported)?;
            let tag_length = if params.tag_len == 0 { 16 } else { params.tag_len as usize };
            if !algorithm.info().tag.allows(tag_length) {
                return Err(Status::Error);
            }
            let encrypt = params.op == abi::Direction::Encrypt;
            let params = SessionParams::new(algorithm, key)
                .with_tag_len(tag_length)
                .with_direction(direction(encrypt))
                .with_any_nonce();
            let operation = if encrypt { Operation::Seal } else { Operation::Open };
            Ok(GuestSession::Aead { session: open_served(gantry, params, operation)?, encrypt, tag_length })
        }
        abi::Session::Akcipher(params) => rsa_session(gantry, params, key),
    }
}

fn cipher_session(gantry: &Gantry, params: &abi::Cipher, key: &[u8]) -> Result<(Session, bool), Status> {
    let algorithm = algorithms::cipher(params.algo, params.key_len).ok_or(Status::NotSupported)?;
    let encrypt = params.op == abi::Direction::Encrypt;
    let params = SessionParams::new(algorithm, key).with_direction(direction(encrypt));
    let operation = if encrypt { Operation::Encrypt } else { Operation::Decrypt };
    Ok((open_served(gantry, params, operation)?, encrypt))
}

fn hash_session(gantry: &Gantry, number: u32) -> Result<Session, Status> {
    let algorithm = algorithms::hash(number).ok_or(Status::NotSupported)?;
    open_served(gantry, SessionParams::new(algorithm, &[]), Operation::Digest)
}

fn mac_session(gantry: &Gantry, number: u32, key: &[u8]) -> Result<Session, Status> {
    if key.len() > algorithms::MAX_AUTH_KEY_BYTES as usize {
        return Err(Status::Error);
    }
    let algorithm = algorithms::mac(number, key.len() as u32).ok_or(Status::NotSupported)?;
    open_served(gantry, SessionParams::new(algorithm, key), Operation::Mac)
}

/// Creates an RSA session. Signatures are PKCS #1 v1.5 over SHA-256, SHA-384 and SHA-512, the digests of core;
/// encryption uses no digest.
fn rsa_session(gantry: &Gantry, params: &abi::Akcipher, key: &[u8]) -> Result<GuestSession, Status> {
    let PublicKey::Rsa { padding, hash } = params.algorithm else { return Err(Status::NotSupported) };
    let digest = match (padding, hash) {
        (Padding::Pkcs1, rsa_hash::SHA256) => Some(32),
        (Padding::Pkcs1, rsa_hash::SHA384) => Some(48),
        (Padding::Pkcs1, rsa_hash::SHA512) => Some(64),
        _ => None,
    };
    let is_private = params.key_type == KeyType::Private;
    let (key, modulus_length) =
        if is_private { keys::parse_private_key(key) } else { keys::parse_public_key(key) }.ok_or(Status::Error)?;
    let open_rsa = |algorithms, direction: Direction, operation| {
        let algorithm = algorithms::rsa(algorithms, modulus_length).ok_or(Status::NotSupported)?;
        open_served(gantry, SessionParams::new(algorithm, &key).with_direction(direction), operation)
    };
    let encryption_algorithms =
        if padding == Padding::Raw { algorithms::RSA_RAW } else { algorithms::RSA_PKCS1_ENCRYPTION };
    let (signature, encryption) = if is_private {
        let sign = || open_rsa(algorithms::RSA_SIGNATURES, Operation::Sign.into(), Operation::Sign);
        // A private key also enciphers.
        (digest.map(|_| sign()), open_rsa(encryption_algorithms, Direction::Both, Operation::Decipher))
    } else {
        let verify = || open_rsa(algorithms::RSA_SIGNATURES, Operation::Verify.into(), Operation::Verify);
        (digest.map(|_| verify()), open_rsa(encryption_algorithms, Operation::Encipher.into(), Operation::Encipher))
    };
    let signature = signature.and_then(Result::ok).zip(digest);
    match encryption {
        Err(status) if signature.is_none() => Err(status),
        encryption => Ok(GuestSession::Rsa(Rsa { is_private, signature, encryption: encryption.ok() })),
    }
}

fn direction(encrypt: bool) -> Direction {
    if encrypt { Direction::Encrypt } else { Direction::Decrypt }
}

/// Opens a session that some device serves now.
fn open_served(gantry: &Gantry, params: SessionParams, operation: Operation) -> Result<Session, Status> {
    let session = gantry.session(params).map_err(|_| Status::Error)?;
    if session.route(operation, 64, 1).is_some() { Ok(session) } else { Err(Status::NotSupported) }
}
