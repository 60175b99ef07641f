//! GHASH (SP 800-38D, 6.4) by carry-less multiplication, several blocks to a register.
//!
//! A block represents a polynomial whose lowest coefficient is the highest bit of the first byte. Here its bytes are reversed, so that
//! all bits of a block are in reversed order. The product of two such blocks lacks a factor of x, which the powers of the hash key
//! already contain.

use zeroize::Zeroize;

use super::BLOCK_LEN;
use super::keys::hide_from_optimizer;
use super::register::{Register, WideRegister, Xmm};

/// Number of registers that are hashed at once.
pub(super) const REGISTERS: usize = 8;

/// Number of blocks in `REGISTERS` registers of the widest kind.
const MAX_POWERS: usize = 32;
/// Number of zeros after the powers. The blocks of a register that are past the end of a sum are multiplied by these zeros.
const PADDING_ZEROS: usize = 3;

/// The powers of a hash key, each multiplied by x, the highest first. There is one for each block that is hashed at once, and zeros follow.
#[repr(C, align(64))]
pub(super) struct Powers {
    powers: [u128; MAX_POWERS + PADDING_ZEROS],
    /// The sum of each power's halves, in both halves.
    sums: [u128; MAX_POWERS + PADDING_ZEROS],
}

impl Powers {
    /// Returns powers that are all zero.
    pub(super) fn zeroed() -> Self {
        Powers { powers: [0; MAX_POWERS + PADDING_ZEROS], sums: [0; MAX_POWERS + PADDING_ZEROS] }
    }

    /// Computes the powers of a hash key with reversed bytes.
    ///
    /// # Safety
    /// The CPU has the instructions of `R`, and VPCLMULQDQ.
    #[inline(always)]
    pub(super) unsafe fn compute<R: WideRegister>(&mut self, key: Xmm) {
        const { assert!(REGISTERS * R::BLOCKS <= MAX_POWERS && R::BLOCKS <= PADDING_ZEROS + 1) };
        let range = MAX_POWERS - REGISTERS * R::BLOCKS..MAX_POWERS;
        let (all, sums) = (&mut self.powers[range.clone()], &mut self.sums[range]);
        // SAFETY: the caller promises the instructions. A block is stored to an element, and a register where enough elements remain.
        unsafe {
            let first = R::from_first(key.shift_left_reduced(REVERSED_POLYNOMIAL_UPPER));
            let mut power = first;
            for element in all[(REGISTERS - 1) * R::BLOCKS..].iter_mut().rev() {
                power.first().store(core::ptr::from_mut(element).cast());
                power = product(power, first);
            }
            let mut registers = [R::load(all[(REGISTERS - 1) * R::BLOCKS..].as_ptr().cast()); REGISTERS];
            let mut computed = 1;
            while computed < REGISTERS {
                let highest = R::repeat(registers[computed - 1].first());
                for r in 0..computed {
                    registers[computed + r] = product(registers[r], highest);
                }
                computed *= 2;
            }
            let lines = all.chunks_exact_mut(R::BLOCKS).zip(sums.chunks_exact_mut(R::BLOCKS)).rev();
            for ((line, sums), register) in lines.zip(registers) {
                register.store(line.as_mut_ptr().cast());
                register.xor(register.swap_halves()).store(sums.as_mut_ptr().cast());
            }
        }
    }

    /// Returns the factors for the blocks of a register, and the sum of the halves of each factor. The factors are the power with the
    /// exponent `power`, the lower powers, then zeros. `power` is the number of remaining blocks, including the first block of the
    /// register.
    ///
    /// # Safety
    /// The CPU has the instructions of `R`.
    #[inline(always)]
    unsafe fn factors<R: WideRegister>(&self, power: usize) -> (R, R) {
        let index = MAX_POWERS - power;
        let (powers, sums) = (&self.powers[index..][..R::BLOCKS], &self.sums[index..][..R::BLOCKS]);
        // SAFETY: the caller promises the instructions; both slices have `R::BLOCKS` elements.
        unsafe { (R::load(powers.as_ptr().cast()), R::load(sums.as_ptr().cast())) }
    }

    #[cfg(test)]
    pub(crate) fn as_blocks(&self) -> impl Iterator<Item = [u8; 16]> {
        self.powers.iter().chain(&self.sums).map(|block| block.to_ne_bytes())
    }
}

impl Drop for Powers {
    fn drop(&mut self) {
        self.powers[..MAX_POWERS].zeroize();
        self.sums[..MAX_POWERS].zeroize();
    }
}

/// A sum of products before reduction: coefficients from x^0, from x^64 (without the other two parts), and from x^128 on.
pub(super) struct Sum<'a, R> {
    powers: &'a Powers,
    low: R,
    middle: R,
    high: R,
}

impl<'a, R: WideRegister> Sum<'a, R> {
    /// # Safety
    /// The CPU has the instructions of `R`, and VPCLMULQDQ.
    #[inline(always)]
    pub(super) unsafe fn new(powers: &'a Powers) -> Self {
        // SAFETY: the caller promises the instructions, and the reference is to the same powers. (If the compiler knew that they are the
        // same, it would keep the values that it has read on the stack.)
        let (powers, zero) = unsafe { (&*hide_from_optimizer(powers), R::zero()) };
        Sum { powers, low: zero, middle: zero, high: zero }
    }

    /// Adds a register of blocks. `remaining_blocks` counts the blocks that the sum still gets, including the first of this register. Uses
    /// Karatsuba's method, because multiplications are the bottleneck.
    #[inline(always)]
    pub(super) fn add(&mut self, blocks: R, remaining_blocks: usize) {
        // SAFETY: a value of this type exists, so the CPU has the instructions.
        unsafe {
            let (power, sum) = self.powers.factors::<R>(remaining_blocks);
            self.low = self.low.xor(blocks.product::<0x00>(power)).keep_order();
            self.high = self.high.xor(blocks.product::<0x11>(power)).keep_order();
            self.middle = self.middle.xor(blocks.xor(blocks.swap_halves()).product::<0x00>(sum)).keep_order();
        }
    }

    /// Returns the reduced sum of all blocks.
    #[inline(always)]
    pub(super) fn reduced(self) -> Xmm {
        let middle = self.middle.xor(self.low).xor(self.high);
        // SAFETY: as above.
        unsafe { reduce(self.low, middle, self.high) }.sum()
    }
}

/// Multiplies blocks. If each of them has the additional factor of x, so does the product.
///
/// # Safety
/// The CPU has VPCLMULQDQ.
#[inline(always)]
unsafe fn product<R: WideRegister>(a: R, b: R) -> R {
    // SAFETY: as above.
    unsafe {
        let middle = a.product::<0x01>(b).xor(a.product::<0x10>(b));
        reduce(a.product::<0x00>(b), middle, a.product::<0x11>(b))
    }
}

/// The upper half of the modulus 1 + x + x^2 + x^7 + x^128 with its bits in reversed order: x, x^2 and x^7. The lower half is 1, which
/// stands for x^128; the 1 of the modulus would be bit 128.
const REVERSED_POLYNOMIAL_UPPER: u64 = 0xc2 << 56;
/// [`REVERSED_POLYNOMIAL_UPPER`] as a block.
const REVERSED_POLYNOMIAL_UPPER_BLOCK: [u8; BLOCK_LEN] = (REVERSED_POLYNOMIAL_UPPER as u128).to_le_bytes();

/// Reduces products modulo the polynomial. The lower half, whose bits are the higher coefficients of the reversed product, is
/// folded into the upper one in two steps of 64 bits.
///
/// # Safety
/// The CPU has VPCLMULQDQ.
#[inline(always)]
unsafe fn reduce<R: WideRegister>(low: R, middle: R, high: R) -> R {
    // SAFETY: as above, and values of the type exist; `REVERSED_POLYNOMIAL_UPPER_BLOCK` is one block long.
    unsafe {
        let polynomial_upper = R::broadcast(&REVERSED_POLYNOMIAL_UPPER_BLOCK);
        let middle = middle.xor(low.swap_halves()).xor(polynomial_upper.product::<0x00>(low));
        high.xor(middle.swap_halves()).xor(polynomial_upper.product::<0x00>(middle))
    }
}
