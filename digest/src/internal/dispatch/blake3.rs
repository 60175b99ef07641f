//! BLAKE3, compiled for each CPU level, and the choice of the fastest kernels.

use crate::internal::kernel::blake3::{AdvanceKernel, LaneStates, advance};
use crate::level::Level;
#[cfg(target_arch = "x86_64")]
use crate::level::LevelName;

/// The kernels of a CPU level. Only [`Kernels::new`] creates a value: the value proves that this CPU can run them.
#[derive(Clone, Copy)]
pub(crate) struct Kernels {
    /// Lanes of `side_by_side`.
    pub(crate) lanes: usize,
    pub(crate) side_by_side: AdvanceKernel,
    /// From this many inputs on, `side_by_side` is faster than one by one.
    pub(crate) break_even: usize,
    pub(crate) single: AdvanceKernel,
}

macro_rules! compiled {
    ($name:ident, $features:literal, $vector:ty) => {
        /// # Safety
        /// As for [`AdvanceKernel`].
        #[cfg_attr(any(target_arch = "x86_64", target_arch = "aarch64"), target_feature(enable = $features))]
        unsafe fn $name(states: &mut LaneStates, messages: *const *const u8, blocks: usize) {
            // SAFETY: the features of the vector type are enabled here; the caller guarantees the rest.
            unsafe { advance::<$vector>(states, messages, blocks) }
        }
    };
}

#[cfg(target_arch = "x86_64")]
compiled!(avx512, "avx512f,avx512bw,avx2,bmi1,bmi2", crate::internal::vector::avx512::Zmm32<1>);
#[cfg(target_arch = "x86_64")]
compiled!(avx2, "avx2,bmi1,bmi2", crate::internal::vector::avx2::Ymm32);
#[cfg(target_arch = "x86_64")]
compiled!(single_bmi, "bmi1,bmi2", u32);
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
        let (lanes, side_by_side, single): (usize, AdvanceKernel, AdvanceKernel) = match level.name() {
            #[cfg(target_arch = "x86_64")]
            LevelName::Avx512 => (16, avx512, single_bmi),
            #[cfg(target_arch = "x86_64")]
            LevelName::Vaes | LevelName::Avx2 => (8, avx2, single_bmi),
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_feature = "simd128"))]
            _ => (4, base, single),
            #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_feature = "simd128")))]
            _ => (1, single, single),
        };
        Kernels { lanes, side_by_side, break_even: if lanes > 1 { 2 } else { 1 }, single }
    }
}
