//! The sessions, and the fields of the request, with which a device is tested for a known answer.

use std::sync::Arc;

use super::packet;
pub(crate) use crate::algorithm::KnownAnswer;
use crate::algorithm::{AnswerField, KeyOf, Kind, Operation, Refusal, SessionParams};
use crate::driver::{Device, DeviceSession};

impl KnownAnswer {
    /// Returns the parameters of the session that tests `operation`.
    pub(crate) fn params(&self, operation: Operation) -> SessionParams {
        let row = operation.info();
        let key = match row.key {
            KeyOf::Owner => self.key,
            KeyOf::Peer => self.second_key,
            KeyOf::Absent => &[],
        };
        let params = SessionParams::new(self.algorithm, key);
        match row.kind {
            Kind::Digest => params.with_tag_len(self.output.len()),
            Kind::Signature => params.with_direction(row.direction).with_context(self.aad),
            Kind::Kem | Kind::Encipherment => params.with_direction(row.direction),
            Kind::Packet => {
                let params = params.with_mac_key(self.second_key).with_tag_len(self.tag_length());
                packet::esp_params(self.aad).map_or(params.clone(), |esp| params.with_esp(esp))
            }
            _ => params.with_mac_key(self.second_key),
        }
    }

    /// Returns the bytes of a field.
    pub(super) fn field(&self, field: AnswerField) -> &'static [u8] {
        match field {
            AnswerField::Nothing => &[],
            AnswerField::Key => self.key,
            AnswerField::SecondKey => self.second_key,
            AnswerField::Iv => self.iv,
            AnswerField::Aad => self.aad,
            AnswerField::Input => self.input,
            AnswerField::Output => self.output,
            AnswerField::Tag => self.tag,
        }
    }

    /// Returns the length of a packet's tag, which follows from the length of the packet.
    fn tag_length(&self) -> usize {
        self.output.len() - self.algorithm.info().packet_length(self.input.len(), 0)
    }

    /// Returns a verifier for results that may differ from the known one: compressed data, packets, and randomized signatures and
    /// ciphertexts. Returns `None` if the result is always the same.
    pub(super) fn verifier(
        &self,
        device: &dyn Device,
        operation: Operation,
    ) -> Result<Option<Arc<dyn DeviceSession>>, Refusal> {
        let row = operation.info();
        let varies = matches!(row.kind, Kind::Compression | Kind::Packet) || self.algorithm.info().randomized;
        let Some(verifier) = row.verifier.filter(|_| varies) else { return Ok(None) };
        device.open(&self.params(verifier)).map(Some)
    }
}
