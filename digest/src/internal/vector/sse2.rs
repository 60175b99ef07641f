//! SSE2 registers: 4 words of 32 bits, 2 of 64. SSE2 is part of x86-64.

use core::arch::x86_64::*;

use super::{LoadPair, Vector};

/// Four messages of 32-bit words.
#[derive(Clone, Copy)]
pub(crate) struct Xmm32(__m128i);

/// Two messages of 64-bit words.
#[derive(Clone, Copy)]
pub(crate) struct Xmm64(__m128i);

/// Reverses the bytes of each word: first within pairs of bytes, then the pairs.
#[inline(always)]
unsafe fn swap_bytes(x: __m128i, word_size: usize) -> __m128i {
    // SAFETY: SSE2 is part of the architecture.
    unsafe {
        let x = _mm_or_si128(_mm_slli_epi16::<8>(x), _mm_srli_epi16::<8>(x));
        if word_size == 4 {
            _mm_shufflehi_epi16::<0b10_11_00_01>(_mm_shufflelo_epi16::<0b10_11_00_01>(x))
        } else {
            _mm_shufflehi_epi16::<0b00_01_10_11>(_mm_shufflelo_epi16::<0b00_01_10_11>(x))
        }
    }
}

impl Vector for Xmm32 {
    common!(
        u32,
        4,
        _mm_set1_epi32,
        _mm_loadu_si128,
        _mm_storeu_si128,
        _mm_add_epi32,
        _mm_and_si128,
        _mm_or_si128,
        _mm_xor_si128
    );
    before_avx512!(
        u32,
        __m128i,
        "sse2",
        _mm_set1_epi32,
        _mm_sll_epi32,
        _mm_srl_epi32,
        _mm_and_si128,
        _mm_or_si128,
        _mm_xor_si128
    );

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
    common!(
        u64,
        2,
        _mm_set1_epi64x,
        _mm_loadu_si128,
        _mm_storeu_si128,
        _mm_add_epi64,
        _mm_and_si128,
        _mm_or_si128,
        _mm_xor_si128
    );
    before_avx512!(
        u64,
        __m128i,
        "sse2",
        _mm_set1_epi64x,
        _mm_sll_epi64,
        _mm_srl_epi64,
        _mm_and_si128,
        _mm_or_si128,
        _mm_xor_si128
    );

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

impl LoadPair for Xmm64 {
    /// A 2 x 2 transpose.
    #[inline(always)]
    unsafe fn load_pair(lanes: *const *const u8, offset: usize) -> [Self; 2] {
        // SAFETY: SSE2 is part of the architecture; the caller promises 16 readable bytes for both pointers.
        unsafe {
            let row = |j: usize| _mm_loadu_si128((*lanes.add(j)).add(offset).cast());
            let (a, b) = (row(0), row(1));
            [Self(_mm_unpacklo_epi64(a, b)), Self(_mm_unpackhi_epi64(a, b))]
        }
    }
}
