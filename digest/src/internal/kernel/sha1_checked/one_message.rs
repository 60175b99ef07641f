//! One message: conditions depend on its blocks and not on chaining values, so the conditions of several blocks are tested at once.

use core::array;
use core::ops::Range;

use super::counterpart::{DIGEST_WORDS, SuspectBlock};
use super::{conditions, copy_lane, lanes_with_any};
use crate::internal::kernel::sha1::{STEPS, Sha1};
use crate::internal::kernel::{CompressKernel, Compression, MAX_HASH_LANES, Segment};
use crate::internal::vector::Vector;

/// From this number of blocks on, testing them side by side is faster than one by one.
const BREAK_EVEN: usize = 2;

/// Advances one message with `sha1`, a kernel for one message.
///
/// # Safety
/// As for [`CompressKernel`] of [`Sha1Checked`](super::Sha1Checked) and of `sha1`, with one lane, and the CPU has the instructions of `V`.
#[inline(always)]
pub(crate) unsafe fn one_message<V: Vector<Word = u32>>(
    state: *mut u32,
    segments: &[Segment],
    sha1: CompressKernel<Sha1>,
) {
    let mut blocks = segments.iter().flat_map(|segment| {
        // SAFETY: the caller guarantees one pointer for each segment, to its blocks.
        let message = unsafe { *segment.messages };
        (0..segment.blocks).map(move |block| message.wrapping_add(block * Sha1::BLOCK_SIZE))
    });
    loop {
        let (mut at, mut count) = ([core::ptr::null(); MAX_HASH_LANES], 0);
        for (place, block) in at[..V::LANES].iter_mut().zip(&mut blocks) {
            *place = block;
            count += 1;
        }
        // SAFETY: the caller guarantees the instructions, the state and the blocks. Lanes beyond the last block repeat the first.
        unsafe {
            if count == 0 {
                return;
            } else if count < BREAK_EVEN {
                at[..count].iter().for_each(|block| advance_blocks::<u32>(state, &[*block], 1, sha1));
            } else {
                let first = at[0];
                at[count..].fill(first);
                advance_blocks::<V>(state, &at, count, sha1);
            }
        }
    }
}

/// Advances a message over its next `count` blocks, at most one for each lane.
///
/// # Safety
/// As for [`one_message`], with a pointer to a block for each lane.
#[inline(always)]
unsafe fn advance_blocks<V: Vector<Word = u32>>(
    state: *mut u32,
    at: &[*const u8],
    count: usize,
    sha1: CompressKernel<Sha1>,
) {
    // SAFETY: the caller guarantees the instructions, the state and the blocks.
    unsafe {
        let words = expand(V::gather(at.as_ptr(), 0, true));
        let candidates = conditions::candidates(&words);
        let suspect_lanes = lanes_with_any(&candidates);
        let segments: [_; MAX_HASH_LANES] =
            array::from_fn(|lane| Segment { messages: at.as_ptr().wrapping_add(lane), blocks: 1 });
        let run = |blocks: Range<usize>| {
            if !blocks.is_empty() {
                sha1(state, &segments[blocks], None);
            }
        };
        let chain = || state.cast::<[u32; DIGEST_WORDS]>().read();
        let mut next = 0;
        for lane in (0..count).filter(|lane| suspect_lanes[*lane] != 0) {
            let mut suspect = SuspectBlock::default();
            run(next..lane);
            suspect.chain_before = chain();
            run(lane..lane + 1);
            suspect.chain_after = chain();
            copy_lane(&words, lane, &mut suspect.words);
            copy_lane(&candidates, lane, &mut suspect.candidates);
            *state.add(DIGEST_WORDS) |= u32::from(suspect.collides());
            next = lane + 1;
        }
        run(next..count);
    }
}

/// Returns the words of all steps (FIPS 180-4, 6.1.2). Takes the words of the block.
#[inline(always)]
fn expand<V: Vector<Word = u32>>(block: [V; 16]) -> [V; STEPS] {
    let mut words = [block[0]; STEPS];
    words[..16].copy_from_slice(&block);
    for t in 16..STEPS {
        words[t] = words[t - 3].xor3(words[t - 8], words[t - 14]).xor(words[t - 16]).rotate_left::<1>();
    }
    words
}
