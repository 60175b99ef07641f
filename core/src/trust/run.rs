//! Runs of a known answer: as it is, with a forged tag that the device must detect, and as a stream of pieces.

use super::answer::KnownAnswer;
use super::compression;
use super::packet::{self, Packet};
use crate::algorithm::{Direction, Fault, Kind, Operation, Outcome, Refusal, Unsupported};
use crate::driver::{Buffers, DeviceSession, Fields, Operands};

/// The failure of a device in its known-answer test.
pub(crate) enum Failure {
    /// An answer was wrong, or an offered operation or path does not exist.
    Wrong(String),
    /// The device had a fault. It may pass a later test.
    Fault(String),
}

impl From<Unsupported> for Failure {
    fn from(reason: Unsupported) -> Self {
        Failure::Wrong(reason.to_string())
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Declined(reason) => Failure::Wrong(reason.to_owned()),
            fault => Failure::Fault(fault.to_string()),
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Unsupported(reason) => reason.into(),
            Refusal::Fault(fault) => fault.into(),
        }
    }
}

/// Rejects a device that accepts a forged tag, or truncated data.
pub(super) fn check_forgery(
    session: &dyn DeviceSession,
    answer: &'static KnownAnswer,
    operation: Operation,
    in_place: bool,
) -> Result<(), Failure> {
    if operation == Operation::Decompress {
        return check_truncated(session, answer);
    }
    let mut run = Run::forged(answer, operation, in_place);
    let result = session.run(run.operands());
    run.check_result(result, "direct")
}

/// Checks that truncated input is rejected, and that no more is written than the buffer holds.
fn check_truncated(session: &dyn DeviceSession, answer: &'static KnownAnswer) -> Result<(), Failure> {
    let mut room = vec![0xEE; answer.input.len() + 1];
    let run = |input: &[u8], output: &mut [u8]| {
        session.run(Operands::Compression { operation: Operation::Decompress, input, output, written: &mut 0 })
    };
    let (last, short) = (answer.input.len() - 1, answer.output.len() - 1);
    match run(answer.output, &mut room[..last])? {
        Outcome::NoRoom if room[last..] == [0xEE; 2] => {}
        _ => return Err(Failure::Wrong("more was decompressed than the buffer holds".to_owned())),
    }
    match run(&answer.output[..short], &mut room)? {
        // A device may have checked the room in the output first.
        Outcome::Malformed | Outcome::NoRoom => Ok(()),
        _ => Err(Failure::Wrong("truncated data was accepted".to_owned())),
    }
}

/// One run of a known answer, with the buffers that it needs.
pub(crate) struct Run {
    answer: &'static KnownAnswer,
    operation: Operation,
    input: Vec<u8>,
    /// The output. If the operation works in place, this is the input before the run.
    data: Vec<u8>,
    tag: Vec<u8>,
    /// Length in bytes of the result of compression, decompression or decipherment; for packets, of the payload.
    written: usize,
    in_place: bool,
    /// The tag does not belong to the data, and the device must refuse it.
    is_forged: bool,
}

impl Run {
    /// Makes a run with a wrong tag, for an operation that verifies one.
    pub(super) fn forged(answer: &'static KnownAnswer, operation: Operation, in_place: bool) -> Self {
        let mut run = Self { is_forged: true, ..Self::new(answer, operation, in_place) };
        let end = if operation.info().kind == Kind::Packet { run.data.last_mut() } else { run.tag.last_mut() };
        if let Some(last) = end {
            *last ^= 1;
        }
        run
    }

    pub(super) fn new(answer: &'static KnownAnswer, operation: Operation, in_place: bool) -> Self {
        let row = operation.info();
        let [_, input, output, tag] = row.answer_fields.map(|field| answer.field(field));
        let mut data = match row.kind {
            Kind::Packet if row.direction == Direction::Encrypt => packet::unprotected_packet(answer),
            _ if row.in_place => input.to_vec(),
            Kind::Compression => vec![0; answer.algorithm.info().length(row.output, output.len(), 0)],
            // The buffer is as long as the ciphertext.
            _ if row.returns_length => vec![0; input.len()],
            _ => vec![0; output.len()],
        };
        let tag = if row.kind == Kind::Packet {
            vec![answer.aad[4] * u8::from(row.direction == Direction::Encrypt)]
        } else if row.reads_tag() {
            tag.to_vec()
        } else {
            vec![0; tag.len()]
        };
        let written = if operation == Operation::Protect { answer.input.len() } else { 0 };
        let input = if row.in_place { data.clone() } else { input.to_vec() };
        if !in_place && row.kind != Kind::Packet {
            data.fill(0xEE); // shows bytes that a device does not write
        }
        Self { answer, operation, input, data, tag, written, in_place, is_forged: false }
    }

    pub(crate) fn operands(&mut self) -> Operands<'_> {
        let Self { answer, operation, input, data, tag, written, in_place, is_forged: _ } = self;
        let iv = answer.field(operation.info().answer_fields[0]);
        let input = if *in_place && operation.info().in_place { None } else { Some(&**input) };
        Operands::from_fields(*operation, Fields { iv, aad: answer.aad, input, output: data, tag, written })
    }

    /// Replaces a result that may differ from the known one (a signature, a packet, compressed data, an enciphered message) by the known
    /// one. The device's inverse operation must accept the result first. Other tests check the inverse operations.
    pub(super) fn verify(&mut self, verifier: Option<&dyn DeviceSession>) -> Result<(), Failure> {
        let Some(verifier) = verifier else { return Ok(()) };
        let KnownAnswer { algorithm, iv, aad, input, output, .. } = self.answer;
        let is_valid = match self.operation {
            Operation::Protect => {
                let content = Some((*input, aad[4]));
                Packet::new(&self.data).restores((*algorithm, verifier), packet::packet_number(iv), content)?
            }
            Operation::Compress => {
                compression::restores(verifier, self.data.get(..self.written).unwrap_or_default(), input)?
            }
            Operation::Encipher => {
                let (mut message, mut written) = (vec![0; self.data.len()], 0);
                let operands = Operands::Decipher { input: &self.data, output: &mut message, written: &mut written };
                verifier.run(operands)? == Outcome::Done && message.get(..written) == Some(*input)
            }
            _ => verifier.run(Operands::Verify { input, signature: &self.data })? == Outcome::Done,
        };
        if is_valid {
            (self.data, self.written) = (output.to_vec(), output.len());
        }
        Ok(())
    }

    /// Compares the result with the known answer. The error names `path`.
    pub(super) fn check_result(&self, result: Result<Outcome, Fault>, path: &str) -> Result<(), Failure> {
        let row = self.operation.info();
        let [_, _, output, tag] = row.answer_fields.map(|field| self.answer.field(field));
        let is_right = match row.kind {
            Kind::Packet if row.direction == Direction::Decrypt => {
                let opened = Packet { payload_len: self.written, next_header: self.tag[0], ..Packet::new(&self.data) };
                opened.content(self.answer.algorithm) == Some((self.answer.input, self.answer.aad[4]))
            }
            Kind::Packet => self.data == output,
            // After the result the buffer may hold anything.
            _ if row.returns_length => self.data.get(..self.written) == Some(output),
            _ => self.data == output && self.tag == tag,
        };
        let failure = match result {
            Ok(Outcome::BadTag) if self.is_forged && self.holds_plaintext() => {
                Failure::Wrong("plaintext was left in the buffer with a bad tag".to_owned())
            }
            Ok(Outcome::BadTag) if self.is_forged => return Ok(()),
            Ok(_) if self.is_forged => Failure::Wrong("a bad tag was accepted".to_owned()),
            Ok(Outcome::Done) if is_right => return Ok(()),
            Ok(Outcome::Done) => Failure::Wrong("a wrong result".to_owned()),
            Ok(outcome) => Failure::Wrong(outcome.to_string()),
            Err(fault) => fault.into(),
        };
        let describe = |error| format!("{} of {} bytes, {path}: {error}", self.operation, self.answer.input.len());
        Err(match failure {
            Failure::Wrong(error) => Failure::Wrong(describe(error)),
            Failure::Fault(error) => Failure::Fault(describe(error)),
        })
    }

    /// Returns whether the buffer begins with the plaintext.
    fn holds_plaintext(&self) -> bool {
        let KnownAnswer { algorithm, input, .. } = self.answer;
        let start = if self.operation.info().kind == Kind::Packet { algorithm.info().payload_start() } else { 0 };
        !input.is_empty() && self.data[start..].starts_with(input)
    }
}

/// Runs the answer in two pieces, twice on the same stream. Then a copy taken between the pieces must find a forgery.
fn check_aead_stream(
    session: &dyn DeviceSession,
    answer: &'static KnownAnswer,
    operation: Operation,
) -> Result<(), Failure> {
    let mut stream = session.aead_stream(operation)?;
    for _ in 0..2 {
        let mut run = Run::new(answer, operation, true);
        let (first, second) = run.data.split_at_mut(answer.input.len() / 2);
        let mut process = || {
            stream.begin(answer.iv, answer.aad)?;
            stream.update(Buffers::InPlace(first))?;
            let mut copy = stream.duplicate();
            stream.update(Buffers::InPlace(second))?;
            if operation == Operation::Seal {
                return stream.seal(&mut run.tag).map(|()| Outcome::Done);
            }
            let mut changed = vec![1; second.len() + 1];
            copy.update(Buffers::InPlace(&mut changed))?;
            match copy.open(&run.tag)? {
                // The answer is wrong, but the device has no fault.
                Outcome::Done => Err(Fault::Declined("a bad tag was accepted")),
                _ => stream.open(&run.tag),
            }
        };
        let result = process();
        run.check_result(result, "stream")?;
    }
    Ok(())
}

/// Runs the answer in two pieces, twice on the same stream, and once more on a copy taken between the pieces.
pub(super) fn check_stream(
    session: &dyn DeviceSession,
    answer: &'static KnownAnswer,
    operation: Operation,
) -> Result<(), Failure> {
    let block = answer.algorithm.info().block;
    let mut run = Run::new(answer, operation, true);
    let cut = answer.input.len() / 2 / block * block;
    match operation {
        Operation::Digest | Operation::Mac => {
            let mut stream = session.digest_stream()?;
            let (first, second) = answer.input.split_at(cut);
            for _ in 0..2 {
                stream.update(first)?;
                let mut copy = stream.duplicate();
                for stream in [&mut stream, &mut copy] {
                    let result = stream.update(second).and_then(|()| stream.finish(&mut run.data));
                    run.check_result(result.map(|()| Outcome::Done), "stream")?;
                }
            }
        }
        Operation::Encrypt | Operation::Decrypt => {
            let mut stream = session.cipher_stream(operation, answer.iv)?;
            let (first, second) = run.data.split_at_mut(cut);
            let result = stream.update(Buffers::InPlace(first)).and_then(|()| stream.update(Buffers::InPlace(second)));
            run.check_result(result.map(|()| Outcome::Done), "stream")?;
        }
        Operation::Seal | Operation::Open => check_aead_stream(session, answer, operation)?,
        _ => return Err(Failure::Wrong("this operation has no streams".to_owned())),
    }
    Ok(())
}
