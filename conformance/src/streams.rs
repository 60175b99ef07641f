//! Checks messages and data in pieces.

use gantry_core::driver::Buffers;
use gantry_core::{AeadStream, Error, Kind, Operation, Request, Session, SessionParams, Stream};

use crate::Suite;
use crate::case::{Answer, Case, CaseError, describe_difference};
use crate::generate;
use crate::guard::GuardedBuffer;
use crate::report::Tally;
use crate::rng::Rng;
use crate::subject::Oracle;

pub(crate) fn check(suite: &Suite<'_>, tally: &mut Tally) {
    let info = suite.algorithm.info();
    let has_no_streams = matches!(
        info.kind,
        Kind::Signature | Kind::Exchange | Kind::Kem | Kind::Compression | Kind::Packet | Kind::Encipherment
    ) || info.kind == Kind::Mac && info.iv.max > 0;
    if has_no_streams {
        return; // Core has no streams for these algorithms.
    }
    if !suite.capability.streaming {
        if info.kind == Kind::Aead {
            return; // Most AEADs have no streams.
        }
        return tally.skip("the device has no streams");
    }
    let mut rng = Rng::for_purpose(suite.seed, suite.algorithm, 8000);
    let params = generate::params(&mut rng, suite.algorithm).with_tag_len(info.default_tag_length());
    let result = match info.kind {
        Kind::Cipher => check_ciphers(suite, &mut rng, &params, tally),
        Kind::Aead => check_aeads(suite, &mut rng, &params, tally),
        _ => check_messages(suite, &mut rng, &params, tally)
            .and_then(|()| check_many_streams(suite, &mut rng, &params, tally)),
    };
    if let Err(error) = result {
        tally.record(Err(error), || format!("{params:?}"));
    }
}

/// Checks digests and MACs: a message cut in two at every position, then in equal pieces of every length up to two blocks. Uses one
/// stream, which is reset after each message, and a copy made between the pieces.
fn check_messages(
    suite: &Suite<'_>,
    rng: &mut Rng,
    params: &SessionParams,
    tally: &mut Tally,
) -> Result<(), CaseError> {
    let block = suite.algorithm.info().block;
    let message = rng.bytes(3 * block + 7);
    let expected = expected_digest(&suite.oracle(params)?, suite, &message)?;
    let session = suite.subject.session(params.clone())?;
    let mut stream = session.stream(1)?;

    for cut in (0..message.len()).step_by(suite.step).chain([message.len()]) {
        if !tally.begin_step() {
            continue;
        }
        let (one, other) = message.split_at(cut);
        let result = (|| {
            stream.update(one)?;
            let mut copy = stream.clone();
            for stream in [&mut stream, &mut copy] {
                stream.update(other)?;
                finish_and_compare(stream, &expected)?;
            }
            Ok(())
        })();
        tally.record(result, || format!("{} bytes, cut at {cut}", message.len()));
    }
    for length in (1..=2 * block).step_by(suite.step).chain([2 * block + 1]) {
        if !tally.begin_step() {
            continue;
        }
        let result = message.chunks(length).try_for_each(|piece| stream.update(piece)).map_err(CaseError::from);
        let result = result.and_then(|()| finish_and_compare(&mut stream, &expected));
        tally.record(result, || format!("{} bytes in pieces of {length}", message.len()));
    }
    Ok(())
}

/// Feeds many streams in batches with pieces of mixed lengths. Each stream has a message of its own length. Does this twice on the same
/// streams.
fn check_many_streams(
    suite: &Suite<'_>,
    rng: &mut Rng,
    params: &SessionParams,
    tally: &mut Tally,
) -> Result<(), CaseError> {
    let oracle = suite.oracle(params)?;
    let session = suite.subject.session(params.clone())?;
    let count = 2 * suite.capability.lanes.min(32) + 3;
    let mut streams = (0..count).map(|_| session.stream(count)).collect::<Result<Vec<Stream>, Error>>()?;
    for message in 0..2 {
        if !tally.begin_step() {
            continue;
        }
        let messages: Vec<Vec<u8>> = (0..count)
            .map(|index| {
                let length = match index % 9 {
                    4 => 0,
                    7 => 20_000 + rng.below(60_000),
                    _ => rng.below(1200),
                };
                rng.bytes(length)
            })
            .collect();
        let results = feed(&session, &mut streams, &messages, suite.capability.max_bytes, rng)?;
        for (index, (bytes, result)) in messages.iter().zip(results).enumerate() {
            let expected = expected_digest(&oracle, suite, bytes)?;
            tally.record(compare_output(&result, &expected), || {
                format!("message {message} of stream {index} of {count}, {} bytes", bytes.len())
            });
        }
    }
    Ok(())
}

/// Feeds one piece of each stream at a time, as one batch, until all streams have ended. In the first batch some messages are whole, and
/// share the device with the pieces.
fn feed(
    session: &Session,
    streams: &mut [Stream],
    messages: &[Vec<u8>],
    max_bytes: usize,
    rng: &mut Rng,
) -> Result<Vec<GuardedBuffer>, CaseError> {
    let mut rest: Vec<Option<&[u8]>> = messages.iter().map(|message| Some(&message[..])).collect();
    let mut results: Vec<GuardedBuffer> =
        (0..streams.len()).map(|index| GuardedBuffer::poisoned(session.params().tag_len(), index % 64)).collect();
    let kind = session.params().algorithm().kind();
    while rest.iter().any(Option::is_some) {
        let mut requests = Vec::new();
        for (index, ((stream, rest), result)) in streams.iter_mut().zip(&mut rest).zip(&mut results).enumerate() {
            match rest {
                Some(bytes) if index % 5 == 3 && bytes.len() <= max_bytes => {
                    let output = result.bytes_mut();
                    let is_digest = kind == Kind::Digest;
                    requests.push(if is_digest { Request::digest(bytes, output) } else { Request::mac(bytes, output) });
                    *rest = None;
                }
                Some([]) => {
                    requests.push(Request::finish(stream, result.bytes_mut()));
                    *rest = None;
                }
                Some(bytes) => {
                    let max_piece = if rng.below(8) == 0 { 50_000 } else { 300 };
                    let (piece, later) = bytes.split_at(rng.below(max_piece).min(bytes.len()).min(max_bytes));
                    requests.push(Request::update(stream, piece));
                    *bytes = later;
                }
                None => {}
            }
        }
        session.process(&mut requests)?;
        if requests.iter().any(|request| request.outcome() != Some(gantry_core::Outcome::Done)) {
            return Err("a piece was not processed".to_owned().into());
        }
    }
    Ok(results)
}

/// Checks ciphers: data cut in two at every position that the algorithm allows, then in equal pieces, with a copy made between the pieces.
fn check_ciphers(suite: &Suite<'_>, rng: &mut Rng, params: &SessionParams, tally: &mut Tally) -> Result<(), CaseError> {
    let block = suite.algorithm.info().block;
    let oracle = suite.oracle(params)?;
    let session = suite.subject.session(params.clone())?;
    // Long enough that a device does not use its path for short data.
    let bytes = if block > 1 { 19 * block } else { 16 * 9 + 5 };
    for &operation in suite.capability.operations {
        let case = generate::case(rng, params, operation, bytes);
        let Answer::Done { output: expected, .. } = oracle.answer(&case)? else {
            return Err("the data was refused".to_owned().into());
        };
        for cut in (0..=case.input.len()).step_by(block * suite.step) {
            if !tally.begin_step() {
                continue;
            }
            let result = cipher_in_two_pieces(&session, &case, &expected, cut);
            tally.record(result, || format!("{operation}, {bytes} bytes, cut at {cut}"));
        }
        for length in (block..=5 * block.max(16) + 1).step_by(block * suite.step) {
            if !tally.begin_step() {
                continue;
            }
            let result = cipher_in_pieces(&session, &case, &expected, length);
            tally.record(result, || format!("{operation}, {bytes} bytes in pieces of {length}"));
        }
    }
    Ok(())
}

fn cipher_in_two_pieces(session: &Session, case: &Case, expected: &[u8], cut: usize) -> Result<(), CaseError> {
    let mut stream = session.cipher_stream(case.operation, &case.iv)?;
    let mut data = case.input.clone();
    let (one, other) = data.split_at_mut(cut);
    stream.update(&mut *one)?;
    let mut separate = GuardedBuffer::poisoned(other.len(), cut % 64);
    stream.clone().update((&*other, separate.bytes_mut()))?;
    stream.update(&mut *other)?;
    compare_output(&separate, &expected[cut..])?;
    describe_difference("the output", &data, expected).map_or(Ok(()), |what| Err(what.into()))
}

fn cipher_in_pieces(session: &Session, case: &Case, expected: &[u8], length: usize) -> Result<(), CaseError> {
    let mut stream = session.cipher_stream(case.operation, &case.iv)?;
    let mut output = GuardedBuffer::poisoned(case.input.len(), length % 64);
    for (input, output) in case.input.chunks(length).zip(output.bytes_mut().chunks_mut(length)) {
        stream.update(Buffers::Separate { input, output })?;
    }
    compare_output(&output, expected)
}

/// Checks AEADs: messages in two pieces, cut at every position, all on one stream, which begins again after each message. The second piece
/// also goes to a copy made between the pieces.
fn check_aeads(suite: &Suite<'_>, rng: &mut Rng, params: &SessionParams, tally: &mut Tally) -> Result<(), CaseError> {
    let oracle = suite.oracle(params)?;
    let session = suite.subject.session(params.clone())?;
    let mut sealing = session.aead_stream(Operation::Seal)?;
    let mut opening = session.aead_stream(Operation::Open)?;
    for bytes in [0, 1, 16, 149, 1000] {
        let case = generate::case(rng, params, Operation::Seal, bytes);
        let Answer::Done { output: expected, tag } = oracle.answer(&case)? else {
            return Err("the data was refused".to_owned().into());
        };
        for cut in (0..=bytes).step_by(1 + bytes / 150) {
            if !tally.begin_step() {
                continue;
            }
            let result = (|| {
                compare_output(
                    &run_in_two_pieces(&mut sealing, &case, &case.input, cut, |stream| {
                        let mut sealed = GuardedBuffer::poisoned(tag.len(), 1);
                        stream.seal(sealed.bytes_mut())?;
                        compare_output(&sealed, &tag)
                    })?,
                    &expected,
                )?;
                compare_output(
                    &run_in_two_pieces(&mut opening, &case, &expected, cut, |stream| Ok(stream.open(&tag)?))?,
                    &case.input,
                )
            })();
            tally.record(result, || format!("{bytes} bytes, cut at {cut}"));
        }
        let mut forged = tag.clone();
        generate::flip_bit(rng, &mut forged);
        let result =
            run_in_two_pieces(&mut opening, &case, &expected, bytes / 2, |stream| match stream.open(&forged) {
                Err(Error::Refused(_)) => Ok(()),
                _ => Err("a bad tag was accepted".to_owned().into()),
            });
        tally.record(result.map(|_| ()), || format!("{bytes} bytes with a bad tag"));
    }
    Ok(())
}

/// Runs `input` through the stream in two pieces, from one buffer into another, and `end`s it and its copy.
fn run_in_two_pieces(
    stream: &mut AeadStream,
    case: &Case,
    input: &[u8],
    cut: usize,
    end: impl Fn(&mut AeadStream) -> Result<(), CaseError>,
) -> Result<GuardedBuffer, CaseError> {
    let mut output = GuardedBuffer::poisoned(input.len(), cut % 64);
    let (one, other) = output.bytes_mut().split_at_mut(cut);
    // Uses both ways to begin a message.
    if cut.is_multiple_of(2) {
        stream.begin(&case.iv, &case.aad)?;
        stream.update((&input[..cut], one))?;
    } else {
        stream.begin_with(&case.iv, &case.aad, (&input[..cut], one))?;
    }
    let mut copy = stream.clone();
    stream.update((&input[cut..], &mut *other))?;
    let mut in_place = input[cut..].to_vec();
    copy.update(&mut in_place)?;
    describe_difference("the copy's output", &in_place, other).map_or(Ok(()), |what| Err(CaseError::from(what)))?;
    end(stream)?;
    end(&mut copy)?;
    Ok(output)
}

/// Returns the required digest or MAC of a message.
fn expected_digest(oracle: &Oracle, suite: &Suite<'_>, message: &[u8]) -> Result<Vec<u8>, CaseError> {
    let operation = match suite.algorithm.kind() {
        Kind::Digest => Operation::Digest,
        _ => Operation::Mac,
    };
    let case = Case { operation, iv: Vec::new(), aad: Vec::new(), input: message.to_vec(), tag: Vec::new(), room: 0 };
    match oracle.answer(&case)? {
        Answer::Done { output, .. } => Ok(output),
        Answer::Refused(outcome) => Err(CaseError::Wrong(outcome.to_string())),
    }
}

fn finish_and_compare(stream: &mut Stream, expected: &[u8]) -> Result<(), CaseError> {
    let mut output = GuardedBuffer::poisoned(expected.len(), 1);
    stream.finish(output.bytes_mut())?;
    compare_output(&output, expected)
}

fn compare_output(output: &GuardedBuffer, expected: &[u8]) -> Result<(), CaseError> {
    if !output.is_intact() {
        return Err("bytes outside the buffers were changed".to_owned().into());
    }
    describe_difference("the output", output.bytes(), expected).map_or(Ok(()), |what| Err(what.into()))
}
