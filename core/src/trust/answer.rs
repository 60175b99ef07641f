//! One known answer.

use std::sync::Arc;

use crate::algorithm::{Algorithm, Direction, Operation, Refusal, SessionParams};
use crate::driver::{Device, DeviceSession};

/// One known answer. Fields that the algorithm has no use for are empty.
pub(crate) struct KnownAnswer {
    pub(crate) algorithm: Algorithm,
    pub(crate) key: &'static [u8],
    /// Of encrypt-then-authenticate algorithms, the MAC's key; of signatures, the public one.
    pub(crate) second_key: &'static [u8],
    pub(crate) iv: &'static [u8],
    pub(crate) aad: &'static [u8],
    pub(crate) input: &'static [u8],
    /// Ciphertext, digest, MAC, signature or secret.
    pub(crate) output: &'static [u8],
    /// Of AEADs.
    pub(crate) tag: &'static [u8],
}

impl KnownAnswer {
    /// The session that shows `operation`.
    pub(crate) fn params(&self, operation: Operation) -> SessionParams {
        let with = |key| SessionParams::new(self.algorithm, key);
        match operation {
            Operation::Sign => with(self.key).direction(Direction::Encrypt),
            Operation::Verify => with(self.second_key).direction(Direction::Decrypt),
            Operation::Digest => with(self.key).tag_len(self.output.len()),
            _ => with(self.key).mac_key(self.second_key),
        }
    }

    /// What tells whether a signature is good that need not be the known one.
    pub(super) fn verifier(
        &self,
        device: &dyn Device,
        operation: Operation,
    ) -> Result<Option<Arc<dyn DeviceSession>>, Refusal> {
        let needed = operation == Operation::Sign && self.algorithm.info().randomized;
        needed.then(|| device.open(&self.params(Operation::Verify))).transpose()
    }
}
