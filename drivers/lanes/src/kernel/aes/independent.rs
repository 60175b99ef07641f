//! Counter mode and CBC decryption (SP 800-38A, 6.5 and 6.2): no block waits for the one before, so one message fills the pipeline of
//! the AES instructions by itself.

use core::marker::PhantomData;

use gantry::driver::Buffers;

use super::keys::{Keys, Shared};
use super::register::*;
use super::{Aes, BLOCK, RoundKeys};
#[cfg(target_arch = "x86_64")]
use crate::level::LevelName;

/// A message or a piece of one.
pub(crate) struct Message<'a> {
    keys: &'a RoundKeys,
    /// The first counter, or what the first block is chained to.
    iv: [u8; BLOCK],
    from: *const u8,
    to: *mut u8,
    bytes: usize,
    /// Lent until the message is gone.
    _data: PhantomData<Buffers<'a>>,
}

impl<'a> Message<'a> {
    /// To decrypt CBC, the keys are those of the inverse cipher, and the data are whole blocks.
    #[inline(always)]
    pub(crate) fn new(keys: &'a RoundKeys, iv: [u8; BLOCK], data: Buffers<'a>) -> Self {
        let (from, to, bytes) = match data {
            Buffers::InPlace(data) => {
                let to = data.as_mut_ptr();
                (to.cast_const(), to, data.len())
            }
            Buffers::Separate { input, output } => (input.as_ptr(), output.as_mut_ptr(), input.len().min(output.len())),
        };
        Message { keys, iv, from, to, bytes, _data: PhantomData }
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
    ($name:ident, $features:literal, $register:ty, $count:literal or $half:literal, kept $kept:literal) => {
        /// # Safety
        /// That of [`Messages`].
        #[target_feature(enable = $features)]
        unsafe fn $name<const ROUNDS: usize, const CBC: bool>(all: &[Message<'_>]) {
            // SAFETY: the features of the register are on here; the rest is the caller's promise.
            unsafe { messages::<$register, Shared<$register, $kept>, $count, $half, ROUNDS, CBC>(all) }
        }
    };
}

#[cfg(target_arch = "x86_64")]
compiled!(avx512, "avx512f,avx512bw,avx512vbmi,vaes,aes", Zmm, 4 or 2, kept 8);
#[cfg(target_arch = "x86_64")]
compiled!(vaes, "avx2,vaes,aes", Ymm, 8 or 4, kept 0);
#[cfg(target_arch = "x86_64")]
compiled!(avx2, "avx2,aes", Xmm, 8 or 4, kept 0);
#[cfg(target_arch = "x86_64")]
compiled!(base, "aes", Xmm, 8 or 4, kept 0);
#[cfg(target_arch = "aarch64")]
compiled!(base, "aes,neon", Block, 8 or 4, kept 0);

/// The body of all [`Messages`] functions, with so many registers in flight, and `HALF` of them where there are no more blocks.
///
/// # Safety
/// That of [`Messages`], and the CPU has the instructions of `R`.
#[inline(always)]
unsafe fn messages<
    R: Successive,
    K: Keys<R>,
    const REGISTERS: usize,
    const HALF: usize,
    const ROUNDS: usize,
    const CBC: bool,
>(
    messages: &[Message<'_>],
) {
    let group = REGISTERS * R::BLOCKS * BLOCK;
    for message in messages {
        // SAFETY: the caller promises the instructions and the rounds; the message has lent its data, which `data` counts off.
        unsafe {
            let mut data = Data::<R, CBC>::of(message);
            if data.bytes >= group {
                let keys = K::new(message.keys.as_blocks().as_ptr());
                while data.bytes >= group {
                    data.whole::<K, REGISTERS, ROUNDS>(keys.afresh());
                }
            }
            if data.bytes > 0 {
                data.rest::<REGISTERS, HALF, ROUNDS>(message.keys);
            }
        }
    }
}

/// What is left of a message, and what comes with its first block.
struct Data<R, const CBC: bool> {
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

impl<R: Successive, const CBC: bool> Data<R, CBC> {
    /// # Safety
    /// The CPU has the instructions of `R`.
    #[inline(always)]
    unsafe fn of(message: &Message<'_>) -> Self {
        Data {
            from: message.from.cast(),
            to: message.to.cast(),
            bytes: message.bytes,
            counter: u128::from_be_bytes(message.iv),
            // SAFETY: the caller's promise.
            before: unsafe { R::broadcast(&raw const message.iv) },
        }
    }

    /// As much as fills `N` registers.
    ///
    /// # Safety
    /// The CPU has the instructions of `R`, there are so many data, and the keys of so many rounds.
    #[inline(always)]
    unsafe fn whole<K: Keys<R>, const N: usize, const ROUNDS: usize>(&mut self, keys: K) {
        // SAFETY: the caller's promise.
        unsafe {
            self.crypt::<K, N, ROUNDS>(N, core::ptr::null_mut(), keys);
            self.from = self.from.add(N * R::BLOCKS);
            self.to = self.to.add(N * R::BLOCKS);
        }
        self.bytes -= N * R::BLOCKS * BLOCK;
    }

    /// All of it, which is less than fills `N` registers.
    ///
    /// # Safety
    /// The CPU has the instructions of `R`, and the keys so many rounds.
    #[inline(always)]
    unsafe fn rest<const N: usize, const HALF: usize, const ROUNDS: usize>(&mut self, keys: &RoundKeys) {
        let register = R::BLOCKS * BLOCK;
        let (whole, part) = (self.bytes / register, self.bytes % register);
        let mut buffer = Part([[0; BLOCK]; 4]);
        let in_buffer = buffer.0.as_mut_ptr();
        // SAFETY: the caller promises the instructions and the rounds, and all fifteen keys are there, whatever their length. The part lies
        // behind the whole registers, and is shorter than the buffer. It is copied before and after AES, and not between, where a call would
        // leave registers on the stack.
        unsafe {
            let at = whole * R::BLOCKS;
            in_buffer.cast::<u8>().copy_from_nonoverlapping(self.from.add(at).cast(), part);
            let keys = Shared::<R, 0>::new(keys.as_blocks().as_ptr());
            let in_part = if part > 0 { in_buffer } else { core::ptr::null_mut() };
            match whole + usize::from(part > 0) {
                1 => self.crypt::<_, 1, ROUNDS>(whole, in_part, keys),
                some if some <= HALF => self.crypt::<_, HALF, ROUNDS>(whole, in_part, keys),
                _ => self.crypt::<_, N, ROUNDS>(whole, in_part, keys),
            }
            self.to.add(at).cast::<u8>().copy_from_nonoverlapping(in_buffer.cast(), part);
        }
        if part > 0 {
            // Behind the data there is key stream. Who has the address may read what is there, so the compiler leaves the zeros in.
            buffer = Part([[0; BLOCK]; 4]);
            core::hint::black_box(&buffer);
        }
    }

    /// `N` registers side by side, of which so many have whole data, and the one behind them, unless `part` is null, what lies there.
    ///
    /// # Safety
    /// The CPU has the instructions of `R`; `from` is readable and `to` writable for the whole registers, the same or apart, and `part` is
    /// both for one; the keys are there.
    #[inline(always)]
    unsafe fn crypt<K: Keys<R>, const N: usize, const ROUNDS: usize>(
        &mut self,
        whole: usize,
        part: *mut [u8; BLOCK],
        keys: K,
    ) {
        let (from, to) = (self.from, self.to);
        let source = |r: usize| if r < whole { from.wrapping_add(r * R::BLOCKS) } else { part.cast_const() };
        let target = |r: usize| if r < whole { to.wrapping_add(r * R::BLOCKS) } else { part };
        let is_there = |r: usize| r < whole || (r == whole && !part.is_null());
        // SAFETY: the caller's promises.
        unsafe {
            let mut x = [self.before; N];
            if CBC {
                for (r, x) in x.iter_mut().enumerate() {
                    if is_there(r) {
                        *x = R::load(source(r));
                    }
                }
            } else {
                x = R::counters(self.counter);
                self.counter = self.counter.wrapping_add((N * R::BLOCKS) as u128);
            }
            let first = keys.get(0, 0);
            for x in &mut x {
                *x = x.xor(first);
            }
            for round in 1..ROUNDS {
                let key = keys.get(round, 0);
                for x in &mut x {
                    *x = if CBC { x.inverse_round(key) } else { x.round(key) };
                }
            }
            // The last round ends with its key: what is added to that is added to its result.
            let last = keys.get(ROUNDS, 0);
            for (r, x) in x.into_iter().enumerate() {
                if !is_there(r) {
                    break;
                }
                // Read once more where it is, and only then written: it may be the same place.
                let data = R::load(source(r));
                let result = if CBC {
                    let chained = data.behind(core::mem::replace(&mut self.before, data));
                    x.last_inverse_round(last.xor(chained))
                } else {
                    x.last_round(last.xor(data))
                };
                result.store(target(r));
            }
        }
    }
}
