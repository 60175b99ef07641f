//! Known-answer tests: what a device shows before it serves an algorithm.
//!
//! They are short, because every process pays for them, but they take every way in that a capability offers: direct, a
//! batch that fills the lanes more than once with messages of mixed lengths, both operations of a kind, and streams.

use std::sync::Arc;

use super::answer::KnownAnswer;
use super::run::{Failure, Run, forgery, stream};
use super::{compressed, packets, post_quantum, slh_dsa, vectors};
use crate::algorithm::{Algorithm, Fault, Operation, Outcome};
use crate::driver::{Capability, Device, DeviceSession, guarded};

/// A run of a batch, and how it ended.
pub(crate) type Ended = (Run, Result<Outcome, Fault>);

/// How a batch reaches the device: through a queue pair with nobody else around, and for as long as the caller has time.
pub(crate) trait Bench {
    /// A batch that has been sent, and may stay in the device when the caller has no more time.
    type Sent;

    /// Sends these as one batch; `None` while the device has no queue pair for it.
    fn send(&self, session: &Arc<dyn DeviceSession>, runs: Vec<Run>) -> Result<Option<Self::Sent>, Fault>;

    /// Waits for a batch while there is time. Returns whether all of it is back.
    fn wait(&self, sent: &mut Self::Sent) -> Result<bool, Fault>;

    /// How each of a batch that is back ended, in order, and the nanoseconds that all of them took.
    fn results(&self, sent: Self::Sent) -> (Vec<Ended>, u64);

    /// Whether the time is over.
    fn is_over(&self) -> bool;
}

/// Requests in a batch at most, however many lanes a device has: somebody waits for the test. (Of SLH-DSA, one, which fills the lanes.)
const LARGEST_BATCH: usize = 128;

/// The ways in that a capability may offer, in the order of the test.
#[derive(Clone, Copy)]
enum Way {
    Direct { in_place: bool },
    Forgery,
    Stream,
    Batch,
}

const WAYS: [Way; 5] =
    [Way::Direct { in_place: false }, Way::Direct { in_place: true }, Way::Forgery, Way::Stream, Way::Batch];

/// How far a test is.
pub(crate) enum Progress {
    /// Passed; the fastest batch took so many nanoseconds.
    Passed(u64),
    /// There was no time for all of it.
    UnderWay,
    /// The device has no queue pair for it now.
    NoPair,
}

/// The known-answer test of one algorithm of a device, in steps: each operation with each known answer in each way is one.
pub(crate) struct Test<S> {
    capability: Capability,
    answers: Vec<&'static KnownAnswer>,
    /// The step that comes next.
    step: usize,
    /// Of the known answer at hand.
    sessions: Option<Sessions>,
    /// The batch of this step.
    sent: Option<S>,
    /// What the fastest batch took, in nanoseconds.
    fastest: u64,
}

#[derive(Clone)]
struct Sessions {
    session: Arc<dyn DeviceSession>,
    /// Tells whether a result is good that need not be the known one.
    verifier: Option<Arc<dyn DeviceSession>>,
}

impl<S> Test<S> {
    /// Of everything that a capability offers.
    pub(crate) fn new(capability: &Capability) -> Self {
        let tables = [
            vectors::KNOWN_ANSWERS,
            post_quantum::KNOWN_ANSWERS,
            slh_dsa::KNOWN_ANSWERS,
            compressed::KNOWN_ANSWERS,
            packets::KNOWN_ANSWERS,
        ];
        let (shown_by, algorithm) = (shown_by(capability.algorithm), capability.algorithm);
        let known = tables.into_iter().flatten().chain(algorithm.answers());
        let answers = known.filter(|answer| answer.algorithm == shown_by).collect();
        Self { capability: capability.clone(), answers, step: 0, sessions: None, sent: None, fastest: u64::MAX }
    }

    /// The batch that was sent and has not come back yet.
    pub(crate) fn sent(&mut self) -> Option<&mut S> {
        self.sent.as_mut()
    }

    /// Goes on until all is shown, or the bench has no more time; for one step at least.
    pub(crate) fn run(&mut self, device: &dyn Device, bench: &impl Bench<Sent = S>) -> Result<Progress, Failure> {
        if self.answers.is_empty() {
            return Err(Failure::Wrong(format!("{} has no known answers", self.capability.algorithm)));
        }
        let steps = self.capability.operations.len() * self.answers.len() * WAYS.len();
        while self.step < steps {
            let (which, way) = (self.step / WAYS.len(), WAYS[self.step % WAYS.len()]);
            let operation = self.capability.operations[which / self.answers.len()];
            let answer = self.answers[which % self.answers.len()];
            if let Some(pause) = guarded(|| self.show(device, bench, operation, answer, way))? {
                return Ok(pause);
            }
            self.step += 1;
            if matches!(way, Way::Batch) {
                self.sessions = None;
            }
            if self.step < steps && bench.is_over() {
                return Ok(Progress::UnderWay);
            }
        }
        Ok(Progress::Passed(self.fastest))
    }

    /// One known answer of one operation in one way, if the capability offers it. Returns why the step is not over, if it is not.
    fn show(
        &mut self,
        device: &dyn Device,
        bench: &impl Bench<Sent = S>,
        operation: Operation,
        answer: &'static KnownAnswer,
        way: Way,
    ) -> Result<Option<Progress>, Failure> {
        let sessions = if let Some(sessions) = &self.sessions {
            sessions.clone()
        } else {
            let session = device.open(&answer.params(operation))?;
            let verifier = answer.verifier(device, operation)?;
            self.sessions.insert(Sessions { session, verifier }).clone()
        };
        let (capability, session) = (&self.capability, &*sessions.session);
        match way {
            Way::Direct { in_place } if capability.direct && in_place <= capability.in_place => {
                let mut run = Run::new(answer, operation, in_place);
                let result = session.run(run.operands());
                run.verify(sessions.verifier.as_deref())?;
                run.judge(result, "direct")?;
            }
            Way::Forgery if capability.direct && operation.info().finds_forgeries => {
                forgery(session, answer, operation, capability.in_place)?;
            }
            Way::Stream if capability.streaming => stream(session, answer, operation)?,
            Way::Batch => return self.show_batch(bench, &sessions, operation, answer),
            Way::Direct { .. } | Way::Forgery | Way::Stream => {}
        }
        Ok(None)
    }

    /// The answer among as many others as it takes, all under its key.
    fn show_batch(
        &mut self,
        bench: &impl Bench<Sent = S>,
        sessions: &Sessions,
        operation: Operation,
        answer: &KnownAnswer,
    ) -> Result<Option<Progress>, Failure> {
        let mut sent = match self.sent.take() {
            Some(sent) => sent,
            None => match bench.send(&sessions.session, self.batch(operation, answer))? {
                Some(sent) => sent,
                None => return Ok(Some(Progress::NoPair)),
            },
        };
        if !bench.wait(&mut sent)? {
            self.sent = Some(sent);
            return Ok(Some(Progress::UnderWay));
        }
        let (results, took) = bench.results(sent);
        for (mut run, result) in results {
            run.verify(sessions.verifier.as_deref())?;
            run.judge(result, "batch")?;
        }
        self.fastest = self.fastest.min(took);
        Ok(None)
    }

    /// Fills the lanes twice, and then some. Only answers of the same session can be judged.
    fn batch(&self, operation: Operation, answer: &KnownAnswer) -> Vec<Run> {
        let same_length =
            |other: &KnownAnswer| operation != Operation::Digest || other.output.len() == answer.output.len();
        let same_session = |other: &&&KnownAnswer| {
            other.key == answer.key && other.second_key == answer.second_key && same_length(other)
        };
        let answers: Vec<&KnownAnswer> = self.answers.iter().filter(same_session).copied().collect();
        let most = if answer.algorithm.is_slh_dsa() { 1 } else { LARGEST_BATCH };
        let count = (2 * self.capability.lanes).saturating_add(3).min(most);
        let verifies = operation.info().finds_forgeries && operation != Operation::Decompress;
        // One among many: the device has to tell it from its neighbours.
        let run = |index: usize| match answers[index % answers.len()] {
            answer if verifies && index == 1 => Run::forged(answer, operation, self.capability.in_place),
            answer => Run::new(answer, operation, self.capability.in_place),
        };
        (0..count).map(run).collect()
    }
}

/// The algorithm whose known answers stand for this one: its own, but for SLH-DSA. Its parameter sets are numbers in one program over three
/// choices of hash functions, and a signature takes up to the better part of a second and 50 kB. So a device shows the fastest set of
/// each choice, which it has to have.
fn shown_by(algorithm: Algorithm) -> Algorithm {
    use Algorithm as A;
    match algorithm {
        A::SlhDsaSha2_128s => A::SlhDsaSha2_128f,
        // With SHA-512 in the trees.
        A::SlhDsaSha2_192s | A::SlhDsaSha2_256s | A::SlhDsaSha2_256f => A::SlhDsaSha2_192f,
        A::SlhDsaShake128s | A::SlhDsaShake192s | A::SlhDsaShake192f | A::SlhDsaShake256s | A::SlhDsaShake256f => {
            A::SlhDsaShake128f
        }
        own => own,
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
