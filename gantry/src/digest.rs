//! Hashes.

use gantry_core::{Request, Result, SessionParams};

use crate::algorithms::Digest;
use crate::batch;

pub use crate::bytes::Output;
pub use gantry_core::Stream;

/// A hash function, ready for messages.
#[derive(Clone, Debug)]
pub struct Session(gantry_core::Session);

impl Session {
    pub(crate) fn new(gantry: &gantry_core::Gantry, algorithm: Digest) -> Result<Self> {
        gantry.session(SessionParams::new(algorithm.algorithm(), &[])).map(Self)
    }

    /// The same function with digests of `bytes` bytes.
    ///
    /// # Errors
    /// [`Misuse::TagLength`](gantry_core::Misuse::TagLength) where the function has no such digests: only extendable-output functions
    /// have a choice.
    pub fn with_output_len(&self, bytes: usize) -> Result<Self> {
        self.0.gantry().session(self.0.params().clone().tag_len(bytes)).map(Self)
    }

    /// The digest of a message, on this thread.
    pub fn digest(&self, message: &[u8]) -> Result<Output> {
        let mut output = Output::zeros(self.0.params().tag_length());
        self.0.digest(message, output.room())?;
        Ok(output)
    }

    /// The digests of many messages, side by side where a device has lanes.
    pub fn digest_many<M: AsRef<[u8]>>(&self, messages: &[M]) -> Result<Vec<Output>> {
        let mut outputs = vec![Output::zeros(self.0.params().tag_length()); messages.len()];
        let pairs = messages.iter().zip(&mut outputs);
        let mut requests: Vec<_> =
            pairs.map(|(message, output)| Request::digest(message.as_ref(), output.room())).collect();
        batch::all(&self.0, &mut requests)?;
        Ok(outputs)
    }

    /// A message that arrives in pieces.
    pub fn stream(&self) -> Result<Stream> {
        self.0.stream(1)
    }

    /// The session below, for queues, routes and batches of several sessions.
    pub fn session(&self) -> &gantry_core::Session {
        &self.0
    }
}
