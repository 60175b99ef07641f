//! What is asked of a device for packets, and verification of what it made: packets whose IV nobody can tell before differ.

use super::answer::KnownAnswer;
use super::shadow::Comparison;
use crate::algorithm::{Algorithm, Esp, Fault, Operation, Outcome};
use crate::driver::{DeviceSession, Operands, guarded};

/// Of a known answer: SPI, next header, and whether numbers are extended.
pub(super) fn association(aad: &[u8]) -> Option<Esp> {
    let &[a, b, c, d, _, extended] = aad else { return None };
    Some(Esp { spi: u32::from_be_bytes([a, b, c, d]), extended: extended != 0 })
}

/// The number of a packet, from where other requests have their IV.
pub(super) fn number(iv: &[u8]) -> u64 {
    iv.as_array().map_or(0, |number| u64::from_be_bytes(*number))
}

/// The packet of a known answer before it is one: what a device does not write is seen.
pub(super) fn unprotected(answer: &KnownAnswer) -> Vec<u8> {
    let mut packet = vec![0xEE; answer.output.len()];
    packet[answer.algorithm.info().payload_start()..][..answer.input.len()].copy_from_slice(answer.input);
    packet
}

/// Whether a device opens a packet to a known answer's payload.
pub(super) fn leads_back(session: &dyn DeviceSession, answer: &KnownAnswer, packet: &[u8]) -> Result<bool, Fault> {
    let mut ours = Packet { data: packet.to_vec(), payload: 0, next_header: 0 };
    let outcome = ours.run(session, Operation::Unprotect, number(answer.iv))?;
    let is_same = ours.payload(answer.algorithm) == Some(answer.input) && ours.next_header == answer.aad[4];
    Ok(outcome == Outcome::Done && is_same)
}

/// A packet, with what is said of it, or was told.
#[derive(Clone)]
pub(super) struct Packet {
    pub(super) data: Vec<u8>,
    pub(super) payload: usize,
    pub(super) next_header: u8,
}

impl Packet {
    fn run(&mut self, session: &dyn DeviceSession, operation: Operation, number: u64) -> Result<Outcome, Fault> {
        let Self { data: packet, payload, next_header } = self;
        session.run(Operands::Packet { operation, number, packet, payload, next_header })
    }

    fn payload(&self, algorithm: Algorithm) -> Option<&[u8]> {
        let start = algorithm.info().payload_start();
        self.data.get(start..start.checked_add(self.payload)?)
    }
}

/// Looks at what a device made of a packet. Where the device was wrong, the operands have the right result afterwards.
pub(super) fn check(
    (algorithm, reference): (Algorithm, &dyn DeviceSession),
    (operation, number, before): (Operation, u64, Packet),
    (packet, payload, next_header): (&mut [u8], &mut usize, &mut u8),
    outcome: Outcome,
) -> Comparison {
    let run = |packet: &mut Packet, operation| guarded(|| packet.run(reference, operation, number)).ok();
    let mut right = before.clone();
    let Some(right_outcome) = run(&mut right, operation) else { return Comparison::None };
    let mut ours = Packet { data: packet.to_vec(), payload: *payload, next_header: *next_header };
    let is_same = right_outcome == outcome
        && match (outcome, operation) {
            (Outcome::Done, Operation::Protect) => {
                run(&mut ours, Operation::Unprotect) == Some(Outcome::Done)
                    && ours.payload(algorithm) == before.payload(algorithm)
                    && ours.next_header == before.next_header
            }
            (Outcome::Done, _) => {
                ours.payload(algorithm) == right.payload(algorithm) && ours.next_header == right.next_header
            }
            _ => true,
        };
    if is_same {
        return Comparison::Same;
    }
    packet.copy_from_slice(&right.data);
    (*payload, *next_header) = (right.payload, right.next_header);
    Comparison::Differs(right_outcome)
}
