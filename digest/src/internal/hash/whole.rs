//! Whole messages with a common setup. Short ones are padded in batches and bypass the engine, whose bookkeeping would take longer than
//! hashing a block (`benches/hashes/run`). A single message bypasses the batches, too.

use core::mem::MaybeUninit;

use super::lanes::ChainingValues;
use super::{Job, Setup, Stream, TailBlocks, run, run_message, run_one, write_length};
use crate::internal::dispatch::{Hash, Kernels};
#[cfg(target_arch = "x86_64")]
use crate::internal::kernel::after_prefix::StridedMessages;
use crate::internal::kernel::{MAX_HASH_LANES, Segment};
use crate::level::Level;
use crate::messages::Messages;

/// Number of messages that are padded before any of them is hashed. Hashing each message right after its padding would stall on wide
/// loads after narrow stores.
const SLOTS: usize = 2 * MAX_HASH_LANES;

/// Bytes of each digest that the kernels for messages at equal distances write here. SHA-224's are cut to 28 bytes afterwards.
#[cfg(target_arch = "x86_64")]
const DIGEST_SIZE: usize = 32;

/// Runs whole messages, each after the bytes in `prefix`, if there is one. Writes their digests, one after the other; the length of
/// `output` is that of all digests.
pub(crate) fn run_whole<H: Hash>(
    level: Level,
    setup: &Setup<H>,
    prefix: Option<&Stream<H>>,
    messages: &dyn Messages,
    output: &mut [u8],
) {
    let kernels = H::kernels(level);
    let hash_alone = |index: usize, output: &mut [u8]| match (messages.message(index), prefix) {
        (Some(input), None) => run_message(kernels, setup, input, output),
        (Some(input), Some(prefix)) => {
            let stream = Some(&mut prefix.clone());
            run_one(kernels, Job { setup, stream, input, output: Some(output) });
        }
        (None, _) => output.fill(0),
    };
    let min_batch = kernels.min_batch().min(kernels.short_break_even);
    // The kernels for messages at equal distances take any number of short messages.
    #[cfg(target_arch = "x86_64")]
    let min_batch = if H::strided_kernels(level).is_some() { 2 } else { min_batch };
    match messages.count() {
        1 => hash_alone(0, output),
        count if kernels.lanes > 1 && count >= min_batch => run_batch(level, setup, prefix, messages, output),
        _ => {
            output
                .chunks_exact_mut(setup.digest_size)
                .enumerate()
                .for_each(|(index, output)| hash_alone(index, output));
        }
    }
}

/// Runs two messages or more: the short ones in padded slots, the long ones as jobs.
#[inline(never)]
fn run_batch<H: Hash>(
    level: Level,
    setup: &Setup<H>,
    prefix: Option<&Stream<H>>,
    messages: &dyn Messages,
    output: &mut [u8],
) {
    let kernels = H::kernels(level);
    let digest_size = setup.digest_size;
    let (chain, bytes_before) =
        prefix.map_or((&setup.chain, setup.absorbed_bytes), |prefix| (&prefix.chain, prefix.byte_count));
    let context = BatchContext {
        #[cfg(target_arch = "x86_64")]
        level,
        kernels,
        setup,
        chain,
        bytes_before,
        rest: prefix.map_or(&[], Stream::buffered),
    };
    // `Slots` borrows these blocks. If it contained them, they could be copied whenever a `Slots` is moved.
    let mut padded = [const { MaybeUninit::<[TailBlocks; SLOTS]>::uninit() }; 2];
    let [first, second] = &mut padded;
    let mut one = Slots::<1> { padded: first, indices: [0; SLOTS], used_slots: 0 };
    let mut two = Slots::<2> { padded: second, indices: [0; SLOTS], used_slots: 0 };
    let mut long_messages = 0;
    for index in 0..messages.count() {
        let Some(input) = messages.message(index) else {
            output[index * digest_size..][..digest_size].fill(0);
            continue;
        };
        if Slots::<1>::fits(&context, input) {
            one.push(&context, index, input, output);
        } else if Slots::<2>::fits(&context, input) {
            two.push(&context, index, input, output);
        } else {
            long_messages += 1;
        }
    }
    one.flush(&context, output);
    two.flush(&context, output);
    if long_messages == 0 {
        return;
    }
    let mut jobs = output.chunks_exact_mut(digest_size).enumerate().filter_map(|(index, output)| {
        let input = messages.message(index).filter(|input| !Slots::<2>::fits(&context, input))?;
        Some(Job { setup, stream: None, input, output: Some(output) })
    });
    match prefix {
        None if long_messages < kernels.min_batch() => jobs.for_each(|job| run_one(kernels, job)),
        None => run(kernels, jobs),
        Some(prefix) if long_messages < kernels.min_batch() => {
            jobs.for_each(|job| run_one(kernels, Job { stream: Some(&mut prefix.clone()), ..job }));
        }
        Some(prefix) => {
            // Each message of a round has a copy of the prefix.
            for _ in 0..usize::div_ceil(long_messages, MAX_HASH_LANES) {
                let mut streams = [(); MAX_HASH_LANES].map(|()| prefix.clone());
                let with_stream = |(stream, job)| Job { stream: Some(stream), ..job };
                run(kernels, streams.iter_mut().zip(&mut jobs).map(with_stream));
            }
        }
    }
}

/// The common properties of the messages.
struct BatchContext<'a, H: Hash> {
    #[cfg(target_arch = "x86_64")]
    level: Level,
    kernels: Kernels<H>,
    setup: &'a Setup<H>,
    /// The chaining value after the whole blocks of the prefix.
    chain: &'a [H::Word; 8],
    /// Bytes before each message, including HMAC's key block.
    bytes_before: u64,
    /// The bytes of the prefix that each message's first block begins with.
    rest: &'a [u8],
}

/// Messages of `BLOCKS` blocks each, 1 or 2, including the rest of the prefix and the padding.
struct Slots<'p, const BLOCKS: usize> {
    padded: &'p mut MaybeUninit<[TailBlocks; SLOTS]>,
    /// The place of each message among all.
    indices: [usize; SLOTS],
    used_slots: usize,
}

impl<const BLOCKS: usize> Slots<'_, BLOCKS> {
    /// Returns true if the rest of the prefix, the message and the padding fit in `BLOCKS` blocks.
    #[inline(always)]
    fn fits<H: Hash>(context: &BatchContext<'_, H>, input: &[u8]) -> bool {
        // The sum of a short rest and a slice's length cannot overflow.
        context.rest.len() + input.len() < BLOCKS * H::BLOCK_SIZE - H::LENGTH_FIELD_SIZE
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
    fn push<H: Hash>(&mut self, context: &BatchContext<'_, H>, index: usize, input: &[u8], output: &mut [u8]) {
        let used_slots = self.used_slots;
        let padded = &mut self.slot(used_slots)[..BLOCKS * H::BLOCK_SIZE];
        padded.fill(MaybeUninit::new(0));
        let rest = context.rest.len();
        if rest > 0 {
            padded[..rest].write_copy_of_slice(context.rest);
        }
        padded[rest..rest + input.len()].write_copy_of_slice(input);
        padded[rest + input.len()].write(0x80);
        write_length::<H>(padded, context.bytes_before + input.len() as u64);
        self.indices[used_slots] = index;
        self.used_slots += 1;
        if self.used_slots == SLOTS {
            self.flush(context, output);
        }
    }

    /// Hashes the messages in the slots.
    #[inline(never)]
    fn flush<H: Hash>(&mut self, context: &BatchContext<'_, H>, output: &mut [u8]) {
        let used_slots = core::mem::take(&mut self.used_slots);
        if used_slots == 0 {
            return;
        }
        #[cfg(target_arch = "x86_64")]
        if self.flush_strided(context, used_slots, output) {
            return;
        }
        let kernels = context.kernels;
        let digest_size = context.setup.digest_size;
        let outer = context.setup.outer.as_ref();
        let from: *const TailBlocks = self.padded.as_ptr().cast();
        let mut first = 0;
        while first < used_slots {
            let remaining = used_slots - first;
            let (lanes, kernel) = match remaining {
                1 => (1, kernels.short_single),
                _ if remaining >= kernels.short_break_even => (kernels.lanes, kernels.side_by_side),
                _ => (kernels.few_lanes, kernels.few),
            };
            let count = lanes.min(remaining);
            // Unused lanes repeat the first message.
            let messages: [*const u8; MAX_HASH_LANES] =
                core::array::from_fn(|lane| from.wrapping_add(if lane < count { first + lane } else { first }).cast());
            let segment = Segment { messages: messages.as_ptr(), blocks: BLOCKS };
            let digest_range =
                |lane: usize| self.indices[first + lane] * digest_size..(self.indices[first + lane] + 1) * digest_size;
            // SAFETY: the CPU has the instructions because `kernels` exists. The chains have eight rows, and `WORDS` is at most eight. A
            // row is as long as the kernel's: one word for one lane, otherwise `MAX_HASH_LANES` words. Each lane has a pointer to a slot
            // below `used_slots`, and `push` has initialized the `BLOCKS` blocks of that slot.
            unsafe {
                if lanes == 1 {
                    let mut chains = ChainingValues::<H, 1>::new();
                    chains.set(0, context.chain);
                    kernel(chains.rows(), &[segment], outer);
                    chains.write(0, &mut output[digest_range(0)]);
                } else {
                    let mut chains = ChainingValues::<H, MAX_HASH_LANES>::new();
                    chains.fill(context.chain);
                    kernel(chains.rows(), &[segment], outer);
                    (0..count).for_each(|lane| chains.write(lane, &mut output[digest_range(lane)]));
                }
            }
            first += count;
        }
    }

    /// Hashes the first `used_slots` messages with the kernels for messages at equal distances. Returns false, and hashes nothing, if there
    /// is a key or this CPU has no such kernels.
    #[cfg(target_arch = "x86_64")]
    fn flush_strided<H: Hash>(&self, context: &BatchContext<'_, H>, used_slots: usize, output: &mut [u8]) -> bool {
        let Some(kernels) = H::strided_kernels(context.level).filter(|_| context.setup.outer.is_none()) else {
            return false;
        };
        let first = self.indices[0];
        let digest_size = context.setup.digest_size;
        let in_order = digest_size == DIGEST_SIZE && self.indices[used_slots - 1] - first == used_slots - 1;
        let mut digests = MaybeUninit::<[[u8; DIGEST_SIZE]; SLOTS]>::uninit();
        let to = if in_order {
            output[first * DIGEST_SIZE..][..used_slots * DIGEST_SIZE].as_mut_ptr()
        } else {
            digests.as_mut_ptr().cast()
        };
        let from = self.padded.as_ptr().cast();
        let from_stride = size_of::<TailBlocks>();
        let messages = StridedMessages {
            from,
            from_stride,
            blocks: BLOCKS,
            to,
            to_stride: DIGEST_SIZE,
            digest_size: DIGEST_SIZE,
            count: used_slots,
        };
        // SAFETY: `push` has initialized all blocks of the first `used_slots` slots. `to` has room for `used_slots` digests and is not
        // aliased.
        unsafe { kernels.run(context.chain, &messages) };
        if !in_order {
            // SAFETY: the kernel has written the first `used_slots` digests, and only these are read.
            let digests =
                unsafe { core::slice::from_raw_parts(digests.as_ptr().cast::<[u8; DIGEST_SIZE]>(), used_slots) };
            for (index, digest) in self.indices.iter().zip(digests) {
                output[index * digest_size..][..digest_size].copy_from_slice(&digest[..digest_size]);
            }
        }
        true
    }
}
