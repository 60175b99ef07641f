//! What a process did, for others to see: a file that `gantry openssl doctor` reads while the process lives and after. Children by
//! `fork` count into the same one.
//!
//! It begins with numbers, as this machine writes them, eight for each algorithm: forward and back, in each the host's and
//! the devices', of each the requests and the bytes. Behind them are lines of text: the program, then the algorithms.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

use gantry::stats::Tally;
use gantry::{Algorithm, Operation};
use gantry_runtime::StatsChoice;

use crate::boundary::Shared;
use crate::choice::Side;
use crate::host;
use crate::table::{CIPHERS, DIGESTS, MACS, PAIRS, Row};

/// The files of this process.
pub(crate) struct Report {
    numbers: Shared,
}

/// Numbers of an algorithm.
const NUMBERS: usize = 8;

/// A process may load the module into several library contexts, and each has its file.
const MOST: usize = 16;

/// The place of a row among all that are counted.
pub(crate) fn place(row: &Row) -> Option<usize> {
    rows().position(|other| std::ptr::eq(other, row))
}

/// Counters for what is left to the host, in the page of this process: two for each row, for its operation and for the one back.
pub(crate) fn tally(choice: &StatsChoice) -> Option<Tally> {
    let memory = gantry_runtime::stats::memory(choice)?;
    let both_ways = |row: &'static Row| {
        let name = row.algorithm.map_or(row.name, Algorithm::name);
        row.both_ways().into_iter().flatten().map(move |operation| (name, operation.name()))
    };
    Some(Tally::new(host::NAME, rows().flat_map(both_ways), Some(memory)))
}

fn rows() -> impl Iterator<Item = &'static Row> {
    CIPHERS.iter().chain(&DIGESTS).chain(&MACS).chain(&PAIRS)
}

impl Report {
    /// A new file in `folder`: `None` when it cannot be made.
    pub(crate) fn create(folder: &Path) -> Option<Self> {
        let process = std::process::id();
        let program = std::env::current_exe().unwrap_or_default();
        let mut text = format!("{}\n", program.display());
        for row in rows() {
            let _ = writeln!(text, "{}", row.name);
        }
        (0..MOST).find_map(|count| {
            let path = folder.join(format!("{process}.{count}"));
            Some(Self { numbers: Shared::create(&path, NUMBERS * rows().count(), &text)? })
        })
    }

    /// Leaves a sentence about why this process goes without devices, for `gantry openssl doctor`.
    pub(crate) fn why(folder: &Path, sentence: &str) {
        let program = std::env::current_exe().unwrap_or_default();
        let path = folder.join(format!("{}.why", std::process::id()));
        write(&path, &format!("{}: {sentence}\n", program.display()));
    }

    pub(crate) fn count(&self, place: usize, operation: Operation, side: Side, bytes: usize) {
        let at = NUMBERS * place + 4 * usize::from(operation.is_back()) + 2 * usize::from(side == Side::Device);
        self.numbers.add(at, 1);
        self.numbers.add(at + 1, bytes as u64);
    }
}

/// Writes a new file: whoever may write into the folder can have put a link to another one there. Should it fail, whoever asked sees that
/// there is no file.
pub(crate) fn write(path: &Path, text: &str) {
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    let _ = file.and_then(|mut file| file.write_all(text.as_bytes()));
}
