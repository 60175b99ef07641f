//! GHASH (SP 800-38D, 6.4) by carry-less multiplication, four blocks to a register.
//!
//! A block stands for a polynomial whose lowest coefficient is the highest bit of the first byte. Here its bytes are turned around, so
//! that the bits of a whole block are in reversed order. The product of two such blocks lacks a factor of x; the powers of the hash key
//! have it already.

use core::arch::x86_64::*;

use zeroize::Zeroize;

/// Blocks that can be hashed at once: as many powers of the hash key are kept.
pub(super) const AT_ONCE: usize = 32;

/// The powers of a hash key, times x, the highest first.
pub(super) struct Powers([u128; AT_ONCE]);

impl Powers {
    /// Those of no key.
    pub(super) fn none() -> Self {
        Powers([0; AT_ONCE])
    }

    /// Computes those of a hash key, with its bytes turned around.
    #[target_feature(enable = "avx512f,avx512bw,vpclmulqdq")]
    pub(super) fn compute(&mut self, key: __m128i) {
        let first = _mm512_zextsi128_si512(times_x(key));
        let second = product(first, first);
        let (third, fourth) = (product(second, first), product(second, second));
        let one = |x: __m512i| _mm512_castsi512_si128(x);
        let mut lowest = _mm512_inserti32x4::<1>(fourth, one(third));
        lowest = _mm512_inserti32x4::<2>(lowest, one(second));
        lowest = _mm512_inserti32x4::<3>(lowest, one(first));
        let mut registers = [lowest; AT_ONCE / 4];
        let mut known = 1;
        while known < registers.len() {
            let highest = _mm512_broadcast_i32x4(one(registers[known - 1]));
            for r in 0..known {
                registers[known + r] = product(registers[r], highest);
            }
            known *= 2;
        }
        for (line, register) in self.0.as_chunks_mut::<4>().0.iter_mut().rev().zip(registers) {
            // SAFETY: a register is four blocks.
            unsafe { _mm512_storeu_si512(line.as_mut_ptr().cast(), register) }
        }
    }

    /// This power and the three below it, or zeros where there are none: what the blocks of a register are multiplied with that have so
    /// many to come, itself among them.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn from(&self, power: usize) -> __m512i {
        let powers = self.0[AT_ONCE - power..].as_ptr();
        // SAFETY: there are as many powers as the highest of them says.
        unsafe {
            if power >= 4 {
                _mm512_loadu_si512(powers.cast())
            } else {
                _mm512_maskz_loadu_epi64((1 << (2 * power)) - 1, powers.cast())
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn as_blocks(&self) -> impl Iterator<Item = [u8; 16]> {
        self.0.iter().map(|block| block.to_ne_bytes())
    }
}

impl Drop for Powers {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// A sum of products that is not reduced yet: coefficients from x^0 on, from x^64 on, less the two others, and from x^128 on.
#[derive(Clone, Copy)]
pub(super) struct Sum {
    low: __m512i,
    middle: __m512i,
    high: __m512i,
}

impl Sum {
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn new() -> Self {
        let zero = _mm512_setzero_si512();
        Sum { low: zero, middle: zero, high: zero }
    }

    /// Adds a register of blocks, whose first has still so many to come in the sum, itself among them. By Karatsuba's method: the
    /// multiplications are what is scarce.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,vpclmulqdq")]
    pub(super) fn add(&mut self, blocks: __m512i, powers: &Powers, to_come: usize) {
        let power = powers.from(to_come);
        self.low = _mm512_xor_si512(self.low, in_order(_mm512_clmulepi64_epi128::<0x00>(blocks, power)));
        self.high = _mm512_xor_si512(self.high, in_order(_mm512_clmulepi64_epi128::<0x11>(blocks, power)));
        let [blocks, power] = [blocks, power].map(|x| _mm512_xor_si512(x, swapped(x)));
        self.middle = _mm512_xor_si512(self.middle, in_order(_mm512_clmulepi64_epi128::<0x00>(blocks, power)));
    }

    /// The sum of all four blocks, reduced.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,vpclmulqdq")]
    pub(super) fn reduced(self) -> __m128i {
        let middle = xor3(self.middle, self.low, self.high);
        let blocks = reduce(self.low, middle, self.high);
        let two = _mm256_xor_si256(_mm512_castsi512_si256(blocks), _mm512_extracti64x4_epi64::<1>(blocks));
        _mm_xor_si128(_mm256_castsi256_si128(two), _mm256_extracti128_si256::<1>(two))
    }
}

/// The blocks with their bytes turned around.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn turned(blocks: __m512i) -> __m512i {
    _mm512_shuffle_epi8(
        blocks,
        _mm512_broadcast_i32x4(_mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)),
    )
}

/// The same register, computed in the order of the program with others of which the same is asked.
///
/// The compiler likes to put all multiplications before all rounds of AES. Both are done by the same two units of the CPU, which have
/// more to do when it finds them side by side: 64 bytes take 17 cycles so, and 15.7 in turn (Zen 4, AES-128; 13 would be all of either).
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn in_order(mut register: __m512i) -> __m512i {
    // SAFETY: there is no instruction.
    unsafe { core::arch::asm!("/* {0} */", inout(zmm_reg) register, options(nomem, nostack, preserves_flags)) }
    register
}

#[inline]
#[target_feature(enable = "avx512f")]
fn xor3(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    _mm512_xor_si512(_mm512_xor_si512(a, b), c)
}

/// Each block with its halves swapped.
#[inline]
#[target_feature(enable = "avx512f")]
fn swapped(blocks: __m512i) -> __m512i {
    _mm512_shuffle_epi32::<0x4e>(blocks)
}

/// Four products, one with a factor x too many.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,vpclmulqdq")]
fn product(a: __m512i, b: __m512i) -> __m512i {
    let low = _mm512_clmulepi64_epi128::<0x00>(a, b);
    let middle = _mm512_xor_si512(_mm512_clmulepi64_epi128::<0x01>(a, b), _mm512_clmulepi64_epi128::<0x10>(a, b));
    reduce(low, middle, _mm512_clmulepi64_epi128::<0x11>(a, b))
}

/// The polynomial modulo which is multiplied, 1 + x + x^2 + x^7 + x^128, but for its x^128: bits in reversed order.
const POLYNOMIAL: u64 = 0xc2 << 56;

/// Products modulo the polynomial. What is in the lower half, whose bits stand for the higher coefficients of the reversed product, is
/// folded away in two steps of 64 bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,vpclmulqdq")]
fn reduce(low: __m512i, middle: __m512i, high: __m512i) -> __m512i {
    let polynomial = _mm512_set1_epi64(POLYNOMIAL.cast_signed());
    let middle = xor3(middle, swapped(low), _mm512_clmulepi64_epi128::<0x00>(polynomial, low));
    xor3(high, swapped(middle), _mm512_clmulepi64_epi128::<0x00>(polynomial, middle))
}

/// A block times x.
#[inline]
#[target_feature(enable = "avx512f")]
fn times_x(block: __m128i) -> __m128i {
    let doubled = _mm_or_si128(_mm_slli_epi64::<1>(block), _mm_slli_si128::<8>(_mm_srli_epi64::<63>(block)));
    // The coefficient that fell out, all over the block.
    let over = _mm_srai_epi32::<31>(_mm_shuffle_epi32::<0xff>(block));
    _mm_xor_si128(doubled, _mm_and_si128(over, _mm_set_epi64x(POLYNOMIAL.cast_signed(), 1)))
}
