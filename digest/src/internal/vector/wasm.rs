//! SIMD128 registers of WebAssembly: 4 words of 32 bits, 2 of 64. The build enables them (`-C target-feature=+simd128`).

use core::arch::wasm32::*;

use super::{LoadPair, Vector};

/// Four messages of 32-bit words.
#[derive(Clone, Copy)]
pub(crate) struct Simd32(v128);

/// Two messages of 64-bit words.
#[derive(Clone, Copy)]
pub(crate) struct Simd64(v128);

macro_rules! common {
    ($word:ty, $lanes:literal, $splat:ident, $add:ident, $left:ident, $right:ident) => {
        type Word = $word;
        const LANES: usize = $lanes;

        #[inline(always)]
        unsafe fn splat(word: $word) -> Self {
            Self($splat(word))
        }

        #[inline(always)]
        unsafe fn load(from: *const $word) -> Self {
            // SAFETY: the caller promises 16 readable bytes.
            Self(unsafe { v128_load(from.cast()) })
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut $word) {
            // SAFETY: the caller promises 16 writable bytes.
            unsafe { v128_store(to.cast(), self.0) }
        }

        #[inline(always)]
        fn add(self, other: Self) -> Self {
            Self($add(self.0, other.0))
        }

        #[inline(always)]
        fn and(self, other: Self) -> Self {
            Self(v128_and(self.0, other.0))
        }

        #[inline(always)]
        fn or(self, other: Self) -> Self {
            Self(v128_or(self.0, other.0))
        }

        #[inline(always)]
        fn xor(self, other: Self) -> Self {
            Self(v128_xor(self.0, other.0))
        }

        #[inline(always)]
        fn not(self) -> Self {
            Self(v128_not(self.0))
        }

        #[inline(always)]
        fn rotate_left<const N: u32>(self) -> Self {
            Self(v128_or($left(self.0, N), $right(self.0, <$word>::BITS - N)))
        }

        #[inline(always)]
        fn shift_right<const N: u32>(self) -> Self {
            Self($right(self.0, N))
        }

        #[inline(always)]
        fn choose(self, yes: Self, no: Self) -> Self {
            Self(v128_bitselect(yes.0, no.0, self.0))
        }
    };
}

impl Vector for Simd32 {
    common!(u32, 4, u32x4_splat, u32x4_add, u32x4_shl, u32x4_shr);

    /// 4 x 4 transposes.
    #[inline(always)]
    unsafe fn gather(lanes: *const *const u8, offset: usize, big_endian: bool) -> [Self; 16] {
        let mut words = [Self(u32x4_splat(0)); 16];
        for part in 0..4 {
            let row = |lane: usize| {
                // SAFETY: the caller promises a readable block of 64 bytes for each of the four pointers.
                let x = unsafe { v128_load((*lanes.add(lane)).add(offset + 16 * part).cast()) };
                if big_endian { i8x16_shuffle::<3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12>(x, x) } else { x }
            };
            let (a, b, c, d) = (row(0), row(1), row(2), row(3));
            let (ab_low, ab_high) = (u32x4_shuffle::<0, 4, 1, 5>(a, b), u32x4_shuffle::<2, 6, 3, 7>(a, b));
            let (cd_low, cd_high) = (u32x4_shuffle::<0, 4, 1, 5>(c, d), u32x4_shuffle::<2, 6, 3, 7>(c, d));
            words[4 * part] = Self(u64x2_shuffle::<0, 2>(ab_low, cd_low));
            words[4 * part + 1] = Self(u64x2_shuffle::<1, 3>(ab_low, cd_low));
            words[4 * part + 2] = Self(u64x2_shuffle::<0, 2>(ab_high, cd_high));
            words[4 * part + 3] = Self(u64x2_shuffle::<1, 3>(ab_high, cd_high));
        }
        words
    }
}

impl Vector for Simd64 {
    common!(u64, 2, u64x2_splat, u64x2_add, u64x2_shl, u64x2_shr);

    /// 2 x 2 transposes.
    #[inline(always)]
    unsafe fn gather(lanes: *const *const u8, offset: usize, big_endian: bool) -> [Self; 16] {
        let mut words = [Self(u64x2_splat(0)); 16];
        for part in 0..8 {
            // SAFETY: the caller promises a readable block of 128 bytes for both pointers.
            let pair = unsafe { Self::load_pair(lanes, offset + 16 * part) };
            let swap = |Self(x)| Self(i8x16_shuffle::<7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8>(x, x));
            words.as_chunks_mut().0[part] = if big_endian { pair.map(swap) } else { pair };
        }
        words
    }
}

impl LoadPair for Simd64 {
    /// A 2 x 2 transpose.
    #[inline(always)]
    unsafe fn load_pair(lanes: *const *const u8, offset: usize) -> [Self; 2] {
        // SAFETY: the caller promises 16 readable bytes for both pointers.
        let row = |lane: usize| unsafe { v128_load((*lanes.add(lane)).add(offset).cast()) };
        let (a, b) = (row(0), row(1));
        [Self(u64x2_shuffle::<0, 2>(a, b)), Self(u64x2_shuffle::<1, 3>(a, b))]
    }
}
