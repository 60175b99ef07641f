//! Forgeries: the device must refuse every changed message, sealed or signed, and release no plaintext. In compressed data, it must find
//! damage, and write no byte beyond the buffer.

use gantry_core::{Algorithm, Operation, Outcome, SessionParams};

use crate::batches::{MAX_OVERREAD, make_cases};
use crate::case::{Answer, Case, CaseError, Placement, compare, run, run_batch};
use crate::generate;
use crate::report::Tally;
use crate::rng::Rng;
use crate::{Suite, request_count};

pub(crate) fn check(suite: &Suite<'_>, tally: &mut Tally) {
    let detects_forgeries = |operation: &&Operation| operation.info().detects_forgeries;
    let Some(&operation) = suite.capability.operations.iter().find(detects_forgeries) else { return };
    let rounds = request_count(suite.algorithm, 6) as usize;
    for (round, bytes) in [0, 1, 16, 47, 160, 1000].into_iter().enumerate().take(rounds) {
        if !tally.begin_step() {
            continue;
        }
        let mut rng = Rng::for_purpose(suite.seed, suite.algorithm, 7000 + round as u64);
        // The full tag, then other allowed lengths.
        let params = match round {
            0..4 => {
                generate::params(&mut rng, suite.algorithm).with_tag_len(suite.algorithm.info().default_tag_length())
            }
            _ => generate::params(&mut rng, suite.algorithm),
        };
        match make_forgeries(suite, &mut rng, (&params, operation), bytes) {
            Err(error) => tally.record(Err(error), || format!("{bytes} bytes, {params:?}")),
            Ok(cases) => check_forgeries(suite, &mut rng, &params, &cases, tally),
        }
    }
}

/// Returns good messages first and last, and between them every kind of forgery, with a description of each.
fn make_forgeries(
    suite: &Suite<'_>,
    rng: &mut Rng,
    (params, operation): (&SessionParams, Operation),
    bytes: usize,
) -> Result<Vec<(String, Case, Answer)>, CaseError> {
    // `make_cases` damages some of the messages.
    let mut good =
        make_cases(suite, rng, params, operation, &[bytes; 8][..request_count(suite.algorithm, 8) as usize])?;
    good.retain(|(_, expected)| matches!(expected, Answer::Done { .. }));
    let Some((good, expected)) = good.into_iter().next() else { return Ok(Vec::new()) };
    if operation == Operation::Unprotect {
        return Ok(packet_forgeries(suite.algorithm, rng, good, expected));
    }
    if operation == Operation::Decompress {
        return Ok(compression_forgeries(suite.algorithm, rng, good, expected));
    }
    let mut all = vec![("nothing changed".to_owned(), good.clone(), expected.clone())];
    let mut forge = |what: String, change: &mut dyn FnMut(&mut Case)| {
        let mut case = good.clone();
        change(&mut case);
        all.push((what, case, Answer::Refused(Outcome::BadTag)));
    };
    // Signatures of some algorithms are long.
    let max_forged_bytes = if suite.algorithm.is_slh_dsa() { 60 } else { 600 };
    for at in (0..good.tag.len()).step_by(good.tag.len().div_ceil(max_forged_bytes)) {
        forge(format!("byte {at} of the tag changed"), &mut |case| case.tag[at] ^= 1 << rng.below(8));
    }
    forge("the tag all zeros".to_owned(), &mut |case| case.tag.fill(0));
    forge("a byte less of the tag".to_owned(), &mut |case| {
        case.tag.pop();
    });
    forge("no tag".to_owned(), &mut |case| case.tag.clear());
    // Only these bytes of a digest count (FIPS 186-5, 6.4.1).
    let significant_bytes = if suite.algorithm == Algorithm::EcdsaP256 { 32 } else { usize::MAX };
    for at in [0, good.input.len() / 2, good.input.len().saturating_sub(1)] {
        if at < good.input.len().min(significant_bytes) {
            forge(format!("byte {at} of the data changed"), &mut |case| case.input[at] ^= 0x80);
        }
    }
    for at in [0, good.aad.len().saturating_sub(1)] {
        if at < good.aad.len() {
            forge(format!("byte {at} of the associated data changed"), &mut |case| case.aad[at] ^= 1);
        }
    }
    if operation == Operation::Open {
        forge("the nonce changed".to_owned(), &mut |case| generate::flip_bit(rng, &mut case.iv));
        forge("associated data added".to_owned(), &mut |case| case.aad.push(0));
    } else {
        // One byte, or the bytes up to the next longer digest.
        let info = suite.algorithm.info();
        let longer = info.nearest_data_length(good.input.len() + info.block);
        if good.input.len() < longer.min(significant_bytes) {
            forge("the message longer".to_owned(), &mut |case| case.input.resize(longer, 1));
        }
    }
    all.push(("nothing changed".to_owned(), good, expected));
    Ok(all)
}

/// Returns forgeries of a packet. Core finds errors in a header before a device gets the packet.
fn packet_forgeries(algorithm: Algorithm, rng: &mut Rng, good: Case, expected: Answer) -> Vec<(String, Case, Answer)> {
    let mut all = vec![("nothing changed".to_owned(), good.clone(), expected.clone())];
    let mut change = |what: String, change: &mut dyn FnMut(&mut Case), outcome| {
        let mut case = good.clone();
        change(&mut case);
        all.push((what, case, Answer::Refused(outcome)));
    };
    let (length, block) = (good.input.len(), algorithm.info().block);
    for at in (0..length).step_by(length.div_ceil(200)) {
        let outcome = if at < 8 { Outcome::Malformed } else { Outcome::BadTag };
        change(format!("byte {at} of {length} changed"), &mut |case| case.input[at] ^= 1 << rng.below(8), outcome);
    }
    change("another number".to_owned(), &mut |case| case.iv[6] ^= 1, Outcome::Malformed);
    change("a byte less".to_owned(), &mut |case| case.input.truncate(length - 1), Outcome::Malformed);
    change("a byte more".to_owned(), &mut |case| case.input.push(0), Outcome::Malformed);
    change("a block more".to_owned(), &mut |case| case.input.resize(length + block, 0), Outcome::BadTag);
    all.push(("nothing changed".to_owned(), good, expected));
    all
}

/// Returns damaged compressed data. A change in the middle may decompress to other data, so only checksums and ends are changed.
fn compression_forgeries(
    algorithm: Algorithm,
    rng: &mut Rng,
    good: Case,
    expected: Answer,
) -> Vec<(String, Case, Answer)> {
    let mut all = vec![("nothing changed".to_owned(), good.clone(), expected.clone())];
    let mut damage = |what: String, change: &mut dyn FnMut(&mut Case), outcome| {
        let mut case = good.clone();
        change(&mut case);
        all.push((what, case, Answer::Refused(outcome)));
    };
    let length = good.input.len();
    for at in (0..length).step_by(length.div_ceil(200)) {
        let cut = &mut |case: &mut Case| {
            case.input.truncate(at);
            case.room += MAX_OVERREAD;
        };
        damage(format!("the first {at} bytes"), cut, Outcome::Malformed);
    }
    // Zeros may follow a member of gzip.
    damage("a byte behind the end".to_owned(), &mut |case| case.input.push(1), Outcome::Malformed);
    // CRC and length, Adler-32, and the lower half of XXH64.
    let checksum_bytes = match algorithm {
        Algorithm::Gzip => 8,
        Algorithm::Zlib | Algorithm::Zstd => 4,
        _ => 0,
    };
    for at in length - checksum_bytes..length {
        let change = &mut |case: &mut Case| case.input[at] ^= 1 << rng.below(8);
        damage(format!("byte {at} of {length} changed, in the checksum"), change, Outcome::Malformed);
    }
    if let Answer::Done { output, .. } = &expected {
        for room in [0, output.len() / 2, output.len().saturating_sub(1)] {
            if room < output.len() {
                damage(
                    format!("room for {room} of {} bytes", output.len()),
                    &mut |case| case.room = room,
                    Outcome::NoRoom,
                );
            }
        }
    }
    all.push(("nothing changed".to_owned(), good, expected));
    all
}

/// Runs each case by itself in both placements, then all cases as one batch.
fn check_forgeries(
    suite: &Suite<'_>,
    rng: &mut Rng,
    params: &SessionParams,
    cases: &[(String, Case, Answer)],
    tally: &mut Tally,
) {
    let mut run_all = || {
        let session = suite.subject.session(params.clone())?;
        for (what, case, expected) in cases {
            for in_place in [false, suite.capability.in_place] {
                let placement = Placement { in_place, offset: rng.below(64) };
                tally.record(compare(run(&session, case, placement), expected), || {
                    format!("{what}, {} bytes, {params:?}", case.input.len())
                });
            }
        }
        let placed: Vec<(&Case, Placement)> = cases.iter().map(|(_, case, _)| (case, suite.placement(rng))).collect();
        run_batch(&session, &placed)
    };
    match run_all() {
        Err(error) => tally.record(Err(error), || format!("a batch of forgeries, {params:?}")),
        Ok(answers) => {
            for ((what, case, expected), answer) in cases.iter().zip(answers) {
                tally.record(compare(answer, expected), || {
                    format!("{what}, in a batch, {} bytes, {params:?}", case.input.len())
                });
            }
        }
    }
}
