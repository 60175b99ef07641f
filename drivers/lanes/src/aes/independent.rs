//! Counter mode and CBC decryption (SP 800-38A, 6.5 and 6.2). Blocks are independent, so one message fills the pipeline of the AES
//! instructions.

use gantry_core::driver::Buffers;

use super::buffers::RawBuffers;
use super::keys::{KernelKeys, SharedKey};
use super::register::*;
use super::{Aes, BLOCK_LEN, RoundKeys};
#[cfg(target_arch = "x86_64")]
use gantry_digest::LevelName;

/// A message or a piece of one.
pub(crate) struct Message<'a> {
    keys: &'a RoundKeys,
    /// The first counter in counter mode; the ciphertext before the first block in CBC.
    iv: [u8; BLOCK_LEN],
    data: RawBuffers<'a>,
}

impl<'a> Message<'a> {
    /// Returns a message. CBC requires the keys of the inverse cipher and whole blocks of data.
    #[inline(always)]
    pub(crate) fn new(keys: &'a RoundKeys, iv: [u8; BLOCK_LEN], data: Buffers<'a>) -> Self {
        Message { keys, iv, data: data.into() }
    }
}

/// Encrypts or decrypts each message once.
///
/// # Safety
/// The CPU has the instructions for which the function was compiled. The keys have the number of rounds for which it was compiled.
type CryptMessagesFn = unsafe fn(messages: &[Message<'_>]);

/// The function of one CPU level, mode and key length. Only [`Aes::independent_kernel`] returns one, so a value proves that this CPU has
/// the instructions.
#[derive(Clone, Copy)]
pub(crate) struct IndependentKernel(CryptMessagesFn);

impl IndependentKernel {
    /// Encrypts or decrypts messages. Their keys have the length for which this function was compiled.
    pub(crate) fn run(self, messages: &mut [Message<'_>]) {
        // SAFETY: the CPU has the instructions because `self` exists. `RoundKeys` always holds fifteen round keys, padded with zeros, so
        // a key of the wrong length is still readable.
        unsafe { (self.0)(messages) }
    }
}

/// A mode in which blocks do not wait for each other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum IndependentMode {
    /// Counter mode, both ways.
    Ctr,
    /// Decryption in CBC.
    Cbc,
}

impl Aes {
    /// Returns the function for keys as long as `keys`.
    #[allow(clippy::unused_self, reason = "`self` proves that the CPU has the instructions")]
    pub(crate) fn independent_kernel(self, mode: IndependentMode, keys: &RoundKeys) -> IndependentKernel {
        macro_rules! kernel {
            ($function:ident) => {
                IndependentKernel(match (mode, keys.rounds) {
                    (IndependentMode::Ctr, 10) => $function::<10, false>,
                    (IndependentMode::Ctr, 12) => $function::<12, false>,
                    (IndependentMode::Ctr, _) => $function::<14, false>,
                    (IndependentMode::Cbc, 10) => $function::<10, true>,
                    (IndependentMode::Cbc, 12) => $function::<12, true>,
                    (IndependentMode::Cbc, _) => $function::<14, true>,
                })
            };
        }
        #[cfg(target_arch = "x86_64")]
        match self.0.name() {
            LevelName::Avx512 if self.0.vaes() => kernel!(avx512),
            LevelName::Vaes => kernel!(vaes),
            LevelName::Avx512 | LevelName::Avx2 => kernel!(avx2),
            LevelName::Base => kernel!(base),
        }
        #[cfg(target_arch = "aarch64")]
        kernel!(base)
    }
}

/// [`crypt_messages`] compiled for one set of CPU features.
macro_rules! compiled {
    ($name:ident, $features:literal, $register:ty, $count:literal and $few:literal, cached $cached:literal) => {
        /// # Safety
        /// As for [`CryptMessagesFn`].
        #[target_feature(enable = $features)]
        unsafe fn $name<const ROUNDS: usize, const CBC: bool>(all: &[Message<'_>]) {
            // SAFETY: the attribute enables the features that the register needs; the caller promises the rest.
            unsafe { crypt_messages::<$register, SharedKey<$register, $cached>, $count, $few, ROUNDS, CBC>(all) }
        }
    };
}

#[cfg(target_arch = "x86_64")]
compiled!(avx512, "avx512f,avx512bw,avx512vbmi,vaes,aes", Zmm, 8 and 4, cached 8);
#[cfg(target_arch = "x86_64")]
compiled!(vaes, "avx2,vaes,aes", Ymm, 12 and 4, cached 0);
#[cfg(target_arch = "x86_64")]
compiled!(avx2, "avx2,aes", Xmm, 8 and 4, cached 0);
#[cfg(target_arch = "x86_64")]
compiled!(base, "aes", Xmm, 8 and 4, cached 0);
#[cfg(target_arch = "aarch64")]
compiled!(base, "aes,neon", Block, 8 and 4, cached 0);

/// Implements all [`CryptMessagesFn`] functions. Processes `REGISTERS` registers side by side, then `FEW_REGISTERS`, then one.
///
/// # Safety
/// As for [`CryptMessagesFn`], and the CPU has the instructions of `R`.
#[inline(always)]
unsafe fn crypt_messages<
    R: SuccessiveBlocks,
    K: KernelKeys<R>,
    const REGISTERS: usize,
    const FEW_REGISTERS: usize,
    const ROUNDS: usize,
    const CBC: bool,
>(
    messages: &[Message<'_>],
) {
    for message in messages {
        // SAFETY: the caller promises the instructions and the rounds. The message borrows its data; `rest` tracks the bytes that remain.
        unsafe {
            let mut rest = Remainder::<R, CBC>::new(message);
            rest.run::<K, REGISTERS, ROUNDS>(message.keys);
            rest.run::<SharedKey<R, 0>, FEW_REGISTERS, ROUNDS>(message.keys);
            rest.run::<SharedKey<R, 0>, 1, ROUNDS>(message.keys);
            if rest.bytes > 0 {
                rest.process_partial::<ROUNDS>(message.keys);
            }
        }
    }
}

/// The remainder of a message, with the counter or the ciphertext block that its next block needs.
struct Remainder<R, const CBC: bool> {
    from: *const [u8; BLOCK_LEN],
    to: *mut [u8; BLOCK_LEN],
    bytes: usize,
    /// The counter of the next block, in counter mode.
    counter: u128,
    /// A register whose last block is the preceding ciphertext, in CBC.
    previous: R,
}

/// A buffer for a partial register of data, on one cache line.
#[repr(align(64))]
struct PartialRegister([[u8; BLOCK_LEN]; 4]);

impl<R: SuccessiveBlocks, const CBC: bool> Remainder<R, CBC> {
    /// # Safety
    /// The CPU has the instructions of `R`.
    #[inline(always)]
    unsafe fn new(message: &Message<'_>) -> Self {
        let RawBuffers { from, to, bytes, .. } = message.data;
        Remainder {
            from: from.cast(),
            to: to.cast(),
            bytes,
            counter: u128::from_be_bytes(message.iv),
            // SAFETY: the caller's promise.
            previous: unsafe { R::broadcast(&raw const message.iv) },
        }
    }

    /// Processes `N` registers at a time, as long as the data fill them.
    ///
    /// # Safety
    /// The CPU has the instructions of `R`. `from` is readable and `to` writable for `bytes` bytes; they are identical or do not overlap.
    /// The keys have `ROUNDS` rounds.
    #[inline(always)]
    unsafe fn run<K: KernelKeys<R>, const N: usize, const ROUNDS: usize>(&mut self, keys: &RoundKeys) {
        let blocks = N * R::BLOCKS;
        if self.bytes < blocks * BLOCK_LEN {
            return;
        }
        // SAFETY: `keys` always holds fifteen round keys, and the loop condition checks the remaining bytes.
        unsafe {
            let keys = K::new(keys.as_blocks().as_ptr());
            while self.bytes >= blocks * BLOCK_LEN {
                self.crypt::<K, N, ROUNDS>(self.from, self.to, keys.reload());
                (self.from, self.to) = (self.from.add(blocks), self.to.add(blocks));
                self.bytes -= blocks * BLOCK_LEN;
            }
        }
    }

    /// Processes the last bytes, which do not fill a register.
    ///
    /// # Safety
    /// As for [`run`](Self::run).
    #[inline(always)]
    unsafe fn process_partial<const ROUNDS: usize>(&mut self, keys: &RoundKeys) {
        let mut part = PartialRegister([[0; BLOCK_LEN]; 4]);
        let at = part.0.as_mut_ptr();
        // SAFETY: as above; `part` is at least as long as a register, and therefore longer than the remaining bytes.
        unsafe {
            at.cast::<u8>().copy_from_nonoverlapping(self.from.cast(), self.bytes);
            let keys = SharedKey::<R, 0>::new(keys.as_blocks().as_ptr());
            self.crypt::<_, 1, ROUNDS>(at, at, keys);
            self.to.cast::<u8>().copy_from_nonoverlapping(at.cast(), self.bytes);
        }
        // `part` also holds unused key stream. `black_box` takes its address, so the compiler must keep the zeros.
        part = PartialRegister([[0; BLOCK_LEN]; 4]);
        core::hint::black_box(&part);
    }

    /// Processes `N` registers side by side.
    ///
    /// # Safety
    /// The CPU has the instructions of `R`. `from` is readable and `to` writable for `N` registers; they are identical or do not overlap.
    /// `keys` has at least `ROUNDS + 1` round keys.
    #[inline(always)]
    unsafe fn crypt<K: KernelKeys<R>, const N: usize, const ROUNDS: usize>(
        &mut self,
        from: *const [u8; BLOCK_LEN],
        to: *mut [u8; BLOCK_LEN],
        keys: K,
    ) {
        // SAFETY: the caller's promises.
        unsafe {
            let mut x = [self.previous; N];
            if CBC {
                for (r, x) in x.iter_mut().enumerate() {
                    *x = R::load(from.add(r * R::BLOCKS));
                }
            } else {
                x = R::counters(self.counter);
                self.counter = self.counter.wrapping_add((N * R::BLOCKS) as u128);
            }
            let first = keys.get(0, 0);
            for x in &mut x {
                *x = x.xor(first);
            }
            each_round!(ROUNDS, |round| {
                let key = keys.get(round, 0);
                for x in &mut x {
                    *x = if CBC { x.inverse_round(key) } else { x.round(key) };
                }
            });
            // The last round ends by adding its key, so data added to that key are added to the result.
            let last = keys.get(ROUNDS, 0);
            for (r, x) in x.into_iter().enumerate() {
                // The data are read again before the result is written, because `from` and `to` may be identical.
                let data = R::load(from.add(r * R::BLOCKS));
                let result = if CBC {
                    let chained = data.preceded_by(core::mem::replace(&mut self.previous, data));
                    x.last_inverse_round(last.xor(chained))
                } else {
                    x.last_round(last.xor(data))
                };
                result.store(to.add(r * R::BLOCKS));
            }
        }
    }
}
