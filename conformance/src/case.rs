//! One request as plain data, laid out in memory that notices mistakes, and what came of it.

use gantry_core::driver::{Fields, Operands};
use gantry_core::{AlgorithmInfo, Error, Kind, Operation, Outcome, Request, Session, SessionParams};

use crate::guard::Guarded;

/// Why a case did not give what it must.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The device says that it does not do this.
    Unsupported(String),
    /// Core says that nobody does this.
    Misuse(String),
    /// The device did something wrong.
    Wrong(String),
}

impl From<String> for Trouble {
    fn from(what: String) -> Self {
        Trouble::Wrong(what)
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        match error {
            Error::Misuse(misuse) => Trouble::Misuse(misuse.to_string()),
            Error::Unserved { reasons, .. } if !reasons.is_empty() => Trouble::Unsupported(reasons.join("; ")),
            other => Trouble::Wrong(other.to_string()),
        }
    }
}

/// Runs a case by itself.
pub(crate) fn run(session: &Session, case: &Case, placement: Placement) -> Result<Answer, Trouble> {
    let mut laid = Laid::new(case, session.params(), placement);
    let outcome = session.run(laid.operands())?;
    Ok(laid.answer(outcome)?)
}

/// Runs cases as one batch.
pub(crate) fn run_batch(
    session: &Session,
    cases: &[(&Case, Placement)],
) -> Result<Vec<Result<Answer, Trouble>>, Trouble> {
    let params = session.params();
    let mut laid: Vec<Laid<'_>> = cases.iter().map(|(case, placement)| Laid::new(case, params, *placement)).collect();
    let mut requests: Vec<Request<'_>> = laid.iter_mut().map(|laid| laid.operands().into()).collect();
    let verdict = session.process(&mut requests).map_err(Trouble::from);
    let outcomes: Vec<Option<Outcome>> = requests.iter().map(Request::outcome).collect();
    drop(requests);
    if outcomes.iter().all(Option::is_none) {
        verdict.clone()?;
    }
    // A device may decline some of them, which is no trouble of the others.
    let trouble = || verdict.clone().err().unwrap_or_else(|| "the request has no outcome".to_owned().into());
    let answer = |(laid, outcome): (&Laid<'_>, Option<Outcome>)| Ok(laid.answer(outcome.ok_or_else(trouble)?)?);
    Ok(laid.iter().zip(outcomes).map(answer).collect())
}

/// A request without its buffers.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) operation: Operation,
    pub(crate) iv: Vec<u8>,
    pub(crate) aad: Vec<u8>,
    pub(crate) input: Vec<u8>,
    /// The tag that came with the ciphertext, of `Open`, and the signature of `Verify`.
    pub(crate) tag: Vec<u8>,
    /// Bytes of the buffer for the result, of compression; of packets, those of the payload.
    pub(crate) room: usize,
}

impl Case {
    /// To compress this, with room for anything.
    pub(crate) fn compress(input: Vec<u8>) -> Self {
        let room = AlgorithmInfo::compressed_max(input.len());
        Self { operation: Operation::Compress, iv: Vec::new(), aad: Vec::new(), input, tag: Vec::new(), room }
    }

    /// To make a packet of a payload under a number.
    pub(crate) fn protect(params: &SessionParams, number: u64, payload: &[u8], next_header: u8) -> Self {
        let info = params.algorithm().info();
        let mut input = vec![0xEE; info.packet_length(payload.len(), params.tag_length())];
        input[info.payload_start()..][..payload.len()].copy_from_slice(payload);
        let (operation, iv, aad) = (Operation::Protect, number.to_be_bytes().to_vec(), vec![next_header]);
        Self { operation, iv, aad, input, tag: Vec::new(), room: payload.len() }
    }

    /// To open a packet that has this number.
    pub(crate) fn unprotect(number: &[u8], packet: Vec<u8>) -> Self {
        let (operation, iv) = (Operation::Unprotect, number.to_vec());
        Self { operation, iv, aad: vec![0], input: packet, tag: Vec::new(), room: 0 }
    }

    /// To decompress this, with room for so many bytes.
    pub(crate) fn decompress(input: Vec<u8>, room: usize) -> Self {
        Self { operation: Operation::Decompress, room, ..Self::compress(input) }
    }
}

/// What comes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Data, digest or MAC, and of `Seal` the tag.
    Done { output: Vec<u8>, tag: Vec<u8> },
    /// No data.
    Refused(Outcome),
}

/// Where the buffers of a request lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    /// Output over input; digests and MACs have no such thing.
    pub(crate) in_place: bool,
    /// Bytes between an aligned address and the input; the other buffers have other distances.
    pub(crate) offset: usize,
}

impl Placement {
    pub(crate) const SEPARATE: Placement = Placement { in_place: false, offset: 0 };
}

/// A case in memory, ready to be run once.
pub(crate) struct Laid<'c> {
    case: &'c Case,
    iv: Guarded,
    aad: Guarded,
    /// `None` when the input lies in `output`.
    input: Option<Guarded>,
    output: Guarded,
    tag: Guarded,
    /// Of compression and encipherment; of packets, the bytes of the payload.
    written: usize,
    /// Of packets.
    next_header: u8,
    /// Where a payload begins, and how long a tag is.
    layout: (usize, usize),
}

impl<'c> Laid<'c> {
    pub(crate) fn new(case: &'c Case, session: &SessionParams, placement: Placement) -> Self {
        let (info, tag_len) = (session.algorithm().info(), session.tag_length());
        let Placement { in_place, offset } = placement;
        let row = case.operation.info();
        let takes_place = row.in_place && (in_place || row.kind == Kind::Packet);
        let (input, output) = if takes_place {
            (None, Guarded::new(&case.input, offset))
        } else {
            let length = match row.output {
                _ if row.kind == Kind::Compression => case.room,
                length => info.length(length, case.input.len(), tag_len),
            };
            (Some(Guarded::new(&case.input, offset)), Guarded::poisoned(length, 3 * offset % 64))
        };
        let tag = if row.kind != Kind::Packet && row.writes_tag() {
            Guarded::poisoned(info.length(row.tag, 0, tag_len), 5 * offset % 64)
        } else {
            Guarded::new(&case.tag, 5 * offset % 64)
        };
        let (iv, aad) = (Guarded::new(&case.iv, 7 * offset % 64), Guarded::new(&case.aad, 9 * offset % 64));
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
        let input = self.input.as_ref().map(Guarded::bytes);
        Operands::of(operation, Fields { iv, aad, input, output, tag, written: &mut self.written })
    }

    /// The same of packets: the packet, or the payload and its next header.
    fn packet(&self, outcome: Outcome) -> Result<Answer, String> {
        let (packet, (start, tag)) = (self.output.bytes(), self.layout);
        let output = match (outcome, self.case.operation) {
            (Outcome::Done, Operation::Protect) => packet.to_vec(),
            (Outcome::Done, _) => {
                let payload = packet.get(start..start + self.written).ok_or("a payload longer than its packet")?;
                [payload, &[self.next_header]].concat()
            }
            _ => {
                let data = packet.get(start..packet.len().saturating_sub(tag)).unwrap_or_default();
                let nothing = packet == self.case.input || data.iter().all(|byte| *byte == 0);
                let leaks = || format!("{outcome}, and yet there is plaintext");
                return if nothing { Ok(Answer::Refused(outcome)) } else { Err(leaks()) };
            }
        };
        Ok(Answer::Done { output, tag: Vec::new() })
    }

    /// What came of the request, or what is wrong with the memory around it.
    pub(crate) fn answer(&self, outcome: Outcome) -> Result<Answer, String> {
        let buffers = [Some(&self.iv), Some(&self.aad), self.input.as_ref(), Some(&self.output), Some(&self.tag)];
        if !buffers.into_iter().flatten().all(Guarded::is_intact) {
            return Err("bytes outside the buffers were changed".to_owned());
        }
        let row = self.case.operation.info();
        let tag_is_read = !row.writes_tag();
        let read_only = [
            (Some(&self.iv), &self.case.iv),
            (Some(&self.aad), &self.case.aad),
            (self.input.as_ref(), &self.case.input),
            (tag_is_read.then_some(&self.tag), &self.case.tag),
        ];
        if read_only.into_iter().any(|(buffer, before)| buffer.is_some_and(|buffer| buffer.bytes() != before)) {
            return Err("an input was changed".to_owned());
        }
        if row.kind == Kind::Packet {
            return self.packet(outcome);
        }
        if row.kind == Kind::Compression {
            // Without a result the buffer may hold anything.
            let result = self.output.bytes().get(..self.written).ok_or("a result longer than its buffer")?;
            let done = Answer::Done { output: result.to_vec(), tag: Vec::new() };
            return Ok(if outcome == Outcome::Done { done } else { Answer::Refused(outcome) });
        }
        if self.case.operation == Operation::Decipher && outcome == Outcome::Done {
            let message = self.output.bytes().get(..self.written).ok_or("a message longer than its buffer")?;
            return Ok(Answer::Done { output: message.to_vec(), tag: Vec::new() });
        }
        if outcome == Outcome::Done {
            let tag = if tag_is_read { Vec::new() } else { self.tag.bytes().to_vec() };
            return Ok(Answer::Done { output: self.output.bytes().to_vec(), tag });
        }
        let as_it_was = match self.input {
            Some(_) => self.output.is_untouched(),
            None => self.output.bytes() == self.case.input,
        };
        let zeroed = matches!(outcome, Outcome::BadTag | Outcome::BadKey | Outcome::Malformed)
            && self.output.bytes().iter().all(|&byte| byte == 0);
        if as_it_was || zeroed {
            Ok(Answer::Refused(outcome))
        } else {
            Err(format!("{outcome}, and yet the output was filled"))
        }
    }
}

/// Whether `got` is what must come, or in words how it differs.
pub(crate) fn compare(got: Result<Answer, Trouble>, must: &Answer) -> Result<(), Trouble> {
    let what = match (got?, must) {
        (got, must) if got == *must => return Ok(()),
        (Answer::Done { output, tag }, Answer::Done { output: must_output, tag: must_tag }) => {
            difference("the output", &output, must_output).or_else(|| difference("the tag", &tag, must_tag))
        }
        (Answer::Done { .. }, Answer::Refused(_)) => Some("it was accepted".to_owned()),
        (Answer::Refused(outcome), _) => Some(format!("it was refused: {outcome}")),
    };
    Err(Trouble::Wrong(what.unwrap_or_default()))
}

/// Where two byte strings differ first.
pub(crate) fn difference(name: &str, got: &[u8], must: &[u8]) -> Option<String> {
    if got.len() != must.len() {
        return Some(format!("{name} has {} bytes, not {}", got.len(), must.len()));
    }
    if got == must {
        return None; // quickly, because this is the rule
    }
    let at = got.iter().zip(must).position(|(got, must)| got != must)?;
    let end = got.len().min(at + 8);
    let (part, must_part) = (&got[at..end], &must[at..end]);
    Some(format!("{name} is wrong from byte {at} of {}: {part:02x?} for {must_part:02x?}", got.len()))
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
    fn plaintext_beside_a_bad_tag_is_noticed() {
        let case = case(Operation::Open);
        for in_place in [false, true] {
            let placement = Placement { in_place, offset: 7 };
            let refused = Ok(Answer::Refused(Outcome::BadTag));
            let mut laid = Laid::new(&case, &params(), placement);
            assert_eq!(laid.answer(Outcome::BadTag), refused, "as it was");
            laid.output.bytes_mut().fill(0);
            assert_eq!(laid.answer(Outcome::BadTag), refused, "zeroed");
            laid.output.bytes_mut()[19] = 9;
            assert!(laid.answer(Outcome::BadTag).is_err());
        }
    }

    #[test]
    fn an_input_that_changes_is_noticed() {
        let case = case(Operation::Seal);
        let mut laid = Laid::new(&case, &params(), Placement::SEPARATE);
        laid.aad.bytes_mut()[0] = 0;
        assert_eq!(laid.answer(Outcome::Done), Err("an input was changed".to_owned()));
    }

    #[test]
    fn a_difference_is_shown_where_it_begins() {
        let must = Answer::Done { output: vec![0; 4], tag: vec![] };
        let got = Ok(Answer::Done { output: vec![0, 0, 7, 0], tag: vec![] });
        let what = "the output is wrong from byte 2 of 4: [07, 00] for [00, 00]".to_owned();
        assert_eq!(compare(got, &must), Err(Trouble::Wrong(what)));
    }
}
