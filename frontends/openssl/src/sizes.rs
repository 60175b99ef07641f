//! Sizes of requests, as sets that one comparison or one bit tells apart.

/// Requests of so many bytes and more, as a power of two, are like each other.
pub(crate) const HIGHEST: u32 = 14;
/// Sizes that are told apart: each up to twice the one before.
pub(crate) const CLASSES: usize = HIGHEST as usize + 1;

/// Requests of fewer bytes are the host's without a question as long as nothing is known: what a route costs is more than there is to
/// gain with nearly all of them.
pub(crate) const SMALLEST: usize = 1 << LOWEST;
const LOWEST: u32 = 8;

/// The class of a size.
#[inline(always)]
pub(crate) fn class(bytes: usize) -> usize {
    (bytes | 1).ilog2().min(HIGHEST) as usize
}

/// Some sizes of requests, up to a factor of two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sizes(pub(crate) u32);

impl Sizes {
    pub(crate) const NONE: Sizes = Sizes(0);
    pub(crate) const ALL: Sizes = Sizes((2 << HIGHEST) - 1);
    /// Those of which it may pay to ask.
    pub(crate) const LARGE: Sizes = Sizes((2 << HIGHEST) - (1 << LOWEST));

    #[inline(always)]
    pub(crate) fn has(self, bytes: usize) -> bool {
        self.0 >> class(bytes) & 1 != 0
    }

    /// The first number of bytes that is among them.
    #[inline(always)]
    pub(crate) fn smallest(self) -> usize {
        match self.0.trailing_zeros() {
            0 => 0,
            u32::BITS => usize::MAX,
            first => 1 << first,
        }
    }
}

/// The same, for who asks with every call: most requests that are too small need one comparison.
#[derive(Clone, Copy)]
pub(crate) struct Gate {
    sizes: Sizes,
    /// Nothing below is among them.
    from: usize,
}

impl From<Sizes> for Gate {
    #[inline(always)]
    fn from(sizes: Sizes) -> Self {
        Self { sizes, from: sizes.smallest() }
    }
}

impl Gate {
    /// Without that comparison: where the sizes are others with every call, it takes longer to make than it saves.
    #[inline(always)]
    pub(crate) fn passing(sizes: Sizes) -> Self {
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
        let several = [Sizes::NONE, Sizes::ALL, Sizes::LARGE, Sizes(1 << HIGHEST), Sizes(0b1010), Sizes(1)];
        for (sizes, shift) in several.into_iter().flat_map(|sizes| (0..64).map(move |shift| (sizes, shift))) {
            for bytes in [(1 << shift) - 1, 1 << shift, (1 << shift) + 1] {
                for gate in [Gate::from(sizes), Gate::passing(sizes)] {
                    assert_eq!(gate.has(bytes), sizes.has(bytes), "{sizes:?}, {bytes}");
                }
            }
        }
    }

    #[test]
    fn large_requests_are_like_each_other() {
        let largest = Sizes(1 << HIGHEST);
        assert!(largest.has(1 << 14) && largest.has(usize::MAX) && !largest.has((1 << 14) - 1));
        assert!(Sizes::LARGE.has(SMALLEST) && !Sizes::LARGE.has(SMALLEST - 1) && Sizes::ALL.has(0));
    }
}
