//! Whether the buffers of a call lie apart: addresses only, nothing is read or written.

use std::collections::TryReserveError;

/// Addresses from one to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Range {
    from: usize,
    to: usize,
}

impl Range {
    /// `len` bytes from an address on. They are memory, so they end before the last address.
    pub(crate) fn new(from: usize, len: usize) -> Self {
        Self { from, to: from.saturating_add(len) }
    }

    fn is_empty(self) -> bool {
        self.from == self.to
    }

    fn meets(self, other: Self) -> bool {
        self.from < other.to && other.from < self.to
    }

    fn with(self, other: Self) -> Self {
        Self { from: self.from.min(other.from), to: self.to.max(other.to) }
    }
}

/// The buffers of a call.
#[derive(Default)]
pub(crate) struct Ranges {
    written: Vec<Range>,
    read: Vec<Range>,
}

impl Ranges {
    /// Room for so many of each.
    pub(crate) fn with_room(written: usize, read: usize) -> Result<Self, TryReserveError> {
        let mut ranges = Self::default();
        ranges.written.try_reserve_exact(written)?;
        ranges.read.try_reserve_exact(read)?;
        Ok(ranges)
    }

    /// One that is written. What is read in its place is no range of its own.
    pub(crate) fn writes(&mut self, range: Range) {
        if !range.is_empty() {
            self.written.push(range);
        }
    }

    /// One that is only read.
    pub(crate) fn reads(&mut self, range: Range) {
        if !range.is_empty() {
            self.read.push(range);
        }
    }

    /// Whether nothing that is written is read or written through another range, too.
    pub(crate) fn are_apart(mut self) -> bool {
        // Most callers have their outputs in one piece, in order, and their inputs elsewhere.
        if !self.written.is_sorted() {
            self.written.sort_unstable();
        }
        if self.written.array_windows().any(|[one, next]| one.meets(*next)) {
            return false;
        }
        let whole = |ranges: &[Range]| ranges.iter().copied().reduce(Range::with);
        let (Some(written), Some(read)) = (whole(&self.written), whole(&self.read)) else { return true };
        if !written.meets(read) {
            return true;
        }
        // The first that ends behind the beginning of a range is the only one that can be the first to meet it.
        self.read.iter().all(|read| {
            let next = self.written.partition_point(|written| written.to <= read.from);
            self.written.get(next).is_none_or(|written| !written.meets(*read))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn are_apart(written: &[(usize, usize)], read: &[(usize, usize)]) -> bool {
        let mut ranges = Ranges::with_room(written.len(), read.len()).unwrap();
        for (from, len) in written {
            ranges.writes(Range::new(*from, *len));
        }
        for (from, len) in read {
            ranges.reads(Range::new(*from, *len));
        }
        ranges.are_apart()
    }

    #[test]
    fn buffers_that_are_written_are_apart_from_all_others() {
        assert!(are_apart(&[(10, 5), (15, 5), (2, 8)], &[(20, 5), (22, 5), (0, 2)]));
        assert!(!are_apart(&[(10, 5), (14, 5)], &[]), "two outputs");
        assert!(!are_apart(&[(10, 5), (10, 5)], &[]), "one output twice");
        assert!(!are_apart(&[(10, 5), (30, 5)], &[(0, 1), (16, 2), (34, 1)]), "an input in an output");
        assert!(!are_apart(&[(10, 5)], &[(0, 100)]), "an output in an input");
        assert!(are_apart(&[(10, 0), (12, 0)], &[(5, 20)]), "nothing is in no way of anything");
        assert!(!are_apart(&[(usize::MAX - 1, 9)], &[(usize::MAX - 1, 9)]), "the end of all addresses");
    }
}
