//! XTS (IEEE 1619, SP 800-38E): encryption and decryption, with ciphertext stealing.
//!
//! Blocks do not depend on each other, so one data unit fills the pipeline of the AES instructions. Only the tweak must be encrypted first;
//! the tweak of the next unit is encrypted together with the data of the current unit.

use gantry_core::driver::Buffers;

use super::buffers::RawBuffers;
use super::keys::{KernelKeys, SharedKey};
use super::register::*;
use super::{Aes, BLOCK_LEN, RoundKeys};
#[cfg(target_arch = "x86_64")]
use gantry_digest::LevelName;

/// A data unit: one request of at least one block.
pub(crate) struct DataUnit<'a> {
    /// Encryption keys for the tweak, in both directions.
    tweak_keys: &'a RoundKeys,
    /// Keys for the data, in the direction of the function.
    keys: &'a RoundKeys,
    tweak: &'a [u8; BLOCK_LEN],
    data: RawBuffers<'a>,
}

impl<'a> DataUnit<'a> {
    /// Returns `None` for data shorter than a block.
    #[inline(always)]
    pub(crate) fn new(
        tweak_keys: &'a RoundKeys,
        keys: &'a RoundKeys,
        tweak: &'a [u8; BLOCK_LEN],
        data: Buffers<'a>,
    ) -> Option<Self> {
        let data = RawBuffers::from(data);
        (data.bytes >= BLOCK_LEN).then_some(DataUnit { tweak_keys, keys, tweak, data })
    }
}

/// Encrypts or decrypts each data unit once.
///
/// # Safety
/// The CPU has the instructions for which the function was compiled.
type CryptUnitsFn = unsafe fn(units: &[DataUnit<'_>]);

/// The functions of one CPU level and key length. Only [`Aes::xts_kernels`] returns one, so a value proves that this CPU has the
/// instructions.
#[derive(Clone, Copy)]
pub(crate) struct XtsKernels {
    encrypt: CryptUnitsFn,
    decrypt: CryptUnitsFn,
}

impl XtsKernels {
    /// Encrypts or decrypts data units. Their keys must be for this direction, and must have the key length for which these functions were
    /// compiled.
    pub(crate) fn run(&self, decrypt: bool, units: &mut [DataUnit<'_>]) {
        let function = if decrypt { self.decrypt } else { self.encrypt };
        // SAFETY: the CPU has the instructions because `self` exists.
        unsafe { function(units) }
    }
}

impl Aes {
    /// Returns the functions for keys of the same length as `keys`. XTS has no keys of 24 bytes.
    #[allow(clippy::unused_self, reason = "`self` proves that the CPU has the instructions")]
    pub(crate) fn xts_kernels(self, keys: &RoundKeys) -> XtsKernels {
        macro_rules! kernels {
            ($function:ident) => {
                match keys.rounds {
                    10 => XtsKernels { encrypt: $function::<10, false>, decrypt: $function::<10, true> },
                    _ => XtsKernels { encrypt: $function::<14, false>, decrypt: $function::<14, true> },
                }
            };
        }
        #[cfg(target_arch = "x86_64")]
        match self.0.name() {
            LevelName::Avx512 if self.0.vaes() => kernels!(avx512),
            LevelName::Vaes => kernels!(vaes),
            LevelName::Avx512 | LevelName::Avx2 => kernels!(avx2),
            LevelName::Base => kernels!(base),
        }
        #[cfg(target_arch = "aarch64")]
        kernels!(base)
    }
}

/// [`crypt_units`] compiled for one set of CPU features.
macro_rules! compiled {
    ($name:ident, $features:literal, $register:ty, $count:literal, cached $cached:literal) => {
        /// # Safety
        /// As for [`CryptUnitsFn`].
        #[target_feature(enable = $features)]
        unsafe fn $name<const ROUNDS: usize, const DECRYPT: bool>(data: &[DataUnit<'_>]) {
            // SAFETY: the attribute enables the features that the register needs; the caller promises the rest.
            unsafe { crypt_units::<$register, SharedKey<$register, $cached>, $count, ROUNDS, DECRYPT>(data) }
        }
    };
}

#[cfg(target_arch = "x86_64")]
compiled!(avx512, "avx512f,avx512bw,avx512vbmi,vaes,aes", Zmm, 4, cached 8);
#[cfg(target_arch = "x86_64")]
compiled!(vaes, "avx2,vaes,aes", Ymm, 8, cached 0);
#[cfg(target_arch = "x86_64")]
compiled!(avx2, "avx2,aes", Xmm, 8, cached 0);
#[cfg(target_arch = "x86_64")]
compiled!(base, "aes", Xmm, 8, cached 0);
#[cfg(target_arch = "aarch64")]
compiled!(base, "aes,neon", Block, 8, cached 0);

/// Implements all [`CryptUnitsFn`] functions, with `REGISTERS` registers in flight.
///
/// # Safety
/// The CPU has the instructions of `R`.
#[inline(always)]
unsafe fn crypt_units<
    R: Register,
    K: KernelKeys<R>,
    const REGISTERS: usize,
    const ROUNDS: usize,
    const DECRYPT: bool,
>(
    units: &[DataUnit<'_>],
) {
    // SAFETY: the caller promises the instructions.
    unsafe {
        let mut units = units.iter();
        let Some(mut unit) = units.next() else { return };
        let mut tweak = encrypt_tweak::<R::One, ROUNDS>(unit);
        loop {
            let next = units.next();
            let next_tweak = match next {
                Some(next) => encrypt_tweak::<R::One, ROUNDS>(next),
                None => tweak,
            };
            crypt_unit::<R, K, REGISTERS, ROUNDS, DECRYPT>(unit, tweak);
            let Some(next) = next else { return };
            (unit, tweak) = (next, next_tweak);
        }
    }
}

/// Returns the mask of a unit's first block: the encrypted tweak.
///
/// # Safety
/// The CPU has the instructions of `R`, a register of one block.
#[inline(always)]
unsafe fn encrypt_tweak<R: Register, const ROUNDS: usize>(unit: &DataUnit<'_>) -> R {
    // SAFETY: the caller promises the instructions.
    unsafe {
        let mut x = [R::load(unit.tweak)];
        rounds::<R, SharedKey<R, 0>, 1, ROUNDS, false>(
            &mut x,
            &[R::load(&[0; BLOCK_LEN])],
            uncached_keys::<R>(unit.tweak_keys),
        );
        x[0]
    }
}

/// Encrypts or decrypts one unit. `tweak` is the mask of its first block.
///
/// # Safety
/// The CPU has the instructions of `R`.
#[inline(always)]
unsafe fn crypt_unit<
    R: Register,
    K: KernelKeys<R>,
    const REGISTERS: usize,
    const ROUNDS: usize,
    const DECRYPT: bool,
>(
    unit: &DataUnit<'_>,
    mut tweak: R::One,
) {
    let RawBuffers { from, to, bytes, .. } = unit.data;
    let part = bytes % BLOCK_LEN;
    // An incomplete last block takes the missing bytes from the block before it.
    let blocks = bytes / BLOCK_LEN - usize::from(part > 0);
    let mut remaining = RemainingBlocks { from: from.cast(), to: to.cast(), blocks };
    // SAFETY: the caller promises the instructions. The unit has borrowed its data, and `remaining` counts the blocks that remain. In the
    // end a whole and an incomplete block remain, or nothing. They are read before they are written: the memory may be the same.
    unsafe {
        if blocks >= R::BLOCKS {
            let mut mask = R::times_powers_of_x(tweak);
            remaining.run::<R, K, REGISTERS, ROUNDS, DECRYPT>(&mut mask, unit.keys);
            remaining.run::<R, SharedKey<R, 0>, 1, ROUNDS, DECRYPT>(&mut mask, unit.keys);
            tweak = mask.first();
        }
        if remaining.blocks == 0 && part == 0 {
            return;
        }
        remaining.run::<R::One, SharedKey<R::One, 0>, 1, ROUNDS, DECRYPT>(&mut tweak, unit.keys);
        if part > 0 {
            // The last whole block was encrypted last, so it is decrypted first.
            let masks = if DECRYPT { [tweak.next_masks(), tweak] } else { [tweak, tweak.next_masks()] };
            let mut stolen = [0; BLOCK_LEN];
            let mut x = [R::One::load(remaining.from)];
            rounds::<R::One, SharedKey<R::One, 0>, 1, ROUNDS, DECRYPT>(
                &mut x,
                &[masks[0]],
                uncached_keys::<R::One>(unit.keys),
            );
            x[0].store(&raw mut stolen);
            let mut last = stolen;
            remaining.from.add(1).cast::<u8>().copy_to_nonoverlapping(last.as_mut_ptr(), part);
            remaining.to.add(1).cast::<u8>().copy_from_nonoverlapping(stolen.as_ptr(), part);
            x = [R::One::load(&raw const last)];
            rounds::<R::One, SharedKey<R::One, 0>, 1, ROUNDS, DECRYPT>(
                &mut x,
                &[masks[1]],
                uncached_keys::<R::One>(unit.keys),
            );
            x[0].store(remaining.to);
        }
    }
}

/// The remaining whole blocks.
struct RemainingBlocks {
    from: *const [u8; BLOCK_LEN],
    to: *mut [u8; BLOCK_LEN],
    blocks: usize,
}

impl RemainingBlocks {
    /// Processes blocks while they fill `N` registers. `mask` is the mask of the first remaining blocks, before the call and after it.
    ///
    /// # Safety
    /// The CPU has the instructions of `R`; `from` is readable and `to` writable for `blocks` blocks; they are identical or do not overlap.
    #[inline(always)]
    unsafe fn run<R: Register, K: KernelKeys<R>, const N: usize, const ROUNDS: usize, const DECRYPT: bool>(
        &mut self,
        mask: &mut R,
        keys: &RoundKeys,
    ) {
        if self.blocks < N * R::BLOCKS {
            return;
        }
        let mut masks = R::successive_masks(*mask);
        // SAFETY: the caller promises the instructions, and all fifteen keys exist for every key length.
        let keys = unsafe { K::new(keys.as_blocks().as_ptr()) };
        while self.blocks >= N * R::BLOCKS {
            let following = R::following_masks(masks);
            let mut x = masks;
            // SAFETY: `N * R::BLOCKS` blocks remain; all of them are read before any is written.
            unsafe {
                for (r, x) in x.iter_mut().enumerate() {
                    *x = R::load(self.from.add(r * R::BLOCKS));
                }
                rounds::<R, K, N, ROUNDS, DECRYPT>(&mut x, &masks, keys.reload());
                for (r, x) in x.iter().enumerate() {
                    x.store(self.to.add(r * R::BLOCKS));
                }
                self.from = self.from.add(N * R::BLOCKS);
                self.to = self.to.add(N * R::BLOCKS);
            }
            self.blocks -= N * R::BLOCKS;
            masks = following;
        }
        *mask = masks[0];
    }
}

/// Returns keys that stay in memory, for a few blocks.
///
/// # Safety
/// The CPU has the instructions of `R`.
#[inline(always)]
unsafe fn uncached_keys<R: Register>(keys: &RoundKeys) -> SharedKey<R, 0> {
    // SAFETY: as above; all fifteen keys exist for every key length.
    unsafe { SharedKey::new(keys.as_blocks().as_ptr()) }
}

/// Encrypts or decrypts several registers. Adds the masks to the input and to the output.
///
/// # Safety
/// The CPU has the instructions of `R`, and `keys` has all round keys.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "the index refers to two arrays")]
unsafe fn rounds<R: Register, K: KernelKeys<R>, const N: usize, const ROUNDS: usize, const DECRYPT: bool>(
    x: &mut [R; N],
    masks: &[R; N],
    keys: K,
) {
    // SAFETY: as above.
    unsafe {
        let first = keys.get(0, 0);
        for r in 0..N {
            x[r] = x[r].xor(masks[r].xor(first));
        }
        each_round!(ROUNDS, |round| {
            let key = keys.get(round, 0);
            for x in x.iter_mut() {
                *x = if DECRYPT { x.inverse_round(key) } else { x.round(key) };
            }
        });
        // The last round adds its key last, so the mask can be added to the key.
        let last = keys.get(ROUNDS, 0);
        for r in 0..N {
            let key = last.xor(masks[r]);
            x[r] = if DECRYPT { x[r].last_inverse_round(key) } else { x[r].last_round(key) };
        }
    }
}
