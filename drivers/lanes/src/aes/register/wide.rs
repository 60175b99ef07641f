//! Several blocks to a register, with what GCM does besides AES: counters, carry-less multiplication, and parts of registers.

use core::arch::asm;
use core::arch::x86_64::*;

use super::{BLOCK, Register, Xmm, Ymm, Zmm};

/// A register of several blocks. Where blocks are counted, their bytes are turned around, so that a counter is the lowest 32 bits.
pub(in crate::aes) trait Wide: Register<One = Xmm> {
    /// Bytes of a register.
    const LINE: usize = Self::BLOCKS * BLOCK;

    /// # Safety
    /// The CPU has the instructions of this type.
    unsafe fn zero() -> Self;
    /// A block, with zeros behind it.
    ///
    /// # Safety
    /// The CPU has the instructions of this type.
    unsafe fn from_first(block: Xmm) -> Self;
    /// The same block everywhere.
    ///
    /// # Safety
    /// The CPU has the instructions of this type.
    unsafe fn repeat(block: Xmm) -> Self;
    /// Fewer bytes than a register has, with zeros behind them. No other byte is read, and none passes through a general register.
    ///
    /// # Safety
    /// The CPU has the instructions of this type, and `from` is readable for so many bytes.
    unsafe fn load_part(from: *const u8, bytes: usize) -> Self;
    /// The first bytes, fewer than a register has. No other byte is written, and none passes through a general register.
    ///
    /// # Safety
    /// `to` is writable for so many bytes.
    unsafe fn store_part(self, to: *mut u8, bytes: usize);
    /// The first bytes, fewer than a register has, with zeros behind them.
    fn first_bytes(self, bytes: usize) -> Self;
    /// The bytes of each block in the other order.
    fn turned(self) -> Self;
    /// Every counter so many blocks further.
    fn counted(self, blocks: u32) -> Self;
    /// The first counter as it is, the second one block further, and so on.
    fn numbered(self) -> Self;
    /// Its last two blocks are those of `other`.
    fn with_last_two(self, other: Self) -> Self;
    /// The halves of each block, the one in the place of the other.
    fn swapped(self) -> Self;
    /// The product of a half of each block with one of `other`: the lower ones (`0x00`), the upper ones (`0x11`), this lower one with that
    /// upper one (`0x10`), or this upper one with that lower one (`0x01`).
    ///
    /// # Safety
    /// The CPU has VPCLMULQDQ.
    unsafe fn product<const HALVES: i32>(self, other: Self) -> Self;
    /// All blocks added up.
    fn sum(self) -> Xmm;
    /// The same register, computed in the order of the program with others of which the same is asked.
    ///
    /// The compiler likes to put all multiplications before all rounds of AES. Both are done by the same two units of the CPU, which have
    /// more to do when it finds them side by side: 64 bytes take 17 cycles so, and 15.7 in turn (Zen 4, AES-128; 13 would be all of either).
    fn in_order(self) -> Self;
}

impl Xmm {
    /// A number, as the bytes of a block that are turned around.
    ///
    /// # Safety
    /// The CPU has AES instructions.
    #[inline(always)]
    pub(in crate::aes) unsafe fn of(number: u128) -> Self {
        // SAFETY: SSE2 is part of the architecture.
        Self(unsafe { _mm_set_epi64x(((number >> 64) as u64).cast_signed(), (number as u64).cast_signed()) })
    }

    /// A counter so many blocks further.
    #[inline(always)]
    pub(in crate::aes) fn counted(self, blocks: u32) -> Self {
        // SAFETY: SSE2 is part of the architecture.
        Self(unsafe { _mm_add_epi32(self.0, _mm_cvtsi32_si128(blocks.cast_signed())) })
    }

    /// A block times x, modulo GHASH's `polynomial`, which is given without its x^128 (see there).
    #[inline(always)]
    pub(in crate::aes) fn times_x(self, polynomial: u64) -> Self {
        // SAFETY: SSE2 is part of the architecture.
        unsafe {
            let over = _mm_slli_si128::<8>(_mm_srli_epi64::<63>(self.0));
            let doubled = _mm_or_si128(_mm_slli_epi64::<1>(self.0), over);
            // The coefficient that fell out, all over the block.
            let over = _mm_srai_epi32::<31>(_mm_shuffle_epi32::<0xff>(self.0));
            Self(_mm_xor_si128(doubled, _mm_and_si128(over, _mm_set_epi64x(polynomial.cast_signed(), 1))))
        }
    }
}

/// Bytes in the other order.
const TURN: [u8; BLOCK] = [15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0];
/// Places of the bytes of two blocks.
const PLACES: [i8; 2 * BLOCK] = {
    let mut places = [0; 2 * BLOCK];
    let mut i = 0;
    while i < places.len() {
        places[i] = i as i8;
        i += 1;
    }
    places
};

impl Wide for Ymm {
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
        // SAFETY: the caller promises AVX2, and so many bytes.
        unsafe {
            if bytes < BLOCK {
                return Self::from_first(load_part(from, bytes));
            }
            let second = load_part(from.add(BLOCK), bytes - BLOCK);
            Self(_mm256_inserti128_si256::<1>(_mm256_castsi128_si256(Xmm::load(from.cast()).0), second.0))
        }
    }

    #[inline(always)]
    unsafe fn store_part(self, to: *mut u8, bytes: usize) {
        // SAFETY: the caller promises so many bytes.
        unsafe {
            if bytes < BLOCK {
                return store_part(self.first(), to, bytes);
            }
            self.first().store(to.cast());
            store_part(Xmm(_mm256_extracti128_si256::<1>(self.0)), to.add(BLOCK), bytes - BLOCK);
        }
    }

    #[inline(always)]
    fn first_bytes(self, bytes: usize) -> Self {
        // SAFETY: a value of this type exists, so there is AVX2; as many bytes as a register has.
        unsafe {
            let places = _mm256_loadu_si256(PLACES.as_ptr().cast());
            Self(_mm256_and_si256(self.0, _mm256_cmpgt_epi8(_mm256_set1_epi8(bytes as i8), places)))
        }
    }

    #[inline(always)]
    fn turned(self) -> Self {
        // SAFETY: as above; a block.
        Self(unsafe { _mm256_shuffle_epi8(self.0, Self::broadcast(&TURN).0) })
    }

    #[inline(always)]
    fn counted(self, blocks: u32) -> Self {
        let blocks = blocks.cast_signed();
        // SAFETY: as above.
        Self(unsafe { _mm256_add_epi32(self.0, _mm256_set_epi32(0, 0, 0, blocks, 0, 0, 0, blocks)) })
    }

    #[inline(always)]
    fn numbered(self) -> Self {
        // SAFETY: as above.
        Self(unsafe { _mm256_add_epi32(self.0, _mm256_set_epi32(0, 0, 0, 1, 0, 0, 0, 0)) })
    }

    #[inline(always)]
    fn with_last_two(self, other: Self) -> Self {
        other
    }

    #[inline(always)]
    fn swapped(self) -> Self {
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
    fn in_order(self) -> Self {
        #[inline]
        #[target_feature(enable = "avx2")]
        fn fence(mut register: __m256i) -> __m256i {
            // SAFETY: there is no instruction.
            unsafe { asm!("/* {0} */", inout(ymm_reg) register, options(nomem, nostack, preserves_flags)) }
            register
        }
        // SAFETY: as above.
        Self(unsafe { fence(self.0) })
    }
}

impl Wide for Zmm {
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
        // SAFETY: the caller promises AVX-512, and so many bytes: no others are read.
        Self(unsafe { _mm512_maskz_loadu_epi8((1 << bytes) - 1, from.cast()) })
    }

    #[inline(always)]
    unsafe fn store_part(self, to: *mut u8, bytes: usize) {
        // SAFETY: the caller promises so many bytes: no others are written.
        unsafe { _mm512_mask_storeu_epi8(to.cast(), (1 << bytes) - 1, self.0) }
    }

    #[inline(always)]
    fn first_bytes(self, bytes: usize) -> Self {
        // SAFETY: a value of this type exists, so there is AVX-512.
        Self(unsafe { _mm512_maskz_mov_epi8((1 << bytes) - 1, self.0) })
    }

    #[inline(always)]
    fn turned(self) -> Self {
        // SAFETY: as above; a block.
        Self(unsafe { _mm512_shuffle_epi8(self.0, Self::broadcast(&TURN).0) })
    }

    #[inline(always)]
    fn counted(self, blocks: u32) -> Self {
        let n = blocks.cast_signed();
        // SAFETY: as above.
        Self(unsafe { _mm512_add_epi32(self.0, _mm512_set_epi32(0, 0, 0, n, 0, 0, 0, n, 0, 0, 0, n, 0, 0, 0, n)) })
    }

    #[inline(always)]
    fn numbered(self) -> Self {
        // SAFETY: as above.
        Self(unsafe { _mm512_add_epi32(self.0, _mm512_set_epi32(0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0)) })
    }

    #[inline(always)]
    fn with_last_two(self, other: Self) -> Self {
        // SAFETY: as above.
        Self(unsafe { _mm512_mask_blend_epi64(0xf0, self.0, other.0) })
    }

    #[inline(always)]
    fn swapped(self) -> Self {
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
    fn in_order(self) -> Self {
        #[inline]
        #[target_feature(enable = "avx512f")]
        fn fence(mut register: __m512i) -> __m512i {
            // SAFETY: there is no instruction.
            unsafe { asm!("/* {0} */", inout(zmm_reg) register, options(nomem, nostack, preserves_flags)) }
            register
        }
        // SAFETY: as above.
        Self(unsafe { fence(self.0) })
    }
}

/// Fewer bytes than a block has, with zeros behind them: pieces of 8, 4, 2 and 1, of which each, the last one first, moves those behind it
/// up. (By `asm!`: the compiler reads single bytes by way of general registers.)
///
/// # Safety
/// The CPU has AVX, and `from` is readable for so many bytes.
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

/// The first bytes of a block, fewer than all, in the same pieces.
///
/// # Safety
/// The CPU has AVX, and `to` is writable for so many bytes.
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
