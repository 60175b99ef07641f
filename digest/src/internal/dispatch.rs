//! The choice of the fastest kernels for a CPU at run time.

#[cfg(target_arch = "x86_64")]
pub mod after_prefix;
pub(crate) mod blake3;
mod compiled;
pub(crate) mod node;
pub mod sponge;

use crate::internal::kernel::iterate::IterateKernel;
use crate::internal::kernel::md5::Md5;
#[cfg(target_arch = "x86_64")]
use crate::internal::kernel::sha_ni::{iterate_sha1, iterate_sha256};
use crate::internal::kernel::sha1::Sha1;
use crate::internal::kernel::sha1_checked::Sha1Checked;
use crate::internal::kernel::sha2::{Sha256, Sha512};
use crate::internal::kernel::{CompressKernel, Compression, Segment};
use crate::level::{Level, LevelName};

/// The least number of SHA-256 messages for which sixteen lanes of AVX-512 are faster than the SHA instructions. For messages of any
/// length, only Zen uses this number: `compiled::sha256_best` has its own for other CPUs.
#[cfg(target_arch = "x86_64")]
fn sha256_break_even(level: Level) -> usize {
    if level.is_zen() && level.latency() == 1 { 16 } else { 9 }
}

/// A hash function of the MD4 family, with its kernels.
pub trait Hash: Compression {
    /// Returns the fastest kernel that iterates `chains` HMACs in registers, and its number of lanes, which may differ from `chains`.
    /// Returns `None` if this CPU has no such kernel.
    fn hmac_chain_kernel(_: Level, _chains: usize) -> Option<(usize, IterateKernel<Self>)> {
        None
    }

    /// Returns the kernels for padded messages at equal distances, if this CPU has any.
    #[cfg(target_arch = "x86_64")]
    fn strided_kernels(_: Level) -> Option<after_prefix::Kernels<Self>> {
        None
    }

    /// Returns the compression functions for a CPU. Not inlined: other crates would compile their own copies.
    fn kernels(level: Level) -> Kernels<Self>;
}

/// The compression functions of one hash function on one CPU level. Only [`Hash::kernels`] creates a value, from a [`Level`]: the value
/// proves that this CPU can run them.
pub struct Kernels<H: Hash> {
    /// Lanes of `side_by_side`.
    pub(crate) lanes: usize,
    pub(crate) side_by_side: CompressKernel<H>,
    /// From this many messages on, `side_by_side` is faster than `few`.
    pub(crate) break_even: usize,
    /// As `break_even`, for messages of one or two blocks.
    pub(crate) short_break_even: usize,
    /// Lanes of `few`; 1 if `few` is `single`.
    pub(crate) few_lanes: usize,
    pub(crate) few: CompressKernel<H>,
    /// For a single message: the fastest kernel of this CPU.
    pub(crate) single: CompressKernel<H>,
    /// For a single message of one or two blocks.
    pub(crate) short_single: CompressKernel<H>,
}

impl<H: Hash> Clone for Kernels<H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H: Hash> Copy for Kernels<H> {}

impl<H: Hash> Kernels<H> {
    /// The maximum number of messages side by side.
    pub fn lanes(&self) -> usize {
        self.lanes
    }

    /// From this many messages on, hashing them together is faster than one by one.
    pub fn min_batch(&self) -> usize {
        // Below the break-even of all lanes, a few together still beat one by one.
        if self.few_lanes > 1 { 2 } else { self.break_even }
    }

    /// Advances one chaining value over whole blocks.
    pub fn compress(&self, chain: &mut [H::Word; 8], blocks: &[u8]) {
        let message = blocks.as_ptr();
        let segment = Segment { messages: &raw const message, blocks: blocks.len() / H::BLOCK_SIZE };
        // SAFETY: the CPU has the instructions because `self` exists. There is one lane, eight words are at least `WORDS`, and
        // the division keeps the reads within the slice.
        unsafe { (self.single)(chain.as_mut_ptr(), &[segment], None) }
    }
}

impl Hash for Md5 {
    #[inline(never)]
    fn kernels(level: Level) -> Kernels<Self> {
        compiled::md5_best(level)
    }
}

impl Hash for Sha1 {
    /// Returns a kernel of one lane or two.
    #[cfg(target_arch = "x86_64")]
    fn hmac_chain_kernel(level: Level, chains: usize) -> Option<(usize, IterateKernel<Self>)> {
        let kernel: (usize, IterateKernel<Self>) =
            if chains > 1 { (2, iterate_sha1::<2>) } else { (1, iterate_sha1::<1>) };
        level.sha().then_some(kernel)
    }

    #[inline(never)]
    fn kernels(level: Level) -> Kernels<Self> {
        compiled::sha1_best(level)
    }
}

impl Hash for Sha1Checked {
    #[inline(never)]
    fn kernels(level: Level) -> Kernels<Self> {
        compiled::sha1_checked_best(level)
    }
}

impl Hash for Sha256 {
    /// On Zen, three chains use four lanes, which take less time than two lanes and one.
    #[cfg(target_arch = "x86_64")]
    fn hmac_chain_kernel(level: Level, chains: usize) -> Option<(usize, IterateKernel<Self>)> {
        let kernel: (usize, IterateKernel<Self>) = match chains {
            ..2 => (1, iterate_sha256::<1>),
            2 => (2, iterate_sha256::<2>),
            3 if !level.is_zen() => (2, iterate_sha256::<2>),
            3.. => (4, iterate_sha256::<4>),
        };
        level.sha().then_some(kernel)
    }

    #[cfg(target_arch = "x86_64")]
    fn strided_kernels(level: Level) -> Option<after_prefix::Kernels<Self>> {
        after_prefix::Kernels::new(level)
    }

    #[inline(never)]
    fn kernels(level: Level) -> Kernels<Self> {
        compiled::sha256_best(level)
    }
}

impl Sha512 {
    /// Returns true if `kernel::sha512_prescheduled` hashes a single message of more than two blocks on this level.
    pub fn has_prescheduled_kernel(level: Level) -> bool {
        cfg!(target_arch = "x86_64") && level.name() != LevelName::Base
    }
}

impl Hash for Sha512 {
    #[inline(never)]
    fn kernels(level: Level) -> Kernels<Self> {
        compiled::sha512_best(level)
    }
}
