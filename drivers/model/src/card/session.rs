//! A session of a modelled device, with the results of the reference.

use std::any::Any;
use std::sync::Arc;

use gantry_core::driver::{DeviceSession, Fields, Job, Operands};
use gantry_core::{Fault, Kind, Outcome};

use super::Card;
use crate::profile::Rate;

/// A session of the reference, with the modelled cost of its requests.
pub(crate) struct ModelSession {
    reference: Arc<dyn DeviceSession>,
    pub(crate) rate: Rate,
    card: Arc<Card>,
}

impl ModelSession {
    pub(crate) fn new(reference: Arc<dyn DeviceSession>, rate: Rate, card: Arc<Card>) -> Self {
        Self { reference, rate, card }
    }
}

impl DeviceSession for ModelSession {
    /// Runs the software of a modelled board. Core does not call this on a card, which is not direct.
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        let bytes = operands.bytes();
        self.card.run_on_caller(&self.rate, bytes, || self.reference.run(operands))
    }
}

/// The results of a job until the card completes it. They are written to the job's buffers only then, so a request that is
/// taken back earlier has its original data.
pub(crate) struct Answer {
    pub(crate) result: Result<Outcome, Fault>,
    data: Vec<u8>,
    tag: Vec<u8>,
    /// The length of the result, or of the payload of a packet.
    written: usize,
    is_packet: bool,
}

impl Answer {
    /// Computes the results with the reference.
    pub(crate) fn compute(job: &mut Job) -> Self {
        let (session, operands) = job.parts();
        let Some(session) = (session as &dyn Any).downcast_ref::<ModelSession>() else {
            return Self::failed(Fault::failed("the session belongs to another device"));
        };
        let number = match operands {
            Operands::Update { .. } | Operands::Finish { .. } => {
                return Self::failed(Fault::failed("models do not support streams"));
            }
            Operands::Packet { number, .. } => number.to_be_bytes(),
            _ => [0; 8],
        };
        let (row, view) = (operands.operation().info(), operands.view());
        let is_packet = row.kind == Kind::Packet;
        let (mut data, mut tag) = (view.output.to_vec(), view.tag.to_vec());
        let mut written = view.written.unwrap_or(0);
        let iv = if is_packet { &number } else { view.iv };
        let input = (!is_packet).then_some(view.input);
        let fields = Fields { iv, aad: view.aad, input, output: &mut data, tag: &mut tag, written: &mut written };
        let result = session.reference.run(Operands::from_fields(row.operation, fields));
        if row.returns_length {
            data.truncate(written);
        }
        if row.reads_tag() {
            tag.clear();
        }
        Self { result, data, tag, written, is_packet }
    }

    pub(crate) fn failed(fault: Fault) -> Self {
        Self { result: Err(fault), data: Vec::new(), tag: Vec::new(), written: 0, is_packet: false }
    }

    /// Flips one bit of the result.
    pub(crate) fn flip_bit(&mut self) {
        // The middle of a packet belongs to its payload.
        let at = if self.is_packet { self.data.len() / 2 } else { 0 };
        if let Some(byte) = self.data.get_mut(at).or(self.tag.first_mut()) {
            *byte ^= 1;
        }
    }

    /// Writes the results to the buffers of the job.
    pub(crate) fn deliver(self, job: &mut Job) -> Result<Outcome, Fault> {
        if self.result == Ok(Outcome::Done) {
            let mut operands = job.operands();
            let results = operands.results();
            results.output[..self.data.len()].copy_from_slice(&self.data);
            results.tag.copy_from_slice(&self.tag);
            if let Some(written) = results.written {
                *written = self.written;
            }
        }
        self.result
    }
}
