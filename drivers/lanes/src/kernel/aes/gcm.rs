//! GCM (SP 800-38D), both ways, with four blocks to a register.
//!
//! Blocks do not wait for each other: one message fills the pipelines by itself, with the AES of eight registers beside the
//! multiplications of the eight before. It can be interrupted after any byte.

use core::arch::x86_64::*;
use std::sync::Arc;

use gantry::driver::Buffers;
use zeroize::Zeroize;

use super::ghash::{self, Powers, Sum, in_order, turned};
use super::keys::{Keys, Shared};
use super::register::Zmm;
use super::{Aes, BLOCK, RoundKeys};
use crate::wipe::overwrite;

/// Bytes of a register.
const LINE: usize = 64;
/// Its blocks.
const LINE_BLOCKS: u32 = 4;
/// Registers that are worked on at once.
const REGISTERS: usize = 8;
/// Their blocks.
const BLOCKS: u32 = 32;
const _: () = assert!(BLOCKS as usize == ghash::AT_ONCE && BLOCKS as usize * BLOCK == REGISTERS * LINE);

/// Round keys that are in registers all the time, of what has most of them in use.
const KEPT: usize = 6;

/// The counters behind a nonce of 12 bytes: of the block that masks the tag, and of the first of the data.
const FIRST: u32 = 1;
const FIRST_OF_DATA: u32 = 2;

/// Bytes of the stack that the functions of this file use, at most.
const SPILLED: usize = 2 << 10;

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
    /// Where a piece ended within a line of data: the ciphertext of that line, which is not in the hash yet, and zeros behind it.
    waiting: [u128; LINE / BLOCK],
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
        Message { waiting: [0; LINE / BLOCK], hash: 0, mask: 0, counter: 0, associated: 0, bytes: 0, is_usual: false }
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
        self.is_usual = counter % BLOCKS == FIRST_OF_DATA;
    }

    /// Bytes that wait.
    fn used(&self) -> usize {
        self.bytes as usize % LINE
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

/// Data of a message: as many bytes behind both pointers, which are the same or lie apart.
#[derive(Clone, Copy)]
struct Data {
    from: *const u8,
    to: *mut u8,
    bytes: usize,
}

impl Data {
    /// # Safety
    /// There are so many.
    unsafe fn skip(&mut self, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            self.from = self.from.add(bytes);
            self.to = self.to.add(bytes);
        }
        self.bytes -= bytes;
    }
}

/// More data than a nonce is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// The functions for a key length.
struct Kernels {
    powers: unsafe fn(&mut GcmKey),
    begin: unsafe fn(&GcmKey, &mut Message, nonce: &[u8], associated: &[u8]),
    seal: Update,
    open: Update,
}

/// Encrypts or decrypts data.
///
/// # Safety
/// The CPU has AVX-512, VAES and VPCLMULQDQ. The data can be read and written; input and output are the same or lie apart.
type Update = unsafe fn(&GcmKey, &mut Message, Data);

impl Kernels {
    const fn new<const ROUNDS: usize>() -> Self {
        Kernels {
            powers: powers::<ROUNDS>,
            begin: begin::<ROUNDS>,
            seal: update::<ROUNDS, false>,
            open: update::<ROUNDS, true>,
        }
    }
}

impl GcmKey {
    /// `None` for a key of no length that AES has, and for a CPU that does not have the instructions: without them plain software is
    /// faster. Whoever holds one may call its functions on this CPU.
    pub(crate) fn new(aes: Aes, key: &[u8]) -> Option<Arc<Self>> {
        let kernels = match key.len() {
            16 => const { &Kernels::new::<10>() },
            24 => const { &Kernels::new::<12>() },
            32 => const { &Kernels::new::<14>() },
            _ => return None,
        };
        if !aes.0.vpclmul() {
            return None;
        }
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
        let data = match data {
            Buffers::InPlace(data) => {
                let to = data.as_mut_ptr();
                Data { from: to.cast_const(), to, bytes: data.len() }
            }
            Buffers::Separate { input, output } => {
                Data { from: input.as_ptr(), to: output.as_mut_ptr(), bytes: input.len().min(output.len()) }
            }
        };
        if message.bytes.saturating_add(data.bytes as u64) > MOST {
            return Err(TooLong);
        }
        let has_eights = data.bytes >= REGISTERS * LINE;
        // SAFETY: as above; the data are lent.
        unsafe { (if decrypt { self.kernels.open } else { self.kernels.seal })(self, message, data) }
        if has_eights {
            // There are not registers enough for what the loop has: keys and powers are on the stack meanwhile.
            overwrite::<SPILLED>();
        }
        Ok(())
    }

    /// The tag of what went by. The message is over.
    pub(crate) fn tag(&self, message: &Message) -> [u8; BLOCK] {
        // SAFETY: as above.
        unsafe { tag(&self.powers, message) }
    }

    #[cfg(test)]
    pub(crate) fn secrets(&self) -> Vec<Vec<u8>> {
        // Karatsuba's method adds the halves of powers.
        let halves = self.powers.as_blocks().map(|block| (0..8).map(|i| block[i] ^ block[i + 8]).collect());
        let blocks = self.keys.as_blocks().iter().copied().chain(self.powers.as_blocks());
        blocks.map(|block| block.to_vec()).chain(halves).collect()
    }

    /// What counters become that begin with these 12 bytes: the first round key is added.
    #[cfg(test)]
    pub(crate) fn secret_of(&self, nonce: &[u8; 12]) -> Vec<u8> {
        nonce.iter().zip(self.keys.as_blocks()[0]).map(|(nonce, key)| nonce ^ key).collect()
    }
}

/// The hash key is zeros, encrypted.
#[target_feature(enable = "avx512f,avx512bw,vaes,vpclmulqdq")]
fn powers<const ROUNDS: usize>(key: &mut GcmKey) {
    let [block] = encrypted::<1, ROUNDS>([_mm512_setzero_si512()], &key.keys);
    key.powers.compute(_mm512_castsi512_si128(turned(block)));
}

/// A whole block, as it was stored: what is put together of parts is waited for.
#[inline]
#[target_feature(enable = "avx512f")]
fn block(from: &u128) -> __m128i {
    // SAFETY: reads the block, which is aligned as its type is.
    unsafe { _mm_load_si128(core::ptr::from_ref(from).cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn set(to: &mut u128, block: __m128i) {
    // SAFETY: writes the block, which is aligned as its type is.
    unsafe { _mm_store_si128(core::ptr::from_mut(to).cast(), block) }
}

/// Up to a line of bytes, with zeros behind them.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn line(bytes: &[u8]) -> __m512i {
    // SAFETY: reads no more than there is.
    unsafe { _mm512_maskz_loadu_epi8(first_bytes(bytes.len()), bytes.as_ptr().cast()) }
}

/// The first counter, which becomes the mask, and the associated data.
#[target_feature(enable = "avx512f,avx512bw,vaes,vpclmulqdq")]
fn begin<const ROUNDS: usize>(key: &GcmKey, message: &mut Message, nonce: &[u8], associated: &[u8]) {
    let first = if nonce.len() == 12 {
        _mm_or_si128(_mm512_castsi512_si128(turned(line(nonce))), _mm_set_epi32(0, 0, 0, FIRST.cast_signed()))
    } else {
        absorb(&mut message.hash, &key.powers, nonce);
        let bits = _mm_set_epi64x(0, (nonce.len() as u64 * 8).cast_signed());
        let first = hashed(block(&message.hash), [_mm512_zextsi128_si512(bits)], &key.powers, 1);
        message.hash = 0;
        first
    };
    let [mask] = encrypted::<1, ROUNDS>([turned(_mm512_zextsi128_si512(first))], &key.keys);
    set(&mut message.mask, _mm512_castsi512_si128(turned(mask)));
    set(&mut message.counter, counted(first, FIRST_OF_DATA - FIRST));
    absorb(&mut message.hash, &key.powers, associated);
}

/// A counter so many blocks further: it is the lowest 32 bits.
#[inline]
#[target_feature(enable = "avx512f")]
fn counted(counter: __m128i, blocks: u32) -> __m128i {
    _mm_add_epi32(counter, _mm_cvtsi32_si128(blocks.cast_signed()))
}

/// Adds bytes to a hash, whose last block may lack some. (A register that is returned may pass through the stack, and stay there.)
#[target_feature(enable = "avx512f,avx512bw,vpclmulqdq")]
fn absorb(sum: &mut u128, powers: &Powers, bytes: &[u8]) {
    let mut hash = block(sum);
    let (eights, rest) = bytes.as_chunks::<{ REGISTERS * LINE }>();
    for eight in eights {
        let mut lines = [_mm512_setzero_si512(); REGISTERS];
        for (register, part) in lines.iter_mut().zip(eight.chunks(LINE)) {
            *register = turned(line(part));
        }
        hash = hashed(hash, lines, powers, ghash::AT_ONCE);
    }
    for part in rest.chunks(LINE) {
        hash = hashed(hash, [turned(line(part))], powers, part.len().div_ceil(BLOCK));
    }
    set(sum, hash);
}

/// The end: what waits, and behind it the lengths in bits.
#[target_feature(enable = "avx512f,avx512bw,vpclmulqdq")]
fn tag(powers: &Powers, message: &Message) -> [u8; BLOCK] {
    let [associated, bytes] = [message.associated, message.bytes].map(|bytes| bytes.wrapping_mul(8).cast_signed());
    let bits = _mm_set_epi64x(associated, bytes);
    // SAFETY: reads what waits.
    let waiting = turned(unsafe { _mm512_loadu_si512(message.waiting.as_ptr().cast()) });
    let (hash, blocks) = (block(&message.hash), message.used().div_ceil(BLOCK));
    let hash = if blocks < LINE / BLOCK {
        // What is behind this block is multiplied with no power.
        let waiting = _mm512_mask_broadcast_i32x4(waiting, 0xf << (4 * blocks), bits);
        hashed(hash, [waiting], powers, blocks + 1)
    } else {
        hashed(hash, [waiting, _mm512_zextsi128_si512(bits)], powers, blocks + 1)
    };
    let tag = turned(_mm512_zextsi128_si512(_mm_xor_si128(hash, block(&message.mask))));
    let mut bytes = [0; BLOCK];
    // SAFETY: writes a block.
    unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), _mm512_castsi512_si128(tag)) }
    bytes
}

/// The hash of so many more blocks. What is behind them does not matter.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,vpclmulqdq")]
fn hashed<const N: usize>(hash: __m128i, mut lines: [__m512i; N], powers: &Powers, blocks: usize) -> __m128i {
    lines[0] = _mm512_xor_si512(lines[0], _mm512_zextsi128_si512(hash));
    let mut sum = Sum::new();
    for (r, line) in lines.into_iter().enumerate() {
        sum.add(line, powers, blocks - 4 * r);
    }
    sum.reduced()
}

/// A bit for each of the first so many bytes of a line.
#[inline]
fn first_bytes(count: usize) -> u64 {
    u64::MAX.checked_shr((LINE - count) as u32).unwrap_or(0)
}

/// The body of [`GcmKey::update`].
///
/// # Safety
/// That of [`Update`].
#[target_feature(enable = "avx512f,avx512bw,vaes,vpclmulqdq")]
unsafe fn update<const ROUNDS: usize, const DECRYPT: bool>(key: &GcmKey, message: &mut Message, mut data: Data) {
    let (used, bytes) = (message.used(), data.bytes as u64);
    // SAFETY: the instructions are there; every function is given data that are there, and counts off what it has done.
    unsafe {
        if used > 0 {
            go_on::<ROUNDS, DECRYPT>(key, message, used, &mut data);
        }
        // Eight lines begin where the lowest bits of the counter are those of a message's first.
        let lines_before = (message.bytes + bytes - data.bytes as u64) / LINE as u64;
        let ahead = lines_before.wrapping_neg() as usize % REGISTERS;
        if message.is_usual && data.bytes >= (ahead + REGISTERS) * LINE {
            for _ in 0..ahead {
                lines::<1, ROUNDS, DECRYPT>(key, message, &mut data);
            }
            eights::<ROUNDS, DECRYPT>(key, message, &mut data);
        }
        while data.bytes >= 4 * LINE {
            lines::<4, ROUNDS, DECRYPT>(key, message, &mut data);
        }
        if data.bytes >= 2 * LINE {
            lines::<2, ROUNDS, DECRYPT>(key, message, &mut data);
        }
        if data.bytes >= LINE {
            lines::<1, ROUNDS, DECRYPT>(key, message, &mut data);
        }
        if data.bytes > 0 {
            part::<ROUNDS, DECRYPT>(&key.keys, message, data);
        }
    }
    message.bytes += bytes;
}

/// The rest of a line of which `used` bytes are gone, or as much of it as there is. (What it is combined with is computed again: it
/// would be one more secret to keep.)
///
/// # Safety
/// The data can be read and written.
#[target_feature(enable = "avx512f,avx512bw,vaes,vpclmulqdq")]
unsafe fn go_on<const ROUNDS: usize, const DECRYPT: bool>(
    key: &GcmKey,
    message: &mut Message,
    used: usize,
    data: &mut Data,
) {
    let bytes = data.bytes.min(LINE - used);
    let these = first_bytes(bytes) << used;
    let next = block(&message.counter);
    let [stream] = stream::<1, ROUNDS>(&key.keys, counted(next, LINE_BLOCKS.wrapping_neg()));
    // SAFETY: no bytes but these are read and written; they lie where they have to lie in the line.
    let waiting = unsafe {
        let input = _mm512_maskz_loadu_epi8(these, data.from.wrapping_sub(used).cast());
        let output = _mm512_xor_si512(input, stream);
        _mm512_mask_storeu_epi8(data.to.wrapping_sub(used).cast(), these, output);
        data.skip(bytes);
        let before = _mm512_loadu_si512(message.waiting.as_ptr().cast());
        _mm512_mask_mov_epi8(before, these, if DECRYPT { input } else { output })
    };
    if used + bytes == LINE {
        let hash = hashed(block(&message.hash), [turned(waiting)], &key.powers, LINE / BLOCK);
        set(&mut message.hash, hash);
    } else {
        // SAFETY: a line.
        unsafe { _mm512_storeu_si512(message.waiting.as_mut_ptr().cast(), waiting) }
    }
}

/// Less than a line, the last of this piece.
///
/// # Safety
/// The data can be read and written, and are at least a byte.
#[target_feature(enable = "avx512f,avx512bw,vaes,vpclmulqdq")]
unsafe fn part<const ROUNDS: usize, const DECRYPT: bool>(keys: &RoundKeys, message: &mut Message, data: Data) {
    let these = first_bytes(data.bytes);
    let [stream] = next_stream::<1, ROUNDS>(keys, message);
    // SAFETY: of the data, no more than there is; a line.
    unsafe {
        let input = _mm512_maskz_loadu_epi8(these, data.from.cast());
        let output = _mm512_maskz_mov_epi8(these, _mm512_xor_si512(input, stream));
        _mm512_mask_storeu_epi8(data.to.cast(), these, output);
        _mm512_storeu_si512(message.waiting.as_mut_ptr().cast(), if DECRYPT { input } else { output });
    }
}

/// What the next lines are combined with.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,vaes")]
fn next_stream<const N: usize, const ROUNDS: usize>(keys: &RoundKeys, message: &mut Message) -> [__m512i; N] {
    let counter = block(&message.counter);
    set(&mut message.counter, counted(counter, LINE_BLOCKS * N as u32));
    stream::<N, ROUNDS>(keys, counter)
}

/// What lines are combined with, from this counter on.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,vaes")]
fn stream<const N: usize, const ROUNDS: usize>(keys: &RoundKeys, counter: __m128i) -> [__m512i; N] {
    let first = _mm512_add_epi32(_mm512_broadcast_i32x4(counter), of_each_block([0, 1, 2, 3]));
    let mut x = [first; N];
    for (r, x) in x.iter_mut().enumerate() {
        *x = turned(_mm512_add_epi32(first, of_each_block([LINE_BLOCKS * r as u32; 4])));
    }
    encrypted::<N, ROUNDS>(x, keys)
}

/// Numbers for the counters of four blocks.
#[inline]
#[target_feature(enable = "avx512f")]
fn of_each_block(numbers: [u32; 4]) -> __m512i {
    let [a, b, c, d] = numbers.map(u32::cast_signed);
    _mm512_set_epi32(0, 0, 0, d, 0, 0, 0, c, 0, 0, 0, b, 0, 0, 0, a)
}

/// Blocks, encrypted.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,vaes")]
fn encrypted<const N: usize, const ROUNDS: usize>(mut x: [__m512i; N], keys: &RoundKeys) -> [__m512i; N] {
    // SAFETY: the instructions are there, and so are the keys.
    unsafe {
        let keys = Shared::<Zmm, 0>::new(keys.as_blocks().as_ptr());
        let first = keys.get(0, 0).0;
        for x in &mut x {
            *x = _mm512_xor_si512(*x, first);
        }
        for round in 1..ROUNDS {
            let key = keys.get(round, 0).0;
            for x in &mut x {
                *x = _mm512_aesenc_epi128(*x, key);
            }
        }
        let last = keys.get(ROUNDS, 0).0;
        for x in &mut x {
            *x = _mm512_aesenclast_epi128(*x, last);
        }
    }
    x
}

/// A few lines.
///
/// # Safety
/// There are so many, which can be read and written.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,vaes,vpclmulqdq")]
unsafe fn lines<const N: usize, const ROUNDS: usize, const DECRYPT: bool>(
    key: &GcmKey,
    message: &mut Message,
    data: &mut Data,
) {
    let mut lines = next_stream::<N, ROUNDS>(&key.keys, message);
    // SAFETY: the caller's promise.
    unsafe {
        for (r, line) in lines.iter_mut().enumerate() {
            let input = _mm512_loadu_si512(data.from.add(r * LINE).cast());
            let output = _mm512_xor_si512(input, *line);
            _mm512_storeu_si512(data.to.add(r * LINE).cast(), output);
            *line = turned(if DECRYPT { input } else { output });
        }
        data.skip(N * LINE);
    }
    let hash = hashed(block(&message.hash), lines, &key.powers, 4 * N);
    set(&mut message.hash, hash);
}

/// Eight lines after the other, with the GHASH of eight beside the AES of eight: the same ones where they are decrypted, otherwise
/// those before.
///
/// # Safety
/// There are eight, which can be read and written, and the counter of the first has the remainder of a message's first.
#[target_feature(enable = "avx512f,avx512bw,vaes,vpclmulqdq")]
unsafe fn eights<const ROUNDS: usize, const DECRYPT: bool>(key: &GcmKey, message: &mut Message, data: &mut Data) {
    // SAFETY: the instructions are there, and the rest is the caller's promise.
    unsafe {
        let keys = Shared::new(key.keys.as_blocks().as_ptr());
        let mut state = Eight {
            keys,
            hash: block(&message.hash),
            base: _mm512_setzero_si512(),
            counter: _mm512_broadcast_i32x4(counted(block(&message.counter), FIRST_OF_DATA.wrapping_neg())),
            lines: [_mm512_setzero_si512(); REGISTERS],
        };
        state.base = state.next_base();
        let rounds = data.bytes / (REGISTERS * LINE);
        if DECRYPT {
            for _ in 0..rounds {
                state.step::<ROUNDS, DECRYPT, true, true>(&key.powers, data);
            }
        } else {
            state.step::<ROUNDS, DECRYPT, true, false>(&key.powers, data);
            for _ in 1..rounds {
                state.step::<ROUNDS, DECRYPT, true, true>(&key.powers, data);
            }
            state.step::<ROUNDS, DECRYPT, false, true>(&key.powers, data);
        }
        set(&mut message.hash, state.hash);
        let counter = counted(block(&message.counter), BLOCKS.wrapping_mul(rounds as u32));
        set(&mut message.counter, counter);
    }
}

/// What [`eights`] has in registers.
struct Eight {
    keys: Shared<Zmm, KEPT>,
    hash: __m128i,
    /// The counter whose lowest bits are zeros, below those of the eight lines at hand: everywhere the same, its first key added.
    base: __m512i,
    /// The one after that, its bytes turned around.
    counter: __m512i,
    /// Ciphertext that is to be hashed, its bytes turned around.
    lines: [__m512i; REGISTERS],
}

/// The lowest bits of the counters of eight lines.
#[repr(align(64))]
struct Lowest([[u8; BLOCK]; BLOCKS as usize]);
static LOWEST: Lowest = {
    let mut blocks = [[0; BLOCK]; BLOCKS as usize];
    let mut i = 0;
    while i < BLOCKS {
        blocks[i as usize][BLOCK - 1] = ((FIRST_OF_DATA + i) % BLOCKS) as u8;
        i += 1;
    }
    Lowest(blocks)
};

/// The blocks of the last line that have the next base.
const OF_NEXT_BASE: u8 = 0xf0;
const _: () = assert!(FIRST_OF_DATA == 2, "two blocks of the last line");

impl Eight {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,vaes")]
    fn next_base(&mut self) -> __m512i {
        // SAFETY: the instructions are there, and a value of this type has its keys.
        let first = unsafe { self.keys.get(0, 0).0 };
        let base = _mm512_xor_si512(turned(self.counter), first);
        self.counter = _mm512_add_epi32(self.counter, of_each_block([BLOCKS; 4]));
        base
    }

    /// Encrypts or decrypts eight lines (`CRYPT`), and hashes eight (`HASH`).
    ///
    /// # Safety
    /// To encrypt or decrypt, there are so many lines, which can be read and written.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,vaes,vpclmulqdq")]
    unsafe fn step<const ROUNDS: usize, const DECRYPT: bool, const CRYPT: bool, const HASH: bool>(
        &mut self,
        powers: &Powers,
        data: &mut Data,
    ) {
        let mut x = [_mm512_setzero_si512(); REGISTERS];
        if CRYPT {
            let next = self.next_base();
            for (r, x) in x.iter_mut().enumerate() {
                let base =
                    if r < REGISTERS - 1 { self.base } else { _mm512_mask_blend_epi64(OF_NEXT_BASE, self.base, next) };
                // SAFETY: reads one of eight lines.
                *x = _mm512_xor_si512(base, unsafe { _mm512_load_si512(LOWEST.0.as_ptr().add(4 * r).cast()) });
            }
            self.base = next;
        }
        self.keys = self.keys.afresh();
        let mut sum = Sum::new();
        // A loop of 13 would stay one, with all of its conditions.
        macro_rules! rounds {
            ($($round:literal)*) => { $(
                if CRYPT && $round < ROUNDS {
                    // SAFETY: as in `next_base`.
                    let key = unsafe { self.keys.get($round, 0).0 };
                    for x in &mut x {
                        *x = in_order(_mm512_aesenc_epi128(*x, key));
                    }
                }
                if HASH && let Some(r) = hashed_beside($round, ROUNDS) {
                    let mut line = if DECRYPT {
                        // SAFETY: the caller's promise.
                        turned(unsafe { _mm512_loadu_si512(data.from.add(r * LINE).cast()) })
                    } else {
                        self.lines[r]
                    };
                    if r == 0 {
                        line = _mm512_xor_si512(line, _mm512_zextsi128_si512(self.hash));
                    }
                    sum.add(line, powers, BLOCKS as usize - 4 * r);
                }
            )* };
        }
        rounds!(1 2 3 4 5 6 7 8 9 10 11 12 13);
        if HASH {
            self.hash = sum.reduced();
        }
        if CRYPT {
            // SAFETY: as above; all lines of input are read before one is written.
            unsafe {
                let last = self.keys.get(ROUNDS, 0).0;
                for (r, x) in x.iter_mut().enumerate() {
                    let input = _mm512_loadu_si512(data.from.add(r * LINE).cast());
                    *x = _mm512_aesenclast_epi128(*x, _mm512_xor_si512(input, last));
                }
                for (r, x) in x.into_iter().enumerate() {
                    _mm512_storeu_si512(data.to.add(r * LINE).cast(), x);
                    if !DECRYPT {
                        self.lines[r] = turned(x);
                    }
                }
                data.skip(REGISTERS * LINE);
            }
        }
    }
}

/// Which of the eight lines is hashed beside a round of AES: from the second on, and last the first, which waits for the hash of those
/// before.
const fn hashed_beside(round: usize, rounds: usize) -> Option<usize> {
    let mut place = 0;
    while place < REGISTERS {
        if place * (rounds - 1) / REGISTERS + 1 == round {
            return Some((place + 1) % REGISTERS);
        }
        place += 1;
    }
    None
}
