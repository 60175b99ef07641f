//! Whole messages with a common start. Short ones are padded in batches and bypass the engine, whose bookkeeping would take longer than
//! hashing a block (`benches/hashes/run`). A single message bypasses the batches, too.

use core::mem::MaybeUninit;

use super::lanes::Chains;
use super::{Job, Start, Stream, TailBlocks, run, run_message, run_one, write_length};
use crate::internal::dispatch::{Hash, Kernels};
#[cfg(target_arch = "x86_64")]
use crate::internal::kernel::after_prefix::StridedMessages;
use crate::internal::kernel::{HASH_LANES, Segment};
use crate::level::Level;
use crate::messages::Messages;

/// Messages padded before the first of them is hashed. Hashing each message right after its padding would stall on wide loads after narrow
/// stores.
const SLOTS: usize = 2 * HASH_LANES;

/// Bytes of a digest by the kernels for messages at equal distances.
#[cfg(target_arch = "x86_64")]
const DIGEST: usize = 32;

/// Runs whole messages, each after the bytes in `prefix`, if there is one. Writes their digests, one after the other; the length of
/// `output` is that of all digests.
pub(crate) fn run_whole<H: Hash>(
    level: Level,
    start: &Start<H>,
    prefix: Option<&Stream<H>>,
    messages: &dyn Messages,
    output: &mut [u8],
) {
    let kernels = H::kernels(level);
    let hash_alone = |index: usize, output: &mut [u8]| match (messages.message(index), prefix) {
        (Some(input), None) => run_message(kernels, start, input, output),
        (Some(input), Some(prefix)) => {
            let stream = Some(&mut prefix.clone());
            run_one(kernels, Job { start, stream, input, output: Some(output) });
        }
        (None, _) => output.fill(0),
    };
    let least = kernels.min_batch().min(kernels.brief_break_even);
    // These take any number of short messages.
    #[cfg(target_arch = "x86_64")]
    let least = if H::strided_kernels(level).is_some() { 2 } else { least };
    match messages.count() {
        1 => hash_alone(0, output),
        count if kernels.lanes > 1 && count >= least => run_batch(level, start, prefix, messages, output),
        _ => output.chunks_exact_mut(start.digest).enumerate().for_each(|(index, output)| hash_alone(index, output)),
    }
}

/// Runs at least two messages.
#[inline(never)]
fn run_batch<H: Hash>(
    level: Level,
    start: &Start<H>,
    prefix: Option<&Stream<H>>,
    messages: &dyn Messages,
    output: &mut [u8],
) {
    let kernels = H::kernels(level);
    let size = start.digest;
    let (chain, before) = prefix.map_or((&start.chain, start.absorbed), |prefix| (&prefix.chain, prefix.count));
    let common = Common {
        #[cfg(target_arch = "x86_64")]
        level,
        kernels,
        start,
        chain,
        before,
        rest: prefix.map_or(&[], Stream::buffered),
    };
    // Not by value in `Slots`: they would be copied on the way.
    let mut padded = [const { MaybeUninit::<[TailBlocks; SLOTS]>::uninit() }; 2];
    let [first, second] = &mut padded;
    let mut one = Slots::<1> { padded: first, indices: [0; SLOTS], used: 0 };
    let mut two = Slots::<2> { padded: second, indices: [0; SLOTS], used: 0 };
    let mut long = 0;
    for index in 0..messages.count() {
        let Some(input) = messages.message(index) else {
            output[index * size..][..size].fill(0);
            continue;
        };
        if Slots::<1>::fits(&common, input) {
            one.push(&common, index, input, output);
        } else if Slots::<2>::fits(&common, input) {
            two.push(&common, index, input, output);
        } else {
            long += 1;
        }
    }
    one.flush(&common, output);
    two.flush(&common, output);
    if long == 0 {
        return;
    }
    let mut jobs = output.chunks_exact_mut(size).enumerate().filter_map(|(index, output)| {
        let input = messages.message(index).filter(|input| !Slots::<2>::fits(&common, input))?;
        Some(Job { start, stream: None, input, output: Some(output) })
    });
    match prefix {
        None if long < kernels.min_batch() => jobs.for_each(|job| run_one(kernels, job)),
        None => run(kernels, jobs),
        Some(prefix) if long < kernels.min_batch() => {
            jobs.for_each(|job| run_one(kernels, Job { stream: Some(&mut prefix.clone()), ..job }));
        }
        Some(prefix) => {
            // Each message of a round has a copy of the prefix.
            for _ in 0..usize::div_ceil(long, HASH_LANES) {
                let mut streams = [(); HASH_LANES].map(|()| prefix.clone());
                let with_stream = |(stream, job)| Job { stream: Some(stream), ..job };
                run(kernels, streams.iter_mut().zip(&mut jobs).map(with_stream));
            }
        }
    }
}

/// The common properties of the messages.
struct Common<'a, H: Hash> {
    #[cfg(target_arch = "x86_64")]
    level: Level,
    kernels: Kernels<H>,
    start: &'a Start<H>,
    /// The chaining value after the whole blocks of the prefix.
    chain: &'a [H::Word; 8],
    /// Bytes before each message, including HMAC's key block.
    before: u64,
    /// The bytes of the prefix that each message's first block begins with.
    rest: &'a [u8],
}

/// Messages of `BLOCKS` blocks each, 1 or 2, including the prefix and the padding.
struct Slots<'p, const BLOCKS: usize> {
    padded: &'p mut MaybeUninit<[TailBlocks; SLOTS]>,
    /// The place of each message among all.
    indices: [usize; SLOTS],
    used: usize,
}

impl<const BLOCKS: usize> Slots<'_, BLOCKS> {
    /// Returns true if the message with prefix and padding fits in `BLOCKS` blocks.
    #[inline(always)]
    fn fits<H: Hash>(common: &Common<'_, H>, input: &[u8]) -> bool {
        // The sum of a short rest and a slice's length cannot overflow.
        common.rest.len() + input.len() < BLOCKS * H::BLOCK - H::LENGTH_FIELD
    }

    /// The blocks of a slot.
    #[inline(always)]
    fn slot(&mut self, slot: usize) -> &mut TailBlocks {
        assert!(slot < SLOTS);
        // SAFETY: the slot is in range, and its bytes may be uninitialized.
        unsafe { &mut *self.padded.as_mut_ptr().cast::<TailBlocks>().add(slot) }
    }

    /// Takes a message that fits.
    #[inline(always)]
    fn push<H: Hash>(&mut self, common: &Common<'_, H>, index: usize, input: &[u8], output: &mut [u8]) {
        let used = self.used;
        let padded = &mut self.slot(used)[..BLOCKS * H::BLOCK];
        padded.fill(MaybeUninit::new(0));
        let rest = common.rest.len();
        if rest > 0 {
            padded[..rest].write_copy_of_slice(common.rest);
        }
        padded[rest..rest + input.len()].write_copy_of_slice(input);
        padded[rest + input.len()].write(0x80);
        write_length::<H>(padded, common.before + input.len() as u64);
        self.indices[used] = index;
        self.used += 1;
        if self.used == SLOTS {
            self.flush(common, output);
        }
    }

    /// Hashes the messages in the slots.
    #[inline(never)]
    fn flush<H: Hash>(&mut self, common: &Common<'_, H>, output: &mut [u8]) {
        let used = core::mem::take(&mut self.used);
        if used == 0 {
            return;
        }
        #[cfg(target_arch = "x86_64")]
        if self.flush_in_one_call(common, used, output) {
            return;
        }
        let kernels = common.kernels;
        let size = common.start.digest;
        let outer = common.start.outer.as_ref();
        let from: *const TailBlocks = self.padded.as_ptr().cast();
        let mut first = 0;
        while first < used {
            let remaining = used - first;
            let (lanes, kernel) = match remaining {
                1 => (1, kernels.brief),
                _ if remaining >= kernels.brief_break_even => (kernels.lanes, kernels.side_by_side),
                _ => (kernels.few_lanes, kernels.few),
            };
            let count = lanes.min(remaining);
            // Unused lanes repeat the first message.
            let messages: [*const u8; HASH_LANES] =
                core::array::from_fn(|lane| from.wrapping_add(if lane < count { first + lane } else { first }).cast());
            let segment = Segment { messages: messages.as_ptr(), blocks: BLOCKS };
            let place = |lane: usize| self.indices[first + lane] * size..(self.indices[first + lane] + 1) * size;
            // SAFETY: the CPU has the instructions because `kernels` exists. The chains have eight rows, at least `WORDS`, as long as those
            // of the kernel. There is a pointer for each lane, to a slot below `used`, all blocks of which `push` has initialized.
            unsafe {
                if lanes == 1 {
                    let mut chains = Chains::<H, 1>::new();
                    chains.set(0, common.chain);
                    kernel(chains.rows(), &[segment], outer);
                    chains.write(0, &mut output[place(0)]);
                } else {
                    let mut chains = Chains::<H, HASH_LANES>::new();
                    chains.fill(common.chain);
                    kernel(chains.rows(), &[segment], outer);
                    (0..count).for_each(|lane| chains.write(lane, &mut output[place(lane)]));
                }
            }
            first += count;
        }
    }

    /// Hashes the first `used` messages without a key, if this CPU has a kernel for padded messages at equal distances. Returns false
    /// otherwise.
    #[cfg(target_arch = "x86_64")]
    fn flush_in_one_call<H: Hash>(&self, common: &Common<'_, H>, used: usize, output: &mut [u8]) -> bool {
        let Some(kernels) = H::strided_kernels(common.level).filter(|_| common.start.outer.is_none()) else {
            return false;
        };
        let first = self.indices[0];
        let size = common.start.digest;
        let in_order = size == DIGEST && self.indices[used - 1] - first == used - 1;
        let mut digests = MaybeUninit::<[[u8; DIGEST]; SLOTS]>::uninit();
        let to =
            if in_order { output[first * DIGEST..][..used * DIGEST].as_mut_ptr() } else { digests.as_mut_ptr().cast() };
        let from = self.padded.as_ptr().cast();
        let from_stride = size_of::<TailBlocks>();
        let messages =
            StridedMessages { from, from_stride, blocks: BLOCKS, to, to_stride: DIGEST, size: DIGEST, count: used };
        // SAFETY: `push` has initialized all blocks of the first `used` slots. `to` has room for `used` digests and is not aliased.
        unsafe { kernels.run(common.chain, &messages) };
        if !in_order {
            // SAFETY: the kernel has written the first `used` digests, and only these are read.
            let digests = unsafe { core::slice::from_raw_parts(digests.as_ptr().cast::<[u8; DIGEST]>(), used) };
            for (index, digest) in self.indices.iter().zip(digests) {
                output[index * size..][..size].copy_from_slice(&digest[..size]);
            }
        }
        true
    }
}
