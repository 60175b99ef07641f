//! Authenticated encryption with associated data.

/// Implementations of the traits in RustCrypto's crate `aead`.
#[cfg(feature = "aead")]
pub mod rustcrypto;
mod stream;

use std::fmt;

use gantry_core::{Buffers, Lengths, Misuse, Request, Result, SessionParams};
use zeroize::Zeroizing;

use crate::algorithms::Aead;
use crate::batch;
use crate::key;

pub use crate::bytes::Output as Tag;
pub use stream::{OpenStream, SealStream};

/// The key of an AEAD. Encrypt-then-authenticate algorithms have two keys.
///
/// Zeroized on drop. `Debug` shows only its algorithm and lengths.
#[derive(Clone)]
pub struct Key {
    algorithm: Aead,
    bytes: Zeroizing<Vec<u8>>,
    mac_key: Zeroizing<Vec<u8>>,
}

impl Key {
    /// Copies a key.
    ///
    /// # Errors
    /// [`Misuse::KeyLength`], with the length of `bytes` and the lengths that the algorithm takes. [`Misuse::MacKeyLength`] if the
    /// algorithm needs a second key; use [`with_mac_key`](Self::with_mac_key).
    pub fn new(algorithm: Aead, bytes: &[u8]) -> Result<Self> {
        Self::with_mac_key(algorithm, bytes, &[])
    }

    /// Copies the two keys of an encrypt-then-authenticate algorithm.
    ///
    /// # Errors
    /// [`Misuse::KeyLength`] and [`Misuse::MacKeyLength`]. The second key must not be empty.
    pub fn with_mac_key(algorithm: Aead, bytes: &[u8], mac_key: &[u8]) -> Result<Self> {
        let id = algorithm.algorithm();
        let bytes = key::copy_checked(id, bytes, id.info().key)?;
        // Core allows an empty MAC key, because HMAC does. Here an empty key would be a mistake.
        let takes = match id.info().mac_key {
            Lengths { max: 0, .. } => Lengths::NONE,
            lengths => Lengths { min: lengths.min.max(1), ..lengths },
        };
        if !takes.allows(mac_key.len()) {
            return Err(Misuse::MacKeyLength { algorithm: id, got: mac_key.len(), takes }.into());
        }
        Ok(Self { algorithm, bytes, mac_key: Zeroizing::new(mac_key.to_vec()) })
    }

    /// Returns the algorithm of the key.
    pub fn algorithm(&self) -> Aead {
        self.algorithm
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, mac_key) = (self.bytes.len(), self.mac_key.len());
        match mac_key {
            0 => write!(f, "Key({}, {key} bytes)", self.algorithm),
            _ => write!(f, "Key({}, {key} and {mac_key} bytes)", self.algorithm),
        }
    }
}

/// A message of a batch to be sealed in place.
#[derive(Debug)]
pub struct Plaintext<'a> {
    /// The nonce. Never reuse one with the same key.
    pub nonce: &'a [u8],
    /// The associated data, which is authenticated but not encrypted.
    pub aad: &'a [u8],
    /// The plaintext; afterwards the ciphertext.
    pub data: &'a mut [u8],
}

/// A message of a batch to be opened in place.
#[derive(Debug)]
pub struct Ciphertext<'a> {
    /// The nonce that sealed the message.
    pub nonce: &'a [u8],
    /// The associated data of the sealed message.
    pub aad: &'a [u8],
    /// The ciphertext; afterwards the plaintext, if the tag is right.
    pub data: &'a mut [u8],
    /// The tag of the message.
    pub tag: &'a [u8],
}

/// An AEAD with a key.
#[derive(Clone, Debug)]
pub struct Session(gantry_core::Session);

impl Session {
    pub(crate) fn new(gantry: &gantry_core::Gantry, key: &Key) -> Result<Self> {
        gantry.session(SessionParams::new(key.algorithm.algorithm(), &key.bytes).with_mac_key(&key.mac_key)).map(Self)
    }

    /// Returns a session with tags of `bytes` bytes.
    ///
    /// # Errors
    /// [`Misuse::TagLength`] if the algorithm has no tags of this length.
    pub fn with_tag_len(&self, bytes: usize) -> Result<Self> {
        self.0.gantry().session(self.0.params().clone().with_tag_len(bytes)).map(Self)
    }

    /// Returns a session of AES-GCM that takes nonces of 1 to 65,536 bytes, for protocols whose nonces are not 12 bytes long. Random nonces
    /// of fewer bytes collide sooner than random nonces of 12 bytes.
    pub fn with_any_nonce(&self) -> Result<Self> {
        self.0.gantry().session(self.0.params().clone().with_any_nonce()).map(Self)
    }

    /// Encrypts a message and returns its tag. `data` is one buffer, or a pair of input and output. Never reuse a nonce with the same key.
    pub fn seal<'a>(&self, nonce: &[u8], aad: &[u8], data: impl Into<Buffers<'a>>) -> Result<Tag> {
        let mut tag = Tag::zeros(self.0.params().tag_len());
        self.0.seal(nonce, aad, data, tag.as_mut_bytes())?;
        Ok(tag)
    }

    /// Verifies and decrypts a message. `data` is one buffer, or a pair of input and output.
    ///
    /// # Errors
    /// [`Outcome::BadTag`](gantry_core::Outcome::BadTag) as [`Error::Refused`](gantry_core::Error::Refused) if the tag is wrong; the output
    /// then has no plaintext.
    pub fn open<'a>(&self, nonce: &[u8], aad: &[u8], data: impl Into<Buffers<'a>>, tag: &[u8]) -> Result<()> {
        self.0.open(nonce, aad, data, tag)
    }

    /// Seals many messages and returns their tags.
    pub fn seal_many(&self, messages: &mut [Plaintext<'_>]) -> Result<Vec<Tag>> {
        let mut tags = vec![Tag::zeros(self.0.params().tag_len()); messages.len()];
        let pairs = messages.iter_mut().zip(&mut tags);
        let mut requests: Vec<_> = pairs
            .map(|(Plaintext { nonce, aad, data }, tag)| Request::seal(nonce, aad, &mut **data, tag.as_mut_bytes()))
            .collect();
        batch::run_all(&self.0, &mut requests)?;
        Ok(tags)
    }

    /// Opens many messages. Each message has its own result.
    ///
    /// # Errors
    /// The batch as a whole cannot be run.
    pub fn open_many(&self, messages: &mut [Ciphertext<'_>]) -> Result<Vec<Result<()>>> {
        let mut requests: Vec<_> = messages
            .iter_mut()
            .map(|Ciphertext { nonce, aad, data, tag }| Request::open(nonce, aad, &mut **data, tag))
            .collect();
        batch::run_each(&self.0, &mut requests)
    }

    /// Starts a stream that seals messages in chunks.
    pub fn seal_stream(&self) -> Result<SealStream> {
        SealStream::new(&self.0)
    }

    /// Starts a stream that opens messages in chunks. It releases plaintext before the tag is verified.
    pub fn open_stream(&self) -> Result<OpenStream> {
        OpenStream::new(&self.0)
    }

    /// Returns the underlying session, for queues, routes and batches of several sessions.
    pub fn session(&self) -> &gantry_core::Session {
        &self.0
    }
}
