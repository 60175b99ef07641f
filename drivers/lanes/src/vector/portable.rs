//! Vectors without intrinsics: single words, and short arrays that the compiler turns into SSE2 or NEON registers.

use super::Vector;

macro_rules! scalar {
    ($word:ty) => {
        impl Vector for $word {
            type Word = $word;
            const LANES: usize = 1;

            #[inline(always)]
            unsafe fn splat(word: $word) -> Self {
                word
            }

            #[inline(always)]
            unsafe fn load(from: *const $word) -> Self {
                // SAFETY: the caller promises one readable word.
                unsafe { from.read_unaligned() }
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut $word) {
                // SAFETY: the caller promises one writable word.
                unsafe { to.write_unaligned(self) }
            }

            #[inline(always)]
            unsafe fn gather(lanes: *const *const u8, offset: usize, big_endian: bool) -> [Self; 16] {
                let mut words = [0; 16];
                // SAFETY: the caller promises one pointer and sixteen words behind it.
                unsafe {
                    let block = (*lanes).add(offset).cast::<$word>();
                    for (i, word) in words.iter_mut().enumerate() {
                        let value = block.add(i).read_unaligned();
                        *word = if big_endian { <$word>::from_be(value) } else { <$word>::from_le(value) };
                    }
                }
                words
            }

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn and(self, other: Self) -> Self {
                self & other
            }

            #[inline(always)]
            fn or(self, other: Self) -> Self {
                self | other
            }

            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                self ^ other
            }

            #[inline(always)]
            fn not(self) -> Self {
                !self
            }

            #[inline(always)]
            fn rotate_left<const N: u32>(self) -> Self {
                <$word>::rotate_left(self, N)
            }

            #[inline(always)]
            fn shift_right<const N: u32>(self) -> Self {
                self >> N
            }
        }
    };
}
scalar!(u32);
scalar!(u64);

macro_rules! array {
    ($name:ident, $word:ty, $lanes:literal, $doc:literal) => {
        #[doc = $doc]
        #[derive(Clone, Copy)]
        #[repr(align(16))]
        pub(crate) struct $name([$word; $lanes]);

        impl $name {
            #[inline(always)]
            fn map(mut self, f: impl Fn($word) -> $word) -> Self {
                for word in &mut self.0 {
                    *word = f(*word);
                }
                self
            }

            #[inline(always)]
            fn zip(mut self, other: Self, f: impl Fn($word, $word) -> $word) -> Self {
                for (a, b) in self.0.iter_mut().zip(other.0) {
                    *a = f(*a, b);
                }
                self
            }
        }

        impl Vector for $name {
            type Word = $word;
            const LANES: usize = $lanes;

            #[inline(always)]
            unsafe fn splat(word: $word) -> Self {
                Self([word; $lanes])
            }

            #[inline(always)]
            unsafe fn load(from: *const $word) -> Self {
                // SAFETY: the caller promises readable words for all lanes.
                Self(unsafe { from.cast::<[$word; $lanes]>().read_unaligned() })
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut $word) {
                // SAFETY: the caller promises writable words for all lanes.
                unsafe { to.cast::<[$word; $lanes]>().write_unaligned(self.0) }
            }

            #[inline(always)]
            unsafe fn gather(lanes: *const *const u8, offset: usize, big_endian: bool) -> [Self; 16] {
                let mut words = [Self([0; $lanes]); 16];
                for lane in 0..$lanes {
                    // SAFETY: the caller promises a pointer for every lane and sixteen words behind each.
                    unsafe {
                        let block = (*lanes.add(lane)).add(offset).cast::<$word>();
                        for (i, word) in words.iter_mut().enumerate() {
                            let value = block.add(i).read_unaligned();
                            word.0[lane] = if big_endian { <$word>::from_be(value) } else { <$word>::from_le(value) };
                        }
                    }
                }
                words
            }

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.zip(other, <$word>::wrapping_add)
            }

            #[inline(always)]
            fn and(self, other: Self) -> Self {
                self.zip(other, |a, b| a & b)
            }

            #[inline(always)]
            fn or(self, other: Self) -> Self {
                self.zip(other, |a, b| a | b)
            }

            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                self.zip(other, |a, b| a ^ b)
            }

            #[inline(always)]
            fn not(self) -> Self {
                self.map(|a| !a)
            }

            #[inline(always)]
            fn rotate_left<const N: u32>(self) -> Self {
                self.map(|a| a.rotate_left(N))
            }

            #[inline(always)]
            fn shift_right<const N: u32>(self) -> Self {
                self.map(|a| a >> N)
            }
        }
    };
}
array!(Array32, u32, 4, "Four messages of 32-bit words.");
array!(Array64, u64, 2, "Two messages of 64-bit words.");
