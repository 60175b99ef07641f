//! Chains of HMACs, in which each HMAC is over the one before: the loop of PBKDF2. A step is two compressions. The first starts from the
//! chaining value of the inner key block, the second from that of the outer one. Each compresses one block, whose padding is constant;
//! only the digest in it changes.

use super::Setup;
use super::lanes::ChainingValues;
use crate::hmac_chain::HmacChain;
use crate::internal::dispatch::Hash;
use crate::internal::kernel::iterate::{ChainRows, IterateKernel};
use crate::internal::kernel::{CompressKernel, MAX_HASH_LANES, OuterHash, Segment};
use crate::internal::vector::Word;
use crate::level::Level;

/// Advances each chain by `steps` steps, side by side.
pub(crate) fn iterate<H: Hash>(level: Level, mut chains: &mut [HmacChain<'_, Setup<H>>], steps: u64) {
    let kernels = H::kernels(level);
    while !chains.is_empty() {
        let count = chains.len();
        let in_registers = H::hmac_chain_kernel(level, count);
        let (lanes, kernel) = match in_registers {
            // `side_by_side` has more lanes than the kernel that keeps chains in registers, and there are enough chains for it to be
            // faster.
            _ if kernels.lanes > in_registers.map_or(1, |(lanes, _)| lanes) && count >= kernels.break_even => {
                (kernels.lanes, Kernel::Compress(kernels.side_by_side))
            }
            Some((lanes, iterate)) => (lanes, Kernel::Iterate(iterate)),
            None => (1, Kernel::Compress(kernels.single)),
        };
        let (group, others) = chains.split_at_mut(lanes.min(count));
        // SAFETY: the kernel comes from `level`, which proves that the CPU has its instructions. It has `lanes` lanes, and `N` is 1 only
        // for one lane.
        unsafe {
            if lanes > 1 {
                advance::<H, MAX_HASH_LANES>(&kernel, lanes, group, steps);
            } else {
                advance::<H, 1>(&kernel, lanes, group, steps);
            }
        }
        chains = others;
    }
}

/// The kernel that advances chains.
enum Kernel<H: Hash> {
    /// Keeps the chains in registers.
    Iterate(IterateKernel<H>),
    /// Compresses blocks in memory.
    Compress(CompressKernel<H>),
}

/// Advances at most `lanes` chains. Idle lanes repeat the first chain.
///
/// # Safety
///
/// The kernel has `lanes` lanes, and the CPU has its instructions. `N` is 1 for one lane, otherwise [`MAX_HASH_LANES`].
unsafe fn advance<H: Hash, const N: usize>(
    kernel: &Kernel<H>,
    lanes: usize,
    chains: &mut [HmacChain<'_, Setup<H>>],
    steps: u64,
) {
    let first = chains[0].setup;
    let Some(OuterHash { frame, digest_size, .. }) = &first.outer else { return };
    let [mut inner, mut outer, mut digests, mut sums] = [(); 4].map(|()| ChainingValues::<H, N>::new());
    for lane in 0..lanes {
        let chain = &chains[if lane < chains.len() { lane } else { 0 }];
        inner.set(lane, &chain.setup.chain);
        if let Some(OuterHash { chain, .. }) = &chain.setup.outer {
            outer.set(lane, chain);
        }
        digests.set(lane, &words_of::<H>(chain.digest));
        sums.set(lane, &words_of::<H>(chain.sum));
    }
    match kernel {
        Kernel::Iterate(iterate) => {
            let keys = [&mut inner, &mut outer].map(|rows| rows.rows().cast_const());
            let (digests, sums) = (digests.rows(), sums.rows());
            // SAFETY: the caller guarantees the instructions. There are eight rows of each, at least `WORDS`.
            unsafe { iterate(&mut ChainRows { keys, digests, sums, frame, digest_size: *digest_size }, steps) };
        }
        Kernel::Compress(compress) => {
            let mut blocks = [*frame; N];
            let shared = chains.iter().all(|chain| core::ptr::eq(chain.setup, first));
            let mut step =
                |state: &mut ChainingValues<H, N>, from: &ChainingValues<H, N>, outer: Option<&OuterHash<H>>| {
                    for (lane, block) in blocks[..lanes].iter_mut().enumerate() {
                        from.write(lane, &mut block[..*digest_size]);
                    }
                    let messages = blocks.each_ref().map(|block| block.as_ptr());
                    let segment = Segment { messages: messages.as_ptr(), blocks: 1 };
                    // SAFETY: the caller guarantees the instructions. The state has eight rows, and each lane has a pointer to one
                    // block.
                    unsafe { compress(state.rows(), &[segment], outer) };
                };
            for _ in 0..steps {
                let mut state = inner.clone();
                if shared {
                    step(&mut state, &digests, first.outer.as_ref());
                    digests = state;
                } else {
                    step(&mut state, &digests, None);
                    digests = outer.clone();
                    step(&mut digests, &state, None);
                }
                sums.xor(&digests);
            }
        }
    }
    for (lane, chain) in chains.iter_mut().enumerate() {
        digests.write(lane, chain.digest);
        sums.write(lane, chain.sum);
    }
}

/// Converts a digest to words. The words after the digest are zero.
fn words_of<H: Hash>(digest: &[u8]) -> [H::Word; 8] {
    let mut bytes = [0; 64];
    bytes[..digest.len()].copy_from_slice(digest);
    core::array::from_fn(|i| H::Word::read(&bytes[..8 * size_of::<H::Word>()], i, H::BIG_ENDIAN))
}
