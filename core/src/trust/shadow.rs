//! Verification by sampling: now and then a request is computed a second time, on software, and the results are compared.
//!
//! Known-answer tests find a device that always computes wrongly. One that does so once in a million, or since this morning, is
//! found by looking at its work. What a sample finds wrong is made right before the caller sees it.

use std::cell::Cell;

use zeroize::Zeroizing;

use super::comparison::Comparison;
use super::{compression, packet};
use crate::algorithm::{Algorithm, Operation, Outcome, tags_equal};
use crate::driver::{Buffers, Class, DeviceSession, Operands, guarded};

/// What a request was before a device had it.
pub(crate) struct ShadowCopy {
    operation: Operation,
    /// Of key encapsulation, random bytes that nobody else knows.
    iv: Zeroizing<Vec<u8>>,
    aad: Vec<u8>,
    input: Zeroizing<Vec<u8>>,
    /// Of a key exchange, a secret; of what was deciphered, a message.
    tag: Zeroizing<Vec<u8>>,
    /// Bytes of the result beside the tag.
    output: usize,
}

/// Whether it is this request's turn, of one in `every`; 0 for none.
#[inline]
pub(crate) fn is_due(every: u32) -> bool {
    thread_local! {
        static LEFT: Cell<u32> = const { Cell::new(0) };
    }
    every != 0
        && LEFT.with(|left| {
            let now = left.get().min(every - 1);
            left.set(if now == 0 { every - 1 } else { now - 1 });
            now == 0
        })
}

impl ShadowCopy {
    /// Steps of streams have none: the state that they began with is gone. Nor have keys and secrets that the device drew itself.
    pub(crate) fn of(operands: &Operands<'_>) -> Option<Self> {
        let operation = operands.operation();
        let mut result = None;
        let (iv, aad, input, tag): (&[u8], &[u8], &[u8], &[u8]) = match operands {
            Operands::Cipher { iv, data, .. } => (iv, &[], data.input(), &[]),
            Operands::Seal { iv, aad, data, tag } => (iv, aad, data.input(), tag),
            Operands::Open { iv, aad, data, tag } => (iv, aad, data.input(), tag),
            Operands::Digest { input, output }
            | Operands::Sign { input, output }
            | Operands::Derive { input, output }
            | Operands::Decapsulate { input, output }
            | Operands::Encipher { input, output }
            | Operands::Decipher { input, output, .. } => (&[], &[], input, output),
            Operands::Verify { input, signature } => (&[], &[], input, signature),
            Operands::Mac { iv, input, output } => (iv, &[], input, output),
            Operands::KeyGen { seed, private, public } => {
                result = Some(private.len());
                (seed, &[], &[], public)
            }
            Operands::Encapsulate { input, seed, ciphertext, output } => {
                result = Some(ciphertext.len());
                (seed, &[], input, output)
            }
            Operands::Compression { input, output, .. } => {
                result = Some(output.len());
                (&[], &[], input, &[])
            }
            Operands::Packet { number, packet, payload, next_header, .. } => {
                let (iv, aad) = (Zeroizing::new(number.to_be_bytes().to_vec()), vec![**next_header]);
                let (input, tag) = (Zeroizing::new(packet.to_vec()), Zeroizing::default());
                return Some(Self { operation, iv, aad, input, tag, output: **payload });
            }
            Operands::Update { .. } | Operands::Finish { .. } => return None,
        };
        if operation.is_of_kem() && operation != Operation::Decapsulate && iv.is_empty() {
            return None;
        }
        let output = result.unwrap_or(input.len());
        let (iv, aad, tag) = (Zeroizing::new(iv.to_vec()), aad.to_vec(), Zeroizing::new(tag.to_vec()));
        Some(Self { operation, iv, aad, input: Zeroizing::new(input.to_vec()), tag, output })
    }

    /// Computes the request on `reference` and compares. Where the device was wrong, `operands` have the right result
    /// afterwards.
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
        if let Operands::Packet { packet, payload, next_header, .. } = operands {
            let data = std::mem::take(&mut self.input);
            let before = packet::Packet { data, payload: self.output, next_header: self.aad[0] };
            let asked = (self.operation, packet::number(&self.iv), before);
            return packet::check((algorithm, reference), asked, (packet, payload, next_header), outcome);
        }
        let (mut output, mut length) = (Zeroizing::new(vec![0; self.output]), 0);
        let data = Buffers::Separate { input: &self.input, output: &mut output };
        let (iv, aad) = (&**self.iv, &*self.aad);
        let operands_again = match self.operation {
            Operation::KeyGen => Operands::KeyGen { seed: iv, private: &mut output, public: &mut self.tag },
            Operation::Encapsulate => {
                Operands::Encapsulate { input: &self.input, seed: iv, ciphertext: &mut output, output: &mut self.tag }
            }
            Operation::Decapsulate => Operands::Decapsulate { input: &self.input, output: &mut self.tag },
            Operation::Encipher => Operands::Encipher { input: &self.input, output: &mut self.tag },
            Operation::Decipher => {
                Operands::Decipher { input: &self.input, output: &mut self.tag, written: &mut length }
            }
            Operation::Seal => Operands::Seal { iv, aad, data, tag: &mut self.tag },
            Operation::Open => Operands::Open { iv, aad, data, tag: &self.tag },
            Operation::Digest => Operands::Digest { input: &self.input, output: &mut self.tag },
            Operation::Mac => Operands::Mac { iv, input: &self.input, output: &mut self.tag },
            Operation::Sign => Operands::Sign { input: &self.input, output: &mut self.tag },
            Operation::Derive => Operands::Derive { input: &self.input, output: &mut self.tag },
            Operation::Verify => Operands::Verify { input: &self.input, signature: &self.tag },
            operation => Operands::Cipher { operation, iv, data },
        };
        let right = guarded(|| reference.run(operands_again));
        let Ok(right) = right else { return Comparison::None };
        // After a bad tag the output holds nothing that could be compared.
        let same = |ours: &[u8], theirs: &[u8]| right != Outcome::Done || tags_equal(ours, theirs);
        let agrees = right == outcome
            && match &*operands {
                Operands::Cipher { data, .. } | Operands::Open { data, .. } => same(data.result(), &output),
                Operands::Seal { data, tag, .. } => same(data.result(), &output) && same(tag, &self.tag),
                Operands::Digest { output, .. }
                | Operands::Mac { output, .. }
                | Operands::Sign { output, .. }
                | Operands::Derive { output, .. }
                | Operands::Decapsulate { output, .. }
                | Operands::Encipher { output, .. } => same(output, &self.tag),
                Operands::Decipher { output, written, .. } => {
                    let message = output.get(..**written).unwrap_or_default();
                    same(message, self.tag.get(..length).unwrap_or_default())
                }
                Operands::KeyGen { private, public, .. } => same(private, &output) && same(public, &self.tag),
                Operands::Encapsulate { ciphertext, output: secret, .. } => {
                    same(ciphertext, &output) && same(secret, &self.tag)
                }
                Operands::Verify { .. }
                | Operands::Compression { .. }
                | Operands::Packet { .. }
                | Operands::Update { .. }
                | Operands::Finish { .. } => true,
            };
        if agrees {
            return Comparison::Same;
        }
        match operands {
            Operands::Cipher { data, .. } | Operands::Open { data, .. } => data.output().copy_from_slice(&output),
            Operands::Seal { data, tag, .. } => {
                data.output().copy_from_slice(&output);
                tag.copy_from_slice(&self.tag);
            }
            Operands::Digest { output, .. }
            | Operands::Mac { output, .. }
            | Operands::Sign { output, .. }
            | Operands::Derive { output, .. }
            | Operands::Decapsulate { output, .. }
            | Operands::Encipher { output, .. } => output.copy_from_slice(&self.tag),
            Operands::Decipher { output, written, .. } => {
                output.copy_from_slice(&self.tag);
                **written = length;
            }
            Operands::KeyGen { private: first, public: second, .. }
            | Operands::Encapsulate { ciphertext: first, output: second, .. } => {
                first.copy_from_slice(&output);
                second.copy_from_slice(&self.tag);
            }
            Operands::Verify { .. }
            | Operands::Compression { .. }
            | Operands::Packet { .. }
            | Operands::Update { .. }
            | Operands::Finish { .. } => {}
        }
        Comparison::Differs(right)
    }
}

/// The class of device that is believed.
pub(crate) const REFERENCE: Class = Class::Software;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::Fault;

    /// Deciphers everything to this, or to nothing.
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

    /// What a device's message is afterwards, if it was wrong.
    fn corrected(message: &[u8], outcome: Outcome, reference: Option<&'static [u8]>) -> Option<(Outcome, Vec<u8>)> {
        let (mut output, mut written) = ([0xee; 16], message.len());
        output[..message.len()].copy_from_slice(message);
        let mut operands = Operands::Decipher { input: &[7; 16], output: &mut output, written: &mut written };
        let shadow = ShadowCopy::of(&operands).expect("there is a copy of it");
        let compared = shadow.check(Algorithm::Rsaes2048Pkcs1, &Reference(reference), &mut operands, outcome);
        match compared {
            Comparison::Same => None,
            Comparison::Differs(right) => Some((right, output[..written].to_vec())),
            Comparison::None => panic!("the reference computes it"),
        }
    }

    #[test]
    fn a_deciphered_message_is_compared_up_to_its_end_and_made_right() {
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
