//! The kernels, compiled for each CPU level, and the choice of the fastest for each hash function.

#[cfg(target_arch = "x86_64")]
use super::Hash;
use super::Kernels;
use crate::internal::kernel::md5::Md5;
#[cfg(target_arch = "aarch64")]
use crate::internal::kernel::sha_arm;
use crate::internal::kernel::sha1::Sha1;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
use crate::internal::kernel::sha1_checked::Sha1Checked;
use crate::internal::kernel::sha2::{Sha256, Sha512};
use crate::internal::kernel::{CompressKernel, Compression, OuterHash, Segment, compress_segments};
#[cfg(target_arch = "x86_64")]
use crate::internal::kernel::{sha_ni, sha512_prescheduled};
use crate::level::Level;
#[cfg(target_arch = "x86_64")]
use crate::level::LevelName;

/// [`sha512_prescheduled::sha512`] compiled for one set of CPU features.
#[cfg(target_arch = "x86_64")]
macro_rules! prescheduled {
    ($name:ident, $features:literal, $vector:ty) => {
        /// # Safety
        /// As for [`CompressKernel`], with one lane.
        #[target_feature(enable = $features)]
        unsafe fn $name(state: *mut u64, segments: &[Segment], outer: Option<&OuterHash<Sha512>>) {
            // SAFETY: the features of the vector type are enabled here; the caller guarantees the rest.
            unsafe { sha512_prescheduled::sha512::<$vector>(state, segments, outer) }
        }
    };
}

#[cfg(target_arch = "x86_64")]
prescheduled!(sha512_prescheduled_avx512, "avx512f,avx512bw,avx2,bmi1,bmi2", crate::internal::vector::avx512::Zmm64<1>);
#[cfg(target_arch = "x86_64")]
prescheduled!(
    sha512_prescheduled_avx512_latency2,
    "avx512f,avx512bw,avx2,bmi1,bmi2",
    crate::internal::vector::avx512::Zmm64<2>
);
#[cfg(target_arch = "x86_64")]
prescheduled!(sha512_prescheduled_avx2, "avx2,bmi1,bmi2", crate::internal::vector::avx2::Ymm64);

/// A module of compression functions compiled for one set of CPU features.
macro_rules! compiled {
    ($(#[$doc:meta])* $module:ident, $features:literal, $v32:ty, $v64:ty) => {
        $(#[$doc])*
        mod $module {
            use super::*;

            compiled!(@ md5, $features, Md5, $v32);
            compiled!(@ sha1, $features, Sha1, $v32);
            // x86-64 and aarch64 have their own kernels for one message: `sha1_checked`.
            #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
            compiled!(@ sha1_checked, $features, Sha1Checked, $v32);
            compiled!(@ sha256, $features, Sha256, $v32);
            compiled!(@ sha512, $features, Sha512, $v64);
        }
    };
    (@ $name:ident, $features:literal, $hash:ty, $vector:ty) => {
        /// # Safety
        /// As for [`CompressKernel`].
        #[cfg_attr(any(target_arch = "x86_64", target_arch = "aarch64"), target_feature(enable = $features))]
        pub(super) unsafe fn $name(
            state: *mut <$hash as Compression>::Word,
            segments: &[Segment],
            outer: Option<&OuterHash<$hash>>,
        ) {
            // SAFETY: the features of the vector type are enabled here; the caller guarantees the rest.
            unsafe { compress_segments::<$hash, $vector>(state, segments, outer) }
        }
    };
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod sha1_checked;

#[cfg(target_arch = "x86_64")]
compiled!(
    avx512,
    "avx512f,avx512bw,avx2,bmi1,bmi2",
    crate::internal::vector::avx512::Zmm32<1>,
    crate::internal::vector::avx512::Zmm64<1>
);
#[cfg(target_arch = "x86_64")]
/// SHA-2 for CPUs whose vector instructions take two cycles. MD5 and SHA-1 have no such version, because there every instruction waits for
/// the one before anyway.
mod avx512_latency2 {
    use super::*;

    compiled!(@ sha256, "avx512f,avx512bw,avx2,bmi1,bmi2", Sha256, crate::internal::vector::avx512::Zmm32<2>);
    compiled!(@ sha512, "avx512f,avx512bw,avx2,bmi1,bmi2", Sha512, crate::internal::vector::avx512::Zmm64<2>);
}
#[cfg(target_arch = "x86_64")]
compiled!(avx2, "avx2,bmi1,bmi2", crate::internal::vector::avx2::Ymm32, crate::internal::vector::avx2::Ymm64);
/// MD5 in pairs of registers. Every instruction waits for the one before; a second register fills the gaps.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod paired {
    use super::*;
    use crate::internal::vector::register_pair::RegisterPair;

    #[cfg(target_arch = "x86_64")]
    compiled!(@ md5, "avx2,bmi1,bmi2", Md5, RegisterPair<crate::internal::vector::avx2::Ymm32>);
    #[cfg(target_arch = "aarch64")]
    compiled!(@ md5, "neon", Md5, RegisterPair<crate::internal::vector::neon::Neon32>);
}
#[cfg(target_arch = "x86_64")]
compiled!(
    /// One message, with the three-operand and rotate instructions of BMI1 and BMI2.
    single_bmi, "bmi1,bmi2", u32, u64
);
#[cfg(target_arch = "x86_64")]
compiled!(base, "sse2", crate::internal::vector::sse2::Xmm32, crate::internal::vector::sse2::Xmm64);
#[cfg(target_arch = "x86_64")]
compiled!(single, "sse2", u32, u64);
#[cfg(target_arch = "aarch64")]
compiled!(base, "neon", crate::internal::vector::neon::Neon32, crate::internal::vector::neon::Neon64);
#[cfg(target_feature = "simd128")]
compiled!(base, "simd128", crate::internal::vector::wasm::Simd32, crate::internal::vector::wasm::Simd64);
#[cfg(target_arch = "aarch64")]
compiled!(single, "neon", u32, u64);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compiled!(
    /// One message at a time, with no particular CPU features.
    single, "", u32, u64
);

#[cfg(target_arch = "x86_64")]
impl<H: Hash> Kernels<H> {
    /// Sets the number of messages from which on `side_by_side` is faster.
    fn with_break_even(self, break_even: usize) -> Self {
        Kernels { break_even, short_break_even: break_even, ..self }
    }
}

/// Selects the kernels of one hash function, without SHA instructions. The arguments give the number of lanes and the break-even for each
/// level.
macro_rules! select {
    ($name:ident, $hash:ty, avx512 $lanes512:literal from $even512:literal, avx2 $lanes2:literal from $even2:literal,
     base $lanes:literal from $even:literal) => {
        pub(super) fn $name(level: Level) -> Kernels<$hash> {
            let (lanes, side_by_side, break_even, single): (usize, CompressKernel<_>, usize, CompressKernel<_>) =
                match level.name() {
                    #[cfg(target_arch = "x86_64")]
                    LevelName::Avx512 => ($lanes512, avx512::$name, $even512, single_bmi::$name),
                    #[cfg(target_arch = "x86_64")]
                    LevelName::Vaes | LevelName::Avx2 => ($lanes2, avx2::$name, $even2, single_bmi::$name),
                    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_feature = "simd128"))]
                    _ => ($lanes, base::$name, $even, single::$name),
                    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_feature = "simd128")))]
                    _ => (1, single::$name, 1, single::$name),
                };
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
    };
}

// A break-even is the GB/s of one message alone, divided by the GB/s of one lane of many, rounded up. Measured on one core of a Zen 4 at
// 3.7 GHz with messages of 32 KiB, in GB/s: all lanes together (one message alone).
//          avx512       avx2         base         SHA instructions: 4 lanes, 2 lanes (alone)
// MD5      8.2 (0.70)   4.7 (0.75)   2.4 (0.72)
// SHA-1    7.2 (0.87)   4.3 (0.87)   2.1 (0.88)                    3.4 (1.95)
// SHA-256  3.7 (0.38)   1.9 (0.38)   0.9 (0.37)               3.9, 3.6 (1.83)
// SHA-512  3.0 (0.60)   1.5 (0.60)   0.7 (0.57)
//
// Measured on one core of a Zen 5 at 4.5 GHz, AVX-512:
// MD5      8.4 (0.93)
// SHA-1   13.2; SHA instructions: 2 lanes 4.1 (2.3)
// SHA-256  7.8; SHA instructions: 4 lanes 4.0 (2.1)
// SHA-512  6.2 (1.3)
select!(md5, Md5, avx512 16 from 2, avx2 8 from 2, base 4 from 2);
select!(sha1, Sha1, avx512 16 from 2, avx2 8 from 2, base 4 from 2);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
select!(sha1_checked, Sha1Checked, avx512 16 from 5, avx2 8 from 4, base 4 from 3);
select!(sha256, Sha256, avx512 16 from 2, avx2 8 from 2, base 4 from 2);
select!(sha512, Sha512, avx512 8 from 2, avx2 4 from 2, base 2 from 2);

/// With AVX2, sixteen lanes in pairs of registers. Up to eight messages use one register.
#[cfg(target_arch = "x86_64")]
pub(super) fn md5_best(level: Level) -> Kernels<Md5> {
    let few = md5(level);
    match level.name() {
        LevelName::Vaes | LevelName::Avx2 => Kernels {
            lanes: 2 * few.lanes,
            side_by_side: paired::md5,
            break_even: few.lanes + 1,
            short_break_even: few.lanes + 1,
            few_lanes: few.lanes,
            few: few.side_by_side,
            ..few
        },
        _ => few,
    }
}

/// Eight lanes in a pair of registers take hardly longer than four lanes in one register. Even four lanes take longer than two messages one
/// by one.
///
/// Estimates of llvm-mca, in cycles for one byte of each lane, with eight lanes, four, and one message alone:
/// Neoverse N1 12.6, 11.2, 4.2; Neoverse V1 11.3, 10.8, 4.2; Cortex-A72 18.7, 16.9, 4.8.
#[cfg(target_arch = "aarch64")]
pub(super) fn md5_best(level: Level) -> Kernels<Md5> {
    Kernels { lanes: 8, side_by_side: paired::md5, break_even: 4, ..md5(level) }
}

/// On Zen, two messages at a time with the SHA instructions are faster than partly filled lanes, and six are faster than the eight lanes of
/// AVX2. On Zen 3, with messages of 16 KiB, six messages are 1.4 times as fast as in the eight lanes, and more messages 1.05 to 1.13 times.
///
/// Elsewhere, one at a time is as fast as several, and lanes pay off from six messages on. Emerald Rapids with messages of 200 bytes to 16
/// KiB: sixteen lanes take the time of 3.7 to 6.0 messages, eight of AVX2 that of 4.1 to 5.4.
#[cfg(target_arch = "x86_64")]
pub(super) fn sha1_best(level: Level) -> Kernels<Sha1> {
    let (two, single) = (sha_ni::sha1::<2>, sha_ni::sha1::<1>);
    let one_by_one = Kernels { few: single, single, short_single: single, ..sha1(level) };
    let few = Kernels { few_lanes: 2, few: two, ..one_by_one };
    match level.name() {
        _ if !level.sha() => sha1(level),
        LevelName::Base => Kernels { lanes: 2, side_by_side: two, ..one_by_one },
        _ if !level.is_zen() => one_by_one.with_break_even(6),
        LevelName::Avx512 if level.latency() > 1 => few.with_break_even(5),
        LevelName::Avx512 => few.with_break_even(8),
        LevelName::Vaes | LevelName::Avx2 => {
            Kernels { lanes: 6, side_by_side: sha_ni::sha1::<6>, ..few }.with_break_even(4)
        }
    }
}

/// Selects the kernels of `$name`, with `side_by_side` compiled for the CPU's latency.
#[cfg(target_arch = "x86_64")]
macro_rules! for_latency {
    ($level:ident, $name:ident) => {
        match $level.name() {
            LevelName::Avx512 if $level.latency() > 1 => {
                Kernels { side_by_side: avx512_latency2::$name, ..$name($level) }
            }
            _ => $name($level),
        }
    };
}

/// On Zen, four messages at a time with the SHA instructions are faster than eight lanes, and faster than sixteen partly filled lanes. Two
/// take hardly longer than one, and half as long as four.
///
/// Zen 4 works on 512 bits in halves: four may be 5 % faster there than sixteen full lanes, on an otherwise idle core. But it has one unit
/// for SHA instructions: with the other hyperthread busy, sixteen are 10 to 20 % faster.
///
/// Elsewhere, two or three at a time take as long as four, and four at a time hardly less than four one by one. Emerald Rapids with
/// messages of 200 bytes to 16 KiB: sixteen lanes take the time of 6.7 to 9.7 messages.
#[cfg(target_arch = "x86_64")]
pub(super) fn sha256_best(level: Level) -> Kernels<Sha256> {
    let (two, four, single) = (sha_ni::sha256::<2>, sha_ni::sha256::<4>, sha_ni::sha256::<1>);
    let one_by_one = Kernels { few: single, single, short_single: single, ..for_latency!(level, sha256) };
    match level.name() {
        _ if !level.sha() => for_latency!(level, sha256),
        LevelName::Avx512 if !level.is_zen() => one_by_one.with_break_even(10),
        LevelName::Avx512 => {
            Kernels { few_lanes: 4, few: four, ..one_by_one }.with_break_even(super::sha256_break_even(level))
        }
        _ => {
            let few = if level.is_zen() { Kernels { few_lanes: 2, few: two, ..one_by_one } } else { one_by_one };
            Kernels { lanes: 4, side_by_side: four, ..few }.with_break_even(4)
        }
    }
}

/// For one message of more than two blocks, vector registers make the words of later blocks during the rounds.
#[cfg(target_arch = "x86_64")]
pub(super) fn sha512_best(level: Level) -> Kernels<Sha512> {
    // One message alone then reaches 0.93 GB/s with AVX-512 and 0.88 GB/s with AVX2: more than two of the lanes above.
    let (single, break_even): (CompressKernel<Sha512>, usize) = match level.name() {
        LevelName::Avx512 if level.latency() > 1 => (sha512_prescheduled_avx512_latency2, 2),
        LevelName::Avx512 => (sha512_prescheduled_avx512, 3),
        LevelName::Vaes | LevelName::Avx2 => (sha512_prescheduled_avx2, 3),
        LevelName::Base => return sha512(level),
    };
    // Two short messages are faster in lanes.
    Kernels { few: single, single, break_even, short_break_even: 2, ..for_latency!(level, sha512) }
}

/// With the SHA instructions, two messages at a time; without them, the lanes of NEON.
///
/// llvm-mca's model of a Neoverse N1 estimates 1.53 cycles a byte for SHA-256 of one message, 0.92 of two, and no gain from a third.
#[cfg(target_arch = "aarch64")]
macro_rules! select_arm {
    ($best:ident, $name:ident, $hash:ty, $has:ident) => {
        pub(super) fn $best(level: Level) -> Kernels<$hash> {
            let (two, single) = (sha_arm::$name::<2>, sha_arm::$name::<1>);
            if level.$has() {
                Kernels { lanes: 2, side_by_side: two, few: single, single, short_single: single, ..$name(level) }
            } else {
                $name(level)
            }
        }
    };
}

#[cfg(target_arch = "aarch64")]
select_arm!(sha1_best, sha1, Sha1, sha);
#[cfg(target_arch = "aarch64")]
select_arm!(sha256_best, sha256, Sha256, sha);
#[cfg(target_arch = "aarch64")]
select_arm!(sha512_best, sha512, Sha512, sha512);

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) use sha1_checked::sha1_checked_best;

/// Other architectures have only the kernels that `select` chooses.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) use {
    md5 as md5_best, sha1 as sha1_best, sha1_checked as sha1_checked_best, sha256 as sha256_best, sha512 as sha512_best,
};
