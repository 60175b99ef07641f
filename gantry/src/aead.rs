//! Authenticated encryption with associated data.

/// The traits of RustCrypto's crate `aead`.
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

/// The key of an AEAD; encrypt-then-authenticate algorithms have two.
///
/// It is zeroized on drop, and prints its algorithm and its lengths only.
#[derive(Clone)]
pub struct Key {
    algorithm: Aead,
    bytes: Zeroizing<Vec<u8>>,
    second: Zeroizing<Vec<u8>>,
}

impl Key {
    /// Copies a key.
    ///
    /// # Errors
    /// [`Misuse::KeyLength`] names the length of `bytes`, and the lengths that the algorithm takes. [`Misuse::MacKeyLength`] where the
    /// algorithm needs a second key: [`with_mac_key`](Self::with_mac_key).
    pub fn new(algorithm: Aead, bytes: &[u8]) -> Result<Self> {
        Self::with_mac_key(algorithm, bytes, &[])
    }

    /// Copies the two keys of an encrypt-then-authenticate algorithm.
    ///
    /// # Errors
    /// [`Misuse::KeyLength`] and [`Misuse::MacKeyLength`]. The second key has at least one byte.
    pub fn with_mac_key(algorithm: Aead, bytes: &[u8], mac_key: &[u8]) -> Result<Self> {
        let id = algorithm.algorithm();
        let bytes = key::checked(id, bytes, id.info().key)?;
        // Core allows an empty one, because an HMAC does. That is nothing to have by mistake.
        let takes = match id.info().mac_key {
            Lengths { max: 0, .. } => Lengths::NONE,
            lengths => Lengths { min: lengths.min.max(1), ..lengths },
        };
        if !takes.allows(mac_key.len()) {
            return Err(Misuse::MacKeyLength { algorithm: id, got: mac_key.len(), takes }.into());
        }
        Ok(Self { algorithm, bytes, second: Zeroizing::new(mac_key.to_vec()) })
    }

    /// The algorithm that it is for.
    pub fn algorithm(&self) -> Aead {
        self.algorithm
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, mac_key) = (self.bytes.len(), self.second.len());
        match mac_key {
            0 => write!(f, "Key({}, {key} bytes)", self.algorithm),
            _ => write!(f, "Key({}, {key} and {mac_key} bytes)", self.algorithm),
        }
    }
}

/// A message of a batch to be sealed in place.
#[derive(Debug)]
pub struct Plaintext<'a> {
    /// Never used before under this key.
    pub nonce: &'a [u8],
    /// Authenticated, and not encrypted.
    pub aad: &'a [u8],
    /// The plaintext; afterwards the ciphertext.
    pub data: &'a mut [u8],
}

/// A message of a batch to be opened in place.
#[derive(Debug)]
pub struct Ciphertext<'a> {
    /// As it was when the message was sealed.
    pub nonce: &'a [u8],
    /// As it was when the message was sealed.
    pub aad: &'a [u8],
    /// The ciphertext; afterwards the plaintext, if the tag is right.
    pub data: &'a mut [u8],
    /// The tag that came with it.
    pub tag: &'a [u8],
}

/// An AEAD under a key, ready for messages.
#[derive(Clone, Debug)]
pub struct Session(gantry_core::Session);

impl Session {
    pub(crate) fn new(gantry: &gantry_core::Gantry, key: &Key) -> Result<Self> {
        gantry.session(SessionParams::new(key.algorithm.algorithm(), &key.bytes).mac_key(&key.second)).map(Self)
    }

    /// The same with tags of `bytes` bytes.
    ///
    /// # Errors
    /// [`Misuse::TagLength`] where the algorithm has no such tags.
    pub fn with_tag_len(&self, bytes: usize) -> Result<Self> {
        self.0.gantry().session(self.0.params().clone().tag_len(bytes)).map(Self)
    }

    /// Encrypts a message, and returns its tag. `data` is one buffer, or a pair of input and output. A nonce is never used again under the
    /// same key.
    pub fn seal<'a>(&self, nonce: &[u8], aad: &[u8], data: impl Into<Buffers<'a>>) -> Result<Tag> {
        let mut tag = Tag::zeros(self.0.params().tag_length());
        self.0.seal(nonce, aad, data, tag.room())?;
        Ok(tag)
    }

    /// Verifies and decrypts a message. `data` is one buffer, or a pair of input and output.
    ///
    /// # Errors
    /// [`Outcome::BadTag`](gantry_core::Outcome::BadTag) as [`Error::Refused`](gantry_core::Error::Refused): the output has no plaintext.
    pub fn open<'a>(&self, nonce: &[u8], aad: &[u8], data: impl Into<Buffers<'a>>, tag: &[u8]) -> Result<()> {
        self.0.open(nonce, aad, data, tag)
    }

    /// Seals many messages, and returns their tags.
    pub fn seal_many(&self, messages: &mut [Plaintext<'_>]) -> Result<Vec<Tag>> {
        let mut tags = vec![Tag::zeros(self.0.params().tag_length()); messages.len()];
        let pairs = messages.iter_mut().zip(&mut tags);
        let mut requests: Vec<_> = pairs
            .map(|(Plaintext { nonce, aad, data }, tag)| Request::seal(nonce, aad, &mut **data, tag.room()))
            .collect();
        batch::all(&self.0, &mut requests)?;
        Ok(tags)
    }

    /// Opens many messages. Each has its own verdict.
    ///
    /// # Errors
    /// The batch as a whole cannot be run.
    pub fn open_many(&self, messages: &mut [Ciphertext<'_>]) -> Result<Vec<Result<()>>> {
        let mut requests: Vec<_> = messages
            .iter_mut()
            .map(|Ciphertext { nonce, aad, data, tag }| Request::open(nonce, aad, &mut **data, tag))
            .collect();
        batch::each(&self.0, &mut requests)
    }

    /// Messages to seal that arrive in pieces.
    pub fn seal_stream(&self) -> Result<SealStream> {
        SealStream::new(&self.0)
    }

    /// Messages to open that arrive in pieces. It gives out plaintext before the tag has been verified.
    pub fn open_stream(&self) -> Result<OpenStream> {
        OpenStream::new(&self.0)
    }

    /// The session below, for queues, routes and batches of several sessions.
    pub fn session(&self) -> &gantry_core::Session {
        &self.0
    }
}
