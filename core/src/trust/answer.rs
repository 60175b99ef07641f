//! What is asked of a device for one known answer.

use std::sync::Arc;

use super::packet;
pub(crate) use crate::algorithm::KnownAnswer;
use crate::algorithm::{KeyOf, Kind, Operation, Place, Refusal, SessionParams};
use crate::driver::{Device, DeviceSession};

impl KnownAnswer {
    /// The session that shows `operation`.
    pub(crate) fn params(&self, operation: Operation) -> SessionParams {
        let row = operation.info();
        let key = match row.key {
            KeyOf::Owner => self.key,
            KeyOf::Peer => self.second_key,
            KeyOf::Nobody => &[],
        };
        let params = SessionParams::new(self.algorithm, key);
        match row.kind {
            Kind::Digest => params.tag_len(self.output.len()),
            Kind::Signature => params.direction(row.direction).context(self.aad),
            Kind::Kem | Kind::Encipherment => params.direction(row.direction),
            Kind::Packet => {
                let params = params.mac_key(self.second_key).tag_len(self.tag_length());
                packet::association(self.aad).map_or(params.clone(), |esp| params.esp(esp))
            }
            _ => params.mac_key(self.second_key),
        }
    }

    /// The bytes of a field.
    pub(super) fn at(&self, place: Place) -> &'static [u8] {
        match place {
            Place::Nothing => &[],
            Place::Key => self.key,
            Place::SecondKey => self.second_key,
            Place::Iv => self.iv,
            Place::Aad => self.aad,
            Place::Input => self.input,
            Place::Output => self.output,
            Place::Tag => self.tag,
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
        let row = operation.info();
        let varies = matches!(row.kind, Kind::Compression | Kind::Packet) || self.algorithm.info().randomized;
        let Some(judge) = row.judge.filter(|_| varies) else { return Ok(None) };
        device.open(&self.params(judge)).map(Some)
    }
}
