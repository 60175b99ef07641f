//! The state of messages that come in pieces.

use std::any::Any;

use crate::algorithm::{Buffers, Fault, Operation, Outcome};

/// The state of a digest or MAC between two pieces of its message. Zeroized when dropped.
pub trait DigestStream: Send + Any {
    /// [`Operation::Digest`] or [`Operation::Mac`].
    fn operation(&self) -> Operation;

    /// Takes the next piece.
    fn update(&mut self, input: &[u8]) -> Result<(), Fault>;

    /// Writes the digest or MAC, and stands at the beginning of the next message.
    fn finish(&mut self, output: &mut [u8]) -> Result<(), Fault>;

    /// A second stream that stands where this one does.
    fn duplicate(&self) -> Box<dyn DigestStream>;
}

/// The state of a cipher between two pieces of its data. Zeroized when dropped.
pub trait CipherStream: Send + Any {
    /// Takes the next piece, whose length is a multiple of the algorithm's block.
    fn update(&mut self, data: Buffers<'_>) -> Result<(), Fault>;

    /// A second stream that stands where this one does.
    fn duplicate(&self) -> Box<dyn CipherStream>;
}

/// The state of an AEAD between two pieces of its message. Zeroized when dropped.
///
/// Opening, it gives out plaintext before the tag is known to be good. Only an interface that cannot be served otherwise
/// asks for it, and whoever asks answers for what happens to the plaintext.
pub trait AeadStream: Send + Any {
    /// A new message, whatever became of the last one. `iv` has been checked.
    fn begin(&mut self, iv: &[u8], aad: &[u8]) -> Result<(), Fault>;

    /// Takes the next piece, of any length.
    fn update(&mut self, data: Buffers<'_>) -> Result<(), Fault>;

    /// Writes the whole tag of what went by, sealing.
    fn seal(&mut self, tag: &mut [u8]) -> Result<(), Fault>;

    /// Compares the tag, whole or cut, with that of what went by, opening: [`Outcome::Done`] or [`Outcome::BadTag`].
    fn open(&mut self, tag: &[u8]) -> Result<Outcome, Fault>;

    /// A second stream that stands where this one does.
    fn duplicate(&self) -> Box<dyn AeadStream>;
}
