//! One request as plain data, laid out in guarded memory, and its answer.

use gantry_core::driver::{Fields, Operands};
use gantry_core::{AlgorithmInfo, Error, Kind, Operation, Outcome, Request, Session, SessionParams};

use crate::guard::GuardedBuffer;

/// The reason why a case did not give the required answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CaseError {
    /// The device does not support the request.
    Unsupported(String),
    /// Core refused the request.
    Misuse(String),
    /// The device made a mistake.
    Wrong(String),
}

impl From<String> for CaseError {
    fn from(what: String) -> Self {
        CaseError::Wrong(what)
    }
}

impl From<Error> for CaseError {
    fn from(error: Error) -> Self {
        match error {
            Error::Misuse(misuse) => CaseError::Misuse(misuse.to_string()),
            Error::Unserved { reasons, .. } if !reasons.is_empty() => CaseError::Unsupported(reasons.join("; ")),
            other => CaseError::Wrong(other.to_string()),
        }
    }
}

/// Runs a case by itself.
pub(crate) fn run(session: &Session, case: &Case, placement: Placement) -> Result<Answer, CaseError> {
    let mut placed = PlacedCase::new(case, session.params(), placement);
    let outcome = session.run(placed.operands())?;
    Ok(placed.answer(outcome)?)
}

/// Runs cases as one batch.
pub(crate) fn run_batch(
    session: &Session,
    cases: &[(&Case, Placement)],
) -> Result<Vec<Result<Answer, CaseError>>, CaseError> {
    let params = session.params();
    let mut placed: Vec<PlacedCase<'_>> =
        cases.iter().map(|(case, placement)| PlacedCase::new(case, params, *placement)).collect();
    let mut requests: Vec<Request<'_>> = placed.iter_mut().map(|placed| placed.operands().into()).collect();
    let verdict = session.process(&mut requests).map_err(CaseError::from);
    let outcomes: Vec<Option<Outcome>> = requests.iter().map(Request::outcome).collect();
    drop(requests);
    if outcomes.iter().all(Option::is_none) {
        verdict.clone()?;
    }
    // A device may decline some requests; the others are not affected.
    let error = || verdict.clone().err().unwrap_or_else(|| "the request has no outcome".to_owned().into());
    let answer = |(placed, outcome): (&PlacedCase<'_>, Option<Outcome>)| Ok(placed.answer(outcome.ok_or_else(error)?)?);
    Ok(placed.iter().zip(outcomes).map(answer).collect())
}

/// The contents of a request, not yet laid out in memory.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) operation: Operation,
    pub(crate) iv: Vec<u8>,
    pub(crate) aad: Vec<u8>,
    pub(crate) input: Vec<u8>,
    /// The tag for `Open`, and the signature for `Verify`.
    pub(crate) tag: Vec<u8>,
    /// Size in bytes: for compression, of the buffer for the result; for `Protect`, of the payload.
    pub(crate) room: usize,
}

impl Case {
    /// Makes a request to compress `input`, with room for any result.
    pub(crate) fn compress(input: Vec<u8>) -> Self {
        let room = AlgorithmInfo::compressed_max(input.len());
        Self { operation: Operation::Compress, iv: Vec::new(), aad: Vec::new(), input, tag: Vec::new(), room }
    }

    /// Makes a request to protect a payload with a sequence number.
    pub(crate) fn protect(params: &SessionParams, number: u64, payload: &[u8], next_header: u8) -> Self {
        let info = params.algorithm().info();
        let mut input = vec![0xEE; info.packet_length(payload.len(), params.tag_len())];
        input[info.payload_start()..][..payload.len()].copy_from_slice(payload);
        let (operation, iv, aad) = (Operation::Protect, number.to_be_bytes().to_vec(), vec![next_header]);
        Self { operation, iv, aad, input, tag: Vec::new(), room: payload.len() }
    }

    /// Makes a request to open a packet with this sequence number.
    pub(crate) fn unprotect(number: &[u8], packet: Vec<u8>) -> Self {
        let (operation, iv) = (Operation::Unprotect, number.to_vec());
        Self { operation, iv, aad: vec![0], input: packet, tag: Vec::new(), room: 0 }
    }

    /// Makes a request to decompress `input`, with room for `room` bytes.
    pub(crate) fn decompress(input: Vec<u8>, room: usize) -> Self {
        Self { operation: Operation::Decompress, room, ..Self::compress(input) }
    }
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// `output` is the main result; for `Unprotect`, the payload and its next header. `tag` is the tag or second result, if there is one.
    Done { output: Vec<u8>, tag: Vec<u8> },
    /// An outcome other than `Done`, without data.
    Refused(Outcome),
}

/// The positions of the buffers of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    /// True if the output overwrites the input. The field concerns only ciphers and AEADs. Packets are always in place, and other
    /// operations never.
    pub(crate) in_place: bool,
    /// Bytes between an aligned address and the input. The other buffers have other offsets.
    pub(crate) offset: usize,
}

impl Placement {
    pub(crate) const SEPARATE: Placement = Placement { in_place: false, offset: 0 };
}

/// A case in memory, ready to be run once.
pub(crate) struct PlacedCase<'c> {
    case: &'c Case,
    iv: GuardedBuffer,
    aad: GuardedBuffer,
    /// `None` when the input lies in `output`.
    input: Option<GuardedBuffer>,
    output: GuardedBuffer,
    tag: GuardedBuffer,
    /// Length in bytes of the result of compression, or of the message from `Decipher`; for packets, of the payload.
    written: usize,
    /// The next header of a packet.
    next_header: u8,
    /// For packets, the offset of the payload and the length of the tag, in bytes.
    layout: (usize, usize),
}

impl<'c> PlacedCase<'c> {
    pub(crate) fn new(case: &'c Case, session: &SessionParams, placement: Placement) -> Self {
        let (info, tag_len) = (session.algorithm().info(), session.tag_len());
        let Placement { in_place, offset } = placement;
        let row = case.operation.info();
        let runs_in_place = row.in_place && (in_place || row.kind == Kind::Packet);
        let (input, output) = if runs_in_place {
            (None, GuardedBuffer::new(&case.input, offset))
        } else {
            let length = match row.output {
                _ if row.kind == Kind::Compression => case.room,
                length => info.length(length, case.input.len(), tag_len),
            };
            (Some(GuardedBuffer::new(&case.input, offset)), GuardedBuffer::poisoned(length, 3 * offset % 64))
        };
        let tag = if row.kind != Kind::Packet && row.writes_tag() {
            GuardedBuffer::poisoned(info.length(row.tag, 0, tag_len), 5 * offset % 64)
        } else {
            GuardedBuffer::new(&case.tag, 5 * offset % 64)
        };
        let (iv, aad) = (GuardedBuffer::new(&case.iv, 7 * offset % 64), GuardedBuffer::new(&case.aad, 9 * offset % 64));
        let (written, next_header) = match case.operation {
            Operation::Protect => (case.room, case.aad[0]),
            _ => (0, 0),
        };
        let layout = (info.payload_start(), tag_len);
        Self { case, iv, aad, input, output, tag, written, next_header, layout }
    }

    pub(crate) fn operands(&mut self) -> Operands<'_> {
        let operation = self.case.operation;
        let tag = match operation.info().kind {
            Kind::Packet => std::slice::from_mut(&mut self.next_header),
            _ => self.tag.bytes_mut(),
        };
        let (iv, aad, output) = (self.iv.bytes(), self.aad.bytes(), self.output.bytes_mut());
        let input = self.input.as_ref().map(GuardedBuffer::bytes);
        Operands::from_fields(operation, Fields { iv, aad, input, output, tag, written: &mut self.written })
    }

    /// Returns the answer to a request for a packet: the packet, or the payload and its next header.
    fn packet(&self, outcome: Outcome) -> Result<Answer, String> {
        let (packet, (start, tag_len)) = (self.output.bytes(), self.layout);
        let output = match (outcome, self.case.operation) {
            (Outcome::Done, Operation::Protect) => packet.to_vec(),
            (Outcome::Done, _) => {
                let payload = packet.get(start..start + self.written).ok_or("the payload is longer than its packet")?;
                [payload, &[self.next_header]].concat()
            }
            _ => {
                let data = packet.get(start..packet.len().saturating_sub(tag_len)).unwrap_or_default();
                let hides_plaintext = packet == self.case.input || data.iter().all(|byte| *byte == 0);
                let leaks = || format!("{outcome}, but the packet has plaintext");
                return if hides_plaintext { Ok(Answer::Refused(outcome)) } else { Err(leaks()) };
            }
        };
        Ok(Answer::Done { output, tag: Vec::new() })
    }

    /// Returns the answer to the request. Returns an error if the device changed other memory, or left data after a refusal.
    pub(crate) fn answer(&self, outcome: Outcome) -> Result<Answer, String> {
        let buffers = [Some(&self.iv), Some(&self.aad), self.input.as_ref(), Some(&self.output), Some(&self.tag)];
        if !buffers.into_iter().flatten().all(GuardedBuffer::is_intact) {
            return Err("bytes outside the buffers were changed".to_owned());
        }
        let row = self.case.operation.info();
        let is_tag_read = !row.writes_tag();
        let read_only = [
            (Some(&self.iv), &self.case.iv),
            (Some(&self.aad), &self.case.aad),
            (self.input.as_ref(), &self.case.input),
            (is_tag_read.then_some(&self.tag), &self.case.tag),
        ];
        if read_only.into_iter().any(|(buffer, before)| buffer.is_some_and(|buffer| buffer.bytes() != before)) {
            return Err("an input was changed".to_owned());
        }
        if row.kind == Kind::Packet {
            return self.packet(outcome);
        }
        if row.kind == Kind::Compression {
            // Without a result the buffer may hold anything.
            let result = self.output.bytes().get(..self.written).ok_or("the result is longer than its buffer")?;
            let done = Answer::Done { output: result.to_vec(), tag: Vec::new() };
            return Ok(if outcome == Outcome::Done { done } else { Answer::Refused(outcome) });
        }
        if self.case.operation == Operation::Decipher && outcome == Outcome::Done {
            let message = self.output.bytes().get(..self.written).ok_or("the message is longer than its buffer")?;
            return Ok(Answer::Done { output: message.to_vec(), tag: Vec::new() });
        }
        if outcome == Outcome::Done {
            let tag = if is_tag_read { Vec::new() } else { self.tag.bytes().to_vec() };
            return Ok(Answer::Done { output: self.output.bytes().to_vec(), tag });
        }
        let is_unchanged = match self.input {
            Some(_) => self.output.is_untouched(),
            None => self.output.bytes() == self.case.input,
        };
        let is_zeroed = matches!(outcome, Outcome::BadTag | Outcome::BadKey | Outcome::Malformed)
            && self.output.bytes().iter().all(|&byte| byte == 0);
        if is_unchanged || is_zeroed {
            Ok(Answer::Refused(outcome))
        } else {
            Err(format!("{outcome}, but the output was filled"))
        }
    }
}

/// Compares an answer with the required one, and describes the difference.
pub(crate) fn compare(got: Result<Answer, CaseError>, expected: &Answer) -> Result<(), CaseError> {
    let what = match (got?, expected) {
        (got, expected) if got == *expected => return Ok(()),
        (Answer::Done { output, tag }, Answer::Done { output: expected_output, tag: expected_tag }) => {
            describe_difference("the output", &output, expected_output)
                .or_else(|| describe_difference("the tag", &tag, expected_tag))
        }
        (Answer::Done { .. }, Answer::Refused(_)) => Some("it was accepted".to_owned()),
        (Answer::Refused(outcome), _) => Some(format!("it was refused: {outcome}")),
    };
    Err(CaseError::Wrong(what.unwrap_or_default()))
}

/// Describes the first difference of two byte strings.
pub(crate) fn describe_difference(name: &str, got: &[u8], expected: &[u8]) -> Option<String> {
    if got.len() != expected.len() {
        return Some(format!("{name} has {} bytes, not {}", got.len(), expected.len()));
    }
    if got == expected {
        return None; // the usual case
    }
    let at = got.iter().zip(expected).position(|(got, expected)| got != expected)?;
    let end = got.len().min(at + 8);
    let (part, expected_part) = (&got[at..end], &expected[at..end]);
    Some(format!("{name} differs from byte {at} of {}: {part:02x?} instead of {expected_part:02x?}", got.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params() -> SessionParams {
        SessionParams::new(gantry_core::Algorithm::Aes128Gcm, &[0; 16])
    }

    fn case(operation: Operation) -> Case {
        Case { operation, iv: vec![1; 12], aad: vec![2; 5], input: vec![3; 20], tag: vec![4; 16], room: 0 }
    }

    #[test]
    fn detects_plaintext_after_a_bad_tag() {
        let case = case(Operation::Open);
        for in_place in [false, true] {
            let placement = Placement { in_place, offset: 7 };
            let refused = Ok(Answer::Refused(Outcome::BadTag));
            let mut placed = PlacedCase::new(&case, &params(), placement);
            assert_eq!(placed.answer(Outcome::BadTag), refused, "as it was");
            placed.output.bytes_mut().fill(0);
            assert_eq!(placed.answer(Outcome::BadTag), refused, "zeroed");
            placed.output.bytes_mut()[19] = 9;
            assert!(placed.answer(Outcome::BadTag).is_err());
        }
    }

    #[test]
    fn detects_a_changed_input() {
        let case = case(Operation::Seal);
        let mut placed = PlacedCase::new(&case, &params(), Placement::SEPARATE);
        placed.aad.bytes_mut()[0] = 0;
        assert_eq!(placed.answer(Outcome::Done), Err("an input was changed".to_owned()));
    }

    #[test]
    fn differences_begin_at_the_first_wrong_byte() {
        let expected = Answer::Done { output: vec![0; 4], tag: vec![] };
        let got = Ok(Answer::Done { output: vec![0, 0, 7, 0], tag: vec![] });
        let what = "the output differs from byte 2 of 4: [07, 00] instead of [00, 00]".to_owned();
        assert_eq!(compare(got, &expected), Err(CaseError::Wrong(what)));
    }
}
