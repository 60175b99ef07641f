//! SHA-1 that refuses the messages of collision attacks.

use core::fmt;

use crate::error::Error;
use crate::internal::dispatch::Hash;
use crate::internal::hash::{Setup, Stream, run_whole};
use crate::internal::kernel::sha1_checked::{self, Sha1Checked as Function};
use crate::level::Level;
use crate::messages::Slices;

/// Bytes of a digest.
const DIGEST_SIZE: usize = 20;
/// Bytes that the kernels write: the digest, and a word that is not zero after a block of a collision.
const OUTPUT_SIZE: usize = DIGEST_SIZE + size_of::<u32>();

static SETUP: Setup<Function> = Setup::digest(sha1_checked::INITIAL, OUTPUT_SIZE);

/// Messages hashed at a time.
const MESSAGES_PER_BATCH: usize = 256;

/// SHA-1 with the collision detection of Stevens and Shumow, as in Git. A message is refused if one of its blocks belongs to a collision of
/// a known kind; any other message has its usual digest of SHA-1.
///
/// For public data only: the time of the check depends on the data.
///
/// ```
/// use gantry_digest::Sha1Checked;
///
/// assert_eq!(Sha1Checked::digest(b"abc")?[..4], [0xa9, 0x99, 0x3e, 0x36]);
///
/// let mut digests = [Ok([0; 20]); 2];
/// Sha1Checked::digest_many(&["blob 0\0", "tree 0\0"], &mut digests).expect("a result for each message");
/// assert_eq!(digests[0]?[..4], [0xe6, 0x9d, 0xe2, 0x9b]);
/// # Ok::<(), gantry_digest::Collision>(())
/// ```
#[derive(Clone)]
pub struct Sha1Checked(Stream<Function>);

/// A message was refused: a block of it belongs to a collision of SHA-1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collision;

impl Sha1Checked {
    /// Starts a message that arrives in pieces.
    pub fn new() -> Self {
        Sha1Checked(Stream::new(&SETUP))
    }

    /// Appends the next piece.
    pub fn update(&mut self, piece: &[u8]) {
        self.0.append(|| Function::kernels(Level::in_use()), piece);
    }

    /// Ends the message, returns its digest and starts another message.
    pub fn finish(&mut self) -> Result<[u8; DIGEST_SIZE], Collision> {
        let mut output = [0; OUTPUT_SIZE];
        self.0.digest(Function::kernels(Level::in_use()), &SETUP, &mut output);
        *self = Self::new();
        split_output(&output)
    }

    /// Returns the digest of one message.
    pub fn digest(message: &[u8]) -> Result<[u8; DIGEST_SIZE], Collision> {
        let mut output = [0; OUTPUT_SIZE];
        run_whole(Level::in_use(), &SETUP, None, &Slices(&[message]), &mut output);
        split_output(&output)
    }

    /// Hashes the messages side by side, and writes a result for each. `results` must be as long as `messages`.
    pub fn digest_many(
        messages: &[impl AsRef<[u8]>],
        results: &mut [Result<[u8; DIGEST_SIZE], Collision>],
    ) -> Result<(), Error> {
        if messages.len() != results.len() {
            let [needed, found] = [messages.len(), results.len()].map(|count| count.saturating_mul(DIGEST_SIZE));
            return Err(Error::OutputLength { needed, found });
        }
        let level = Level::in_use();
        let mut outputs = [[0; OUTPUT_SIZE]; MESSAGES_PER_BATCH];
        for (messages, results) in messages.chunks(MESSAGES_PER_BATCH).zip(results.chunks_mut(MESSAGES_PER_BATCH)) {
            let outputs = &mut outputs[..messages.len()];
            run_whole(level, &SETUP, None, &Slices(messages), outputs.as_flattened_mut());
            for (result, output) in results.iter_mut().zip(outputs) {
                *result = split_output(output);
            }
        }
        Ok(())
    }
}

impl Default for Sha1Checked {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Sha1Checked {
    /// Omits the state.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sha1Checked").finish_non_exhaustive()
    }
}

impl fmt::Display for Collision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the message belongs to a collision of SHA-1")
    }
}

impl core::error::Error for Collision {}

/// Returns the digest, or an error if the word after it is not zero.
fn split_output(output: &[u8; OUTPUT_SIZE]) -> Result<[u8; DIGEST_SIZE], Collision> {
    match *output {
        [digest @ .., 0, 0, 0, 0] => Ok(digest),
        _ => Err(Collision),
    }
}

#[cfg(test)]
mod tests;
