//! Known-answer tests, which a device must pass before it serves an algorithm.
//!
//! The tests are short, because every process pays for them. They try each operation on every path that a capability offers: direct calls,
//! forgeries, streams, and a batch. The messages of the batch have mixed lengths, and fill the lanes more than once.

use std::sync::Arc;

use super::answer::KnownAnswer;
use super::run::{Failure, Run, check_forgery, check_stream};
use super::{compressed, packets, post_quantum, slh_dsa, vectors};
use crate::algorithm::{Algorithm, Fault, Operation, Outcome};
use crate::driver::{Capability, Device, DeviceSession, call_guarded};

/// One run in a batch, and its result.
pub(crate) type RunResult = (Run, Result<Outcome, Fault>);

/// Sends batches to the device, on a queue pair without other requests, and waits for them while the caller has time.
pub(crate) trait TestBench {
    /// A batch that has been sent, and may stay in the device when the caller has no more time.
    type Sent;

    /// Sends these runs as one batch. Returns `None` while the device has no queue pair for it.
    fn send(&self, session: &Arc<dyn DeviceSession>, runs: Vec<Run>) -> Result<Option<Self::Sent>, Fault>;

    /// Waits for a batch while there is time. Returns whether all of its requests are back.
    fn wait(&self, sent: &mut Self::Sent) -> Result<bool, Fault>;

    /// Returns the result of each run of a completed batch, in order, and the time that the batch took, in nanoseconds.
    fn results(&self, sent: Self::Sent) -> (Vec<RunResult>, u64);

    /// Returns whether the caller has no more time.
    fn is_over(&self) -> bool;
}

/// Maximum number of requests in a batch, regardless of a device's lanes, because a caller waits for the test. (For SLH-DSA the maximum is
/// one request: its hashes fill the lanes.)
const MAX_BATCH: usize = 128;

/// The paths that a capability may offer, in the order of the test.
#[derive(Clone, Copy)]
enum TestPath {
    Direct { in_place: bool },
    Forgery,
    Stream,
    Batch,
}

const PATHS: [TestPath; 5] = [
    TestPath::Direct { in_place: false },
    TestPath::Direct { in_place: true },
    TestPath::Forgery,
    TestPath::Stream,
    TestPath::Batch,
];

/// The progress of a test.
pub(crate) enum Progress {
    /// Passed. The value is the time of the fastest batch, in nanoseconds.
    Passed(u64),
    /// There was no time for the whole test.
    Unfinished,
    /// The device has no queue pair for the test at the moment.
    NoPair,
}

/// The known-answer test of one algorithm of a device, in steps: each operation with each known answer on each path is a step.
pub(crate) struct Test<S> {
    capability: Capability,
    answers: Vec<&'static KnownAnswer>,
    /// The step that comes next.
    step: usize,
    /// The sessions of the current known answer.
    sessions: Option<Sessions>,
    /// The batch of this step.
    sent: Option<S>,
    /// The time of the fastest batch, in nanoseconds.
    fastest_ns: u64,
}

#[derive(Clone)]
struct Sessions {
    session: Arc<dyn DeviceSession>,
    /// Checks results that may differ from the known one.
    verifier: Option<Arc<dyn DeviceSession>>,
}

impl<S> Test<S> {
    /// Makes a test of all that a capability offers.
    pub(crate) fn new(capability: &Capability) -> Self {
        let tables = [
            vectors::KNOWN_ANSWERS,
            post_quantum::KNOWN_ANSWERS,
            slh_dsa::KNOWN_ANSWERS,
            compressed::KNOWN_ANSWERS,
            packets::KNOWN_ANSWERS,
        ];
        let (tested, algorithm) = (representative(capability.algorithm), capability.algorithm);
        let all_answers = tables.into_iter().flatten().chain(algorithm.answers());
        let answers = all_answers.filter(|answer| answer.algorithm == tested).collect();
        Self { capability: capability.clone(), answers, step: 0, sessions: None, sent: None, fastest_ns: u64::MAX }
    }

    /// Returns the batch that was sent and has not come back yet.
    pub(crate) fn sent(&mut self) -> Option<&mut S> {
        self.sent.as_mut()
    }

    /// Continues until all is tested, or the bench has no more time. Runs at least one step.
    pub(crate) fn run(&mut self, device: &dyn Device, bench: &impl TestBench<Sent = S>) -> Result<Progress, Failure> {
        if self.answers.is_empty() {
            return Err(Failure::Wrong(format!("{} has no known answers", self.capability.algorithm)));
        }
        let steps = self.capability.operations.len() * self.answers.len() * PATHS.len();
        while self.step < steps {
            let (pair, path) = (self.step / PATHS.len(), PATHS[self.step % PATHS.len()]);
            let operation = self.capability.operations[pair / self.answers.len()];
            let answer = self.answers[pair % self.answers.len()];
            if let Some(pause) = call_guarded(|| self.run_step(device, bench, operation, answer, path))? {
                return Ok(pause);
            }
            self.step += 1;
            if matches!(path, TestPath::Batch) {
                self.sessions = None;
            }
            if self.step < steps && bench.is_over() {
                return Ok(Progress::Unfinished);
            }
        }
        Ok(Progress::Passed(self.fastest_ns))
    }

    /// Runs one known answer of one operation on one path, if the capability offers it. Returns the reason if the step is not complete.
    fn run_step(
        &mut self,
        device: &dyn Device,
        bench: &impl TestBench<Sent = S>,
        operation: Operation,
        answer: &'static KnownAnswer,
        path: TestPath,
    ) -> Result<Option<Progress>, Failure> {
        let sessions = if let Some(sessions) = &self.sessions {
            sessions.clone()
        } else {
            let session = device.open(&answer.params(operation))?;
            let verifier = answer.verifier(device, operation)?;
            self.sessions.insert(Sessions { session, verifier }).clone()
        };
        let (capability, session) = (&self.capability, &*sessions.session);
        match path {
            TestPath::Direct { in_place } if capability.synchronous && in_place <= capability.in_place => {
                let mut run = Run::new(answer, operation, in_place);
                let result = session.run(run.operands());
                run.verify(sessions.verifier.as_deref())?;
                run.check_result(result, "direct")?;
            }
            TestPath::Forgery if capability.synchronous && operation.info().detects_forgeries => {
                check_forgery(session, answer, operation, capability.in_place)?;
            }
            TestPath::Stream if capability.streaming => check_stream(session, answer, operation)?,
            TestPath::Batch => return self.run_batch(bench, &sessions, operation, answer),
            TestPath::Direct { .. } | TestPath::Forgery | TestPath::Stream => {}
        }
        Ok(None)
    }

    /// Runs the answer in a batch with other answers under its key.
    fn run_batch(
        &mut self,
        bench: &impl TestBench<Sent = S>,
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
            return Ok(Some(Progress::Unfinished));
        }
        let (results, took) = bench.results(sent);
        for (mut run, result) in results {
            run.verify(sessions.verifier.as_deref())?;
            run.check_result(result, "batch")?;
        }
        self.fastest_ns = self.fastest_ns.min(took);
        Ok(None)
    }

    /// Makes a batch that fills the lanes twice and has three more requests, up to the maximum. All answers belong to the same session.
    fn batch(&self, operation: Operation, answer: &KnownAnswer) -> Vec<Run> {
        let same_length =
            |other: &KnownAnswer| operation != Operation::Digest || other.output.len() == answer.output.len();
        let same_session = |other: &&&KnownAnswer| {
            other.key == answer.key && other.second_key == answer.second_key && same_length(other)
        };
        let answers: Vec<&KnownAnswer> = self.answers.iter().filter(same_session).copied().collect();
        let most = if answer.algorithm.is_slh_dsa() { 1 } else { MAX_BATCH };
        let count = (2 * self.capability.lanes).saturating_add(3).min(most);
        let verifies = operation.info().detects_forgeries && operation != Operation::Decompress;
        // One forgery among many messages: the device must not confuse it with its neighbours.
        let run = |index: usize| match answers[index % answers.len()] {
            answer if verifies && index == 1 => Run::forged(answer, operation, self.capability.in_place),
            answer => Run::new(answer, operation, self.capability.in_place),
        };
        (0..count).map(run).collect()
    }
}

/// Returns the algorithm whose known answers test `algorithm`: the algorithm itself, unless it is of SLH-DSA. The parameter sets of SLH-DSA
/// differ only in numbers and in three choices of hash functions, and a signature takes up to nearly a second and 50 kB. So a device is
/// tested with the fastest set that has the same hash functions. It must offer this set, too.
fn representative(algorithm: Algorithm) -> Algorithm {
    use Algorithm as A;
    match algorithm {
        A::SlhDsaSha2_128s => A::SlhDsaSha2_128f,
        // These sets have SHA-512 in the trees.
        A::SlhDsaSha2_192s | A::SlhDsaSha2_256s | A::SlhDsaSha2_256f => A::SlhDsaSha2_192f,
        A::SlhDsaShake128s | A::SlhDsaShake192s | A::SlhDsaShake192f | A::SlhDsaShake256s | A::SlhDsaShake256f => {
            A::SlhDsaShake128f
        }
        other => other,
    }
}

/// The time limit of a batch of known answers before the device has passed a test, in nanoseconds.
pub(crate) const ANSWER_TIMEOUT_NS: u64 = 500_000_000;

/// Returns the time limit of a batch when a test is repeated, in nanoseconds. It is 8 times `before_ns`, the time of the fastest batch in
/// the test that the device passed, because the machine does other work too. A caller waits, so the limit is kept between 1 ms and 20 ms.
/// But it is at least twice `before_ns`, up to [`ANSWER_TIMEOUT_NS`].
pub(crate) fn retry_timeout_ns(before_ns: u64) -> u64 {
    let expected = before_ns.min(ANSWER_TIMEOUT_NS / 2);
    (8 * expected).clamp(1_000_000, 20_000_000).max(2 * expected)
}
