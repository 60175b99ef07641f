//! Known-answer tests: what a device shows before it serves an algorithm.
//!
//! They are short, because every process pays for them, but they take every way in that a capability offers: direct, a
//! batch that fills the lanes more than once with messages of mixed lengths, both operations of a kind, and streams.

use std::sync::Arc;

use crate::driver::{Buffers, Capability, Device, DeviceQueue, DeviceSession, Operands};
use crate::guard::guarded;
use crate::kat_vectors::KNOWN_ANSWERS;
use crate::line::Line;
use crate::{
    Algorithm, Clock, Direction, Fault, Kind, Operation, Outcome, Refusal, Request, SessionParams, Unsupported,
};

/// One known answer. Fields that the algorithm has no use for are empty.
pub(crate) struct KnownAnswer {
    pub(crate) algorithm: Algorithm,
    pub(crate) key: &'static [u8],
    /// Of encrypt-then-authenticate algorithms, the MAC's key; of signatures, the public one.
    pub(crate) second_key: &'static [u8],
    pub(crate) iv: &'static [u8],
    pub(crate) aad: &'static [u8],
    pub(crate) input: &'static [u8],
    /// Ciphertext, digest, MAC, signature or secret.
    pub(crate) output: &'static [u8],
    /// Of AEADs.
    pub(crate) tag: &'static [u8],
}

impl KnownAnswer {
    /// The session that shows `operation`.
    fn params(&self, operation: Operation) -> SessionParams {
        let with = |key| SessionParams::new(self.algorithm, key);
        match operation {
            Operation::Sign => with(self.key).direction(Direction::Encrypt),
            Operation::Verify => with(self.second_key).direction(Direction::Decrypt),
            _ => with(self.key).mac_key(self.second_key),
        }
    }

    /// What tells whether a signature is good that need not be the known one.
    fn verifier(&self, device: &dyn Device, operation: Operation) -> Result<Option<Arc<dyn DeviceSession>>, Refusal> {
        let needed = operation == Operation::Sign && self.algorithm.info().randomized;
        needed.then(|| device.open(&self.params(Operation::Verify))).transpose()
    }
}

/// Why a device has not shown that it computes what it should.
pub(crate) enum Failure {
    /// It does not: an answer was wrong, or something that it offers is not there.
    Wrong(String),
    /// It failed. Another time it may show it.
    Fault(String),
}

impl From<Unsupported> for Failure {
    fn from(why: Unsupported) -> Self {
        Failure::Wrong(why.to_string())
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Declined(why) => Failure::Wrong(why.to_owned()),
            fault => Failure::Fault(fault.to_string()),
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Unsupported(why) => why.into(),
            Refusal::Fault(fault) => fault.into(),
        }
    }
}

/// How the device gives queues.
pub(crate) type Attach<'a> = &'a dyn Fn() -> Result<Box<dyn DeviceQueue>, Fault>;

/// Runs everything that `capability` offers against the known answers. A batch of them may take up to `patience`; returns what
/// the fastest took, in nanoseconds. The error says what went wrong.
pub(crate) fn known_answer_test(
    device: &dyn Device,
    attach: Attach<'_>,
    capability: &Capability,
    clock: &dyn Clock,
    patience: u64,
) -> Result<u64, Failure> {
    let algorithm = capability.algorithm;
    let answers: Vec<&KnownAnswer> = KNOWN_ANSWERS.iter().filter(|answer| answer.algorithm == algorithm).collect();
    if answers.is_empty() {
        return Err(Failure::Wrong(format!("{algorithm} has no known answers")));
    }
    guarded(|| every_way((device, attach), capability, (clock, patience), &answers))
}

fn every_way(
    (device, attach): (&dyn Device, Attach<'_>),
    capability: &Capability,
    (clock, patience): (&dyn Clock, u64),
    answers: &[&KnownAnswer],
) -> Result<u64, Failure> {
    let mut fastest = u64::MAX;
    for operation in capability.operations {
        for answer in answers {
            let session = device.open(&answer.params(*operation))?;
            let verifier = answer.verifier(device, *operation)?;
            if capability.direct {
                for in_place in [false, true] {
                    let mut trial = Trial::new(answer, *operation, in_place);
                    if in_place <= capability.in_place {
                        let result = session.run(trial.operands());
                        trial.verify(verifier.as_deref())?;
                        trial.judge(result, "direct")?;
                    }
                }
                if matches!(operation, Operation::Open | Operation::Verify) {
                    forgery(&*session, answer, capability)?;
                }
            }
            if capability.streaming {
                stream(&*session, answer, *operation)?;
            }
            // Full lanes twice, and then a few.
            let count = 2 * capability.lanes + 3;
            let in_place = capability.in_place;
            let way = Batches { attach, session: &session, verifier, clock, patience, count, in_place };
            fastest = fastest.min(way.run(answers, answer, *operation)?);
        }
    }
    Ok(fastest)
}

/// A device that opens what was not sealed is no device for anybody.
fn forgery(session: &dyn DeviceSession, answer: &KnownAnswer, capability: &Capability) -> Result<(), Failure> {
    let operation = if answer.algorithm.kind() == Kind::Aead { Operation::Open } else { Operation::Verify };
    let mut trial = Trial::new(answer, operation, capability.in_place);
    if let Some(last) = trial.tag.last_mut() {
        *last ^= 1;
    }
    let result = session.run(trial.operands());
    let kept = answer.input.is_empty() || trial.data != answer.input;
    match result? {
        Outcome::BadTag if kept => Ok(()),
        Outcome::BadTag => Err(Failure::Wrong("plaintext left with a bad tag".to_owned())),
        _ => Err(Failure::Wrong("a bad tag was taken for a good one".to_owned())),
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
            Operation::Digest | Operation::Mac | Operation::Sign | Operation::Derive => {
                (vec![0; answer.output.len()], Vec::new())
            }
            Operation::Verify => (Vec::new(), answer.output.to_vec()),
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
            Operation::Sign => Operands::Sign { input, output: to },
            Operation::Verify => Operands::Verify { input, signature: tag },
            Operation::Derive => Operands::Derive { input, output: to },
        }
    }

    /// A signature that the device itself verifies is as good as the known one: that it verifies rightly is shown elsewhere.
    fn verify(&mut self, verifier: Option<&dyn DeviceSession>) -> Result<(), Failure> {
        let Some(verifier) = verifier else { return Ok(()) };
        if verifier.run(Operands::Verify { input: self.answer.input, signature: &self.data })? == Outcome::Done {
            self.data.copy_from_slice(self.answer.output);
        }
        Ok(())
    }

    fn judge(&self, result: Result<Outcome, Fault>, way: &str) -> Result<(), Failure> {
        let (expected, tag) = match self.operation {
            Operation::Decrypt | Operation::Open => (self.answer.input, self.answer.tag),
            Operation::Verify => (&[][..], self.answer.output),
            _ => (self.answer.output, self.answer.tag),
        };
        let failure = match result {
            Ok(Outcome::Done) if self.data == expected && self.tag == tag => return Ok(()),
            Ok(Outcome::Done) => Failure::Wrong("a wrong result".to_owned()),
            Ok(outcome) => Failure::Wrong(outcome.to_string()),
            Err(fault) => fault.into(),
        };
        let what = |what| format!("{} of {} bytes, {way}: {what}", self.operation, self.answer.input.len());
        Err(match failure {
            Failure::Wrong(why) => Failure::Wrong(what(why)),
            Failure::Fault(why) => Failure::Fault(what(why)),
        })
    }
}

/// How long a batch of known answers may take at first, in nanoseconds.
pub(crate) const PATIENCE: u64 = 500_000_000;

/// How long it may take when the device is to show again what it has shown: whoever has a request waits meanwhile. The first
/// time took `before`. A device gets eight times that; at least a millisecond, because the machine does other things, too, and
/// at most 20, or twice what it needs.
pub(crate) fn patience_again(before: u64) -> u64 {
    let needs = before.min(PATIENCE / 2);
    (8 * needs).clamp(1_000_000, 20_000_000).max(2 * needs)
}

/// The way through a queue.
struct Batches<'a> {
    attach: Attach<'a>,
    session: &'a Arc<dyn DeviceSession>,
    verifier: Option<Arc<dyn DeviceSession>>,
    clock: &'a dyn Clock,
    patience: u64,
    count: usize,
    in_place: bool,
}

impl Batches<'_> {
    /// The answer among as many others as it takes, all under its key; only the ones that share its key can be judged. Returns
    /// the time that it took.
    fn run(&self, answers: &[&KnownAnswer], answer: &KnownAnswer, operation: Operation) -> Result<u64, Failure> {
        let same_key = |other: &&&KnownAnswer| other.key == answer.key && other.second_key == answer.second_key;
        let answers: Vec<&KnownAnswer> = answers.iter().filter(same_key).copied().collect();
        let trial = |index| Trial::new(answers[index % answers.len()], operation, self.in_place);
        let mut trials: Vec<Trial<'_>> = (0..self.count).map(trial).collect();
        let mut requests: Vec<Request<'_>> =
            trials.iter_mut().map(|trial| Request::new(trial.operands(), None)).collect();
        let queue = (self.attach)()?;
        let start = self.clock.now();
        Line::run_to_end(queue, self.session, self.clock, self.patience, &mut requests);
        let took = self.clock.now().saturating_sub(start);
        let results: Vec<_> = requests.iter().map(|request| request.body.result()).collect();
        drop(requests);
        for (trial, result) in trials.iter_mut().zip(results) {
            trial.verify(self.verifier.as_deref())?;
            trial.judge(result, "batch")?;
        }
        Ok(took)
    }
}

/// The answer in two pieces, twice on the same stream; then a copy taken between the pieces must find a forgery.
fn aead_stream(session: &dyn DeviceSession, answer: &KnownAnswer, operation: Operation) -> Result<(), Failure> {
    let mut stream = session.aead_stream(operation)?;
    for _ in 0..2 {
        let mut trial = Trial::new(answer, operation, true);
        let (one, other) = trial.data.split_at_mut(answer.input.len() / 2);
        let mut go = || {
            stream.begin(answer.iv, answer.aad)?;
            stream.update(Buffers::InPlace(one))?;
            let mut copy = stream.duplicate();
            stream.update(Buffers::InPlace(other))?;
            if operation == Operation::Seal {
                return stream.seal(&mut trial.tag).map(|()| Outcome::Done);
            }
            let mut changed = vec![1; other.len() + 1];
            copy.update(Buffers::InPlace(&mut changed))?;
            match copy.open(&trial.tag)? {
                // Wrong, not broken.
                Outcome::Done => Err(Fault::Declined("a bad tag was taken for a good one")),
                _ => stream.open(&trial.tag),
            }
        };
        let result = go();
        trial.judge(result, "stream")?;
    }
    Ok(())
}

/// The answer in two pieces, twice on the same stream, and once more on a copy taken between the pieces.
fn stream(session: &dyn DeviceSession, answer: &KnownAnswer, operation: Operation) -> Result<(), Failure> {
    let block = answer.algorithm.info().block;
    let mut trial = Trial::new(answer, operation, true);
    let cut = answer.input.len() / 2 / block * block;
    match operation {
        Operation::Digest | Operation::Mac => {
            let mut stream = session.digest_stream()?;
            let (one, other) = answer.input.split_at(cut);
            for _ in 0..2 {
                stream.update(one)?;
                let mut copy = stream.duplicate();
                for stream in [&mut stream, &mut copy] {
                    let result = stream.update(other).and_then(|()| stream.finish(&mut trial.data));
                    trial.judge(result.map(|()| Outcome::Done), "stream")?;
                }
            }
        }
        Operation::Encrypt | Operation::Decrypt => {
            let mut stream = session.cipher_stream(operation, answer.iv)?;
            let (one, other) = trial.data.split_at_mut(cut);
            let result = stream.update(Buffers::InPlace(one)).and_then(|()| stream.update(Buffers::InPlace(other)));
            trial.judge(result.map(|()| Outcome::Done), "stream")?;
        }
        Operation::Seal | Operation::Open => aead_stream(session, answer, operation)?,
        Operation::Sign | Operation::Verify | Operation::Derive => {
            return Err(Failure::Wrong("streams of what has none".to_owned()));
        }
    }
    Ok(())
}
