//! SHA-2 (FIPS 180-4): the 32-bit and the 64-bit compression function. Truncated variants differ in the initial value.

use super::{Compression, NextBlock, opaque};
use crate::internal::vector::Vector;

/// SHA-224 and SHA-256.
pub struct Sha256;

/// SHA-384, SHA-512 and SHA-512/256.
pub struct Sha512;

/// FIPS 180-4, 5.3.2.
#[rustfmt::skip]
pub const INITIAL_224: [u32; 8] = [
    0xc1059ed8, 0x367cd507, 0x3070dd17, 0xf70e5939, 0xffc00b31, 0x68581511, 0x64f98fa7, 0xbefa4fa4,
];

/// FIPS 180-4, 5.3.3.
#[rustfmt::skip]
pub const INITIAL_256: [u32; 8] = [
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
];

/// FIPS 180-4, 5.3.4.
#[rustfmt::skip]
pub const INITIAL_384: [u64; 8] = [
    0xcbbb9d5dc1059ed8, 0x629a292a367cd507, 0x9159015a3070dd17, 0x152fecd8f70e5939,
    0x67332667ffc00b31, 0x8eb44a8768581511, 0xdb0c2e0d64f98fa7, 0x47b5481dbefa4fa4,
];

/// FIPS 180-4, 5.3.5.
#[rustfmt::skip]
pub const INITIAL_512: [u64; 8] = [
    0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
    0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179,
];

/// FIPS 180-4, 5.3.6.2.
#[rustfmt::skip]
pub const INITIAL_512_256: [u64; 8] = [
    0x22312194fc2bf72c, 0x9f555fa3c84c64c2, 0x2393b86b6f53b151, 0x963877195940eabd,
    0x96283ee2a88effe3, 0xbe5e1e2553863992, 0x2b0199fc2c85b8aa, 0x0eb72ddc81c52ca2,
];

/// FIPS 180-4, 4.2.2: fractions of the cube roots of the first 64 primes.
#[rustfmt::skip]
pub(super) const K256: [u32; 64] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
];

/// FIPS 180-4, 4.2.3: fractions of the cube roots of the first 80 primes.
#[rustfmt::skip]
pub(super) const K512: [u64; 80] = [
    0x428a2f98d728ae22, 0x7137449123ef65cd, 0xb5c0fbcfec4d3b2f, 0xe9b5dba58189dbbc,
    0x3956c25bf348b538, 0x59f111f1b605d019, 0x923f82a4af194f9b, 0xab1c5ed5da6d8118,
    0xd807aa98a3030242, 0x12835b0145706fbe, 0x243185be4ee4b28c, 0x550c7dc3d5ffb4e2,
    0x72be5d74f27b896f, 0x80deb1fe3b1696b1, 0x9bdc06a725c71235, 0xc19bf174cf692694,
    0xe49b69c19ef14ad2, 0xefbe4786384f25e3, 0x0fc19dc68b8cd5b5, 0x240ca1cc77ac9c65,
    0x2de92c6f592b0275, 0x4a7484aa6ea6e483, 0x5cb0a9dcbd41fbd4, 0x76f988da831153b5,
    0x983e5152ee66dfab, 0xa831c66d2db43210, 0xb00327c898fb213f, 0xbf597fc7beef0ee4,
    0xc6e00bf33da88fc2, 0xd5a79147930aa725, 0x06ca6351e003826f, 0x142929670a0e6e70,
    0x27b70a8546d22ffc, 0x2e1b21385c26c926, 0x4d2c6dfc5ac42aed, 0x53380d139d95b3df,
    0x650a73548baf63de, 0x766a0abb3c77b2a8, 0x81c2c92e47edaee6, 0x92722c851482353b,
    0xa2bfe8a14cf10364, 0xa81a664bbc423001, 0xc24b8b70d0f89791, 0xc76c51a30654be30,
    0xd192e819d6ef5218, 0xd69906245565a910, 0xf40e35855771202a, 0x106aa07032bbd1b8,
    0x19a4c116b8d2d0c8, 0x1e376c085141ab53, 0x2748774cdf8eeb99, 0x34b0bcb5e19b48a8,
    0x391c0cb3c5c95a63, 0x4ed8aa4ae3418acb, 0x5b9cca4f7763e373, 0x682e6ff3d6b2b8a3,
    0x748f82ee5defb2fc, 0x78a5636f43172f60, 0x84c87814a1f0ab72, 0x8cc702081a6439ec,
    0x90befffa23631e28, 0xa4506cebde82bde9, 0xbef9a3f7b2c67915, 0xc67178f2e372532b,
    0xca273eceea26619c, 0xd186b8c721c0c207, 0xeada7dd6cde0eb1e, 0xf57d4f7fee6ed178,
    0x06f067aa72176fba, 0x0a637dc5a2c898a6, 0x113f9804bef90dae, 0x1b710b35131c471b,
    0x28db77f523047d84, 0x32caab7b40c72493, 0x3c9ebe0a15c9bebc, 0x431d67c49c100d4c,
    0x4cc5d4becb3e42b6, 0x597f299cfc657e2a, 0x5fcb6fab3ad6faec, 0x6c44198c4a475817,
];

/// The body of `Compression::compress`: sixteen rounds at a time, after which words and variables are back in their places.
/// Rotations are to the left: 32 (or 64) minus the standard's.
macro_rules! compress {
    ($state:ident, $words:ident, $next_block:ident, $k:ident,
     e $e1:literal $e2:literal $e3:literal, a $a1:literal $a2:literal $a3:literal,
     low $l1:literal $l2:literal shift $l3:literal, high $h1:literal $h2:literal shift $h3:literal) => {
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *$state;
        let k = opaque(&$k);
        let mut w = $words;
        let mut b_xor_c = b.xor(c);

        // Round `t + i`. It also makes the word of round `t + i + 2`: Emerald Rapids is faster if words are ready early.
        macro_rules! step {
            ($schedule:ident, $a:ident, $b:ident, $c:ident, $d:ident, $e:ident, $f:ident, $g:ident, $h:ident, $t:expr, $i:literal) => {
                // SAFETY: the caller promises the instructions of `V`.
                let constant = unsafe { V::splat(k[$t + $i]) };
                if V::LATENCY > 1 {
                    // The chain from one `e` to the next is a rotation, `xor3` and one sum. In the round below, the chain has one sum more,
                    // and the whole round has two sums fewer.
                    let sum = $h.add(w[$i].add(constant));
                    let next = $d.add(sum).opaque();
                    let e3 = $e.rotate_left::<$e3>();
                    let sigma = $e.rotate_left::<$e1>().xor3($e.rotate_left::<$e2>(), e3);
                    let choice = $e.choose($f, $g);
                    $d = next.add(choice).opaque().add(sigma);
                    let a3 = $a.rotate_left::<$a3>();
                    let other = $a.rotate_left::<$a1>().xor3($a.rotate_left::<$a2>(), a3);
                    let majority;
                    (majority, b_xor_c) = $a.next_majority($b, $c, b_xor_c);
                    let sum = sum.add(choice).opaque().add(majority).opaque().add(sigma).opaque();
                    $schedule!($i + 2);
                    $h = sum.add(other);
                } else {
                    // The order keeps rotations apart, because Zen 4 has two units for them and four for the rest. The compiler mostly
                    // keeps it.
                    let e3 = $e.rotate_left::<$e3>();
                    $schedule!($i + 2);
                    let sum = $h.add(w[$i]);
                    let (e2, e1) = ($e.rotate_left::<$e2>(), $e.rotate_left::<$e1>());
                    let sigma = e1.xor3(e2, e3);
                    let choice = $e.choose($f, $g);
                    let majority;
                    (majority, b_xor_c) = $a.next_majority($b, $c, b_xor_c);
                    let sum = sum.add(constant).add(choice);
                    let a1 = $a.rotate_left::<$a1>();
                    let sum = sum.add(sigma);
                    $d = $d.add(sum);
                    let sigma = a1.xor3($a.rotate_left::<$a2>(), $a.rotate_left::<$a3>());
                    $h = sum.add(majority).add(sigma);
                }
            };
        }
        // The index in `w` of the word of round `t + i`. A sum or remainder in a `const` block needs no code, even in builds without
        // optimization.
        macro_rules! at {
            ($i:expr) => {
                const { ($i) % 16 }
            };
        }
        // Replaces word `t + i - 16` by word `t + i`.
        macro_rules! schedule {
            ($i:expr) => {
                let (low, high) = (w[at!($i + 1)], w[at!($i + 14)]);
                let low = low.rotate_left::<$l1>().xor3(low.rotate_left::<$l2>(), low.shift_right::<$l3>());
                let high = high.rotate_left::<$h1>().xor3(high.rotate_left::<$h2>(), high.shift_right::<$h3>());
                w[at!($i)] = w[at!($i)].add(w[at!($i + 9)]).add(low).add(high);
            };
        }
        macro_rules! no_schedule {
            ($i:expr) => {};
        }
        macro_rules! two {
            ($t:expr, $schedule:ident, $i0:literal $i1:literal,
             $a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident) => {
                step!($schedule, $a, $b, $c, $d, $e, $f, $g, $h, $t, $i0);
                step!($schedule, $h, $a, $b, $c, $d, $e, $f, $g, $t, $i1);
            };
        }
        macro_rules! fourteen {
            ($t:expr, $schedule:ident) => {
                two!($t, $schedule, 0 1, a b c d e f g h);
                two!($t, $schedule, 2 3, g h a b c d e f);
                two!($t, $schedule, 4 5, e f g h a b c d);
                two!($t, $schedule, 6 7, c d e f g h a b);
                two!($t, $schedule, 8 9, a b c d e f g h);
                two!($t, $schedule, 10 11, g h a b c d e f);
                two!($t, $schedule, 12 13, e f g h a b c d);
            };
        }
        fourteen!(0, no_schedule);
        for t in (0..$k.len() - 16).step_by(16) {
            // Emerald Rapids transposes in a unit that cannot rotate: between rounds, transposing takes half as long as before them.
            match t / 16 {
                // SAFETY: guaranteed by the caller.
                half @ 0..2 => unsafe {
                    $next_block.fetch(2 * half);
                    $next_block.fetch(2 * half + 1);
                },
                2 => $next_block.arrange(),
                _ => {}
            }
            two!(t, schedule, 14 15, c d e f g h a b);
            fourteen!(t + 16, schedule);
        }
        two!($k.len() - 16, no_schedule, 14 15, c d e f g h a b);
        let _ = b_xor_c;

        for (old, new) in $state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
            *old = old.add(new);
        }
    };
}

impl Compression for Sha256 {
    type Word = u32;
    type Block = [u8; 64];
    const WORDS: usize = 8;
    const BIG_ENDIAN: bool = true;
    const LENGTH_FIELD_SIZE: usize = 8;
    const MIN_LANES_TO_FETCH_AHEAD: usize = 16;

    #[inline(always)]
    unsafe fn compress<V: Vector<Word = u32>>(state: &mut [V; 8], words: [V; 16], next_block: &mut NextBlock<Self, V>) {
        // Sigma1 6 11 25, Sigma0 2 13 22, sigma0 7 18 >>3, sigma1 17 19 >>10
        compress!(state, words, next_block, K256, e 26 21 7, a 30 19 10, low 25 14 shift 3, high 15 13 shift 10);
    }
}

impl Compression for Sha512 {
    type Word = u64;
    type Block = [u8; 128];
    const WORDS: usize = 8;
    const BIG_ENDIAN: bool = true;
    const LENGTH_FIELD_SIZE: usize = 16;
    const MIN_LANES_TO_FETCH_AHEAD: usize = 8;

    #[inline(always)]
    unsafe fn compress<V: Vector<Word = u64>>(state: &mut [V; 8], words: [V; 16], next_block: &mut NextBlock<Self, V>) {
        // Sigma1 14 18 41, Sigma0 28 34 39, sigma0 1 8 >>7, sigma1 19 61 >>6
        compress!(state, words, next_block, K512, e 50 46 23, a 36 30 25, low 63 56 shift 7, high 45 3 shift 6);
    }
}
