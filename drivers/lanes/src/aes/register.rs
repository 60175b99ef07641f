//! Registers of AES blocks: one implementation for each width.
//!
//! As with [`Vector`](gantry_digest::internal::vector::Vector), a value can only come from an unsafe function, whose caller promises that
//! the CPU has the instructions of the type.

mod independent;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "x86_64")]
mod wide;
#[cfg(target_arch = "x86_64")]
mod x86;
#[cfg(target_arch = "x86_64")]
mod ymm;

use super::BLOCK_LEN;
pub(super) use independent::SuccessiveBlocks;
#[cfg(target_arch = "aarch64")]
pub(super) use neon::*;
#[cfg(target_arch = "x86_64")]
pub(super) use wide::WideRegister;
#[cfg(target_arch = "x86_64")]
pub(super) use x86::*;
#[cfg(target_arch = "x86_64")]
pub(super) use ymm::Ymm;

/// A register with one or several AES blocks, and the AES instructions on it.
pub(super) trait Register: Copy {
    /// Blocks in a register.
    const BLOCKS: usize;
    /// A register for one block.
    type One: Register;

    /// # Safety
    /// The CPU has the instructions that the methods of this type use; `from` is readable for a register.
    unsafe fn load(from: *const [u8; BLOCK_LEN]) -> Self;
    /// # Safety
    /// `to` is writable for a register.
    unsafe fn store(self, to: *mut [u8; BLOCK_LEN]);
    /// Repeats one block.
    ///
    /// # Safety
    /// `from` is readable for a block.
    unsafe fn broadcast(from: *const [u8; BLOCK_LEN]) -> Self;
    /// Loads one block from each pointer.
    ///
    /// # Safety
    /// `from` holds `BLOCKS` pointers, each readable for a block at `offset` bytes.
    unsafe fn gather(from: *const *const u8, offset: usize) -> Self;
    /// Stores one block to each pointer.
    ///
    /// # Safety
    /// `to` holds `BLOCKS` pointers, each writable for a block at `offset` bytes.
    unsafe fn scatter(self, to: *const *mut u8, offset: usize);
    /// Loads four successive blocks from each pointer. Equivalent to four calls of `gather`, but may read each cache line only once.
    ///
    /// # Safety
    /// As for `gather`, with four readable blocks at each position.
    #[inline(always)]
    unsafe fn gather_four(from: *const *const u8, offset: usize) -> [Self; 4] {
        // SAFETY: as above.
        unsafe {
            let block = |block: usize| Self::gather(from, offset + block * BLOCK_LEN);
            [block(0), block(1), block(2), block(3)]
        }
    }
    /// Stores four successive blocks to each pointer. Equivalent to four calls of `scatter`.
    ///
    /// # Safety
    /// As for `scatter`, with four writable blocks at each position.
    #[inline(always)]
    unsafe fn scatter_four(four: [Self; 4], to: *const *mut u8, offset: usize) {
        for (block, x) in four.into_iter().enumerate() {
            // SAFETY: as above.
            unsafe { x.scatter(to, offset + block * BLOCK_LEN) }
        }
    }
    fn xor(self, other: Self) -> Self;
    /// Computes any round except the last: SubBytes, ShiftRows, MixColumns, AddRoundKey.
    fn round(self, key: Self) -> Self;
    /// Computes the last round, which has no MixColumns.
    fn last_round(self, key: Self) -> Self;
    /// Computes any round of the equivalent inverse cipher except the last: InvSubBytes, InvShiftRows, InvMixColumns, AddRoundKey.
    fn inverse_round(self, key: Self) -> Self;
    /// Computes the last round of the equivalent inverse cipher, which has no InvMixColumns.
    fn last_inverse_round(self, key: Self) -> Self;
    /// Multiplies every block by x^[`BLOCKS`](Self::BLOCKS) in GF(2^128). Bit order of IEEE 1619: the lowest bit of the first byte is the
    /// coefficient of x^0.
    fn next_masks(self) -> Self;
    /// Returns `N` registers, each the [`next_masks`](Self::next_masks) of its predecessor.
    #[inline(always)]
    fn successive_masks<const N: usize>(first: Self) -> [Self; N] {
        let mut registers = [first; N];
        for r in 1..N {
            registers[r] = registers[r - 1].next_masks();
        }
        registers
    }
    /// Returns the `N` registers that follow `registers`, each the [`next_masks`](Self::next_masks) of its predecessor.
    #[inline(always)]
    fn following_masks<const N: usize>(mut registers: [Self; N]) -> [Self; N] {
        let mut last = registers[N - 1];
        for register in &mut registers {
            last = last.next_masks();
            *register = last;
        }
        registers
    }
    /// Returns `first` times x^0, x^1, x^2 and so on.
    ///
    /// # Safety
    /// The CPU has the instructions of this type.
    unsafe fn times_powers_of_x(first: Self::One) -> Self;
    /// Returns the first block.
    fn first(self) -> Self::One;
}
