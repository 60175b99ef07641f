//! Counter mode and CBC decryption (SP 800-38A, 6.5 and 6.2): no block waits for the one before, so one message fills the pipeline of
//! the AES instructions by itself.

use gantry_core::driver::Buffers;

use super::data::Data;
use super::keys::{Keys, Shared};
use super::register::*;
use super::{Aes, BLOCK, RoundKeys};
#[cfg(target_arch = "x86_64")]
use gantry_digest::LevelName;

/// A message or a piece of one.
pub(crate) struct Message<'a> {
    keys: &'a RoundKeys,
    /// The first counter, or what the first block is chained to.
    iv: [u8; BLOCK],
    data: Data<'a>,
}

impl<'a> Message<'a> {
    /// To decrypt CBC, the keys are those of the inverse cipher, and the data are whole blocks.
    #[inline(always)]
    pub(crate) fn new(keys: &'a RoundKeys, iv: [u8; BLOCK], data: Buffers<'a>) -> Self {
        Message { keys, iv, data: data.into() }
    }
}

/// Encrypts or decrypts messages, once each.
///
/// # Safety
/// The CPU has the instructions for which it was compiled; the keys are of as many rounds.
type Messages = unsafe fn(messages: &[Message<'_>]);

/// The function of one CPU level, mode and key length. Only [`Aes::independent`] makes it, so that whoever holds one may call it on this
/// CPU.
#[derive(Clone, Copy)]
pub(crate) struct Kernel(Messages);

impl Kernel {
    /// Encrypts or decrypts messages whose keys are of the length for which this function is.
    pub(crate) fn run(self, messages: &mut [Message<'_>]) {
        // SAFETY: the CPU has the instructions because `self` exists. A key of fewer rounds has zeros behind its own: all fifteen are
        // there whatever the length.
        unsafe { (self.0)(messages) }
    }
}

/// A mode in which blocks do not wait for each other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Counter mode, both ways.
    Ctr,
    /// Decryption in CBC.
    Cbc,
}

impl Aes {
    /// The function for keys of the length of these.
    #[allow(clippy::unused_self, reason = "the proof")]
    pub(crate) fn independent(self, mode: Mode, keys: &RoundKeys) -> Kernel {
        macro_rules! kernel {
            ($function:ident) => {
                Kernel(match (mode, keys.rounds) {
                    (Mode::Ctr, 10) => $function::<10, false>,
                    (Mode::Ctr, 12) => $function::<12, false>,
                    (Mode::Ctr, _) => $function::<14, false>,
                    (Mode::Cbc, 10) => $function::<10, true>,
                    (Mode::Cbc, 12) => $function::<12, true>,
                    (Mode::Cbc, _) => $function::<14, true>,
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

/// [`messages`] compiled for one set of CPU features.
macro_rules! compiled {
    ($name:ident, $features:literal, $register:ty, $count:literal and $fewer:literal, kept $kept:literal) => {
        /// # Safety
        /// That of [`Messages`].
        #[target_feature(enable = $features)]
        unsafe fn $name<const ROUNDS: usize, const CBC: bool>(all: &[Message<'_>]) {
            // SAFETY: the features of the register are on here; the rest is the caller's promise.
            unsafe { messages::<$register, Shared<$register, $kept>, $count, $fewer, ROUNDS, CBC>(all) }
        }
    };
}

#[cfg(target_arch = "x86_64")]
compiled!(avx512, "avx512f,avx512bw,avx512vbmi,vaes,aes", Zmm, 8 and 4, kept 8);
#[cfg(target_arch = "x86_64")]
compiled!(vaes, "avx2,vaes,aes", Ymm, 12 and 4, kept 0);
#[cfg(target_arch = "x86_64")]
compiled!(avx2, "avx2,aes", Xmm, 8 and 4, kept 0);
#[cfg(target_arch = "x86_64")]
compiled!(base, "aes", Xmm, 8 and 4, kept 0);
#[cfg(target_arch = "aarch64")]
compiled!(base, "aes,neon", Block, 8 and 4, kept 0);

/// The body of all [`Messages`] functions, with so many registers side by side, fewer where there are no more data, and at the end one.
///
/// # Safety
/// That of [`Messages`], and the CPU has the instructions of `R`.
#[inline(always)]
unsafe fn messages<
    R: Successive,
    K: Keys<R>,
    const REGISTERS: usize,
    const FEWER: usize,
    const ROUNDS: usize,
    const CBC: bool,
>(
    messages: &[Message<'_>],
) {
    for message in messages {
        // SAFETY: the caller promises the instructions and the rounds; the message has lent its data, which `rest` counts off.
        unsafe {
            let mut rest = Rest::<R, CBC>::of(message);
            rest.run::<K, REGISTERS, ROUNDS>(message.keys);
            rest.run::<Shared<R, 0>, FEWER, ROUNDS>(message.keys);
            rest.run::<Shared<R, 0>, 1, ROUNDS>(message.keys);
            if rest.bytes > 0 {
                rest.part::<ROUNDS>(message.keys);
            }
        }
    }
}

/// What is left of a message, and what comes with its first block.
struct Rest<R, const CBC: bool> {
    from: *const [u8; BLOCK],
    to: *mut [u8; BLOCK],
    bytes: usize,
    /// In counter mode.
    counter: u128,
    /// In CBC: its last block is the ciphertext in front.
    before: R,
}

/// A register's part of the data that is not a whole one, on one line of the cache.
#[repr(align(64))]
struct Part([[u8; BLOCK]; 4]);

impl<R: Successive, const CBC: bool> Rest<R, CBC> {
    /// # Safety
    /// The CPU has the instructions of `R`.
    #[inline(always)]
    unsafe fn of(message: &Message<'_>) -> Self {
        let Data { from, to, bytes, .. } = message.data;
        Rest {
            from: from.cast(),
            to: to.cast(),
            bytes,
            counter: u128::from_be_bytes(message.iv),
            // SAFETY: the caller's promise.
            before: unsafe { R::broadcast(&raw const message.iv) },
        }
    }

    /// As much as fills `N` registers, again and again.
    ///
    /// # Safety
    /// The CPU has the instructions of `R`; `from` is readable and `to` writable for the bytes, the same or apart; the keys are of so many
    /// rounds.
    #[inline(always)]
    unsafe fn run<K: Keys<R>, const N: usize, const ROUNDS: usize>(&mut self, keys: &RoundKeys) {
        let blocks = N * R::BLOCKS;
        if self.bytes < blocks * BLOCK {
            return;
        }
        // SAFETY: all fifteen keys are there, whatever their length. There are so many data.
        unsafe {
            let keys = K::new(keys.as_blocks().as_ptr());
            while self.bytes >= blocks * BLOCK {
                self.crypt::<K, N, ROUNDS>(self.from, self.to, keys.afresh());
                (self.from, self.to) = (self.from.add(blocks), self.to.add(blocks));
                self.bytes -= blocks * BLOCK;
            }
        }
    }

    /// The last bytes, which do not fill a register.
    ///
    /// # Safety
    /// That of [`run`](Self::run).
    #[inline(always)]
    unsafe fn part<const ROUNDS: usize>(&mut self, keys: &RoundKeys) {
        let mut part = Part([[0; BLOCK]; 4]);
        let at = part.0.as_mut_ptr();
        // SAFETY: as above; the part is longer than what is left, and as long as a register.
        unsafe {
            at.cast::<u8>().copy_from_nonoverlapping(self.from.cast(), self.bytes);
            let keys = Shared::<R, 0>::new(keys.as_blocks().as_ptr());
            self.crypt::<_, 1, ROUNDS>(at, at, keys);
            self.to.cast::<u8>().copy_from_nonoverlapping(at.cast(), self.bytes);
        }
        // Behind the data there is key stream. Who has the address may read what is there, so the compiler leaves the zeros in.
        part = Part([[0; BLOCK]; 4]);
        core::hint::black_box(&part);
    }

    /// `N` registers side by side.
    ///
    /// # Safety
    /// The CPU has the instructions of `R`; `from` is readable and `to` writable for the registers, the same or apart; the keys are there.
    #[inline(always)]
    unsafe fn crypt<K: Keys<R>, const N: usize, const ROUNDS: usize>(
        &mut self,
        from: *const [u8; BLOCK],
        to: *mut [u8; BLOCK],
        keys: K,
    ) {
        // SAFETY: the caller's promises.
        unsafe {
            let mut x = [self.before; N];
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
            // The last round ends with its key: what is added to that is added to its result.
            let last = keys.get(ROUNDS, 0);
            for (r, x) in x.into_iter().enumerate() {
                // Read once more where it is, and only then written: it may be the same place.
                let data = R::load(from.add(r * R::BLOCKS));
                let result = if CBC {
                    let chained = data.behind(core::mem::replace(&mut self.before, data));
                    x.last_inverse_round(last.xor(chained))
                } else {
                    x.last_round(last.xor(data))
                };
                result.store(to.add(r * R::BLOCKS));
            }
        }
    }
}
