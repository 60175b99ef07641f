//! The one suite that every device of Gantry must pass.
//!
//! [`run`] puts a device through it and gives back a [`Report`]; `gantry check` prints that. For tests there is
//! [`assert_conforms`]: a new driver is one more line in `tests/devices.rs` of this crate, and a declaration, which
//! `GANTRY_DECLARE=1 cargo test -p gantry-conformance` writes. The suite reaches the device through core, as programs do,
//! and knows no driver: what to compare with is another device of the same framework, named by the caller.
//!
//! ```
//! use gantry_conformance::{Options, run};
//!
//! fn problems(gantry: &gantry_core::Gantry) -> Vec<String> {
//!     let report = run(gantry, "lanes", &Options::beside("software"), &mut |progress| eprintln!("{progress:?}"));
//!     report.map_or_else(|| vec!["no such device".to_owned()], |report| report.problems())
//! }
//! ```
//!
//! | file | content |
//! |---|---|
//! | `answers.rs`, `streams.rs`, `batches.rs`, `tags.rs`, `threads.rs` | the checks, one module each |
//! | `vectors.rs`, `text.rs`, `build.rs` | vectors, their format, and how the build compresses them |
//! | `more.rs` | further vectors, Wycheproof's among them, from the crate `gantry-vectors` or from a file |
//! | `report.rs` | what was found |
//! | `declared/` | what each device is known to serve |

#![forbid(unsafe_code)]

/// Vectors: every known answer, judged.
mod answers;
/// Batches of every size, and random requests, against the reference.
mod batches;
/// One request as plain data, and what came of it.
mod case;
/// Random keys, lengths, requests.
mod generate;
/// Memory that notices who writes where nobody may.
mod guard;
/// Further vectors.
mod more;
/// What the suite found.
mod report;
/// Randomness that can be repeated.
mod rng;
/// Messages in pieces.
mod streams;
/// One device, with nobody to step in for it.
mod subject;
/// Forgeries.
mod tags;
/// The format of vectors.
mod text;
/// One session, several threads.
mod threads;
/// Known answers as data.
mod vectors;

use std::borrow::Cow;
use std::path::Path;
use std::time::{Duration, Instant};

use gantry_core::driver::Capability;
use gantry_core::{Algorithm, Error, Gantry, Operation, SessionParams};

use case::{Answer, Case, Placement, Trouble, compare};
pub use more::{Unusable, Vectors};
use report::Tally;
pub use report::{Check, Mismatch, NO_TIME, Report, Row};
use rng::Rng;
use subject::{Subject, Truth};
use vectors::Vector;

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Only these algorithms; all that the device offers when empty.
    pub algorithms: Vec<Algorithm>,
    /// The device to compare with. Where it cannot serve a request, and where there is none, batches and pieces are
    /// compared with the device's own answer to the same request by itself.
    pub reference: Option<String>,
    /// Everything that is random comes from it: the same seed repeats the same cases.
    pub seed: u64,
    /// How much of the random cross-checks.
    pub random: Random,
    /// Of the sizes of batches from 1 to 100, of the places where messages are cut, and of the rounds of threads, every so
    /// manieth: 1 for all, but for RSA, where it is 12 at least.
    pub step: usize,
    /// How long all of it should take, random cross-checks included: of each check as many cases as there is time for, and at least
    /// one (of the small sets of SLH-DSA, known answers alone). `None` is all cases, however long they take.
    pub time: Option<Duration>,
    /// Known answers besides those that the suite always has.
    pub vectors: Vectors,
}

/// How long random cross-checks go on for each algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Random {
    /// So many rounds, of one request or one batch. Round n of seed s is round 0 of seed s + n, so that one round
    /// repeats a mismatch from its seed.
    Rounds(u64),
    /// As many rounds as this time has room for, and at least one.
    Time(Duration),
}

impl Options {
    /// All of the suite, with this device to compare with.
    pub fn beside(reference: &str) -> Self {
        Self { reference: Some(reference.to_owned()), ..Self::default() }
    }

    /// All vectors and forgeries, and less of what repeats itself: for a device that core gives one request of a batch at a time,
    /// where each of them takes long.
    pub fn sampled(reference: &str) -> Self {
        Self { random: Random::Rounds(5), step: 19, ..Self::beside(reference) }
    }
}

impl Default for Options {
    fn default() -> Self {
        let (algorithms, random, vectors) = (Vec::new(), Random::Rounds(20), Vectors::default());
        Self { algorithms, reference: None, seed: 1, random, step: 1, time: None, vectors }
    }
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is about to run.
    pub algorithm: Algorithm,
    /// What is about to run.
    pub check: Check,
    /// Checks that have been run.
    pub done: usize,
    /// Checks of the whole run.
    pub total: usize,
}

/// Puts the device of this name through the suite. `progress` is told before each check of each algorithm. `None` when
/// no device, or no device to compare with, has the name.
pub fn run(gantry: &Gantry, device: &str, options: &Options, progress: &mut dyn FnMut(Progress)) -> Option<Report> {
    let subject = Subject::new(gantry, device)?;
    let reference = match &options.reference {
        Some(name) if name != device => Some(Subject::new(gantry, name)?),
        _ => None,
    };
    let wanted = |algorithm: Algorithm| options.algorithms.is_empty() || options.algorithms.contains(&algorithm);
    let offered = subject.device().capabilities().iter();
    let capabilities: Vec<Capability> = offered.filter(|capability| wanted(capability.algorithm)).cloned().collect();
    let algorithms: Vec<Algorithm> = capabilities.iter().map(|capability| capability.algorithm).collect();
    // What signs digests is shown to sign those of messages.
    let digest = |algorithm, message: &[u8]| {
        let mut digest = vec![0; Algorithm::info(algorithm).default_tag()];
        let session = reference.as_ref().unwrap_or(&subject).session(SessionParams::new(algorithm, &[])).ok()?;
        session.digest(message, &mut digest).ok().map(|()| digest)
    };
    let vectors = vectors::load(&algorithms, &digest, &options.vectors);

    let total = capabilities.len() * Check::ALL.len();
    let end = options.time.map(|time| Instant::now() + time);
    let mut rows = Vec::with_capacity(total);
    let mut order: Vec<&Capability> = capabilities.iter().collect();
    if end.is_some() {
        // What cannot be cut short comes first: the others share what it leaves, and none is late.
        order.sort_by_key(|capability| !is_slow(capability.algorithm));
    }
    for capability in order {
        let algorithm = capability.algorithm;
        let suite = Suite {
            subject: &subject,
            reference: reference.as_ref(),
            algorithm,
            capability,
            vectors: &vectors,
            seed: options.seed,
            random: options.random,
            step: if is_slow(algorithm) { options.step.max(12) } else { options.step },
        };
        for &check in Check::ALL {
            progress(Progress { algorithm, check, done: rows.len(), total });
            // What a check leaves of its part is for those after it.
            let now = Instant::now();
            let part = |end: Instant| now + end.saturating_duration_since(now) / (total - rows.len()) as u32;
            let row = suite.row(check, end.map(part));
            rows.push(row);
        }
    }
    Some(Report { device: device.to_owned(), capabilities, rows })
}

/// A signature of RSA takes as long as thousands of other requests.
pub(crate) fn is_slow(algorithm: Algorithm) -> bool {
    gantry_core::sample_key(algorithm).is_some()
}

/// Of so many requests, as many as there is time for: one of SLH-DSA takes up to the better part of a second, and fills a CPU's lanes alone.
pub(crate) fn few(algorithm: Algorithm, usual: u64) -> u64 {
    if algorithm.is_slh_dsa() { usual.min(3) } else { usual }
}

/// For the tests of drivers: panics with every problem of the device, and when what it serves, or what of the suite does
/// not apply to it, differs from the file `declaration`. `GANTRY_DECLARE=1` writes that file anew.
pub fn assert_conforms(gantry: &Gantry, device: &str, options: &Options, declaration: impl AsRef<Path>) {
    let report = run(gantry, device, options, &mut |_| ()).expect("the framework has devices of these names");
    let problems = report.problems();
    assert!(problems.is_empty(), "{} problems\n{}", problems.len(), problems.join("\n"));

    let (path, found) = (declaration.as_ref(), report.declaration());
    if std::env::var_os("GANTRY_DECLARE").is_some() {
        std::fs::write(path, &found).expect("the declaration can be written");
    }
    let declared = std::fs::read_to_string(path).unwrap_or_default();
    let lost: Vec<&str> = declared.lines().filter(|line| !found.lines().any(|other| other == *line)).collect();
    let new: Vec<&str> = found.lines().filter(|line| !declared.lines().any(|other| other == *line)).collect();
    assert!(
        declared == found,
        "{device} differs from {}: it is declared\n{}\nand found\n{}\n(GANTRY_DECLARE=1 declares what is found)",
        path.display(),
        lost.join("\n"),
        new.join("\n"),
    );
}

/// Everything that a check of one algorithm needs.
pub(crate) struct Suite<'a> {
    pub(crate) subject: &'a Subject,
    reference: Option<&'a Subject>,
    pub(crate) algorithm: Algorithm,
    pub(crate) capability: &'a Capability,
    pub(crate) vectors: &'a [Cow<'a, Vector>],
    pub(crate) seed: u64,
    pub(crate) random: Random,
    pub(crate) step: usize,
}

impl Suite<'_> {
    fn row(&self, check: Check, until: Option<Instant>) -> Row {
        let mut tally = Tally::new(self.algorithm, check, self.seed, until);
        // One case of each check of all small sets of SLH-DSA would take half a minute.
        let is_small = self.algorithm.is_slh_dsa() && self.algorithm.name().ends_with('s');
        if until.is_some() && is_small && !matches!(check, Check::Start | Check::Vectors) {
            tally.skip(NO_TIME);
        } else if self.subject.is_ready() {
            match check {
                Check::Start => {
                    let admitted = self.subject.device().admit(self.algorithm);
                    tally.judge(admitted.map_err(|why| Trouble::Wrong(why.to_string())), || "not admitted".to_owned());
                }
                Check::Vectors => answers::check(self, &mut tally),
                Check::Streams => streams::check(self, &mut tally),
                Check::Batches => batches::check(self, &mut tally),
                Check::Tags => tags::check(self, &mut tally),
                Check::Threads => threads::check(self, &mut tally),
                Check::Random => batches::random(self, &mut tally),
            }
        } else {
            // A fault was reported where it happened; nothing more can be learned from this device.
            let gone = Trouble::Wrong(format!("{:?}", self.subject.device().state()));
            tally.judge(Err(gone), || "the device serves nobody".to_owned());
        }
        tally.finish()
    }

    pub(crate) fn truth(&self, params: &SessionParams) -> Result<Truth, Error> {
        Truth::new(self.reference, self.subject, params)
    }

    /// Whether `got` is what must come. A signature that is another one each time is what the truth verifies; what was compressed, made
    /// a packet, or is another ciphertext each time, is what the truth makes the data of.
    pub(crate) fn compare(
        &self,
        params: &SessionParams,
        case: &Case,
        got: Result<Answer, Trouble>,
        must: &Answer,
    ) -> Result<(), Trouble> {
        match got {
            Ok(Answer::Done { output, .. })
                if case.operation == Operation::Sign && self.algorithm.info().randomized =>
            {
                let case = Case { operation: Operation::Verify, tag: output, ..case.clone() };
                compare(self.truth(params)?.answer(&case), &Answer::Done { output: Vec::new(), tag: Vec::new() })
            }
            Ok(Answer::Done { output, .. })
                if case.operation == Operation::Encipher && self.algorithm.info().randomized =>
            {
                let back = Case { operation: Operation::Decipher, input: output, ..case.clone() };
                compare(
                    self.truth(params)?.answer(&back),
                    &Answer::Done { output: case.input.clone(), tag: Vec::new() },
                )
            }
            Ok(Answer::Done { output, .. }) if case.operation == Operation::Protect => {
                let (start, exact) = (self.algorithm.info().payload_start(), self.algorithm.info().iv.max == 8);
                if exact {
                    compare(Ok(Answer::Done { output: output.clone(), tag: Vec::new() }), must)?;
                }
                let back = Case::unprotect(&case.iv, output);
                let output = [&case.input[start..start + case.room], &case.aad].concat();
                compare(self.truth(params)?.answer(&back), &Answer::Done { output, tag: Vec::new() })
            }
            Ok(Answer::Done { output, .. }) if case.operation == Operation::Compress => {
                let back = Case::decompress(output, case.input.len());
                let must = Answer::Done { output: case.input.clone(), tag: Vec::new() };
                compare(self.truth(params)?.answer(&back), &must)
            }
            got => compare(got, must),
        }
    }

    pub(crate) fn placement(&self, rng: &mut Rng) -> Placement {
        let placement = generate::placement(rng);
        Placement { in_place: placement.in_place && self.capability.in_place, ..placement }
    }
}
