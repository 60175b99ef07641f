//! SSE2 registers: 4 words of 32 bits, 2 of 64. Part of x86-64, so every call is fine.

use core::arch::x86_64::*;

use super::Vector;

/// Four messages of 32-bit words.
#[derive(Clone, Copy)]
pub(crate) struct Xmm32(__m128i);

/// Two messages of 64-bit words.
#[derive(Clone, Copy)]
pub(crate) struct Xmm64(__m128i);

/// Reverses the bytes of each word: first within pairs of bytes, then the pairs.
#[inline(always)]
unsafe fn swap_bytes(x: __m128i, word: usize) -> __m128i {
    // SAFETY: SSE2 is part of the architecture.
    unsafe {
        let x = _mm_or_si128(_mm_slli_epi16::<8>(x), _mm_srli_epi16::<8>(x));
        if word == 4 {
            _mm_shufflehi_epi16::<0b10_11_00_01>(_mm_shufflelo_epi16::<0b10_11_00_01>(x))
        } else {
            _mm_shufflehi_epi16::<0b00_01_10_11>(_mm_shufflelo_epi16::<0b00_01_10_11>(x))
        }
    }
}

macro_rules! common {
    ($word:ty, $lanes:literal, $set1:ident, $add:ident, $shl:ident, $shr:ident) => {
        type Word = $word;
        const LANES: usize = $lanes;

        #[inline(always)]
        unsafe fn splat(word: $word) -> Self {
            // SAFETY: the caller promises SSE2.
            Self(unsafe { $set1(word.cast_signed()) })
        }

        #[inline(always)]
        unsafe fn load(from: *const $word) -> Self {
            // SAFETY: the caller promises SSE2 and 16 readable bytes.
            Self(unsafe { _mm_loadu_si128(from.cast()) })
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut $word) {
            // SAFETY: a value of this type exists, so there is SSE2; the caller promises 16 writable bytes.
            unsafe { _mm_storeu_si128(to.cast(), self.0) }
        }

        #[inline(always)]
        fn add(self, other: Self) -> Self {
            // SAFETY: a value of this type exists, so there is SSE2.
            Self(unsafe { $add(self.0, other.0) })
        }

        #[inline(always)]
        fn and(self, other: Self) -> Self {
            // SAFETY: as for `add`.
            Self(unsafe { _mm_and_si128(self.0, other.0) })
        }

        #[inline(always)]
        fn or(self, other: Self) -> Self {
            // SAFETY: as for `add`.
            Self(unsafe { _mm_or_si128(self.0, other.0) })
        }

        #[inline(always)]
        fn xor(self, other: Self) -> Self {
            // SAFETY: as for `add`.
            Self(unsafe { _mm_xor_si128(self.0, other.0) })
        }

        #[inline(always)]
        fn not(self) -> Self {
            // SAFETY: as for `add`.
            Self(unsafe { _mm_xor_si128(self.0, $set1(-1)) })
        }

        #[inline(always)]
        fn rotate_left<const N: u32>(self) -> Self {
            // SAFETY: as for `add`. (The counts are constants: these become shifts with immediates.)
            Self(unsafe {
                let left = $shl(self.0, _mm_cvtsi32_si128(N.cast_signed()));
                let right = $shr(self.0, _mm_cvtsi32_si128((<$word>::BITS - N).cast_signed()));
                _mm_or_si128(left, right)
            })
        }

        #[inline(always)]
        fn shift_right<const N: u32>(self) -> Self {
            // SAFETY: as for `add`.
            Self(unsafe { $shr(self.0, _mm_cvtsi32_si128(N.cast_signed())) })
        }
    };
}

impl Vector for Xmm32 {
    common!(u32, 4, _mm_set1_epi32, _mm_add_epi32, _mm_sll_epi32, _mm_srl_epi32);

    /// 4 x 4 transposes.
    #[inline(always)]
    unsafe fn gather(lanes: *const *const u8, offset: usize, big_endian: bool) -> [Self; 16] {
        // SAFETY: the caller promises SSE2 and a readable block of 64 bytes for each of the four pointers.
        unsafe {
            let mut words = [Self(_mm_setzero_si128()); 16];
            let mut rows = [[_mm_setzero_si128(); 4]; 4];
            for (j, row) in rows.iter_mut().enumerate() {
                let block = (*lanes.add(j)).add(offset);
                for (part, x) in row.iter_mut().enumerate() {
                    *x = _mm_loadu_si128(block.add(16 * part).cast());
                    if big_endian {
                        *x = swap_bytes(*x, 4);
                    }
                }
            }
            for part in 0..4 {
                let (a, b, c, d) = (rows[0][part], rows[1][part], rows[2][part], rows[3][part]);
                let (ab_low, ab_high) = (_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b));
                let (cd_low, cd_high) = (_mm_unpacklo_epi32(c, d), _mm_unpackhi_epi32(c, d));
                words[4 * part] = Self(_mm_unpacklo_epi64(ab_low, cd_low));
                words[4 * part + 1] = Self(_mm_unpackhi_epi64(ab_low, cd_low));
                words[4 * part + 2] = Self(_mm_unpacklo_epi64(ab_high, cd_high));
                words[4 * part + 3] = Self(_mm_unpackhi_epi64(ab_high, cd_high));
            }
            words
        }
    }
}

impl Vector for Xmm64 {
    common!(u64, 2, _mm_set1_epi64x, _mm_add_epi64, _mm_sll_epi64, _mm_srl_epi64);

    /// 2 x 2 transposes.
    #[inline(always)]
    unsafe fn gather(lanes: *const *const u8, offset: usize, big_endian: bool) -> [Self; 16] {
        // SAFETY: the caller promises SSE2 and a readable block of 128 bytes for both pointers.
        unsafe {
            let mut words = [Self(_mm_setzero_si128()); 16];
            let mut rows = [[_mm_setzero_si128(); 8]; 2];
            for (j, row) in rows.iter_mut().enumerate() {
                let block = (*lanes.add(j)).add(offset);
                for (part, x) in row.iter_mut().enumerate() {
                    *x = _mm_loadu_si128(block.add(16 * part).cast());
                    if big_endian {
                        *x = swap_bytes(*x, 8);
                    }
                }
            }
            for part in 0..8 {
                words[2 * part] = Self(_mm_unpacklo_epi64(rows[0][part], rows[1][part]));
                words[2 * part + 1] = Self(_mm_unpackhi_epi64(rows[0][part], rows[1][part]));
            }
            words
        }
    }
}
