//! Registers of AES blocks: one implementation for each width.
//!
//! As with [`Vector`](gantry_digest::vector::Vector), a value can only come from an unsafe function, whose caller promises that the CPU
//! has the instructions of the type.

mod independent;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "x86_64")]
mod wide;
#[cfg(target_arch = "x86_64")]
mod x86;
#[cfg(target_arch = "x86_64")]
mod ymm;

use super::BLOCK;
pub(super) use independent::Successive;
#[cfg(target_arch = "aarch64")]
pub(super) use neon::*;
#[cfg(target_arch = "x86_64")]
pub(super) use wide::Wide;
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
    /// The CPU has the instructions of this type (of all methods); `from` is readable for a register.
    unsafe fn load(from: *const [u8; BLOCK]) -> Self;
    /// # Safety
    /// `to` is writable for a register.
    unsafe fn store(self, to: *mut [u8; BLOCK]);
    /// The same block everywhere.
    ///
    /// # Safety
    /// `from` is readable for a block.
    unsafe fn broadcast(from: *const [u8; BLOCK]) -> Self;
    /// One block from behind each pointer.
    ///
    /// # Safety
    /// `from` holds `BLOCKS` pointers, each readable for a block behind `offset` bytes.
    unsafe fn gather(from: *const *const u8, offset: usize) -> Self;
    /// One block to behind each pointer.
    ///
    /// # Safety
    /// `to` holds `BLOCKS` pointers, each writable for a block behind `offset` bytes.
    unsafe fn scatter(self, to: *const *mut u8, offset: usize);
    /// Four successive blocks from behind each pointer: what four times `gather` gives, with each line of the cache read once.
    ///
    /// # Safety
    /// As `gather`, for four blocks.
    #[inline(always)]
    unsafe fn gather_four(from: *const *const u8, offset: usize) -> [Self; 4] {
        // SAFETY: as above.
        unsafe {
            let block = |block: usize| Self::gather(from, offset + block * BLOCK);
            [block(0), block(1), block(2), block(3)]
        }
    }
    /// Four successive blocks to behind each pointer: what four times `scatter` does.
    ///
    /// # Safety
    /// As `scatter`, for four blocks.
    #[inline(always)]
    unsafe fn scatter_four(four: [Self; 4], to: *const *mut u8, offset: usize) {
        for (block, x) in four.into_iter().enumerate() {
            // SAFETY: as above.
            unsafe { x.scatter(to, offset + block * BLOCK) }
        }
    }
    fn xor(self, other: Self) -> Self;
    /// A round but the last: SubBytes, ShiftRows, MixColumns, AddRoundKey.
    fn round(self, key: Self) -> Self;
    /// The last round: without MixColumns.
    fn last_round(self, key: Self) -> Self;
    /// A round but the last of the equivalent inverse cipher: InvSubBytes, InvShiftRows, InvMixColumns, AddRoundKey.
    fn inverse_round(self, key: Self) -> Self;
    /// The last round of the equivalent inverse cipher: without InvMixColumns.
    fn last_inverse_round(self, key: Self) -> Self;
    /// Every block times x^[`BLOCKS`](Self::BLOCKS) in GF(2^128), as IEEE 1619 writes it: the lowest bit of the first byte is that
    /// of x^0.
    fn next(self) -> Self;
    /// `N` registers, each of which is the [`next`](Self::next) of the one before.
    #[inline(always)]
    fn successive<const N: usize>(first: Self) -> [Self; N] {
        let mut registers = [first; N];
        for r in 1..N {
            registers[r] = registers[r - 1].next();
        }
        registers
    }
    /// The blocks behind those of `N` registers, each of which is the [`next`](Self::next) of the one before.
    #[inline(always)]
    fn following<const N: usize>(mut registers: [Self; N]) -> [Self; N] {
        let mut last = registers[N - 1];
        for register in &mut registers {
            last = last.next();
            *register = last;
        }
        registers
    }
    /// A block, that times x, that times x^2, and so on.
    ///
    /// # Safety
    /// The CPU has the instructions of this type.
    unsafe fn ascending(first: Self::One) -> Self;
    /// The first block.
    fn first(self) -> Self::One;
}
