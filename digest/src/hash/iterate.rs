//! Chains of HMACs, each over the one before: the loop of PBKDF2. A step is one compression behind the inner key block and one behind the
//! outer one, over a block whose padding stays and whose digest changes.

use super::Start;
use super::lanes::Chains;
use crate::family::{Chain, Family};
use crate::kernel::iterate::{Iterate, Iteration};
use crate::kernel::{Compress, HASH_LANES, Hash, Outer, Segment};
use crate::level::Level;
use crate::vector::Word;

/// Takes each chain so many steps further, side by side.
pub(crate) fn iterate<H: Hash + Family<Start = Start<H>>>(level: Level, mut chains: &mut [Chain<'_, H>], steps: u64) {
    let kernels = H::kernels(level);
    while !chains.is_empty() {
        let count = chains.len();
        let in_registers = H::in_registers(level, count);
        let (lanes, kernel) = match in_registers {
            // There are more lanes than go in registers, and they are worth it.
            _ if kernels.lanes > in_registers.map_or(1, |(lanes, _)| lanes) && count >= kernels.break_even => {
                (kernels.lanes, Kernel::Compress(kernels.side_by_side))
            }
            Some((lanes, iterate)) => (lanes, Kernel::Iterate(iterate)),
            None => (1, Kernel::Compress(kernels.single)),
        };
        let (some, others) = chains.split_at_mut(lanes.min(count));
        // SAFETY: the kernel has so many lanes, and the CPU has its instructions, because both come from the level.
        unsafe {
            if lanes > 1 {
                advance::<H, HASH_LANES>(&kernel, lanes, some, steps);
            } else {
                advance::<H, 1>(&kernel, lanes, some, steps);
            }
        }
        chains = others;
    }
}

/// How chains go on.
enum Kernel<H: Hash> {
    /// In registers.
    Iterate(Iterate<H>),
    /// By way of blocks in memory.
    Compress(Compress<H>),
}

/// No more chains than there are lanes. Lanes that are left repeat the first chain.
///
/// # Safety
///
/// The kernel has so many lanes, and the CPU has its instructions; `N` is 1 for one lane, and otherwise [`HASH_LANES`].
unsafe fn advance<H: Hash + Family<Start = Start<H>>, const N: usize>(
    kernel: &Kernel<H>,
    lanes: usize,
    chains: &mut [Chain<'_, H>],
    steps: u64,
) {
    let first = chains[0].start;
    let Some(Outer { frame, digest, .. }) = &first.outer else { return };
    let [mut inner, mut outer, mut digests, mut sums] = [(); 4].map(|()| Chains::<H, N>::new());
    for lane in 0..lanes {
        let chain = &chains[if lane < chains.len() { lane } else { 0 }];
        inner.set(lane, &chain.start.chain);
        if let Some(Outer { chain, .. }) = &chain.start.outer {
            outer.set(lane, chain);
        }
        digests.set(lane, &words_of::<H>(chain.digest));
        sums.set(lane, &words_of::<H>(chain.sum));
    }
    match kernel {
        Kernel::Iterate(iterate) => {
            let keys = [&mut inner, &mut outer].map(|rows| rows.rows().cast_const());
            let (digests, sums) = (digests.rows(), sums.rows());
            // SAFETY: the caller promises the instructions; there are eight rows of each, no fewer than `WORDS`.
            unsafe { iterate(&mut Iteration { keys, digests, sums, frame, digest: *digest }, steps) };
        }
        Kernel::Compress(compress) => {
            let mut blocks = [*frame; N];
            let shared = chains.iter().all(|chain| core::ptr::eq(chain.start, first));
            let mut step = |state: &mut Chains<H, N>, from: &Chains<H, N>, outer: Option<&Outer<H>>| {
                for (lane, block) in blocks[..lanes].iter_mut().enumerate() {
                    from.write(lane, &mut block[..*digest]);
                }
                let messages = blocks.each_ref().map(|block| block.as_ptr());
                let segment = Segment { messages: messages.as_ptr(), blocks: 1 };
                // SAFETY: the caller promises the instructions. The state has eight rows, there is a pointer for each lane, and each points
                // to one block.
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
                sums.add(&digests);
            }
        }
    }
    for (lane, chain) in chains.iter_mut().enumerate() {
        digests.write(lane, chain.digest);
        sums.write(lane, chain.sum);
    }
}

/// A digest as words; those that it does not fill are zero.
fn words_of<H: Hash>(digest: &[u8]) -> [H::Word; 8] {
    let mut bytes = [0; 64];
    bytes[..digest.len()].copy_from_slice(digest);
    core::array::from_fn(|i| H::Word::read(&bytes[..8 * size_of::<H::Word>()], i, H::BIG_ENDIAN))
}
