//! Checks that the buffers of a call do not overlap. Only addresses are compared; nothing is read or written.

use std::collections::TryReserveError;

/// An address range. The address `end` is not part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Range {
    start: usize,
    end: usize,
}

impl Range {
    /// Returns the range of `len` bytes at `start`. If they exceed the address space, the range ends at the last address.
    pub(crate) fn new(start: usize, len: usize) -> Self {
        Self { start, end: start.saturating_add(len) }
    }

    fn is_empty(self) -> bool {
        self.start == self.end
    }

    fn overlaps(self, other: Self) -> bool {
        self.start < other.end && other.start < self.end
    }

    fn union(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// The buffers of a call.
#[derive(Default)]
pub(crate) struct Ranges {
    written: Vec<Range>,
    read: Vec<Range>,
}

impl Ranges {
    /// Reserves space for `written` and `read` ranges.
    pub(crate) fn with_capacity(written: usize, read: usize) -> Result<Self, TryReserveError> {
        let mut ranges = Self::default();
        ranges.written.try_reserve_exact(written)?;
        ranges.read.try_reserve_exact(read)?;
        Ok(ranges)
    }

    /// Adds a buffer that is written. Input processed in place is not added separately.
    pub(crate) fn add_written(&mut self, range: Range) {
        if !range.is_empty() {
            self.written.push(range);
        }
    }

    /// Adds a buffer that is only read.
    pub(crate) fn add_read(&mut self, range: Range) {
        if !range.is_empty() {
            self.read.push(range);
        }
    }

    /// Returns true if no written byte is also read or written through another range.
    pub(crate) fn are_disjoint(mut self) -> bool {
        // Frequent case: outputs are contiguous and in order, and inputs are elsewhere.
        if !self.written.is_sorted() {
            self.written.sort_unstable();
        }
        if self.written.array_windows().any(|[one, next]| one.overlaps(*next)) {
            return false;
        }
        let hull = |ranges: &[Range]| ranges.iter().copied().reduce(Range::union);
        let (Some(written), Some(read)) = (hull(&self.written), hull(&self.read)) else { return true };
        if !written.overlaps(read) {
            return true;
        }
        // Written ranges are disjoint and sorted. If any of them overlaps `read`, the first one that ends after the start of `read` does.
        self.read.iter().all(|read| {
            let next = self.written.partition_point(|written| written.end <= read.start);
            self.written.get(next).is_none_or(|written| !written.overlaps(*read))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn are_disjoint(written: &[(usize, usize)], read: &[(usize, usize)]) -> bool {
        let mut ranges = Ranges::with_capacity(written.len(), read.len()).unwrap();
        for (start, len) in written {
            ranges.add_written(Range::new(*start, *len));
        }
        for (start, len) in read {
            ranges.add_read(Range::new(*start, *len));
        }
        ranges.are_disjoint()
    }

    #[test]
    fn written_buffers_must_not_overlap_any_other() {
        assert!(are_disjoint(&[(10, 5), (15, 5), (2, 8)], &[(20, 5), (22, 5), (0, 2)]));
        assert!(!are_disjoint(&[(10, 5), (14, 5)], &[]), "two outputs");
        assert!(!are_disjoint(&[(10, 5), (10, 5)], &[]), "the same output twice");
        assert!(!are_disjoint(&[(10, 5), (30, 5)], &[(0, 1), (16, 2), (34, 1)]), "an input within an output");
        assert!(!are_disjoint(&[(10, 5)], &[(0, 100)]), "an output within an input");
        assert!(are_disjoint(&[(10, 0), (12, 0)], &[(5, 20)]), "empty buffers overlap nothing");
        assert!(!are_disjoint(&[(usize::MAX - 1, 9)], &[(usize::MAX - 1, 9)]), "the end of the address space");
    }
}
