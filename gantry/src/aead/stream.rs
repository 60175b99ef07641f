//! Messages that arrive in chunks.

use gantry_core::{AeadStream, Buffers, Operation, Result, Session};

use super::Tag;

/// A handle that seals messages in chunks, one message after the other.
#[derive(Clone)]
pub struct SealStream {
    stream: AeadStream,
    tag_len: usize,
}

impl SealStream {
    pub(super) fn new(session: &Session) -> Result<Self> {
        Ok(Self { stream: session.aead_stream(Operation::Seal)?, tag_len: session.params().tag_len() })
    }

    /// Begins a message. Never reuse a nonce with the same key.
    pub fn begin(&mut self, nonce: &[u8], aad: &[u8]) -> Result<()> {
        self.stream.begin(nonce, aad)
    }

    /// Encrypts the next chunk, of any length.
    pub fn update<'a>(&mut self, data: impl Into<Buffers<'a>>) -> Result<()> {
        self.stream.update(data)
    }

    /// Ends the message and returns its tag.
    pub fn finish(&mut self) -> Result<Tag> {
        let mut tag = Tag::zeros(self.tag_len);
        self.stream.seal(tag.as_mut_bytes())?;
        Ok(tag)
    }
}

/// A handle that opens messages in chunks, one message after the other.
///
/// Plaintext is released before the tag is verified: keep it back until [`finish`](Self::finish) returns `Ok`. For a message in one piece,
/// use [`Session::open`](super::Session::open).
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

    /// Decrypts the next chunk, of any length.
    pub fn update<'a>(&mut self, data: impl Into<Buffers<'a>>) -> Result<()> {
        self.0.update(data)
    }

    /// Ends the message and verifies its tag.
    ///
    /// # Errors
    /// The message is a forgery: discard its plaintext.
    pub fn finish(&mut self, tag: &[u8]) -> Result<()> {
        self.0.open(tag)
    }
}
