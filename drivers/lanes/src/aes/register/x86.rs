//! Registers of one block, and registers of four blocks.

use core::arch::x86_64::*;

use gantry_digest::internal::vector::avx512::transpose_parts;

use super::{BLOCK_LEN, Register};

/// Computes SubWord of FIPS 197.
#[target_feature(enable = "aes")]
pub(in crate::aes) fn substitute(word: u32) -> u32 {
    let word = _mm_set1_epi32(word.cast_signed());
    _mm_cvtsi128_si32(_mm_aeskeygenassist_si128::<0>(word)).cast_unsigned()
}

/// Computes InvMixColumns of FIPS 197.
#[target_feature(enable = "aes")]
pub(in crate::aes) fn inverse_mix_columns(block: &mut [u8; BLOCK_LEN]) {
    // SAFETY: the instructions read and write one block, which is borrowed.
    unsafe {
        let block = core::ptr::from_mut(block).cast();
        _mm_storeu_si128(block, _mm_aesimc_si128(_mm_loadu_si128(block)));
    }
}

/// One block.
#[derive(Clone, Copy)]
pub(in crate::aes) struct Xmm(pub(super) __m128i);

impl Register for Xmm {
    const BLOCKS: usize = 1;
    type One = Xmm;

    #[inline(always)]
    unsafe fn load(from: *const [u8; BLOCK_LEN]) -> Self {
        // SAFETY: the caller promises a readable block.
        Self(unsafe { _mm_loadu_si128(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut [u8; BLOCK_LEN]) {
        // SAFETY: the caller promises a writable block.
        unsafe { _mm_storeu_si128(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn broadcast(from: *const [u8; BLOCK_LEN]) -> Self {
        // SAFETY: the caller promises a readable block.
        unsafe { Self::load(from) }
    }

    #[inline(always)]
    unsafe fn gather(from: *const *const u8, offset: usize) -> Self {
        // SAFETY: the caller promises a pointer with a readable block at `offset`.
        Self(unsafe { _mm_loadu_si128((*from).add(offset).cast()) })
    }

    #[inline(always)]
    unsafe fn scatter(self, to: *const *mut u8, offset: usize) {
        // SAFETY: the caller promises a pointer with a writable block at `offset`.
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
    fn next_masks(self) -> Self {
        // SAFETY: SSE2 is part of the architecture.
        unsafe {
            let doubled = _mm_add_epi64(self.0, self.0);
            // The upper bit of each half, repeated over the other half.
            let overflow = _mm_srai_epi32::<31>(_mm_shuffle_epi32::<0b00_01_00_11>(self.0));
            Self(_mm_xor_si128(doubled, _mm_and_si128(overflow, _mm_set_epi64x(1, 0x87))))
        }
    }

    #[inline(always)]
    unsafe fn times_powers_of_x(first: Self) -> Self {
        first
    }

    #[inline(always)]
    fn first(self) -> Self {
        self
    }
}

/// Four blocks. Requires AVX-512 with VBMI, and VAES.
#[derive(Clone, Copy)]
pub(in crate::aes) struct Zmm(pub(in crate::aes) __m512i);

/// Four blocks on one cache line: a store across two lines is not forwarded to later loads.
#[repr(align(64))]
struct Line([[u8; BLOCK_LEN]; 4]);

impl Register for Zmm {
    const BLOCKS: usize = 4;
    type One = Xmm;

    #[inline(always)]
    unsafe fn load(from: *const [u8; BLOCK_LEN]) -> Self {
        // SAFETY: the caller promises AVX-512 and four readable blocks.
        Self(unsafe { _mm512_loadu_si512(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut [u8; BLOCK_LEN]) {
        // SAFETY: the caller promises four writable blocks.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn broadcast(from: *const [u8; BLOCK_LEN]) -> Self {
        // SAFETY: the caller promises AVX-512 and a readable block.
        Self(unsafe { _mm512_broadcast_i32x4(_mm_loadu_si128(from.cast())) })
    }

    #[inline(always)]
    unsafe fn gather(from: *const *const u8, offset: usize) -> Self {
        // SAFETY: the caller promises AVX-512 and four pointers, each with a readable block at `offset`.
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
        // SAFETY: the caller promises four pointers, each with a writable block at `offset`.
        unsafe {
            // Goes through memory, because extracting from the register would compete with the AES rounds for their ports. With 16
            // chains and 10 rounds a block takes 57 cycles instead of 72 (Zen 4).
            let mut line = Line([[0; BLOCK_LEN]; 4]);
            self.store(line.0.as_mut_ptr());
            for (i, block) in core::hint::black_box(&line).0.iter().enumerate() {
                _mm_storeu_si128((*to.add(i)).add(offset).cast(), _mm_loadu_si128(block.as_ptr().cast()));
            }
        }
    }

    #[inline(always)]
    unsafe fn gather_four(from: *const *const u8, offset: usize) -> [Self; 4] {
        // SAFETY: the caller promises AVX-512 and four pointers, each with four readable blocks at `offset`.
        unsafe {
            let row = |i: usize| _mm512_loadu_si512((*from.add(i)).add(offset).cast());
            let [a, b, c, d] = transpose_parts(row(0), row(1), row(2), row(3));
            [Self(a), Self(b), Self(c), Self(d)]
        }
    }

    #[inline(always)]
    unsafe fn scatter_four(four: [Self; 4], to: *const *mut u8, offset: usize) {
        // SAFETY: the caller promises AVX-512 and four pointers, each with four writable blocks at `offset`.
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
    fn next_masks(self) -> Self {
        // SAFETY: a value of this type exists, so there are AVX-512 and VBMI.
        unsafe { Self(times_powers::<0x4444_4444>(self.0)) }
    }

    #[inline(always)]
    fn successive_masks<const N: usize>(first: Self) -> [Self; N] {
        let mut registers = [first; N];
        for r in 1..N {
            // Multiplies the register two places before this one by x^8: shifting whole bytes is simpler, and two dependency chains run
            // side by side.
            registers[r] = if r == 1 { first.next_masks() } else { times_bytes::<1, 15>(registers[r - 2]) };
        }
        registers
    }

    #[inline(always)]
    fn following_masks<const N: usize>(mut registers: [Self; N]) -> [Self; N] {
        const { assert!(N == 1 || N == 4) };
        for register in &mut registers {
            *register = if N == 1 { register.next_masks() } else { times_bytes::<2, 14>(*register) };
        }
        registers
    }

    #[inline(always)]
    unsafe fn times_powers_of_x(first: Xmm) -> Self {
        // SAFETY: the caller promises AVX-512 and VBMI.
        unsafe { Self(times_powers::<0x3322_1100>(_mm512_broadcast_i32x4(first.0))) }
    }

    #[inline(always)]
    fn first(self) -> Xmm {
        // SAFETY: as for `xor`.
        Xmm(unsafe { _mm512_castsi512_si128(self.0) })
    }
}

// The instructions that multiply a mask must not compete with AES rounds for a port.
// - On Intel's CPUs bit shifts share a port with AES: AES-256-XTS of 16 KiB on an Emerald Rapids runs at 1.91 times the speed of OpenSSL
//   with bit shifts, at 2.39 times without (`benches/peers/run openssl`).
// - On AMD's CPUs carry-less multiplication shares a port with AES: AES-128-XTS of 16 KiB on a Zen 4 takes 12.0 cycles for four blocks with
//   carry-less multiplication, 11.0 with shifts.
// Byte shifts, additions, and VBMI's multishift, which can rotate, use other ports on both.

/// Multiplies blocks by x^(8 * `BYTES`) in GF(2^128). `REST` is `16 - BYTES`.
#[inline(always)]
fn times_bytes<const BYTES: i32, const REST: i32>(x: Zmm) -> Zmm {
    // SAFETY: a value of this type exists, so there are AVX-512 and VBMI.
    unsafe {
        let overflow = _mm512_bsrli_epi128::<REST>(x.0);
        let left = _mm512_xor_si512(_mm512_bslli_epi128::<BYTES>(x.0), overflow);
        Zmm(_mm512_xor_si512(left, reduced(overflow)))
    }
}

/// Multiplies blocks by powers of x in GF(2^128). Each hexadecimal digit of `POWERS` is the exponent for a half of a block, at most 7; the
/// lowest digit is for the first half. Bits shifted out of a lower half go to the upper half; bits shifted out of an upper half are
/// reduced.
///
/// # Safety
/// The CPU has AVX-512 and VBMI.
#[inline(always)]
unsafe fn times_powers<const POWERS: u32>(blocks: __m512i) -> __m512i {
    // SAFETY: as above; the transmuted array is as long as a register.
    unsafe {
        let shifted_out = core::mem::transmute::<[u64; 8], __m512i>(const { lowest_bits(POWERS) });
        let rotated = rotated::<POWERS>(blocks);
        let overflow = _mm512_shuffle_epi32::<0b01_00_11_10>(_mm512_and_si512(rotated, shifted_out));
        let sum = _mm512_xor_si512(_mm512_andnot_si512(shifted_out, rotated), overflow);
        let lower = _mm512_set_epi64(0, -1, 0, -1, 0, -1, 0, -1);
        _mm512_ternarylogic_epi64::<0x78>(sum, lower, reduced(overflow))
    }
}

/// Rotates each half of a block to the left. The half's digit in `DIGITS` is the number of bits.
///
/// # Safety
/// The CPU has AVX-512 and VBMI.
#[inline(always)]
unsafe fn rotated<const DIGITS: u32>(halves: __m512i) -> __m512i {
    // SAFETY: as above; the transmuted array is as long as a register.
    unsafe {
        let from = core::mem::transmute::<[u64; 8], __m512i>(const { rotation(DIGITS) });
        _mm512_multishift_epi64_epi8(from, halves)
    }
}

/// Returns the multishift control that rotates each half to the left by its digit: byte `i` of the result is the bits from
/// `8 * i - digit` on.
const fn rotation(digits: u32) -> [u64; 8] {
    let mut from = [0; 8];
    let mut half = 0;
    while half < 8 {
        let mut i = 0u64;
        while i < 8 {
            from[half] |= ((8 * i).wrapping_sub(digit(digits, half)) & 63) << (8 * i);
            i += 1;
        }
        half += 1;
    }
    from
}

/// Returns a mask of the lowest bits of each half. The half's digit is the number of these bits.
const fn lowest_bits(digits: u32) -> [u64; 8] {
    let mut bits = [0; 8];
    let mut half = 0;
    while half < 8 {
        bits[half] = (1 << digit(digits, half)) - 1;
        half += 1;
    }
    bits
}

const fn digit(digits: u32, index: usize) -> u64 {
    (digits >> (4 * index) & 15) as u64
}

/// Multiplies at most 30 bits by x^7 + x^2 + x. Adding the bits themselves gives their product with x^128.
///
/// # Safety
/// The CPU has AVX-512 and VBMI.
#[inline(always)]
unsafe fn reduced(overflow: __m512i) -> __m512i {
    // SAFETY: as above.
    unsafe {
        let times_2 = _mm512_add_epi64(overflow, overflow);
        // The element width differs, because the compiler would otherwise merge both additions into one shift.
        let times_4 = _mm512_add_epi32(times_2, times_2);
        _mm512_xor_si512(_mm512_xor_si512(times_2, times_4), rotated::<0x7777_7777>(overflow))
    }
}
