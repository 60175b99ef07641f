//! What a process did and what a trial shows, for others to read.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use gantry_core::stats::Tally;
use gantry_core::{Algorithm, Operation, RegisteredDevice};
use gantry_runtime::StatsChoice;

use crate::derivations::{Derived, LANES};
use crate::host;
use crate::measure::Cell;
use crate::table::{CIPHERS, KDFS, Kdf, Mode, PAIRS, Row};

/// The place of a row among all that are counted.
pub(crate) fn place(row: &Row) -> Option<usize> {
    rows().position(|other| std::ptr::eq(other, row))
}

/// Counters in the page of this process: for what is left to the host, one for each operation of each row; and for keys that lanes derive.
pub(crate) fn tallies(choice: &StatsChoice) -> Option<(Tally, Tally)> {
    let memory = gantry_runtime::stats::memory(choice)?;
    let operations = |row: &'static Row| {
        let name = row.algorithm.map_or(row.name, Algorithm::name);
        row.operations().iter().map(move |operation| (name, operation.name()))
    };
    let derived = DERIVATIONS.map(|(_, name)| (name, Operation::Derive.name()));
    Some((Tally::new(host::NAME, rows().flat_map(operations), Some(memory)), Tally::new(LANES, derived, Some(memory))))
}

/// What lanes derive keys with: each key is counted once.
const DERIVATIONS: [((Kdf, Derived), &str); 3] = [
    ((Kdf::Pbkdf2, Derived::Alone), "PBKDF2"),
    ((Kdf::Pbkdf2, Derived::Together), "PBKDF2 in shared lanes"),
    ((Kdf::Hkdf, Derived::Alone), "HKDF"),
];

/// The counter of a derivation.
pub(crate) fn derivation(row: &Row, derived: Derived) -> usize {
    let is_it = |(of, _): &((Kdf, Derived), &str)| (Mode::Kdf(of.0), of.1) == (row.mode, derived);
    DERIVATIONS.iter().position(is_it).unwrap_or(DERIVATIONS.len())
}

/// The counters of a row: that of its first operation, behind which are those of the others.
pub(crate) fn first_counter(row: &Row) -> usize {
    rows().take_while(|other| !std::ptr::eq(*other, row)).map(|other| other.operations().len()).sum()
}

fn rows() -> impl Iterator<Item = &'static Row> {
    CIPHERS.iter().chain(&PAIRS).chain(&KDFS)
}

/// What `gantry advise` and `gantry openssl config` read: a line for each algorithm, and behind it one for each operation and size, with tabs
/// between the fields.
pub(crate) struct Report {
    pub(crate) text: String,
}

impl Report {
    pub(crate) fn device(&mut self, device: &RegisteredDevice) {
        let about = device.details().map_or("", |details| &details.description);
        let _ = writeln!(self.text, "device\t{}\t{about}", device.name());
    }

    /// `key` is that of the configuration by which the algorithm may be named.
    pub(crate) fn row(&mut self, key: &str, name: &str, row: &Row, algorithm: Option<Algorithm>, served: bool) {
        let yes = |is: bool| if is { "yes" } else { "" };
        let ours = algorithm.map_or("", Algorithm::name);
        let (served, measured) = (yes(served), yes(row.is_measured()));
        let _ = writeln!(self.text, "row\t{key}\t{name}\t{}\t{}\t{ours}\t{served}\t{measured}", row.name, row.nid);
    }

    pub(crate) fn cell(&mut self, cell: &Cell) {
        let Cell { operation, bytes, device, why, best } = cell;
        let _ = write!(self.text, "cell\t{}\t{bytes}\t{device}\t{why}", operation.name());
        if let Some((name, best)) = best {
            let numbers = [best.host, best.device, best.gain, best.spread, best.stolen];
            let _ = write!(self.text, "\t{name}");
            for number in numbers {
                let _ = write!(self.text, "\t{number:.4}");
            }
        }
        self.text.push('\n');
    }
}

/// Writes a new file: whoever may write into the folder can have put a link to another one there. Should it fail, whoever asked sees that
/// there is no file.
pub(crate) fn write(path: &Path, text: &str) {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let _ = file.and_then(|mut file| file.write_all(text.as_bytes()));
}
