//! Where tables that have an entry for each operation of each algorithm have it.

use super::kind::Operation;
use super::table::{Algorithm, TABLE};

/// Columns of the table below: no fewer than there are operations, and a power of two, which is quicker to multiply by.
const COLUMNS: usize = 16;

/// The entries, and behind them their number. Where an algorithm does not have an operation, that of its last one.
static PLACES: ([[u16; COLUMNS]; TABLE.len()], usize) = {
    let mut places = [[0; COLUMNS]; TABLE.len()];
    let (mut index, mut first) = (0, 0);
    while index < TABLE.len() {
        let count = TABLE[index].kind.operations().len();
        places[index] = [(first + count - 1) as u16; COLUMNS];
        let mut at = 0;
        while at < count {
            places[index][TABLE[index].kind.operations()[at] as usize] = (first + at) as u16;
            at += 1;
        }
        (index, first) = (index + 1, first + count);
    }
    (places, first)
};

/// The algorithm and the operation of each entry.
static ENTRIES: [(Algorithm, Operation); Algorithm::PLACES] = {
    let mut entries = [(Algorithm::ALL[0], TABLE[0].kind.operations()[0]); Algorithm::PLACES];
    let (mut index, mut place) = (0, 0);
    while index < TABLE.len() {
        let operations = TABLE[index].kind.operations();
        let mut operation = 0;
        while operation < operations.len() {
            entries[place] = (Algorithm::ALL[index], operations[operation]);
            (operation, place) = (operation + 1, place + 1);
        }
        index += 1;
    }
    entries
};

impl Algorithm {
    /// Entries of such a table.
    pub const PLACES: usize = PLACES.1;

    /// The entry of an operation. Of one that the algorithm does not have, that of its last one.
    #[inline]
    pub fn place(self, operation: Operation) -> usize {
        PLACES.0[self as usize][operation as usize].into()
    }

    /// What an entry is about.
    pub fn at_place(place: usize) -> (Algorithm, Operation) {
        ENTRIES[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_of_every_algorithm_has_an_entry_of_its_own() {
        let all = Algorithm::ALL
            .iter()
            .flat_map(|algorithm| algorithm.kind().operations().iter().map(|operation| (*algorithm, *operation)));
        let mut places = 0;
        for (place, (algorithm, operation)) in all.enumerate() {
            assert_eq!(algorithm.place(operation), place);
            assert_eq!(Algorithm::at_place(place), (algorithm, operation));
            places += 1;
        }
        assert_eq!(places, Algorithm::PLACES);
    }

    #[test]
    fn what_an_algorithm_does_not_have_is_in_no_other_ones_entry() {
        let sha256 = Algorithm::Sha256.place(Operation::Digest);
        assert_eq!(
            [Operation::Encrypt, Operation::Verify].map(|operation| Algorithm::Sha256.place(operation)),
            [sha256; 2]
        );
    }
}
