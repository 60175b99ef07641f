//! The kernels compiled for each CPU level, and for each hash function those that are the fastest there.

use super::md5::Md5;
#[cfg(target_arch = "aarch64")]
use super::sha_arm;
use super::sha1::Sha1;
use super::sha2::{Sha256, Sha512};
use super::{Compress, Hash, Kernels, Outer, Segment, run};
#[cfg(target_arch = "x86_64")]
use super::{sha_ni, sha512_ahead};
use crate::level::Level;
#[cfg(target_arch = "x86_64")]
use crate::level::LevelName;

/// [`sha512_ahead::sha512`] compiled for one set of CPU features.
#[cfg(target_arch = "x86_64")]
macro_rules! ahead {
    ($name:ident, $features:literal, $vector:ty) => {
        /// # Safety
        /// That of [`Compress`], with one lane.
        #[target_feature(enable = $features)]
        unsafe fn $name(state: *mut u64, segments: &[Segment], outer: Option<&Outer<Sha512>>) {
            // SAFETY: the features of the vector type are on here; the rest is the caller's promise.
            unsafe { sha512_ahead::sha512::<$vector>(state, segments, outer) }
        }
    };
}

#[cfg(target_arch = "x86_64")]
ahead!(sha512_ahead_avx512, "avx512f,avx512bw,avx2,bmi1,bmi2", crate::vector::avx512::Zmm64<1>);
#[cfg(target_arch = "x86_64")]
ahead!(sha512_ahead_of_six_units, "avx512f,avx512bw,avx2,bmi1,bmi2", crate::vector::avx512::Zmm64<2>);
#[cfg(target_arch = "x86_64")]
ahead!(sha512_ahead_avx2, "avx2,bmi1,bmi2", crate::vector::avx2::Ymm64);

/// A module of compression functions compiled for one set of CPU features.
macro_rules! compiled {
    ($(#[$doc:meta])* $module:ident, $features:literal, $v32:ty, $v64:ty) => {
        $(#[$doc])*
        mod $module {
            use super::*;

            compiled!(@ md5, $features, Md5, $v32);
            compiled!(@ sha1, $features, Sha1, $v32);
            compiled!(@ sha256, $features, Sha256, $v32);
            compiled!(@ sha512, $features, Sha512, $v64);
        }
    };
    (@ $name:ident, $features:literal, $hash:ty, $vector:ty) => {
        /// # Safety
        /// That of [`Compress`].
        #[cfg_attr(any(target_arch = "x86_64", target_arch = "aarch64"), target_feature(enable = $features))]
        pub(super) unsafe fn $name(
            state: *mut <$hash as Hash>::Word,
            segments: &[Segment],
            outer: Option<&Outer<$hash>>,
        ) {
            // SAFETY: the features of the vector type are on here; the rest is the caller's promise.
            unsafe { run::<$hash, $vector>(state, segments, outer) }
        }
    };
}

#[cfg(target_arch = "x86_64")]
compiled!(avx512, "avx512f,avx512bw,avx2,bmi1,bmi2", crate::vector::avx512::Zmm32<1>, crate::vector::avx512::Zmm64<1>);
#[cfg(target_arch = "x86_64")]
/// SHA-2 where results take two cycles. (MD5 and SHA-1 are chains in which every instruction waits for the one before anyway.)
mod avx512_of_two_cycles {
    use super::*;

    compiled!(@ sha256, "avx512f,avx512bw,avx2,bmi1,bmi2", Sha256, crate::vector::avx512::Zmm32<2>);
    compiled!(@ sha512, "avx512f,avx512bw,avx2,bmi1,bmi2", Sha512, crate::vector::avx512::Zmm64<2>);
}
#[cfg(target_arch = "x86_64")]
compiled!(avx2, "avx2,bmi1,bmi2", crate::vector::avx2::Ymm32, crate::vector::avx2::Ymm64);
/// MD5 is a chain in which every instruction waits for the one before: two of them go side by side.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod twice {
    use super::*;
    use crate::vector::pair::Pair;

    #[cfg(target_arch = "x86_64")]
    compiled!(@ md5, "avx2,bmi1,bmi2", Md5, Pair<crate::vector::avx2::Ymm32>);
    #[cfg(target_arch = "aarch64")]
    compiled!(@ md5, "neon", Md5, Pair<crate::vector::neon::Neon32>);
}
#[cfg(target_arch = "x86_64")]
compiled!(
    /// One message, with the three-operand and rotate instructions that come with AVX2.
    single_bmi, "bmi1,bmi2", u32, u64
);
#[cfg(target_arch = "x86_64")]
compiled!(base, "sse2", crate::vector::sse2::Xmm32, crate::vector::sse2::Xmm64);
#[cfg(target_arch = "x86_64")]
compiled!(single, "sse2", u32, u64);
#[cfg(target_arch = "aarch64")]
compiled!(base, "neon", crate::vector::neon::Neon32, crate::vector::neon::Neon64);
#[cfg(target_arch = "aarch64")]
compiled!(single, "neon", u32, u64);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compiled!(
    /// One message at a time, and no instructions of their own.
    single, "", u32, u64
);

/// Puts together the kernels of one hash function out of those without instructions of its own: for each level the lanes,
/// and from how many on they pay.
macro_rules! select {
    ($name:ident, $hash:ty, avx512 $lanes512:literal from $even512:literal, avx2 $lanes2:literal from $even2:literal,
     base $lanes:literal from $even:literal) => {
        pub(super) fn $name(level: Level) -> Kernels<$hash> {
            let (lanes, side_by_side, break_even, single): (usize, Compress<_>, usize, Compress<_>) = match level.name()
            {
                #[cfg(target_arch = "x86_64")]
                LevelName::Avx512 => ($lanes512, avx512::$name, $even512, single_bmi::$name),
                #[cfg(target_arch = "x86_64")]
                LevelName::Vaes | LevelName::Avx2 => ($lanes2, avx2::$name, $even2, single_bmi::$name),
                #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
                _ => ($lanes, base::$name, $even, single::$name),
                #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
                _ => (1, single::$name, 1, single::$name),
            };
            Kernels { lanes, side_by_side, break_even, few_lanes: 1, few: single, single }
        }
    };
}

// Break-evens: GB/s of one message alone over GB/s of one lane of many, rounded up. Measured on one core of a Zen 4 at
// 3.7 GHz, messages of 32 KiB: GB/s of all lanes, in brackets of one message alone.
//          avx512       avx2         base         SHA instructions: 4 lanes, 2 lanes (alone)
// MD5      8.2 (0.70)   4.7 (0.75)   2.4 (0.72)
// SHA-1    7.2 (0.87)   4.3 (0.87)   2.1 (0.88)                    3.4 (1.95)
// SHA-256  3.7 (0.38)   1.9 (0.38)   0.9 (0.37)               3.9, 3.6 (1.83)
// SHA-512  3.0 (0.60)   1.5 (0.60)   0.7 (0.57)
// On one core of a Zen 5 at 4.5 GHz, with AVX-512: MD5 8.4 (0.93), SHA-1 13.2 (two lanes of SHA instructions 4.1, alone 2.3), SHA-256 7.8
// (four 4.0, alone 2.1), SHA-512 6.2 (1.3).
select!(md5, Md5, avx512 16 from 2, avx2 8 from 2, base 4 from 2);
select!(sha1, Sha1, avx512 16 from 2, avx2 8 from 2, base 4 from 2);
select!(sha256, Sha256, avx512 16 from 2, avx2 8 from 2, base 4 from 2);
select!(sha512, Sha512, avx512 8 from 2, avx2 4 from 2, base 2 from 2);

/// Sixteen lanes with AVX2, too. Up to eight messages go in one register.
#[cfg(target_arch = "x86_64")]
pub(super) fn md5_best(level: Level) -> Kernels<Md5> {
    let few = md5(level);
    match level.name() {
        LevelName::Vaes | LevelName::Avx2 => Kernels {
            lanes: 2 * few.lanes,
            side_by_side: twice::md5,
            break_even: few.lanes + 1,
            few_lanes: few.lanes,
            few: few.side_by_side,
            ..few
        },
        _ => few,
    }
}

/// Eight lanes take hardly longer than the four of one register, and four longer than two messages one after the other. Cycles for one
/// byte of each lane, as llvm-mca estimates them, of eight, of four and of one alone: 12.6, 11.2 and 4.2 on a Neoverse N1, 11.3, 10.8 and
/// 4.2 on a V1, and 18.7, 16.9 and 4.8 on a Cortex-A72.
#[cfg(target_arch = "aarch64")]
pub(super) fn md5_best(level: Level) -> Kernels<Md5> {
    Kernels { lanes: 8, side_by_side: twice::md5, break_even: 4, ..md5(level) }
}

/// With the SHA instructions, two messages at a time are faster than a few lanes, and six than the eight lanes of AVX2 (Zen 3, 16 KiB: 1.4
/// times as fast for six messages, 1.05 to 1.13 for more).
#[cfg(target_arch = "x86_64")]
pub(super) fn sha1_best(level: Level) -> Kernels<Sha1> {
    let (two, single) = (sha_ni::sha1::<2>, sha_ni::sha1::<1>);
    let few = Kernels { few_lanes: 2, few: two, single, ..sha1(level) };
    match level.name() {
        _ if !level.sha() => sha1(level),
        LevelName::Avx512 if level.latency() > 1 => Kernels { break_even: 5, ..few },
        LevelName::Avx512 => Kernels { break_even: 8, ..few },
        LevelName::Vaes | LevelName::Avx2 => {
            Kernels { lanes: 6, side_by_side: sha_ni::sha1::<6>, break_even: 4, ..few }
        }
        LevelName::Base => Kernels { lanes: 2, side_by_side: two, break_even: 2, few_lanes: 1, few: single, single },
    }
}

/// The same with the kernels of the CPU's latency.
#[cfg(target_arch = "x86_64")]
macro_rules! of_latency {
    ($level:ident, $name:ident) => {
        match $level.name() {
            LevelName::Avx512 if $level.latency() > 1 => {
                Kernels { side_by_side: avx512_of_two_cycles::$name, ..$name($level) }
            }
            _ => $name($level),
        }
    };
}

/// With the SHA instructions, four messages at a time are faster than eight lanes, and than sixteen if not all of them are busy.
/// Four may be 5 % faster than sixteen where the CPU works on 512 bits in halves (Zen 4) and nothing else runs on the core. But it
/// has one unit for these instructions: with the other hyperthread busy sixteen are 10 to 20 % faster.
#[cfg(target_arch = "x86_64")]
pub(super) fn sha256_best(level: Level) -> Kernels<Sha256> {
    let (four, single) = (sha_ni::sha256::<4>, sha_ni::sha256::<1>);
    match level.name() {
        _ if !level.sha() => of_latency!(level, sha256),
        LevelName::Avx512 => {
            let break_even = if level.latency() > 1 { 9 } else { 16 };
            Kernels { break_even, few_lanes: 4, few: four, single, ..of_latency!(level, sha256) }
        }
        _ => Kernels { lanes: 4, side_by_side: four, break_even: 2, few_lanes: 1, few: single, single },
    }
}

/// For one message, words are made ahead.
#[cfg(target_arch = "x86_64")]
pub(super) fn sha512_best(level: Level) -> Kernels<Sha512> {
    // One message alone then takes 0.93 GB/s with AVX-512 and 0.88 with AVX2: more than two of the lanes above.
    let (single, break_even): (Compress<Sha512>, usize) = match level.name() {
        LevelName::Avx512 if level.latency() > 1 => (sha512_ahead_of_six_units, 2),
        LevelName::Avx512 => (sha512_ahead_avx512, 3),
        LevelName::Vaes | LevelName::Avx2 => (sha512_ahead_avx2, 3),
        LevelName::Base => return sha512(level),
    };
    Kernels { few: single, single, break_even, ..of_latency!(level, sha512) }
}

/// With the SHA instructions two messages at a time: llvm-mca's model of a Neoverse N1 has 1.53 cycles a byte for SHA-256 of one, 0.92 of
/// two, and nothing better of three. Without the instructions NEON's lanes.
#[cfg(target_arch = "aarch64")]
macro_rules! select_arm {
    ($best:ident, $name:ident, $hash:ty, $has:ident) => {
        pub(super) fn $best(level: Level) -> Kernels<$hash> {
            let (two, single) = (sha_arm::$name::<2>, sha_arm::$name::<1>);
            if level.$has() {
                Kernels { lanes: 2, side_by_side: two, break_even: 2, few_lanes: 1, few: single, single }
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

/// Elsewhere there is one kernel for each.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) use {md5 as md5_best, sha1 as sha1_best, sha256 as sha256_best, sha512 as sha512_best};
