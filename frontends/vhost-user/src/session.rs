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
pub(crate) enum Entry {
    /// Encryption or decryption.
    Cipher { session: Session, encrypt: bool },
    /// Encryption or decryption, and a digest or MAC of `result` bytes over the data before or after it.
    Chain { cipher: Session, encrypt: bool, hash: Session, keyed: bool, result: usize, cipher_first: bool },
    /// A digest.
    Hash { session: Session },
    /// A MAC of `result` bytes.
    Mac { session: Session, result: usize },
    /// Sealing or opening, with tags of `tag` bytes.
    Aead { session: Session, encrypt: bool, tag: usize },
    /// All operations with an RSA key.
    Rsa(Rsa),
}

/// An RSA key. Each session is present if some device serves it.
#[derive(Debug)]
pub(crate) struct Rsa {
    /// True for a private key, which signs and deciphers. It also enciphers as its public half does, which tests of Linux' kernel require.
    pub(crate) private: bool,
    /// Signatures, and the length of their digests in bytes.
    pub(crate) signature: Option<(Session, usize)>,
    /// Encryption.
    pub(crate) encryption: Option<Session>,
}

/// Sessions by number. Numbers are valid only for this guest: another guest's table has other sessions under them, or none.
pub(crate) struct Sessions {
    gantry: Gantry,
    limit: usize,
    open: HashMap<u64, Arc<Entry>>,
    next: u64,
}

impl Sessions {
    /// Creates a table of at most `max_sessions` sessions.
    pub(crate) fn new(gantry: Gantry, max_sessions: usize) -> Self {
        Self { gantry, limit: max_sessions, open: HashMap::new(), next: 1 }
    }

    /// Opens a session. Returns its number.
    ///
    /// # Errors
    /// [`Status::NoSpace`] if all sessions are in use, and the errors of [`make`].
    pub(crate) fn open(&mut self, params: &abi::Session, key: &[u8], auth_key: &[u8]) -> Result<u64, Status> {
        if self.open.len() >= self.limit {
            return Err(Status::NoSpace);
        }
        let entry = make(&self.gantry, params, key, auth_key)?;
        let number = self.next;
        self.next += 1;
        self.open.insert(number, Arc::new(entry));
        Ok(number)
    }

    /// Closes a session. Its keys are zeroized when its last request in flight has ended.
    pub(crate) fn close(&mut self, number: u64) -> bool {
        self.open.remove(&number).is_some()
    }

    pub(crate) fn clear(&mut self) {
        self.open.clear();
    }

    pub(crate) fn get(&self, number: u64) -> Option<&Arc<Entry>> {
        self.open.get(&number)
    }

    pub(crate) fn count(&self) -> usize {
        self.open.len()
    }

    /// Creates a session for a request that names no session.
    pub(crate) fn make(&self, params: &abi::Session, key: &[u8], auth_key: &[u8]) -> Result<Arc<Entry>, Status> {
        make(&self.gantry, params, key, auth_key).map(Arc::new)
    }
}

/// Creates a session of the framework for a guest's parameters.
///
/// # Errors
/// [`Status::NotSupported`] for an algorithm that no device serves, [`Status::Error`] for inconsistent lengths.
fn make(gantry: &Gantry, params: &abi::Session, key: &[u8], auth_key: &[u8]) -> Result<Entry, Status> {
    match params {
        abi::Session::Cipher(params) => {
            let (session, encrypt) = cipher(gantry, params, key)?;
            Ok(Entry::Cipher { session, encrypt })
        }
        abi::Session::Chain(params) => {
            let (cipher, encrypt) = cipher(gantry, &params.cipher, key)?;
            let (hash, keyed) = match params.hash_mode {
                HashMode::Plain => (hash(gantry, params.hash_algo)?, false),
                HashMode::Auth => (mac(gantry, params.hash_algo, auth_key)?, true),
                HashMode::Nested => return Err(Status::NotSupported),
            };
            // The specification does not define the associated data of a chain's MAC.
            if params.aad_len != 0 {
                return Err(Status::NotSupported);
            }
            let full = hash.params().tag_len();
            let result = if params.hash_result_len == 0 { full } else { params.hash_result_len as usize };
            if result > full {
                return Err(Status::Error);
            }
            let cipher_first = params.order == Order::CipherThenHash;
            Ok(Entry::Chain { cipher, encrypt, hash, keyed, result, cipher_first })
        }
        abi::Session::Hash(params) => {
            let session = hash(gantry, params.algo)?;
            let fits = params.result_len as usize == session.params().tag_len();
            if fits { Ok(Entry::Hash { session }) } else { Err(Status::Error) }
        }
        abi::Session::Mac(params) => {
            let session = mac(gantry, params.algo, auth_key)?;
            let result = params.result_len as usize;
            let fits = (1..=session.params().tag_len()).contains(&result);
            if fits { Ok(Entry::Mac { session, result }) } else { Err(Status::Error) }
        }
        abi::Session::Aead(params) => {
            let algorithm = algorithms::aead(params.algo, params.key_len).ok_or(Status::NotSupported)?;
            let tag = if params.tag_len == 0 { 16 } else { params.tag_len as usize };
            if !algorithm.info().tag.allows(tag) {
                return Err(Status::Error);
            }
            let encrypt = params.op == abi::Direction::Encrypt;
            let params = SessionParams::new(algorithm, key)
                .with_tag_len(tag)
                .with_direction(direction(encrypt))
                .with_any_nonce();
            let operation = if encrypt { Operation::Seal } else { Operation::Open };
            Ok(Entry::Aead { session: open(gantry, params, operation)?, encrypt, tag })
        }
        abi::Session::Akcipher(params) => rsa(gantry, params, key),
    }
}

fn cipher(gantry: &Gantry, params: &abi::Cipher, key: &[u8]) -> Result<(Session, bool), Status> {
    let algorithm = algorithms::cipher(params.algo, params.key_len).ok_or(Status::NotSupported)?;
    let encrypt = params.op == abi::Direction::Encrypt;
    let params = SessionParams::new(algorithm, key).with_direction(direction(encrypt));
    let operation = if encrypt { Operation::Encrypt } else { Operation::Decrypt };
    Ok((open(gantry, params, operation)?, encrypt))
}

fn hash(gantry: &Gantry, number: u32) -> Result<Session, Status> {
    let algorithm = algorithms::hash(number).ok_or(Status::NotSupported)?;
    open(gantry, SessionParams::new(algorithm, &[]), Operation::Digest)
}

fn mac(gantry: &Gantry, number: u32, key: &[u8]) -> Result<Session, Status> {
    if key.len() > algorithms::MAX_AUTH_KEY as usize {
        return Err(Status::Error);
    }
    let algorithm = algorithms::mac(number, key.len() as u32).ok_or(Status::NotSupported)?;
    open(gantry, SessionParams::new(algorithm, key), Operation::Mac)
}

/// Creates an RSA entry. Signatures are PKCS #1 v1.5 over SHA-256, SHA-384 and SHA-512, the digests of core;
/// encryption uses no digest.
fn rsa(gantry: &Gantry, params: &abi::Akcipher, key: &[u8]) -> Result<Entry, Status> {
    let PublicKey::Rsa { padding, hash } = params.algorithm else { return Err(Status::NotSupported) };
    let digest = match (padding, hash) {
        (Padding::Pkcs1, rsa_hash::SHA256) => Some(32),
        (Padding::Pkcs1, rsa_hash::SHA384) => Some(48),
        (Padding::Pkcs1, rsa_hash::SHA512) => Some(64),
        _ => None,
    };
    let private = params.key_type == KeyType::Private;
    let (key, modulus) = if private { keys::private(key) } else { keys::public(key) }.ok_or(Status::Error)?;
    let open_rsa = |algorithms, direction: Direction, operation| {
        let algorithm = algorithms::rsa(algorithms, modulus).ok_or(Status::NotSupported)?;
        open(gantry, SessionParams::new(algorithm, &key).with_direction(direction), operation)
    };
    let encrypting = if padding == Padding::Raw { algorithms::RAW } else { algorithms::PADDED };
    let (signature, encryption) = if private {
        let sign = || open_rsa(algorithms::SIGNATURES, Operation::Sign.into(), Operation::Sign);
        // A private key also enciphers.
        (digest.map(|_| sign()), open_rsa(encrypting, Direction::Both, Operation::Decipher))
    } else {
        let verify = || open_rsa(algorithms::SIGNATURES, Operation::Verify.into(), Operation::Verify);
        (digest.map(|_| verify()), open_rsa(encrypting, Operation::Encipher.into(), Operation::Encipher))
    };
    let signature = signature.and_then(Result::ok).zip(digest);
    match encryption {
        Err(status) if signature.is_none() => Err(status),
        encryption => Ok(Entry::Rsa(Rsa { private, signature, encryption: encryption.ok() })),
    }
}

fn direction(encrypt: bool) -> Direction {
    if encrypt { Direction::Encrypt } else { Direction::Decrypt }
}

/// Opens a session that some device serves now.
fn open(gantry: &Gantry, params: SessionParams, operation: Operation) -> Result<Session, Status> {
    let session = gantry.session(params).map_err(|_| Status::Error)?;
    if session.route(operation, 64, 1).is_some() { Ok(session) } else { Err(Status::NotSupported) }
}
