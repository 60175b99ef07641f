//! Functions of 64-bit words with a state of their own kind: Keccak and BLAKE2b, compiled once per CPU level.

use crate::level::Level;
#[cfg(target_arch = "x86_64")]
use crate::level::LevelName;

/// Most lanes of these functions.
pub(crate) const WIDE_LANES: usize = 8;

/// Advances the states of all lanes over whole blocks of their messages.
///
/// `state` is word-major: word `i` of lane `l` is at `i * row(lanes) + l`. The last arguments are the bytes of a block, and how many
/// rounds it takes.
///
/// # Safety
/// The CPU level for which it was compiled is there; `state` is valid for as many rows as the function has words; there are as many
/// pointers as lanes, each readable for the blocks, whose length is one of the function's.
pub type Advance = unsafe fn(state: *mut u64, messages: *const *const u8, blocks: usize, block: usize, rounds: usize);

/// Words from one row of states to the next.
pub(super) const fn row(lanes: usize) -> usize {
    if lanes > 1 { WIDE_LANES } else { 1 }
}

/// The kernels of one function on one CPU level. Only this file makes it, out of a [`Level`], so that whoever holds one may call
/// its functions on this CPU.
#[derive(Clone, Copy)]
pub struct Kernels {
    /// Lanes of `side_by_side`.
    pub(crate) lanes: usize,
    pub(crate) side_by_side: Advance,
    /// From this many messages on, side by side is faster than one after the other.
    pub(crate) break_even: usize,
    /// For a single message.
    pub(crate) single: Advance,
}

impl Kernels {
    /// The most messages side by side.
    pub fn lanes(&self) -> usize {
        self.lanes
    }

    /// From how many messages on they are faster together than one after the other.
    pub fn pays_from(&self) -> usize {
        self.break_even
    }
}

/// A module of kernels compiled for one set of CPU features.
macro_rules! compiled {
    ($module:ident, $features:literal, $vector:ty) => {
        mod $module {
            compiled!(@ keccak absorb, $features, $vector);
            compiled!(@ blake2b compress, $features, $vector);
        }
    };
    (@ $name:ident $function:ident, $features:literal, $vector:ty) => {
        /// # Safety
        /// That of [`Advance`].
        #[cfg_attr(any(target_arch = "x86_64", target_arch = "aarch64"), target_feature(enable = $features))]
        pub(super) unsafe fn $name(
            state: *mut u64,
            messages: *const *const u8,
            blocks: usize,
            block: usize,
            rounds: usize,
        ) {
            // SAFETY: the features of the vector type are on here; the rest is the caller's promise.
            unsafe { crate::kernel::$name::$function::<$vector>(state, messages, blocks, block, rounds) }
        }
    };
}

#[cfg(target_arch = "x86_64")]
compiled!(avx512, "avx512f,avx512bw,avx2,bmi1,bmi2", crate::vector::avx512::Zmm64<1>);
#[cfg(target_arch = "x86_64")]
compiled!(avx2, "avx2,bmi1,bmi2", crate::vector::avx2::Ymm64);
#[cfg(target_arch = "x86_64")]
compiled!(single_bmi, "bmi1,bmi2", u64);
#[cfg(target_arch = "x86_64")]
compiled!(base, "sse2", crate::vector::sse2::Xmm64);
#[cfg(target_arch = "x86_64")]
compiled!(single, "sse2", u64);
#[cfg(target_arch = "aarch64")]
compiled!(base, "neon", crate::vector::neon::Neon64);
#[cfg(target_arch = "aarch64")]
compiled!(single, "neon", u64);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compiled!(single, "", u64);
#[cfg(target_arch = "aarch64")]
/// With SHA-3's instructions for two lanes, which the compiler finds in the source.
mod sha3 {
    compiled!(@ keccak absorb, "neon,sha3", crate::vector::neon::Neon64<true>);
}

// Measured on one core of a Zen 3, batches of 16 messages of 16 KiB: MB/s of all lanes, in brackets of one message alone. AWS-LC has 430
// with SHA3-256 and 505 with BLAKE2b.
//             avx2         base
// SHA3-256    1290 (460)   630 (380)
// BLAKE2b     2650 (880)   1210 (920)
macro_rules! select {
    ($visible:vis $selected:ident, $name:ident) => {
        $visible fn $selected(level: Level) -> Kernels {
            let (lanes, side_by_side, single): (usize, Advance, Advance) = match level.name() {
                #[cfg(target_arch = "x86_64")]
                LevelName::Avx512 => (8, avx512::$name, single_bmi::$name),
                #[cfg(target_arch = "x86_64")]
                LevelName::Vaes | LevelName::Avx2 => (4, avx2::$name, single_bmi::$name),
                #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
                _ => (2, base::$name, single::$name),
                #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
                _ => (1, single::$name, single::$name),
            };
            Kernels { lanes, side_by_side, break_even: 2, single }
        }
    };
}
select!(lanes_of_keccak, keccak);
select!(pub(super) blake2b, blake2b);

pub(super) fn keccak(level: Level) -> Kernels {
    #[cfg(target_arch = "aarch64")]
    if level.sha512() {
        return Kernels { side_by_side: sha3::keccak, ..lanes_of_keccak(level) };
    }
    lanes_of_keccak(level)
}
