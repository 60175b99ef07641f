//! The suite that every device of Gantry must pass.
//!
//! [`run`] runs the suite on a device, and returns a [`Report`], which `gantry check` prints. Tests use [`assert_conforms`]: a new driver
//! is a line in `tests/devices.rs` of this crate, and a declaration, which `GANTRY_DECLARE=1 cargo test -p gantry-conformance` writes. The
//! suite reaches the device through core, as programs do, and knows no driver. The reference is another device of the same framework, which
//! the caller names.
//!
//! ```
//! use gantry_conformance::{Options, run};
//!
//! fn problems(gantry: &gantry_core::Gantry) -> Vec<String> {
//!     let report = run(gantry, "lanes", &Options::with_reference("software"), &mut |progress| eprintln!("{progress:?}"));
//!     report.map_or_else(|| vec!["no such device".to_owned()], |report| report.problems())
//! }
//! ```
//!
//! | file | content |
//! |---|---|
//! | `known_answers.rs`, `streams.rs`, `batches.rs`, `tags.rs`, `threads.rs` | the checks, one module each |
//! | `vector.rs`, `vectors.rs`, `text.rs`, `build.rs` | vectors, their format, and how the build compresses them |
//! | `packed.rs` | further vectors, Wycheproof's among them, from the crate `gantry-vectors` or from a file |
//! | `report.rs` | the results |
//! | `declared/` | the declared capabilities of each device |

#![forbid(unsafe_code)]

/// Batches of every size, and random requests, against the reference.
mod batches;
/// One request as plain data, and its answer.
mod case;
/// Random keys, lengths, requests.
mod generate;
/// Memory that detects writes outside of its buffer.
mod guard;
/// The check with vectors.
mod known_answers;
/// Further vectors.
mod packed;
/// The results of the suite.
mod report;
/// Reproducible random numbers.
mod rng;
/// Messages in pieces.
mod streams;
/// One device, without failover.
mod subject;
/// Forgeries.
mod tags;
/// The format of vectors.
mod text;
/// One session, several threads.
mod threads;
/// Known answers as data.
mod vector;
mod vectors;

use std::borrow::Cow;
use std::path::Path;
use std::time::{Duration, Instant};

use gantry_core::driver::Capability;
use gantry_core::{Algorithm, Error, Gantry, Operation, SessionParams};

use case::{Answer, Case, CaseError, Placement, compare};
pub use packed::{Vectors, VectorsError};
use report::Tally;
pub use report::{Check, CheckResult, Mismatch, Report, SKIPPED_FOR_TIME};
use rng::Rng;
use subject::{Oracle, Subject};
use vector::Vector;

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The algorithms to check; if empty, all that the device offers.
    pub algorithms: Vec<Algorithm>,
    /// The device to compare with. Without a reference, and for requests that the reference does not serve, batches and pieces are
    /// compared with the tested device's own answer to the single request.
    pub reference: Option<String>,
    /// The seed of all random cases: the same seed repeats the same cases.
    pub seed: u64,
    /// The amount of random cross-checks.
    pub random: Random,
    /// Step between the sizes of batches from 1 to 100, between the positions at which messages are cut, and between rounds of threads. A
    /// step of 1 runs all of them. For RSA the step is at least 33.
    pub step: usize,
    /// Time limit of the whole run, including random cross-checks. Each check runs as many cases as there is time for, and at least one
    /// (for the small sets of SLH-DSA, known answers alone). `None` runs all cases.
    pub time_limit: Option<Duration>,
    /// Known answers in addition to the suite's own.
    pub vectors: Vectors,
}

/// The amount of random cross-checks for each algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Random {
    /// A number of rounds, of one request or one batch each. Round n of seed s is round 0 of seed s + n, so that a run of one round with
    /// the seed of a mismatch repeats the mismatch.
    Rounds(u64),
    /// As many rounds as fit into this time, and at least one.
    Time(Duration),
}

impl Options {
    /// Returns the options for the whole suite, with this device to compare with.
    pub fn with_reference(reference: &str) -> Self {
        Self { reference: Some(reference.to_owned()), ..Self::default() }
    }

    /// Returns options for all vectors and forgeries with less repetition, for a slow device that gets one request of a batch at a time.
    pub fn sampled(reference: &str) -> Self {
        Self { random: Random::Rounds(5), step: 19, ..Self::with_reference(reference) }
    }
}

impl Default for Options {
    fn default() -> Self {
        let (algorithms, random, vectors) = (Vec::new(), Random::Rounds(20), Vectors::default());
        Self { algorithms, reference: None, seed: 1, random, step: 1, time_limit: None, vectors }
    }
}

/// The progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The next algorithm.
    pub algorithm: Algorithm,
    /// The next check.
    pub check: Check,
    /// The number of checks that have been run.
    pub done: usize,
    /// The number of checks of the whole run.
    pub total: usize,
}

/// Runs the suite on the device of this name. Calls `progress` before each check of each algorithm. Returns `None` if the device or
/// the reference does not exist.
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
    // An algorithm that signs digests gets digests of the messages.
    let digest = |algorithm, message: &[u8]| {
        let mut digest = vec![0; Algorithm::info(algorithm).default_tag_length()];
        let session = reference.as_ref().unwrap_or(&subject).session(SessionParams::new(algorithm, &[])).ok()?;
        session.digest(message, &mut digest).ok().map(|()| digest)
    };
    let vectors = vectors::load(&algorithms, &digest, &options.vectors);

    let total = capabilities.len() * Check::ALL.len();
    let end = options.time_limit.map(|limit| Instant::now() + limit);
    let mut rows = Vec::with_capacity(total);
    let mut order: Vec<&Capability> = capabilities.iter().collect();
    if end.is_some() {
        // Slow algorithms come first: the others share the remaining time.
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
            step: if is_slow(algorithm) { options.step.max(33) } else { options.step },
        };
        for &check in Check::ALL {
            progress(Progress { algorithm, check, done: rows.len(), total });
            // A check's remaining time goes to the checks after it.
            let now = Instant::now();
            let part = |end: Instant| now + end.saturating_duration_since(now) / (total - rows.len()) as u32;
            let row = suite.run_check(check, end.map(part));
            rows.push(row);
        }
    }
    Some(Report { device: device.to_owned(), capabilities, rows })
}

/// Returns whether requests are slow. A signature of RSA takes as long as thousands of other requests.
pub(crate) fn is_slow(algorithm: Algorithm) -> bool {
    gantry_core::sample_key(algorithm).is_some()
}

/// Returns the number of requests of a step: `default`, or less for SLH-DSA, where a signature takes up to a second and fills a CPU's lanes
/// alone. The small parameter sets run the same code as the fast sets.
pub(crate) fn request_count(algorithm: Algorithm, default: u64) -> u64 {
    match algorithm {
        _ if is_small_slh_dsa(algorithm) => default.min(1),
        _ if algorithm.is_slh_dsa() => default.min(3),
        _ => default,
    }
}

fn is_small_slh_dsa(algorithm: Algorithm) -> bool {
    algorithm.is_slh_dsa() && algorithm.name().ends_with('s')
}

/// Asserts in tests of drivers that a device conforms: panics with every problem of the device. Also panics if its capabilities, or the
/// parts of the suite that do not apply to it, differ from the file `declaration`. `GANTRY_DECLARE=1` writes that file.
pub fn assert_conforms(gantry: &Gantry, device: &str, options: &Options, declaration: impl AsRef<Path>) {
    let report = run(gantry, device, options, &mut |_| ()).expect("the framework has devices of these names");
    let problems = report.problems();
    assert!(problems.is_empty(), "{} problems\n{}", problems.len(), problems.join("\n"));

    let (path, found) = (declaration.as_ref(), report.declaration());
    if std::env::var_os("GANTRY_DECLARE").is_some() {
        std::fs::write(path, &found).expect("the declaration can be written");
    }
    let declared = std::fs::read_to_string(path).unwrap_or_default();
    let only_declared: Vec<&str> = declared.lines().filter(|line| !found.lines().any(|other| other == *line)).collect();
    let only_found: Vec<&str> = found.lines().filter(|line| !declared.lines().any(|other| other == *line)).collect();
    assert!(
        declared == found,
        "{device} differs from {}; only declared:\n{}\nonly found:\n{}\n(GANTRY_DECLARE=1 writes the declaration)",
        path.display(),
        only_declared.join("\n"),
        only_found.join("\n"),
    );
}

/// The input of the checks of one algorithm.
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
    fn run_check(&self, check: Check, deadline: Option<Instant>) -> CheckResult {
        let mut tally = Tally::new(self.algorithm, check, self.seed, deadline);
        // One case of each check of all small sets of SLH-DSA would take half a minute.
        if deadline.is_some() && is_small_slh_dsa(self.algorithm) && !matches!(check, Check::Start | Check::Vectors) {
            tally.skip(SKIPPED_FOR_TIME);
        } else if self.subject.is_ready() {
            match check {
                Check::Start => {
                    let admitted = self.subject.device().admit(self.algorithm);
                    tally.record(admitted.map_err(|why| CaseError::Wrong(why.to_string())), || {
                        "not admitted".to_owned()
                    });
                }
                Check::Vectors => known_answers::check(self, &mut tally),
                Check::Streams => streams::check(self, &mut tally),
                Check::Batches => batches::check(self, &mut tally),
                Check::Tags => tags::check(self, &mut tally),
                Check::Threads => threads::check(self, &mut tally),
                Check::Random => batches::check_random(self, &mut tally),
            }
        } else {
            // The check that caused the fault has reported it. The device serves no further requests.
            let error = CaseError::Wrong(format!("{:?}", self.subject.device().state()));
            tally.record(Err(error), || "the device is not ready".to_owned());
        }
        tally.finish()
    }

    pub(crate) fn oracle(&self, params: &SessionParams) -> Result<Oracle, Error> {
        Oracle::new(self.reference, self.subject, params)
    }

    /// Compares `got` with the required answer. Results that differ each time are checked by the reference: it verifies signatures, and
    /// decompresses, opens or deciphers other results, whose data must match.
    pub(crate) fn compare(
        &self,
        params: &SessionParams,
        case: &Case,
        got: Result<Answer, CaseError>,
        expected: &Answer,
    ) -> Result<(), CaseError> {
        match got {
            Ok(Answer::Done { output, .. })
                if case.operation == Operation::Sign && self.algorithm.info().randomized =>
            {
                let case = Case { operation: Operation::Verify, tag: output, ..case.clone() };
                compare(self.oracle(params)?.answer(&case), &Answer::Done { output: Vec::new(), tag: Vec::new() })
            }
            Ok(Answer::Done { output, .. })
                if case.operation == Operation::Encipher && self.algorithm.info().randomized =>
            {
                let inverse = Case { operation: Operation::Decipher, input: output, ..case.clone() };
                compare(
                    self.oracle(params)?.answer(&inverse),
                    &Answer::Done { output: case.input.clone(), tag: Vec::new() },
                )
            }
            Ok(Answer::Done { output, .. }) if case.operation == Operation::Protect => {
                let (start, is_exact) = (self.algorithm.info().payload_start(), self.algorithm.info().iv.max == 8);
                if is_exact {
                    compare(Ok(Answer::Done { output: output.clone(), tag: Vec::new() }), expected)?;
                }
                let inverse = Case::unprotect(&case.iv, output);
                let output = [&case.input[start..start + case.room], &case.aad].concat();
                compare(self.oracle(params)?.answer(&inverse), &Answer::Done { output, tag: Vec::new() })
            }
            Ok(Answer::Done { output, .. }) if case.operation == Operation::Compress => {
                let inverse = Case::decompress(output, case.input.len());
                let expected = Answer::Done { output: case.input.clone(), tag: Vec::new() };
                compare(self.oracle(params)?.answer(&inverse), &expected)
            }
            got => compare(got, expected),
        }
    }

    pub(crate) fn placement(&self, rng: &mut Rng) -> Placement {
        let placement = generate::placement(rng);
        Placement { in_place: placement.in_place && self.capability.in_place, ..placement }
    }
}
