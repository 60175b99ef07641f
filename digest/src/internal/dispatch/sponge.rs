//! Keccak and BLAKE2b, compiled for each CPU level, and the choice of the fastest kernels.

use crate::internal::kernel::absorb::{AbsorbKernel, Absorption};
use crate::internal::kernel::blake2b::Blake2b;
use crate::internal::kernel::keccak::Keccak;
use crate::level::Level;
#[cfg(target_arch = "x86_64")]
use crate::level::LevelName;

/// The kernels of one function on one CPU level. Only this file creates a value, from a [`Level`]: the value proves that this
/// CPU can run them.
#[derive(Clone, Copy)]
pub struct Kernels {
    /// Lanes of `side_by_side`.
    pub(crate) lanes: usize,
    pub(crate) side_by_side: AbsorbKernel,
    /// From this many messages on, `side_by_side` is faster than one by one.
    pub(crate) break_even: usize,
    /// For a single message.
    pub(crate) single: AbsorbKernel,
}

impl Kernels {
    /// The maximum number of messages side by side.
    pub fn lanes(&self) -> usize {
        self.lanes
    }

    /// From this many messages on, hashing them together is faster than one by one.
    pub fn min_batch(&self) -> usize {
        self.break_even
    }
}

/// A function of the family of Keccak and BLAKE2b, with its kernels.
pub trait Function: Absorption {
    /// Returns the kernels for a CPU.
    fn kernels(level: Level) -> Kernels;
}

impl<const RATE: usize, const ROUNDS: usize> Function for Keccak<RATE, ROUNDS> {
    fn kernels(level: Level) -> Kernels {
        keccak(level)
    }
}

impl Function for Blake2b {
    fn kernels(level: Level) -> Kernels {
        blake2b(level)
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
        /// As for [`AbsorbKernel`].
        #[cfg_attr(any(target_arch = "x86_64", target_arch = "aarch64"), target_feature(enable = $features))]
        pub(super) unsafe fn $name(
            state: *mut u64,
            messages: *const *const u8,
            blocks: usize,
            block_size: usize,
            rounds: usize,
        ) {
            // SAFETY: the features of the vector type are enabled here; the caller guarantees the rest.
            unsafe { crate::internal::kernel::$name::$function::<$vector>(state, messages, blocks, block_size, rounds) }
        }
    };
}

#[cfg(target_arch = "x86_64")]
compiled!(avx512, "avx512f,avx512bw,avx2,bmi1,bmi2", crate::internal::vector::avx512::Zmm64<1>);
#[cfg(target_arch = "x86_64")]
compiled!(avx2, "avx2,bmi1,bmi2", crate::internal::vector::avx2::Ymm64);
#[cfg(target_arch = "x86_64")]
compiled!(single_bmi, "bmi1,bmi2", u64);
#[cfg(target_arch = "x86_64")]
compiled!(base, "sse2", crate::internal::vector::sse2::Xmm64);
#[cfg(target_arch = "x86_64")]
compiled!(single, "sse2", u64);
#[cfg(target_arch = "aarch64")]
compiled!(base, "neon", crate::internal::vector::neon::Neon64);
#[cfg(target_feature = "simd128")]
compiled!(base, "simd128", crate::internal::vector::wasm::Simd64);
#[cfg(target_arch = "aarch64")]
compiled!(single, "neon", u64);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compiled!(single, "", u64);
#[cfg(target_arch = "aarch64")]
/// Two lanes with the SHA-3 instructions, which the compiler uses by itself.
mod sha3 {
    compiled!(@ keccak absorb, "neon,sha3", crate::internal::vector::neon::Neon64<true>);
}

// Measured on one core of a Zen 3, batches of 16 messages of 16 KiB, in MB/s: all lanes together (one message alone). AWS-LC reaches 430
// with SHA3-256 and 505 with BLAKE2b.
//             avx2         base
// SHA3-256    1290 (460)   630 (380)
// BLAKE2b     2650 (880)   1210 (920)
macro_rules! select {
    ($selected:ident, $name:ident) => {
        fn $selected(level: Level) -> Kernels {
            let (lanes, side_by_side, single): (usize, AbsorbKernel, AbsorbKernel) = match level.name() {
                #[cfg(target_arch = "x86_64")]
                LevelName::Avx512 => (8, avx512::$name, single_bmi::$name),
                #[cfg(target_arch = "x86_64")]
                LevelName::Vaes | LevelName::Avx2 => (4, avx2::$name, single_bmi::$name),
                #[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_feature = "simd128"))]
                _ => (2, base::$name, single::$name),
                #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_feature = "simd128")))]
                _ => (1, single::$name, single::$name),
            };
            Kernels { lanes, side_by_side, break_even: 2, single }
        }
    };
}
select!(lanes_of_keccak, keccak);
select!(blake2b, blake2b);

fn keccak(level: Level) -> Kernels {
    // On ARM, the feature `sha3` covers SHA-512 and SHA-3.
    #[cfg(target_arch = "aarch64")]
    if level.sha512() {
        return Kernels { side_by_side: sha3::keccak, ..lanes_of_keccak(level) };
    }
    // Two messages in four lanes, against one after the other: on Zen 3 they are 1.4 times as fast, on Emerald Rapids they take 1.15 times
    // as long.
    #[cfg(target_arch = "x86_64")]
    if matches!(level.name(), LevelName::Avx2 | LevelName::Vaes) && !level.is_zen() {
        return Kernels { break_even: 3, ..lanes_of_keccak(level) };
    }
    lanes_of_keccak(level)
}
