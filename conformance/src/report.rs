//! The results of the suite.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Instant;

use gantry_core::Algorithm;
use gantry_core::driver::Capability;

use crate::case::CaseError;

/// The parts of the suite. Each finds its own kind of mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Check {
    /// The known-answer tests of the device, before it serves requests.
    Start,
    /// Known answers of NIST, the RFCs and Wycheproof, in place and not, aligned and not, between guard bytes.
    Vectors,
    /// Messages in pieces: every split around block borders, copies of streams, many streams side by side.
    Streams,
    /// Batches of 1 to 100 requests of mixed lengths, empty ones among them.
    Batches,
    /// Tags, data, nonces and associated data with a bit flipped: the device must refuse them, and release no plaintext.
    Tags,
    /// One session used by several threads at once.
    Threads,
    /// Random requests, compared with the reference.
    Random,
}

impl Check {
    /// All checks, in the order in which they run.
    pub const ALL: &'static [Check] =
        &[Check::Start, Check::Vectors, Check::Streams, Check::Batches, Check::Tags, Check::Threads, Check::Random];

    /// Returns the name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Check::Start => "start",
            Check::Vectors => "vectors",
            Check::Streams => "streams",
            Check::Batches => "batches",
            Check::Tags => "tags",
            Check::Threads => "threads",
            Check::Random => "random",
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The result of one check of one algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckResult {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The check.
    pub check: Check,
    /// The number of cases with the required answer.
    pub passed: u64,
    /// Steps of the check that were run. `skipped` counts the steps that the time limit left out. A step is a vector, a batch, or a message
    /// cut at one position; its number of cases is known after it has run.
    pub steps: u64,
    /// The number of cases that were left out, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// Cases with another answer.
    pub mismatches: Vec<Mismatch>,
}

/// A case in which the device did not give the required answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The case and its answer, for people.
    pub description: String,
    /// The [`Options::seed`](crate::Options::seed) that repeats a random case.
    pub seed: u64,
}

/// All rows of one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The device's name.
    pub device: String,
    /// Its capabilities for the algorithms that were checked.
    pub capabilities: Vec<Capability>,
    /// The rows, in the order in which they ran.
    pub rows: Vec<CheckResult>,
}

impl Report {
    /// Returns whether the device passed: every case had the required answer, and each algorithm had cases.
    pub fn passed(&self) -> bool {
        self.problems().is_empty()
    }

    /// Returns the problems because of which the device does not pass, one line each.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.rows.is_empty() {
            problems.push(format!("{}: serves none of the algorithms", self.device));
        }
        for row in &self.rows {
            let CheckResult { algorithm, check, .. } = row;
            for mismatch in &row.mismatches {
                problems.push(format!(
                    "{} {algorithm} {check}: {} (seed {})",
                    self.device, mismatch.description, mismatch.seed
                ));
            }
            let may_be_idle = match check {
                // Some algorithms have no streams, and a single random round may ask for an operation that the device does not have.
                Check::Streams | Check::Random => true,
                // Only AEADs have tags.
                Check::Tags => row.skipped.is_empty(),
                Check::Start | Check::Vectors | Check::Batches | Check::Threads => false,
            };
            // A case that takes seconds is not started in a run with a time limit.
            let had_no_time = row.skipped.len() == 1 && row.skipped.contains_key(SKIPPED_FOR_TIME);
            if row.mismatches.is_empty() && row.passed == 0 && !may_be_idle && !had_no_time {
                problems.push(format!("{} {algorithm} {check}: nothing was run", self.device));
            }
        }
        problems
    }

    /// Returns the text of the declaration: the capabilities of the device, the number of vectors that judged it, and the parts that the
    /// suite left out. A device that serves less than before shows as a difference.
    pub fn declaration(&self) -> String {
        let mut lines =
            vec![format!("# Capabilities of {}, and the parts of the suite that do not apply to it.", self.device)];
        for capability in &self.capabilities {
            let Capability { algorithm, operations, synchronous, in_place, streaming, .. } = capability;
            let rows = || self.rows.iter().filter(|row| row.algorithm == *algorithm);
            let vectors: u64 = rows().filter(|row| row.check == Check::Vectors).map(|row| row.passed).sum();
            let mut offers: Vec<&str> = operations.iter().map(|operation| operation.name()).collect();
            let modes = [(synchronous, "direct"), (in_place, "in place"), (streaming, "streams")];
            offers.extend(modes.iter().filter(|(is_set, _)| **is_set).map(|(_, name)| *name));
            lines.push(format!("{algorithm}: {}; {vectors} vectors", offers.join(", ")));
            for row in rows() {
                lines.extend(row.skipped.iter().map(|(reason, count)| format!("    {} {count}: {reason}", row.check)));
            }
        }
        lines.join("\n") + "\n"
    }
}

/// The reason of cases that the time limit left out.
pub const SKIPPED_FOR_TIME: &str = "there was no time for it";

/// A row while its check runs.
pub(crate) struct Tally {
    pub(crate) result: CheckResult,
    /// The deadline of the check.
    deadline: Option<Instant>,
    /// The number of mismatches beyond the reported ones.
    unreported: u64,
    /// The seed of random cases.
    pub(crate) seed: u64,
}

/// Maximum number of mismatches reported in a row.
const MAX_MISMATCHES: usize = 5;

impl Tally {
    pub(crate) fn new(algorithm: Algorithm, check: Check, seed: u64, deadline: Option<Instant>) -> Self {
        let result =
            CheckResult { algorithm, check, passed: 0, steps: 0, skipped: BTreeMap::new(), mismatches: Vec::new() };
        Self { result, deadline, unreported: 0, seed }
    }

    /// Returns whether the run has a time limit.
    pub(crate) fn has_deadline(&self) -> bool {
        self.deadline.is_some()
    }

    /// Returns whether to run the next step, and counts it. The first step always runs.
    pub(crate) fn begin_step(&mut self) -> bool {
        let stop = self.result.passed > 0 && self.is_past_deadline();
        if stop {
            self.skip(SKIPPED_FOR_TIME);
        } else {
            self.result.steps += 1;
        }
        !stop
    }

    pub(crate) fn is_past_deadline(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    pub(crate) fn skip(&mut self, reason: impl Into<String>) {
        *self.result.skipped.entry(reason.into()).or_default() += 1;
    }

    /// Counts a case. Calls `what` only if the case failed.
    pub(crate) fn record(&mut self, result: Result<(), CaseError>, what: impl FnOnce() -> String) {
        match result {
            Ok(()) => self.result.passed += 1,
            Err(CaseError::Unsupported(reason) | CaseError::Misuse(reason)) => self.skip(reason),
            Err(CaseError::Wrong(problem)) if self.result.mismatches.len() < MAX_MISMATCHES => {
                let description = format!("{}: {problem}", what());
                self.result.mismatches.push(Mismatch { description, seed: self.seed });
            }
            Err(CaseError::Wrong(_)) => self.unreported += 1,
        }
    }

    pub(crate) fn finish(mut self) -> CheckResult {
        if let (Some(last), true) = (self.result.mismatches.last_mut(), self.unreported > 0) {
            last.description = format!("{} (and {} more)", last.description, self.unreported);
        }
        self.result
    }
}
