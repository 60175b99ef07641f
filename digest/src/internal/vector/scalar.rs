//! Words as vectors of one lane.

use super::{LoadPair, Vector};

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
                // SAFETY: the caller promises one pointer, readable for sixteen words at `offset`.
                unsafe {
                    let block: *const [[u8; size_of::<$word>()]; 16] = (*lanes).add(offset).cast();
                    for (word, bytes) in words.iter_mut().zip(*block) {
                        let value = <$word>::from_ne_bytes(bytes);
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

impl LoadPair for u64 {
    #[inline(always)]
    unsafe fn load_pair(lanes: *const *const u8, offset: usize) -> [Self; 2] {
        // SAFETY: the caller promises one pointer, readable for two words at `offset`.
        let words: [[u8; 8]; 2] = unsafe { (*lanes).add(offset).cast::<[[u8; 8]; 2]>().read() };
        words.map(u64::from_le_bytes)
    }
}
