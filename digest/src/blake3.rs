//! BLAKE3 of whole messages.

#[cfg(feature = "alloc")]
use alloc::boxed::Box;
use core::fmt;

use crate::error::Error;
use crate::internal::blake3::{DIGEST_SIZE, Mode, PLAIN_MODE};
use crate::internal::wipe::with_stack_wiped;
use crate::level::Level;
use crate::messages::Slices;

/// BLAKE3 (<https://github.com/BLAKE3-team/BLAKE3-specs>) with 32 bytes, in one of its three modes. A key is zeroized on drop, and leaves
/// no copy on the stack.
///
/// A message of up to 1,024 bytes, one chunk, takes one lane. Each longer message fills the lanes with its own chunks.
///
/// ```
/// use gantry_digest::Blake3;
///
/// let mut digests = [[0; 32]; 2];
/// Blake3::new().digest_many(&["", "abc"], &mut digests)?;
/// assert_eq!(digests[0][..4], [0xaf, 0x13, 0x49, 0xb9]);
/// assert_eq!(Blake3::new().digest(b"abc"), digests[1]);
/// assert_ne!(Blake3::keyed(&[7; 32]).digest(b"abc"), digests[1]);
/// # Ok::<(), gantry_digest::Error>(())
/// ```
pub struct Blake3(
    /// The key. In a box: a moved value would leave copies on the stack.
    Option<KeyedMode>,
);

#[cfg(feature = "alloc")]
type KeyedMode = Box<Mode>;
/// Without a heap there are no keys.
#[cfg(not(feature = "alloc"))]
type KeyedMode = &'static Mode;

impl Blake3 {
    /// Creates the function for plain digests.
    pub const fn new() -> Self {
        Blake3(None)
    }

    /// Creates the function for digests under a key (feature `alloc`): a MAC, or a pseudorandom function.
    #[cfg(feature = "alloc")]
    pub fn keyed(key: &[u8; 32]) -> Self {
        with_stack_wiped(|| Blake3(Some(Box::new(Mode::keyed(key)))))
    }

    /// Creates the function that derives keys (feature `alloc`): a digest is a key, and the message is its key material. `context` is a
    /// constant of the application, such as "example.com 2026-11-28 session tokens".
    #[cfg(feature = "alloc")]
    pub fn derive_key(context: &str) -> Self {
        with_stack_wiped(|| Blake3(Some(Box::new(Mode::derive_key(Level::in_use(), context.as_bytes())))))
    }

    /// Returns the digest of one message. A copy of the digest may remain on the stack, so derive keys with
    /// [`digest_many`](Self::digest_many).
    pub fn digest(&self, message: &[u8]) -> [u8; DIGEST_SIZE] {
        let mut digests = [[0; DIGEST_SIZE]];
        self.run(&[message], &mut digests);
        digests[0]
    }

    /// Writes the digest of each message. `digests` must be as long as `messages`.
    pub fn digest_many(&self, messages: &[impl AsRef<[u8]>], digests: &mut [[u8; DIGEST_SIZE]]) -> Result<(), Error> {
        if messages.len() != digests.len() {
            let [needed, found] = [messages.len(), digests.len()].map(|count| count.saturating_mul(DIGEST_SIZE));
            return Err(Error::OutputLength { needed, found });
        }
        self.run(messages, digests);
        Ok(())
    }

    fn run(&self, messages: &[impl AsRef<[u8]>], digests: &mut [[u8; DIGEST_SIZE]]) {
        let run = |mode: &Mode, digests| mode.digest_many(Level::in_use(), &Slices(messages), digests);
        match &self.0 {
            Some(mode) => with_stack_wiped(|| run(mode, digests)),
            None => run(&PLAIN_MODE, digests),
        }
    }
}

impl Default for Blake3 {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Blake3 {
    /// Omits the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blake3").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
