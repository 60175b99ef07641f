//! GHASH (SP 800-38D, 6.4) by carry-less multiplication, several blocks to a register.
//!
//! A block stands for a polynomial whose lowest coefficient is the highest bit of the first byte. Here its bytes are turned around, so
//! that the bits of a whole block are in reversed order. The product of two such blocks lacks a factor of x; the powers of the hash key
//! have it already.

use zeroize::Zeroize;

use super::BLOCK;
use super::keys::another;
use super::register::{Register, Wide, Xmm};

/// Registers that are hashed at once.
pub(super) const REGISTERS: usize = 8;

/// Blocks of so many registers, of the widest.
const MOST: usize = 32;
/// Zeros behind the powers, for the blocks of a register that are behind the last one of a sum.
const ZEROS: usize = 3;

/// The powers of a hash key, times x, the highest first: as many as blocks are hashed at once, and zeros behind them.
#[repr(C, align(64))]
pub(super) struct Powers {
    powers: [u128; MOST + ZEROS],
    /// Of each the sum of its halves, twice.
    sums: [u128; MOST + ZEROS],
}

impl Powers {
    /// Those of no key.
    pub(super) fn none() -> Self {
        Powers { powers: [0; MOST + ZEROS], sums: [0; MOST + ZEROS] }
    }

    /// Computes those of a hash key, with its bytes turned around.
    ///
    /// # Safety
    /// The CPU has the instructions of `R`, and VPCLMULQDQ.
    #[inline(always)]
    pub(super) unsafe fn compute<R: Wide>(&mut self, key: Xmm) {
        const { assert!(REGISTERS * R::BLOCKS <= MOST && R::BLOCKS <= ZEROS + 1) };
        let places = MOST - REGISTERS * R::BLOCKS..MOST;
        let (all, sums) = (&mut self.powers[places.clone()], &mut self.sums[places]);
        // SAFETY: the caller promises the instructions. A block is written to a place, and a register where there are places for it.
        unsafe {
            let first = R::from_first(key.times_x(POLYNOMIAL));
            let mut power = first;
            for place in all[(REGISTERS - 1) * R::BLOCKS..].iter_mut().rev() {
                power.first().store(core::ptr::from_mut(place).cast());
                power = product(power, first);
            }
            let mut registers = [R::load(all[(REGISTERS - 1) * R::BLOCKS..].as_ptr().cast()); REGISTERS];
            let mut known = 1;
            while known < REGISTERS {
                let highest = R::repeat(registers[known - 1].first());
                for r in 0..known {
                    registers[known + r] = product(registers[r], highest);
                }
                known *= 2;
            }
            let lines = all.chunks_exact_mut(R::BLOCKS).zip(sums.chunks_exact_mut(R::BLOCKS)).rev();
            for ((line, sums), register) in lines.zip(registers) {
                register.store(line.as_mut_ptr().cast());
                register.xor(register.swapped()).store(sums.as_mut_ptr().cast());
            }
        }
    }

    /// This power and those below it, or zeros where there are none: what the blocks of a register are multiplied with that have so
    /// many to come, itself among them; and their sums.
    ///
    /// # Safety
    /// The CPU has the instructions of `R`.
    #[inline(always)]
    unsafe fn from<R: Wide>(&self, power: usize) -> (R, R) {
        let place = MOST - power;
        let (powers, sums) = (&self.powers[place..][..R::BLOCKS], &self.sums[place..][..R::BLOCKS]);
        // SAFETY: the caller promises the instructions; there are as many.
        unsafe { (R::load(powers.as_ptr().cast()), R::load(sums.as_ptr().cast())) }
    }

    #[cfg(test)]
    pub(crate) fn as_blocks(&self) -> impl Iterator<Item = [u8; 16]> {
        self.powers.iter().chain(&self.sums).map(|block| block.to_ne_bytes())
    }
}

impl Drop for Powers {
    fn drop(&mut self) {
        self.powers[..MOST].zeroize();
        self.sums[..MOST].zeroize();
    }
}

/// A sum of products that is not reduced yet: coefficients from x^0 on, from x^64 on, less the two others, and from x^128 on.
pub(super) struct Sum<'a, R> {
    powers: &'a Powers,
    low: R,
    middle: R,
    high: R,
}

impl<'a, R: Wide> Sum<'a, R> {
    /// # Safety
    /// The CPU has the instructions of `R`, and VPCLMULQDQ.
    #[inline(always)]
    pub(super) unsafe fn new(powers: &'a Powers) -> Self {
        // SAFETY: the caller's promise, and the same powers. (What it has read of them, the compiler would keep on the stack for others.)
        let (powers, zero) = unsafe { (&*another(powers), R::zero()) };
        Sum { powers, low: zero, middle: zero, high: zero }
    }

    /// Adds a register of blocks, whose first has still so many to come in the sum, itself among them. By Karatsuba's method: the
    /// multiplications are what is scarce.
    #[inline(always)]
    pub(super) fn add(&mut self, blocks: R, to_come: usize) {
        // SAFETY: a value of this type exists, so there are the instructions.
        unsafe {
            let (power, sum) = self.powers.from::<R>(to_come);
            self.low = self.low.xor(blocks.product::<0x00>(power)).in_order();
            self.high = self.high.xor(blocks.product::<0x11>(power)).in_order();
            self.middle = self.middle.xor(blocks.xor(blocks.swapped()).product::<0x00>(sum)).in_order();
        }
    }

    /// The sum of all blocks, reduced.
    #[inline(always)]
    pub(super) fn reduced(self) -> Xmm {
        let middle = self.middle.xor(self.low).xor(self.high);
        // SAFETY: as above.
        unsafe { reduce(self.low, middle, self.high) }.sum()
    }
}

/// Products of blocks, with a factor x too many.
///
/// # Safety
/// The CPU has VPCLMULQDQ.
#[inline(always)]
unsafe fn product<R: Wide>(a: R, b: R) -> R {
    // SAFETY: as above.
    unsafe {
        let middle = a.product::<0x01>(b).xor(a.product::<0x10>(b));
        reduce(a.product::<0x00>(b), middle, a.product::<0x11>(b))
    }
}

/// The polynomial modulo which is multiplied, 1 + x + x^2 + x^7 + x^128, but for its x^128: bits in reversed order.
const POLYNOMIAL: u64 = 0xc2 << 56;
/// The same, as a block.
const POLYNOMIAL_BLOCK: [u8; BLOCK] = (POLYNOMIAL as u128).to_le_bytes();

/// Products modulo the polynomial. What is in the lower half, whose bits stand for the higher coefficients of the reversed product, is
/// folded away in two steps of 64 bits.
///
/// # Safety
/// The CPU has VPCLMULQDQ.
#[inline(always)]
unsafe fn reduce<R: Wide>(low: R, middle: R, high: R) -> R {
    // SAFETY: as above, and values of the type exist; a block.
    unsafe {
        let polynomial = R::broadcast(&POLYNOMIAL_BLOCK);
        let middle = middle.xor(low.swapped()).xor(polynomial.product::<0x00>(low));
        high.xor(middle.swapped()).xor(polynomial.product::<0x00>(middle))
    }
}
