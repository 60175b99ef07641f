use std::num::NonZero;

/// SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Debug, Default)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Returns true once in `times` calls on average, never for `None`.
    pub(crate) fn one_in(&mut self, times: Option<NonZero<u32>>) -> bool {
        times.is_some_and(|times| self.below(u64::from(times.get())) == 0)
    }
}
