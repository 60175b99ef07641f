//! SHA-256 of pairs of digests. A pair fills one block, so the second block is padding alone: its words are constants.

use super::sha2::{INITIAL_256, K256, Sha256};
use super::{Compression, NextBlock};
use crate::internal::vector::Vector;
use core::marker::PhantomData;

/// Bytes of a digest.
pub(crate) const DIGEST_SIZE: usize = 32;

/// Digests pairs that lie one after the other. With `twice`, digests each digest again.
///
/// # Safety
/// The CPU supports the level the function was compiled for. `pairs` is readable for `count` pairs of 64 bytes, and `to` is writable for
/// `count` digests. Pairs and digests may overlap if `to` is not above `pairs`.
pub(crate) type NodeKernel = unsafe fn(pairs: *const u8, to: *mut u8, count: usize, twice: bool);

/// The block after 64 bytes: a 1 bit, zeros, and the length in bits.
const PADDING: [u32; 16] = padding(64);

/// The block of one digest: zeros in place of the digest, then the padding.
pub(super) const AFTER_DIGEST: [u32; 16] = {
    let mut block = padding(DIGEST_SIZE as u32);
    block[8] = 1 << 31;
    block[0] = 0;
    block
};

const fn padding(bytes: u32) -> [u32; 16] {
    let mut block = [0; 16];
    block[0] = 1 << 31;
    block[15] = 8 * bytes;
    block
}

/// The message schedule of [`PADDING`], with the constant of each round added.
pub(super) const PADDING_SCHEDULE: [u32; 64] = {
    let mut words = [0u32; 64];
    let mut t = 0;
    while t < 64 {
        words[t] = if t < 16 {
            PADDING[t]
        } else {
            let (low, high) = (words[t - 15], words[t - 2]);
            let low = low.rotate_right(7) ^ low.rotate_right(18) ^ low >> 3;
            let high = high.rotate_right(17) ^ high.rotate_right(19) ^ high >> 10;
            words[t - 16].wrapping_add(low).wrapping_add(words[t - 7]).wrapping_add(high)
        };
        t += 1;
    }
    t = 0;
    while t < 64 {
        words[t] = words[t].wrapping_add(K256[t]);
        t += 1;
    }
    words
};

/// [`NodeKernel`], with `V::LANES` pairs at a time.
///
/// # Safety
/// As for `NodeKernel`, and the CPU has the instructions of `V`.
#[inline(always)]
pub(crate) unsafe fn digest_nodes<V: Vector<Word = u32>>(pairs: *const u8, to: *mut u8, count: usize, twice: bool) {
    const MAX: usize = super::MAX_HASH_LANES;
    let mut rows = [[0u32; MAX]; 8];
    let mut group = 0;
    while group < count {
        let left = V::LANES.min(count - group);
        // SAFETY: the caller promises the instructions, and `count` pairs and places. Lanes without a pair read the first one of the group.
        // A row has a word for each of at most `MAX` lanes. A group is read before its digests are written, and its digests lie before
        // the next group.
        unsafe {
            let at: [*const u8; MAX] =
                core::array::from_fn(|lane| pairs.add(2 * DIGEST_SIZE * (group + if lane < left { lane } else { 0 })));
            let initial = INITIAL_256.map(|word| V::splat(word));
            let mut next_block =
                NextBlock::<Sha256, V> { block: None, quarters: [[initial[0]; 4]; 4], hash: PhantomData };
            let mut state = initial;
            let mut words = V::gather(at.as_ptr(), 0, true);
            let mut is_second = false;
            // A loop, because two copies of the rounds take long to compile.
            loop {
                Sha256::compress(&mut state, words, &mut next_block);
                if is_second {
                    break;
                }
                compress_padding(&mut state);
                if !twice {
                    break;
                }
                is_second = true;
                words = AFTER_DIGEST.map(|word| V::splat(word));
                words[..8].copy_from_slice(&state);
                state = initial;
            }
            for (word, row) in state.iter().zip(&mut rows) {
                word.store(row.as_mut_ptr());
            }
            for lane in 0..left {
                let to = to.add(DIGEST_SIZE * (group + lane));
                for (i, [high, low]) in rows.as_chunks().0.iter().enumerate() {
                    let both = u64::from(high[lane]) << 32 | u64::from(low[lane]);
                    to.add(8 * i).cast::<u64>().write_unaligned(both.to_be());
                }
            }
        }
        group += left;
    }
}

/// Advances the chaining values by the block of padding.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn compress_padding<V: Vector<Word = u32>>(state: &mut [V; 8]) {
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    let mut b_xor_c = b.xor(c);
    macro_rules! step {
        ($a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident, $t:expr) => {
            // SAFETY: the caller promises the instructions.
            let constant = unsafe { V::splat(PADDING_SCHEDULE[$t]) };
            let sigma = $e.rotate_left::<26>().xor3($e.rotate_left::<21>(), $e.rotate_left::<7>());
            let sum = $h.add(constant).add($e.choose($f, $g)).add(sigma);
            $d = $d.add(sum);
            let majority;
            (majority, b_xor_c) = $a.next_majority($b, $c, b_xor_c);
            let sigma = $a.rotate_left::<30>().xor3($a.rotate_left::<19>(), $a.rotate_left::<10>());
            $h = sum.add(majority).add(sigma);
        };
    }
    for t in (0..64).step_by(8) {
        step!(a b c d e f g h, t);
        step!(h a b c d e f g, t + 1);
        step!(g h a b c d e f, t + 2);
        step!(f g h a b c d e, t + 3);
        step!(e f g h a b c d, t + 4);
        step!(d e f g h a b c, t + 5);
        step!(c d e f g h a b, t + 6);
        step!(b c d e f g h a, t + 7);
    }
    let _ = b_xor_c;
    for (old, new) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *old = old.add(new);
    }
}
