//! A short message in one step: all of its blocks are encrypted side by side, and its hash needs only one reduction.
//!
//! The function is inlined into callers, which are compiled for each CPU level.

use super::ends::first_counter;
use super::*;

/// Maximum number of whole lines of data.
pub(super) const MAX_LINES: usize = 4;

/// Implements [`ShortMessageFn`].
///
/// # Safety
/// As for [`ShortMessageFn`]. The CPU has the instructions of `R`, and VPCLMULQDQ.
#[inline(always)]
pub(super) unsafe fn short<R: WideRegister, const DECRYPT: bool>(
    key: &GcmKey,
    nonce: &[u8; 12],
    aad: &[u8],
    data: RawBuffers<'_>,
    tag: &mut [u8; BLOCK_LEN],
) {
    const { assert!(MAX_LINES == 4) };
    // SAFETY: the caller's promise; `data` has the number of whole lines that each call requires.
    unsafe {
        match data.bytes / R::LINE_BYTES {
            0 => process_lines::<R, 2, DECRYPT>(key, nonce, aad, data, tag),
            1 => process_lines::<R, 3, DECRYPT>(key, nonce, aad, data, tag),
            2 => process_lines::<R, 4, DECRYPT>(key, nonce, aad, data, tag),
            3 => process_lines::<R, 5, DECRYPT>(key, nonce, aad, data, tag),
            _ => process_lines::<R, 6, DECRYPT>(key, nonce, aad, data, tag),
        }
    }
}

/// Processes a message of `N - 2` whole lines and a partial line, which may be empty.
///
/// # Safety
/// As for [`short()`].
#[inline(always)]
unsafe fn process_lines<R: WideRegister, const N: usize, const DECRYPT: bool>(
    key: &GcmKey,
    nonce: &[u8; 12],
    aad: &[u8],
    mut data: RawBuffers<'_>,
    tag: &mut [u8; BLOCK_LEN],
) {
    let [aad_bits, data_bits] = [aad.len(), data.bytes].map(|bytes| bytes as u128 * 8);
    let part = data.bytes % R::LINE_BYTES;
    let mut remaining_blocks = (N - 2) * R::BLOCKS + part.div_ceil(BLOCK_LEN) + 1;
    // SAFETY: the caller's promise.
    unsafe {
        // The last register encrypts the counter of the mask. The others encrypt the counters of the data.
        let first = R::repeat(first_counter(nonce));
        let mut x = [first.reverse_bytes(); N];
        for (r, x) in x[..N - 1].iter_mut().enumerate() {
            *x = first
                .add_block_indices()
                .advance_counter(DATA_COUNTER - TAG_COUNTER + (r * R::BLOCKS) as u32)
                .reverse_bytes();
        }
        let x = encrypt_blocks(x, &key.keys, key.keys.rounds);
        let mut sum = Sum::new(&key.powers);
        if !aad.is_empty() {
            let line = R::load_part(aad.as_ptr(), aad.len());
            sum.add(line.reverse_bytes(), aad.len().div_ceil(BLOCK_LEN) + remaining_blocks);
        }
        for stream in &x[..N - 2] {
            let input = R::load(data.from.cast());
            let output = input.xor(*stream);
            output.store(data.to.cast());
            data.skip(R::LINE_BYTES);
            sum.add(if DECRYPT { input } else { output }.reverse_bytes(), remaining_blocks);
            remaining_blocks -= R::BLOCKS;
        }
        if part > 0 {
            let input = R::load_part(data.from, part);
            let output = input.xor(x[N - 2].first_bytes(part));
            output.store_part(data.to, part);
            sum.add(if DECRYPT { input } else { output }.reverse_bytes(), remaining_blocks);
        }
        sum.add(R::from_first(Xmm::from_u128(aad_bits << 64 | data_bits)), 1);
        let masked = R::from_first(sum.reduced()).reverse_bytes().xor(x[N - 1]);
        masked.first().store(tag);
    }
}
