//! Compression.

use gantry_core::{AlgorithmInfo, Gantry, Request, Result, Session, SessionParams};

use crate::algorithms::Compression;
use crate::batch;

/// A handle that compresses to a format, and decompresses from it.
#[derive(Clone, Debug)]
pub struct Compressor(Session);

impl Compressor {
    pub(crate) fn new(gantry: &Gantry, algorithm: Compression) -> Result<Self> {
        gantry.session(SessionParams::new(algorithm.algorithm(), &[])).map(Self)
    }

    /// Returns a handle with another compression level. A higher level takes longer and compresses better. The level does not matter for
    /// decompression.
    ///
    /// # Errors
    /// [`Misuse::Level`](gantry_core::Misuse::Level) if the format has no such level.
    pub fn with_level(&self, level: usize) -> Result<Self> {
        self.0.gantry().session(self.0.params().clone().with_level(level)).map(Self)
    }

    /// Compresses a message.
    pub fn compress(&self, message: &[u8]) -> Result<Vec<u8>> {
        let mut output = vec![0; AlgorithmInfo::compressed_max(message.len())];
        let length = self.0.compress(message, &mut output)?;
        output.truncate(length);
        Ok(output)
    }

    /// Decompresses to at most `max_len` bytes.
    ///
    /// # Errors
    /// As [`Error::Refused`](gantry_core::Error::Refused): [`Outcome::NoRoom`](gantry_core::Outcome::NoRoom) if the result is longer,
    /// [`Outcome::Malformed`](gantry_core::Outcome::Malformed) if the data is damaged.
    pub fn decompress(&self, data: &[u8], max_len: usize) -> Result<Vec<u8>> {
        let mut output = vec![0; max_len];
        let length = self.0.decompress(data, &mut output)?;
        output.truncate(length);
        Ok(output)
    }

    /// Compresses many messages.
    pub fn compress_many<M: AsRef<[u8]>>(&self, messages: &[M]) -> Result<Vec<Vec<u8>>> {
        let empty_output = |message: &M| (vec![0; AlgorithmInfo::compressed_max(message.as_ref().len())], 0);
        let mut outputs: Vec<(Vec<u8>, usize)> = messages.iter().map(empty_output).collect();
        let pairs = messages.iter().zip(&mut outputs);
        let mut requests: Vec<_> =
            pairs.map(|(message, (output, length))| Request::compress(message.as_ref(), output, length)).collect();
        batch::run_all(&self.0, &mut requests)?;
        for (output, length) in &mut outputs {
            output.truncate(*length);
        }
        Ok(outputs.into_iter().map(|(output, _)| output).collect())
    }

    /// Returns the underlying session, for queues, routes and batches of several sessions.
    pub fn session(&self) -> &Session {
        &self.0
    }
}
