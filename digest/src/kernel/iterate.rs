//! Steps of chains of HMACs, each over the one before, that stay in registers.

use super::{Hash, MAX_BLOCK};

/// Chains that go side by side. Rows are those of [`Compress`](super::Compress): word `i` of lane `l` is at `i * row(lanes) + l`.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "no other CPU has such a kernel"))]
pub struct Iteration<'a, H: Hash> {
    /// The chaining values behind the inner key block, and behind the outer one.
    pub(crate) keys: [*const H::Word; 2],
    /// The last HMAC of each chain, which is replaced by the one that so many steps lead to.
    pub(crate) digests: *mut H::Word,
    /// To which each HMAC is added, bit by bit.
    pub(crate) sums: *mut H::Word,
    /// The block behind a key block, padded, without the digest with which it begins.
    pub(crate) frame: &'a [u8; MAX_BLOCK],
    /// Bytes of the digest.
    pub(crate) digest: usize,
}

/// Takes chains so many steps further.
///
/// # Safety
/// The CPU has the instructions for which it was compiled; rows are valid for `Hash::WORDS` words of each lane.
pub type Iterate<H> = unsafe fn(iteration: &mut Iteration<'_, H>, steps: u64);
