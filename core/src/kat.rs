//! Known-answer tests: what a device shows before it serves an algorithm.
//!
//! They are short, because every process pays for them, but they take every way in that a capability offers: direct, a
//! batch that fills the lanes more than once with messages of mixed lengths, both operations of a kind, and streams.

use std::sync::Arc;

use crate::driver::{Buffers, Capability, Device, DeviceSession, Operands};
use crate::job::run_to_end;
use crate::kat_vectors::KNOWN_ANSWERS;
use crate::{Algorithm, Fault, Operation, Outcome, Request, SessionParams};

/// One known answer. Fields that the algorithm has no use for are empty.
pub(crate) struct KnownAnswer {
    pub(crate) algorithm: Algorithm,
    pub(crate) key: &'static [u8],
    /// Of encrypt-then-authenticate algorithms.
    pub(crate) mac_key: &'static [u8],
    pub(crate) iv: &'static [u8],
    pub(crate) aad: &'static [u8],
    pub(crate) input: &'static [u8],
    /// Ciphertext, digest or MAC.
    pub(crate) output: &'static [u8],
    /// Of AEADs.
    pub(crate) tag: &'static [u8],
}

/// Runs everything that `capability` offers against the known answers. The error says what went wrong.
pub(crate) fn known_answer_test(device: &dyn Device, capability: &Capability) -> Result<(), String> {
    let algorithm = capability.algorithm;
    let answers: Vec<&KnownAnswer> = KNOWN_ANSWERS.iter().filter(|answer| answer.algorithm == algorithm).collect();
    if answers.is_empty() {
        return Err(format!("{algorithm} has no known answers"));
    }
    for operation in capability.operations {
        for answer in &answers {
            let params = SessionParams::new(algorithm, answer.key).mac_key(answer.mac_key);
            let session = device.open(&params).map_err(|why| why.to_string())?;
            if capability.direct {
                for in_place in [false, true] {
                    let mut trial = Trial::new(answer, *operation, in_place);
                    if in_place <= capability.in_place {
                        let result = session.run(trial.operands());
                        trial.judge(result, "direct")?;
                    }
                }
                if *operation == Operation::Open {
                    forgery(&*session, answer, capability)?;
                }
            }
            if capability.streaming {
                stream(&*session, answer, *operation)?;
            }
            let count = 2 * capability.lanes + 1;
            batch(device, &session, &answers, answer, *operation, count, capability.in_place)?;
        }
    }
    Ok(())
}

/// A device that opens what was not sealed is no device for anybody.
fn forgery(session: &dyn DeviceSession, answer: &KnownAnswer, capability: &Capability) -> Result<(), String> {
    let mut trial = Trial::new(answer, Operation::Open, capability.in_place);
    if let Some(last) = trial.tag.last_mut() {
        *last ^= 1;
    }
    let result = session.run(trial.operands());
    let kept = answer.input.is_empty() || trial.data != answer.input;
    match result {
        Ok(Outcome::BadTag) if kept => Ok(()),
        Ok(Outcome::BadTag) => Err("plaintext left with a bad tag".to_owned()),
        _ => Err("a bad tag was taken for a good one".to_owned()),
    }
}

/// One run of a known answer, with the buffers that it needs.
struct Trial<'a> {
    answer: &'a KnownAnswer,
    operation: Operation,
    input: Vec<u8>,
    /// In place, it holds the input first.
    data: Vec<u8>,
    tag: Vec<u8>,
    in_place: bool,
}

impl<'a> Trial<'a> {
    fn new(answer: &'a KnownAnswer, operation: Operation, in_place: bool) -> Self {
        let (mut data, tag) = match operation {
            Operation::Encrypt | Operation::Seal => (answer.input.to_vec(), vec![0; answer.tag.len()]),
            Operation::Decrypt | Operation::Open => (answer.output.to_vec(), answer.tag.to_vec()),
            Operation::Digest | Operation::Mac => (vec![0; answer.output.len()], Vec::new()),
        };
        let input = data.clone();
        if !in_place {
            data.fill(0xEE); // what a device does not write is seen
        }
        Self { answer, operation, input, data, tag, in_place }
    }

    fn operands(&mut self) -> Operands<'_> {
        let Self { answer, operation, input: from, data: to, tag, in_place } = self;
        let KnownAnswer { iv, aad, input, .. } = answer;
        let data = |to| if *in_place { Buffers::InPlace(to) } else { Buffers::Separate { input: from, output: to } };
        match operation {
            Operation::Encrypt | Operation::Decrypt => Operands::Cipher { operation: *operation, iv, data: data(to) },
            Operation::Seal => Operands::Seal { iv, aad, data: data(to), tag },
            Operation::Open => Operands::Open { iv, aad, data: data(to), tag },
            Operation::Digest => Operands::Digest { input, output: to },
            Operation::Mac => Operands::Mac { iv, input, output: to },
        }
    }

    fn judge(&self, result: Result<Outcome, Fault>, way: &str) -> Result<(), String> {
        let expected = match self.operation {
            Operation::Decrypt | Operation::Open => self.answer.input,
            _ => self.answer.output,
        };
        let what = match result {
            Ok(Outcome::Done) if self.data == expected && self.tag == self.answer.tag => return Ok(()),
            Ok(Outcome::Done) => "a wrong result".to_owned(),
            Ok(outcome) => outcome.to_string(),
            Err(fault) => fault.to_string(),
        };
        Err(format!("{} of {} bytes, {way}: {what}", self.operation, self.answer.input.len()))
    }
}

/// The answer among as many others as it takes, all under its key; only the ones that share its key can be judged.
fn batch(
    device: &dyn Device,
    session: &Arc<dyn DeviceSession>,
    answers: &[&KnownAnswer],
    answer: &KnownAnswer,
    operation: Operation,
    count: usize,
    in_place: bool,
) -> Result<(), String> {
    let same_key = |other: &&&KnownAnswer| other.key == answer.key && other.mac_key == answer.mac_key;
    let answers: Vec<&KnownAnswer> = answers.iter().filter(same_key).copied().collect();
    let mut trials: Vec<Trial<'_>> =
        (0..count).map(|index| Trial::new(answers[index % answers.len()], operation, in_place)).collect();
    let mut requests: Vec<Request<'_>> = trials.iter_mut().map(|trial| Request::new(trial.operands(), None)).collect();
    let queue = device.attach().map_err(|fault| fault.to_string())?;
    run_to_end(queue, session, &mut requests);
    let results: Vec<_> = requests.iter().map(|request| request.body.result()).collect();
    drop(requests);
    for (trial, result) in trials.iter().zip(results) {
        trial.judge(result, "batch")?;
    }
    Ok(())
}

/// The answer in two pieces, twice on the same stream, and once more on a copy taken between the pieces.
fn stream(session: &dyn DeviceSession, answer: &KnownAnswer, operation: Operation) -> Result<(), String> {
    let block = answer.algorithm.info().block;
    let mut trial = Trial::new(answer, operation, true);
    let cut = answer.input.len() / 2 / block * block;
    match operation {
        Operation::Digest | Operation::Mac => {
            let mut stream = session.digest_stream().map_err(|why| why.to_string())?;
            let (one, other) = answer.input.split_at(cut);
            for _ in 0..2 {
                stream.update(one).map_err(|fault| fault.to_string())?;
                let mut copy = stream.duplicate();
                for stream in [&mut stream, &mut copy] {
                    let result = stream.update(other).and_then(|()| stream.finish(&mut trial.data));
                    trial.judge(result.map(|()| Outcome::Done), "stream")?;
                }
            }
        }
        Operation::Encrypt | Operation::Decrypt => {
            let mut stream = session.cipher_stream(operation, answer.iv).map_err(|why| why.to_string())?;
            let (one, other) = trial.data.split_at_mut(cut);
            let result = stream.update(Buffers::InPlace(one)).and_then(|()| stream.update(Buffers::InPlace(other)));
            trial.judge(result.map(|()| Outcome::Done), "stream")?;
        }
        Operation::Seal | Operation::Open => {
            return Err(format!("{operation} cannot stream: plaintext would leave unverified"));
        }
    }
    Ok(())
}
