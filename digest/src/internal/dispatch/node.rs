//! The kernels of `kernel::node`, compiled for each CPU level, and the choice of the fastest.

#[cfg(target_arch = "x86_64")]
use super::sha256_break_even;
use crate::internal::kernel::node::{DIGEST_SIZE, NodeKernel, digest_nodes};
#[cfg(target_arch = "x86_64")]
use crate::internal::kernel::sha_ni;
use crate::level::Level;
#[cfg(target_arch = "x86_64")]
use crate::level::LevelName;

/// The kernels of a CPU level. Only [`Kernels::new`] creates a value: the value proves that this CPU can run them.
#[derive(Clone, Copy)]
pub(crate) struct Kernels {
    /// Lanes of `many`.
    lanes: usize,
    many: NodeKernel,
    /// A last group of at least this many pairs goes to `many`.
    break_even: usize,
    few: NodeKernel,
}

macro_rules! compiled {
    ($name:ident, $features:literal, $vector:ty) => {
        /// # Safety
        /// As for [`NodeKernel`].
        #[cfg_attr(any(target_arch = "x86_64", target_arch = "aarch64"), target_feature(enable = $features))]
        unsafe fn $name(pairs: *const u8, to: *mut u8, count: usize, twice: bool) {
            // SAFETY: the features of the vector type are enabled here; the caller guarantees the rest.
            unsafe { digest_nodes::<$vector>(pairs, to, count, twice) }
        }
    };
}

#[cfg(target_arch = "x86_64")]
compiled!(avx512, "avx512f,avx512bw,avx2,bmi1,bmi2", crate::internal::vector::avx512::Zmm32<1>);
#[cfg(target_arch = "x86_64")]
compiled!(avx512_latency2, "avx512f,avx512bw,avx2,bmi1,bmi2", crate::internal::vector::avx512::Zmm32<2>);
#[cfg(target_arch = "x86_64")]
compiled!(avx2, "avx2,bmi1,bmi2", crate::internal::vector::avx2::Ymm32);
#[cfg(target_arch = "x86_64")]
compiled!(base, "sse2", crate::internal::vector::sse2::Xmm32);
#[cfg(target_arch = "x86_64")]
compiled!(single, "sse2", u32);
#[cfg(target_arch = "aarch64")]
compiled!(base, "neon", crate::internal::vector::neon::Neon32);
#[cfg(target_feature = "simd128")]
compiled!(base, "simd128", crate::internal::vector::wasm::Simd32);
#[cfg(target_arch = "aarch64")]
compiled!(single, "neon", u32);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compiled!(single, "", u32);

impl Kernels {
    /// Returns the kernels of a CPU.
    pub(crate) fn new(level: Level) -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            let (lanes, many): (usize, NodeKernel) = match level.name() {
                LevelName::Avx512 if level.latency() > 1 => (16, avx512_latency2),
                LevelName::Avx512 => (16, avx512),
                LevelName::Vaes | LevelName::Avx2 => (8, avx2),
                LevelName::Base => (4, base),
            };
            if !level.sha() {
                return Kernels { lanes, many, break_even: 2, few: single };
            }
            let break_even = sha256_break_even(level);
            match level.name() {
                LevelName::Avx512 => Kernels { lanes, many, break_even, few: sha_ni::sha256_nodes },
                _ => Kernels { lanes: 1, many: sha_ni::sha256_nodes, break_even: 1, few: sha_ni::sha256_nodes },
            }
        }
        #[cfg(target_arch = "aarch64")]
        {
            let _ = level;
            Kernels { lanes: 4, many: base, break_even: 2, few: single }
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        {
            let _ = level;
            #[cfg(target_feature = "simd128")]
            return Kernels { lanes: 4, many: base, break_even: 2, few: single };
            #[cfg(not(target_feature = "simd128"))]
            Kernels { lanes: 1, many: single, break_even: 1, few: single }
        }
    }

    /// Digests pairs.
    ///
    /// # Safety
    /// As for [`NodeKernel`], except for the level.
    pub(crate) unsafe fn run(self, pairs: *const u8, to: *mut u8, count: usize, twice: bool) {
        let left = count % self.lanes;
        let whole = if left < self.break_even { count - left } else { count };
        // SAFETY: the CPU has the instructions because `self` exists. The two parts do not reach past the caller's pairs. The digests of
        // the first part lie before the pairs of the second part.
        unsafe {
            if whole > 0 {
                (self.many)(pairs, to, whole, twice);
            }
            if whole < count {
                (self.few)(pairs.add(2 * DIGEST_SIZE * whole), to.add(DIGEST_SIZE * whole), count - whole, twice);
            }
        }
    }
}
