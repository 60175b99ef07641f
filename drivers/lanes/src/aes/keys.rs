//! Round keys for the kernels: the first ones in registers if a kernel has registers to spare, the others in the session's own memory.
//! Kernels make no copies of keys on the stack, because the copies would remain there.

use core::arch::asm;

use super::BLOCK_LEN;
use super::register::Register;

/// The round keys of the registers of a kernel.
pub(super) trait KernelKeys<R: Register>: Copy {
    /// # Safety
    /// The CPU has the instructions of `R`. `keys` are readable while the result is used: fifteen, or as many as the calls of
    /// [`get`](Self::get) need.
    unsafe fn new(keys: *const [u8; BLOCK_LEN]) -> Self;
    /// Returns the key that a round adds to a register.
    ///
    /// # Safety
    /// As for [`new`](Self::new).
    unsafe fn get(self, round: usize, register: usize) -> R;
    /// Returns the same keys, to be read from memory again: otherwise the compiler would keep them on the stack for the next block.
    #[must_use]
    fn reload(self) -> Self;
}

/// One key for all blocks: the first `CACHED` round keys are in registers, the others in memory.
#[derive(Clone, Copy)]
pub(super) struct SharedKey<R, const CACHED: usize> {
    cached: [R; CACHED],
    all: *const [u8; BLOCK_LEN],
}

impl<R: Register, const CACHED: usize> KernelKeys<R> for SharedKey<R, CACHED> {
    #[inline(always)]
    unsafe fn new(all: *const [u8; BLOCK_LEN]) -> Self {
        // SAFETY: the caller's promise; all fifteen round keys exist for every key length. (A closure would not have the instructions.)
        unsafe {
            let all = hide_from_optimizer(all);
            let mut cached = [R::broadcast(all); CACHED];
            for (round, register) in cached.iter_mut().enumerate() {
                *register = R::broadcast(all.add(round));
            }
            SharedKey { cached, all }
        }
    }

    #[inline(always)]
    unsafe fn get(self, round: usize, _register: usize) -> R {
        if round < CACHED {
            return self.cached[round];
        }
        // SAFETY: the caller's promise.
        unsafe { R::broadcast(self.all.add(round)) }
    }

    #[inline(always)]
    fn reload(self) -> Self {
        SharedKey { all: hide_from_optimizer(self.all), ..self }
    }
}

/// Keys in memory, one block per round and lane of `N` registers: each lane has its own key.
#[derive(Clone, Copy)]
pub(super) struct PerLaneKeys<const N: usize>(*const [u8; BLOCK_LEN]);

impl<R: Register, const N: usize> KernelKeys<R> for PerLaneKeys<N> {
    #[inline(always)]
    unsafe fn new(keys: *const [u8; BLOCK_LEN]) -> Self {
        PerLaneKeys(keys)
    }

    #[inline(always)]
    unsafe fn get(self, round: usize, register: usize) -> R {
        // SAFETY: the caller's promise.
        unsafe { R::load(self.0.add((round * N + register) * R::BLOCKS)) }
    }

    #[inline(always)]
    fn reload(self) -> Self {
        PerLaneKeys(hide_from_optimizer(self.0))
    }
}

/// Returns the same address, but hides from the compiler that it is the same.
#[inline(always)]
#[allow(clippy::pointers_in_nomem_asm_block, reason = "nothing is read or written")]
pub(super) fn hide_from_optimizer<T>(mut address: *const T) -> *const T {
    // SAFETY: the assembly contains no instruction.
    unsafe { asm!("/* {0} */", inout(reg) address, options(nomem, nostack, preserves_flags)) }
    address
}
