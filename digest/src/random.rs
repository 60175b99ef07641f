//! Reproducible random numbers for tests.

/// SplitMix64 (Steele, Lea, Flood 2014).
pub(crate) struct Random(core::cell::Cell<u64>);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(core::cell::Cell::new(seed))
    }

    pub(crate) fn next(&self) -> u64 {
        let state = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub(crate) fn below(&self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// The length of a message: mostly a few blocks, sometimes zero or many.
    pub(crate) fn length(&self) -> usize {
        match self.below(8) {
            0 => 0,
            1 => self.below(5000),
            2 => 64 * self.below(10),
            _ => self.below(300),
        }
    }

    pub(crate) fn bytes(&self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}
