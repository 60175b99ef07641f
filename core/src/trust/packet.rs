//! Known answers for packets, and verification of packets from devices. Two packets of the same payload differ if their IVs are
//! unpredictable, so a protected packet is verified by opening it.

use zeroize::Zeroizing;

use super::answer::KnownAnswer;
use super::comparison::Comparison;
use crate::algorithm::{Algorithm, Esp, Fault, Operation, Outcome};
use crate::driver::{DeviceSession, Operands, call_guarded};

/// Returns the parameters of a known answer's security association. `aad` has the SPI, the next header, and a byte that is not 0 if
/// sequence numbers have 64 bits.
pub(super) fn esp_params(aad: &[u8]) -> Option<Esp> {
    let &[a, b, c, d, _, extended] = aad else { return None };
    Some(Esp { spi: u32::from_be_bytes([a, b, c, d]), extended: extended != 0 })
}

/// Returns the sequence number of a packet, from the field in which other known answers have their IV.
pub(super) fn packet_number(iv: &[u8]) -> u64 {
    iv.as_array().map_or(0, |number| u64::from_be_bytes(*number))
}

/// Returns the buffer of a known answer before its packet is protected. The bytes around the payload are 0xEE, which shows whether a device
/// writes all of them.
pub(super) fn unprotected_packet(answer: &KnownAnswer) -> Vec<u8> {
    let mut packet = vec![0xEE; answer.output.len()];
    packet[answer.algorithm.info().payload_start()..][..answer.input.len()].copy_from_slice(answer.input);
    packet
}

/// A packet, with the fields that the caller or the device sets.
#[derive(Clone)]
pub(super) struct Packet {
    pub(super) data: Zeroizing<Vec<u8>>,
    pub(super) payload_len: usize,
    pub(super) next_header: u8,
}

impl Packet {
    /// Copies a packet. The payload and the next header are not known yet.
    pub(super) fn new(data: &[u8]) -> Self {
        Self { data: Zeroizing::new(data.to_vec()), payload_len: 0, next_header: 0 }
    }

    fn run(&mut self, session: &dyn DeviceSession, operation: Operation, number: u64) -> Result<Outcome, Fault> {
        let Self { data: packet, payload_len, next_header } = self;
        session.run(Operands::Packet { operation, number, packet, payload_len, next_header })
    }

    /// Returns the payload and its next header; `None` if the payload would be longer than the packet.
    pub(super) fn content(&self, algorithm: Algorithm) -> Option<(&[u8], u8)> {
        let start = algorithm.info().payload_start();
        let payload = self.data.get(start..start.checked_add(self.payload_len)?)?;
        Some((payload, self.next_header))
    }

    /// Returns whether a session opens the packet to this content.
    pub(super) fn restores(
        mut self,
        (algorithm, session): (Algorithm, &dyn DeviceSession),
        number: u64,
        content: Option<(&[u8], u8)>,
    ) -> Result<bool, Fault> {
        let outcome = self.run(session, Operation::Unprotect, number)?;
        Ok(outcome == Outcome::Done && self.content(algorithm) == content)
    }
}

/// Checks a device's result for a packet that it protected or opened. If the result is wrong, writes the right one to the operands.
pub(super) fn check(
    (algorithm, reference): (Algorithm, &dyn DeviceSession),
    (operation, number, before): (Operation, u64, Packet),
    (packet, payload_len, next_header): (&mut [u8], &mut usize, &mut u8),
    outcome: Outcome,
) -> Comparison {
    let mut expected = before.clone();
    let Ok(expected_outcome) = call_guarded(|| expected.run(reference, operation, number)) else {
        return Comparison::None;
    };
    let device_packet = Packet { payload_len: *payload_len, next_header: *next_header, ..Packet::new(packet) };
    let is_same = expected_outcome == outcome
        && match (outcome, operation) {
            (Outcome::Done, Operation::Protect) => {
                let content = before.content(algorithm);
                call_guarded(|| device_packet.restores((algorithm, reference), number, content)).unwrap_or(false)
            }
            (Outcome::Done, _) => device_packet.content(algorithm) == expected.content(algorithm),
            _ => true,
        };
    if is_same {
        return Comparison::Same;
    }
    packet.copy_from_slice(&expected.data);
    (*payload_len, *next_header) = (expected.payload_len, expected.next_header);
    Comparison::Differs(expected_outcome)
}
