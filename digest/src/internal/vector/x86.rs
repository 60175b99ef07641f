//! Macros that implement `Vector` for the registers of x86-64, from the names of their intrinsics.

/// The operations of `Vector` that are one instruction each, for a type that wraps a register type of `core::arch`. A value of the
/// wrapper proves that the CPU has its instructions: callers of the functions that create a value guarantee them.
macro_rules! common {
    ($word:ty, $lanes:literal, $set1:ident, $load:ident, $store:ident, $add:ident, $and:ident, $or:ident, $xor:ident) => {
        type Word = $word;
        const LANES: usize = $lanes;

        #[inline(always)]
        unsafe fn splat(word: $word) -> Self {
            // SAFETY: the caller promises the instructions.
            Self(unsafe { $set1(word.cast_signed()) })
        }

        #[inline(always)]
        unsafe fn load(from: *const $word) -> Self {
            // SAFETY: the caller promises the instructions, and a readable range as wide as the register.
            Self(unsafe { $load(from.cast()) })
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut $word) {
            // SAFETY: a value of this type exists, so the CPU has the instructions; the caller promises a writable range as wide
            // as the register.
            unsafe { $store(to.cast(), self.0) }
        }

        #[inline(always)]
        fn add(self, other: Self) -> Self {
            // SAFETY: a value of this type exists, so the CPU has the instructions.
            Self(unsafe { $add(self.0, other.0) })
        }

        #[inline(always)]
        fn and(self, other: Self) -> Self {
            // SAFETY: as for `add`.
            Self(unsafe { $and(self.0, other.0) })
        }

        #[inline(always)]
        fn or(self, other: Self) -> Self {
            // SAFETY: as for `add`.
            Self(unsafe { $or(self.0, other.0) })
        }

        #[inline(always)]
        fn xor(self, other: Self) -> Self {
            // SAFETY: as for `add`.
            Self(unsafe { $xor(self.0, other.0) })
        }
    };
}

/// The remaining operations, for registers without the rotations and three-operand logic of AVX-512. With `$rotate_bytes`, a shuffle
/// rotates by whole bytes.
///
/// Most operations are functions with the features of the register, as the intrinsics are. A build without optimization then compiles one
/// call for each operation, not one for each instruction. This halves the time of such a build.
macro_rules! before_avx512 {
    ($word:ty, $register:ty, $features:literal, $set1:ident, $shl:ident, $shr:ident, $and:ident, $or:ident, $xor:ident
     $(, $rotate_bytes:ident)?) => {
        #[inline(always)]
        fn not(self) -> Self {
            // SAFETY: as for `add`.
            Self(unsafe { $xor(self.0, $set1(-1)) })
        }

        #[inline(always)]
        fn rotate_left<const N: u32>(self) -> Self {
            // The counts are constant, so these compile to shifts with immediates.
            #[inline]
            #[target_feature(enable = $features)]
            fn shifts<const N: u32>(x: $register) -> $register {
                let left = $shl(x, _mm_cvtsi32_si128(N.cast_signed()));
                let right = $shr(x, _mm_cvtsi32_si128((<$word>::BITS - N).cast_signed()));
                $or(left, right)
            }
            $(
                if N.is_multiple_of(8) {
                    // SAFETY: as for `add`.
                    return Self(unsafe { $rotate_bytes::<$word, N>(self.0) });
                }
            )?
            // SAFETY: as for `add`.
            Self(unsafe { shifts::<N>(self.0) })
        }

        #[inline(always)]
        fn shift_right<const N: u32>(self) -> Self {
            #[inline]
            #[target_feature(enable = $features)]
            fn shift<const N: u32>(x: $register) -> $register {
                $shr(x, _mm_cvtsi32_si128(N.cast_signed()))
            }
            // SAFETY: as for `add`.
            Self(unsafe { shift::<N>(self.0) })
        }

        #[inline(always)]
        fn choose(self, yes: Self, no: Self) -> Self {
            #[inline]
            #[target_feature(enable = $features)]
            fn choose(x: $register, yes: $register, no: $register) -> $register {
                $xor($and($xor(yes, no), x), no)
            }
            // SAFETY: as for `add`.
            Self(unsafe { choose(self.0, yes.0, no.0) })
        }

        #[inline(always)]
        fn xor3(self, b: Self, c: Self) -> Self {
            #[inline]
            #[target_feature(enable = $features)]
            fn xor3(a: $register, b: $register, c: $register) -> $register {
                $xor($xor(a, b), c)
            }
            // SAFETY: as for `add`.
            Self(unsafe { xor3(self.0, b.0, c.0) })
        }
    };
}
