//! Compression.

use gantry_core::{AlgorithmInfo, Gantry, Request, Result, Session, SessionParams};

use crate::algorithms::Compression;
use crate::batch;

/// Compresses to a format, and decompresses it.
#[derive(Clone, Debug)]
pub struct Compressor(Session);

impl Compressor {
    pub(crate) fn new(gantry: &Gantry, algorithm: Compression) -> Result<Self> {
        gantry.session(SessionParams::new(algorithm.algorithm(), &[])).map(Self)
    }

    /// The same with another level: a higher one takes longer and leaves fewer bytes. Any level decompresses the output of any other.
    ///
    /// # Errors
    /// [`Misuse::Level`](gantry_core::Misuse::Level) where the format has no such level.
    pub fn with_level(&self, level: usize) -> Result<Self> {
        self.0.gantry().session(self.0.params().clone().level(level)).map(Self)
    }

    /// Compresses a message.
    pub fn compress(&self, message: &[u8]) -> Result<Vec<u8>> {
        let mut output = vec![0; AlgorithmInfo::compressed_max(message.len())];
        let length = self.0.compress(message, &mut output)?;
        output.truncate(length);
        Ok(output)
    }

    /// Decompresses to `most` bytes at most.
    ///
    /// # Errors
    /// [`Outcome::NoRoom`](gantry_core::Outcome::NoRoom) where there are more, [`Outcome::Malformed`](gantry_core::Outcome::Malformed) where
    /// the data are damaged, as [`Error::Refused`](gantry_core::Error::Refused).
    pub fn decompress(&self, data: &[u8], most: usize) -> Result<Vec<u8>> {
        let mut output = vec![0; most];
        let length = self.0.decompress(data, &mut output)?;
        output.truncate(length);
        Ok(output)
    }

    /// Compresses many messages.
    pub fn compress_many<M: AsRef<[u8]>>(&self, messages: &[M]) -> Result<Vec<Vec<u8>>> {
        let room = |message: &M| (vec![0; AlgorithmInfo::compressed_max(message.as_ref().len())], 0);
        let mut outputs: Vec<(Vec<u8>, usize)> = messages.iter().map(room).collect();
        let pairs = messages.iter().zip(&mut outputs);
        let mut requests: Vec<_> =
            pairs.map(|(message, (output, length))| Request::compress(message.as_ref(), output, length)).collect();
        batch::all(&self.0, &mut requests)?;
        for (output, length) in &mut outputs {
            output.truncate(*length);
        }
        Ok(outputs.into_iter().map(|(output, _)| output).collect())
    }

    /// The session below, for queues, routes and batches of several sessions.
    pub fn session(&self) -> &Session {
        &self.0
    }
}
