//! Registers of one block.

use core::arch::aarch64::*;

use super::{BLOCK_LEN, Register};

/// Computes SubWord of FIPS 197. The word is repeated four times, so ShiftRows changes nothing.
#[target_feature(enable = "aes,neon")]
pub(in crate::aes) fn substitute(word: u32) -> u32 {
    let words = vreinterpretq_u8_u32(vdupq_n_u32(word));
    vgetq_lane_u32::<0>(vreinterpretq_u32_u8(vaeseq_u8(words, vdupq_n_u8(0))))
}

/// Computes InvMixColumns of FIPS 197.
#[target_feature(enable = "aes,neon")]
pub(in crate::aes) fn inverse_mix_columns(block: &mut [u8; BLOCK_LEN]) {
    // SAFETY: the instructions read and write one block, which is borrowed.
    unsafe { vst1q_u8(block.as_mut_ptr(), vaesimcq_u8(vld1q_u8(block.as_ptr()))) }
}

/// One block. The AES instructions of this architecture add the round key first, so these methods pass zeros and add the key afterwards.
#[derive(Clone, Copy)]
pub(in crate::aes) struct Block(uint8x16_t);

#[allow(inline_always_mismatching_target_features, reason = "inlined with `round`, into functions that have them")]
impl Register for Block {
    const BLOCKS: usize = 1;
    type One = Block;

    #[inline(always)]
    unsafe fn load(from: *const [u8; BLOCK_LEN]) -> Self {
        // SAFETY: the caller promises a readable block.
        Self(unsafe { vld1q_u8(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut [u8; BLOCK_LEN]) {
        // SAFETY: the caller promises a writable block.
        unsafe { vst1q_u8(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn broadcast(from: *const [u8; BLOCK_LEN]) -> Self {
        // SAFETY: the caller promises a readable block.
        unsafe { Self::load(from) }
    }

    #[inline(always)]
    unsafe fn gather(from: *const *const u8, offset: usize) -> Self {
        // SAFETY: the caller promises a pointer with a readable block at `offset`.
        Self(unsafe { vld1q_u8((*from).add(offset)) })
    }

    #[inline(always)]
    unsafe fn scatter(self, to: *const *mut u8, offset: usize) {
        // SAFETY: the caller promises a pointer with a writable block at `offset`.
        unsafe { vst1q_u8((*to).add(offset), self.0) }
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: NEON is part of the architecture.
        Self(unsafe { veorq_u8(self.0, other.0) })
    }

    #[inline(always)]
    fn round(self, key: Self) -> Self {
        // SAFETY: a value of this type exists, so there are AES instructions.
        Self(unsafe { veorq_u8(vaesmcq_u8(vaeseq_u8(self.0, vdupq_n_u8(0))), key.0) })
    }

    #[inline(always)]
    fn last_round(self, key: Self) -> Self {
        // SAFETY: as for `round`.
        Self(unsafe { veorq_u8(vaeseq_u8(self.0, vdupq_n_u8(0)), key.0) })
    }

    #[inline(always)]
    fn inverse_round(self, key: Self) -> Self {
        // SAFETY: as for `round`.
        Self(unsafe { veorq_u8(vaesimcq_u8(vaesdq_u8(self.0, vdupq_n_u8(0))), key.0) })
    }

    #[inline(always)]
    fn last_inverse_round(self, key: Self) -> Self {
        // SAFETY: as for `round`.
        Self(unsafe { veorq_u8(vaesdq_u8(self.0, vdupq_n_u8(0)), key.0) })
    }

    #[inline(always)]
    fn next_masks(self) -> Self {
        // SAFETY: NEON is part of the architecture.
        unsafe {
            let halves = vreinterpretq_s64_u8(self.0);
            // The upper bit of each half, repeated over the other half.
            let overflow = vshrq_n_s64::<63>(vextq_s64::<1>(halves, halves));
            let reduced = vandq_s64(overflow, vcombine_s64(vcreate_s64(0x87), vcreate_s64(1)));
            Self(vreinterpretq_u8_s64(veorq_s64(vaddq_s64(halves, halves), reduced)))
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
