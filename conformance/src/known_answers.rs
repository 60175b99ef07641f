//! Runs the vectors: each by itself and in a batch, in place and not, at various addresses.

use gantry_core::{Direction, Esp, Kind, Operation, Outcome, SessionParams};

use crate::Suite;
use crate::case::{Answer, Case, CaseError, Placement, compare, run, run_batch};
use crate::report::Tally;
use crate::subject::Subject;
use crate::vector::{Expect, Vector};

pub(crate) fn check(suite: &Suite<'_>, tally: &mut Tally) {
    let all = suite.vectors.iter().map(|vector| &**vector);
    let vectors: Vec<&Vector> = all.filter(|vector| vector.algorithm == suite.algorithm).collect();
    for index in bit_reversed(vectors.len()) {
        let vector = vectors[index];
        let (name, number) = &vector.origin;
        if !tally.begin_step() {
            continue;
        }
        match vector.expect {
            Expect::Undefined(reason) => tally.skip(reason),
            Expect::MonteCarlo(width) => {
                tally.record(run_monte_carlo(suite.subject, vector, width), || format!("{name} {number}"));
            }
            Expect::Match | Expect::Refused => {
                for &operation in suite.capability.operations {
                    let Some((case, expected)) = vector.case(operation) else { continue };
                    if case.input.len() > suite.capability.max_bytes {
                        tally.skip("longer than the device allows");
                        continue;
                    }
                    tally.record(run_vector(suite, vector, &case, &expected, index), || {
                        format!("{name} {number}, {operation}")
                    });
                }
            }
        }
    }
}

/// Returns the numbers below `count` in bit-reversed order, so that any prefix is spread over the whole range.
fn bit_reversed(count: usize) -> impl Iterator<Item = usize> {
    let size = count.next_power_of_two();
    let reversed = move |number: usize| number.reverse_bits().checked_shr(usize::BITS - size.ilog2()).unwrap_or(0);
    (0..size).map(reversed).filter(move |number| *number < count)
}

/// Runs a vector directly and in a batch, at different addresses. If the device has only one of these paths, core uses it twice.
fn run_vector(
    suite: &Suite<'_>,
    vector: &Vector,
    case: &Case,
    expected: &RequiredAnswer,
    index: usize,
) -> Result<(), CaseError> {
    let in_place = suite.capability.in_place && index.is_multiple_of(2);
    let single_placement = Placement { in_place, offset: 5 * index % 64 };
    let batch_placement = Placement { in_place: suite.capability.in_place && !in_place, offset: 3 * index % 64 };
    let run_both = || {
        let session = suite.subject.session(vector.params(case.operation))?;
        let mut answers = vec![run(&session, case, single_placement)?];
        for answer in run_batch(&session, &[(case, batch_placement)])? {
            answers.push(answer?);
        }
        Ok(answers)
    };
    match (run_both(), expected) {
        // Core itself refuses a length of this vector, and does not pass the request to a device.
        (Err(CaseError::Misuse(_)), RequiredAnswer::AnyExcept(_) | RequiredAnswer::Answer(Answer::Refused(_)))
        // The device refuses the key of the session.
        | (Err(CaseError::Unsupported(_)), RequiredAnswer::Answer(Answer::Refused(Outcome::BadKey))) => Ok(()),
        (Err(error), _) => Err(error),
        (Ok(answers), RequiredAnswer::Answer(expected)) => {
            // Signatures are verified, with the public key if it is known. Ciphertexts of encipherment are deciphered.
            let params = vector.params(match case.operation {
                Operation::Sign if !vector.second_key.is_empty() => Operation::Verify,
                Operation::Encipher => Operation::Decipher,
                operation => operation,
            });
            answers.into_iter().try_for_each(|answer| suite.compare(&params, case, Ok(answer), expected))
        }
        (Ok(answers), RequiredAnswer::AnyExcept(other)) if answers.contains(other) => {
            Err(CaseError::Wrong("the answer is known to be wrong".to_owned()))
        }
        (Ok(_), RequiredAnswer::AnyExcept(_)) => Ok(()),
    }
}

fn run_monte_carlo(subject: &Subject, vector: &Vector, width: usize) -> Result<(), CaseError> {
    let session = subject.session(vector.params(Operation::Digest))?;
    let length = vector.output.len();
    let mut last = vector.input.repeat(width);
    let mut digest = vec![0; length];
    for _ in 0..1000 {
        session.digest(&last, &mut digest)?;
        last.drain(..length);
        last.extend_from_slice(&digest);
    }
    let expected = Answer::Done { output: vector.output.clone(), tag: Vec::new() };
    compare(Ok(Answer::Done { output: digest, tag: Vec::new() }), &expected)
}

/// The required result of a vector's case.
enum RequiredAnswer {
    Answer(Answer),
    AnyExcept(Answer),
}

impl Vector {
    /// Returns the parameters of a session for `operation`.
    fn params(&self, operation: Operation) -> SessionParams {
        let direction = operation.info().direction;
        match (self.algorithm.kind(), direction) {
            (Kind::Signature, _) => {
                let is_verifying = operation == Operation::Verify;
                let (key, direction) =
                    if is_verifying { (&self.second_key, direction) } else { (&self.key, Direction::Both) };
                let params = SessionParams::new(self.algorithm, key).with_direction(direction);
                return params.with_context(&self.aad).with_prehash(self.prehash);
            }
            (Kind::Encipherment, Direction::Encrypt) => {
                return SessionParams::new(self.algorithm, &self.second_key).with_direction(direction);
            }
            (Kind::Kem, Direction::Encrypt) => {
                return SessionParams::new(self.algorithm, &[]).with_direction(direction);
            }
            (Kind::Kem | Kind::Encipherment, _) => {
                return SessionParams::new(self.algorithm, &self.key).with_direction(direction);
            }
            _ => {}
        }
        let params = SessionParams::new(self.algorithm, &self.key).with_mac_key(&self.second_key);
        if let (Kind::Packet, &[a, b, c, d, _, extended]) = (self.algorithm.kind(), &self.aad[..]) {
            let esp = Esp { spi: u32::from_be_bytes([a, b, c, d]), extended: extended != 0 };
            let tag_len = if self.tag.is_empty() { params.tag_len() } else { self.tag.len() };
            return params.with_esp(esp).with_tag_len(tag_len);
        }
        match self.algorithm.kind() {
            Kind::Digest | Kind::Mac => params.with_tag_len(self.output.len()),
            Kind::Aead => params.with_tag_len(self.tag.len()).with_any_nonce(),
            _ => params,
        }
    }

    /// Returns the case of a packet. Gantry does not produce packets with more padding than necessary.
    fn packet(&self, operation: Operation) -> Option<(Case, RequiredAnswer)> {
        let params = self.params(operation);
        let (number, next_header) = (u64::from_be_bytes(*self.iv.as_array()?), *self.aad.get(4)?);
        let done = |output| RequiredAnswer::Answer(Answer::Done { output, tag: Vec::new() });
        if operation == Operation::Unprotect {
            let case = Case::unprotect(&self.iv, self.output.clone());
            return Some(match self.expect {
                Expect::Refused => (case, RequiredAnswer::Answer(Answer::Refused(Outcome::Malformed))),
                _ => (case, done([&self.input[..], &[next_header]].concat())),
            });
        }
        let length = self.algorithm.info().packet_length(self.input.len(), params.tag_len());
        let case = Case::protect(&params, number, &self.input, next_header);
        (self.expect == Expect::Match && length == self.output.len()).then(|| (case, done(self.output.clone())))
    }

    /// Returns the request for `operation`. `None` if the vector does not cover the operation.
    fn case(&self, operation: Operation) -> Option<(Case, RequiredAnswer)> {
        let Self { iv, aad, input, output, tag, .. } = self.clone();
        let forward =
            Case { operation, iv: iv.clone(), aad: aad.clone(), input: input.clone(), tag: Vec::new(), room: 0 };
        let done = |output, tag| Answer::Done { output, tag };
        let must_be_refused = self.expect == Expect::Refused;
        Some(match operation {
            Operation::Protect | Operation::Unprotect => return self.packet(operation),
            Operation::Compress if must_be_refused => return None,
            Operation::Compress => (Case::compress(input), RequiredAnswer::Answer(done(output, Vec::new()))),
            Operation::Decompress if must_be_refused => {
                (Case::decompress(output, 1 << 16), RequiredAnswer::Answer(Answer::Refused(Outcome::Malformed)))
            }
            Operation::Decompress => {
                // Exactly the required room, or more.
                let room = input.len() + if input.len() % 2 == 0 { 0 } else { 100 };
                (Case::decompress(output, room), RequiredAnswer::Answer(done(input, Vec::new())))
            }
            Operation::Digest | Operation::Mac if must_be_refused => {
                (forward, RequiredAnswer::AnyExcept(done(output, Vec::new())))
            }
            Operation::Digest | Operation::Mac => (forward, RequiredAnswer::Answer(done(output, Vec::new()))),
            // The vector has a key and no signature.
            Operation::Verify if output.is_empty() && !must_be_refused => return None,
            Operation::Verify => {
                let forward = Case { aad: Vec::new(), ..forward };
                let expected =
                    if must_be_refused { Answer::Refused(Outcome::BadTag) } else { done(Vec::new(), Vec::new()) };
                (Case { tag: output, ..forward }, RequiredAnswer::Answer(expected))
            }
            // A vector has the fields that its operations need.
            Operation::KeyGen if aad.is_empty() => return None,
            Operation::KeyGen => {
                let case = Case { operation, iv: aad, aad: Vec::new(), input: Vec::new(), tag: Vec::new(), room: 0 };
                (case, RequiredAnswer::Answer(done(self.second_key.clone(), self.key.clone())))
            }
            Operation::Encapsulate if iv.is_empty() => return None,
            Operation::Decapsulate if output.is_empty() || self.key.is_empty() => return None,
            Operation::Encapsulate | Operation::Decapsulate => {
                let (from, expected) = match operation {
                    Operation::Encapsulate => (self.second_key.clone(), done(output, tag)),
                    _ => (output, done(tag, Vec::new())),
                };
                let expected = match self.algorithm.info().fixed_data_length(operation) {
                    length if must_be_refused && length == Some(from.len()) => Answer::Refused(Outcome::BadKey),
                    _ if must_be_refused => Answer::Refused(Outcome::BadLength),
                    _ => expected,
                };
                let iv = if operation == Operation::Encapsulate { iv } else { Vec::new() };
                (
                    Case { operation, iv, aad: Vec::new(), input: from, tag: Vec::new(), room: 0 },
                    RequiredAnswer::Answer(expected),
                )
            }
            Operation::Derive if must_be_refused => {
                let why = if self.algorithm.info().public_key.allows(input.len()) {
                    Outcome::BadKey
                } else {
                    Outcome::BadLength
                };
                (forward, RequiredAnswer::Answer(Answer::Refused(why)))
            }
            Operation::Open if must_be_refused => (
                Case { operation, input: output, tag, ..forward },
                RequiredAnswer::Answer(Answer::Refused(Outcome::BadTag)),
            ),
            Operation::Decipher => {
                let expected = match self.algorithm.info().fixed_data_length(operation) {
                    length if must_be_refused && length == Some(output.len()) => Answer::Refused(Outcome::Malformed),
                    _ if must_be_refused => Answer::Refused(Outcome::BadLength),
                    _ => done(input, Vec::new()),
                };
                (Case { input: output, ..forward }, RequiredAnswer::Answer(expected))
            }
            // Some sets have only public or only private keys.
            Operation::Encipher if self.second_key.is_empty() => return None,
            Operation::Sign if self.key.is_empty() => return None,
            _ if must_be_refused => return None,
            Operation::Sign | Operation::Derive | Operation::Encrypt | Operation::Seal | Operation::Encipher => {
                (forward, RequiredAnswer::Answer(done(output, tag)))
            }
            Operation::Decrypt | Operation::Open => {
                (Case { operation, input: output, tag, ..forward }, RequiredAnswer::Answer(done(input, Vec::new())))
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::bit_reversed;

    #[test]
    fn bit_reversed_order_spreads_over_the_whole_range() {
        for count in 0..500 {
            let mut numbers: Vec<usize> = bit_reversed(count).collect();
            let tenths: BTreeSet<usize> = numbers.iter().take(20).map(|number| number * 10 / count).collect();
            assert!(count < 20 || tenths.len() == 10, "{count}: {numbers:?}");
            numbers.sort_unstable();
            assert!(numbers.into_iter().eq(0..count), "{count}");
        }
    }
}
