//! A set of sizes that every call checks. One comparison is enough for most requests that are too small for a device.

use gantry_core::route::SizeSet;

/// A set of sizes and its smallest member.
#[derive(Clone, Copy)]
pub(crate) struct SizeFilter {
    sizes: SizeSet,
    smallest: usize,
}

impl From<SizeSet> for SizeFilter {
    #[inline(always)]
    fn from(sizes: SizeSet) -> Self {
        Self { sizes, smallest: sizes.smallest() }
    }
}

impl SizeFilter {
    /// Makes a filter without the comparison with the smallest size: if the set changes with every call, finding that size costs more
    /// than the comparison saves.
    #[inline(always)]
    pub(crate) fn without_shortcut(sizes: SizeSet) -> Self {
        Self { sizes, smallest: 0 }
    }

    #[inline(always)]
    pub(crate) fn has(self, bytes: usize) -> bool {
        !self.is_below(bytes) && self.sizes.has(bytes)
    }

    /// Returns true if one comparison is enough to know that the default provider serves this size.
    #[inline(always)]
    pub(crate) fn is_below(self, bytes: usize) -> bool {
        bytes < self.smallest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_has_the_sizes_of_its_set() {
        for (sizes, shift) in [SizeSet::NONE, SizeSet::ALL, SizeSet::LARGE]
            .into_iter()
            .flat_map(|sizes| (0..64).map(move |at| (sizes, at)))
        {
            for bytes in [(1 << shift) - 1, 1 << shift, (1 << shift) + 1] {
                for filter in [SizeFilter::from(sizes), SizeFilter::without_shortcut(sizes)] {
                    assert_eq!(filter.has(bytes), sizes.has(bytes), "{sizes:?}, {bytes}");
                }
            }
        }
    }
}
