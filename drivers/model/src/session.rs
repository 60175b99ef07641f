use std::any::Any;
use std::sync::Arc;

use gantry_core::driver::{Buffers, DeviceSession, Job, Operands};
use gantry_core::{Fault, Outcome};

use crate::card::Card;
use crate::profile::Rate;

/// A session of the reference, and what its requests cost here.
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
    /// The software of a modelled board. (Core does not call this of a card, which is not direct.)
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        let bytes = operands.bytes();
        self.card.direct(&self.rate, bytes, || self.reference.run(operands))
    }
}

/// What came of a job, until the card hands it over. The job's own buffers are written only then: a request that is taken
/// back before has its data as they were.
pub(crate) struct Answer {
    pub(crate) result: Result<Outcome, Fault>,
    /// Data, digest or MAC; of key encapsulation the first of two results.
    data: Vec<u8>,
    /// Of a seal, and the second result of key encapsulation.
    tag: Vec<u8>,
    /// Of a packet: the bytes of the payload, and the next header.
    told: Option<(usize, u8)>,
}

impl Answer {
    /// Asks the reference.
    pub(crate) fn compute(job: &mut Job) -> Self {
        let (session, operands) = job.parts();
        let (mut data, mut tag, mut told) = (Vec::new(), Vec::new(), None);
        let result = match (session as &dyn Any).downcast_ref::<ModelSession>() {
            Some(session) => match operands {
                Operands::Packet { operation, number, packet, payload, next_header } => {
                    data = packet.to_vec();
                    let (mut length, mut next) = (*payload, *next_header);
                    let (payload, next_header) = (&mut length, &mut next);
                    let packet = &mut data[..];
                    let operands = Operands::Packet { operation, number, packet, payload, next_header };
                    let result = session.reference.run(operands);
                    told = Some((length, next));
                    result
                }
                operands => run(&*session.reference, operands, &mut data, &mut tag),
            },
            None => Err(Fault::failed("a session of another device")),
        };
        Self { result, data, tag, told }
    }

    pub(crate) fn failed(fault: Fault) -> Self {
        Self { result: Err(fault), data: Vec::new(), tag: Vec::new(), told: None }
    }

    /// Turns one bit of it over.
    pub(crate) fn spoil(&mut self) {
        // In the middle of a packet is its payload.
        let at = if self.told.is_some() { self.data.len() / 2 } else { 0 };
        if let Some(byte) = self.data.get_mut(at).or(self.tag.first_mut()) {
            *byte ^= 1;
        }
    }

    /// Writes it to the buffers of the job.
    pub(crate) fn deliver(self, job: &mut Job) -> Result<Outcome, Fault> {
        if self.result == Ok(Outcome::Done) {
            match job.operands() {
                Operands::Cipher { mut data, .. } | Operands::Open { mut data, .. } => {
                    data.output().copy_from_slice(&self.data);
                }
                Operands::Seal { mut data, tag, .. } => {
                    data.output().copy_from_slice(&self.data);
                    tag.copy_from_slice(&self.tag);
                }
                Operands::Digest { output, .. }
                | Operands::Mac { output, .. }
                | Operands::Sign { output, .. }
                | Operands::Derive { output, .. }
                | Operands::Decapsulate { output, .. }
                | Operands::Encipher { output, .. } => output.copy_from_slice(&self.data),
                Operands::KeyGen { private: first, public: second, .. }
                | Operands::Encapsulate { ciphertext: first, output: second, .. } => {
                    first.copy_from_slice(&self.data);
                    second.copy_from_slice(&self.tag);
                }
                Operands::Packet { packet, payload, next_header, .. } => {
                    packet.copy_from_slice(&self.data);
                    (*payload, *next_header) = self.told.unwrap_or_default();
                }
                Operands::Compression { output, written, .. } | Operands::Decipher { output, written, .. } => {
                    output[..self.data.len()].copy_from_slice(&self.data);
                    *written = self.data.len();
                }
                _ => {}
            }
        }
        self.result
    }
}

/// Runs `operands` on the reference, with the results in `to` and `to_tag`.
fn run(
    reference: &dyn DeviceSession,
    operands: Operands<'_>,
    to: &mut Vec<u8>,
    to_tag: &mut Vec<u8>,
) -> Result<Outcome, Fault> {
    match operands {
        Operands::Cipher { operation, iv, data } => {
            to.resize(data.len(), 0);
            reference.run(Operands::Cipher { operation, iv, data: between(&data, to) })
        }
        Operands::Seal { iv, aad, data, tag } => {
            to.resize(data.len(), 0);
            to_tag.resize(tag.len(), 0);
            reference.run(Operands::Seal { iv, aad, data: between(&data, to), tag: to_tag })
        }
        Operands::Open { iv, aad, data, tag } => {
            to.resize(data.len(), 0);
            reference.run(Operands::Open { iv, aad, data: between(&data, to), tag })
        }
        Operands::Digest { input, output } => {
            to.resize(output.len(), 0);
            reference.run(Operands::Digest { input, output: to })
        }
        Operands::Mac { iv, input, output } => {
            to.resize(output.len(), 0);
            reference.run(Operands::Mac { iv, input, output: to })
        }
        Operands::Sign { input, output } => {
            to.resize(output.len(), 0);
            reference.run(Operands::Sign { input, output: to })
        }
        Operands::Derive { input, output } => {
            to.resize(output.len(), 0);
            reference.run(Operands::Derive { input, output: to })
        }
        Operands::Verify { .. } => reference.run(operands),
        Operands::KeyGen { seed, private, public } => {
            to.resize(private.len(), 0);
            to_tag.resize(public.len(), 0);
            reference.run(Operands::KeyGen { seed, private: to, public: to_tag })
        }
        Operands::Encapsulate { input, seed, ciphertext, output } => {
            to.resize(ciphertext.len(), 0);
            to_tag.resize(output.len(), 0);
            reference.run(Operands::Encapsulate { input, seed, ciphertext: to, output: to_tag })
        }
        Operands::Decapsulate { input, output } => {
            to.resize(output.len(), 0);
            reference.run(Operands::Decapsulate { input, output: to })
        }
        Operands::Compression { operation, input, output, .. } => {
            to.resize(output.len(), 0);
            let mut written = 0;
            let result = reference.run(Operands::Compression { operation, input, output: to, written: &mut written });
            to.truncate(written);
            result
        }
        Operands::Encipher { input, output } => {
            to.resize(output.len(), 0);
            reference.run(Operands::Encipher { input, output: to })
        }
        Operands::Decipher { input, output, .. } => {
            to.resize(output.len(), 0);
            let mut written = 0;
            let result = reference.run(Operands::Decipher { input, output: to, written: &mut written });
            to.truncate(written);
            result
        }
        _ => Err(Fault::failed("models have no such operation")),
    }
}

fn between<'a>(data: &'a Buffers<'_>, output: &'a mut [u8]) -> Buffers<'a> {
    Buffers::Separate { input: data.input(), output }
}
