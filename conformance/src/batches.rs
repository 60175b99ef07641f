//! Compares batches of mixed lengths and random requests with the reference.

use std::time::Instant;

use gantry_core::{Direction, Operation, Outcome, SessionParams};

use crate::case::{Answer, Case, CaseError, Placement, run, run_batch};
use crate::generate;
use crate::report::Tally;
use crate::rng::Rng;
use crate::{Random, Suite, is_slow, request_count};

/// Checks batch sizes from 1 to 100.
pub(crate) fn check(suite: &Suite<'_>, tally: &mut Tally) {
    let max_count = request_count(suite.algorithm, 100);
    for count in (1..max_count).step_by(suite.step).chain([max_count]) {
        if !tally.begin_step() {
            continue;
        }
        let mut rng = Rng::for_purpose(suite.seed, suite.algorithm, 1000 + count);
        check_batch(suite, &mut rng, count as usize, tally);
    }
}

/// Runs rounds of one request or one batch, each with its own seed, up to the given number or the time limit.
pub(crate) fn check_random(suite: &Suite<'_>, tally: &mut Tally) {
    let start = Instant::now();
    let max_count = request_count(suite.algorithm, if is_slow(suite.algorithm) { 8 } else { 100 }) as usize;
    for round in 0.. {
        match suite.random {
            _ if round > 0 && tally.is_past_deadline() => break,
            _ if tally.has_deadline() => {}
            Random::Rounds(rounds) if round >= request_count(suite.algorithm, rounds) => break,
            Random::Time(time) if round > 0 && start.elapsed() >= time => break,
            _ => {}
        }
        tally.seed = suite.seed.wrapping_add(round);
        let mut rng = Rng::for_purpose(tally.seed, suite.algorithm, 0);
        if rng.below(3) == 0 {
            check_single(suite, &mut rng, tally);
        } else {
            let count = 1 + rng.below(max_count);
            check_batch(suite, &mut rng, count, tally);
        }
        if !suite.subject.is_ready() {
            break;
        }
    }
}

fn check_batch(suite: &Suite<'_>, rng: &mut Rng, count: usize, tally: &mut Tally) {
    let Some((params, operation)) = draw_params(suite, rng, tally) else { return };
    let session_direction = if rng.below(3) == 0 { direction_of(operation) } else { Direction::Both };
    let lengths: Vec<usize> = (0..count).map(|_| generate::data_length(rng)).collect();
    let result = make_cases(suite, rng, &params, operation, &lengths).and_then(|cases| {
        let session = suite.subject.session(params.clone().with_direction(session_direction))?;
        let placed: Vec<(&Case, Placement)> = cases.iter().map(|(case, _)| (case, suite.placement(rng))).collect();
        let answers = run_batch(&session, &placed)?;
        Ok((cases, answers))
    });
    match result {
        Err(error) => tally.record(Err(error), || format!("{operation}, a batch of {count}, {params:?}")),
        Ok((cases, answers)) => {
            for (index, ((case, expected), answer)) in cases.iter().zip(answers).enumerate() {
                let bytes = case.input.len();
                tally.record(suite.compare(&params, case, answer, expected), || {
                    format!("{operation}, request {index} of {count}, {bytes} bytes, {params:?}")
                });
            }
        }
    }
}

fn check_single(suite: &Suite<'_>, rng: &mut Rng, tally: &mut Tally) {
    let Some((params, operation)) = draw_params(suite, rng, tally) else { return };
    let bytes = generate::data_length(rng);
    let result = make_cases(suite, rng, &params, operation, &[bytes]).and_then(|cases| {
        let session = suite.subject.session(params.clone())?;
        let (case, expected) = &cases[0];
        suite.compare(&params, case, run(&session, case, suite.placement(rng)), expected)
    });
    tally.record(result, || format!("{operation}, {bytes} bytes by itself, {params:?}"));
}

/// Draws random parameters, and an operation that the device offers.
fn draw_params(suite: &Suite<'_>, rng: &mut Rng, tally: &mut Tally) -> Option<(SessionParams, Operation)> {
    if suite.capability.operations.is_empty() {
        tally.skip("the device offers no operation");
        return None;
    }
    let operation = generate::operation(rng, suite.capability.operations);
    Some((generate::params(rng, suite.algorithm), operation))
}

/// Makes requests of these lengths, with their answers. Every fourth message to be opened or verified is damaged.
pub(crate) fn make_cases(
    suite: &Suite<'_>,
    rng: &mut Rng,
    params: &SessionParams,
    operation: Operation,
    lengths: &[usize],
) -> Result<Vec<(Case, Answer)>, CaseError> {
    let oracle = suite.oracle(params)?;
    let make = |&bytes: &usize| {
        let bytes = bytes.min(suite.capability.max_bytes);
        let inverse = match operation {
            Operation::Open => Operation::Seal,
            Operation::Verify => Operation::Sign,
            Operation::Decompress => Operation::Compress,
            Operation::Unprotect => Operation::Protect,
            Operation::Decipher => Operation::Encipher,
            _ => {
                let case = generate::case(rng, params, operation, bytes);
                let expected = oracle.answer(&case)?;
                return Ok((case, expected));
            }
        };
        let sealed = generate::case(rng, params, inverse, bytes);
        let Answer::Done { output, tag } = oracle.answer(&sealed)? else {
            return Err(CaseError::Wrong("the message to be opened could not be sealed".to_owned()));
        };
        if operation == Operation::Unprotect {
            return Ok(unprotect_case(rng, output, &sealed, params));
        }
        if operation == Operation::Decipher {
            return Ok(decipher_case(rng, output, sealed));
        }
        if operation == Operation::Decompress {
            return Ok(decompress_case(rng, output, sealed.input));
        }
        let (mut case, opened) = match operation {
            Operation::Open => (Case { operation, input: output, tag, ..sealed.clone() }, sealed.input),
            _ => (Case { operation, tag: output, ..sealed }, Vec::new()),
        };
        if rng.below(4) == 0 {
            generate::flip_bit(rng, &mut case.tag);
            return Ok((case, Answer::Refused(Outcome::BadTag)));
        }
        Ok((case, Answer::Done { output: opened, tag: Vec::new() }))
    };
    lengths.iter().map(make).collect()
}

/// Makes a request to open a packet. One packet in four is damaged after its header.
fn unprotect_case(rng: &mut Rng, mut packet: Vec<u8>, made: &Case, params: &SessionParams) -> (Case, Answer) {
    let start = params.algorithm().info().payload_start();
    let output = [&made.input[start..start + made.room], &made.aad].concat();
    if rng.below(4) == 0 {
        generate::flip_bit(rng, &mut packet[8..]);
        return (Case::unprotect(&made.iv, packet), Answer::Refused(Outcome::BadTag));
    }
    (Case::unprotect(&made.iv, packet), Answer::Done { output, tag: Vec::new() })
}

/// Makes a request to decipher a ciphertext. One ciphertext in four is invalid with every key: a number beyond any modulus.
fn decipher_case(rng: &mut Rng, mut ciphertext: Vec<u8>, made: Case) -> (Case, Answer) {
    let expected = if rng.below(4) == 0 {
        ciphertext[..8].fill(0xff);
        Answer::Refused(Outcome::Malformed)
    } else {
        Answer::Done { output: made.input.clone(), tag: Vec::new() }
    };
    (Case { operation: Operation::Decipher, input: ciphertext, ..made }, expected)
}

/// Maximum bytes by which the result of truncated data may exceed the original: decoders read some zeros before they check the end of the
/// input.
pub(crate) const MAX_OVERREAD: usize = 1 << 14;

/// Makes a request to decompress `compressed` to `data`. One request in four has truncated data, and one in eight has too little room.
fn decompress_case(rng: &mut Rng, mut compressed: Vec<u8>, data: Vec<u8>) -> (Case, Answer) {
    let length = data.len();
    match rng.below(8) {
        0 | 1 => {
            compressed.truncate(rng.below(compressed.len()));
            (Case::decompress(compressed, length + MAX_OVERREAD), Answer::Refused(Outcome::Malformed))
        }
        2 if length > 0 => (Case::decompress(compressed, rng.below(length)), Answer::Refused(Outcome::NoRoom)),
        more => (Case::decompress(compressed, length + more - 2), Answer::Done { output: data, tag: Vec::new() }),
    }
}

fn direction_of(operation: Operation) -> Direction {
    match operation {
        Operation::Encrypt | Operation::Seal | Operation::Sign | Operation::Protect => Direction::Encrypt,
        Operation::Decrypt | Operation::Open | Operation::Unprotect => Direction::Decrypt,
        // A session that only verifies has another key.
        _ => Direction::Both,
    }
}
