//! SHA-1 (FIPS 180-4).

use super::{Compression, NextBlock, opaque};
use crate::internal::vector::Vector;

/// SHA-1.
pub struct Sha1;

/// The chaining value before the first block (FIPS 180-4, 5.3.1), padded to eight words.
pub const INITIAL: [u32; 8] = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0, 0, 0, 0];

/// Steps of a compression.
pub(super) const STEPS: usize = 80;

/// FIPS 180-4, 4.2.1: one constant for every twenty steps.
pub(super) const K: [u32; 4] = [0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6];

impl Compression for Sha1 {
    type Word = u32;
    type Block = [u8; 64];
    const WORDS: usize = 5;
    const BIG_ENDIAN: bool = true;
    const LENGTH_FIELD_SIZE: usize = 8;
    const MIN_LANES_TO_FETCH_AHEAD: usize = 16;

    #[inline(always)]
    unsafe fn compress<V: Vector<Word = u32>>(state: &mut [V; 8], words: [V; 16], next_block: &mut NextBlock<Self, V>) {
        // SAFETY: guaranteed by the caller.
        unsafe { rounds(state, words, next_block, &mut ()) }
    }
}

/// Takes the message words of all steps.
pub(super) trait Schedule<V> {
    fn set(&mut self, step: usize, word: V);
}

impl<V> Schedule<V> for () {
    #[inline(always)]
    fn set(&mut self, _: usize, _: V) {}
}

impl<V> Schedule<V> for [V; STEPS] {
    #[inline(always)]
    fn set(&mut self, step: usize, word: V) {
        self[step] = word;
    }
}

/// Advances the first five words of `state` by a block.
///
/// # Safety
/// As for [`Compression::compress`].
#[inline(always)]
pub(super) unsafe fn rounds<H: Compression<Word = u32>, V: Vector<Word = u32>>(
    state: &mut [V; 8],
    words: [V; 16],
    next_block: &mut NextBlock<H, V>,
    schedule: &mut impl Schedule<V>,
) {
    let [mut a, mut b, mut c, mut d, mut e, ..] = *state;
    let mut w = words;
    // SAFETY: the caller promises the instructions of `V`.
    let k = opaque(&K).map(|k| unsafe { V::splat(k) });

    // The index in `w` of the word of step `t`. A sum or remainder in a `const` block needs no code, even in builds without optimization.
    macro_rules! at {
        ($t:expr) => {
            const { ($t) % 16 }
        };
    }
    // One step. From step 16 on it also makes its message word.
    macro_rules! step {
        ($mix:ident, $a:ident, $b:ident, $c:ident, $d:ident, $e:ident, $t:expr) => {
            if const { $t >= 16 } {
                // The old word is an operand of the three-way XOR: overwriting it saves a copy of a register. The newest word is
                // the last operand, because it is ready last.
                let mixed = w[at!($t)].xor3(w[at!($t + 8)], w[at!($t + 2)]).xor(w[at!($t + 13)]);
                w[at!($t)] = mixed.rotate_left::<1>();
            }
            let word = w[at!($t)];
            schedule.set(const { $t }, word);
            let sum = $e.add(word.add(k[const { $t / 20 }])).add(step!(@ $mix, $b, $c, $d));
            $e = sum.add($a.rotate_left::<5>());
            $b = $b.rotate_left::<30>();
        };
        (@ choose, $b:ident, $c:ident, $d:ident) => { $b.choose($c, $d) };
        (@ parity, $b:ident, $c:ident, $d:ident) => { $b.xor3($c, $d) };
        (@ majority, $b:ident, $c:ident, $d:ident) => { $b.majority($c, $d) };
    }
    macro_rules! five {
        ($mix:ident, $t:expr) => {
            step!($mix, a, b, c, d, e, $t);
            step!($mix, e, a, b, c, d, $t + 1);
            step!($mix, d, e, a, b, c, $t + 2);
            step!($mix, c, d, e, a, b, $t + 3);
            step!($mix, b, c, d, e, a, $t + 4);
        };
    }
    macro_rules! round {
        ($mix:ident, $t:literal) => {
            five!($mix, $t);
            five!($mix, $t + 5);
            // SAFETY: guaranteed by the caller.
            unsafe { next_block.fetch($t / 20) };
            five!($mix, $t + 10);
            five!($mix, $t + 15);
        };
    }
    round!(choose, 0);
    round!(parity, 20);
    round!(majority, 40);
    round!(parity, 60);
    next_block.arrange();

    state[0] = state[0].add(a);
    state[1] = state[1].add(b);
    state[2] = state[2].add(c);
    state[3] = state[3].add(d);
    state[4] = state[4].add(e);
}
