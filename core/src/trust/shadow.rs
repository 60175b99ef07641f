//! Verification by sampling: some requests are computed a second time in software, and the results are compared.
//!
//! Known-answer tests find a device that always computes wrongly. Sampling also finds a device that does so once in a million requests, or
//! only for the last hours. A wrong result is replaced before the caller sees it.

use std::cell::Cell;

use zeroize::Zeroizing;

use super::comparison::Comparison;
use super::{compression, packet};
use crate::algorithm::{Algorithm, FieldLength, Operation, Outcome, tags_equal};
use crate::driver::{Class, DeviceSession, Fields, Operands, View, call_guarded};

/// A copy of a request, made before it goes to a device.
pub(crate) struct ShadowCopy {
    operation: Operation,
    /// The IV; for key encapsulation, secret random bytes; for packets, the number.
    iv: Zeroizing<Vec<u8>>,
    aad: Vec<u8>,
    input: Zeroizing<Vec<u8>>,
    /// The tag; for a key exchange, a secret; for decipherment, a message; for packets, the next header.
    tag: Zeroizing<Vec<u8>>,
    /// Length in bytes of the result without the tag.
    output_len: usize,
    /// For packets, length in bytes of the payload.
    written: usize,
}

/// Counts a request of this thread, and returns whether to verify it: one request in `every`, and none if `every` is 0.
#[inline]
pub(crate) fn sample_one_in(every: u32) -> bool {
    thread_local! {
        static COUNTDOWN: Cell<u32> = const { Cell::new(0) };
    }
    every != 0
        && COUNTDOWN.with(|countdown| {
            let count = countdown.get().min(every - 1);
            countdown.set(if count == 0 { every - 1 } else { count - 1 });
            count == 0
        })
}

impl ShadowCopy {
    /// Copies a request. Returns `None` for steps of streams, whose initial state is gone, and for keys and secrets that the device drew
    /// itself.
    pub(crate) fn new(operands: &Operands<'_>) -> Option<Self> {
        let operation = operands.operation();
        let mut number = Zeroizing::default();
        match operands {
            Operands::Update { .. } | Operands::Finish { .. } => return None,
            Operands::Packet { number: value, .. } => number = Zeroizing::new(value.to_be_bytes().to_vec()),
            _ => {}
        }
        let View { iv, aad, input, output, tag, written } = operands.view();
        let row = operation.info();
        if row.takes_seed() && iv.is_empty() {
            return None;
        }
        let iv = if row.iv == FieldLength::Number { number } else { Zeroizing::new(iv.to_vec()) };
        let (input, tag) = (Zeroizing::new(input.to_vec()), Zeroizing::new(tag.to_vec()));
        Some(Self {
            operation,
            iv,
            aad: aad.to_vec(),
            input,
            tag,
            output_len: output.len(),
            written: written.unwrap_or(0),
        })
    }

    /// Computes the request on `reference`, and compares the results. If the device was wrong, writes the right result to `operands`.
    pub(crate) fn check(
        mut self,
        algorithm: Algorithm,
        reference: &dyn DeviceSession,
        operands: &mut Operands<'_>,
        outcome: Outcome,
    ) -> Comparison {
        if let Operands::Compression { output, written, .. } = operands {
            return compression::check(reference, (self.operation, &self.input), (output, written), outcome);
        }
        if let Operands::Packet { packet, payload_len, next_header, .. } = operands {
            let data = std::mem::take(&mut self.input);
            let before = packet::Packet { data, payload_len: self.written, next_header: self.tag[0] };
            let request = (self.operation, packet::packet_number(&self.iv), before);
            return packet::check((algorithm, reference), request, (packet, payload_len, next_header), outcome);
        }
        let (mut output, mut written) = (Zeroizing::new(vec![0; self.output_len]), 0);
        let Self { operation, iv, aad, input, tag, .. } = &mut self;
        let fields = Fields { iv, aad, input: Some(input), output: &mut output, tag, written: &mut written };
        let expected = call_guarded(|| reference.run(Operands::from_fields(*operation, fields)));
        let Ok(expected) = expected else { return Comparison::None };
        let view = operands.view();
        // The buffer may hold anything after a result of variable length.
        let length = view.written.map_or(output.len(), |_| written);
        let is_same = view.written.is_none_or(|length| length == written)
            && tags_equal(view.output.get(..length).unwrap_or_default(), output.get(..length).unwrap_or_default());
        // After a bad tag the output holds no result to compare.
        if expected == outcome && (expected != Outcome::Done || is_same && tags_equal(view.tag, tag)) {
            return Comparison::Same;
        }
        let results = operands.results();
        results.output.copy_from_slice(&output);
        if operation.info().writes_tag() {
            results.tag.copy_from_slice(tag);
        }
        if let Some(length) = results.written {
            *length = written;
        }
        Comparison::Differs(expected)
    }
}

/// The class of the devices whose results are trusted.
pub(crate) const REFERENCE_CLASS: Class = Class::Software;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::Fault;

    /// Deciphers every ciphertext to this message. `None`: every ciphertext is malformed.
    struct Reference(Option<&'static [u8]>);

    impl DeviceSession for Reference {
        fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
            let Operands::Decipher { output, written, .. } = operands else { panic!("only deciphers") };
            let Some(message) = self.0 else { return Ok(Outcome::Malformed) };
            output[..message.len()].copy_from_slice(message);
            *written = message.len();
            Ok(Outcome::Done)
        }
    }

    /// Returns the corrected outcome and message, if the outcome or message of the device was wrong.
    fn corrected(message: &[u8], outcome: Outcome, reference: Option<&'static [u8]>) -> Option<(Outcome, Vec<u8>)> {
        let (mut output, mut written) = ([0xee; 16], message.len());
        output[..message.len()].copy_from_slice(message);
        let mut operands = Operands::Decipher { input: &[7; 16], output: &mut output, written: &mut written };
        let shadow = ShadowCopy::new(&operands).expect("there is a copy of it");
        let compared = shadow.check(Algorithm::Rsaes2048Pkcs1, &Reference(reference), &mut operands, outcome);
        match compared {
            Comparison::Same => None,
            Comparison::Differs(right) => Some((right, output[..written].to_vec())),
            Comparison::None => panic!("the reference computes it"),
        }
    }

    #[test]
    fn deciphered_messages_are_compared_up_to_their_length_and_corrected() {
        let right = || Some((Outcome::Done, b"message".to_vec()));
        assert_eq!(corrected(b"message", Outcome::Done, Some(b"message")), None);
        for wrong in [&b"massage"[..], b"messages", b"messag", b""] {
            assert_eq!(corrected(wrong, Outcome::Done, Some(b"message")), right());
        }
        assert_eq!(corrected(b"", Outcome::Malformed, Some(b"message")), right());
        assert_eq!(corrected(b"message", Outcome::Done, None), Some((Outcome::Malformed, Vec::new())));
        assert_eq!(corrected(b"", Outcome::Malformed, None), None);
    }
}
