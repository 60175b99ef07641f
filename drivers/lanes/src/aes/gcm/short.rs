//! A short message at once: all of its blocks are encrypted side by side, and one sum is its hash.
//!
//! The function is compiled for each CPU level by those that call it.

use super::ends::first_counter;
use super::*;

/// Most lines of data that are whole.
pub(super) const LINES: usize = 4;

/// The body of [`Short`].
///
/// # Safety
/// That of [`Short`]; the CPU has the instructions of `R`, and VPCLMULQDQ.
#[inline(always)]
pub(super) unsafe fn short<R: Wide, const DECRYPT: bool>(
    key: &GcmKey,
    nonce: &[u8; 12],
    associated: &[u8],
    data: Data<'_>,
    tag: &mut [u8; BLOCK],
) {
    const { assert!(LINES == 4) };
    // SAFETY: the caller's promise; there are as many lines.
    unsafe {
        match data.bytes / R::LINE {
            0 => lines::<R, 2, DECRYPT>(key, nonce, associated, data, tag),
            1 => lines::<R, 3, DECRYPT>(key, nonce, associated, data, tag),
            2 => lines::<R, 4, DECRYPT>(key, nonce, associated, data, tag),
            3 => lines::<R, 5, DECRYPT>(key, nonce, associated, data, tag),
            _ => lines::<R, 6, DECRYPT>(key, nonce, associated, data, tag),
        }
    }
}

/// A message of `N - 2` lines and less than another one.
///
/// # Safety
/// That of [`short()`].
#[inline(always)]
unsafe fn lines<R: Wide, const N: usize, const DECRYPT: bool>(
    key: &GcmKey,
    nonce: &[u8; 12],
    associated: &[u8],
    mut data: Data<'_>,
    tag: &mut [u8; BLOCK],
) {
    let [associated_bits, bits] = [associated.len(), data.bytes].map(|bytes| bytes as u128 * 8);
    let part = data.bytes % R::LINE;
    let mut to_come = (N - 2) * R::BLOCKS + part.div_ceil(BLOCK) + 1;
    // SAFETY: the caller's promise.
    unsafe {
        // The last one is the counter of the mask, and the others those of the data.
        let first = R::repeat(first_counter(nonce));
        let mut x = [first.turned(); N];
        for (r, x) in x[..N - 1].iter_mut().enumerate() {
            *x = first.numbered().counted(FIRST_OF_DATA - FIRST + (r * R::BLOCKS) as u32).turned();
        }
        let x = encrypted(x, &key.keys, key.keys.rounds);
        let mut sum = Sum::new(&key.powers);
        if !associated.is_empty() {
            let line = R::load_part(associated.as_ptr(), associated.len());
            sum.add(line.turned(), associated.len().div_ceil(BLOCK) + to_come);
        }
        for stream in &x[..N - 2] {
            let input = R::load(data.from.cast());
            let output = input.xor(*stream);
            output.store(data.to.cast());
            data.skip(R::LINE);
            sum.add(if DECRYPT { input } else { output }.turned(), to_come);
            to_come -= R::BLOCKS;
        }
        if part > 0 {
            let input = R::load_part(data.from, part);
            let output = input.xor(x[N - 2].first_bytes(part));
            output.store_part(data.to, part);
            sum.add(if DECRYPT { input } else { output }.turned(), to_come);
        }
        sum.add(R::from_first(Xmm::of(associated_bits << 64 | bits)), 1);
        let masked = R::from_first(sum.reduced()).turned().xor(x[N - 1]);
        masked.first().store(tag);
    }
}
