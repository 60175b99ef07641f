//! One block, and four.

use core::arch::x86_64::*;

use super::{BLOCK, Register};
use crate::vector::avx512::transpose_parts;

/// SubWord of FIPS 197.
#[target_feature(enable = "aes")]
pub(in crate::kernel::aes) fn substitute(word: u32) -> u32 {
    let word = _mm_set1_epi32(word.cast_signed());
    _mm_cvtsi128_si32(_mm_aeskeygenassist_si128::<0>(word)).cast_unsigned()
}

/// InvMixColumns of FIPS 197.
#[target_feature(enable = "aes")]
pub(in crate::kernel::aes) fn inverse_mix_columns(block: &mut [u8; BLOCK]) {
    // SAFETY: reads and writes the block.
    unsafe {
        let block = core::ptr::from_mut(block).cast();
        _mm_storeu_si128(block, _mm_aesimc_si128(_mm_loadu_si128(block)));
    }
}

/// One block.
#[derive(Clone, Copy)]
pub(in crate::kernel::aes) struct Xmm(__m128i);

impl Register for Xmm {
    const BLOCKS: usize = 1;
    type One = Xmm;

    #[inline(always)]
    unsafe fn load(from: *const [u8; BLOCK]) -> Self {
        // SAFETY: the caller promises a readable block.
        Self(unsafe { _mm_loadu_si128(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut [u8; BLOCK]) {
        // SAFETY: the caller promises a writable block.
        unsafe { _mm_storeu_si128(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn broadcast(from: *const [u8; BLOCK]) -> Self {
        // SAFETY: the caller promises a readable block.
        unsafe { Self::load(from) }
    }

    #[inline(always)]
    unsafe fn gather(from: *const *const u8, offset: usize) -> Self {
        // SAFETY: the caller promises a pointer, and a readable block behind it.
        Self(unsafe { _mm_loadu_si128((*from).add(offset).cast()) })
    }

    #[inline(always)]
    unsafe fn scatter(self, to: *const *mut u8, offset: usize) {
        // SAFETY: the caller promises a pointer, and a writable block behind it.
        unsafe { _mm_storeu_si128((*to).add(offset).cast(), self.0) }
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: SSE2 is part of the architecture.
        Self(unsafe { _mm_xor_si128(self.0, other.0) })
    }

    #[inline(always)]
    fn round(self, key: Self) -> Self {
        // SAFETY: a value of this type exists, so there are AES instructions.
        Self(unsafe { _mm_aesenc_si128(self.0, key.0) })
    }

    #[inline(always)]
    fn last_round(self, key: Self) -> Self {
        // SAFETY: as for `round`.
        Self(unsafe { _mm_aesenclast_si128(self.0, key.0) })
    }

    #[inline(always)]
    fn inverse_round(self, key: Self) -> Self {
        // SAFETY: as for `round`.
        Self(unsafe { _mm_aesdec_si128(self.0, key.0) })
    }

    #[inline(always)]
    fn last_inverse_round(self, key: Self) -> Self {
        // SAFETY: as for `round`.
        Self(unsafe { _mm_aesdeclast_si128(self.0, key.0) })
    }

    #[inline(always)]
    fn next(self) -> Self {
        // SAFETY: SSE2 is part of the architecture.
        unsafe {
            let doubled = _mm_add_epi64(self.0, self.0);
            // The upper bit of each half, all over the other half.
            let over = _mm_srai_epi32::<31>(_mm_shuffle_epi32::<0b00_01_00_11>(self.0));
            Self(_mm_xor_si128(doubled, _mm_and_si128(over, _mm_set_epi64x(1, 0x87))))
        }
    }

    #[inline(always)]
    unsafe fn ascending(first: Self) -> Self {
        first
    }

    #[inline(always)]
    fn first(self) -> Self {
        self
    }
}

/// Four blocks.
#[derive(Clone, Copy)]
pub(in crate::kernel::aes) struct Zmm(pub(in crate::kernel::aes) __m512i);

/// Four blocks on one line of the cache: a store across two lines is not forwarded to the loads behind it.
#[repr(align(64))]
struct Line([[u8; BLOCK]; 4]);

impl Register for Zmm {
    const BLOCKS: usize = 4;
    type One = Xmm;

    #[inline(always)]
    unsafe fn load(from: *const [u8; BLOCK]) -> Self {
        // SAFETY: the caller promises AVX-512 and four readable blocks.
        Self(unsafe { _mm512_loadu_si512(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut [u8; BLOCK]) {
        // SAFETY: the caller promises four writable blocks.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn broadcast(from: *const [u8; BLOCK]) -> Self {
        // SAFETY: the caller promises AVX-512 and a readable block.
        Self(unsafe { _mm512_broadcast_i32x4(_mm_loadu_si128(from.cast())) })
    }

    #[inline(always)]
    unsafe fn gather(from: *const *const u8, offset: usize) -> Self {
        // SAFETY: the caller promises AVX-512 and four pointers, each with a readable block behind it.
        unsafe {
            let block = |i: usize| _mm_loadu_si128((*from.add(i)).add(offset).cast());
            let x = _mm512_castsi128_si512(block(0));
            let x = _mm512_inserti32x4::<1>(x, block(1));
            let x = _mm512_inserti32x4::<2>(x, block(2));
            Self(_mm512_inserti32x4::<3>(x, block(3)))
        }
    }

    #[inline(always)]
    unsafe fn scatter(self, to: *const *mut u8, offset: usize) {
        // SAFETY: the caller promises four pointers, each with a writable block behind it.
        unsafe {
            // By way of memory: extracting from the register would compete with the AES rounds for their ports (16
            // chains and 10 rounds: 72 cycles a block on Zen 4, against 57 this way).
            let mut line = Line([[0; BLOCK]; 4]);
            self.store(line.0.as_mut_ptr());
            for (i, block) in core::hint::black_box(&line).0.iter().enumerate() {
                _mm_storeu_si128((*to.add(i)).add(offset).cast(), _mm_loadu_si128(block.as_ptr().cast()));
            }
        }
    }

    #[inline(always)]
    unsafe fn gather_four(from: *const *const u8, offset: usize) -> [Self; 4] {
        // SAFETY: the caller promises AVX-512 and four pointers, each with four readable blocks behind it.
        unsafe {
            let row = |i: usize| _mm512_loadu_si512((*from.add(i)).add(offset).cast());
            transpose_parts(row(0), row(1), row(2), row(3)).map(Self)
        }
    }

    #[inline(always)]
    unsafe fn scatter_four(four: [Self; 4], to: *const *mut u8, offset: usize) {
        // SAFETY: the caller promises AVX-512 and four pointers, each with four writable blocks behind it.
        unsafe {
            let rows = transpose_parts(four[0].0, four[1].0, four[2].0, four[3].0);
            for (i, row) in rows.into_iter().enumerate() {
                _mm512_storeu_si512((*to.add(i)).add(offset).cast(), row);
            }
        }
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: a value of this type exists, so there is AVX-512.
        Self(unsafe { _mm512_xor_si512(self.0, other.0) })
    }

    #[inline(always)]
    fn round(self, key: Self) -> Self {
        // SAFETY: a value of this type exists, so there are AVX-512 and VAES.
        Self(unsafe { _mm512_aesenc_epi128(self.0, key.0) })
    }

    #[inline(always)]
    fn last_round(self, key: Self) -> Self {
        // SAFETY: as for `round`.
        Self(unsafe { _mm512_aesenclast_epi128(self.0, key.0) })
    }

    #[inline(always)]
    fn inverse_round(self, key: Self) -> Self {
        // SAFETY: as for `round`.
        Self(unsafe { _mm512_aesdec_epi128(self.0, key.0) })
    }

    #[inline(always)]
    fn last_inverse_round(self, key: Self) -> Self {
        // SAFETY: as for `round`.
        Self(unsafe { _mm512_aesdeclast_epi128(self.0, key.0) })
    }

    #[inline(always)]
    fn next(self) -> Self {
        // SAFETY: as for `xor`.
        unsafe { Self(joined(_mm512_slli_epi64::<4>(self.0), _mm512_srli_epi64::<60>(self.0))) }
    }

    #[inline(always)]
    fn following<const N: usize>(mut registers: [Self; N]) -> [Self; N] {
        const { assert!(N == 1 || N == 4) };
        for register in &mut registers {
            if N == 1 {
                *register = register.next();
                continue;
            }
            // SAFETY: as for `xor`. Times x^16: whole bytes are simpler.
            unsafe {
                let over = _mm512_bsrli_epi128::<14>(register.0);
                let left = _mm512_xor_si512(_mm512_bslli_epi128::<2>(register.0), over);
                register.0 = _mm512_xor_si512(left, reduced(over));
            }
        }
        registers
    }

    #[inline(always)]
    unsafe fn ascending(first: Xmm) -> Self {
        // SAFETY: the caller promises AVX-512.
        unsafe {
            let block = _mm512_broadcast_i32x4(first.0);
            let powers = _mm512_set_epi64(3, 3, 2, 2, 1, 1, 0, 0);
            let over = _mm512_srlv_epi64(block, _mm512_sub_epi64(_mm512_set1_epi64(64), powers));
            Self(joined(_mm512_sllv_epi64(block, powers), over))
        }
    }

    #[inline(always)]
    fn first(self) -> Xmm {
        // SAFETY: as for `xor`.
        Xmm(unsafe { _mm512_castsi512_si128(self.0) })
    }
}

/// Products in GF(2^128) from halves that were shifted left, and the bits that were shifted out of them: those of a lower half
/// belong into the upper one, and those of an upper half are reduced.
///
/// # Safety
/// The CPU has AVX-512.
#[inline(always)]
unsafe fn joined(left: __m512i, over: __m512i) -> __m512i {
    // SAFETY: as above.
    unsafe {
        let lower = _mm512_set_epi64(0, -1, 0, -1, 0, -1, 0, -1);
        let over = _mm512_shuffle_epi32::<0b01_00_11_10>(over);
        let sum = _mm512_xor_si512(left, over);
        _mm512_ternarylogic_epi64::<0x78>(sum, lower, reduced(over))
    }
}

/// Few bits times x^7 + x^2 + x: with themselves, what they are times x^128. (Carry-less multiplication would compete with the AES
/// rounds for their ports. 16 KiB of AES-128-XTS on Zen 4: 12.0 cycles for four blocks with it, 11.0 without.)
///
/// # Safety
/// The CPU has AVX-512.
#[inline(always)]
unsafe fn reduced(over: __m512i) -> __m512i {
    // SAFETY: as above.
    unsafe {
        let times_2 = _mm512_add_epi64(over, over);
        let times_4 = _mm512_add_epi64(times_2, times_2);
        _mm512_xor_si512(_mm512_xor_si512(times_2, times_4), _mm512_slli_epi64::<7>(over))
    }
}
