//! Chains of HMACs that stay in registers for many steps. Each HMAC is over the one before.

use super::{Compression, MAX_BLOCK_SIZE};

/// Chains side by side. Rows have the layout of [`CompressKernel`](super::CompressKernel): word `i` of lane `l` is at
/// `i * row_stride(lanes) + l`.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "no other CPU has such a kernel"))]
pub struct ChainRows<'a, H: Compression> {
    /// The chaining values after the inner key block, and after the outer one.
    pub(crate) keys: [*const H::Word; 2],
    /// The latest HMAC of each chain; the kernel replaces it.
    pub(crate) digests: *mut H::Word,
    /// The XOR of all HMACs of each chain.
    pub(crate) sums: *mut H::Word,
    /// The padded block after a key block; the digest replaces its first bytes.
    pub(crate) frame: &'a [u8; MAX_BLOCK_SIZE],
    /// Bytes of the digest.
    pub(crate) digest_size: usize,
}

/// Advances chains by `steps` steps.
///
/// # Safety
/// The CPU has the instructions the function was compiled for; rows are valid for `Compression::WORDS` words of each lane.
pub type IterateKernel<H> = unsafe fn(chains: &mut ChainRows<'_, H>, steps: u64);
