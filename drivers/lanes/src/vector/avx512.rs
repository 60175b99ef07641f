//! AVX-512 registers: 16 words of 32 bits, 8 of 64. Needs AVX-512 F and BW.

use core::arch::x86_64::*;

use super::Vector;

/// Sixteen messages of 32-bit words.
#[derive(Clone, Copy)]
pub(crate) struct Zmm32(__m512i);

/// Eight messages of 64-bit words.
#[derive(Clone, Copy)]
pub(crate) struct Zmm64(__m512i);

/// Truth tables of `vpternlog`: the bit at index `4a + 2b + c` is the result.
mod table {
    pub(super) const CHOOSE: i32 = 0xca;
    pub(super) const MAJORITY: i32 = 0xe8;
    pub(super) const XOR3: i32 = 0x96;
    pub(super) const OR_NOT_XOR: i32 = 0x39;
    pub(super) const NOT: i32 = 0x55;
}

/// Reverses the bytes of each word, in each 128-bit part.
#[inline(always)]
unsafe fn swap_bytes(x: __m512i, word: usize) -> __m512i {
    // SAFETY: the caller promises AVX-512 F and BW.
    unsafe {
        let order = if word == 4 {
            _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3)
        } else {
            _mm_set_epi8(8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7)
        };
        _mm512_shuffle_epi8(x, _mm512_broadcast_i32x4(order))
    }
}

/// Sixteen bytes of four lanes in one register.
///
/// # Safety
/// AVX-512 F; each pointer is readable for 16 bytes.
#[inline(always)]
unsafe fn four(a: *const u8, b: *const u8, c: *const u8, d: *const u8) -> __m512i {
    // SAFETY: as above. Loads of 16 bytes never cross a cache line when the message is aligned to 16, and inserting on
    // load leaves the shuffle port to the kernel.
    unsafe {
        let x = _mm512_castsi128_si512(_mm_loadu_si128(a.cast()));
        let x = _mm512_inserti32x4::<1>(x, _mm_loadu_si128(b.cast()));
        let x = _mm512_inserti32x4::<2>(x, _mm_loadu_si128(c.cast()));
        _mm512_inserti32x4::<3>(x, _mm_loadu_si128(d.cast()))
    }
}

macro_rules! common {
    ($word:ty, $lanes:literal, $set1:ident, $add:ident, $rol:ident, $shr:ident, $ternary:ident) => {
        type Word = $word;
        const LANES: usize = $lanes;

        #[inline(always)]
        unsafe fn splat(word: $word) -> Self {
            // SAFETY: the caller promises AVX-512.
            Self(unsafe { $set1(word.cast_signed()) })
        }

        #[inline(always)]
        unsafe fn load(from: *const $word) -> Self {
            // SAFETY: the caller promises AVX-512 and 64 readable bytes.
            Self(unsafe { _mm512_loadu_si512(from.cast()) })
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut $word) {
            // SAFETY: a value of this type exists, so there is AVX-512; the caller promises 64 writable bytes.
            unsafe { _mm512_storeu_si512(to.cast(), self.0) }
        }

        #[inline(always)]
        fn add(self, other: Self) -> Self {
            // SAFETY: a value of this type exists, so there is AVX-512.
            Self(unsafe { $add(self.0, other.0) })
        }

        #[inline(always)]
        fn and(self, other: Self) -> Self {
            // SAFETY: as for `add`.
            Self(unsafe { _mm512_and_si512(self.0, other.0) })
        }

        #[inline(always)]
        fn or(self, other: Self) -> Self {
            // SAFETY: as for `add`.
            Self(unsafe { _mm512_or_si512(self.0, other.0) })
        }

        #[inline(always)]
        fn xor(self, other: Self) -> Self {
            // SAFETY: as for `add`.
            Self(unsafe { _mm512_xor_si512(self.0, other.0) })
        }

        #[inline(always)]
        fn not(self) -> Self {
            // SAFETY: as for `add`.
            Self(unsafe { $ternary::<{ table::NOT }>(self.0, self.0, self.0) })
        }

        #[inline(always)]
        fn rotate_left<const N: u32>(self) -> Self {
            // SAFETY: as for `add`. (The count is a constant: this becomes the instruction with an immediate.)
            Self(unsafe { $rol(self.0, $set1(<$word>::from(N).cast_signed())) })
        }

        #[inline(always)]
        fn shift_right<const N: u32>(self) -> Self {
            // SAFETY: as for `add`.
            Self(unsafe { $shr::<N>(self.0) })
        }

        #[inline(always)]
        fn choose(self, yes: Self, no: Self) -> Self {
            // SAFETY: as for `add`.
            Self(unsafe { $ternary::<{ table::CHOOSE }>(self.0, yes.0, no.0) })
        }

        #[inline(always)]
        fn majority(self, b: Self, c: Self) -> Self {
            // SAFETY: as for `add`.
            Self(unsafe { $ternary::<{ table::MAJORITY }>(self.0, b.0, c.0) })
        }

        #[inline(always)]
        fn xor3(self, b: Self, c: Self) -> Self {
            // SAFETY: as for `add`.
            Self(unsafe { $ternary::<{ table::XOR3 }>(self.0, b.0, c.0) })
        }

        #[inline(always)]
        fn or_not_xor(self, b: Self, c: Self) -> Self {
            // SAFETY: as for `add`.
            Self(unsafe { $ternary::<{ table::OR_NOT_XOR }>(self.0, b.0, c.0) })
        }
    };
}

impl Vector for Zmm32 {
    common!(
        u32,
        16,
        _mm512_set1_epi32,
        _mm512_add_epi32,
        _mm512_rolv_epi32,
        _mm512_srli_epi32,
        _mm512_ternarylogic_epi32
    );

    /// Lane by lane, so that sixteen messages that share a cache set (buffers a multiple of 4 KiB apart) are read once
    /// and do not evict each other; then 4 x 4 transposes within the 128-bit parts, where lane `4s + j` sits in part `s`
    /// of row `j`.
    #[inline(always)]
    unsafe fn gather(lanes: *const *const u8, offset: usize, big_endian: bool) -> [Self; 16] {
        // SAFETY: the caller promises AVX-512 and a readable block of 64 bytes for each of the sixteen pointers.
        unsafe {
            let mut words = [Self(_mm512_setzero_si512()); 16];
            let mut rows = [[_mm512_setzero_si512(); 4]; 4];
            for (j, row) in rows.iter_mut().enumerate() {
                let (a, b) = ((*lanes.add(j)).add(offset), (*lanes.add(j + 4)).add(offset));
                let (c, d) = ((*lanes.add(j + 8)).add(offset), (*lanes.add(j + 12)).add(offset));
                for (part, x) in row.iter_mut().enumerate() {
                    let at = 16 * part;
                    *x = four(a.add(at), b.add(at), c.add(at), d.add(at));
                    if big_endian {
                        *x = swap_bytes(*x, 4);
                    }
                }
            }
            for part in 0..4 {
                let (a, b, c, d) = (rows[0][part], rows[1][part], rows[2][part], rows[3][part]);
                let (ab_low, ab_high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
                let (cd_low, cd_high) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
                words[4 * part] = Self(_mm512_unpacklo_epi64(ab_low, cd_low));
                words[4 * part + 1] = Self(_mm512_unpackhi_epi64(ab_low, cd_low));
                words[4 * part + 2] = Self(_mm512_unpacklo_epi64(ab_high, cd_high));
                words[4 * part + 3] = Self(_mm512_unpackhi_epi64(ab_high, cd_high));
            }
            words
        }
    }
}

impl Vector for Zmm64 {
    common!(
        u64,
        8,
        _mm512_set1_epi64,
        _mm512_add_epi64,
        _mm512_rolv_epi64,
        _mm512_srli_epi64,
        _mm512_ternarylogic_epi64
    );

    /// As for 32-bit words, with 2 x 2 transposes: lane `2s + j` sits in part `s` of row `j`.
    #[inline(always)]
    unsafe fn gather(lanes: *const *const u8, offset: usize, big_endian: bool) -> [Self; 16] {
        // SAFETY: the caller promises AVX-512 and a readable block of 128 bytes for each of the eight pointers.
        unsafe {
            let mut words = [Self(_mm512_setzero_si512()); 16];
            let mut rows = [[_mm512_setzero_si512(); 8]; 2];
            for (j, row) in rows.iter_mut().enumerate() {
                let (a, b) = ((*lanes.add(j)).add(offset), (*lanes.add(j + 2)).add(offset));
                let (c, d) = ((*lanes.add(j + 4)).add(offset), (*lanes.add(j + 6)).add(offset));
                for (part, x) in row.iter_mut().enumerate() {
                    let at = 16 * part;
                    *x = four(a.add(at), b.add(at), c.add(at), d.add(at));
                    if big_endian {
                        *x = swap_bytes(*x, 8);
                    }
                }
            }
            for part in 0..8 {
                words[2 * part] = Self(_mm512_unpacklo_epi64(rows[0][part], rows[1][part]));
                words[2 * part + 1] = Self(_mm512_unpackhi_epi64(rows[0][part], rows[1][part]));
            }
            words
        }
    }
}
