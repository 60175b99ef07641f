//! Registers of two blocks.

use core::arch::x86_64::*;

use super::{BLOCK_LEN, Register, Xmm};

/// Two blocks. Requires AVX2 and VAES.
#[derive(Clone, Copy)]
pub(in crate::aes) struct Ymm(pub(super) __m256i);

/// Permutations of two registers: one combines their lower blocks, the other their upper blocks.
const LOWER: i32 = 0x20;
const UPPER: i32 = 0x31;

impl Register for Ymm {
    const BLOCKS: usize = 2;
    type One = Xmm;

    #[inline(always)]
    unsafe fn load(from: *const [u8; BLOCK_LEN]) -> Self {
        // SAFETY: the caller promises AVX2 and two readable blocks.
        Self(unsafe { _mm256_loadu_si256(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut [u8; BLOCK_LEN]) {
        // SAFETY: the caller promises two writable blocks.
        unsafe { _mm256_storeu_si256(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn broadcast(from: *const [u8; BLOCK_LEN]) -> Self {
        // SAFETY: the caller promises AVX2 and a readable block.
        Self(unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(from.cast())) })
    }

    #[inline(always)]
    unsafe fn gather(from: *const *const u8, offset: usize) -> Self {
        // SAFETY: the caller promises AVX2 and two pointers, each with a readable block at `offset`.
        unsafe {
            let block = |i: usize| _mm_loadu_si128((*from.add(i)).add(offset).cast());
            Self(_mm256_inserti128_si256::<1>(_mm256_castsi128_si256(block(0)), block(1)))
        }
    }

    #[inline(always)]
    unsafe fn scatter(self, to: *const *mut u8, offset: usize) {
        // SAFETY: the caller promises two pointers, each with a writable block at `offset`.
        unsafe {
            _mm_storeu_si128((*to).add(offset).cast(), _mm256_castsi256_si128(self.0));
            _mm_storeu_si128((*to.add(1)).add(offset).cast(), _mm256_extracti128_si256::<1>(self.0));
        }
    }

    #[inline(always)]
    unsafe fn gather_four(from: *const *const u8, offset: usize) -> [Self; 4] {
        // SAFETY: the caller promises AVX2 and two pointers, each with four readable blocks at `offset`.
        unsafe {
            let pair = |i: usize, at: usize| _mm256_loadu_si256((*from.add(i)).add(offset + at).cast());
            let [a, b] = [pair(0, 0), pair(1, 0)];
            let [c, d] = [pair(0, 2 * BLOCK_LEN), pair(1, 2 * BLOCK_LEN)];
            [
                Self(_mm256_permute2x128_si256::<LOWER>(a, b)),
                Self(_mm256_permute2x128_si256::<UPPER>(a, b)),
                Self(_mm256_permute2x128_si256::<LOWER>(c, d)),
                Self(_mm256_permute2x128_si256::<UPPER>(c, d)),
            ]
        }
    }

    #[inline(always)]
    unsafe fn scatter_four(four: [Self; 4], to: *const *mut u8, offset: usize) {
        // SAFETY: the caller promises AVX2 and two pointers, each with four writable blocks at `offset`.
        unsafe {
            for (at, [first, second]) in [(0, [four[0].0, four[1].0]), (2 * BLOCK_LEN, [four[2].0, four[3].0])] {
                let rows = [
                    _mm256_permute2x128_si256::<LOWER>(first, second),
                    _mm256_permute2x128_si256::<UPPER>(first, second),
                ];
                for (i, row) in rows.into_iter().enumerate() {
                    _mm256_storeu_si256((*to.add(i)).add(offset + at).cast(), row);
                }
            }
        }
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: a value of this type exists, so there is AVX2.
        Self(unsafe { _mm256_xor_si256(self.0, other.0) })
    }

    #[inline(always)]
    fn round(self, key: Self) -> Self {
        // SAFETY: a value of this type exists, so there is VAES.
        Self(unsafe { _mm256_aesenc_epi128(self.0, key.0) })
    }

    #[inline(always)]
    fn last_round(self, key: Self) -> Self {
        // SAFETY: as for `round`.
        Self(unsafe { _mm256_aesenclast_epi128(self.0, key.0) })
    }

    #[inline(always)]
    fn inverse_round(self, key: Self) -> Self {
        // SAFETY: as for `round`.
        Self(unsafe { _mm256_aesdec_epi128(self.0, key.0) })
    }

    #[inline(always)]
    fn last_inverse_round(self, key: Self) -> Self {
        // SAFETY: as for `round`.
        Self(unsafe { _mm256_aesdeclast_epi128(self.0, key.0) })
    }

    #[inline(always)]
    fn next_masks(self) -> Self {
        // SAFETY: a value of this type exists, so there is AVX2.
        unsafe {
            // The bits shifted out of each half, in the lower bits of the other half.
            let overflow = _mm256_shuffle_epi32::<0b01_00_11_10>(_mm256_srli_epi64::<62>(self.0));
            let lower = _mm256_and_si256(overflow, _mm256_set_epi64x(0, -1, 0, -1));
            let shifted = _mm256_xor_si256(_mm256_slli_epi64::<2>(self.0), overflow);
            Self(_mm256_xor_si256(shifted, reduced(lower)))
        }
    }

    #[inline(always)]
    fn successive_masks<const N: usize>(first: Self) -> [Self; N] {
        let mut registers = [first; N];
        for r in 1..N {
            // Multiplies the register four places before this one by x^8: shifting whole bytes is simpler, and four dependency chains run
            // side by side.
            registers[r] = if r < 4 { registers[r - 1].next_masks() } else { times_bytes::<1, 15>(registers[r - 4]) };
        }
        registers
    }

    #[inline(always)]
    fn following_masks<const N: usize>(mut registers: [Self; N]) -> [Self; N] {
        const { assert!(N == 1 || N == 8) };
        for register in &mut registers {
            *register = if N == 1 { register.next_masks() } else { times_bytes::<2, 14>(*register) };
        }
        registers
    }

    #[inline(always)]
    unsafe fn times_powers_of_x(first: Xmm) -> Self {
        // SAFETY: the caller promises AVX2.
        Self(unsafe { _mm256_set_m128i(first.next_masks().0, first.0) })
    }

    #[inline(always)]
    fn first(self) -> Xmm {
        // SAFETY: as for `xor`.
        Xmm(unsafe { _mm256_castsi256_si128(self.0) })
    }
}

/// Multiplies blocks by x^(8 * `BYTES`) in GF(2^128). `REST` is `16 - BYTES`.
#[inline(always)]
fn times_bytes<const BYTES: i32, const REST: i32>(x: Ymm) -> Ymm {
    // SAFETY: a value of this type exists, so there is AVX2.
    unsafe {
        let overflow = _mm256_bsrli_epi128::<REST>(x.0);
        let left = _mm256_xor_si256(_mm256_bslli_epi128::<BYTES>(x.0), overflow);
        Ymm(_mm256_xor_si256(left, reduced(overflow)))
    }
}

/// Multiplies at most 57 bits by x^7 + x^2 + x. Adding the bits themselves gives their product with x^128.
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
unsafe fn reduced(overflow: __m256i) -> __m256i {
    // SAFETY: as above.
    unsafe {
        let times_2 = _mm256_add_epi64(overflow, overflow);
        let times_4 = _mm256_add_epi64(times_2, times_2);
        _mm256_xor_si256(_mm256_xor_si256(times_2, times_4), _mm256_slli_epi64::<7>(overflow))
    }
}
