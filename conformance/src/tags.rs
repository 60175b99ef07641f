//! Forgeries: whatever is changed of a sealed or signed message, it is refused, and no plaintext leaves. And of compressed data: what
//! is damaged is found, and no more is written than there is room for.

use gantry_core::{Algorithm, Operation, Outcome, SessionParams};

use crate::batches::{BEYOND, cases};
use crate::case::{Answer, Case, Placement, Trouble, compare, run, run_batch};
use crate::generate;
use crate::report::Tally;
use crate::rng::Rng;
use crate::{Suite, few};

pub(crate) fn check(suite: &Suite<'_>, tally: &mut Tally) {
    let opens = |operation: &&Operation| operation.info().finds_forgeries;
    let Some(&operation) = suite.capability.operations.iter().find(opens) else { return };
    let rounds = few(suite.algorithm, 6) as usize;
    for (round, bytes) in [0, 1, 16, 47, 160, 1000].into_iter().enumerate().take(rounds) {
        if !tally.has_time() {
            continue;
        }
        let mut rng = Rng::of(suite.seed, suite.algorithm, 7000 + round as u64);
        // The full tag, and whatever else the algorithm has.
        let params = match round {
            0..4 => generate::params(&mut rng, suite.algorithm).tag_len(suite.algorithm.info().default_tag()),
            _ => generate::params(&mut rng, suite.algorithm),
        };
        match forgeries(suite, &mut rng, (&params, operation), bytes) {
            Err(trouble) => tally.judge(Err(trouble), || format!("{bytes} bytes, {params:?}")),
            Ok(cases) => present(suite, &mut rng, &params, &cases, tally),
        }
    }
}

/// One good message at both ends, and between them every kind of forgery of it, with what is wrong in words.
fn forgeries(
    suite: &Suite<'_>,
    rng: &mut Rng,
    (params, operation): (&SessionParams, Operation),
    bytes: usize,
) -> Result<Vec<(String, Case, Answer)>, Trouble> {
    // Of the messages with a good tag, `cases` damages some.
    let mut good = cases(suite, rng, params, operation, &[bytes; 8][..few(suite.algorithm, 8) as usize])?;
    good.retain(|(_, must)| matches!(must, Answer::Done { .. }));
    let Some((good, must)) = good.into_iter().next() else { return Ok(Vec::new()) };
    if operation == Operation::Unprotect {
        return Ok(changed(suite.algorithm, rng, good, must));
    }
    if operation == Operation::Decompress {
        return Ok(damaged(suite.algorithm, rng, good, must));
    }
    let mut all = vec![("nothing changed".to_owned(), good.clone(), must.clone())];
    let mut forge = |what: String, change: &mut dyn FnMut(&mut Case)| {
        let mut case = good.clone();
        change(&mut case);
        all.push((what, case, Answer::Refused(Outcome::BadTag)));
    };
    // Signatures of some algorithms are long.
    let places = if suite.algorithm.is_slh_dsa() { 60 } else { 600 };
    for at in (0..good.tag.len()).step_by(good.tag.len().div_ceil(places)) {
        forge(format!("byte {at} of the tag changed"), &mut |case| case.tag[at] ^= 1 << rng.below(8));
    }
    forge("the tag all zeros".to_owned(), &mut |case| case.tag.fill(0));
    forge("a byte less of the tag".to_owned(), &mut |case| {
        case.tag.pop();
    });
    forge("no tag".to_owned(), &mut |case| case.tag.clear());
    // FIPS 186-5, 6.4.1: of a digest.
    let counts = if suite.algorithm == Algorithm::EcdsaP256 { 32 } else { usize::MAX };
    for at in [0, good.input.len() / 2, good.input.len().saturating_sub(1)] {
        if at < good.input.len().min(counts) {
            forge(format!("byte {at} of the data changed"), &mut |case| case.input[at] ^= 0x80);
        }
    }
    for at in [0, good.aad.len().saturating_sub(1)] {
        if at < good.aad.len() {
            forge(format!("byte {at} of the associated data changed"), &mut |case| case.aad[at] ^= 1);
        }
    }
    if operation == Operation::Open {
        forge("the nonce changed".to_owned(), &mut |case| generate::damage(rng, &mut case.iv));
        forge("associated data added".to_owned(), &mut |case| case.aad.push(0));
    } else {
        // A byte, or what makes a digest the next longer one.
        let info = suite.algorithm.info();
        let longer = info.data_length(good.input.len() + info.block);
        if good.input.len() < longer.min(counts) {
            forge("the message longer".to_owned(), &mut |case| case.input.resize(longer, 1));
        }
    }
    all.push(("nothing changed".to_owned(), good, must));
    Ok(all)
}

/// The same of packets. What core reads of a header is found before any device has it.
fn changed(algorithm: Algorithm, rng: &mut Rng, good: Case, must: Answer) -> Vec<(String, Case, Answer)> {
    let mut all = vec![("nothing changed".to_owned(), good.clone(), must.clone())];
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
    all.push(("nothing changed".to_owned(), good, must));
    all
}

/// The same of compressed data. A change in the middle of them may lead to other data: only checksums and ends tell.
fn damaged(algorithm: Algorithm, rng: &mut Rng, good: Case, must: Answer) -> Vec<(String, Case, Answer)> {
    let mut all = vec![("nothing changed".to_owned(), good.clone(), must.clone())];
    let mut damage = |what: String, change: &mut dyn FnMut(&mut Case), outcome| {
        let mut case = good.clone();
        change(&mut case);
        all.push((what, case, Answer::Refused(outcome)));
    };
    let length = good.input.len();
    for at in (0..length).step_by(length.div_ceil(200)) {
        let cut = &mut |case: &mut Case| {
            case.input.truncate(at);
            case.room += BEYOND;
        };
        damage(format!("the first {at} bytes"), cut, Outcome::Malformed);
    }
    damage("a byte behind the end".to_owned(), &mut |case| case.input.push(0), Outcome::Malformed);
    // CRC and length, Adler-32, and the lower half of XXH64.
    let checked = match algorithm {
        Algorithm::Gzip => 8,
        Algorithm::Zlib | Algorithm::Zstd => 4,
        _ => 0,
    };
    for at in length - checked..length {
        let change = &mut |case: &mut Case| case.input[at] ^= 1 << rng.below(8);
        damage(format!("byte {at} of {length} changed, in the checksum"), change, Outcome::Malformed);
    }
    if let Answer::Done { output, .. } = &must {
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
    all.push(("nothing changed".to_owned(), good, must));
    all
}

/// Each by itself in both placements, then all of them as one batch.
fn present(
    suite: &Suite<'_>,
    rng: &mut Rng,
    params: &SessionParams,
    cases: &[(String, Case, Answer)],
    tally: &mut Tally,
) {
    let mut together = || {
        let session = suite.subject.session(params.clone())?;
        for (what, case, must) in cases {
            for in_place in [false, suite.capability.in_place] {
                let placement = Placement { in_place, offset: rng.below(64) };
                tally.judge(compare(run(&session, case, placement), must), || {
                    format!("{what}, {} bytes, {params:?}", case.input.len())
                });
            }
        }
        let laid: Vec<(&Case, Placement)> = cases.iter().map(|(_, case, _)| (case, suite.placement(rng))).collect();
        run_batch(&session, &laid)
    };
    match together() {
        Err(trouble) => tally.judge(Err(trouble), || format!("a batch of forgeries, {params:?}")),
        Ok(answers) => {
            for ((what, case, must), answer) in cases.iter().zip(answers) {
                tally.judge(compare(answer, must), || {
                    format!("{what}, in a batch, {} bytes, {params:?}", case.input.len())
                });
            }
        }
    }
}
