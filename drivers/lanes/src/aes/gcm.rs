//! GCM (SP 800-38D), both ways, with two or four blocks to a register.
//!
//! Blocks do not wait for each other: one message fills the pipelines by itself, with the AES of eight registers beside the
//! multiplications of the eight before (`eights.rs`). It can be interrupted after any byte (`update.rs`). What is before and behind the
//! data is in `ends.rs`. A short message is all of that at once (`short.rs`).

mod eights;
mod ends;
mod short;
mod update;

use std::sync::Arc;

use gantry_core::driver::Buffers;
use gantry_digest::LevelName;
use zeroize::Zeroize;

use super::data::Data;
use super::ghash::{Powers, REGISTERS, Sum};
use super::keys::{Keys, Shared};
use super::register::{Register, Wide, Xmm, Ymm, Zmm};
use super::{Aes, BLOCK, RoundKeys};

/// Bytes of the widest register.
const WIDEST: usize = 64;

/// The counters behind a nonce of 12 bytes: of the block that masks the tag, and of the first of the data.
const FIRST: u32 = 1;
const FIRST_OF_DATA: u32 = 2;

/// Most bytes of data under one nonce (SP 800-38D, 5.2.1.1).
const MOST: u64 = (1 << 36) - 32;

/// A key, and what follows from it.
pub(crate) struct GcmKey {
    powers: Powers,
    keys: RoundKeys,
    kernels: &'static Kernels,
}

/// A message between two pieces.
#[derive(Clone)]
pub(crate) struct Message {
    /// Where a piece ended within a line of data, as much as fills a register: the ciphertext of that line, which is not in the hash yet,
    /// and zeros behind it.
    waiting: [u128; WIDEST / BLOCK],
    /// The hash of what was before, what it is masked with in the end, and the next block to be encrypted: their bytes turned around.
    hash: u128,
    mask: u128,
    counter: u128,
    /// Bytes of associated data and of data.
    associated: u64,
    bytes: u64,
    /// The nonce has 12 bytes, so that the lowest bits of counters follow from the number of bytes before. (Of other nonces they follow
    /// from the hash key, too, and nothing is decided by them.)
    is_usual: bool,
}

impl Message {
    /// None: one that has to [begin](GcmKey::begin) first.
    pub(crate) fn none() -> Self {
        Message { waiting: [0; WIDEST / BLOCK], hash: 0, mask: 0, counter: 0, associated: 0, bytes: 0, is_usual: false }
    }

    /// Goes on as behind so many bytes.
    #[cfg(test)]
    pub(crate) fn pretend(&mut self, bytes: u64) {
        self.bytes = bytes;
    }

    /// What must not be left behind: the hash of the associated data, what masks the tag, and where counters begin that the hash key has a
    /// part in.
    #[cfg(test)]
    pub(crate) fn secrets(&self) -> Vec<Vec<u8>> {
        let counter = if self.is_usual { self.mask } else { self.counter };
        [self.hash, self.mask, counter]
            .iter()
            .flat_map(|block| [block.to_le_bytes().into(), block.to_be_bytes().into()])
            .collect()
    }

    /// Encrypts the next block, the first one, with this counter.
    #[cfg(test)]
    pub(crate) fn count_from(&mut self, counter: u32) {
        self.counter = self.counter >> 32 << 32 | u128::from(counter);
        self.is_usual = counter % (REGISTERS * WIDEST / BLOCK) as u32 == FIRST_OF_DATA;
    }

    /// Bytes that wait.
    fn used<R: Wide>(&self) -> usize {
        self.bytes as usize % R::LINE
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        // Ciphertext is no secret. A counter that was made with the hash key says something about it.
        self.hash.zeroize();
        self.mask.zeroize();
        self.counter.zeroize();
    }
}

/// More data than a nonce is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// The functions of one CPU level and key length. Only [`Aes::gcm`] makes it, so that whoever holds one may call its functions on this
/// CPU.
struct Kernels {
    /// Bytes of a register.
    line: usize,
    powers: unsafe fn(&mut GcmKey),
    begin: unsafe fn(&GcmKey, &mut Message, nonce: &[u8], associated: &[u8]),
    seal: Direction,
    open: Direction,
    tag: unsafe fn(&Powers, &Message, &mut [u8; BLOCK]),
}

/// Those that encrypt or decrypt data.
struct Direction {
    update: Update,
    /// As many times eight lines as there are, of which the first has the remainder of a message's first.
    eights: Update,
    /// A whole message with a nonce of 12 bytes, of [so many](short::LINES) lines at most and a part of one, and with associated data of
    /// less than a line.
    short: Short,
}

/// Encrypts or decrypts data.
///
/// # Safety
/// The CPU has the instructions for which it was compiled. The data can be read and written; input and output are the same or lie apart.
type Update = unsafe fn(&GcmKey, &mut Message, Data<'_>);

/// The same of a whole message. Writes its tag.
///
/// # Safety
/// That of [`Update`].
type Short = unsafe fn(&GcmKey, nonce: &[u8; 12], associated: &[u8], Data<'_>, tag: &mut [u8; BLOCK]);

impl Aes {
    /// The functions for keys of so many bytes. `None` for no length that AES has, and for a CPU that does not have the instructions:
    /// without them plain software is faster.
    fn gcm(self, bytes: usize) -> Option<&'static Kernels> {
        macro_rules! kernels {
            ($level:ident) => {
                match bytes {
                    16 => Some(const { &$level::kernels::<10>() }),
                    24 => Some(const { &$level::kernels::<12>() }),
                    32 => Some(const { &$level::kernels::<14>() }),
                    _ => None,
                }
            };
        }
        match self.0.name() {
            LevelName::Avx512 if self.0.vpclmul() => kernels!(avx512),
            LevelName::Vaes => kernels!(vaes),
            _ => None,
        }
    }
}

/// [`Kernels`] compiled for one set of CPU features, with so many round keys in registers all the time.
macro_rules! compiled {
    ($name:ident, $features:literal, $register:ty, kept $kept:literal) => {
        mod $name {
            use super::*;

            pub(super) const fn kernels<const ROUNDS: usize>() -> Kernels {
                Kernels {
                    line: <$register>::LINE,
                    powers: powers::<ROUNDS>,
                    begin: begin::<ROUNDS>,
                    seal: direction::<ROUNDS, false>(),
                    open: direction::<ROUNDS, true>(),
                    tag,
                }
            }

            const fn direction<const ROUNDS: usize, const DECRYPT: bool>() -> Direction {
                Direction {
                    update: update::<ROUNDS, DECRYPT>,
                    eights: eights::<ROUNDS, DECRYPT>,
                    short: short::<DECRYPT>,
                }
            }

            #[target_feature(enable = $features)]
            fn powers<const ROUNDS: usize>(key: &mut GcmKey) {
                // SAFETY: the features of the register are on here.
                unsafe { ends::powers::<$register, ROUNDS>(key) }
            }

            #[target_feature(enable = $features)]
            fn begin<const ROUNDS: usize>(key: &GcmKey, message: &mut Message, nonce: &[u8], associated: &[u8]) {
                // SAFETY: as above.
                unsafe { ends::begin::<$register, ROUNDS>(key, message, nonce, associated) }
            }

            /// # Safety
            /// That of [`Update`].
            #[target_feature(enable = $features)]
            unsafe fn update<const ROUNDS: usize, const DECRYPT: bool>(
                key: &GcmKey,
                message: &mut Message,
                data: Data<'_>,
            ) {
                // SAFETY: as above, and the caller's promise.
                unsafe { update::update::<$register, ROUNDS, DECRYPT>(key, message, data) }
            }

            /// # Safety
            /// That of [`Update`], for eight lines at least.
            #[target_feature(enable = $features)]
            unsafe fn eights<const ROUNDS: usize, const DECRYPT: bool>(
                key: &GcmKey,
                message: &mut Message,
                data: Data<'_>,
            ) {
                // SAFETY: as above, and the caller's promise.
                unsafe { eights::eights::<$register, Shared<$register, $kept>, ROUNDS, DECRYPT>(key, message, data) }
            }

            /// # Safety
            /// That of [`Short`].
            #[target_feature(enable = $features)]
            unsafe fn short<const DECRYPT: bool>(
                key: &GcmKey,
                nonce: &[u8; 12],
                associated: &[u8],
                data: Data<'_>,
                tag: &mut [u8; BLOCK],
            ) {
                // SAFETY: as above, and the caller's promise.
                unsafe { short::short::<$register, DECRYPT>(key, nonce, associated, data, tag) }
            }

            #[target_feature(enable = $features)]
            fn tag(powers: &Powers, message: &Message, tag: &mut [u8; BLOCK]) {
                // SAFETY: as above.
                unsafe { ends::tag::<$register>(powers, message, tag) }
            }
        }
    };
}

compiled!(avx512, "avx512f,avx512bw,vaes,vpclmulqdq", Zmm, kept 10);
compiled!(vaes, "avx2,vaes,vpclmulqdq", Ymm, kept 0);

impl GcmKey {
    /// `None` where [`Aes::gcm`] has none. Whoever holds one may call its functions on this CPU.
    pub(crate) fn new(aes: Aes, key: &[u8]) -> Option<Arc<Self>> {
        let kernels = aes.gcm(key.len())?;
        let mut place = Arc::new(GcmKey { powers: Powers::none(), keys: RoundKeys::none(), kernels });
        Arc::get_mut(&mut place)?.set(aes, key);
        Some(place)
    }

    /// Another key of the same length. Computed where it stays: a value that moves leaves copies behind.
    pub(crate) fn set(&mut self, aes: Aes, key: &[u8]) {
        self.keys.expand(aes, key);
        // SAFETY: the CPU has the instructions because `self` exists.
        unsafe { (self.kernels.powers)(self) }
    }

    /// Begins a message, whatever became of the last one.
    pub(crate) fn begin(&self, message: &mut Message, nonce: &[u8], associated: &[u8]) {
        (message.associated, message.bytes, message.hash) = (associated.len() as u64, 0, 0);
        message.is_usual = nonce.len() == 12;
        // SAFETY: the CPU has the instructions because `self` exists.
        unsafe { (self.kernels.begin)(self, message, nonce, associated) }
    }

    /// Encrypts or decrypts the next piece, of any length.
    pub(crate) fn update(&self, message: &mut Message, decrypt: bool, data: Buffers<'_>) -> Result<(), TooLong> {
        let data = Data::from(data);
        if message.bytes.saturating_add(data.bytes as u64) > MOST {
            return Err(TooLong);
        }
        // SAFETY: as above; the data are lent.
        unsafe { (self.direction(decrypt).update)(self, message, data) }
        Ok(())
    }

    fn direction(&self, decrypt: bool) -> &Direction {
        if decrypt { &self.kernels.open } else { &self.kernels.seal }
    }

    /// Encrypts or decrypts a whole message. Returns its tag.
    #[inline]
    pub(crate) fn whole(
        &self,
        decrypt: bool,
        nonce: &[u8],
        associated: &[u8],
        data: Buffers<'_>,
    ) -> Result<[u8; BLOCK], TooLong> {
        let line = self.kernels.line;
        if let Some(nonce) = nonce.as_array()
            && associated.len() < line
            && data.len() < (short::LINES + 1) * line
        {
            let mut tag = [0; BLOCK];
            // SAFETY: as above; the data are lent.
            unsafe { (self.direction(decrypt).short)(self, nonce, associated, Data::from(data), &mut tag) }
            return Ok(tag);
        }
        let mut message = Message::none();
        self.begin(&mut message, nonce, associated);
        self.update(&mut message, decrypt, data)?;
        Ok(self.tag(&message))
    }

    /// The tag of what went by. The message is over.
    pub(crate) fn tag(&self, message: &Message) -> [u8; BLOCK] {
        let mut tag = [0; BLOCK];
        // SAFETY: as above.
        unsafe { (self.kernels.tag)(&self.powers, message, &mut tag) }
        tag
    }

    #[cfg(test)]
    pub(crate) fn secrets(&self) -> Vec<Vec<u8>> {
        let blocks = self.keys.as_blocks().iter().copied().chain(self.powers.as_blocks());
        blocks.map(|block| block.to_vec()).collect()
    }

    /// What counters become that begin with these 12 bytes: the first round key is added.
    #[cfg(test)]
    pub(crate) fn secret_of(&self, nonce: &[u8; 12]) -> Vec<u8> {
        nonce.iter().zip(self.keys.as_blocks()[0]).map(|(nonce, key)| nonce ^ key).collect()
    }
}

/// A whole block, as it was stored: what is put together of parts is waited for.
///
/// # Safety
/// The CPU has AES instructions.
#[inline(always)]
unsafe fn block(from: &u128) -> Xmm {
    // SAFETY: as above; a block.
    unsafe { Xmm::load(core::ptr::from_ref(from).cast()) }
}

#[inline(always)]
fn set(to: &mut u128, block: Xmm) {
    // SAFETY: a block.
    unsafe { block.store(core::ptr::from_mut(to).cast()) }
}

/// Blocks, encrypted. The rounds are those of the keys; where they are a constant, the loop is none.
///
/// # Safety
/// The CPU has the instructions of `R`.
#[inline(always)]
unsafe fn encrypted<R: Wide, const N: usize>(mut x: [R; N], keys: &RoundKeys, rounds: usize) -> [R; N] {
    // SAFETY: as above, and the keys are there.
    unsafe {
        let keys = Shared::<R, 0>::new(keys.as_blocks().as_ptr());
        let first = keys.get(0, 0);
        for x in &mut x {
            *x = x.xor(first);
        }
        for round in 1..rounds {
            let key = keys.get(round, 0);
            for x in &mut x {
                *x = x.round(key);
            }
        }
        let last = keys.get(rounds, 0);
        for x in &mut x {
            *x = x.last_round(last);
        }
    }
    x
}

/// The hash of so many more blocks. What is behind them does not matter.
///
/// # Safety
/// The CPU has the instructions of `R`, and VPCLMULQDQ.
#[inline(always)]
unsafe fn hashed<R: Wide, const N: usize>(hash: Xmm, mut lines: [R; N], powers: &Powers, blocks: usize) -> Xmm {
    // SAFETY: as above.
    unsafe {
        lines[0] = lines[0].xor(R::from_first(hash));
        let mut sum = Sum::new(powers);
        for (r, line) in lines.into_iter().enumerate() {
            sum.add(line, blocks - r * R::BLOCKS);
        }
        sum.reduced()
    }
}
