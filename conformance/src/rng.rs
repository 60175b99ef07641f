//! Reproducible random numbers.

use gantry_core::Algorithm;

/// SplitMix64 (Steele, Lea, Flood 2014): one word of state, so that a seed is short enough to be printed and typed.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    /// Makes a generator. Equal seeds give equal values.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Makes an independent generator for one purpose of an algorithm, so that a case can be repeated without the cases before it. The
    /// numbers depend on the algorithm's name, so that cases stay the same when the table of algorithms grows.
    pub(crate) fn for_purpose(seed: u64, algorithm: Algorithm, purpose: u64) -> Self {
        // FNV-1a (Fowler, Noll, Vo).
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        let purpose = algorithm.name().bytes().fold(0xcbf2_9ce4_8422_2325, hash).wrapping_add(purpose);
        Self::new(Self::new(seed ^ purpose.wrapping_mul(0xd1b5_4a32_d192_ed03)).next())
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a value below `limit`, which is not 0.
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
