//! NEON registers: 4 words of 32 bits, 2 of 64. NEON is part of aarch64.

use core::arch::aarch64::*;
use core::arch::asm;

use super::{LoadPair, Vector};

/// Four messages of 32-bit words.
#[derive(Clone, Copy)]
pub(crate) struct Neon32(uint32x4_t);

/// Two messages of 64-bit words. `SHA3` marks the type for functions compiled with the SHA-3 instructions.
#[derive(Clone, Copy)]
pub(crate) struct Neon64<const SHA3: bool = false>(uint64x2_t);

macro_rules! common {
    ($word:ty, $lanes:literal, $splat:ident, $load:ident, $store:ident, $add:ident, $and:ident, $or:ident, $xor:ident,
     $select:ident, $shift:ident, $count:ident) => {
        type Word = $word;
        const LANES: usize = $lanes;

        #[inline(always)]
        unsafe fn splat(word: $word) -> Self {
            // SAFETY: NEON is part of the architecture.
            Self(unsafe { $splat(word) })
        }

        #[inline(always)]
        unsafe fn load(from: *const $word) -> Self {
            // SAFETY: the caller promises 16 readable bytes.
            Self(unsafe { $load(from) })
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut $word) {
            // SAFETY: the caller promises 16 writable bytes.
            unsafe { $store(to, self.0) }
        }

        #[inline(always)]
        fn add(self, other: Self) -> Self {
            // SAFETY: NEON is part of the architecture.
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

        #[inline(always)]
        fn not(self) -> Self {
            // SAFETY: as for `add`.
            Self(unsafe { $xor(self.0, $splat(<$word>::MAX)) })
        }

        #[inline(always)]
        fn shift_right<const N: u32>(self) -> Self {
            // SAFETY: as for `add`. A negative count shifts right. It is constant, so this compiles to a shift with an immediate.
            Self(unsafe { $shift(self.0, $count((-N.cast_signed()).into())) })
        }

        #[inline(always)]
        fn choose(self, yes: Self, no: Self) -> Self {
            // SAFETY: as for `add`.
            Self(unsafe { $select(self.0, yes.0, no.0) })
        }

        /// Ignores `b_xor_c`, because the compiler makes better code without it: llvm-mca estimates a gain of 2 to 5 % for SHA-256.
        #[inline(always)]
        fn next_majority(self, b: Self, c: Self, b_xor_c: Self) -> (Self, Self) {
            (self.majority(b, c), b_xor_c)
        }
    };
}

impl Vector for Neon32 {
    common!(
        u32,
        4,
        vdupq_n_u32,
        vld1q_u32,
        vst1q_u32,
        vaddq_u32,
        vandq_u32,
        vorrq_u32,
        veorq_u32,
        vbslq_u32,
        vshlq_u32,
        vdupq_n_s32
    );

    #[inline(always)]
    fn rotate_left<const N: u32>(self) -> Self {
        // SAFETY: NEON is part of the architecture, and the instruction changes only its register. The counts are constant, so
        // the shifts compile to instructions with immediates.
        Self(unsafe {
            let mut left = vshlq_u32(self.0, vdupq_n_s32(N.cast_signed()));
            if N == 16 {
                // The compiler fuses both shifts into one instruction.
                return Self(vorrq_u32(left, vshlq_u32(self.0, vdupq_n_s32(-16))));
            }
            // SRI, a shift with insertion, is in assembly: the compiler turns `or`, and even the intrinsic of SRI, into USRA. USRA
            // shifts and adds, and takes twice as long on many CPUs. MD5 waits for each rotation: llvm-mca estimates 14 % fewer
            // cycles with SRI on a Neoverse N1, V1, N2 or V2.
            asm!(
                "sri {left:v}.4s, {right:v}.4s, {count}",
                left = inout(vreg) left, right = in(vreg) self.0, count = const 32 - N,
                options(pure, nomem, nostack, preserves_flags)
            );
            left
        })
    }

    /// 4 x 4 transposes.
    #[inline(always)]
    unsafe fn gather(lanes: *const *const u8, offset: usize, big_endian: bool) -> [Self; 16] {
        // SAFETY: the caller promises a readable block of 64 bytes for each of the four pointers.
        unsafe {
            let mut words = [Self(vdupq_n_u32(0)); 16];
            for part in 0..4 {
                let row = |lane: usize| {
                    let x = vld1q_u8((*lanes.add(lane)).add(offset + 16 * part));
                    vreinterpretq_u32_u8(if big_endian { vrev32q_u8(x) } else { x })
                };
                let (a, b, c, d) = (row(0), row(1), row(2), row(3));
                let (ab_even, ab_odd) = (as_64(vtrn1q_u32(a, b)), as_64(vtrn2q_u32(a, b)));
                let (cd_even, cd_odd) = (as_64(vtrn1q_u32(c, d)), as_64(vtrn2q_u32(c, d)));
                words[4 * part] = Self(vreinterpretq_u32_u64(vtrn1q_u64(ab_even, cd_even)));
                words[4 * part + 1] = Self(vreinterpretq_u32_u64(vtrn1q_u64(ab_odd, cd_odd)));
                words[4 * part + 2] = Self(vreinterpretq_u32_u64(vtrn2q_u64(ab_even, cd_even)));
                words[4 * part + 3] = Self(vreinterpretq_u32_u64(vtrn2q_u64(ab_odd, cd_odd)));
            }
            words
        }
    }
}

#[inline(always)]
fn as_64(x: uint32x4_t) -> uint64x2_t {
    // SAFETY: NEON is part of the architecture.
    unsafe { vreinterpretq_u64_u32(x) }
}

impl<const SHA3: bool> Neon64<SHA3> {
    /// Returns `self`. With SHA-3 instructions, hides its origin from the compiler, which would otherwise form EOR3 or BCAX. A Neoverse
    /// V1 or V2 has one unit for SHA-3 instructions and four for others. XAR replaces three other instructions, EOR3 and BCAX only two.
    /// llvm-mca estimates for SHA3-256 on a V2, in cycles per byte: 6.3 with all three, 4.5 with none, 4.2 with XAR alone.
    #[inline(always)]
    fn hide_origin(self) -> Self {
        let mut x = self.0;
        if SHA3 {
            // SAFETY: the assembly is a comment; it executes nothing.
            unsafe { asm!("/* {0:v} */", inout(vreg) x, options(pure, nomem, nostack, preserves_flags)) }
        }
        Self(x)
    }
}

impl<const SHA3: bool> Vector for Neon64<SHA3> {
    common!(
        u64,
        2,
        vdupq_n_u64,
        vld1q_u64,
        vst1q_u64,
        vaddq_u64,
        vandq_u64,
        vorrq_u64,
        veorq_u64,
        vbslq_u64,
        vshlq_u64,
        vdupq_n_s64
    );

    #[inline(always)]
    fn rotate_left<const N: u32>(self) -> Self {
        // SAFETY: as for `add`. The counts are constant, so these compile to shifts with immediates.
        Self(unsafe {
            let right = i64::from(N) - 64;
            vorrq_u64(vshlq_u64(self.0, vdupq_n_s64(N.into())), vshlq_u64(self.0, vdupq_n_s64(right)))
        })
    }

    #[inline(always)]
    fn xor3(self, b: Self, c: Self) -> Self {
        self.xor(b).hide_origin().xor(c)
    }

    #[inline(always)]
    fn xor_not_and(self, b: Self, c: Self) -> Self {
        self.xor(b.not().and(c).hide_origin())
    }

    /// 2 x 2 transposes.
    #[inline(always)]
    unsafe fn gather(lanes: *const *const u8, offset: usize, big_endian: bool) -> [Self; 16] {
        // SAFETY: the caller promises a readable block of 128 bytes for both pointers.
        unsafe {
            let mut words = [Self(vdupq_n_u64(0)); 16];
            for part in 0..8 {
                let row = |lane: usize| {
                    let x = vld1q_u8((*lanes.add(lane)).add(offset + 16 * part));
                    vreinterpretq_u64_u8(if big_endian { vrev64q_u8(x) } else { x })
                };
                let (a, b) = (row(0), row(1));
                words[2 * part] = Self(vtrn1q_u64(a, b));
                words[2 * part + 1] = Self(vtrn2q_u64(a, b));
            }
            words
        }
    }
}

impl<const SHA3: bool> LoadPair for Neon64<SHA3> {
    /// A 2 x 2 transpose.
    #[inline(always)]
    unsafe fn load_pair(lanes: *const *const u8, offset: usize) -> [Self; 2] {
        // SAFETY: NEON is part of the architecture; the caller promises 16 readable bytes for both pointers.
        unsafe {
            let row = |lane: usize| vreinterpretq_u64_u8(vld1q_u8((*lanes.add(lane)).add(offset)));
            let (a, b) = (row(0), row(1));
            [Self(vtrn1q_u64(a, b)), Self(vtrn2q_u64(a, b))]
        }
    }
}
