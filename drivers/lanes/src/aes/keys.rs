//! Where the kernels have their round keys: in registers where there are enough for all of them, or else in the session's own memory.
//! Copies on the stack would be left there.

use core::arch::asm;

use super::BLOCK;
use super::register::Register;

/// The round keys of the registers of a kernel.
pub(super) trait Keys<R: Register>: Copy {
    /// # Safety
    /// The CPU has the instructions of `R`. `keys` are readable for as long as the result is used: fifteen, or as many as
    /// [`get`](Self::get) is asked for.
    unsafe fn new(keys: *const [u8; BLOCK]) -> Self;
    /// What is added in a round to a register.
    ///
    /// # Safety
    /// That of [`new`](Self::new).
    unsafe fn get(self, round: usize, register: usize) -> R;
    /// The same keys, to be read again: those that it has read, the compiler would keep on the stack for the next block.
    #[must_use]
    fn afresh(self) -> Self;
}

/// All blocks share a key: those of the first `KEPT` rounds are in registers, and the others in memory.
#[derive(Clone, Copy)]
pub(super) struct Shared<R, const KEPT: usize> {
    kept: [R; KEPT],
    all: *const [u8; BLOCK],
}

impl<R: Register, const KEPT: usize> Keys<R> for Shared<R, KEPT> {
    #[inline(always)]
    unsafe fn new(all: *const [u8; BLOCK]) -> Self {
        // SAFETY: the caller's promise; all fifteen are there, whatever the length of the key. (A closure would not have the
        // instructions.)
        unsafe {
            let all = another(all);
            let mut kept = [R::broadcast(all); KEPT];
            for (round, register) in kept.iter_mut().enumerate() {
                *register = R::broadcast(all.add(round));
            }
            Shared { kept, all }
        }
    }

    #[inline(always)]
    unsafe fn get(self, round: usize, _register: usize) -> R {
        if round < KEPT {
            return self.kept[round];
        }
        // SAFETY: the caller's promise.
        unsafe { R::broadcast(self.all.add(round)) }
    }

    #[inline(always)]
    fn afresh(self) -> Self {
        Shared { all: another(self.all), ..self }
    }
}

/// In memory, for each round a block for each lane of `N` registers: each lane has a key of its own.
#[derive(Clone, Copy)]
pub(super) struct OfLanes<const N: usize>(*const [u8; BLOCK]);

impl<R: Register, const N: usize> Keys<R> for OfLanes<N> {
    #[inline(always)]
    unsafe fn new(keys: *const [u8; BLOCK]) -> Self {
        OfLanes(keys)
    }

    #[inline(always)]
    unsafe fn get(self, round: usize, register: usize) -> R {
        // SAFETY: the caller's promise.
        unsafe { R::load(self.0.add((round * N + register) * R::BLOCKS)) }
    }

    #[inline(always)]
    fn afresh(self) -> Self {
        OfLanes(another(self.0))
    }
}

/// The same address, of which the compiler does not know that it is the same.
#[inline(always)]
#[allow(clippy::pointers_in_nomem_asm_block, reason = "nothing is read or written")]
pub(super) fn another<T>(mut address: *const T) -> *const T {
    // SAFETY: there is no instruction.
    unsafe { asm!("/* {0} */", inout(reg) address, options(nomem, nostack, preserves_flags)) }
    address
}
