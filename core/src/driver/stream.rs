//! The state of messages that come in pieces.

use std::any::Any;

use crate::algorithm::{Buffers, Fault, Operation, Outcome};

/// The state of a digest or MAC between two pieces of its message. Zeroized when dropped.
pub trait DigestStream: Send + Any {
    /// Returns [`Operation::Digest`] or [`Operation::Mac`].
    fn operation(&self) -> Operation;

    /// Takes the next piece.
    fn update(&mut self, input: &[u8]) -> Result<(), Fault>;

    /// Writes the digest or MAC, and is then ready for the next message.
    fn finish(&mut self, output: &mut [u8]) -> Result<(), Fault>;

    /// Returns a copy of the stream at the same position.
    fn duplicate(&self) -> Box<dyn DigestStream>;
}

/// The state of a cipher between two pieces of its data. Zeroized when dropped.
pub trait CipherStream: Send + Any {
    /// Takes the next piece, whose length is a multiple of the algorithm's block.
    fn update(&mut self, data: Buffers<'_>) -> Result<(), Fault>;

    /// Returns a copy of the stream at the same position.
    fn duplicate(&self) -> Box<dyn CipherStream>;
}

/// The state of an AEAD between two pieces of its message. Zeroized when dropped.
///
/// When opening, the stream returns plaintext before the tag is verified. Only interfaces that cannot be served in another way use it, and
/// they are responsible for the unverified plaintext.
pub trait AeadStream: Send + Any {
    /// Begins a new message, regardless of the state of the last one. `iv` has been checked.
    fn begin(&mut self, iv: &[u8], aad: &[u8]) -> Result<(), Fault>;

    /// Takes the next piece, of any length.
    fn update(&mut self, data: Buffers<'_>) -> Result<(), Fault>;

    /// Takes associated data after data. Some releases of OpenSSL allow such messages with ChaCha20-Poly1305, and authenticate all bytes in
    /// their order; RFC 8439 does not allow them. A result of [`Outcome::Malformed`] leaves the message as it is.
    fn aad_after_data(&mut self, aad: &[u8]) -> Result<Outcome, Fault> {
        let _ = aad;
        Ok(Outcome::Malformed)
    }

    /// Ends a message that is being sealed, and writes its whole tag.
    fn seal(&mut self, tag: &mut [u8]) -> Result<(), Fault>;

    /// Ends a message that is being opened, and compares its tag with `tag`, which may be truncated. Returns [`Outcome::Done`] or
    /// [`Outcome::BadTag`].
    fn open(&mut self, tag: &[u8]) -> Result<Outcome, Fault>;

    /// Returns a copy of the stream at the same position.
    fn duplicate(&self) -> Box<dyn AeadStream>;
}
