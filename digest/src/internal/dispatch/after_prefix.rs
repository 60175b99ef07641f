//! The kernels of `kernel::after_prefix`, compiled for each CPU level, and the choice of the fastest.

use super::sha256_break_even;
use crate::internal::kernel::after_prefix::{PrefixedKernel, StridedMessages, digest_strided};
use crate::internal::kernel::sha2::Sha256;
use crate::internal::kernel::{Compression, MAX_HASH_LANES, sha_ni};
use crate::internal::vector::avx512::Zmm32;
use crate::level::{Level, LevelName};

/// The kernels of a CPU level. Only `Kernels::new` creates a value: the value proves that this CPU can run them.
pub struct Kernels<H: Compression> {
    /// The kernel for groups of [`MAX_HASH_LANES`] messages, and its break-even: a smaller last group of at least that size goes to
    /// it, too.
    lanes: Option<(PrefixedKernel<H>, usize)>,
    few: PrefixedKernel<H>,
}

impl<H: Compression> Clone for Kernels<H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H: Compression> Copy for Kernels<H> {}

impl Kernels<Sha256> {
    /// Returns the kernels of a CPU with SHA instructions. On other CPUs the rounds take most of the time, so the general kernels are fast
    /// enough, and this returns `None`.
    pub(crate) fn new(level: Level) -> Option<Self> {
        let lanes: Option<PrefixedKernel<Sha256>> = match level.name() {
            LevelName::Avx512 if level.latency() > 1 => Some(avx512_latency2),
            LevelName::Avx512 => Some(avx512),
            _ => None,
        };
        let lanes = lanes.map(|kernel| (kernel, sha256_break_even(level)));
        level.sha().then_some(Kernels { lanes, few: sha_ni::sha256_after_prefix })
    }
}

impl<H: Compression> Kernels<H> {
    /// Digests messages.
    ///
    /// # Safety
    /// As for [`PrefixedKernel`], except for the level.
    pub(crate) unsafe fn run(&self, chain: &[H::Word; 8], messages: &StridedMessages) {
        let StridedMessages { from, from_stride, to, to_stride, count, .. } = *messages;
        let mut whole = 0;
        // SAFETY: the CPU has the instructions because `self` exists. The two parts do not reach past the caller's messages.
        unsafe {
            if let Some((lanes, break_even)) = self.lanes {
                let left = count % MAX_HASH_LANES;
                whole = if left < break_even { count - left } else { count };
                if whole > 0 {
                    lanes(chain, &StridedMessages { count: whole, ..*messages });
                }
            }
            if whole < count {
                let (from, to) = (from.add(whole * from_stride), to.add(whole * to_stride));
                (self.few)(chain, &StridedMessages { from, to, count: count - whole, ..*messages });
            }
        }
    }
}

macro_rules! compiled {
    ($name:ident, $latency:literal) => {
        /// # Safety
        /// As for [`PrefixedKernel`].
        #[target_feature(enable = "avx512f,avx512bw,avx2,bmi1,bmi2")]
        unsafe fn $name(chain: &[u32; 8], messages: &StridedMessages) {
            // SAFETY: the features of the vector type are enabled here; the caller guarantees the rest.
            unsafe { digest_strided::<Zmm32<$latency>>(chain, messages) }
        }
    };
}
compiled!(avx512, 1);
compiled!(avx512_latency2, 2);
