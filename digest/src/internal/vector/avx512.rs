//! AVX-512 registers: 16 words of 32 bits, 8 of 64. They need AVX-512 F and BW.

use core::arch::x86_64::*;

use super::{LoadPair, Vector};

/// Sixteen messages of 32-bit words, with this value of [`Vector::LATENCY`].
#[derive(Clone, Copy)]
pub(crate) struct Zmm32<const LATENCY: u32>(__m512i);

/// Eight messages of 64-bit words, with this value of [`Vector::LATENCY`].
#[derive(Clone, Copy)]
pub(crate) struct Zmm64<const LATENCY: u32>(__m512i);

/// Truth tables of `vpternlog`: the bit at index `4a + 2b + c` is the result.
mod table {
    pub(super) const CHOOSE: i32 = 0xca;
    pub(super) const MAJORITY: i32 = 0xe8;
    pub(super) const XOR3: i32 = 0x96;
    pub(super) const XOR_NOT_AND: i32 = 0xd2;
    pub(super) const OR_NOT_XOR: i32 = 0x39;
    pub(super) const NOT: i32 = 0x55;
}

/// Reverses the bytes of each word, in each 128-bit part.
#[inline(always)]
unsafe fn swap_bytes(x: __m512i, word_size: usize) -> __m512i {
    // SAFETY: the caller promises AVX-512 F and BW.
    unsafe {
        let order = if word_size == 4 {
            _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3)
        } else {
            _mm_set_epi8(8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7)
        };
        _mm512_shuffle_epi8(x, _mm512_broadcast_i32x4(order))
    }
}

/// Loads 64 bytes of one lane and converts their words to the byte order of the CPU.
///
/// # Safety
/// The CPU has AVX-512 F and BW; the pointer is readable for 64 bytes.
#[inline(always)]
unsafe fn load_row(from: *const u8, word_size: usize, big_endian: bool) -> __m512i {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let x = _mm512_loadu_si512(from.cast());
        if big_endian { swap_bytes(x, word_size) } else { x }
    }
}

/// Transposes 4 x 4 parts of 128 bits.
///
/// # Safety
/// The CPU has AVX-512 F.
#[inline(always)]
pub unsafe fn transpose_parts(a: __m512i, b: __m512i, c: __m512i, d: __m512i) -> [__m512i; 4] {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let (ab_low, ab_high) = (_mm512_shuffle_i32x4::<0x44>(a, b), _mm512_shuffle_i32x4::<0xee>(a, b));
        let (cd_low, cd_high) = (_mm512_shuffle_i32x4::<0x44>(c, d), _mm512_shuffle_i32x4::<0xee>(c, d));
        [
            _mm512_shuffle_i32x4::<0x88>(ab_low, cd_low),
            _mm512_shuffle_i32x4::<0xdd>(ab_low, cd_low),
            _mm512_shuffle_i32x4::<0x88>(ab_high, cd_high),
            _mm512_shuffle_i32x4::<0xdd>(ab_high, cd_high),
        ]
    }
}

/// [`Vector::opaque`].
#[inline]
#[target_feature(enable = "avx512f")]
fn opaque(mut x: __m512i) -> __m512i {
    // SAFETY: the assembly is a comment; it executes nothing.
    unsafe { core::arch::asm!("/* {0} */", inout(zmm_reg) x, options(pure, nomem, nostack, preserves_flags)) };
    x
}

/// The operations for which AVX-512 has dedicated instructions, and `opaque`.
macro_rules! with_avx512 {
    ($word:ty, $set1:ident, $rol:ident, $shr:ident, $ternary:ident) => {
        const LATENCY: u32 = LATENCY;

        #[inline(always)]
        fn opaque(self) -> Self {
            // SAFETY: a value of this type exists, so the CPU has the instructions.
            Self(unsafe { opaque(self.0) })
        }

        #[inline(always)]
        fn not(self) -> Self {
            // SAFETY: as for `opaque`.
            Self(unsafe { $ternary::<{ table::NOT }>(self.0, self.0, self.0) })
        }

        #[inline(always)]
        fn rotate_left<const N: u32>(self) -> Self {
            // SAFETY: as for `opaque`. The count is constant, so this compiles to the instruction with an immediate.
            Self(unsafe { $rol(self.0, $set1(<$word>::from(N).cast_signed())) })
        }

        #[inline(always)]
        fn shift_right<const N: u32>(self) -> Self {
            // SAFETY: as for `opaque`.
            Self(unsafe { $shr::<N>(self.0) })
        }

        #[inline(always)]
        fn choose(self, yes: Self, no: Self) -> Self {
            // SAFETY: as for `opaque`.
            Self(unsafe { $ternary::<{ table::CHOOSE }>(self.0, yes.0, no.0) })
        }

        #[inline(always)]
        fn majority(self, b: Self, c: Self) -> Self {
            // SAFETY: as for `opaque`.
            Self(unsafe { $ternary::<{ table::MAJORITY }>(self.0, b.0, c.0) })
        }

        #[inline(always)]
        fn next_majority(self, b: Self, c: Self, b_xor_c: Self) -> (Self, Self) {
            (self.majority(b, c), b_xor_c)
        }

        #[inline(always)]
        fn xor3(self, b: Self, c: Self) -> Self {
            // SAFETY: as for `opaque`.
            Self(unsafe { $ternary::<{ table::XOR3 }>(self.0, b.0, c.0) })
        }

        #[inline(always)]
        fn xor_not_and(self, b: Self, c: Self) -> Self {
            // SAFETY: as for `opaque`.
            Self(unsafe { $ternary::<{ table::XOR_NOT_AND }>(self.0, b.0, c.0) })
        }

        #[inline(always)]
        fn or_not_xor(self, b: Self, c: Self) -> Self {
            // SAFETY: as for `opaque`.
            Self(unsafe { $ternary::<{ table::OR_NOT_XOR }>(self.0, b.0, c.0) })
        }
    };
}

impl<const LATENCY: u32> Vector for Zmm32<LATENCY> {
    common!(
        u32,
        16,
        _mm512_set1_epi32,
        _mm512_loadu_si512,
        _mm512_storeu_si512,
        _mm512_add_epi32,
        _mm512_and_si512,
        _mm512_or_si512,
        _mm512_xor_si512
    );
    with_avx512!(u32, _mm512_set1_epi32, _mm512_rolv_epi32, _mm512_srli_epi32, _mm512_ternarylogic_epi32);

    #[inline(always)]
    unsafe fn gather(lanes: *const *const u8, offset: usize, big_endian: bool) -> [Self; 16] {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let mut quarters = [[Self(_mm512_setzero_si512()); 4]; 4];
            for (i, quarter) in quarters.iter_mut().enumerate() {
                *quarter = Self::fetch(lanes, offset, big_endian, i);
            }
            Self::arrange(quarters)
        }
    }

    /// Reads the whole blocks of four lanes, so that each cache line is read once: sixteen messages at multiples of 4 KiB share a cache
    /// set, which has fewer ways. A 4 x 4 transpose of words within the parts puts word `4s + j` of these lanes into part `s` of
    /// register `j`.
    #[inline(always)]
    unsafe fn fetch(lanes: *const *const u8, offset: usize, big_endian: bool, quarter: usize) -> [Self; 4] {
        // SAFETY: the caller promises AVX-512 and a readable block of 64 bytes for each of the sixteen pointers.
        unsafe {
            let row = |j: usize| load_row((*lanes.add(4 * quarter + j)).add(offset), 4, big_endian);
            let (a, b, c, d) = (row(0), row(1), row(2), row(3));
            let (ab_low, ab_high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
            let (cd_low, cd_high) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
            [
                Self(_mm512_unpacklo_epi64(ab_low, cd_low)),
                Self(_mm512_unpackhi_epi64(ab_low, cd_low)),
                Self(_mm512_unpacklo_epi64(ab_high, cd_high)),
                Self(_mm512_unpackhi_epi64(ab_high, cd_high)),
            ]
        }
    }

    /// For each `j`, transposes the parts of register `j` of the four quarters.
    #[inline(always)]
    fn arrange(quarters: [[Self; 4]; 4]) -> [Self; 16] {
        let [a, b, c, d] = quarters;
        let mut words = [a[0]; 16];
        for j in 0..4 {
            // SAFETY: a value of this type exists, so the CPU has the instructions.
            let parts = unsafe { transpose_parts(a[j].0, b[j].0, c[j].0, d[j].0) };
            for (s, part) in parts.into_iter().enumerate() {
                words[4 * s + j] = Self(part);
            }
        }
        words
    }
}

impl<const LATENCY: u32> Vector for Zmm64<LATENCY> {
    common!(
        u64,
        8,
        _mm512_set1_epi64,
        _mm512_loadu_si512,
        _mm512_storeu_si512,
        _mm512_add_epi64,
        _mm512_and_si512,
        _mm512_or_si512,
        _mm512_xor_si512
    );
    with_avx512!(u64, _mm512_set1_epi64, _mm512_rolv_epi64, _mm512_srli_epi64, _mm512_ternarylogic_epi64);

    /// As for 32-bit words, in two halves with 2 x 2 transposes of words.
    #[inline(always)]
    unsafe fn gather(lanes: *const *const u8, offset: usize, big_endian: bool) -> [Self; 16] {
        // SAFETY: the caller promises AVX-512 and a readable block of 128 bytes for each of the eight pointers.
        unsafe {
            let mut words = [Self(_mm512_setzero_si512()); 16];
            for half in 0..2 {
                let mut pairs = [[_mm512_setzero_si512(); 2]; 4];
                for (i, pair) in pairs.iter_mut().enumerate() {
                    let row = |j: usize| load_row((*lanes.add(2 * i + j)).add(offset + 64 * half), 8, big_endian);
                    let (a, b) = (row(0), row(1));
                    *pair = [_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b)];
                }
                for j in 0..2 {
                    let parts = transpose_parts(pairs[0][j], pairs[1][j], pairs[2][j], pairs[3][j]);
                    for (s, part) in parts.into_iter().enumerate() {
                        words[8 * half + 2 * s + j] = Self(part);
                    }
                }
            }
            words
        }
    }

    #[inline(always)]
    unsafe fn fetch(lanes: *const *const u8, offset: usize, big_endian: bool, quarter: usize) -> [Self; 4] {
        // SAFETY: the caller promises AVX-512 and a readable block of 128 bytes for each of the eight pointers.
        unsafe {
            let row =
                |j: usize, half: usize| load_row((*lanes.add(2 * quarter + j)).add(offset + 64 * half), 8, big_endian);
            let ((a, b), (c, d)) = ((row(0, 0), row(1, 0)), (row(0, 1), row(1, 1)));
            [
                Self(_mm512_unpacklo_epi64(a, b)),
                Self(_mm512_unpackhi_epi64(a, b)),
                Self(_mm512_unpacklo_epi64(c, d)),
                Self(_mm512_unpackhi_epi64(c, d)),
            ]
        }
    }

    #[inline(always)]
    fn arrange(quarters: [[Self; 4]; 4]) -> [Self; 16] {
        let [a, b, c, d] = quarters;
        let mut words = [a[0]; 16];
        for j in 0..4 {
            // SAFETY: a value of this type exists, so the CPU has the instructions.
            let parts = unsafe { transpose_parts(a[j].0, b[j].0, c[j].0, d[j].0) };
            for (s, part) in parts.into_iter().enumerate() {
                words[8 * (j / 2) + 2 * s + j % 2] = Self(part);
            }
        }
        words
    }
}

impl<const LATENCY: u32> LoadPair for Zmm64<LATENCY> {
    /// A 2 x 2 transpose within the 128-bit parts: lane `2s + j` is in part `s` of row `j`.
    #[inline(always)]
    unsafe fn load_pair(lanes: *const *const u8, offset: usize) -> [Self; 2] {
        // SAFETY: the caller promises AVX-512 and 16 readable bytes for each of the eight pointers.
        unsafe {
            let part = |lane: usize| _mm_loadu_si128((*lanes.add(lane)).add(offset).cast());
            let row = |j: usize| {
                let x = _mm512_inserti32x4::<1>(_mm512_castsi128_si512(part(j)), part(j + 2));
                _mm512_inserti32x4::<3>(_mm512_inserti32x4::<2>(x, part(j + 4)), part(j + 6))
            };
            let (a, b) = (row(0), row(1));
            [Self(_mm512_unpacklo_epi64(a, b)), Self(_mm512_unpackhi_epi64(a, b))]
        }
    }
}
