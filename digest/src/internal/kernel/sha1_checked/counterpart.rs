//! The disturbance vectors of attacks (Manuel, "Classification and generation of disturbance vectors for collision attacks against SHA-1",
//! 2011), and the compression of a block's counterpart.

use core::array;
use core::ops::Range;

use crate::internal::kernel::sha1::{K, STEPS};

/// Number of words of a digest, and of the state between two steps.
pub(super) const DIGEST_WORDS: usize = 5;

/// The lowest K of a disturbance vector; `LAST_K` is the highest. K is the first of the sixteen steps that define a vector.
pub(super) const FIRST_K: usize = 43;
const LAST_K: usize = 56;

/// Returns a step before which a block and its counterpart have equal states, if they differ by a vector with K = `k`.
fn middle_step(k: usize) -> usize {
    if k < 50 { 58 } else { 65 }
}

/// Disturbance vectors of one type and bit, with several K.
#[derive(Clone, Copy)]
pub(super) struct Group {
    /// The differences of the vector with K = [`LAST_K`] and bit 0; `bit` is the rotation of these differences to the left.
    differences: &'static Differences,
    bit: u32,
    /// Bit `K - FIRST_K` is set if the group has a vector with this K.
    pub(super) k_set: u32,
}

/// The 32 disturbance vectors of the most probable attacks, as in sha1collisiondetection.
pub(super) const GROUPS: [Group; 4] = [
    Group { differences: &TYPE_1, bit: 0, k_set: k_set(43, 52) },
    Group { differences: &TYPE_1, bit: 2, k_set: k_set(46, 51) },
    Group { differences: &TYPE_2, bit: 0, k_set: k_set(45, 56) },
    Group { differences: &TYPE_2, bit: 2, k_set: k_set(46, 46) | k_set(49, 51) },
];

/// Returns the set of every K from `first` to `last`: bit `K - FIRST_K` is set for each.
pub(super) const fn k_set(first: usize, last: usize) -> u32 {
    ((1 << (last - first + 1)) - 1) << (first - FIRST_K)
}

/// XOR differences between the words of a block and of its counterpart: the difference of step `t` is at index `t + LAST_K - K`.
type Differences = [u32; STEPS + LAST_K - FIRST_K];

/// Type I: one disturbance in step K + 15, and none in the fifteen steps before.
static TYPE_1: Differences = differences(&[(15, 0)]);
/// Type II: disturbances in the steps K + 1, K + 3 and K + 15, and none in the other steps from K to K + 15.
static TYPE_2: Differences = differences(&[(1, 31), (3, 31), (15, 0)]);

/// Returns the differences for K = [`LAST_K`]. Takes the disturbances in the sixteen steps from K on, each as its step minus K and its bit.
const fn differences(disturbances: &[(usize, u32)]) -> Differences {
    /// A disturbance is corrected by differences in this number of steps after it.
    const CORRECTIONS: usize = 5;
    let mut vector = [0u32; CORRECTIONS + STEPS + LAST_K - FIRST_K];
    let first = CORRECTIONS + LAST_K;
    let mut i = 0;
    while i < disturbances.len() {
        let (step, bit) = disturbances[i];
        vector[first + step] = 1 << bit;
        i += 1;
    }
    // The values of sixteen steps determine all other values, as the message words of sixteen steps do (FIPS 180-4, 6.1.2).
    let mut t = first + 16;
    while t < vector.len() {
        vector[t] = (vector[t - 3] ^ vector[t - 8] ^ vector[t - 14] ^ vector[t - 16]).rotate_left(1);
        t += 1;
    }
    t = first;
    while t > 0 {
        t -= 1;
        vector[t] = vector[t + 16].rotate_right(1) ^ vector[t + 13] ^ vector[t + 8] ^ vector[t + 2];
    }
    let mut differences = [0; _];
    t = CORRECTIONS;
    while t < vector.len() {
        let cde = vector[t - 3] ^ vector[t - 4] ^ vector[t - 5];
        differences[t - CORRECTIONS] = vector[t] ^ vector[t - 1].rotate_left(5) ^ vector[t - 2] ^ cde.rotate_left(30);
        t += 1;
    }
    differences
}

impl Group {
    /// Returns the differences of all steps for the vector with K = `k`.
    fn differences(&self, k: usize) -> [u32; STEPS] {
        let from = &self.differences[LAST_K - k..];
        array::from_fn(|t| from[t].rotate_left(self.bit))
    }
}

/// Yields every K whose bit `K - FIRST_K` is set in `k_set`.
fn each_k(mut k_set: u32) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let place = k_set.trailing_zeros();
        k_set &= k_set.checked_sub(1)?;
        Some(FIRST_K + place as usize)
    })
}

/// A block that may belong to a collision.
pub(super) struct SuspectBlock {
    pub(super) chain_before: [u32; DIGEST_WORDS],
    pub(super) chain_after: [u32; DIGEST_WORDS],
    /// The message words of all steps.
    pub(super) words: [u32; STEPS],
    /// The vectors that may lead to the counterpart: for each group, bit `K - FIRST_K` is set if the vector with this K may.
    pub(super) candidates: [u32; GROUPS.len()],
}

impl Default for SuspectBlock {
    fn default() -> Self {
        SuspectBlock { chain_before: [0; _], chain_after: [0; _], words: [0; _], candidates: [0; _] }
    }
}

impl SuspectBlock {
    /// Returns true if the counterpart of a candidate ends with the same chaining value as the block.
    #[inline(never)]
    pub(super) fn collides(&self) -> bool {
        let mut groups = GROUPS.iter().zip(self.candidates);
        groups.any(|(group, candidates)| {
            each_k(candidates).any(|k| self.counterpart_chain_after(group, k) == self.chain_after)
        })
    }

    /// The chaining value after the counterpart. Starts from the state in the middle, which both blocks share: undoes the counterpart's
    /// steps before the middle, and does its steps from the middle on.
    fn counterpart_chain_after(&self, group: &Group, k: usize) -> [u32; DIGEST_WORDS] {
        let middle = middle_step(k);
        let last = array::from_fn(|i| self.chain_after[i].wrapping_sub(self.chain_before[i]));
        let state = state_before(last, &self.words, middle..STEPS);
        let mut words = group.differences(k);
        words.iter_mut().zip(&self.words).for_each(|(word, own)| *word ^= own);
        let (before, last) = (state_before(state, &words, 0..middle), state_after(state, &words, middle..STEPS));
        array::from_fn(|i| before[i].wrapping_add(last[i]))
    }
}

/// Returns the state after the given steps. Takes the state before them.
fn state_after(mut state: [u32; DIGEST_WORDS], words: &[u32; STEPS], steps: Range<usize>) -> [u32; DIGEST_WORDS] {
    // A loop for each function, without branches between the steps.
    macro_rules! round {
        ($round:literal) => {
            for word in words_in_round(words, &steps, $round) {
                state = step::<$round>(state, *word);
            }
        };
    }
    round!(0);
    round!(1);
    round!(2);
    round!(3);
    state
}

/// Returns the state before the given steps. Takes the state after them.
fn state_before(mut state: [u32; DIGEST_WORDS], words: &[u32; STEPS], steps: Range<usize>) -> [u32; DIGEST_WORDS] {
    macro_rules! round {
        ($round:literal) => {
            for word in words_in_round(words, &steps, $round).iter().rev() {
                state = undo_step::<$round>(state, *word);
            }
        };
    }
    round!(3);
    round!(2);
    round!(1);
    round!(0);
    state
}

/// Returns the words of the given steps that lie in round `round`, counted from 0. A round has twenty steps.
fn words_in_round<'w>(words: &'w [u32; STEPS], steps: &Range<usize>, round: usize) -> &'w [u32] {
    words.get(steps.start.max(20 * round)..steps.end.min(20 * round + 20)).unwrap_or_default()
}

/// A step (FIPS 180-4, 6.1.2).
fn step<const ROUND: usize>([a, b, c, d, e]: [u32; DIGEST_WORDS], word: u32) -> [u32; DIGEST_WORDS] {
    let sum = e.wrapping_add(word).wrapping_add(round_function::<ROUND>(b, c, d));
    [sum.wrapping_add(a.rotate_left(5)), a, b.rotate_left(30), c, d]
}

/// The state before a step. Takes the state after it.
fn undo_step<const ROUND: usize>([new, a, turned, c, d]: [u32; DIGEST_WORDS], word: u32) -> [u32; DIGEST_WORDS] {
    let b = turned.rotate_right(30);
    let sum = word.wrapping_add(round_function::<ROUND>(b, c, d)).wrapping_add(a.rotate_left(5));
    [a, b, c, d, new.wrapping_sub(sum)]
}

/// The function of three words in a round of twenty steps (FIPS 180-4, 4.1.1), with the round's constant added.
fn round_function<const ROUND: usize>(b: u32, c: u32, d: u32) -> u32 {
    let function = match ROUND {
        0 => (c ^ d) & b ^ d,
        2 => (b ^ c) & (b ^ d) ^ b,
        _ => b ^ c ^ d,
    };
    function.wrapping_add(K[ROUND])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Algorithm, digest_many};

    /// Compares with the digest of the array `sha1_dvs` in `ubc_check.c` of sha1collisiondetection. The array has the words of all steps,
    /// ordered by type, bit and K.
    #[test]
    fn differences_are_those_of_sha1collisiondetection() {
        let mut table = Vec::new();
        for group in GROUPS {
            table.extend(each_k(group.k_set).flat_map(|k| group.differences(k)).flat_map(u32::to_be_bytes));
        }
        let mut digest = [0; 32];
        digest_many(Algorithm::Sha256, &[&table], &mut digest).unwrap();
        assert_eq!(table.len(), 32 * STEPS * 4);
        assert_eq!(digest[..8], [0xb2, 0x91, 0x85, 0x5c, 0x6f, 0xcf, 0x01, 0x86]);
    }
}
