//! AES (FIPS 197): keys, and the modes that have kernels here.
//!
//! Kernels need AES instructions: tables would leak the key through the cache.

/// Repeats the body for each round but the last. On ARM the rounds are unrolled: in a loop, the compiler adds each key with a separate
/// instruction, although AESE can add it. On x86-64 both forms are equally fast, and a loop is smaller.
macro_rules! each_round {
    ($rounds:ident, |$round:ident| $body:block) => {
        #[cfg(target_arch = "x86_64")]
        for $round in 1..$rounds $body
        #[cfg(target_arch = "aarch64")]
        each_round!(@ $rounds, $round, $body, 1 2 3 4 5 6 7 8 9 10 11 12 13)
    };
    (@ $rounds:ident, $round:ident, $body:block, $($number:literal)*) => { $(
        if $number < $rounds {
            let $round = $number;
            $body
        }
    )* };
}

pub(crate) mod buffers;
pub(crate) mod chain;
#[cfg(target_arch = "x86_64")]
pub(crate) mod gcm;
#[cfg(target_arch = "x86_64")]
mod ghash;
pub(crate) mod independent;
mod keys;
mod register;
pub(crate) mod xts;

use gantry_digest::Level;
use zeroize::Zeroize;

/// Bytes of a block.
pub(crate) const BLOCK_LEN: usize = 16;

/// The round keys of one key (FIPS 197, 5.2). Aligned so that no round key crosses a cache line: the kernels keep reading the round keys
/// from memory.
#[repr(C, align(16))]
pub(crate) struct RoundKeys {
    keys: [[u8; BLOCK_LEN]; 15],
    rounds: usize,
}

impl RoundKeys {
    /// Expands a key of 16, 24 or 32 bytes. Returns `None` for other lengths.
    pub(crate) fn new(aes: Aes, key: &[u8]) -> Option<Box<Self>> {
        let mut schedule = Box::new(Self::zeroed());
        schedule.expand(aes, key).then_some(schedule)
    }

    /// Returns round keys that are all zero. The number of rounds is 0.
    pub(crate) fn zeroed() -> Self {
        RoundKeys { keys: [[0; BLOCK_LEN]; 15], rounds: 0 }
    }

    /// Expands a key of 16, 24 or 32 bytes in place, because moving a value leaves copies behind. Returns false for other lengths.
    pub(crate) fn expand(&mut self, aes: Aes, key: &[u8]) -> bool {
        let words = key.len() / 4;
        if ![16, 24, 32].contains(&key.len()) {
            return false;
        }
        let rounds = words + 6;
        self.rounds = rounds;
        let bytes = self.keys.as_flattened_mut();
        bytes[..key.len()].copy_from_slice(key);
        // Words are little-endian here, so the standard's rotation to the left becomes a rotation to the right.
        let (w, _) = bytes.as_chunks_mut::<4>();
        let mut round_constant = 1u32;
        for i in words..4 * (rounds + 1) {
            let mut last = u32::from_le_bytes(w[i - 1]);
            if i % words == 0 {
                last = aes.substitute(last.rotate_right(8)) ^ round_constant;
                round_constant = (round_constant << 1) ^ if round_constant & 0x80 == 0 { 0 } else { 0x11b };
            } else if words == 8 && i % words == 4 {
                last = aes.substitute(last);
            }
            w[i] = (u32::from_le_bytes(w[i - words]) ^ last).to_le_bytes();
        }
        true
    }

    /// Returns the round keys of the equivalent inverse cipher (FIPS 197, 5.3.5), in the order of use.
    pub(crate) fn inverse(&self, aes: Aes) -> Box<Self> {
        let mut inverse = Box::new(RoundKeys { keys: [[0; BLOCK_LEN]; 15], rounds: self.rounds });
        let last_first = self.keys[..=self.rounds].iter().rev();
        for (round, (inverse, key)) in inverse.keys.iter_mut().zip(last_first).enumerate() {
            *inverse = *key;
            if round > 0 && round < self.rounds {
                aes.inverse_mix_columns(inverse);
            }
        }
        inverse
    }

    /// Returns the round keys in order.
    pub(crate) fn as_blocks(&self) -> &[[u8; BLOCK_LEN]; 15] {
        &self.keys
    }

    /// Returns the secrets that a chain must not leave on the stack: the keys, and sums of keys, blocks and chaining values. `blocks`
    /// holds pairs of a chaining value and the block of data that is added to it.
    #[cfg(all(test, target_arch = "x86_64"))]
    pub(crate) fn secrets_of_chains(
        &self,
        blocks: impl IntoIterator<Item = ([u8; BLOCK_LEN], [u8; BLOCK_LEN])>,
    ) -> Vec<Vec<u8>> {
        let sum = |a: [u8; BLOCK_LEN], b: [u8; BLOCK_LEN]| core::array::from_fn::<u8, BLOCK_LEN, _>(|i| a[i] ^ b[i]);
        let ends = sum(self.keys[0], self.keys[self.rounds]);
        let with = blocks.into_iter().flat_map(|(chain, block)| {
            let first = sum(block, self.keys[0]);
            [first, sum(chain, first), sum(block, ends)]
        });
        self.keys.into_iter().chain([ends]).chain(with).map(|secret| secret.to_vec()).collect()
    }

    /// Returns true if `other` has as many rounds, so that a kernel for these keys also accepts `other`.
    pub(crate) fn has_same_length(&self, other: &RoundKeys) -> bool {
        self.rounds == other.rounds
    }
}

impl Drop for RoundKeys {
    fn drop(&mut self) {
        self.keys.zeroize();
    }
}

/// Proof that this CPU has AES instructions; made only by [`Aes::of`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Aes(#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "one set of kernels"))] Level);

impl Aes {
    /// Returns `None` if the CPU has no AES instructions.
    pub(crate) fn of(level: Level) -> Option<Aes> {
        level.aes().then_some(Aes(level))
    }

    /// Computes SubWord of FIPS 197.
    #[allow(clippy::unused_self, reason = "`self` proves that the CPU has the instructions")]
    fn substitute(self, word: u32) -> u32 {
        // SAFETY: `self` proves the instructions.
        unsafe { register::substitute(word) }
    }

    /// Computes InvMixColumns of FIPS 197.
    #[allow(clippy::unused_self, reason = "`self` proves that the CPU has the instructions")]
    fn inverse_mix_columns(self, block: &mut [u8; BLOCK_LEN]) {
        // SAFETY: `self` proves the instructions.
        unsafe { register::inverse_mix_columns(block) }
    }
}

/// Returns random keys of one random length: a single key in half of the calls, because most batches belong to one session.
#[cfg(test)]
pub(crate) fn keys_of_one_length<K>(random: &crate::random::Random, new: impl Fn(&[u8]) -> Option<K>) -> Vec<K> {
    let length = [16, 24, 32][random.below(3)];
    let count = if random.below(2) == 0 { 1 } else { 1 + random.below(40) };
    (0..count).map(|_| new(&random.bytes(length)).unwrap()).collect()
}

/// Returns the levels that have AES instructions. Panics if there are none.
#[cfg(test)]
pub(crate) fn every_aes() -> Vec<Aes> {
    let found: Vec<Aes> = gantry_digest::internal::every_level().into_iter().filter_map(Aes::of).collect();
    assert!(!found.is_empty(), "this CPU has no AES instructions: nothing was tested");
    found
}
