//! Hashes.

use gantry_core::{Request, Result, SessionParams};

use crate::algorithms::Digest;
use crate::batch;

pub use crate::bytes::Output;
pub use gantry_core::Stream;

/// A handle of a hash function.
#[derive(Clone, Debug)]
pub struct Session(gantry_core::Session);

impl Session {
    pub(crate) fn new(gantry: &gantry_core::Gantry, algorithm: Digest) -> Result<Self> {
        gantry.session(SessionParams::new(algorithm.algorithm(), &[])).map(Self)
    }

    /// Returns a session with digests of `bytes` bytes.
    ///
    /// # Errors
    /// [`Misuse::TagLength`](gantry_core::Misuse::TagLength) if the function has no digests of this length. Only extendable-output
    /// functions have several lengths.
    pub fn with_output_len(&self, bytes: usize) -> Result<Self> {
        self.0.gantry().session(self.0.params().clone().with_tag_len(bytes)).map(Self)
    }

    /// Computes the digest of a message on this thread.
    pub fn digest(&self, message: &[u8]) -> Result<Output> {
        let mut output = Output::zeros(self.0.params().tag_len());
        self.0.digest(message, output.as_mut_bytes())?;
        Ok(output)
    }

    /// Computes the digests of many messages, side by side if a device has lanes.
    pub fn digest_many<M: AsRef<[u8]>>(&self, messages: &[M]) -> Result<Vec<Output>> {
        let mut outputs = vec![Output::zeros(self.0.params().tag_len()); messages.len()];
        let pairs = messages.iter().zip(&mut outputs);
        let mut requests: Vec<_> =
            pairs.map(|(message, output)| Request::digest(message.as_ref(), output.as_mut_bytes())).collect();
        batch::run_all(&self.0, &mut requests)?;
        Ok(outputs)
    }

    /// Starts a message that arrives in chunks.
    pub fn stream(&self) -> Result<Stream> {
        self.0.stream(1)
    }

    /// Returns the underlying session, for queues, routes and batches of several sessions.
    pub fn session(&self) -> &gantry_core::Session {
        &self.0
    }
}
