//! The messages in lanes: their stages, and how all lanes advance.

use core::mem::MaybeUninit;

use super::{Job, Setup, Stream, TailBlocks, pad};
use crate::internal::dispatch::{Hash, Kernels};
use crate::internal::engine::{Lanes, MAX_FEW_LANES, NO_BLOCKS};
use crate::internal::kernel::{MAX_BLOCK_SIZE, MAX_HASH_LANES, OuterHash, Segment};
use crate::internal::vector::Word;

/// The next stage of a lane.
#[derive(Clone, Copy, PartialEq)]
enum Stage {
    /// The whole blocks of the input.
    Body,
    /// The padded tail; nothing for a stream that continues.
    Tail,
    /// HMAC's outer block over the digest.
    Outer,
    /// Write the digest.
    Digest,
}

/// The request of a lane. The padding does not depend on the chaining value. `start_job` writes it, so that the stores have reached the
/// cache before the kernel reads the bytes.
struct Lane<'a, H: Hash> {
    setup: &'a Setup<H>,
    stream: Option<&'a mut Stream<H>>,
    output: Option<&'a mut [u8]>,
    stage: Stage,
    /// The whole blocks of the input.
    body: &'a [u8],
    /// The remainder after `body`, less than a block.
    rest: &'a [u8],
    /// Number of blocks of the padded tail; 0 for a stream that continues.
    tail_blocks: usize,
    /// Bytes of the message up to the end of the input, including HMAC's key block.
    byte_count: u64,
}

/// The chaining values of at most `N` lanes, word-major: word `i` of lane `l` at `[i][l]`.
pub(super) struct ChainingValues<H: Hash, const N: usize>([[H::Word; N]; 8]);

impl<H: Hash, const N: usize> ChainingValues<H, N> {
    pub(super) fn new() -> Self {
        ChainingValues([[H::Word::default(); N]; 8])
    }

    /// XORs `others` into these chaining values, word by word.
    #[inline(always)]
    pub(super) fn xor(&mut self, others: &Self) {
        for (word, other) in self.0.as_flattened_mut().iter_mut().zip(others.0.as_flattened()) {
            *word = word.xor(*other);
        }
    }

    /// Sets all lanes to one chaining value.
    pub(super) fn fill(&mut self, chain: &[H::Word; 8]) {
        for (word, row) in chain[..H::WORDS].iter().zip(&mut self.0) {
            row.fill(*word);
        }
    }

    /// A pointer to the first row.
    pub(super) fn rows(&mut self) -> *mut H::Word {
        self.0.as_mut_ptr().cast()
    }

    #[inline(always)]
    fn get(&self, lane: usize) -> [H::Word; 8] {
        let mut chain = [H::Word::default(); 8];
        for (word, row) in chain[..H::WORDS].iter_mut().zip(&self.0) {
            *word = row[lane];
        }
        chain
    }

    #[inline(always)]
    pub(super) fn set(&mut self, lane: usize, chain: &[H::Word; 8]) {
        for (word, row) in chain[..H::WORDS].iter().zip(&mut self.0) {
            row[lane] = *word;
        }
    }

    /// Writes the words of one lane as bytes, cut to the length of `output`.
    #[inline(always)]
    pub(super) fn write(&self, lane: usize, output: &mut [u8]) {
        // Word by word, without an intermediate array: a wide load after narrow stores stalls (no store forwarding).
        let size = size_of::<H::Word>();
        let (whole, rest) = output.split_at_mut(output.len() / size * size);
        for (part, row) in whole.chunks_exact_mut(size).zip(&self.0) {
            row[lane].write(part, H::BIG_ENDIAN);
        }
        if let (1.., Some(row)) = (rest.len(), self.0.get(whole.len() / size)) {
            let mut bytes = [0; 8];
            row[lane].write(&mut bytes[..size], H::BIG_ENDIAN);
            rest.copy_from_slice(&bytes[..rest.len()]);
        }
    }
}

impl<H: Hash, const N: usize> Clone for ChainingValues<H, N> {
    #[inline(always)]
    fn clone(&self) -> Self {
        ChainingValues(self.0)
    }
}

/// Lanes of a hash function. The first `kernels.lanes` of them are in use.
pub(super) struct HashLanes<'a, H: Hash> {
    kernels: Kernels<H>,
    chains: ChainingValues<H, MAX_HASH_LANES>,
    /// The next address that each lane reads.
    addresses: [*const u8; MAX_HASH_LANES],
    lanes: [Option<Lane<'a, H>>; MAX_HASH_LANES],
    tails: [TailBlocks; MAX_HASH_LANES],
}

impl<'a, H: Hash> HashLanes<'a, H> {
    pub(super) fn new(kernels: Kernels<H>) -> Self {
        HashLanes {
            kernels,
            chains: ChainingValues::new(),
            addresses: [core::ptr::null(); MAX_HASH_LANES],
            lanes: [const { None }; MAX_HASH_LANES],
            tails: [[MaybeUninit::uninit(); 2 * MAX_BLOCK_SIZE]; MAX_HASH_LANES],
        }
    }

    /// Returns the number of tail blocks and the outer hash with which all lanes end after their current segments; `None` if there is no
    /// such common end. Requests of one length and one session end the same way. The kernel then finishes them in the same call.
    #[inline(always)]
    fn common_end(&self) -> Option<(usize, Option<&'a OuterHash<H>>)> {
        let [Some(first), ..] = &self.lanes[..self.kernels.lanes] else { return None };
        let like_first = |lane: &Option<Lane<'_, H>>| {
            lane.as_ref().is_some_and(|lane| {
                core::ptr::eq(lane.setup, first.setup)
                    && (lane.stage, lane.tail_blocks) == (first.stage, first.tail_blocks)
            })
        };
        let tail_blocks = match first.stage {
            Stage::Tail if first.tail_blocks > 0 => first.tail_blocks,
            Stage::Outer => 0,
            _ => return None,
        };
        self.lanes[..self.kernels.lanes].iter().all(like_first).then_some((tail_blocks, first.setup.outer.as_ref()))
    }
}

impl<'a, H: Hash> Lanes for HashLanes<'a, H> {
    type Job = Job<'a, H>;

    fn lanes(&self) -> usize {
        self.kernels.lanes
    }

    fn break_even(&self) -> usize {
        self.kernels.break_even
    }

    fn few_lanes(&self) -> usize {
        self.kernels.few_lanes
    }

    #[inline(always)]
    fn start_job(&mut self, lane: usize, job: Job<'a, H>) -> usize {
        let Job { setup, mut stream, input, output } = job;
        debug_assert!(output.as_ref().is_none_or(|output| output.len() <= setup.digest_size));
        let (chain, before) = match &stream {
            None => (&setup.chain, setup.absorbed_bytes),
            Some(stream) => (&stream.chain, stream.byte_count),
        };
        self.chains.set(lane, chain);
        let byte_count = before + input.len() as u64;
        let (head, rest) = match &mut stream {
            None => (NO_BLOCKS, input),
            Some(stream) => stream.fill_up(input),
        };
        let (body, rest) = rest.split_at(rest.len() / H::BLOCK_SIZE * H::BLOCK_SIZE);
        let mut tail_blocks = 0;
        if output.is_some() {
            let rest_len = (byte_count % H::BLOCK_SIZE as u64) as usize;
            let blocks = &mut self.tails[lane];
            tail_blocks = pad::<H>(blocks, rest_len, byte_count);
            // Either the rest of the input starts a block, or all of it went into the stream's buffer.
            let source = match &stream {
                Some(stream) if rest.len() < rest_len => &stream.buffer.as_ref()[..rest_len],
                _ => rest,
            };
            if !source.is_empty() {
                blocks[..source.len()].write_copy_of_slice(source);
            }
        }
        let lane_of = |stage| Some(Lane { setup, stream, output, stage, body, rest, tail_blocks, byte_count });
        let (stage, (at, blocks)) = match (head, body) {
            ((_, 1..), _) => (Stage::Body, head),
            (_, [_, ..]) => (Stage::Tail, (body.as_ptr(), body.len() / H::BLOCK_SIZE)),
            _ => {
                self.lanes[lane] = lane_of(Stage::Tail);
                return self.next_segment(lane);
            }
        };
        self.lanes[lane] = lane_of(stage);
        self.addresses[lane] = at;
        blocks
    }

    #[inline(never)]
    fn next_segment(&mut self, lane: usize) -> usize {
        let Some(job) = &mut self.lanes[lane] else { return 0 };
        let (at, blocks) = match job.stage {
            Stage::Body if !job.body.is_empty() => {
                job.stage = Stage::Tail;
                (job.body.as_ptr(), job.body.len() / H::BLOCK_SIZE)
            }
            Stage::Body | Stage::Tail if job.output.is_some() => {
                job.stage = if job.setup.outer.is_some() { Stage::Outer } else { Stage::Digest };
                (self.tails[lane].as_ptr().cast(), job.tail_blocks)
            }
            Stage::Body | Stage::Tail => {
                if let Some(stream) = &mut job.stream {
                    stream.buffer.as_mut()[..job.rest.len()].copy_from_slice(job.rest);
                    stream.chain = self.chains.get(lane);
                    stream.byte_count = job.byte_count;
                }
                NO_BLOCKS
            }
            Stage::Outer => {
                job.stage = Stage::Digest;
                let block = &mut self.tails[lane][..H::BLOCK_SIZE];
                if let Some(OuterHash { chain, frame, digest_size }) = &job.setup.outer {
                    block.write_copy_of_slice(&frame[..H::BLOCK_SIZE]);
                    // SAFETY: the whole block was just initialized.
                    self.chains.write(lane, unsafe { block[..*digest_size].assume_init_mut() });
                    self.chains.set(lane, chain);
                }
                (block.as_ptr().cast(), 1)
            }
            Stage::Digest => {
                if let Some(output) = &mut job.output {
                    self.chains.write(lane, output);
                }
                if let Some(stream) = &mut job.stream {
                    stream.chain = job.setup.chain;
                    stream.byte_count = job.setup.absorbed_bytes;
                    stream.clear();
                }
                NO_BLOCKS
            }
        };
        self.addresses[lane] = at;
        if blocks == 0 {
            self.lanes[lane] = None;
        }
        blocks
    }

    fn shadow(&mut self, idle: usize, busy: usize) {
        self.addresses[idle] = self.addresses[busy];
    }

    fn advance(&mut self, blocks: usize, ends_segments: bool) {
        let tails = self.tails.each_ref().map(|tail| tail.as_ptr().cast());
        let end = if ends_segments { self.common_end() } else { None };
        let (tail_blocks, outer) = end.unwrap_or((0, None));
        let segments = [
            Segment { messages: self.addresses.as_ptr(), blocks },
            Segment { messages: tails.as_ptr(), blocks: tail_blocks },
        ];
        // SAFETY: the CPU has the instructions because `kernels` exists. `chains` has eight rows, and `WORDS` is at most eight. Each row
        // has `MAX_HASH_LANES` words, as kernels of several lanes expect. Every pointer in `addresses` is readable for `blocks` blocks.
        // The pointer of a busy lane is into its input, its stream's buffer or its tail: initialized memory that `self` borrows or owns.
        // The engine never advances beyond the count that `start_job` or `next_segment` returned. The pointer of an idle lane is a copy of
        // a busy lane's. If `tail_blocks` is not 0, it is the `tail_blocks` of every lane, and `start_job` has initialized these blocks.
        unsafe { (self.kernels.side_by_side)(self.chains.0.as_mut_ptr().cast(), &segments, outer) };
        for at in &mut self.addresses {
            *at = at.wrapping_add(blocks * H::BLOCK_SIZE);
        }
        if end.is_some() {
            for lane in self.lanes.iter_mut().flatten() {
                lane.stage = Stage::Digest;
            }
        }
    }

    fn advance_few(&mut self, lanes: &[usize], blocks: usize) {
        if let [lane] = *lanes {
            let mut chain = self.chains.get(lane);
            let segment = Segment { messages: &raw const self.addresses[lane], blocks };
            // SAFETY: as for `advance`, with one lane.
            unsafe { (self.kernels.single)(chain.as_mut_ptr(), &[segment], None) };
            self.chains.set(lane, &chain);
        } else {
            let few_lanes = self.kernels.few_lanes;
            let mut chains = ChainingValues::<H, MAX_HASH_LANES>::new();
            let mut addresses = [core::ptr::null(); MAX_FEW_LANES];
            // Unused lanes of `few` repeat the first lane.
            for (i, at) in addresses[..few_lanes].iter_mut().enumerate() {
                let lane = *lanes.get(i).unwrap_or(&lanes[0]);
                *at = self.addresses[lane];
                chains.set(i, &self.chains.get(lane));
            }
            let segment = Segment { messages: addresses.as_ptr(), blocks };
            // SAFETY: as for `advance`, with `few_lanes` lanes.
            unsafe { (self.kernels.few)(chains.0.as_mut_ptr().cast(), &[segment], None) };
            for (i, &lane) in lanes.iter().enumerate() {
                self.chains.set(lane, &chains.get(i));
            }
        }
        for &lane in lanes {
            self.addresses[lane] = self.addresses[lane].wrapping_add(blocks * H::BLOCK_SIZE);
        }
    }
}
