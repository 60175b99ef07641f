//! What the suite found.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Instant;

use gantry_core::Algorithm;
use gantry_core::driver::Capability;

use crate::case::Trouble;

/// The parts of the suite, each of which looks for its own kind of mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Check {
    /// The device's own start: known answers before it serves anybody.
    Start,
    /// Known answers of NIST, the RFCs and Wycheproof, in place and not, aligned and not, between guard bytes.
    Vectors,
    /// Messages in pieces: every split around block borders, duplicated streams, many streams side by side.
    Streams,
    /// Batches of 1 to 100 requests of mixed lengths, empty ones among them.
    Batches,
    /// Tags, data, nonces and associated data with a bit flipped: refused, and no plaintext leaves.
    Tags,
    /// One session used by several threads at once.
    Threads,
    /// Random requests, compared with the reference.
    Random,
}

impl Check {
    /// All of them, in the order in which they run.
    pub const ALL: &'static [Check] =
        &[Check::Start, Check::Vectors, Check::Streams, Check::Batches, Check::Tags, Check::Threads, Check::Random];

    /// The name in tables and JSON.
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

/// What came of one check of one algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The check.
    pub check: Check,
    /// Cases in which the device did what it must.
    pub passed: u64,
    /// Steps of the check that were run; those that there was no time for are in `skipped`. A step is a vector, a batch, a message that is cut
    /// at one place: it has some cases, and how many is known when it has run.
    pub steps: u64,
    /// Cases that were left out: how many for each reason.
    pub skipped: BTreeMap<String, u64>,
    /// Cases in which it did not.
    pub mismatches: Vec<Mismatch>,
}

/// A case in which the device did something else than it must.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// What was done and what came of it, for people.
    pub what: String,
    /// [`Options::seed`](crate::Options::seed) that repeats it, of cases that were made at random.
    pub seed: u64,
}

/// All rows of one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The device's name.
    pub device: String,
    /// What it offers for the algorithms that were checked.
    pub capabilities: Vec<Capability>,
    /// In the order in which they ran.
    pub rows: Vec<Row>,
}

impl Report {
    /// Whether the device passed: it did what it must in every case, and for each algorithm there were cases.
    pub fn passed(&self) -> bool {
        self.problems().is_empty()
    }

    /// Everything that keeps the device from passing, one line each.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.rows.is_empty() {
            problems.push(format!("{}: serves none of the algorithms", self.device));
        }
        for row in &self.rows {
            let Row { algorithm, check, .. } = row;
            for mismatch in &row.mismatches {
                problems
                    .push(format!("{} {algorithm} {check}: {} (seed {})", self.device, mismatch.what, mismatch.seed));
            }
            let may_be_idle = match check {
                // Not every algorithm has streams, and a single random round may ask for what the device does not have.
                Check::Streams | Check::Random => true,
                // Only AEADs have tags.
                Check::Tags => row.skipped.is_empty(),
                Check::Start | Check::Vectors | Check::Batches | Check::Threads => false,
            };
            // A case that takes seconds is not begun where time is limited.
            let had_no_time = row.skipped.len() == 1 && row.skipped.contains_key(NO_TIME);
            if row.mismatches.is_empty() && row.passed == 0 && !may_be_idle && !had_no_time {
                problems.push(format!("{} {algorithm} {check}: nothing was run", self.device));
            }
        }
        problems
    }

    /// What the device offers, how many vectors judged it, and what the suite left out: the text of the file that is kept
    /// with its tests. A device that comes to serve less shows as a difference.
    pub fn declaration(&self) -> String {
        let mut lines = vec![format!("# What {} offers, and what of the suite does not apply to it.", self.device)];
        for capability in &self.capabilities {
            let Capability { algorithm, operations, direct, in_place, streaming, .. } = capability;
            let rows = || self.rows.iter().filter(|row| row.algorithm == *algorithm);
            let vectors: u64 = rows().filter(|row| row.check == Check::Vectors).map(|row| row.passed).sum();
            let mut offers: Vec<&str> = operations.iter().map(|operation| operation.name()).collect();
            let ways = [(direct, "direct"), (in_place, "in place"), (streaming, "streams")];
            offers.extend(ways.iter().filter(|(there, _)| **there).map(|(_, name)| *name));
            lines.push(format!("{algorithm}: {}; {vectors} vectors", offers.join(", ")));
            for row in rows() {
                lines.extend(row.skipped.iter().map(|(reason, count)| format!("    {} {count}: {reason}", row.check)));
            }
        }
        lines.join("\n") + "\n"
    }
}

/// Why cases were left out that there was no time for.
pub const NO_TIME: &str = "there was no time for it";

/// A row while its check runs.
pub(crate) struct Tally {
    pub(crate) row: Row,
    /// When the check should have ended.
    until: Option<Instant>,
    /// Mismatches beyond the first few say nothing new.
    more: u64,
    /// Of random cases.
    pub(crate) seed: u64,
}

/// Mismatches that are kept of a row.
const KEPT: usize = 5;

impl Tally {
    pub(crate) fn new(algorithm: Algorithm, check: Check, seed: u64, until: Option<Instant>) -> Self {
        let row = Row { algorithm, check, passed: 0, steps: 0, skipped: BTreeMap::new(), mismatches: Vec::new() };
        Self { row, until, more: 0, seed }
    }

    /// Whether not everything need be run.
    pub(crate) fn is_timed(&self) -> bool {
        self.until.is_some()
    }

    /// Whether to run the next step. It is counted either way; something always is run.
    pub(crate) fn has_time(&mut self) -> bool {
        let stop = self.row.passed > 0 && self.is_late();
        if stop {
            self.skip(NO_TIME);
        } else {
            self.row.steps += 1;
        }
        !stop
    }

    pub(crate) fn is_late(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    pub(crate) fn skip(&mut self, reason: impl Into<String>) {
        *self.row.skipped.entry(reason.into()).or_default() += 1;
    }

    /// Counts a case; `what` is only asked when it failed.
    pub(crate) fn judge(&mut self, result: Result<(), Trouble>, what: impl FnOnce() -> String) {
        match result {
            Ok(()) => self.row.passed += 1,
            Err(Trouble::Unsupported(reason) | Trouble::Misuse(reason)) => self.skip(reason),
            Err(Trouble::Wrong(problem)) if self.row.mismatches.len() < KEPT => {
                let what = format!("{}: {problem}", what());
                self.row.mismatches.push(Mismatch { what, seed: self.seed });
            }
            Err(Trouble::Wrong(_)) => self.more += 1,
        }
    }

    pub(crate) fn finish(mut self) -> Row {
        if let (Some(last), true) = (self.row.mismatches.last_mut(), self.more > 0) {
            last.what = format!("{} (and {} more)", last.what, self.more);
        }
        self.row
    }
}
