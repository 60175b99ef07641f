//! The features of this CPU, detected at run time.

#[cfg(feature = "alloc")]
mod parse;

#[cfg(feature = "alloc")]
use alloc::vec::Vec;
use core::fmt;
#[cfg(target_arch = "x86_64")]
use core::sync::atomic::AtomicU32;
use core::sync::atomic::{AtomicU8, Ordering};

#[cfg(feature = "alloc")]
pub use parse::UnknownLevel;

/// A set of instructions that kernels are compiled for. The order is from the lowest level to the highest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LevelName {
    /// The baseline of the architecture: SSE2 on x86-64, NEON on aarch64, SIMD128 in WebAssembly. This level also uses AES and SHA
    /// instructions, if the CPU has them.
    Base,
    /// AVX2, BMI1 and BMI2.
    Avx2,
    /// AES instructions and carry-less multiplication for two blocks in an AVX2 register (VAES, VPCLMULQDQ), on top of AVX2.
    Vaes,
    /// AVX-512 F and BW on top of AVX2.
    Avx512,
}

impl LevelName {
    /// All levels, lowest first.
    pub const ALL: [LevelName; 4] = [LevelName::Base, LevelName::Avx2, LevelName::Vaes, LevelName::Avx512];

    /// The name, as in the environment variable `GANTRY_CPU` of Gantry's programs. This crate does not read the variable.
    pub fn as_str(self) -> &'static str {
        match self {
            LevelName::Base => "base",
            LevelName::Avx2 => "avx2",
            LevelName::Vaes => "vaes",
            LevelName::Avx512 => "avx512",
        }
    }
}

/// The highest level that may be used, as its index in [`LevelName::ALL`].
static MAX_LEVEL_INDEX: AtomicU8 = AtomicU8::new(LevelName::Avx512 as u8);

/// Restricts this process to this level and those below it, from now on. For measurements, and for a CPU whose instructions are
/// not to be trusted.
pub fn limit_level(level: LevelName) {
    MAX_LEVEL_INDEX.store(level as u8, Ordering::Relaxed);
}

impl fmt::Display for LevelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The level in use and individual CPU features. Every value comes from detection, perhaps with features masked, so it proves that the
/// CPU has the features it lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "features of a CPU are independent of each other")]
pub struct Level {
    name: LevelName,
    detected: LevelName,
    aes: bool,
    vaes: bool,
    /// Carry-less multiplication of four pairs in an AVX-512 register.
    vpclmul: bool,
    /// The CPU supports the level [`Vaes`](LevelName::Vaes).
    vaes256: bool,
    sha: bool,
    sha512: bool,
    is_zen: bool,
    latency: u32,
}

impl Level {
    /// Returns the highest level of this CPU that is not above `limit`.
    pub fn detect_at_most(limit: Option<LevelName>) -> Level {
        let cpu = detect();
        let name = match limit.map_or(cpu.name, |limit| limit.min(cpu.name)) {
            // A CPU with AVX-512 may lack VAES.
            LevelName::Vaes if !cpu.vaes256 => LevelName::Avx2,
            name => name,
        };
        let wide = name == LevelName::Avx512;
        let latency = if wide { cpu.latency } else { 1 };
        Level { name, vaes: cpu.vaes && wide, vpclmul: cpu.vpclmul && wide, latency, ..cpu }
    }

    /// Returns the highest level that [`limit_level`] allows; the functions of this crate use it.
    pub(crate) fn in_use() -> Level {
        let limit = LevelName::ALL[MAX_LEVEL_INDEX.load(Ordering::Relaxed) as usize];
        #[cfg(not(feature = "std"))]
        return Level::detect_at_most(Some(limit));
        #[cfg(feature = "std")]
        {
            // Cached, because detection makes a dozen checks, and one short message takes less than 100 ns.
            static LEVELS: [std::sync::OnceLock<Level>; 4] = [const { std::sync::OnceLock::new() }; 4];
            *LEVELS[limit as usize].get_or_init(|| Level::detect_at_most(Some(limit)))
        }
    }

    /// The level in use.
    pub fn name(self) -> LevelName {
        self.name
    }

    /// The highest level of this CPU, ignoring the limit.
    pub fn detected(self) -> LevelName {
        self.detected
    }

    /// AES instructions for one block.
    pub fn aes(self) -> bool {
        self.aes
    }

    /// AES instructions for four blocks in an AVX-512 register, together with the VBMI instructions that XTS needs. Only on the
    /// level `Avx512`.
    pub fn vaes(self) -> bool {
        self.vaes
    }

    /// AES instructions for two blocks or more.
    pub fn wide_aes(self) -> bool {
        self.vaes || self.name == LevelName::Vaes
    }

    /// Carry-less multiplication with registers as wide as those of [`wide_aes`](Self::wide_aes).
    pub fn vpclmul(self) -> bool {
        self.vaes && self.vpclmul || self.name == LevelName::Vaes
    }

    /// SHA-1 and SHA-256 instructions for one message.
    pub fn sha(self) -> bool {
        self.sha
    }

    /// SHA-512 and SHA-3 instructions of ARM, which fewer CPUs have than [`sha`](Self::sha). The SHA-512 instructions of x86-64 have no
    /// kernel here.
    pub fn sha512(self) -> bool {
        self.sha512
    }

    /// A core of AMD or Hygon, of the designs called Zen. Its SHA instructions for several messages overlap. On Intel's cores they do not:
    /// several messages take as long as one after the other. The design selects among kernels with equal results.
    pub fn is_zen(self) -> bool {
        self.is_zen
    }

    /// Latency of a simple AVX-512 instruction, in cycles: 2 on AMD CPUs since Zen 5, otherwise 1. A Zen 5 starts four such
    /// instructions per cycle, or two of AES, and has six integer units. The latency selects among kernels with equal results.
    pub fn latency(self) -> u32 {
        self.latency
    }
}

/// Returns the lowest level as of a CPU without AES instructions, for tests of drivers.
pub fn base_without_aes() -> Level {
    Level { aes: false, ..Level::detect_at_most(Some(LevelName::Base)) }
}

/// Returns the levels for tests of kernels: every level of this CPU, and variants of each. A variant lacks a feature, or has the other
/// latency or the other value of `is_zen`.
#[cfg(feature = "alloc")]
pub fn every_level() -> Vec<Level> {
    let mut levels = Vec::new();
    for name in LevelName::ALL {
        let level = Level::detect_at_most(Some(name));
        let others = [
            Level { sha: false, ..level },
            Level { sha512: false, ..level },
            Level { vpclmul: false, ..level },
            Level { vaes: false, vpclmul: false, ..level },
            Level { is_zen: level.is_zen != (level.name > LevelName::Base), ..level },
            Level { latency: if level.name == LevelName::Avx512 { 3 - level.latency } else { 1 }, ..level },
        ];
        for other in [level].into_iter().chain(others) {
            if !levels.contains(&other) {
                levels.push(other);
            }
        }
    }
    levels
}

/// Without the standard library there is no detection: the features are those enabled at compile time.
#[cfg(not(feature = "std"))]
#[allow(unused_macros, reason = "there are architectures without kernels of their own")]
macro_rules! has {
    ($feature:tt) => {
        cfg!(target_feature = $feature)
    };
}

/// Detects this CPU, without a limit.
#[cfg(target_arch = "x86_64")]
fn detect() -> Level {
    #[cfg(feature = "std")]
    use std::arch::is_x86_feature_detected as has;
    let avx2 = has!("avx2") && has!("bmi1") && has!("bmi2");
    let avx512 = avx2 && has!("avx512f") && has!("avx512bw");
    let vaes256 = avx2 && has!("aes") && has!("vaes") && has!("pclmulqdq") && has!("vpclmulqdq");
    let name = match (avx512, vaes256, avx2) {
        (true, ..) => LevelName::Avx512,
        (_, true, _) => LevelName::Vaes,
        (.., true) => LevelName::Avx2,
        _ => LevelName::Base,
    };
    let sha = has!("sha") && has!("ssse3") && has!("sse4.1");
    Level {
        name,
        detected: name,
        aes: has!("aes"),
        // Every CPU with AVX-512 and VAES has VBMI.
        vaes: avx512 && has!("vaes") && has!("avx512vbmi"),
        vpclmul: avx512 && has!("pclmulqdq") && has!("vpclmulqdq"),
        vaes256,
        sha,
        sha512: false,
        is_zen: zen_family().is_some(),
        latency: if zen_family() >= Some(0x1a) { 2 } else { 1 },
    }
}

/// Returns the family of an AMD or Hygon CPU with a core of the design Zen.
#[cfg(target_arch = "x86_64")]
fn zen_family() -> Option<u32> {
    const UNKNOWN: u32 = u32::MAX;
    // Cached, 0 for other CPUs: under a hypervisor, CPUID takes microseconds.
    static FAMILY: AtomicU32 = AtomicU32::new(UNKNOWN);
    let mut family = FAMILY.load(Ordering::Relaxed);
    if family == UNKNOWN {
        family = detect_zen_family().unwrap_or(0);
        FAMILY.store(family, Ordering::Relaxed);
    }
    (family != 0).then_some(family)
}

/// Asks the CPU: 17h is the first Zen, 18h is Hygon's, 1Ah is Zen 5. The AMD64 Architecture Programmer's Manual describes CPUID functions
/// 0 and 1 in volume 3, appendix E.
#[cfg(target_arch = "x86_64")]
fn detect_zen_family() -> Option<u32> {
    use core::arch::x86_64::__cpuid;
    let vendor = __cpuid(0);
    let name = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes);
    let version = __cpuid(1).eax;
    let (base, extended) = (version >> 8 & 0xf, version >> 20 & 0xff);
    let is_amd = [b"AuthenticAMD", b"HygonGenuine"].contains(&name.as_flattened().try_into().ok()?);
    Some(base + extended).filter(|family| is_amd && base == 0xf && *family >= 0x17)
}

/// Detects this CPU. NEON is part of the architecture.
#[cfg(target_arch = "aarch64")]
fn detect() -> Level {
    #[cfg(feature = "std")]
    use std::arch::is_aarch64_feature_detected as has;
    let name = LevelName::Base;
    Level {
        name,
        detected: name,
        aes: has!("aes"),
        vaes: false,
        vpclmul: false,
        vaes256: false,
        // The feature "sha2" covers SHA-1 and SHA-256, "sha3" covers SHA-512 and SHA-3.
        sha: has!("sha2"),
        sha512: has!("sha3"),
        is_zen: false,
        latency: 1,
    }
}

/// There is nothing to detect: kernels for WebAssembly are chosen at compile time, and other architectures have no SIMD kernels.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn detect() -> Level {
    Level {
        name: LevelName::Base,
        detected: LevelName::Base,
        aes: false,
        vaes: false,
        vpclmul: false,
        vaes256: false,
        sha: false,
        sha512: false,
        is_zen: false,
        latency: 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An instruction set with kernels, and a test for its presence.
    type Instructions = (&'static str, fn(&Level) -> bool);

    #[cfg(target_arch = "x86_64")]
    const INSTRUCTIONS: [Instructions; 8] = [
        ("SSE2", |level| level.name() == LevelName::Base),
        ("AVX2", |level| level.name() == LevelName::Avx2),
        ("AVX-512", |level| level.name() == LevelName::Avx512),
        ("AES", |level| level.aes()),
        ("VAES and VPCLMULQDQ of 256 bits", |level| level.name() == LevelName::Vaes),
        ("VAES of 512 bits", |level| level.vaes()),
        ("VPCLMULQDQ of 512 bits", |level| level.vaes() && level.vpclmul),
        ("SHA", |level| level.sha()),
    ];
    #[cfg(target_arch = "aarch64")]
    const INSTRUCTIONS: [Instructions; 4] = [
        ("NEON", |_| true),
        ("AES", |level| level.aes()),
        ("SHA-1 and SHA-256", |level| level.sha()),
        ("SHA-512 and SHA-3", |level| level.sha512()),
    ];
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    const INSTRUCTIONS: [Instructions; 0] = [];

    /// Lists the instruction sets that the kernel tests cover on this CPU, for `scripts/kernels`. The tests use `every_level`, so they
    /// skip instructions that the CPU lacks, silently.
    #[test]
    fn lists_the_instructions_whose_kernels_are_tested() {
        let levels = every_level();
        for (name, has) in INSTRUCTIONS {
            println!(
                "kernels\t{}\t{name}\t{}",
                std::env::consts::ARCH,
                if levels.iter().any(has) { "run" } else { "-" }
            );
        }
        assert!(levels.contains(&Level::detect_at_most(None)));
    }

    #[test]
    fn a_limit_lowers_the_level_and_never_raises_it() {
        let cpu = Level::detect_at_most(None);
        assert_eq!(cpu.name(), cpu.detected());
        for limit in LevelName::ALL {
            let level = Level::detect_at_most(Some(limit));
            let lacks = limit == LevelName::Vaes && !cpu.vaes256 && cpu.name() > limit;
            assert_eq!(level.name(), if lacks { LevelName::Avx2 } else { limit.min(cpu.name()) });
            assert_eq!(level.detected(), cpu.detected());
            assert!(!level.vaes() || level.name() == LevelName::Avx512);
        }
    }

    #[test]
    fn level_names_round_trip_and_unknown_names_are_rejected() {
        for level in LevelName::ALL {
            assert_eq!(level.to_string().parse(), Ok(level));
        }
        let error = "AVX512".parse::<LevelName>().unwrap_err();
        assert_eq!(error.to_string(), "unknown CPU level \"AVX512\" (avx512, vaes, avx2 or base)");
    }
}
