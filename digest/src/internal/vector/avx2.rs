//! AVX2 registers: 8 words of 32 bits, 4 of 64.

use core::arch::x86_64::*;

use super::{LoadPair, Vector};

/// Eight messages of 32-bit words.
#[derive(Clone, Copy)]
pub(crate) struct Ymm32(__m256i);

/// Four messages of 64-bit words.
#[derive(Clone, Copy)]
pub(crate) struct Ymm64(__m256i);

/// Reverses the bytes of each word, in each 128-bit half.
#[inline(always)]
unsafe fn swap_bytes(x: __m256i, word_size: usize) -> __m256i {
    // SAFETY: the caller promises AVX2.
    unsafe {
        let order = if word_size == 4 {
            _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3)
        } else {
            _mm_set_epi8(8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7)
        };
        _mm256_shuffle_epi8(x, _mm256_broadcastsi128_si256(order))
    }
}

/// Rotates each word `W` left by `N` bits, a multiple of 8.
#[inline]
#[target_feature(enable = "avx2")]
fn rotate_bytes<W, const N: u32>(x: __m256i) -> __m256i {
    let order = const {
        let (word, bytes) = (size_of::<W>(), N as usize / 8);
        let (mut order, mut i) = ([0u8; 16], 0);
        while i < order.len() {
            order[i] = (i / word * word + (i + word - bytes) % word) as u8;
            i += 1;
        }
        order
    };
    // SAFETY: the array is as long as the register, 16 bytes.
    let order = unsafe { _mm_loadu_si128(order.as_ptr().cast()) };
    _mm256_shuffle_epi8(x, _mm256_broadcastsi128_si256(order))
}

/// Loads 16 bytes of each of two lanes into one register.
///
/// # Safety
/// The CPU has AVX2; both pointers are readable for 16 bytes.
#[inline(always)]
unsafe fn load_two_lanes(a: *const u8, b: *const u8) -> __m256i {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let x = _mm256_castsi128_si256(_mm_loadu_si128(a.cast()));
        _mm256_inserti128_si256::<1>(x, _mm_loadu_si128(b.cast()))
    }
}

impl Vector for Ymm32 {
    common!(
        u32,
        8,
        _mm256_set1_epi32,
        _mm256_loadu_si256,
        _mm256_storeu_si256,
        _mm256_add_epi32,
        _mm256_and_si256,
        _mm256_or_si256,
        _mm256_xor_si256
    );
    before_avx512!(
        u32,
        __m256i,
        "avx2",
        _mm256_set1_epi32,
        _mm256_sll_epi32,
        _mm256_srl_epi32,
        _mm256_and_si256,
        _mm256_or_si256,
        _mm256_xor_si256,
        rotate_bytes
    );

    /// 4 x 4 transposes within the 128-bit halves: lane `4s + j` is in half `s` of row `j`.
    #[inline(always)]
    unsafe fn gather(lanes: *const *const u8, offset: usize, big_endian: bool) -> [Self; 16] {
        // SAFETY: the caller promises AVX2 and a readable block of 64 bytes for each of the eight pointers.
        unsafe {
            let mut words = [Self(_mm256_setzero_si256()); 16];
            let mut rows = [[_mm256_setzero_si256(); 4]; 4];
            for (j, row) in rows.iter_mut().enumerate() {
                let (a, b) = ((*lanes.add(j)).add(offset), (*lanes.add(j + 4)).add(offset));
                for (part, x) in row.iter_mut().enumerate() {
                    *x = load_two_lanes(a.add(16 * part), b.add(16 * part));
                    if big_endian {
                        *x = swap_bytes(*x, 4);
                    }
                }
            }
            for part in 0..4 {
                let (a, b, c, d) = (rows[0][part], rows[1][part], rows[2][part], rows[3][part]);
                let (ab_low, ab_high) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
                let (cd_low, cd_high) = (_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
                words[4 * part] = Self(_mm256_unpacklo_epi64(ab_low, cd_low));
                words[4 * part + 1] = Self(_mm256_unpackhi_epi64(ab_low, cd_low));
                words[4 * part + 2] = Self(_mm256_unpacklo_epi64(ab_high, cd_high));
                words[4 * part + 3] = Self(_mm256_unpackhi_epi64(ab_high, cd_high));
            }
            words
        }
    }
}

impl Vector for Ymm64 {
    common!(
        u64,
        4,
        _mm256_set1_epi64x,
        _mm256_loadu_si256,
        _mm256_storeu_si256,
        _mm256_add_epi64,
        _mm256_and_si256,
        _mm256_or_si256,
        _mm256_xor_si256
    );
    before_avx512!(
        u64,
        __m256i,
        "avx2",
        _mm256_set1_epi64x,
        _mm256_sll_epi64,
        _mm256_srl_epi64,
        _mm256_and_si256,
        _mm256_or_si256,
        _mm256_xor_si256,
        rotate_bytes
    );

    /// 2 x 2 transposes within the 128-bit halves: lane `2s + j` is in half `s` of row `j`.
    #[inline(always)]
    unsafe fn gather(lanes: *const *const u8, offset: usize, big_endian: bool) -> [Self; 16] {
        // SAFETY: the caller promises AVX2 and a readable block of 128 bytes for each of the four pointers.
        unsafe {
            let mut words = [Self(_mm256_setzero_si256()); 16];
            let mut rows = [[_mm256_setzero_si256(); 8]; 2];
            for (j, row) in rows.iter_mut().enumerate() {
                let (a, b) = ((*lanes.add(j)).add(offset), (*lanes.add(j + 2)).add(offset));
                for (part, x) in row.iter_mut().enumerate() {
                    *x = load_two_lanes(a.add(16 * part), b.add(16 * part));
                    if big_endian {
                        *x = swap_bytes(*x, 8);
                    }
                }
            }
            for part in 0..8 {
                words[2 * part] = Self(_mm256_unpacklo_epi64(rows[0][part], rows[1][part]));
                words[2 * part + 1] = Self(_mm256_unpackhi_epi64(rows[0][part], rows[1][part]));
            }
            words
        }
    }
}

impl LoadPair for Ymm64 {
    /// A 2 x 2 transpose within the 128-bit halves, as in `gather`.
    #[inline(always)]
    unsafe fn load_pair(lanes: *const *const u8, offset: usize) -> [Self; 2] {
        // SAFETY: the caller promises AVX2 and 16 readable bytes for each of the four pointers.
        unsafe {
            let row = |j: usize| load_two_lanes((*lanes.add(j)).add(offset), (*lanes.add(j + 2)).add(offset));
            let (a, b) = (row(0), row(1));
            [Self(_mm256_unpacklo_epi64(a, b)), Self(_mm256_unpackhi_epi64(a, b))]
        }
    }
}
