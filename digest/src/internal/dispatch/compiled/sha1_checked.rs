//! SHA-1 with collision detection.

#[cfg(target_arch = "aarch64")]
use super::sha_arm as sha;
use super::single;
#[cfg(target_arch = "x86_64")]
use super::{LevelName, sha_ni as sha, single_bmi};
use crate::internal::dispatch::Kernels;
use crate::internal::kernel::sha1_checked::{Sha1Checked, one_message};
use crate::internal::kernel::{CompressKernel, Compression, OuterHash, Segment, compress_segments};
#[cfg(target_arch = "aarch64")]
use crate::internal::vector::neon::Neon32;
#[cfg(target_arch = "x86_64")]
use crate::internal::vector::{avx2::Ymm32, avx512::Zmm32, sse2::Xmm32};
use crate::level::Level;

/// [`one_message`] compiled for one set of CPU features, over a kernel of SHA-1 for one message.
macro_rules! one_message {
    ($name:ident, $features:literal, $vector:ty, $sha1:path) => {
        /// # Safety
        /// As for [`CompressKernel`], with one lane.
        #[target_feature(enable = $features)]
        unsafe fn $name(state: *mut u32, segments: &[Segment], _: Option<&OuterHash<Sha1Checked>>) {
            // SAFETY: the features of the vector type are enabled here; the caller guarantees the rest.
            unsafe { one_message::<$vector>(state, segments, $sha1) }
        }
    };
}

#[cfg(target_arch = "x86_64")]
one_message!(avx512_with_sha, "avx512f,avx512bw,avx2,bmi1,bmi2", Zmm32<1>, sha::sha1::<1>);
#[cfg(target_arch = "x86_64")]
one_message!(avx512, "avx512f,avx512bw,avx2,bmi1,bmi2", Zmm32<1>, single_bmi::sha1);
#[cfg(target_arch = "x86_64")]
one_message!(avx2_with_sha, "avx2,bmi1,bmi2", Ymm32, sha::sha1::<1>);
#[cfg(target_arch = "x86_64")]
one_message!(avx2, "avx2,bmi1,bmi2", Ymm32, single_bmi::sha1);
#[cfg(target_arch = "x86_64")]
one_message!(base_with_sha, "sse2", Xmm32, sha::sha1::<1>);
#[cfg(target_arch = "x86_64")]
one_message!(base, "sse2", Xmm32, single::sha1);
#[cfg(target_arch = "aarch64")]
one_message!(base_with_sha, "neon", Neon32, sha::sha1::<1>);
#[cfg(target_arch = "aarch64")]
one_message!(base, "neon", Neon32, single::sha1);

#[cfg(target_arch = "x86_64")]
compiled!(@ avx512_lanes, "avx512f,avx512bw,avx2,bmi1,bmi2", Sha1Checked, Zmm32<1>);
#[cfg(target_arch = "x86_64")]
compiled!(@ avx2_lanes, "avx2,bmi1,bmi2", Sha1Checked, Ymm32);
#[cfg(target_arch = "x86_64")]
compiled!(@ base_lanes, "sse2", Sha1Checked, Xmm32);
#[cfg(target_arch = "aarch64")]
compiled!(@ base_lanes, "neon", Sha1Checked, Neon32);

/// Side by side beats one by one only from several messages on, and with the SHA instructions from more.
///
/// A Xeon of the generation Sapphire Rapids takes 493 ns for a block in each of 16 lanes, 375 ns for 8 lanes and 347 ns for 4. A block of
/// one message takes 74 to 106 ns.
pub(in crate::internal::dispatch) fn sha1_checked_best(level: Level) -> Kernels<Sha1Checked> {
    // The pairs of kernels and of break-evens: with the SHA instructions, then without.
    let (lanes, side_by_side, single, break_even): (usize, CompressKernel<_>, [CompressKernel<_>; 2], [usize; 2]) =
        match level.name() {
            #[cfg(target_arch = "x86_64")]
            LevelName::Avx512 => (16, avx512_lanes, [avx512_with_sha, avx512], [7, 5]),
            #[cfg(target_arch = "x86_64")]
            LevelName::Vaes | LevelName::Avx2 => (8, avx2_lanes, [avx2_with_sha, avx2], [5, 4]),
            _ => (4, base_lanes, [base_with_sha, base], [4, 3]),
        };
    let without_sha = usize::from(!level.sha());
    let (single, break_even) = (single[without_sha], break_even[without_sha]);
    Kernels {
        lanes,
        side_by_side,
        break_even,
        short_break_even: break_even,
        few_lanes: 1,
        few: single,
        single,
        short_single: single,
    }
}
