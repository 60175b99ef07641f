//! The register operations that GCM needs in addition to those of AES: counters, carry-less multiplication, and partial registers.

use core::arch::asm;
use core::arch::x86_64::*;

use super::{BLOCK_LEN, Register, Xmm, Ymm, Zmm};

/// A register of several blocks. Counter operations work on blocks with reversed bytes, in which the counter is the lowest 32 bits.
pub(in crate::aes) trait WideRegister: Register<One = Xmm> {
    /// Bytes of a line: the data of one register.
    const LINE_BYTES: usize = Self::BLOCKS * BLOCK_LEN;

    /// # Safety
    /// The CPU has the instructions of this type.
    unsafe fn zero() -> Self;
    /// Returns a block followed by zeros.
    ///
    /// # Safety
    /// The CPU has the instructions of this type.
    unsafe fn from_first(block: Xmm) -> Self;
    /// Repeats one block.
    ///
    /// # Safety
    /// The CPU has the instructions of this type.
    unsafe fn repeat(block: Xmm) -> Self;
    /// Loads fewer bytes than a register has, padded with zeros. Reads no other byte, and uses no general register for the data.
    ///
    /// # Safety
    /// The CPU has the instructions of this type, and `from` is readable for `bytes` bytes.
    unsafe fn load_part(from: *const u8, bytes: usize) -> Self;
    /// Stores the first bytes, fewer than a register has. Writes no other byte, and uses no general register for the data.
    ///
    /// # Safety
    /// `to` is writable for `bytes` bytes.
    unsafe fn store_part(self, to: *mut u8, bytes: usize);
    /// Keeps the first `bytes` bytes, fewer than a register has, and clears the others.
    fn first_bytes(self, bytes: usize) -> Self;
    /// Reverses the bytes of each block.
    fn reverse_bytes(self) -> Self;
    /// Adds `blocks` to every counter.
    fn advance_counter(self, blocks: u32) -> Self;
    /// Adds 0 to the first counter, 1 to the second, and so on.
    fn add_block_indices(self) -> Self;
    /// Replaces the last two blocks by the last two blocks of `other`.
    fn with_last_two(self, other: Self) -> Self;
    /// Swaps the halves of each block.
    fn swap_halves(self) -> Self;
    /// Multiplies a half of each block by a half of the same block of `other`. The low digit of `HALVES` selects the half of `self`, and
    /// the high digit selects the half of `other`: 0 is the lower half, 1 is the upper.
    ///
    /// # Safety
    /// The CPU has VPCLMULQDQ.
    unsafe fn product<const HALVES: i32>(self, other: Self) -> Self;
    /// Returns the sum of all blocks.
    fn sum(self) -> Xmm;
    /// Returns `self`. The compiler does not reorder the calls of this function, so the computations of their arguments stay in this order.
    ///
    /// Without these calls, the compiler puts all multiplications before all AES rounds. Both use the same two units of the CPU, which stay
    /// busier if multiplications and rounds alternate. On Zen 4 with AES-128, 64 bytes then take 15.7 cycles instead of 17. The limit set
    /// by the two units is 13.
    fn keep_order(self) -> Self;
}

impl Xmm {
    /// Returns a number as a block with reversed bytes.
    ///
    /// # Safety
    /// The CPU has AES instructions.
    #[inline(always)]
    pub(in crate::aes) unsafe fn from_u128(number: u128) -> Self {
        // SAFETY: SSE2 is part of the architecture.
        Self(unsafe { _mm_set_epi64x(((number >> 64) as u64).cast_signed(), (number as u64).cast_signed()) })
    }

    /// Adds `blocks` to a counter.
    #[inline(always)]
    pub(in crate::aes) fn advance_counter(self, blocks: u32) -> Self {
        // SAFETY: SSE2 is part of the architecture.
        Self(unsafe { _mm_add_epi32(self.0, _mm_cvtsi32_si128(blocks.cast_signed())) })
    }

    /// Shifts a block left by one bit, and reduces it modulo GHASH's polynomial in reversed bit order. `polynomial_upper` is its upper
    /// half without bit 128.
    #[inline(always)]
    pub(in crate::aes) fn shift_left_reduced(self, polynomial_upper: u64) -> Self {
        // SAFETY: SSE2 is part of the architecture.
        unsafe {
            let carry = _mm_slli_si128::<8>(_mm_srli_epi64::<63>(self.0));
            let doubled = _mm_or_si128(_mm_slli_epi64::<1>(self.0), carry);
            // The coefficient that was shifted out, repeated over the block.
            let overflow = _mm_srai_epi32::<31>(_mm_shuffle_epi32::<0xff>(self.0));
            Self(_mm_xor_si128(doubled, _mm_and_si128(overflow, _mm_set_epi64x(polynomial_upper.cast_signed(), 1))))
        }
    }
}

/// The shuffle that reverses the bytes of a block.
const REVERSE: [u8; BLOCK_LEN] = [15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0];
/// Indices of the bytes of two blocks.
const INDICES: [i8; 2 * BLOCK_LEN] = {
    let mut indices = [0; 2 * BLOCK_LEN];
    let mut i = 0;
    while i < indices.len() {
        indices[i] = i as i8;
        i += 1;
    }
    indices
};

impl WideRegister for Ymm {
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller promises AVX2.
        Self(unsafe { _mm256_setzero_si256() })
    }

    #[inline(always)]
    unsafe fn from_first(block: Xmm) -> Self {
        // SAFETY: the caller promises AVX2.
        Self(unsafe { _mm256_zextsi128_si256(block.0) })
    }

    #[inline(always)]
    unsafe fn repeat(block: Xmm) -> Self {
        // SAFETY: the caller promises AVX2.
        Self(unsafe { _mm256_broadcastsi128_si256(block.0) })
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u8, bytes: usize) -> Self {
        // SAFETY: the caller promises AVX2, and `bytes` readable bytes.
        unsafe {
            if bytes < BLOCK_LEN {
                return Self::from_first(load_part(from, bytes));
            }
            let second = load_part(from.add(BLOCK_LEN), bytes - BLOCK_LEN);
            Self(_mm256_inserti128_si256::<1>(_mm256_castsi128_si256(Xmm::load(from.cast()).0), second.0))
        }
    }

    #[inline(always)]
    unsafe fn store_part(self, to: *mut u8, bytes: usize) {
        // SAFETY: the caller promises `bytes` writable bytes.
        unsafe {
            if bytes < BLOCK_LEN {
                return store_part(self.first(), to, bytes);
            }
            self.first().store(to.cast());
            store_part(Xmm(_mm256_extracti128_si256::<1>(self.0)), to.add(BLOCK_LEN), bytes - BLOCK_LEN);
        }
    }

    #[inline(always)]
    fn first_bytes(self, bytes: usize) -> Self {
        // SAFETY: a value of this type exists, so there is AVX2; `INDICES` is as long as a register.
        unsafe {
            let indices = _mm256_loadu_si256(INDICES.as_ptr().cast());
            Self(_mm256_and_si256(self.0, _mm256_cmpgt_epi8(_mm256_set1_epi8(bytes as i8), indices)))
        }
    }

    #[inline(always)]
    fn reverse_bytes(self) -> Self {
        // SAFETY: as above; `REVERSE` is one block long.
        Self(unsafe { _mm256_shuffle_epi8(self.0, Self::broadcast(&REVERSE).0) })
    }

    #[inline(always)]
    fn advance_counter(self, blocks: u32) -> Self {
        let blocks = blocks.cast_signed();
        // SAFETY: as above.
        Self(unsafe { _mm256_add_epi32(self.0, _mm256_set_epi32(0, 0, 0, blocks, 0, 0, 0, blocks)) })
    }

    #[inline(always)]
    fn add_block_indices(self) -> Self {
        // SAFETY: as above.
        Self(unsafe { _mm256_add_epi32(self.0, _mm256_set_epi32(0, 0, 0, 1, 0, 0, 0, 0)) })
    }

    #[inline(always)]
    fn with_last_two(self, other: Self) -> Self {
        other
    }

    #[inline(always)]
    fn swap_halves(self) -> Self {
        // SAFETY: as above.
        Self(unsafe { _mm256_shuffle_epi32::<0x4e>(self.0) })
    }

    #[inline(always)]
    unsafe fn product<const HALVES: i32>(self, other: Self) -> Self {
        // SAFETY: the caller promises VPCLMULQDQ, and a value of this type exists.
        Self(unsafe { _mm256_clmulepi64_epi128::<HALVES>(self.0, other.0) })
    }

    #[inline(always)]
    fn sum(self) -> Xmm {
        // SAFETY: as above.
        Xmm(unsafe { _mm_xor_si128(_mm256_castsi256_si128(self.0), _mm256_extracti128_si256::<1>(self.0)) })
    }

    #[inline(always)]
    fn keep_order(self) -> Self {
        #[inline]
        #[target_feature(enable = "avx2")]
        fn fence(mut register: __m256i) -> __m256i {
            // SAFETY: the assembly is only a comment.
            unsafe { asm!("/* {0} */", inout(ymm_reg) register, options(nomem, nostack, preserves_flags)) }
            register
        }
        // SAFETY: as above.
        Self(unsafe { fence(self.0) })
    }
}

impl WideRegister for Zmm {
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller promises AVX-512.
        Self(unsafe { _mm512_setzero_si512() })
    }

    #[inline(always)]
    unsafe fn from_first(block: Xmm) -> Self {
        // SAFETY: the caller promises AVX-512.
        Self(unsafe { _mm512_zextsi128_si512(block.0) })
    }

    #[inline(always)]
    unsafe fn repeat(block: Xmm) -> Self {
        // SAFETY: the caller promises AVX-512.
        Self(unsafe { _mm512_broadcast_i32x4(block.0) })
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u8, bytes: usize) -> Self {
        // SAFETY: the caller promises AVX-512, and `bytes` readable bytes. The mask excludes all others.
        Self(unsafe { _mm512_maskz_loadu_epi8((1 << bytes) - 1, from.cast()) })
    }

    #[inline(always)]
    unsafe fn store_part(self, to: *mut u8, bytes: usize) {
        // SAFETY: the caller promises `bytes` writable bytes. The mask excludes all others.
        unsafe { _mm512_mask_storeu_epi8(to.cast(), (1 << bytes) - 1, self.0) }
    }

    #[inline(always)]
    fn first_bytes(self, bytes: usize) -> Self {
        // SAFETY: a value of this type exists, so there is AVX-512.
        Self(unsafe { _mm512_maskz_mov_epi8((1 << bytes) - 1, self.0) })
    }

    #[inline(always)]
    fn reverse_bytes(self) -> Self {
        // SAFETY: as above; `REVERSE` is one block long.
        Self(unsafe { _mm512_shuffle_epi8(self.0, Self::broadcast(&REVERSE).0) })
    }

    #[inline(always)]
    fn advance_counter(self, blocks: u32) -> Self {
        let n = blocks.cast_signed();
        // SAFETY: as above.
        Self(unsafe { _mm512_add_epi32(self.0, _mm512_set_epi32(0, 0, 0, n, 0, 0, 0, n, 0, 0, 0, n, 0, 0, 0, n)) })
    }

    #[inline(always)]
    fn add_block_indices(self) -> Self {
        // SAFETY: as above.
        Self(unsafe { _mm512_add_epi32(self.0, _mm512_set_epi32(0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0)) })
    }

    #[inline(always)]
    fn with_last_two(self, other: Self) -> Self {
        // SAFETY: as above.
        Self(unsafe { _mm512_mask_blend_epi64(0xf0, self.0, other.0) })
    }

    #[inline(always)]
    fn swap_halves(self) -> Self {
        // SAFETY: as above.
        Self(unsafe { _mm512_shuffle_epi32::<0x4e>(self.0) })
    }

    #[inline(always)]
    unsafe fn product<const HALVES: i32>(self, other: Self) -> Self {
        // SAFETY: the caller promises VPCLMULQDQ, and a value of this type exists.
        Self(unsafe { _mm512_clmulepi64_epi128::<HALVES>(self.0, other.0) })
    }

    #[inline(always)]
    fn sum(self) -> Xmm {
        // SAFETY: as above.
        unsafe {
            let two = _mm256_xor_si256(_mm512_castsi512_si256(self.0), _mm512_extracti64x4_epi64::<1>(self.0));
            Xmm(_mm_xor_si128(_mm256_castsi256_si128(two), _mm256_extracti128_si256::<1>(two)))
        }
    }

    #[inline(always)]
    fn keep_order(self) -> Self {
        #[inline]
        #[target_feature(enable = "avx512f")]
        fn fence(mut register: __m512i) -> __m512i {
            // SAFETY: the assembly is only a comment.
            unsafe { asm!("/* {0} */", inout(zmm_reg) register, options(nomem, nostack, preserves_flags)) }
            register
        }
        // SAFETY: as above.
        Self(unsafe { fence(self.0) })
    }
}

/// Loads fewer bytes than a block has, padded with zeros. Loads pieces of 1, 2, 4 and 8 bytes, from the last one to the first; each shifts
/// the bytes loaded before it up. Uses `asm!` because the compiler would load single bytes through general registers.
///
/// # Safety
/// The CPU has AVX, and `from` is readable for `bytes` bytes.
#[inline(always)]
unsafe fn load_part(from: *const u8, bytes: usize) -> Xmm {
    // SAFETY: as above.
    unsafe {
        let mut block = _mm_setzero_si128();
        macro_rules! piece {
            ($size:literal $insert:literal) => {
                if bytes & $size != 0 {
                    block = _mm_slli_si128::<$size>(block);
                    asm!(
                        concat!($insert, " {block}, {block}, [{from}], 0"),
                        block = inout(xmm_reg) block, from = in(reg) from.add(bytes & !(2 * $size - 1)),
                        options(pure, readonly, nostack, preserves_flags),
                    );
                }
            };
        }
        piece!(1 "vpinsrb");
        piece!(2 "vpinsrw");
        piece!(4 "vpinsrd");
        piece!(8 "vpinsrq");
        Xmm(block)
    }
}

/// Stores the first `bytes` bytes of a block, fewer than all, in pieces as in [`load_part`].
///
/// # Safety
/// The CPU has AVX, and `to` is writable for `bytes` bytes.
#[inline(always)]
unsafe fn store_part(block: Xmm, to: *mut u8, bytes: usize) {
    // SAFETY: as above.
    unsafe {
        let mut block = block.0;
        macro_rules! piece {
            ($size:literal $extract:literal) => {
                if bytes & $size != 0 {
                    asm!(
                        concat!($extract, " [{to}], {block}, 0"),
                        block = in(xmm_reg) block, to = in(reg) to.add(bytes & !(2 * $size - 1)),
                        options(nostack, preserves_flags),
                    );
                    block = _mm_srli_si128::<$size>(block);
                }
            };
        }
        piece!(8 "vpextrq");
        piece!(4 "vpextrd");
        piece!(2 "vpextrw");
        piece!(1 "vpextrb");
        let _ = block;
    }
}
