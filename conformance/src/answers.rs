//! The vectors: each one by itself and in a batch, in place and not, on ever other addresses.

use gantry_core::{Direction, Esp, Kind, Operation, Outcome, SessionParams};

use crate::Suite;
use crate::case::{Answer, Case, Placement, Trouble, compare, run, run_batch};
use crate::report::Tally;
use crate::subject::Subject;
use crate::vectors::{Expect, Vector};

pub(crate) fn check(suite: &Suite<'_>, tally: &mut Tally) {
    let all = suite.vectors.iter().map(|vector| &**vector);
    let vectors: Vec<&Vector> = all.filter(|vector| vector.algorithm == suite.algorithm).collect();
    for index in spread(vectors.len()) {
        let vector = vectors[index];
        let (name, number) = &vector.origin;
        if !tally.has_time() {
            continue;
        }
        match vector.expect {
            Expect::Unknowable(reason) => tally.skip(reason),
            Expect::MonteCarlo(width) => {
                tally.judge(monte_carlo(suite.subject, vector, width), || format!("{name} {number}"));
            }
            Expect::Match | Expect::Refused => {
                for &operation in suite.capability.operations {
                    let Some((case, must)) = vector.case(operation) else { continue };
                    if case.input.len() > suite.capability.max_bytes {
                        tally.skip("longer than the device takes");
                        continue;
                    }
                    tally.judge(one(suite, vector, &case, &must, index), || format!("{name} {number}, {operation}"));
                }
            }
        }
    }
}

/// The numbers below `count` in an order of which any beginning has some of everywhere: with their bits reversed.
fn spread(count: usize) -> impl Iterator<Item = usize> {
    let size = count.next_power_of_two();
    let reversed = move |number: usize| number.reverse_bits().checked_shr(usize::BITS - size.ilog2()).unwrap_or(0);
    (0..size).map(reversed).filter(move |number| *number < count)
}

/// Both ways in, with different addresses; where the device has only one of them, core takes that twice.
fn one(suite: &Suite<'_>, vector: &Vector, case: &Case, must: &Must, index: usize) -> Result<(), Trouble> {
    let in_place = suite.capability.in_place && index.is_multiple_of(2);
    let direct = Placement { in_place, offset: 5 * index % 64 };
    let batch = Placement { in_place: suite.capability.in_place && !in_place, offset: 3 * index % 64 };
    let both_ways = || {
        let session = suite.subject.session(vector.params(case.operation))?;
        let mut answers = vec![run(&session, case, direct)?];
        for answer in run_batch(&session, &[(case, batch)])? {
            answers.push(answer?);
        }
        Ok(answers)
    };
    match (both_ways(), must) {
        // Core refuses a length that no device may be asked for.
        (Err(Trouble::Misuse(_)), Must::Differ(_) | Must::Be(Answer::Refused(_)))
        // The device refuses the key of the session.
        | (Err(Trouble::Unsupported(_)), Must::Be(Answer::Refused(Outcome::BadKey))) => Ok(()),
        (Err(trouble), _) => Err(trouble),
        (Ok(answers), Must::Be(must)) => {
            // What was signed is verified, under the public key if that is known, and what was enciphered is deciphered.
            let params = vector.params(match case.operation {
                Operation::Sign if !vector.second_key.is_empty() => Operation::Verify,
                Operation::Encipher => Operation::Decipher,
                operation => operation,
            });
            answers.into_iter().try_for_each(|answer| suite.compare(&params, case, Ok(answer), must))
        }
        (Ok(answers), Must::Differ(other)) if answers.contains(other) => {
            Err(Trouble::Wrong("the answer is the one that is known to be wrong".to_owned()))
        }
        (Ok(_), Must::Differ(_)) => Ok(()),
    }
}

fn monte_carlo(subject: &Subject, vector: &Vector, width: usize) -> Result<(), Trouble> {
    let session = subject.session(vector.params(Operation::Digest))?;
    let length = vector.output.len();
    let mut last = vector.input.repeat(width);
    let mut digest = vec![0; length];
    for _ in 0..1000 {
        session.digest(&last, &mut digest)?;
        last.drain(..length);
        last.extend_from_slice(&digest);
    }
    let must = Answer::Done { output: vector.output.clone(), tag: Vec::new() };
    compare(Ok(Answer::Done { output: digest, tag: Vec::new() }), &must)
}

/// What must come of a vector's case.
enum Must {
    Be(Answer),
    Differ(Answer),
}

impl Vector {
    /// The session that shows `operation`.
    fn params(&self, operation: Operation) -> SessionParams {
        let direction = operation.info().direction;
        match (self.algorithm.kind(), direction) {
            (Kind::Signature, _) => {
                let verifies = operation == Operation::Verify;
                let (key, direction) =
                    if verifies { (&self.second_key, direction) } else { (&self.key, Direction::Both) };
                let params = SessionParams::new(self.algorithm, key).direction(direction);
                return params.context(&self.aad).prehash(self.prehash);
            }
            (Kind::Encipherment, Direction::Encrypt) => {
                return SessionParams::new(self.algorithm, &self.second_key).direction(direction);
            }
            (Kind::Kem, Direction::Encrypt) => return SessionParams::new(self.algorithm, &[]).direction(direction),
            (Kind::Kem | Kind::Encipherment, _) => {
                return SessionParams::new(self.algorithm, &self.key).direction(direction);
            }
            _ => {}
        }
        let params = SessionParams::new(self.algorithm, &self.key).mac_key(&self.second_key);
        if let (Kind::Packet, &[a, b, c, d, _, extended]) = (self.algorithm.kind(), &self.aad[..]) {
            let esp = Esp { spi: u32::from_be_bytes([a, b, c, d]), extended: extended != 0 };
            let tag = if self.tag.is_empty() { params.tag_length() } else { self.tag.len() };
            return params.esp(esp).tag_len(tag);
        }
        match self.algorithm.kind() {
            Kind::Digest | Kind::Mac => params.tag_len(self.output.len()),
            Kind::Aead => params.tag_len(self.tag.len()),
            _ => params,
        }
    }

    /// The same of packets. One with more padding than it needs was not made here.
    fn packet(&self, operation: Operation) -> Option<(Case, Must)> {
        let params = self.params(operation);
        let (number, next_header) = (u64::from_be_bytes(*self.iv.as_array()?), *self.aad.get(4)?);
        let done = |output| Must::Be(Answer::Done { output, tag: Vec::new() });
        if operation == Operation::Unprotect {
            let case = Case::unprotect(&self.iv, self.output.clone());
            return Some(match self.expect {
                Expect::Refused => (case, Must::Be(Answer::Refused(Outcome::Malformed))),
                _ => (case, done([&self.input[..], &[next_header]].concat())),
            });
        }
        let length = self.algorithm.info().packet_length(self.input.len(), params.tag_length());
        let case = Case::protect(&params, number, &self.input, next_header);
        (self.expect == Expect::Match && length == self.output.len()).then(|| (case, done(self.output.clone())))
    }

    /// The request that shows `operation`, unless the vector says nothing about it.
    fn case(&self, operation: Operation) -> Option<(Case, Must)> {
        let Self { iv, aad, input, output, tag, .. } = self.clone();
        let forward =
            Case { operation, iv: iv.clone(), aad: aad.clone(), input: input.clone(), tag: Vec::new(), room: 0 };
        let done = |output, tag| Answer::Done { output, tag };
        let refused = self.expect == Expect::Refused;
        Some(match operation {
            Operation::Protect | Operation::Unprotect => return self.packet(operation),
            Operation::Compress if refused => return None,
            Operation::Compress => (Case::compress(input), Must::Be(done(output, Vec::new()))),
            Operation::Decompress if refused => {
                (Case::decompress(output, 1 << 16), Must::Be(Answer::Refused(Outcome::Malformed)))
            }
            Operation::Decompress => {
                // Just as much room as it takes, and more.
                let room = input.len() + if input.len() % 2 == 0 { 0 } else { 100 };
                (Case::decompress(output, room), Must::Be(done(input, Vec::new())))
            }
            Operation::Digest | Operation::Mac if refused => (forward, Must::Differ(done(output, Vec::new()))),
            Operation::Digest | Operation::Mac => (forward, Must::Be(done(output, Vec::new()))),
            // A key without a signature.
            Operation::Verify if output.is_empty() && !refused => return None,
            Operation::Verify => {
                let forward = Case { aad: Vec::new(), ..forward };
                let must = if refused { Answer::Refused(Outcome::BadTag) } else { done(Vec::new(), Vec::new()) };
                (Case { tag: output, ..forward }, Must::Be(must))
            }
            // A vector has what its operations need.
            Operation::KeyGen if aad.is_empty() => return None,
            Operation::KeyGen => {
                let case = Case { operation, iv: aad, aad: Vec::new(), input: Vec::new(), tag: Vec::new(), room: 0 };
                (case, Must::Be(done(self.second_key.clone(), self.key.clone())))
            }
            Operation::Encapsulate if iv.is_empty() => return None,
            Operation::Decapsulate if output.is_empty() || self.key.is_empty() => return None,
            Operation::Encapsulate | Operation::Decapsulate => {
                let (from, must) = match operation {
                    Operation::Encapsulate => (self.second_key.clone(), done(output, tag)),
                    _ => (output, done(tag, Vec::new())),
                };
                let must = match self.algorithm.info().data_of(operation) {
                    length if refused && length == Some(from.len()) => Answer::Refused(Outcome::BadKey),
                    _ if refused => Answer::Refused(Outcome::BadLength),
                    _ => must,
                };
                let iv = if operation == Operation::Encapsulate { iv } else { Vec::new() };
                (Case { operation, iv, aad: Vec::new(), input: from, tag: Vec::new(), room: 0 }, Must::Be(must))
            }
            Operation::Derive if refused => {
                let why = if self.algorithm.info().public_key.allows(input.len()) {
                    Outcome::BadKey
                } else {
                    Outcome::BadLength
                };
                (forward, Must::Be(Answer::Refused(why)))
            }
            Operation::Open if refused => {
                (Case { operation, input: output, tag, ..forward }, Must::Be(Answer::Refused(Outcome::BadTag)))
            }
            Operation::Decipher => {
                let must = match self.algorithm.info().data_of(operation) {
                    length if refused && length == Some(output.len()) => Answer::Refused(Outcome::Malformed),
                    _ if refused => Answer::Refused(Outcome::BadLength),
                    _ => done(input, Vec::new()),
                };
                (Case { input: output, ..forward }, Must::Be(must))
            }
            // Some sets have public keys alone, or private ones.
            Operation::Encipher if self.second_key.is_empty() => return None,
            Operation::Sign if self.key.is_empty() => return None,
            _ if refused => return None,
            Operation::Sign | Operation::Derive | Operation::Encrypt | Operation::Seal | Operation::Encipher => {
                (forward, Must::Be(done(output, tag)))
            }
            Operation::Decrypt | Operation::Open => {
                (Case { operation, input: output, tag, ..forward }, Must::Be(done(input, Vec::new())))
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::spread;

    #[test]
    fn every_number_comes_once_and_the_first_ones_are_from_everywhere() {
        for count in 0..500 {
            let mut numbers: Vec<usize> = spread(count).collect();
            let tenths: BTreeSet<usize> = numbers.iter().take(20).map(|number| number * 10 / count).collect();
            assert!(count < 20 || tenths.len() == 10, "{count}: {numbers:?}");
            numbers.sort_unstable();
            assert!(numbers.into_iter().eq(0..count), "{count}");
        }
    }
}
