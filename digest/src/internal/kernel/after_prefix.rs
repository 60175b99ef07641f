//! SHA-256 of many short messages after one chaining value, in one call.
//!
//! Other kernels are called for each group of messages. Their caller first fills rows with chaining values, and afterwards turns rows
//! into digests. With one block per message these steps would take a third of the time.

use core::marker::PhantomData;

use super::sha2::Sha256;
use super::{Compression, MAX_HASH_LANES, NextBlock};
use crate::internal::vector::Vector;

/// Padded messages at equal distances, and the places of their digests.
#[derive(Clone, Copy)]
pub struct StridedMessages {
    pub(crate) from: *const u8,
    /// Bytes from the start of one message to the start of the next.
    pub(crate) from_stride: usize,
    /// Blocks of each message.
    pub(crate) blocks: usize,
    pub(crate) to: *mut u8,
    /// Bytes from the start of one digest to the start of the next.
    pub(crate) to_stride: usize,
    /// Bytes of a digest: 8, 16, 24 or 32.
    pub(crate) digest_size: usize,
    pub(crate) count: usize,
}

/// Digests messages after a chaining value.
///
/// # Safety
/// The CPU supports the level the function was compiled for. All messages are readable, and all places of digests are writable. A place
/// may overlap only the message whose digest is written there.
pub type PrefixedKernel<H> = unsafe fn(chain: &[<H as Compression>::Word; 8], messages: &StridedMessages);

impl StridedMessages {
    /// Returns the addresses of `N` messages, from the message `first` on. Lanes beyond the last message get `first` again.
    ///
    /// # Safety
    /// `first` is below `count`.
    #[inline(always)]
    pub(super) unsafe fn group<const N: usize>(&self, first: usize) -> [*const u8; N] {
        let left = self.count - first;
        // SAFETY: each index is below `count`.
        core::array::from_fn(|lane| unsafe {
            self.from.add((first + if lane < left { lane } else { 0 }) * self.from_stride)
        })
    }
}

/// [`PrefixedKernel`], with `V::LANES` messages at a time.
///
/// # Safety
/// As for `PrefixedKernel`, and the CPU has the instructions of `V`.
#[inline(always)]
pub(crate) unsafe fn digest_strided<V: Vector<Word = u32>>(chain: &[u32; 8], messages: &StridedMessages) {
    let StridedMessages { blocks, to, to_stride, digest_size, count, .. } = *messages;
    let mut rows = [[0; MAX_HASH_LANES]; 8];
    // SAFETY: the caller promises the instructions, and `count` messages and places. A row has a word for each of at most `MAX_HASH_LANES`
    // lanes.
    unsafe {
        let first = chain.map(|word| V::splat(word));
        let mut at: [_; MAX_HASH_LANES] = messages.group(0);
        let mut next_block = NextBlock::<Sha256, V> { block: None, quarters: [[first[0]; 4]; 4], hash: PhantomData };
        for group in (0..count).step_by(V::LANES) {
            let mut state = first;
            let next = group + V::LANES;
            let next_at = if next < count { messages.group(next) } else { at };
            for block in 0..blocks {
                let words =
                    next_block.words().unwrap_or_else(|| V::gather(at.as_ptr(), block * Sha256::BLOCK_SIZE, true));
                // Between the rounds of a group's last block, the first block of the next group is fetched.
                next_block.block = if block + 1 < blocks {
                    Some((at.as_ptr(), (block + 1) * Sha256::BLOCK_SIZE))
                } else {
                    (next < count).then_some((next_at.as_ptr(), 0))
                };
                Sha256::compress(&mut state, words, &mut next_block);
            }
            for (word, row) in state.iter().zip(&mut rows).take(digest_size / size_of::<u32>()) {
                word.store(row.as_mut_ptr());
            }
            for lane in 0..V::LANES.min(count - group) {
                let to = to.add((group + lane) * to_stride);
                for (i, [high, low]) in rows.as_chunks().0.iter().enumerate().take(digest_size / size_of::<u64>()) {
                    let both = u64::from(high[lane]) << 32 | u64::from(low[lane]);
                    to.add(8 * i).cast::<u64>().write_unaligned(both.to_be());
                }
            }
            at = next_at;
        }
    }
    rows.as_flattened_mut().fill(0);
    core::hint::black_box(&mut rows);
}
