//! What is asked of a device for one known answer.

use std::sync::Arc;

use super::packet;
pub(crate) use crate::algorithm::KnownAnswer;
use crate::algorithm::{Direction, Operation, Refusal, SessionParams};
use crate::driver::{Device, DeviceSession};

impl KnownAnswer {
    /// The session that shows `operation`.
    pub(crate) fn params(&self, operation: Operation) -> SessionParams {
        let with = |key| SessionParams::new(self.algorithm, key);
        match operation {
            Operation::Sign => with(self.key).direction(Direction::Encrypt).context(self.aad),
            Operation::Verify => with(self.second_key).direction(Direction::Decrypt).context(self.aad),
            Operation::Digest => with(self.key).tag_len(self.output.len()),
            Operation::KeyGen | Operation::Encapsulate => with(&[]).direction(Direction::Encrypt),
            Operation::Decapsulate | Operation::Decipher => with(self.key).direction(Direction::Decrypt),
            Operation::Encipher => with(self.second_key).direction(Direction::Encrypt),
            Operation::Protect | Operation::Unprotect => {
                let params = with(self.key).mac_key(self.second_key).tag_len(self.tag_length());
                packet::association(self.aad).map_or(params.clone(), |esp| params.esp(esp))
            }
            _ => with(self.key).mac_key(self.second_key),
        }
    }

    /// Of a packet: its length says how long its tag is.
    fn tag_length(&self) -> usize {
        self.output.len() - self.algorithm.info().packet_length(self.input.len(), 0)
    }

    /// What tells whether a result is good that need not be the known one: a signature, what was compressed, or what was enciphered.
    pub(super) fn verifier(
        &self,
        device: &dyn Device,
        operation: Operation,
    ) -> Result<Option<Arc<dyn DeviceSession>>, Refusal> {
        let by = match operation {
            Operation::Sign if self.algorithm.info().randomized => Operation::Verify,
            Operation::Encipher if self.algorithm.info().randomized => Operation::Decipher,
            Operation::Compress => Operation::Decompress,
            Operation::Protect => Operation::Unprotect,
            _ => return Ok(None),
        };
        device.open(&self.params(by)).map(Some)
    }
}
