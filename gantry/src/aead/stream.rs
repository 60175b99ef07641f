//! Messages that arrive in pieces.

use gantry_core::{AeadStream, Buffers, Operation, Result, Session};

use super::Tag;

/// Seals messages that arrive in pieces, one after the other.
#[derive(Clone)]
pub struct SealStream {
    stream: AeadStream,
    tag_length: usize,
}

impl SealStream {
    pub(super) fn new(session: &Session) -> Result<Self> {
        Ok(Self { stream: session.aead_stream(Operation::Seal)?, tag_length: session.params().tag_length() })
    }

    /// Begins a message. A nonce is never used again under the same key.
    pub fn begin(&mut self, nonce: &[u8], aad: &[u8]) -> Result<()> {
        self.stream.begin(nonce, aad)
    }

    /// Encrypts the next piece, of any length.
    pub fn update<'a>(&mut self, data: impl Into<Buffers<'a>>) -> Result<()> {
        self.stream.update(data)
    }

    /// Ends the message.
    pub fn finish(&mut self) -> Result<Tag> {
        let mut tag = Tag::zeros(self.tag_length);
        self.stream.seal(tag.room())?;
        Ok(tag)
    }
}

/// Opens messages that arrive in pieces, one after the other.
///
/// Plaintext comes out before the tag is known: keep it back until [`finish`](Self::finish) returns `Ok`. A message in one piece is better
/// served by [`Session::open`](super::Session::open).
#[derive(Clone)]
pub struct OpenStream(AeadStream);

impl OpenStream {
    pub(super) fn new(session: &Session) -> Result<Self> {
        session.aead_stream(Operation::Open).map(Self)
    }

    /// Begins a message.
    pub fn begin(&mut self, nonce: &[u8], aad: &[u8]) -> Result<()> {
        self.0.begin(nonce, aad)
    }

    /// Decrypts the next piece, of any length.
    pub fn update<'a>(&mut self, data: impl Into<Buffers<'a>>) -> Result<()> {
        self.0.update(data)
    }

    /// Ends the message, and verifies its tag.
    ///
    /// # Errors
    /// The message is a forgery: throw its plaintext away.
    pub fn finish(&mut self, tag: &[u8]) -> Result<()> {
        self.0.open(tag)
    }
}
