//! Indexes of tables that have an entry for each operation of each algorithm.

use super::ids::Algorithm;
use super::operation::Operation;
use super::table::TABLE;

/// Columns of `PLACES`: at least the number of operations, and a power of two, because multiplying by it is quicker.
const COLUMNS: usize = 32;

/// Entries of an algorithm that a driver brings: as many as the kind with the most operations needs.
const MOST: usize = 3;

/// For each algorithm and operation, the index of its entry; then the number of all entries. An operation that the algorithm does not have
/// gets the last entry of the algorithm.
static PLACES: ([[u16; COLUMNS]; Algorithm::COUNT], usize) = {
    let mut places = [[0; COLUMNS]; Algorithm::COUNT];
    let (mut index, mut first) = (0, 0);
    while index < TABLE.len() {
        let operations = TABLE[index].kind.operations();
        places[index] = [(first + operations.len() - 1) as u16; COLUMNS];
        let mut at = 0;
        while at < operations.len() {
            places[index][operations[at] as usize] = (first + at) as u16;
            at += 1;
        }
        (index, first) = (index + 1, first + operations.len());
    }
    // Algorithms of drivers may have any kind.
    while index < Algorithm::COUNT {
        let mut at = 0;
        while at < Operation::ALL.len() {
            places[index][Operation::ALL[at] as usize] = (first + Operation::ALL[at].index()) as u16;
            at += 1;
        }
        (index, first) = (index + 1, first + MOST);
    }
    (places, first)
};

/// The algorithm of each entry, and the index of the operation among the operations of its kind.
static ENTRIES: [(Algorithm, u8); Algorithm::PLACES] = {
    let mut entries = [(Algorithm::ALL[0], 0); Algorithm::PLACES];
    let (mut index, mut place) = (0, 0);
    while index < Algorithm::COUNT {
        let (algorithm, count) = if index < TABLE.len() {
            (Algorithm::ALL[index], TABLE[index].kind.operations().len())
        } else {
            (Algorithm::REGISTERED[index - TABLE.len()], MOST)
        };
        let mut operation = 0;
        while operation < count {
            entries[place] = (algorithm, operation as u8);
            (operation, place) = (operation + 1, place + 1);
        }
        index += 1;
    }
    entries
};

impl Algorithm {
    /// Number of entries of a table that has an entry for each operation of each algorithm.
    pub const PLACES: usize = PLACES.1;

    /// Returns the index of an operation's entry. An operation that the algorithm does not have shares one of the algorithm's entries.
    #[inline]
    pub fn place(self, operation: Operation) -> usize {
        PLACES.0[self as usize][operation as usize].into()
    }

    /// Returns the algorithm and the operation of the entry with this index.
    pub fn at_place(place: usize) -> (Algorithm, Operation) {
        let (algorithm, operation) = ENTRIES[place];
        let operations = algorithm.kind().operations();
        (algorithm, operations[usize::from(operation).min(operations.len() - 1)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_of_an_algorithm_has_its_own_place() {
        let all = Algorithm::ALL
            .iter()
            .flat_map(|algorithm| algorithm.kind().operations().iter().map(|operation| (*algorithm, *operation)));
        let mut places = 0;
        for (place, (algorithm, operation)) in all.enumerate() {
            assert_eq!(algorithm.place(operation), place);
            assert_eq!(Algorithm::at_place(place), (algorithm, operation));
            places += 1;
        }
        assert_eq!(places + Algorithm::REGISTERED.len() * MOST, Algorithm::PLACES);
    }

    #[test]
    fn operations_of_other_kinds_map_to_a_place_of_the_same_algorithm() {
        let sha256 = Algorithm::Sha256.place(Operation::Digest);
        assert_eq!(
            [Operation::Encrypt, Operation::Verify].map(|operation| Algorithm::Sha256.place(operation)),
            [sha256; 2]
        );
    }
}
