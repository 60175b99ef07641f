//! A set of sizes that every call checks. One comparison is enough for most requests that are too small for a device.

use gantry_core::route::SizeSet;

/// A set of sizes and its smallest member.
#[derive(Clone, Copy)]
pub(crate) struct Gate {
    sizes: SizeSet,
    from: usize,
}

impl From<SizeSet> for Gate {
    #[inline(always)]
    fn from(sizes: SizeSet) -> Self {
        Self { sizes, from: sizes.smallest() }
    }
}

impl Gate {
    /// Makes a gate without the comparison with the smallest size: if the set changes with every call, finding that size costs more
    /// than the comparison saves.
    #[inline(always)]
    pub(crate) fn passing(sizes: SizeSet) -> Self {
        Self { sizes, from: 0 }
    }

    #[inline(always)]
    pub(crate) fn has(self, bytes: usize) -> bool {
        !self.is_below(bytes) && self.sizes.has(bytes)
    }

    /// Returns true if one comparison is enough to know that the host serves this size.
    #[inline(always)]
    pub(crate) fn is_below(self, bytes: usize) -> bool {
        bytes < self.from
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_has_the_sizes_of_its_set() {
        for (sizes, shift) in [SizeSet::NONE, SizeSet::ALL, SizeSet::LARGE]
            .into_iter()
            .flat_map(|sizes| (0..64).map(move |at| (sizes, at)))
        {
            for bytes in [(1 << shift) - 1, 1 << shift, (1 << shift) + 1] {
                for gate in [Gate::from(sizes), Gate::passing(sizes)] {
                    assert_eq!(gate.has(bytes), sizes.has(bytes), "{sizes:?}, {bytes}");
                }
            }
        }
    }
}
