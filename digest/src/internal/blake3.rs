//! BLAKE3 on lanes (O'Connor, Aumasson, Neves, Wilcox-O'Hearn, "BLAKE3", 2020): whole messages.
//!
//! A message of one chunk takes one lane. The chunks of a longer message take a lane each, and so do the nodes of its tree.

use core::array;

use zeroize::Zeroize;

use crate::internal::dispatch::blake3::Kernels;
use crate::internal::engine::{self, Lanes};
use crate::internal::kernel::MAX_HASH_LANES;
use crate::internal::kernel::blake3::{BLOCK_SIZE, INITIAL, LaneStates, Row};
use crate::level::Level;
use crate::messages::Messages;

/// Bytes of a digest, and of a chaining value.
pub(crate) const DIGEST_SIZE: usize = 32;

/// Bytes of a chunk.
const CHUNK_SIZE: usize = 1024;

/// Chunks of the largest subtree that [`Mode::small_subtree`] hashes, a power of two.
const SUBTREE_CHUNKS: usize = 64;

// Flags (table 3).
const CHUNK_START: u32 = 1 << 0;
const CHUNK_END: u32 = 1 << 1;
const PARENT: u32 = 1 << 2;
const ROOT: u32 = 1 << 3;
const KEYED_HASH: u32 = 1 << 4;
const DERIVE_KEY_CONTEXT: u32 = 1 << 5;
const DERIVE_KEY_MATERIAL: u32 = 1 << 6;

/// A mode of the function: the key, and the flags of the mode. The key is zeroized on drop.
pub(crate) struct Mode {
    key: [u32; 8],
    mode_flags: u32,
}

/// The mode of plain digests.
pub(crate) static PLAIN_MODE: Mode = Mode { key: INITIAL, mode_flags: 0 };

/// The flags of an input's blocks.
#[derive(Clone, Copy)]
struct BlockFlags {
    every: u32,
    first: u32,
    last: u32,
}

impl Mode {
    pub(crate) fn keyed(key: &[u8; 32]) -> Self {
        Mode { key: words(key), mode_flags: KEYED_HASH }
    }

    /// Creates the mode that derives keys in a context. Leaves a copy of the context's key on the stack.
    pub(crate) fn derive_key(level: Level, context: &[u8]) -> Self {
        let plain = Mode { key: INITIAL, mode_flags: DERIVE_KEY_CONTEXT };
        let context = plain.subtree(Kernels::new(level), context, 0, ROOT);
        Mode { key: words(&context), mode_flags: DERIVE_KEY_MATERIAL }
    }

    fn chunk_flags(&self) -> BlockFlags {
        BlockFlags { every: self.mode_flags, first: CHUNK_START, last: CHUNK_END }
    }

    fn parent_flags(&self) -> BlockFlags {
        BlockFlags { every: self.mode_flags | PARENT, first: 0, last: 0 }
    }

    /// Digests whole messages, one digest after the other. The digest of a missing message is zeros.
    pub(crate) fn digest_many(&self, level: Level, messages: &dyn Messages, output: &mut [[u8; DIGEST_SIZE]]) {
        let kernels = Kernels::new(level);
        if let [output] = output {
            *output = messages.message(0).map_or([0; _], |message| self.subtree(kernels, message, 0, ROOT));
            return;
        }
        let flags = self.chunk_flags().with_last(ROOT);
        self.run(
            kernels,
            &mut output.iter_mut().enumerate().filter_map(|(index, output)| {
                match messages.message(index) {
                    Some(input) if input.len() <= CHUNK_SIZE => return Some(Job { input, counter: 0, flags, output }),
                    Some(input) => *output = self.subtree(kernels, input, 0, ROOT),
                    None => *output = [0; DIGEST_SIZE],
                }
                None
            }),
        );
    }

    /// Digests pairs of digests. Each pair is a message of one block.
    pub(crate) fn digest_pairs(&self, level: Level, pairs: &[u8], output: &mut [u8]) {
        self.run_pairs(Kernels::new(level), pairs, self.chunk_flags().with_last(ROOT), output.as_chunks_mut().0);
    }

    /// Returns the chaining value of the chunks in `message`, or the digest if `root` is [`ROOT`] instead of 0. `counter` is the
    /// index of the first chunk.
    fn subtree(&self, kernels: Kernels, message: &[u8], counter: u64, root: u32) -> [u8; DIGEST_SIZE] {
        if message.len() <= SUBTREE_CHUNKS * CHUNK_SIZE {
            return self.small_subtree(kernels, message, counter, root);
        }
        // The left subtree has the largest power of two of chunks that leaves a byte for the right one.
        let chunks = 1 << ((message.len() - 1) / CHUNK_SIZE).ilog2();
        let (left, right) = message.split_at(chunks * CHUNK_SIZE);
        let right = self.subtree(kernels, right, counter + chunks as u64, 0);
        let pair = [self.subtree(kernels, left, counter, 0), right];
        self.run_one(kernels, pair.as_flattened(), 0, self.parent_flags().with_last(root))
    }

    /// [`subtree`](Self::subtree) of at most [`SUBTREE_CHUNKS`] chunks.
    #[inline(never)]
    fn small_subtree(&self, kernels: Kernels, message: &[u8], counter: u64, root: u32) -> [u8; DIGEST_SIZE] {
        if message.len() <= CHUNK_SIZE {
            return self.run_one(kernels, message, counter, self.chunk_flags().with_last(root));
        }
        let mut nodes = [[0; DIGEST_SIZE]; SUBTREE_CHUNKS];
        let chunks = (counter..).zip(message.chunks(CHUNK_SIZE)).zip(&mut nodes);
        self.run(
            kernels,
            &mut chunks.map(|((counter, input), output)| Job { input, counter, flags: self.chunk_flags(), output }),
        );
        let mut parents = [[0; DIGEST_SIZE]; SUBTREE_CHUNKS / 2];
        let mut count = message.len().div_ceil(CHUNK_SIZE);
        while count > 2 {
            let pairs = count / 2;
            let children = nodes[..2 * pairs].as_flattened();
            self.run_pairs(kernels, children, self.parent_flags(), &mut parents[..pairs]);
            // A last node without a sibling moves up.
            nodes[pairs] = nodes[count - 1];
            nodes[..pairs].copy_from_slice(&parents[..pairs]);
            count = count.div_ceil(2);
        }
        self.run_one(kernels, nodes[..2].as_flattened(), 0, self.parent_flags().with_last(root))
    }

    /// Digests one input.
    fn run_one(&self, kernels: Kernels, input: &[u8], counter: u64, flags: BlockFlags) -> [u8; DIGEST_SIZE] {
        let (body, last) = split_last_block(input);
        let mut tail = [0; BLOCK_SIZE];
        tail[..last.len()].copy_from_slice(last);
        let mut state = LaneStates::default();
        state.begin_input(0, self, counter, flags);
        let (body_at, tail_at) = (body.as_ptr(), tail.as_ptr());
        // SAFETY: the CPU has the instructions because `kernels` exists. There is one lane, and each pointer is to the blocks of its call.
        unsafe {
            if !body.is_empty() {
                (kernels.single)(&mut state, &raw const body_at, body.len() / BLOCK_SIZE);
            }
            state.prepare_last(0, last.len(), flags);
            (kernels.single)(&mut state, &raw const tail_at, 1);
        }
        let mut output = [0; DIGEST_SIZE];
        state.write_chaining_value(0, &mut output);
        output
    }

    /// Digests inputs of any lengths. The iterator is `dyn` because otherwise the engine would be compiled for each type of iterator.
    fn run(&self, kernels: Kernels, jobs: &mut dyn Iterator<Item = Job<'_>>) {
        engine::run::<MAX_HASH_LANES, _>(&mut InputLanes::new(kernels, self), jobs);
    }

    /// Digests inputs of one block that lie one after the other.
    fn run_pairs(&self, kernels: Kernels, pairs: &[u8], flags: BlockFlags, output: &mut [[u8; DIGEST_SIZE]]) {
        let begin = LaneStates {
            chains: self.key.map(|word| [word; _]),
            flags: [flags.every | flags.first | flags.last; _],
            lengths: [BLOCK_SIZE as u32; _],
            ..LaneStates::default()
        };
        let (mut pairs, mut output) = (pairs.as_chunks::<BLOCK_SIZE>().0, output);
        debug_assert_eq!(pairs.len(), output.len());
        while !pairs.is_empty() {
            let alone = pairs.len() < kernels.break_even;
            let (lanes, kernel) = if alone { (1, kernels.single) } else { (kernels.lanes, kernels.side_by_side) };
            let (group, others) = pairs.split_at(lanes.min(pairs.len()));
            let (digests, other_digests) = core::mem::take(&mut output).split_at_mut(group.len());
            let mut state = begin;
            // Lanes beyond the last pair repeat the first.
            let at: [_; MAX_HASH_LANES] = array::from_fn(|lane| group.get(lane).unwrap_or(&group[0]).as_ptr());
            // SAFETY: the CPU has the instructions because `kernels` exists. Each pointer is to a block.
            unsafe { kernel(&mut state, at.as_ptr(), 1) };
            digests.iter_mut().enumerate().for_each(|(lane, digest)| state.write_chaining_value(lane, digest));
            (pairs, output) = (others, other_digests);
        }
    }
}

impl Drop for Mode {
    fn drop(&mut self) {
        self.key.zeroize();
    }
}

impl BlockFlags {
    fn with_last(self, last: u32) -> Self {
        BlockFlags { last: self.last | last, ..self }
    }
}

impl LaneStates {
    /// Begins an input in a lane.
    fn begin_input(&mut self, lane: usize, mode: &Mode, counter: u64, flags: BlockFlags) {
        self.chains.iter_mut().zip(mode.key).for_each(|(row, word)| row[lane] = word);
        self.counters[0][lane] = counter as u32;
        self.counters[1][lane] = (counter >> 32) as u32;
        self.lengths[lane] = BLOCK_SIZE as u32;
        self.flags[lane] = flags.every;
        self.next_flags[lane] = flags.first;
    }

    /// Yields all rows.
    fn rows(&mut self) -> impl Iterator<Item = &mut Row> {
        let LaneStates { chains, next_flags, counters, lengths, flags } = self;
        chains.iter_mut().chain([next_flags]).chain(counters).chain([lengths, flags])
    }

    /// Copies the lane `lane` of `self` to the lane `other` of `to`.
    fn copy_lane(&mut self, lane: usize, to: &mut LaneStates, other: usize) {
        self.rows().zip(to.rows()).for_each(|(row, to)| to[other] = row[lane]);
    }

    /// Prepares the last block of a lane, which has `bytes` bytes.
    fn prepare_last(&mut self, lane: usize, bytes: usize, flags: BlockFlags) {
        self.lengths[lane] = bytes as u32;
        self.flags[lane] |= flags.last;
    }

    /// Writes the chaining value of a lane.
    fn write_chaining_value(&self, lane: usize, output: &mut [u8; DIGEST_SIZE]) {
        for (bytes, row) in output.as_chunks_mut().0.iter_mut().zip(&self.chains) {
            *bytes = row[lane].to_le_bytes();
        }
    }
}

/// Splits an input into whole blocks and the last block, which may be shorter. The last block is empty only if the input is empty.
fn split_last_block(input: &[u8]) -> (&[u8], &[u8]) {
    input.split_at(input.len().saturating_sub(1) / BLOCK_SIZE * BLOCK_SIZE)
}

fn words(bytes: &[u8; DIGEST_SIZE]) -> [u32; 8] {
    array::from_fn(|i| u32::from_le_bytes(bytes.as_chunks().0[i]))
}

/// An input of at most a chunk, and the buffer for its chaining value.
struct Job<'a> {
    input: &'a [u8],
    counter: u64,
    flags: BlockFlags,
    output: &'a mut [u8; DIGEST_SIZE],
}

/// The input of a lane.
struct Lane<'a> {
    /// The bytes of the last block, until it is in `tails`.
    last: Option<&'a [u8]>,
    flags: BlockFlags,
    output: &'a mut [u8; DIGEST_SIZE],
}

/// The next block of a lane.
#[derive(Clone, Copy)]
enum BlockSource {
    Body(*const u8),
    /// The last block of this lane.
    Tail(usize),
}

/// Lanes of inputs of any lengths.
struct InputLanes<'a, 's> {
    kernels: Kernels,
    mode: &'s Mode,
    state: LaneStates,
    sources: [BlockSource; MAX_HASH_LANES],
    lanes: [Option<Lane<'a>>; MAX_HASH_LANES],
    /// The last block of each input, padded with zeros.
    tails: [[u8; BLOCK_SIZE]; MAX_HASH_LANES],
}

impl<'s> InputLanes<'_, 's> {
    fn new(kernels: Kernels, mode: &'s Mode) -> Self {
        InputLanes {
            kernels,
            mode,
            state: LaneStates::default(),
            sources: [BlockSource::Tail(0); MAX_HASH_LANES],
            lanes: [const { None }; MAX_HASH_LANES],
            tails: [[0; BLOCK_SIZE]; MAX_HASH_LANES],
        }
    }

    fn address(&self, lane: usize) -> *const u8 {
        match self.sources[lane] {
            BlockSource::Body(at) => at,
            BlockSource::Tail(lane) => self.tails[lane].as_ptr(),
        }
    }

    /// Moves a lane on by whole blocks. A tail stays in place: it is one block, after which the input ends.
    fn skip(&mut self, lane: usize, blocks: usize) {
        if let BlockSource::Body(at) = &mut self.sources[lane] {
            *at = at.wrapping_add(blocks * BLOCK_SIZE);
        }
    }
}

impl<'a> Lanes for InputLanes<'a, '_> {
    type Job = Job<'a>;

    fn lanes(&self) -> usize {
        self.kernels.lanes
    }

    fn break_even(&self) -> usize {
        self.kernels.break_even
    }

    fn few_lanes(&self) -> usize {
        1
    }

    fn start_job(&mut self, lane: usize, job: Job<'a>) -> usize {
        let Job { input, counter, flags, output } = job;
        let (body, last) = split_last_block(input);
        self.state.begin_input(lane, self.mode, counter, flags);
        self.sources[lane] = BlockSource::Body(body.as_ptr());
        self.lanes[lane] = Some(Lane { last: Some(last), flags, output });
        if body.is_empty() { self.next_segment(lane) } else { body.len() / BLOCK_SIZE }
    }

    fn next_segment(&mut self, lane: usize) -> usize {
        let Some(input) = &mut self.lanes[lane] else { return 0 };
        let Some(last) = input.last.take() else {
            self.state.write_chaining_value(lane, input.output);
            self.lanes[lane] = None;
            return 0;
        };
        let (bytes, zeros) = self.tails[lane].split_at_mut(last.len());
        bytes.copy_from_slice(last);
        zeros.fill(0);
        self.state.prepare_last(lane, last.len(), input.flags);
        self.sources[lane] = BlockSource::Tail(lane);
        1
    }

    fn shadow(&mut self, idle: usize, busy: usize) {
        self.sources[idle] = self.sources[busy];
    }

    fn advance(&mut self, blocks: usize, _: bool) {
        let at: [_; MAX_HASH_LANES] = array::from_fn(|lane| self.address(lane));
        // SAFETY: the CPU has the instructions because `kernels` exists. The pointer of a busy lane is to its input or its tail, and the
        // engine never advances beyond the blocks that `start_job` or `next_segment` returned. The pointer of an idle lane is a busy
        // lane's.
        unsafe { (self.kernels.side_by_side)(&mut self.state, at.as_ptr(), blocks) };
        (0..self.kernels.lanes).for_each(|lane| self.skip(lane, blocks));
    }

    fn advance_few(&mut self, lanes: &[usize], blocks: usize) {
        for &lane in lanes {
            let mut state = LaneStates::default();
            self.state.copy_lane(lane, &mut state, 0);
            let at = self.address(lane);
            // SAFETY: as for `advance`, with one lane.
            unsafe { (self.kernels.single)(&mut state, &raw const at, blocks) };
            state.copy_lane(0, &mut self.state, lane);
            self.skip(lane, blocks);
        }
    }
}

#[cfg(test)]
mod tests;
