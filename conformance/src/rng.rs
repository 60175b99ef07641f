//! Randomness that can be repeated.

/// SplitMix64 (Steele, Lea, Flood 2014): one word of state, so that a seed is short enough to be printed and typed.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    /// The same seed gives the same values.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// An independent generator for one purpose, so that a case can be repeated without those before it.
    pub(crate) fn fork(seed: u64, purpose: u64) -> Self {
        Self::new(Self::new(seed ^ purpose.wrapping_mul(0xd1b5_4a32_d192_ed03)).next())
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A value below `limit`, which is not 0.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
        bytes
    }
}
