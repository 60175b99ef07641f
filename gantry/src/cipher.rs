//! Encryption without integrity, and without padding.

/// Implementations of the traits in RustCrypto's crate `cipher`.
#[cfg(feature = "cipher")]
pub mod rustcrypto;

use gantry_core::{Buffers, Operation, Request, Result, SessionParams};

use crate::algorithms::Cipher;
use crate::batch;
use crate::key::key;

pub use gantry_core::CipherStream;

key! {
    /// The key of a cipher. An XTS key is both halves, concatenated.
    Key, Cipher, key
}

/// A message of a batch, encrypted or decrypted in place.
#[derive(Debug)]
pub struct Message<'a> {
    /// The IV, with the length that the mode requires; empty for ECB.
    pub iv: &'a [u8],
    /// The input; afterwards the output.
    pub data: &'a mut [u8],
}

/// A handle of a cipher with its key.
#[derive(Clone, Debug)]
pub struct Session(gantry_core::Session);

impl Session {
    pub(crate) fn new(gantry: &gantry_core::Gantry, key: &Key) -> Result<Self> {
        gantry.session(SessionParams::new(key.algorithm.algorithm(), &key.bytes)).map(Self)
    }

    /// Encrypts a message. `data` is one buffer, or a pair of input and output.
    pub fn encrypt<'a>(&self, iv: &[u8], data: impl Into<Buffers<'a>>) -> Result<()> {
        self.0.encrypt(iv, data)
    }

    /// Decrypts a message. `data` is one buffer, or a pair of input and output.
    pub fn decrypt<'a>(&self, iv: &[u8], data: impl Into<Buffers<'a>>) -> Result<()> {
        self.0.decrypt(iv, data)
    }

    /// Encrypts many messages, side by side if a device has lanes.
    pub fn encrypt_many(&self, messages: &mut [Message<'_>]) -> Result<()> {
        let mut requests: Vec<_> =
            messages.iter_mut().map(|Message { iv, data }| Request::encrypt(iv, &mut **data)).collect();
        batch::run_all(&self.0, &mut requests)
    }

    /// Decrypts many messages.
    pub fn decrypt_many(&self, messages: &mut [Message<'_>]) -> Result<()> {
        let mut requests: Vec<_> =
            messages.iter_mut().map(|Message { iv, data }| Request::decrypt(iv, &mut **data)).collect();
        batch::run_all(&self.0, &mut requests)
    }

    /// Starts a stream that encrypts plaintext in chunks.
    pub fn encrypt_stream(&self, iv: &[u8]) -> Result<CipherStream> {
        self.0.cipher_stream(Operation::Encrypt, iv)
    }

    /// Starts a stream that decrypts ciphertext in chunks.
    pub fn decrypt_stream(&self, iv: &[u8]) -> Result<CipherStream> {
        self.0.cipher_stream(Operation::Decrypt, iv)
    }

    /// Returns the underlying session, for queues, routes and batches of several sessions.
    pub fn session(&self) -> &gantry_core::Session {
        &self.0
    }
}
