//! The operations that a kernel needs of a SIMD register, and the registers that implement them.
//!
//! A kernel is written once over [`Vector`]: one register holds the same word of `LANES` independent messages. The scalar words
//! `u32` and `u64` are vectors of one lane, so the same source also yields the single-stream kernel.
//!
//! A value of a register type can only come from [`Vector::splat`], [`Vector::load`], [`Vector::gather`], [`Vector::fetch`] and
//! [`LoadPair::load_pair`]. These are unsafe: the caller guarantees that the CPU has the instructions of the type. Every other method
//! takes a value, which proves that the CPU has them; only [`Vector::store`] is unsafe too, for its pointer. All methods are inlined
//! into the `#[target_feature]` functions of `dispatch`, where most become a single instruction.

#[cfg(target_arch = "x86_64")]
#[macro_use]
mod x86;

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub mod avx512;
#[cfg(target_arch = "aarch64")]
pub(crate) mod neon;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) mod register_pair;
mod scalar;
#[cfg(target_arch = "x86_64")]
pub(crate) mod sse2;
#[cfg(target_feature = "simd128")]
pub(crate) mod wasm;

use zeroize::Zeroize;

/// The unit of a hash function's state: `u32` or `u64`.
pub trait Word: Copy + Default + Zeroize + Send + Sync + 'static {
    /// Writes the word to `out`, which has the size of a word.
    fn write(self, out: &mut [u8], big_endian: bool);

    /// Reads word `index` of a block.
    fn read(block: &[u8], index: usize, big_endian: bool) -> Self;

    /// XOR.
    #[must_use]
    fn xor(self, other: Self) -> Self;
}

macro_rules! word {
    ($word:ty) => {
        impl Word for $word {
            #[inline(always)]
            fn write(self, out: &mut [u8], big_endian: bool) {
                out.copy_from_slice(&if big_endian { self.to_be_bytes() } else { self.to_le_bytes() });
            }

            #[inline(always)]
            fn read(block: &[u8], index: usize, big_endian: bool) -> Self {
                let bytes = block.as_chunks().0[index];
                if big_endian { Self::from_be_bytes(bytes) } else { Self::from_le_bytes(bytes) }
            }

            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                self ^ other
            }
        }
    };
}
word!(u32);
word!(u64);

/// One SIMD register: a word of each of `LANES` messages.
#[allow(clippy::return_self_not_must_use, reason = "each method is a single instruction")]
pub trait Vector: Copy {
    /// The word of one lane.
    type Word: Word;
    /// Number of messages side by side.
    const LANES: usize;
    /// Latency of an instruction, in cycles. Above 1, the length of the dependency chain matters, not the number of instructions.
    const LATENCY: u32 = 1;

    /// Returns a vector with `word` in every lane.
    ///
    /// # Safety
    /// The CPU has the instructions of this type.
    unsafe fn splat(word: Self::Word) -> Self;

    /// Reads `LANES` words.
    ///
    /// # Safety
    /// The CPU has the instructions of this type; `from` is readable for `LANES` words (no alignment needed).
    unsafe fn load(from: *const Self::Word) -> Self;

    /// Writes `LANES` words.
    ///
    /// # Safety
    /// `to` is writable for `LANES` words (no alignment needed).
    unsafe fn store(self, to: *mut Self::Word);

    /// Returns the word of a lane.
    #[inline(always)]
    fn lane(&self, lane: usize) -> Self::Word {
        const { assert!(size_of::<Self>() == Self::LANES * size_of::<Self::Word>()) };
        assert!(lane < Self::LANES);
        // SAFETY: a register in memory is the words of its lanes, and the lane is one of them.
        unsafe { (&raw const *self).cast::<Self::Word>().add(lane).read() }
    }

    /// Reads one block of sixteen words from each lane's message and transposes: word `i` of the result holds the `i`th word of
    /// every lane's block.
    ///
    /// # Safety
    /// The CPU has the instructions of this type; `lanes` points to `LANES` pointers, each readable for one block of sixteen
    /// words at `offset` bytes.
    unsafe fn gather(lanes: *const *const u8, offset: usize, big_endian: bool) -> [Self; 16];

    /// Does a quarter of the work of [`gather`](Self::gather); `quarter` is 0 to 3. [`arrange`](Self::arrange) makes the words of
    /// `gather` from the four results. Each type defines its quarters: some of the words, or all words of some of the lanes.
    ///
    /// # Safety
    /// As for [`gather`](Self::gather).
    #[inline(always)]
    unsafe fn fetch(lanes: *const *const u8, offset: usize, big_endian: bool, quarter: usize) -> [Self; 4] {
        // SAFETY: guaranteed by the caller.
        let words = unsafe { Self::gather(lanes, offset, big_endian) };
        words.as_chunks().0[quarter]
    }

    /// Returns the words of a block from the results of [`fetch`](Self::fetch).
    #[inline(always)]
    fn arrange(quarters: [[Self; 4]; 4]) -> [Self; 16] {
        let mut words = [quarters[0][0]; 16];
        words.copy_from_slice(quarters.as_flattened());
        words
    }

    /// Returns `self`. AVX-512 registers hide its origin from the optimizer, which would otherwise reorder sums. Kernels call this only if
    /// [`LATENCY`](Self::LATENCY) is above 1.
    #[inline(always)]
    fn opaque(self) -> Self {
        self
    }

    /// Sum modulo the word size.
    fn add(self, other: Self) -> Self;
    /// Bitwise conjunction.
    fn and(self, other: Self) -> Self;
    /// Bitwise disjunction.
    fn or(self, other: Self) -> Self;
    /// Bitwise exclusive disjunction.
    fn xor(self, other: Self) -> Self;
    /// Bitwise complement.
    fn not(self) -> Self;
    /// Rotates every word left by `N` bits, 0 < N < word size.
    fn rotate_left<const N: u32>(self) -> Self;
    /// Shifts every word right by `N` bits, 0 < N < word size.
    fn shift_right<const N: u32>(self) -> Self;

    /// Selects bits: from `yes` where `self` is 1, otherwise from `no`.
    #[inline(always)]
    fn choose(self, yes: Self, no: Self) -> Self {
        yes.xor(no).and(self).xor(no)
    }

    /// The bitwise majority of three.
    #[inline(always)]
    fn majority(self, b: Self, c: Self) -> Self {
        self.xor(b).and(self.xor(c)).xor(self)
    }

    /// Returns the majority, and the argument `b_xor_c` for the next round. There, `self` and `b` are the second and third operands, so
    /// the argument is `self xor b`. A type with a faster majority ignores `b_xor_c` and returns it unchanged.
    #[inline(always)]
    fn next_majority(self, b: Self, _c: Self, b_xor_c: Self) -> (Self, Self) {
        let next = self.xor(b);
        (next.and(b_xor_c).xor(b), next)
    }

    /// XOR of three.
    #[inline(always)]
    fn xor3(self, b: Self, c: Self) -> Self {
        self.xor(b).xor(c)
    }

    /// Keccak's step chi: `self xor (not b and c)`.
    #[inline(always)]
    fn xor_not_and(self, b: Self, c: Self) -> Self {
        self.xor(b.not().and(c))
    }

    /// MD5's fourth function: `b xor (self or not c)`.
    #[inline(always)]
    fn or_not_xor(self, b: Self, c: Self) -> Self {
        self.or(c.not()).xor(b)
    }
}

/// Registers of 64-bit words that can also be read two words at a time: blocks of Keccak have 9 to 21 words instead of sixteen.
pub trait LoadPair: Vector<Word = u64> {
    /// Reads two successive little-endian words of each lane's message.
    ///
    /// # Safety
    /// The CPU has the instructions of this type; `lanes` points to `LANES` pointers, each readable for 16 bytes at `offset`.
    unsafe fn load_pair(lanes: *const *const u8, offset: usize) -> [Self; 2];
}
