//! Register operations for modes with independent blocks: counter mode and CBC decryption.

use super::*;

/// A register that holds successive blocks of a message.
pub(in crate::aes) trait SuccessiveBlocks: Register {
    /// Returns the last block of `before`, followed by all blocks of `self` except the last.
    fn preceded_by(self, before: Self) -> Self;

    /// Returns `N` registers of successive counters from `first` on, as 128-bit big-endian numbers.
    ///
    /// # Safety
    /// The CPU has the instructions of this type.
    #[inline(always)]
    unsafe fn counters<const N: usize>(first: u128) -> [Self; N] {
        // SAFETY: the caller's promise.
        unsafe { counters_one_by_one(first) }
    }
}

/// Computes counters one by one.
///
/// # Safety
/// The CPU has the instructions of `R`.
#[inline(always)]
unsafe fn counters_one_by_one<R: Register, const N: usize>(first: u128) -> [R; N] {
    // A function for one register, because a closure would not have the instructions.
    // SAFETY: the caller promises the instructions; no register has more than four blocks.
    unsafe {
        let mut registers = [counter_register(first); N];
        for (r, register) in registers.iter_mut().enumerate().skip(1) {
            *register = counter_register(first.wrapping_add((r * R::BLOCKS) as u128));
        }
        registers
    }
}

/// # Safety
/// As for [`counters_one_by_one`].
#[inline(always)]
unsafe fn counter_register<R: Register>(first: u128) -> R {
    let mut blocks = [[0; BLOCK_LEN]; 4];
    for (i, block) in blocks[..R::BLOCKS].iter_mut().enumerate() {
        *block = first.wrapping_add(i as u128).to_be_bytes();
    }
    // SAFETY: the caller promises the instructions, and there are as many blocks as a register has.
    unsafe { R::load(blocks.as_ptr()) }
}

/// Returns the lower and the upper half of a counter, or `None` if adding `blocks` to it carries into the upper half. May branch:
/// counters are not secret.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn halves(first: u128, blocks: usize) -> Option<(i64, i64)> {
    let lower = first as u64;
    lower.checked_add(blocks as u64)?;
    Some((lower.cast_signed(), ((first >> 64) as u64).cast_signed()))
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use core::arch::x86_64::*;

    use super::*;

    impl SuccessiveBlocks for Xmm {
        #[inline(always)]
        fn preceded_by(self, before: Self) -> Self {
            before
        }

        #[inline(always)]
        unsafe fn counters<const N: usize>(first: u128) -> [Self; N] {
            // SAFETY: SSE2 is part of the architecture.
            let mut registers = [Self(unsafe { _mm_setzero_si128() }); N];
            for (r, register) in registers.iter_mut().enumerate() {
                let counter = first.wrapping_add(r as u128);
                let [upper, lower] = [counter >> 64, counter].map(|half| (half as u64).swap_bytes().cast_signed());
                // SAFETY: as above.
                *register = Self(unsafe { _mm_set_epi64x(lower, upper) });
            }
            registers
        }
    }

    impl SuccessiveBlocks for Ymm {
        #[inline(always)]
        fn preceded_by(self, before: Self) -> Self {
            // SAFETY: a value of this type exists, so there is AVX2.
            Self(unsafe { _mm256_permute2x128_si256::<0x21>(before.0, self.0) })
        }

        #[inline(always)]
        unsafe fn counters<const N: usize>(first: u128) -> [Self; N] {
            // SAFETY: the caller promises AVX2.
            unsafe {
                let Some((lower, upper)) = halves(first, 2 * N) else { return counters_one_by_one(first) };
                let reversed =
                    _mm256_broadcastsi128_si256(_mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f));
                let first =
                    _mm256_add_epi64(_mm256_set_epi64x(upper, lower, upper, lower), _mm256_set_epi64x(0, 1, 0, 0));
                let mut registers = [Self(first); N];
                for (r, register) in registers.iter_mut().enumerate() {
                    let increment = (2 * r as u64).cast_signed();
                    let counters = _mm256_add_epi64(first, _mm256_set_epi64x(0, increment, 0, increment));
                    *register = Self(_mm256_shuffle_epi8(counters, reversed));
                }
                registers
            }
        }
    }

    impl SuccessiveBlocks for Zmm {
        #[inline(always)]
        fn preceded_by(self, before: Self) -> Self {
            // SAFETY: a value of this type exists, so there is AVX-512.
            Self(unsafe { _mm512_alignr_epi64::<6>(self.0, before.0) })
        }

        #[inline(always)]
        unsafe fn counters<const N: usize>(first: u128) -> [Self; N] {
            // SAFETY: the caller promises AVX-512.
            unsafe {
                let Some((lower, upper)) = halves(first, 4 * N) else { return counters_one_by_one(first) };
                let reversed = _mm512_broadcast_i32x4(_mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f));
                let all = _mm512_broadcast_i32x4(_mm_set_epi64x(upper, lower));
                let first = _mm512_add_epi64(all, _mm512_set_epi64(0, 3, 0, 2, 0, 1, 0, 0));
                let mut registers = [Self(first); N];
                for (r, register) in registers.iter_mut().enumerate() {
                    let increment = (4 * r as u64).cast_signed();
                    let increments = _mm512_set_epi64(0, increment, 0, increment, 0, increment, 0, increment);
                    *register = Self(_mm512_shuffle_epi8(_mm512_add_epi64(first, increments), reversed));
                }
                registers
            }
        }
    }
}

#[cfg(target_arch = "aarch64")]
impl SuccessiveBlocks for Block {
    #[inline(always)]
    fn preceded_by(self, before: Self) -> Self {
        before
    }
}
