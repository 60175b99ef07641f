//! MD5 (RFC 1321).

use super::{Compression, NextBlock, opaque};
use crate::internal::vector::Vector;

/// MD5.
pub struct Md5;

/// The chaining value before the first block (RFC 1321, 3.3), padded to eight words.
pub const INITIAL: [u32; 8] = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0, 0, 0, 0];

/// `floor(2^32 * abs(sin(i + 1)))` (RFC 1321, 3.4).
#[rustfmt::skip]
const T: [u32; 64] = [
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
];

impl Compression for Md5 {
    type Word = u32;
    type Block = [u8; 64];
    const WORDS: usize = 4;
    const BIG_ENDIAN: bool = false;
    const LENGTH_FIELD_SIZE: usize = 8;

    #[inline(always)]
    unsafe fn compress<V: Vector<Word = u32>>(state: &mut [V; 8], words: [V; 16], _: &mut NextBlock<Self, V>) {
        let [mut a, mut b, mut c, mut d, ..] = *state;
        let t = opaque(&T);
        // The compiler must not know that this is zero: see below.
        // SAFETY: the caller promises the instructions of `V`.
        let zero = unsafe { V::splat(*opaque(&0)) };

        // One step; `mix` is the function of the round, `word` the message word, `s` the rotation.
        macro_rules! step {
            ($mix:ident, $a:ident, $b:ident, $c:ident, $d:ident, $t:expr, $word:expr, $s:literal) => {
                // SAFETY: the caller promises the instructions of `V`.
                let constant = unsafe { V::splat(t[const { $t }]) };
                // The dependency chain runs through `mix`, so the operands that are known early are added first. If the compiler knew
                // that `or` changes nothing, it would add the constant last, in the chain (16 messages on Zen 4: 7.6 instead of 8.6 GB/s).
                let sum = $a.add(words[const { $word }].add(constant)).or(zero);
                $a = sum.add(step!(@ $mix, $b, $c, $d)).rotate_left::<$s>().add($b);
            };
            (@ f, $b:ident, $c:ident, $d:ident) => { $b.choose($c, $d) };
            (@ g, $b:ident, $c:ident, $d:ident) => { $d.choose($b, $c) };
            (@ h, $b:ident, $c:ident, $d:ident) => { $b.xor3($c, $d) };
            (@ i, $b:ident, $c:ident, $d:ident) => { $b.or_not_xor($c, $d) };
        }
        // Four steps from step `t` on; the message word of step `t` is `(first + stride * t) mod 16`.
        macro_rules! four {
            ($mix:ident, $t:expr, $first:literal, $stride:literal, $s0:literal, $s1:literal, $s2:literal, $s3:literal) => {
                step!($mix, a, b, c, d, $t, ($first + $stride * $t) % 16, $s0);
                step!($mix, d, a, b, c, $t + 1, ($first + $stride * ($t + 1)) % 16, $s1);
                step!($mix, c, d, a, b, $t + 2, ($first + $stride * ($t + 2)) % 16, $s2);
                step!($mix, b, c, d, a, $t + 3, ($first + $stride * ($t + 3)) % 16, $s3);
            };
        }
        macro_rules! round {
            ($mix:ident, $t:literal, $first:literal, $stride:literal, $s0:literal, $s1:literal, $s2:literal, $s3:literal) => {
                four!($mix, $t, $first, $stride, $s0, $s1, $s2, $s3);
                four!($mix, $t + 4, $first, $stride, $s0, $s1, $s2, $s3);
                four!($mix, $t + 8, $first, $stride, $s0, $s1, $s2, $s3);
                four!($mix, $t + 12, $first, $stride, $s0, $s1, $s2, $s3);
            };
        }
        round!(f, 0, 0, 1, 7, 12, 17, 22);
        round!(g, 16, 1, 5, 5, 9, 14, 20);
        round!(h, 32, 5, 3, 4, 11, 16, 23);
        round!(i, 48, 0, 7, 6, 10, 15, 21);

        state[0] = state[0].add(a);
        state[1] = state[1].add(b);
        state[2] = state[2].add(c);
        state[3] = state[3].add(d);
    }
}
