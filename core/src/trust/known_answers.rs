//! Known-answer tests: what a device shows before it serves an algorithm.
//!
//! They are short, because every process pays for them, but they take every way in that a capability offers: direct, a
//! batch that fills the lanes more than once with messages of mixed lengths, both operations of a kind, and streams.

use std::sync::Arc;

use super::answer::KnownAnswer;
use super::vectors::KNOWN_ANSWERS;
use crate::algorithm::{Fault, Kind, Operation, Outcome, Refusal, Unsupported};
use crate::driver::{Buffers, Capability, Device, DeviceSession, Operands, guarded};

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

/// How a batch reaches the device: through a queue pair with nobody else around.
pub(crate) trait Bench {
    /// Runs these as one batch. Returns how each ended, in order, and the nanoseconds that all of them took. One that has no
    /// answer after `patience` nanoseconds ends with a fault.
    fn run(
        &self,
        session: &Arc<dyn DeviceSession>,
        batch: Vec<Operands<'_>>,
        patience: u64,
    ) -> Result<(Vec<Result<Outcome, Fault>>, u64), Fault>;
}

/// Requests in a batch at most, however many lanes a device has: somebody waits for the test.
const LARGEST_BATCH: usize = 128;

/// The known-answer test of one algorithm of a device, in steps: each operation with each known answer is one.
pub(crate) struct Test {
    capability: Capability,
    answers: Vec<&'static KnownAnswer>,
    /// The step that comes next.
    step: usize,
    /// What the fastest batch took, in nanoseconds.
    fastest: u64,
}

impl Test {
    /// Of everything that a capability offers.
    pub(crate) fn new(capability: &Capability) -> Self {
        let answers = KNOWN_ANSWERS.iter().filter(|answer| answer.algorithm == capability.algorithm).collect();
        Self { capability: capability.clone(), answers, step: 0, fastest: u64::MAX }
    }

    /// Runs steps until all are done, or until `stop` says after one that the time is over. A batch may take up to `patience`
    /// nanoseconds. `Some` when all are done: the nanoseconds of the fastest batch.
    pub(crate) fn run(
        &mut self,
        device: &dyn Device,
        bench: &dyn Bench,
        patience: u64,
        stop: impl Fn() -> bool,
    ) -> Result<Option<u64>, Failure> {
        if self.answers.is_empty() {
            return Err(Failure::Wrong(format!("{} has no known answers", self.capability.algorithm)));
        }
        let steps = self.capability.operations.len() * self.answers.len();
        while self.step < steps {
            let operation = self.capability.operations[self.step / self.answers.len()];
            let answer = self.answers[self.step % self.answers.len()];
            let took = guarded(|| self.every_way(device, bench, patience, operation, answer))?;
            self.fastest = self.fastest.min(took);
            self.step += 1;
            if self.step < steps && stop() {
                return Ok(None);
            }
        }
        Ok(Some(self.fastest))
    }

    /// One known answer of one operation, in every way that the capability offers. Returns the nanoseconds of the batch.
    fn every_way(
        &self,
        device: &dyn Device,
        bench: &dyn Bench,
        patience: u64,
        operation: Operation,
        answer: &KnownAnswer,
    ) -> Result<u64, Failure> {
        let capability = &self.capability;
        let session = device.open(&answer.params(operation))?;
        let verifier = answer.verifier(device, operation)?;
        if capability.direct {
            for in_place in [false, true] {
                let mut run = Run::new(answer, operation, in_place);
                if in_place <= capability.in_place {
                    let result = session.run(run.operands());
                    run.verify(verifier.as_deref())?;
                    run.judge(result, "direct")?;
                }
            }
            if matches!(operation, Operation::Open | Operation::Verify) {
                forgery(&*session, answer, capability)?;
            }
        }
        if capability.streaming {
            stream(&*session, answer, operation)?;
        }
        // The answer among as many others as it takes, all under its key; only the ones that share its key can be judged.
        let same_key = |other: &&&KnownAnswer| other.key == answer.key && other.second_key == answer.second_key;
        let answers: Vec<&KnownAnswer> = self.answers.iter().filter(same_key).copied().collect();
        // Full lanes twice, and then a few.
        let count = (2 * capability.lanes).saturating_add(3).min(LARGEST_BATCH);
        let run = |index: usize| Run::new(answers[index % answers.len()], operation, capability.in_place);
        let mut runs: Vec<Run<'_>> = (0..count).map(run).collect();
        let (results, took) = bench.run(&session, runs.iter_mut().map(Run::operands).collect(), patience)?;
        for (run, result) in runs.iter_mut().zip(results) {
            run.verify(verifier.as_deref())?;
            run.judge(result, "batch")?;
        }
        Ok(took)
    }
}

/// How long a batch of known answers may take at first, in nanoseconds.
pub(crate) const PATIENCE: u64 = 500_000_000;

/// How long it may take when the device is to show again what it has shown: a caller waits meanwhile. The first time took
/// `before`. A device gets eight times that; at least a millisecond, because the machine does other things, too, and at most
/// 20, or twice what it needs.
pub(crate) fn patience_again(before: u64) -> u64 {
    let needs = before.min(PATIENCE / 2);
    (8 * needs).clamp(1_000_000, 20_000_000).max(2 * needs)
}

/// Rejects a device that accepts a forged tag.
fn forgery(session: &dyn DeviceSession, answer: &KnownAnswer, capability: &Capability) -> Result<(), Failure> {
    let operation = if answer.algorithm.kind() == Kind::Aead { Operation::Open } else { Operation::Verify };
    let mut run = Run::new(answer, operation, capability.in_place);
    if let Some(last) = run.tag.last_mut() {
        *last ^= 1;
    }
    let result = session.run(run.operands());
    let kept = answer.input.is_empty() || run.data != answer.input;
    match result? {
        Outcome::BadTag if kept => Ok(()),
        Outcome::BadTag => Err(Failure::Wrong("plaintext left with a bad tag".to_owned())),
        _ => Err(Failure::Wrong("a bad tag was taken for a good one".to_owned())),
    }
}

/// One run of a known answer, with the buffers that it needs.
struct Run<'a> {
    answer: &'a KnownAnswer,
    operation: Operation,
    input: Vec<u8>,
    /// In place, it holds the input first.
    data: Vec<u8>,
    tag: Vec<u8>,
    in_place: bool,
}

impl<'a> Run<'a> {
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

/// The answer in two pieces, twice on the same stream; then a copy taken between the pieces must find a forgery.
fn aead_stream(session: &dyn DeviceSession, answer: &KnownAnswer, operation: Operation) -> Result<(), Failure> {
    let mut stream = session.aead_stream(operation)?;
    for _ in 0..2 {
        let mut run = Run::new(answer, operation, true);
        let (one, other) = run.data.split_at_mut(answer.input.len() / 2);
        let mut go = || {
            stream.begin(answer.iv, answer.aad)?;
            stream.update(Buffers::InPlace(one))?;
            let mut copy = stream.duplicate();
            stream.update(Buffers::InPlace(other))?;
            if operation == Operation::Seal {
                return stream.seal(&mut run.tag).map(|()| Outcome::Done);
            }
            let mut changed = vec![1; other.len() + 1];
            copy.update(Buffers::InPlace(&mut changed))?;
            match copy.open(&run.tag)? {
                // Wrong, not broken.
                Outcome::Done => Err(Fault::Declined("a bad tag was taken for a good one")),
                _ => stream.open(&run.tag),
            }
        };
        let result = go();
        run.judge(result, "stream")?;
    }
    Ok(())
}

/// The answer in two pieces, twice on the same stream, and once more on a copy taken between the pieces.
fn stream(session: &dyn DeviceSession, answer: &KnownAnswer, operation: Operation) -> Result<(), Failure> {
    let block = answer.algorithm.info().block;
    let mut run = Run::new(answer, operation, true);
    let cut = answer.input.len() / 2 / block * block;
    match operation {
        Operation::Digest | Operation::Mac => {
            let mut stream = session.digest_stream()?;
            let (one, other) = answer.input.split_at(cut);
            for _ in 0..2 {
                stream.update(one)?;
                let mut copy = stream.duplicate();
                for stream in [&mut stream, &mut copy] {
                    let result = stream.update(other).and_then(|()| stream.finish(&mut run.data));
                    run.judge(result.map(|()| Outcome::Done), "stream")?;
                }
            }
        }
        Operation::Encrypt | Operation::Decrypt => {
            let mut stream = session.cipher_stream(operation, answer.iv)?;
            let (one, other) = run.data.split_at_mut(cut);
            let result = stream.update(Buffers::InPlace(one)).and_then(|()| stream.update(Buffers::InPlace(other)));
            run.judge(result.map(|()| Outcome::Done), "stream")?;
        }
        Operation::Seal | Operation::Open => aead_stream(session, answer, operation)?,
        Operation::Sign | Operation::Verify | Operation::Derive => {
            return Err(Failure::Wrong("streams of what has none".to_owned()));
        }
    }
    Ok(())
}
