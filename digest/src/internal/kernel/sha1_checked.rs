//! SHA-1 with collision detection (Stevens and Shumow, "Speeding up detection of SHA-1 collision attacks using unavoidable attack
//! conditions", USENIX Security 2017).
//!
//! In every known attack, a block and its counterpart in the other message differ by one of 32 differences, each defined by a disturbance
//! vector. So a block has only 32 possible counterparts. If block and counterpart end with the same chaining value, the block belongs to a
//! collision. Every such block meets certain conditions, which all lanes test at once. If a block meets all conditions of a vector, as
//! about one random block of twenty does, its counterpart is compressed.

mod conditions;
mod counterpart;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod one_message;

use super::sha1::{self, STEPS, rounds};
use super::{Compression, MAX_HASH_LANES, NextBlock};
use crate::internal::vector::Vector;
use counterpart::{DIGEST_WORDS, GROUPS, SuspectBlock};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) use one_message::one_message;

/// SHA-1, with a sixth word of the chaining value: 1 after a block of a collision.
pub(crate) struct Sha1Checked;

/// The chaining value before the first block.
pub(crate) const INITIAL: [u32; 8] = sha1::INITIAL;

impl Compression for Sha1Checked {
    type Word = u32;
    type Block = [u8; 64];
    const WORDS: usize = DIGEST_WORDS + 1;
    const BIG_ENDIAN: bool = true;
    const LENGTH_FIELD_SIZE: usize = 8;

    #[inline(always)]
    unsafe fn compress<V: Vector<Word = u32>>(state: &mut [V; 8], words: [V; 16], next_block: &mut NextBlock<Self, V>) {
        let (before, mut schedule) = (*state, [words[0]; STEPS]);
        // SAFETY: the caller guarantees the instructions and the next block. A row has room for the lanes of any vector.
        unsafe {
            rounds(state, words, next_block, &mut schedule);
            let candidates = conditions::candidates(&schedule);
            let mut suspects = lanes_with_any(&candidates);
            if suspects == [0; MAX_HASH_LANES] {
                return;
            }
            for (lane, suspects) in suspects.iter_mut().enumerate().filter(|(_, suspects)| **suspects != 0) {
                let mut suspect = SuspectBlock::default();
                copy_lane(&before[..DIGEST_WORDS], lane, &mut suspect.chain_before);
                copy_lane(&schedule, lane, &mut suspect.words);
                copy_lane(&state[..DIGEST_WORDS], lane, &mut suspect.chain_after);
                copy_lane(&candidates, lane, &mut suspect.candidates);
                *suspects = u32::from(suspect.collides());
            }
            state[DIGEST_WORDS] = state[DIGEST_WORDS].or(V::load(suspects.as_ptr()));
        }
    }
}

/// Returns the union of the groups' candidates, for each lane.
///
/// # Safety
/// A vector has at most [`MAX_HASH_LANES`] lanes.
#[inline(always)]
unsafe fn lanes_with_any<V: Vector<Word = u32>>([a, b, c, d]: &[V; GROUPS.len()]) -> [u32; MAX_HASH_LANES] {
    let mut any = [0; MAX_HASH_LANES];
    // SAFETY: guaranteed by the caller.
    unsafe { a.or(*b).or(c.or(*d)).store(any.as_mut_ptr()) };
    any
}

/// Copies the words of one lane.
#[inline(always)]
fn copy_lane<V: Vector<Word = u32>>(vectors: &[V], lane: usize, words: &mut [u32]) {
    for (vector, word) in vectors.iter().zip(words) {
        *word = vector.lane(lane);
    }
}
