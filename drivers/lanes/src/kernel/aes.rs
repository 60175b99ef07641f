//! AES in cipher block chaining (SP 800-38A): encryption, where each block waits for the one before, so that only other
//! chains can fill the pipeline of the AES instructions; and the chain alone, for CMAC.
//!
//! Only with AES instructions: a table would tell the cache about the key.

use zeroize::Zeroize;

use crate::level::Level;
#[cfg(target_arch = "x86_64")]
use crate::level::LevelName;

/// Bytes of a block.
pub(crate) const BLOCK: usize = 16;

/// Two chains side by side are never slower than one after the other: the others cost nothing.
const BREAK_EVEN: usize = 2;

/// The round keys of one key (FIPS 197, 5.2).
pub(crate) struct RoundKeys {
    keys: [[u8; BLOCK]; 15],
    rounds: usize,
}

impl RoundKeys {
    /// Expands a key of 16, 24 or 32 bytes, where it stays: a value that moves leaves copies behind. `None` for other lengths.
    pub(crate) fn new(aes: Aes, key: &[u8]) -> Option<Box<Self>> {
        let words = key.len() / 4;
        if ![16, 24, 32].contains(&key.len()) {
            return None;
        }
        let rounds = words + 6;
        let mut schedule = Box::new(RoundKeys { keys: [[0; BLOCK]; 15], rounds });
        let bytes = schedule.keys.as_flattened_mut();
        bytes[..key.len()].copy_from_slice(key);
        // Words are little-endian here, so the standard's rotation to the left is one to the right.
        let (w, _) = bytes.as_chunks_mut::<4>();
        let mut round_constant = 1u32;
        for i in words..4 * (rounds + 1) {
            let mut last = u32::from_le_bytes(w[i - 1]);
            if i % words == 0 {
                last = aes.substitute(last.rotate_right(8)) ^ round_constant;
                round_constant = (round_constant << 1) ^ if round_constant & 0x80 == 0 { 0 } else { 0x11b };
            } else if words == 8 && i % words == 4 {
                last = aes.substitute(last);
            }
            w[i] = (u32::from_le_bytes(w[i - words]) ^ last).to_le_bytes();
        }
        Some(schedule)
    }

    /// The round keys, one after the other.
    pub(crate) fn as_blocks(&self) -> &[[u8; BLOCK]; 15] {
        &self.keys
    }

    /// Whether a kernel for these serves `other`, too.
    pub(crate) fn same_length(&self, other: &RoundKeys) -> bool {
        self.rounds == other.rounds
    }
}

impl Drop for RoundKeys {
    fn drop(&mut self) {
        self.keys.zeroize();
    }
}

/// Advances chains over `blocks` blocks of their data: `chain = AES(chain xor block)`, for each lane and block in turn.
///
/// `chains` holds one block for each lane. `from` and `to` hold one pointer per lane; `Encrypt` functions write each new
/// chaining value to `to`, which may be the same memory as `from`; `Absorb` functions do not look at `to`. `keys` holds the
/// round keys one after the other: one block each where all lanes share a key, one block for each lane where they do not.
///
/// # Safety
/// The CPU has the instructions for which it was compiled; `chains`, `from` and, to encrypt, `to` are valid for all lanes;
/// each pointer in `from` is readable, and in `to` writable, for `blocks` blocks; `keys` are of as many rounds as it was
/// compiled for.
pub(crate) type Chain = unsafe fn(
    chains: *mut [u8; BLOCK],
    from: *const *const u8,
    to: *const *mut u8,
    blocks: usize,
    keys: *const [u8; BLOCK],
);

/// A register with one or several AES blocks, and the AES instructions on it.
trait Register: Copy {
    /// Blocks in a register.
    const BLOCKS: usize;

    /// # Safety
    /// The CPU has the instructions of this type (of all methods); `from` is readable for a register.
    unsafe fn load(from: *const [u8; BLOCK]) -> Self;
    /// # Safety
    /// `to` is writable for a register.
    unsafe fn store(self, to: *mut [u8; BLOCK]);
    /// The same block everywhere.
    ///
    /// # Safety
    /// `from` is readable for a block.
    unsafe fn broadcast(from: *const [u8; BLOCK]) -> Self;
    /// One block from behind each pointer.
    ///
    /// # Safety
    /// `from` holds `BLOCKS` pointers, each readable for a block behind `offset` bytes.
    unsafe fn gather(from: *const *const u8, offset: usize) -> Self;
    /// One block to behind each pointer.
    ///
    /// # Safety
    /// `to` holds `BLOCKS` pointers, each writable for a block behind `offset` bytes.
    unsafe fn scatter(self, to: *const *mut u8, offset: usize);
    /// Four successive blocks from behind each pointer: what four times `gather` gives, with each line of the cache read once.
    ///
    /// # Safety
    /// As `gather`, for four blocks.
    #[inline(always)]
    unsafe fn gather_four(from: *const *const u8, offset: usize) -> [Self; 4] {
        // SAFETY: as above.
        unsafe {
            let block = |block: usize| Self::gather(from, offset + block * BLOCK);
            [block(0), block(1), block(2), block(3)]
        }
    }
    /// Four successive blocks to behind each pointer: what four times `scatter` does.
    ///
    /// # Safety
    /// As `scatter`, for four blocks.
    #[inline(always)]
    unsafe fn scatter_four(four: [Self; 4], to: *const *mut u8, offset: usize) {
        for (block, x) in four.into_iter().enumerate() {
            // SAFETY: as above.
            unsafe { x.scatter(to, offset + block * BLOCK) }
        }
    }
    fn xor(self, other: Self) -> Self;
    /// A round but the last: SubBytes, ShiftRows, MixColumns, AddRoundKey.
    fn round(self, key: Self) -> Self;
    /// The last round: without MixColumns.
    fn last_round(self, key: Self) -> Self;
}

/// The body of all [`Chain`] functions: `REGISTERS * R::BLOCKS` lanes.
///
/// # Safety
/// That of [`Chain`], and the CPU has the instructions of `R`.
#[inline(always)]
unsafe fn chain<
    R: Register,
    const REGISTERS: usize,
    const ROUNDS: usize,
    const ENCRYPT: bool,
    const SHARED: bool,
    const IN_FOURS: bool,
>(
    chains: *mut [u8; BLOCK],
    from: *const *const u8,
    to: *const *mut u8,
    blocks: usize,
    keys: *const [u8; BLOCK],
) {
    // SAFETY: register `r` holds the lanes from `r * R::BLOCKS` on; the caller's promises cover all of them.
    unsafe {
        // Read once, and kept in registers as far as there are: from `keys` they would be read for each block, because writing a
        // block might change them as far as the compiler knows. (16 chains, 10 rounds, on Zen 4: 16.8 GB/s against 15.3, with
        // own keys 13.7 against 9.7.)
        let mut round_keys = [[R::broadcast(keys); REGISTERS]; 15];
        for (round, key) in round_keys[..=ROUNDS].iter_mut().enumerate() {
            *key = round_key::<R, REGISTERS, SHARED>(keys, round);
        }
        let keys = &round_keys;
        let mut x = round_keys[0];
        for (r, x) in x.iter_mut().enumerate() {
            *x = R::load(chains.add(r * R::BLOCKS));
        }
        // All lanes are read before any is written: idle lanes shadow a busy one, perhaps in place.
        let mut block = 0;
        while IN_FOURS && blocks - block >= 4 {
            let mut data = [x; 4];
            for r in 0..REGISTERS {
                let four = R::gather_four(from.add(r * R::BLOCKS), block * BLOCK);
                for (data, four) in data.iter_mut().zip(four) {
                    data[r] = four;
                }
            }
            for data in &mut data {
                encrypt::<R, REGISTERS, ROUNDS>(&mut x, data, keys);
                *data = x;
            }
            if ENCRYPT {
                let [first, second, third, fourth] = data;
                for (r, first) in first.into_iter().enumerate() {
                    let four = [first, second[r], third[r], fourth[r]];
                    R::scatter_four(four, to.add(r * R::BLOCKS), block * BLOCK);
                }
            }
            block += 4;
        }
        while block < blocks {
            let mut data = x;
            for (r, data) in data.iter_mut().enumerate() {
                *data = R::gather(from.add(r * R::BLOCKS), block * BLOCK);
            }
            encrypt::<R, REGISTERS, ROUNDS>(&mut x, &data, keys);
            if ENCRYPT {
                for (r, x) in x.iter().enumerate() {
                    x.scatter(to.add(r * R::BLOCKS), block * BLOCK);
                }
            }
            block += 1;
        }
        for (r, x) in x.iter().enumerate() {
            x.store(chains.add(r * R::BLOCKS));
        }
    }
}

/// One block of all lanes, with the first `ROUNDS + 1` of `keys`.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "an index says it best: the same lane of three arrays")]
fn encrypt<R: Register, const REGISTERS: usize, const ROUNDS: usize>(
    x: &mut [R; REGISTERS],
    data: &[R; REGISTERS],
    keys: &[[R; REGISTERS]; 15],
) {
    for r in 0..REGISTERS {
        x[r] = x[r].xor(data[r].xor(keys[0][r]));
    }
    for round in 1..ROUNDS {
        for r in 0..REGISTERS {
            x[r] = x[r].round(keys[round][r]);
        }
    }
    for r in 0..REGISTERS {
        x[r] = x[r].last_round(keys[ROUNDS][r]);
    }
}

/// A round key for all lanes.
///
/// # Safety
/// That of [`Chain`], and the CPU has the instructions of `R`; the round is one that the function was compiled for.
#[inline(always)]
unsafe fn round_key<R: Register, const REGISTERS: usize, const SHARED: bool>(
    keys: *const [u8; BLOCK],
    round: usize,
) -> [R; REGISTERS] {
    // SAFETY: as above.
    unsafe {
        if SHARED {
            return [R::broadcast(keys.add(round)); REGISTERS];
        }
        let of_round = keys.add(round * REGISTERS * R::BLOCKS);
        let mut key = [R::load(of_round); REGISTERS];
        for (r, key) in key.iter_mut().enumerate() {
            *key = R::load(of_round.add(r * R::BLOCKS));
        }
        key
    }
}

/// The functions of one CPU level and key length. Only [`Aes::kernels`] makes it, so that whoever holds one may call
/// its functions on this CPU.
#[derive(Clone, Copy)]
pub(crate) struct Kernels {
    /// Lanes of `shared` and `own`.
    pub(crate) lanes: usize,
    /// Side by side, all with one key.
    pub(crate) shared: SideBySide,
    /// Side by side, each with a key of its own.
    pub(crate) own: SideBySide,
    /// The same for a single chain.
    pub(crate) single: Chain,
    /// From this many chains on, side by side is faster than one after the other.
    pub(crate) break_even: usize,
}

/// Functions for all lanes.
#[derive(Clone, Copy)]
pub(crate) struct SideBySide {
    pub(crate) usual: Chain,
    /// The same, faster where the messages of the lanes fight for the same sets of the cache.
    pub(crate) colliding: Chain,
}

/// Whether the chaining values are output.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// CBC encryption: every chaining value is a block of ciphertext.
    Encrypt,
    /// CBC-MAC: only the last chaining value counts.
    Absorb,
}

/// Proof that this CPU has AES instructions; made only by [`Aes::of`].
#[derive(Clone, Copy)]
pub(crate) struct Aes(Level);

impl Aes {
    /// `None` where there are no AES instructions.
    pub(crate) fn of(level: Level) -> Option<Aes> {
        level.aes().then_some(Aes(level))
    }

    /// Lanes, and from how many chains on they pay.
    pub(crate) fn lanes(self) -> (usize, usize) {
        (if self.0.vaes() { 16 } else { 8 }, BREAK_EVEN)
    }

    /// The chains for keys of one length.
    pub(crate) fn kernels(self, keys: &RoundKeys, mode: Mode) -> Kernels {
        /// Picks the function compiled for the rounds and the mode.
        macro_rules! pick {
            ($function:ident $shared:literal) => {
                match (keys.rounds, mode) {
                    (10, Mode::Encrypt) => instructions::$function::<10, true, $shared>,
                    (10, Mode::Absorb) => instructions::$function::<10, false, $shared>,
                    (12, Mode::Encrypt) => instructions::$function::<12, true, $shared>,
                    (12, Mode::Absorb) => instructions::$function::<12, false, $shared>,
                    (_, Mode::Encrypt) => instructions::$function::<14, true, $shared>,
                    (_, Mode::Absorb) => instructions::$function::<14, false, $shared>,
                }
            };
        }
        let (lanes, break_even) = self.lanes();
        macro_rules! kernels {
            ($usual:ident, $colliding:ident, $single:ident) => {
                Kernels {
                    lanes,
                    shared: SideBySide { usual: pick!($usual true), colliding: pick!($colliding true) },
                    own: SideBySide { usual: pick!($usual false), colliding: pick!($colliding false) },
                    single: pick!($single true),
                    break_even,
                }
            };
        }
        #[cfg(target_arch = "x86_64")]
        match self.0.name() {
            LevelName::Avx512 if self.0.vaes() => kernels!(sixteen, sixteen_in_fours, one_avx2),
            LevelName::Avx512 | LevelName::Avx2 => kernels!(eight_avx2, eight_avx2, one_avx2),
            LevelName::Base => kernels!(eight, eight, one),
        }
        #[cfg(target_arch = "aarch64")]
        kernels!(eight, eight, one)
    }

    /// SubWord of FIPS 197.
    #[allow(clippy::unused_self, reason = "the proof")]
    fn substitute(self, word: u32) -> u32 {
        // SAFETY: `self` proves the instructions.
        unsafe { instructions::substitute(word) }
    }
}

/// [`chain`] compiled for one set of CPU features.
macro_rules! compiled {
    ($name:ident, $features:literal, $register:ty, $count:literal, in_fours $in_fours:literal) => {
        /// # Safety
        /// That of [`Chain`](super::Chain).
        #[target_feature(enable = $features)]
        pub(super) unsafe fn $name<const ROUNDS: usize, const ENCRYPT: bool, const SHARED: bool>(
            chains: *mut [u8; BLOCK],
            from: *const *const u8,
            to: *const *mut u8,
            blocks: usize,
            keys: *const [u8; BLOCK],
        ) {
            // SAFETY: the features of the register are on here; the rest is the caller's promise.
            unsafe { chain::<$register, $count, ROUNDS, ENCRYPT, SHARED, $in_fours>(chains, from, to, blocks, keys) }
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod instructions {
    use core::arch::x86_64::*;

    use super::{BLOCK, Register, chain};
    use crate::vector::avx512::transpose_parts;

    compiled!(sixteen, "avx512f,vaes,aes", Zmm, 4, in_fours false);
    compiled!(sixteen_in_fours, "avx512f,vaes,aes", Zmm, 4, in_fours true);
    compiled!(eight_avx2, "avx2,aes", Xmm, 8, in_fours false);
    compiled!(one_avx2, "avx2,aes", Xmm, 1, in_fours false);
    compiled!(eight, "aes", Xmm, 8, in_fours false);
    compiled!(one, "aes", Xmm, 1, in_fours false);

    /// SubWord of FIPS 197.
    #[target_feature(enable = "aes")]
    pub(super) fn substitute(word: u32) -> u32 {
        let word = _mm_set1_epi32(word.cast_signed());
        _mm_cvtsi128_si32(_mm_aeskeygenassist_si128::<0>(word)).cast_unsigned()
    }

    /// One block.
    #[derive(Clone, Copy)]
    struct Xmm(__m128i);

    impl Register for Xmm {
        const BLOCKS: usize = 1;

        #[inline(always)]
        unsafe fn load(from: *const [u8; BLOCK]) -> Self {
            // SAFETY: the caller promises a readable block.
            Self(unsafe { _mm_loadu_si128(from.cast()) })
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut [u8; BLOCK]) {
            // SAFETY: the caller promises a writable block.
            unsafe { _mm_storeu_si128(to.cast(), self.0) }
        }

        #[inline(always)]
        unsafe fn broadcast(from: *const [u8; BLOCK]) -> Self {
            // SAFETY: the caller promises a readable block.
            unsafe { Self::load(from) }
        }

        #[inline(always)]
        unsafe fn gather(from: *const *const u8, offset: usize) -> Self {
            // SAFETY: the caller promises a pointer, and a readable block behind it.
            Self(unsafe { _mm_loadu_si128((*from).add(offset).cast()) })
        }

        #[inline(always)]
        unsafe fn scatter(self, to: *const *mut u8, offset: usize) {
            // SAFETY: the caller promises a pointer, and a writable block behind it.
            unsafe { _mm_storeu_si128((*to).add(offset).cast(), self.0) }
        }

        #[inline(always)]
        fn xor(self, other: Self) -> Self {
            // SAFETY: SSE2 is part of the architecture.
            Self(unsafe { _mm_xor_si128(self.0, other.0) })
        }

        #[inline(always)]
        fn round(self, key: Self) -> Self {
            // SAFETY: a value of this type exists, so there are AES instructions.
            Self(unsafe { _mm_aesenc_si128(self.0, key.0) })
        }

        #[inline(always)]
        fn last_round(self, key: Self) -> Self {
            // SAFETY: as for `round`.
            Self(unsafe { _mm_aesenclast_si128(self.0, key.0) })
        }
    }

    /// Four blocks.
    #[derive(Clone, Copy)]
    struct Zmm(__m512i);

    /// Four blocks on one line of the cache: a store across two lines is not forwarded to the loads behind it.
    #[repr(align(64))]
    struct Line([[u8; BLOCK]; 4]);

    impl Register for Zmm {
        const BLOCKS: usize = 4;

        #[inline(always)]
        unsafe fn load(from: *const [u8; BLOCK]) -> Self {
            // SAFETY: the caller promises AVX-512 and four readable blocks.
            Self(unsafe { _mm512_loadu_si512(from.cast()) })
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut [u8; BLOCK]) {
            // SAFETY: the caller promises four writable blocks.
            unsafe { _mm512_storeu_si512(to.cast(), self.0) }
        }

        #[inline(always)]
        unsafe fn broadcast(from: *const [u8; BLOCK]) -> Self {
            // SAFETY: the caller promises AVX-512 and a readable block.
            Self(unsafe { _mm512_broadcast_i32x4(_mm_loadu_si128(from.cast())) })
        }

        #[inline(always)]
        unsafe fn gather(from: *const *const u8, offset: usize) -> Self {
            // SAFETY: the caller promises AVX-512 and four pointers, each with a readable block behind it.
            unsafe {
                let block = |i: usize| _mm_loadu_si128((*from.add(i)).add(offset).cast());
                let x = _mm512_castsi128_si512(block(0));
                let x = _mm512_inserti32x4::<1>(x, block(1));
                let x = _mm512_inserti32x4::<2>(x, block(2));
                Self(_mm512_inserti32x4::<3>(x, block(3)))
            }
        }

        #[inline(always)]
        unsafe fn scatter(self, to: *const *mut u8, offset: usize) {
            // SAFETY: the caller promises four pointers, each with a writable block behind it.
            unsafe {
                // By way of memory: extracting from the register would compete with the AES rounds for their ports (16
                // chains and 10 rounds: 72 cycles a block on Zen 4, against 57 this way).
                let mut line = Line([[0; BLOCK]; 4]);
                self.store(line.0.as_mut_ptr());
                for (i, block) in core::hint::black_box(&line).0.iter().enumerate() {
                    _mm_storeu_si128((*to.add(i)).add(offset).cast(), _mm_loadu_si128(block.as_ptr().cast()));
                }
            }
        }

        #[inline(always)]
        unsafe fn gather_four(from: *const *const u8, offset: usize) -> [Self; 4] {
            // SAFETY: the caller promises AVX-512 and four pointers, each with four readable blocks behind it.
            unsafe {
                let row = |i: usize| _mm512_loadu_si512((*from.add(i)).add(offset).cast());
                transpose_parts(row(0), row(1), row(2), row(3)).map(Self)
            }
        }

        #[inline(always)]
        unsafe fn scatter_four(four: [Self; 4], to: *const *mut u8, offset: usize) {
            // SAFETY: the caller promises AVX-512 and four pointers, each with four writable blocks behind it.
            unsafe {
                let rows = transpose_parts(four[0].0, four[1].0, four[2].0, four[3].0);
                for (i, row) in rows.into_iter().enumerate() {
                    _mm512_storeu_si512((*to.add(i)).add(offset).cast(), row);
                }
            }
        }

        #[inline(always)]
        fn xor(self, other: Self) -> Self {
            // SAFETY: a value of this type exists, so there is AVX-512.
            Self(unsafe { _mm512_xor_si512(self.0, other.0) })
        }

        #[inline(always)]
        fn round(self, key: Self) -> Self {
            // SAFETY: a value of this type exists, so there are AVX-512 and VAES.
            Self(unsafe { _mm512_aesenc_epi128(self.0, key.0) })
        }

        #[inline(always)]
        fn last_round(self, key: Self) -> Self {
            // SAFETY: as for `round`.
            Self(unsafe { _mm512_aesenclast_epi128(self.0, key.0) })
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod instructions {
    use core::arch::aarch64::*;

    use super::{BLOCK, Register, chain};

    compiled!(eight, "aes,neon", Block, 8, in_fours false);
    compiled!(one, "aes,neon", Block, 1, in_fours false);

    /// SubWord of FIPS 197: with four times the same word, ShiftRows changes nothing.
    #[target_feature(enable = "aes,neon")]
    pub(super) fn substitute(word: u32) -> u32 {
        let words = vreinterpretq_u8_u32(vdupq_n_u32(word));
        vgetq_lane_u32::<0>(vreinterpretq_u32_u8(vaeseq_u8(words, vdupq_n_u8(0))))
    }

    /// One block. The instructions of this architecture add the round key first: with zeros there, it can be added after.
    #[derive(Clone, Copy)]
    struct Block(uint8x16_t);

    #[allow(inline_always_mismatching_target_features, reason = "inlined with `round`, into functions that have them")]
    impl Register for Block {
        const BLOCKS: usize = 1;

        #[inline(always)]
        unsafe fn load(from: *const [u8; BLOCK]) -> Self {
            // SAFETY: the caller promises a readable block.
            Self(unsafe { vld1q_u8(from.cast()) })
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut [u8; BLOCK]) {
            // SAFETY: the caller promises a writable block.
            unsafe { vst1q_u8(to.cast(), self.0) }
        }

        #[inline(always)]
        unsafe fn broadcast(from: *const [u8; BLOCK]) -> Self {
            // SAFETY: the caller promises a readable block.
            unsafe { Self::load(from) }
        }

        #[inline(always)]
        unsafe fn gather(from: *const *const u8, offset: usize) -> Self {
            // SAFETY: the caller promises a pointer, and a readable block behind it.
            Self(unsafe { vld1q_u8((*from).add(offset)) })
        }

        #[inline(always)]
        unsafe fn scatter(self, to: *const *mut u8, offset: usize) {
            // SAFETY: the caller promises a pointer, and a writable block behind it.
            unsafe { vst1q_u8((*to).add(offset), self.0) }
        }

        #[inline(always)]
        fn xor(self, other: Self) -> Self {
            // SAFETY: NEON is part of the architecture.
            Self(unsafe { veorq_u8(self.0, other.0) })
        }

        #[inline(always)]
        fn round(self, key: Self) -> Self {
            // SAFETY: a value of this type exists, so there are AES instructions.
            Self(unsafe { veorq_u8(vaesmcq_u8(vaeseq_u8(self.0, vdupq_n_u8(0))), key.0) })
        }

        #[inline(always)]
        fn last_round(self, key: Self) -> Self {
            // SAFETY: as for `round`.
            Self(unsafe { veorq_u8(vaeseq_u8(self.0, vdupq_n_u8(0)), key.0) })
        }
    }
}
