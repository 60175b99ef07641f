//! GCM (SP 800-38D), encryption and decryption, with two or four blocks per register.
//!
//! A *line* is the data of one register. Blocks are independent, so one message fills the pipelines: the AES rounds of eight lines are
//! interleaved with the GHASH multiplications of eight lines of ciphertext (`eight_lines.rs`). A message may be split after any byte
//! (`update.rs`). `ends.rs` handles the associated data, the first counter and the tag. `short.rs` handles a short message in one step.

mod eight_lines;
mod ends;
mod short;
mod update;

use std::sync::Arc;

use gantry_core::driver::Buffers;
use gantry_digest::LevelName;
use zeroize::Zeroize;

use super::buffers::RawBuffers;
use super::ghash::{Powers, REGISTERS, Sum};
use super::keys::{KernelKeys, SharedKey};
use super::register::{Register, WideRegister, Xmm, Ymm, Zmm};
use super::{Aes, BLOCK_LEN, RoundKeys};

/// Bytes of the widest register.
const MAX_LINE_BYTES: usize = 64;

/// The counters after a 12-byte nonce: for the block that masks the tag, and for the first block of data.
const TAG_COUNTER: u32 = 1;
const DATA_COUNTER: u32 = 2;

/// Maximum bytes of data under one nonce (SP 800-38D, 5.2.1.1).
const MAX_BYTES: u64 = (1 << 36) - 32;

/// A key, expanded: round keys, powers of the hash key, and the functions for this key length.
pub(crate) struct GcmKey {
    powers: Powers,
    keys: RoundKeys,
    kernels: &'static GcmKernels,
}

/// The state of a message between two pieces.
#[derive(Clone)]
pub(crate) struct GcmState {
    /// The ciphertext of a line that is incomplete so far, padded with zeros. It is not in the hash yet.
    partial: [u128; MAX_LINE_BYTES / BLOCK_LEN],
    /// The hash so far, the mask of the tag, and the next counter block; all with reversed bytes.
    hash: u128,
    mask: u128,
    counter: u128,
    /// Number of bytes of associated data, and number of bytes of data processed so far.
    aad_bytes: u64,
    bytes: u64,
    /// True if the nonce has 12 bytes: then the lowest bits of a counter depend only on the byte offset. With any other nonce they also
    /// depend on the hash key, so no branch may use them.
    has_standard_nonce: bool,
}

impl GcmState {
    /// Returns an empty state, which [`GcmKey::begin`] must initialise.
    pub(crate) fn empty() -> Self {
        GcmState {
            partial: [0; MAX_LINE_BYTES / BLOCK_LEN],
            hash: 0,
            mask: 0,
            counter: 0,
            aad_bytes: 0,
            bytes: 0,
            has_standard_nonce: false,
        }
    }

    /// Sets the number of bytes processed so far.
    #[cfg(test)]
    pub(crate) fn set_bytes(&mut self, bytes: u64) {
        self.bytes = bytes;
    }

    /// Returns the values that must be wiped: the hash so far, the mask of the tag, and the next counter if it depends on the hash key.
    #[cfg(test)]
    pub(crate) fn secrets(&self) -> Vec<Vec<u8>> {
        let counter = if self.has_standard_nonce { self.mask } else { self.counter };
        [self.hash, self.mask, counter]
            .iter()
            .flat_map(|block| [block.to_le_bytes().into(), block.to_be_bytes().into()])
            .collect()
    }

    /// Sets the counter of the first block of data. Permits [`eight_lines`] if the lowest bits are those of [`DATA_COUNTER`], as after a
    /// nonce of 12 bytes.
    #[cfg(test)]
    pub(crate) fn set_counter(&mut self, counter: u32) {
        self.counter = self.counter >> 32 << 32 | u128::from(counter);
        self.has_standard_nonce = counter % (REGISTERS * MAX_LINE_BYTES / BLOCK_LEN) as u32 == DATA_COUNTER;
    }

    /// Returns the number of bytes in `partial`.
    fn partial_len<R: WideRegister>(&self) -> usize {
        self.bytes as usize % R::LINE_BYTES
    }
}

impl Drop for GcmState {
    fn drop(&mut self) {
        // `partial` holds ciphertext, which is not secret. A counter derived from the hash key would leak information about that key.
        self.hash.zeroize();
        self.mask.zeroize();
        self.counter.zeroize();
    }
}

/// The error for more data than one nonce allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// The functions for one CPU level and key length. Only [`Aes::gcm_kernels`] returns a reference to such a value, so the reference proves
/// that this CPU has the instructions.
struct GcmKernels {
    /// Length of a line, in bytes.
    line_bytes: usize,
    powers: unsafe fn(&mut GcmKey),
    begin: unsafe fn(&GcmKey, &mut GcmState, nonce: &[u8], aad: &[u8]),
    seal: DirectionKernels,
    open: DirectionKernels,
    tag: unsafe fn(&Powers, &GcmState, &mut [u8; BLOCK_LEN]),
}

/// The functions for one direction: encryption or decryption.
struct DirectionKernels {
    update: UpdateFn,
    /// Processes all whole groups of eight lines. The counter of the first block must equal [`DATA_COUNTER`] modulo the number of blocks in
    /// eight lines.
    eight_lines: UpdateFn,
    /// Processes a whole message with a 12-byte nonce, with at most [`short::MAX_LINES`] lines and a partial line of data, and less than a
    /// line of associated data.
    short: ShortMessageFn,
}

/// Encrypts or decrypts data.
///
/// # Safety
/// The CPU has the instructions for which the function was compiled. The input is readable and the output writable; they are identical
/// or do not overlap.
type UpdateFn = unsafe fn(&GcmKey, &mut GcmState, RawBuffers<'_>);

/// Encrypts or decrypts a whole message and writes its tag.
///
/// # Safety
/// As for [`UpdateFn`].
type ShortMessageFn = unsafe fn(&GcmKey, nonce: &[u8; 12], aad: &[u8], RawBuffers<'_>, tag: &mut [u8; BLOCK_LEN]);

impl Aes {
    /// Returns the functions for keys of `bytes` bytes. `None` if AES has no such key length, or if the CPU lacks VAES or VPCLMULQDQ:
    /// without these, plain software is faster.
    fn gcm_kernels(self, bytes: usize) -> Option<&'static GcmKernels> {
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

/// [`GcmKernels`] compiled for one set of CPU features, with `$cached` round keys kept in registers.
macro_rules! compiled {
    ($name:ident, $features:literal, $register:ty, cached $cached:literal) => {
        mod $name {
            use super::*;

            pub(super) const fn kernels<const ROUNDS: usize>() -> GcmKernels {
                GcmKernels {
                    line_bytes: <$register>::LINE_BYTES,
                    powers: powers::<ROUNDS>,
                    begin: begin::<ROUNDS>,
                    seal: direction::<ROUNDS, false>(),
                    open: direction::<ROUNDS, true>(),
                    tag,
                }
            }

            const fn direction<const ROUNDS: usize, const DECRYPT: bool>() -> DirectionKernels {
                DirectionKernels {
                    update: update::<ROUNDS, DECRYPT>,
                    eight_lines: eight_lines::<ROUNDS, DECRYPT>,
                    short: short::<DECRYPT>,
                }
            }

            #[target_feature(enable = $features)]
            fn powers<const ROUNDS: usize>(key: &mut GcmKey) {
                // SAFETY: the attribute enables the features that the register needs.
                unsafe { ends::powers::<$register, ROUNDS>(key) }
            }

            #[target_feature(enable = $features)]
            fn begin<const ROUNDS: usize>(key: &GcmKey, message: &mut GcmState, nonce: &[u8], aad: &[u8]) {
                // SAFETY: as above.
                unsafe { ends::begin::<$register, ROUNDS>(key, message, nonce, aad) }
            }

            /// # Safety
            /// As for [`UpdateFn`].
            #[target_feature(enable = $features)]
            unsafe fn update<const ROUNDS: usize, const DECRYPT: bool>(
                key: &GcmKey,
                message: &mut GcmState,
                data: RawBuffers<'_>,
            ) {
                // SAFETY: as above; the caller promises the rest.
                unsafe { update::update::<$register, ROUNDS, DECRYPT>(key, message, data) }
            }

            /// # Safety
            /// As for [`UpdateFn`], with at least eight lines.
            #[target_feature(enable = $features)]
            unsafe fn eight_lines<const ROUNDS: usize, const DECRYPT: bool>(
                key: &GcmKey,
                message: &mut GcmState,
                data: RawBuffers<'_>,
            ) {
                // SAFETY: as above; the caller promises the rest.
                unsafe {
                    eight_lines::eight_lines::<$register, SharedKey<$register, $cached>, ROUNDS, DECRYPT>(
                        key, message, data,
                    )
                }
            }

            /// # Safety
            /// As for [`ShortMessageFn`].
            #[target_feature(enable = $features)]
            unsafe fn short<const DECRYPT: bool>(
                key: &GcmKey,
                nonce: &[u8; 12],
                aad: &[u8],
                data: RawBuffers<'_>,
                tag: &mut [u8; BLOCK_LEN],
            ) {
                // SAFETY: as above; the caller promises the rest.
                unsafe { short::short::<$register, DECRYPT>(key, nonce, aad, data, tag) }
            }

            #[target_feature(enable = $features)]
            fn tag(powers: &Powers, message: &GcmState, tag: &mut [u8; BLOCK_LEN]) {
                // SAFETY: as above.
                unsafe { ends::tag::<$register>(powers, message, tag) }
            }
        }
    };
}

compiled!(avx512, "avx512f,avx512bw,vaes,vpclmulqdq", Zmm, cached 10);
compiled!(vaes, "avx2,vaes,vpclmulqdq", Ymm, cached 0);

impl GcmKey {
    /// Expands a key. `None` where [`Aes::gcm_kernels`] returns `None`. A key proves that this CPU has the instructions of its functions.
    pub(crate) fn new(aes: Aes, key: &[u8]) -> Option<Arc<Self>> {
        let kernels = aes.gcm_kernels(key.len())?;
        let mut gcm_key = Arc::new(GcmKey { powers: Powers::zeroed(), keys: RoundKeys::zeroed(), kernels });
        Arc::get_mut(&mut gcm_key)?.replace(aes, key);
        Some(gcm_key)
    }

    /// Replaces the key by another one of the same length. Computes it in place: moving a value leaves copies behind.
    pub(crate) fn replace(&mut self, aes: Aes, key: &[u8]) {
        self.keys.expand(aes, key);
        // SAFETY: the CPU has the instructions because `self` exists.
        unsafe { (self.kernels.powers)(self) }
    }

    /// Begins a message, overwriting any state of a previous one.
    pub(crate) fn begin(&self, message: &mut GcmState, nonce: &[u8], aad: &[u8]) {
        (message.aad_bytes, message.bytes, message.hash) = (aad.len() as u64, 0, 0);
        message.has_standard_nonce = nonce.len() == 12;
        // SAFETY: the CPU has the instructions because `self` exists.
        unsafe { (self.kernels.begin)(self, message, nonce, aad) }
    }

    /// Encrypts or decrypts the next piece, of any length.
    pub(crate) fn update(&self, message: &mut GcmState, decrypt: bool, data: Buffers<'_>) -> Result<(), TooLong> {
        let data = RawBuffers::from(data);
        if message.bytes.saturating_add(data.bytes as u64) > MAX_BYTES {
            return Err(TooLong);
        }
        // SAFETY: as above; `data` borrows the buffers.
        unsafe { (self.direction(decrypt).update)(self, message, data) }
        Ok(())
    }

    fn direction(&self, decrypt: bool) -> &DirectionKernels {
        if decrypt { &self.kernels.open } else { &self.kernels.seal }
    }

    /// Encrypts or decrypts a whole message. Returns its tag.
    #[inline]
    pub(crate) fn crypt_message(
        &self,
        decrypt: bool,
        nonce: &[u8],
        aad: &[u8],
        data: Buffers<'_>,
    ) -> Result<[u8; BLOCK_LEN], TooLong> {
        let line = self.kernels.line_bytes;
        if let Some(nonce) = nonce.as_array()
            && aad.len() < line
            && data.len() < (short::MAX_LINES + 1) * line
        {
            let mut tag = [0; BLOCK_LEN];
            // SAFETY: as above; `data` borrows the buffers.
            unsafe { (self.direction(decrypt).short)(self, nonce, aad, RawBuffers::from(data), &mut tag) }
            return Ok(tag);
        }
        let mut message = GcmState::empty();
        self.begin(&mut message, nonce, aad);
        self.update(&mut message, decrypt, data)?;
        Ok(self.tag(&message))
    }

    /// Returns the tag of the message. Call it after the last piece.
    pub(crate) fn tag(&self, message: &GcmState) -> [u8; BLOCK_LEN] {
        let mut tag = [0; BLOCK_LEN];
        // SAFETY: as above.
        unsafe { (self.kernels.tag)(&self.powers, message, &mut tag) }
        tag
    }

    #[cfg(test)]
    pub(crate) fn secrets(&self) -> Vec<Vec<u8>> {
        let blocks = self.keys.as_blocks().iter().copied().chain(self.powers.as_blocks());
        blocks.map(|block| block.to_vec()).collect()
    }

    /// Returns the first 12 bytes of this nonce's counter blocks after the first round key is added.
    #[cfg(test)]
    pub(crate) fn masked_nonce(&self, nonce: &[u8; 12]) -> Vec<u8> {
        nonce.iter().zip(self.keys.as_blocks()[0]).map(|(nonce, key)| nonce ^ key).collect()
    }
}

/// Loads a whole block with one instruction, as [`store_block`] stored it. A load from several recent stores would wait until they are in
/// the cache.
///
/// # Safety
/// The CPU has AES instructions.
#[inline(always)]
unsafe fn load_block(from: &u128) -> Xmm {
    // SAFETY: as above; `from` is one block long.
    unsafe { Xmm::load(core::ptr::from_ref(from).cast()) }
}

#[inline(always)]
fn store_block(to: &mut u128, block: Xmm) {
    // SAFETY: `to` is one block long.
    unsafe { block.store(core::ptr::from_mut(to).cast()) }
}

/// Encrypts blocks. `rounds` is the number of rounds of `keys`; a constant lets the compiler unroll the loop.
///
/// # Safety
/// The CPU has the instructions of `R`.
#[inline(always)]
unsafe fn encrypt_blocks<R: WideRegister, const N: usize>(mut x: [R; N], keys: &RoundKeys, rounds: usize) -> [R; N] {
    // SAFETY: as above, and `keys` has all round keys.
    unsafe {
        let keys = SharedKey::<R, 0>::new(keys.as_blocks().as_ptr());
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

/// Adds the first `blocks` blocks of `lines` to the hash. The blocks after them are multiplied by zero.
///
/// # Safety
/// The CPU has the instructions of `R`, and VPCLMULQDQ.
#[inline(always)]
unsafe fn hash_blocks<R: WideRegister, const N: usize>(
    hash: Xmm,
    mut lines: [R; N],
    powers: &Powers,
    blocks: usize,
) -> Xmm {
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
