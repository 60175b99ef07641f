//! The counters of this process's requests, which other processes read.

use gantry_core::stats::Tally;
use gantry_core::{Algorithm, Operation};
use gantry_runtime::StatsChoice;

use crate::derivations::{LANES_DEVICE, LaneUse};
use crate::driver;
use crate::groups::{GROUPS, Group};
use crate::table::{CIPHERS, KDFS, KEMS, KEY_PAIR_ALGORITHMS, Kdf, Mode, Row};

/// Returns the index of a row among all counted rows; `None` for key types.
pub(crate) fn counted_row(row: &Row) -> Option<usize> {
    rows().position(|other| std::ptr::eq(other, row))
}

/// Counters in memory that other processes can read.
pub(crate) struct Tallies {
    /// Requests that the default provider serves: one counter for each operation of each row.
    pub(crate) default_provider: Tally,
    /// Keys derived in SIMD lanes.
    pub(crate) lanes: Tally,
    /// Our own agreements in TLS groups: two counters for each group, for servers and for clients.
    pub(crate) groups: Tally,
}

/// Returns the counters, if the process publishes any.
pub(crate) fn tallies(choice: &StatsChoice) -> Option<Tallies> {
    let memory = gantry_runtime::stats::counter_memory(choice)?;
    let operations = |row: &'static Row| {
        let name = row.algorithm.map_or(row.name, Algorithm::name);
        row.operations().iter().map(move |operation| (name, operation.name()))
    };
    let derivations = DERIVATIONS.map(|(_, name)| (name, Operation::Derive.name()));
    let agreements = |group: &'static Group| {
        [Operation::Encapsulate, Operation::Decapsulate].map(|operation| (group.name_str(), operation.name()))
    };
    Some(Tallies {
        default_provider: Tally::new(driver::DEVICE_NAME, rows().flat_map(operations), Some(memory)),
        lanes: Tally::new(LANES_DEVICE, derivations, Some(memory)),
        groups: Tally::new("software", GROUPS.iter().flat_map(agreements), Some(memory)),
    })
}

/// The kinds of derivations in lanes, each with the name of its counter. A derived key counts for one kind only.
const DERIVATIONS: [((Kdf, LaneUse), &str); 3] = [
    ((Kdf::Pbkdf2, LaneUse::Alone), "PBKDF2"),
    ((Kdf::Pbkdf2, LaneUse::Shared), "PBKDF2 in shared lanes"),
    ((Kdf::Hkdf, LaneUse::Alone), "HKDF"),
];

/// Returns the index of a derivation's counter.
pub(crate) fn derivation_counter(row: &Row, lane_use: LaneUse) -> usize {
    let matches = |((kdf, used), _): &((Kdf, LaneUse), &str)| (Mode::Kdf(*kdf), *used) == (row.mode, lane_use);
    DERIVATIONS.iter().position(matches).unwrap_or(DERIVATIONS.len())
}

/// Returns the index of the counter of a row's first operation. The counters of the row's other operations follow.
pub(crate) fn first_counter(row: &Row) -> usize {
    rows().take_while(|other| !std::ptr::eq(*other, row)).map(|other| other.operations().len()).sum()
}

fn rows() -> impl Iterator<Item = &'static Row> {
    CIPHERS.iter().chain(&KEY_PAIR_ALGORITHMS).chain(&KDFS).chain(&KEMS)
}
