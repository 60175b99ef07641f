//! SHA-256 of many short messages behind one chaining value, in one call: with one block to a message, what the other kernels do beside it
//! (chaining values into rows, digests out of them, a call for each group) would take a third of the time.

use core::marker::PhantomData;

use super::sha2::Sha256;
use super::{Ahead, HASH_LANES, Hash, sha_ni};
use crate::level::{Level, LevelName};
use crate::vector::Vector;
use crate::vector::avx512::Zmm32;

/// Messages that lie at one distance from each other, and where their digests go.
#[derive(Clone, Copy)]
pub(crate) struct Spaced {
    pub(crate) from: *const u8,
    /// Bytes from one message to the next.
    pub(crate) from_stride: usize,
    /// Blocks of each.
    pub(crate) blocks: usize,
    pub(crate) to: *mut u8,
    /// Bytes from one digest to the next.
    pub(crate) to_stride: usize,
    /// Bytes of a digest: 8, 16, 24 or 32.
    pub(crate) size: usize,
    pub(crate) count: usize,
}

/// Digests messages behind a chaining value.
///
/// # Safety
/// The CPU level for which it was compiled is there. All messages are readable, and the places of all digests writable. They may overlap if
/// the place of a digest lies within no message but its own.
pub(crate) type Behind = unsafe fn(chain: &[u32; 8], messages: &Spaced);

/// The kernels of a CPU level. Only [`Kernels::new`] makes it, so that whoever holds one may call its functions on this CPU.
#[derive(Clone, Copy)]
pub(crate) struct Kernels {
    /// Lanes side by side, for whole groups, and from how many messages on.
    lanes: Option<(Behind, usize)>,
    few: Behind,
}

impl Kernels {
    /// Those of a CPU with SHA instructions. (Without them what lanes do beside their rounds counts less, and there are other kernels.)
    pub(crate) fn new(level: Level) -> Option<Self> {
        let lanes: Option<(Behind, usize)> = match level.name() {
            LevelName::Avx512 if level.latency() > 1 => Some((avx512_of_two_cycles, 9)),
            LevelName::Avx512 => Some((avx512, HASH_LANES)),
            _ => None,
        };
        level.sha().then_some(Kernels { lanes, few: sha_ni::sha256_behind })
    }

    /// Digests messages.
    ///
    /// # Safety
    /// That of [`Behind`], but for the level.
    pub(crate) unsafe fn run(&self, chain: &[u32; 8], messages: &Spaced) {
        let Spaced { from, from_stride, to, to_stride, count, .. } = *messages;
        let mut whole = 0;
        // SAFETY: the CPU has the instructions because `self` exists. Both parts together are the messages.
        unsafe {
            if let Some((lanes, pays_from)) = self.lanes {
                let left = count % HASH_LANES;
                whole = if left < pays_from { count - left } else { count };
                if whole > 0 {
                    lanes(chain, &Spaced { count: whole, ..*messages });
                }
            }
            if whole < count {
                let (from, to) = (from.add(whole * from_stride), to.add(whole * to_stride));
                (self.few)(chain, &Spaced { from, to, count: count - whole, ..*messages });
            }
        }
    }
}

impl Spaced {
    /// Where the messages of a group of lanes begin, from the message `first` on. What is left of the lanes has that one once more.
    ///
    /// # Safety
    /// There is that message.
    #[inline(always)]
    pub(super) unsafe fn group<const N: usize>(&self, first: usize) -> [*const u8; N] {
        let left = self.count - first;
        // SAFETY: none of these is behind the last message.
        core::array::from_fn(|lane| unsafe {
            self.from.add((first + if lane < left { lane } else { 0 }) * self.from_stride)
        })
    }
}

/// [`Behind`] in lanes.
///
/// # Safety
/// That of `Behind`, and the CPU has the instructions of `V`.
#[inline(always)]
unsafe fn lanes<V: Vector<Word = u32>>(chain: &[u32; 8], messages: &Spaced) {
    let Spaced { blocks, to, to_stride, size, count, .. } = *messages;
    let mut rows = [[0; HASH_LANES]; 8];
    // SAFETY: the caller promises the instructions, and messages and places to the number of `count`. Rows are as long as the lanes are many.
    unsafe {
        let first = chain.map(|word| V::splat(word));
        let mut at: [_; HASH_LANES] = messages.group(0);
        let mut ahead = Ahead::<Sha256, V> { block: None, parts: [[first[0]; 4]; 4], hash: PhantomData };
        for group in (0..count).step_by(V::LANES) {
            let mut state = first;
            let next = group + V::LANES;
            let next_at = if next < count { messages.group(next) } else { at };
            for block in 0..blocks {
                let words = ahead.words().unwrap_or_else(|| V::gather(at.as_ptr(), block * Sha256::BLOCK, true));
                // The first block of the next group is fetched between the rounds of the last one of this group.
                ahead.block = if block + 1 < blocks {
                    Some((at.as_ptr(), (block + 1) * Sha256::BLOCK))
                } else {
                    (next < count).then_some((next_at.as_ptr(), 0))
                };
                Sha256::compress(&mut state, words, &mut ahead);
            }
            for (word, row) in state.iter().zip(&mut rows).take(size / size_of::<u32>()) {
                word.store(row.as_mut_ptr());
            }
            for lane in 0..V::LANES.min(count - group) {
                let to = to.add((group + lane) * to_stride);
                for (i, [high, low]) in rows.as_chunks().0.iter().enumerate().take(size / size_of::<u64>()) {
                    let both = u64::from(high[lane]) << 32 | u64::from(low[lane]);
                    to.add(8 * i).cast::<u64>().write_unaligned(both.to_be());
                }
            }
            at = next_at;
        }
    }
    rows.as_flattened_mut().fill(0);
    core::hint::black_box(&mut rows);
}

macro_rules! compiled {
    ($name:ident, $latency:literal) => {
        /// # Safety
        /// That of [`Behind`].
        #[target_feature(enable = "avx512f,avx512bw,avx2,bmi1,bmi2")]
        unsafe fn $name(chain: &[u32; 8], messages: &Spaced) {
            // SAFETY: the features of the vector type are on here; the rest is the caller's promise.
            unsafe { lanes::<Zmm32<$latency>>(chain, messages) }
        }
    };
}
compiled!(avx512, 1);
compiled!(avx512_of_two_cycles, 2);
