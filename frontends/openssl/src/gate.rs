//! Sizes of requests, for who asks with every call: most requests that are too small need one comparison.

use gantry_core::route::SizeSet;

/// A set of sizes, and the smallest of these.
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
    /// Without that comparison: where the sizes are others with every call, it takes longer to make than it saves.
    #[inline(always)]
    pub(crate) fn passing(sizes: SizeSet) -> Self {
        Self { sizes, from: 0 }
    }

    #[inline(always)]
    pub(crate) fn has(self, bytes: usize) -> bool {
        !self.is_below(bytes) && self.sizes.has(bytes)
    }

    /// Whether it is the host's, and one comparison says so.
    #[inline(always)]
    pub(crate) fn is_below(self, bytes: usize) -> bool {
        bytes < self.from
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_lets_the_same_sizes_through() {
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
