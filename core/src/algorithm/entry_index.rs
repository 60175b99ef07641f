//! Indexes of tables that have an entry for each operation of each algorithm.

use super::ids::Algorithm;
use super::operation::Operation;
use super::table::TABLE;

/// Columns of `ENTRY_INDEXES`: at least the number of operations, and a power of two, because multiplying by it is quicker.
const COLUMNS: usize = 32;

/// Entries of an algorithm that a driver brings: as many as the kind with the most operations needs.
const MAX_REGISTERED_OPERATIONS: usize = 3;

/// For each algorithm and operation, the index of its entry; then the number of all entries. An operation that an algorithm of the table
/// does not have gets the last entry of the algorithm.
static ENTRY_INDEXES: ([[u16; COLUMNS]; Algorithm::COUNT], usize) = {
    let mut indexes = [[0; COLUMNS]; Algorithm::COUNT];
    let (mut index, mut first) = (0, 0);
    while index < TABLE.len() {
        let operations = TABLE[index].kind.operations();
        indexes[index] = [(first + operations.len() - 1) as u16; COLUMNS];
        let mut at = 0;
        while at < operations.len() {
            indexes[index][operations[at] as usize] = (first + at) as u16;
            at += 1;
        }
        (index, first) = (index + 1, first + operations.len());
    }
    // Algorithms of drivers may have any kind.
    while index < Algorithm::COUNT {
        let mut at = 0;
        while at < Operation::ALL.len() {
            indexes[index][Operation::ALL[at] as usize] = (first + Operation::ALL[at].index()) as u16;
            at += 1;
        }
        (index, first) = (index + 1, first + MAX_REGISTERED_OPERATIONS);
    }
    (indexes, first)
};

/// The algorithm of each entry, and the index of the operation among the operations of its kind.
static ENTRIES: [(Algorithm, u8); Algorithm::ENTRY_COUNT] = {
    let mut entries = [(Algorithm::ALL[0], 0); Algorithm::ENTRY_COUNT];
    let (mut index, mut entry) = (0, 0);
    while index < Algorithm::COUNT {
        let (algorithm, count) = if index < TABLE.len() {
            (Algorithm::ALL[index], TABLE[index].kind.operations().len())
        } else {
            (Algorithm::REGISTERED[index - TABLE.len()], MAX_REGISTERED_OPERATIONS)
        };
        let mut operation = 0;
        while operation < count {
            entries[entry] = (algorithm, operation as u8);
            (operation, entry) = (operation + 1, entry + 1);
        }
        index += 1;
    }
    entries
};

impl Algorithm {
    /// Number of entries of a table that has an entry for each operation of each algorithm.
    pub const ENTRY_COUNT: usize = ENTRY_INDEXES.1;

    /// Returns the index of an operation's entry. An operation that the algorithm does not have shares one of the algorithm's entries.
    #[inline]
    pub fn entry_index(self, operation: Operation) -> usize {
        ENTRY_INDEXES.0[self as usize][operation as usize].into()
    }

    /// Returns the algorithm and the operation of the entry with this index, which is below [`ENTRY_COUNT`](Self::ENTRY_COUNT).
    pub fn of_entry(index: usize) -> (Algorithm, Operation) {
        let (algorithm, operation) = ENTRIES[index];
        let operations = algorithm.kind().operations();
        (algorithm, operations[usize::from(operation).min(operations.len() - 1)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_of_an_algorithm_has_its_own_entry() {
        let all = Algorithm::ALL
            .iter()
            .flat_map(|algorithm| algorithm.kind().operations().iter().map(|operation| (*algorithm, *operation)));
        let mut count = 0;
        for (index, (algorithm, operation)) in all.enumerate() {
            assert_eq!(algorithm.entry_index(operation), index);
            assert_eq!(Algorithm::of_entry(index), (algorithm, operation));
            count += 1;
        }
        assert_eq!(count + Algorithm::REGISTERED.len() * MAX_REGISTERED_OPERATIONS, Algorithm::ENTRY_COUNT);
    }

    #[test]
    fn operations_of_other_kinds_map_to_an_entry_of_the_same_algorithm() {
        let sha256 = Algorithm::Sha256.entry_index(Operation::Digest);
        assert_eq!(
            [Operation::Encrypt, Operation::Verify].map(|operation| Algorithm::Sha256.entry_index(operation)),
            [sha256; 2]
        );
    }
}
