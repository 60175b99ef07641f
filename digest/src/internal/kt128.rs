//! KT128 (RFC 9861, section 3) on lanes, with an empty customization string.
//!
//! A message, followed by a zero byte, is cut into chunks. All but the first are leaves, which are hashed side by side, for one
//! message or many. The node digests the first chunk and then the values of the leaves. A message of one chunk is digested
//! directly.

use core::ops::Range;

use zeroize::Zeroize;

use crate::internal::dispatch::sponge::Kernels;
use crate::internal::kernel::keccak::Keccak;
use crate::internal::sponge::{self, Setup, Stream};

/// TurboSHAKE128, on which KT128 is built.
pub type TurboShake128 = Keccak<168, 12>;

/// Bytes of a chunk.
const CHUNK_SIZE: usize = 8192;
/// Bytes of a leaf's value.
const LEAF_VALUE_SIZE: usize = 32;
/// The bytes that the node digests between the first chunk and the values.
const NODE_PREFIX: [u8; 8] = [3, 0, 0, 0, 0, 0, 0, 0];
/// Maximum number of bytes after the values: the number of leaves, the length of that number in bytes, and two more.
const MAX_NODE_SUFFIX: usize = size_of::<u64>() + 3;

static SINGLE_CHUNK: Setup<TurboShake128> = Setup::xof(usize::MAX, 1, 0x07);
static LEAF: Setup<TurboShake128> = Setup::xof(LEAF_VALUE_SIZE, 0, 0x0b);
static LAST_LEAF: Setup<TurboShake128> = Setup::xof(LEAF_VALUE_SIZE, 1, 0x0b);
static NODE: Setup<TurboShake128> = Setup::xof(usize::MAX, 0, 0x06);

/// A message that arrives in pieces.
#[derive(Clone)]
pub struct Kt128Stream {
    node: Stream<TurboShake128>,
    /// The current leaf.
    leaf: Stream<TurboShake128>,
    /// Bytes of the message so far.
    length: u64,
}

impl Kt128Stream {
    /// Starts a message.
    #[allow(clippy::new_without_default, reason = "streams of other functions begin with a setup")]
    pub fn new() -> Self {
        Kt128Stream { node: Stream::new(&NODE), leaf: Stream::new(&LEAF), length: 0 }
    }
}

/// One request.
pub struct Job<'a> {
    /// A message that arrives in pieces.
    pub stream: Option<&'a mut Kt128Stream>,
    /// The next piece of `stream`, or the whole message if there is no stream.
    pub input: &'a [u8],
    /// Ends the message: receives its digest, and the stream restarts.
    pub output: Option<&'a mut [u8]>,
}

impl<'a> Job<'a> {
    /// Converts to a job of the sponge if the message, including this input, stays within its first chunk.
    fn into_single_chunk(self) -> Result<sponge::Job<'a, TurboShake128>, Self> {
        let end = self.stream.as_ref().map_or(0, |stream| stream.length) + self.input.len() as u64;
        if end >= CHUNK_SIZE as u64 {
            return Err(self);
        }
        let Job { stream, input, output } = self;
        let setup = if output.is_some() { &SINGLE_CHUNK } else { &NODE };
        let stream = stream.map(|stream| {
            stream.length = if output.is_some() { 0 } else { end };
            &mut stream.node
        });
        Ok(sponge::Job { setup, stream, input, output })
    }
}

/// Runs a job alone; its chunks go side by side.
pub fn run_one(kernels: Kernels, job: Job<'_>) {
    match job.into_single_chunk() {
        Ok(job) => sponge::run_one(kernels, job),
        Err(job) => run(kernels, core::iter::once(job)),
    }
}

/// Maximum number of messages of several chunks in progress.
const MAX_TASKS: usize = 8;
/// Maximum number of jobs per round: chunks, and messages of one chunk. The lanes refill many times between two rounds of nodes.
const MAX_ROUND_JOBS: usize = 64;

/// Runs jobs side by side.
pub fn run<'a>(kernels: Kernels, jobs: impl Iterator<Item = Job<'a>>) {
    let mut jobs = jobs.fuse();
    let mut tasks = [const { None }; MAX_TASKS];
    let mut space = [0; MAX_ROUND_JOBS * LEAF_VALUE_SIZE + MAX_TASKS * (NODE_PREFIX.len() + MAX_NODE_SUFFIX)];
    loop {
        let mut round = Round { jobs: [const { None }; MAX_ROUND_JOBS], count: 0, space: &mut space, used: 0 };
        let mut is_idle = true;
        for task in &mut tasks {
            while task.is_none() && !round.is_full() {
                let Some(job) = jobs.next() else { break };
                match job.into_single_chunk() {
                    Ok(job) => round.add(job),
                    Err(job) => *task = Some(Task::new(job)),
                }
            }
            if let Some(task) = task {
                is_idle = false;
                task.add_chunks(&mut round);
            }
        }
        let (count, used) = (round.count, round.used);
        sponge::run(kernels, false, round.jobs[..count].iter_mut().filter_map(Option::take));
        if is_idle && count < MAX_ROUND_JOBS {
            return;
        }
        sponge::run(kernels, false, tasks.iter_mut().flatten().filter_map(|task| task.node_job(&space)));
        space[..used].zeroize();
        for task in &mut tasks {
            if task.as_ref().is_some_and(|task| task.is_finished) {
                // Drops in place, without leaving a copy.
                *task = None;
            }
        }
    }
}

/// The jobs of a round.
struct Round<'r> {
    jobs: [Option<sponge::Job<'r, TurboShake128>>; MAX_ROUND_JOBS],
    count: usize,
    /// Unused space for the input of nodes.
    space: &'r mut [u8],
    /// Bytes taken from `space`.
    used: usize,
}

impl<'r> Round<'r> {
    fn is_full(&self) -> bool {
        self.count == MAX_ROUND_JOBS
    }

    fn add(&mut self, job: sponge::Job<'r, TurboShake128>) {
        self.jobs[self.count] = Some(job);
        self.count += 1;
    }

    /// Adds the end of a leaf.
    fn add_leaf(
        &mut self,
        setup: &'r Setup<TurboShake128>,
        stream: Option<&'r mut Stream<TurboShake128>>,
        input: &'r [u8],
    ) {
        let output = Some(self.take_space(LEAF_VALUE_SIZE));
        self.add(sponge::Job { setup, stream, input, output });
    }

    fn take_space(&mut self, bytes: usize) -> &'r mut [u8] {
        let (space, rest) = core::mem::take(&mut self.space).split_at_mut(bytes);
        self.space = rest;
        self.used += bytes;
        space
    }
}

/// A job of several chunks.
struct Task<'a> {
    /// The stream of a whole message.
    own_stream: Kt128Stream,
    stream: Option<&'a mut Kt128Stream>,
    /// The remaining input.
    input: &'a [u8],
    output: Option<&'a mut [u8]>,
    /// The range of the node's next input.
    node_input: Range<usize>,
    /// True once leaves and the node have all of the input.
    is_finished: bool,
}

impl<'a> Task<'a> {
    fn new(job: Job<'a>) -> Self {
        let Job { stream, input, output } = job;
        Task { own_stream: Kt128Stream::new(), stream, input, output, node_input: 0..0, is_finished: false }
    }

    /// Adds the next chunks, as many as there is space for.
    fn add_chunks<'r>(&'r mut self, round: &mut Round<'r>) {
        let Task { own_stream, stream, input, output, node_input, is_finished } = self;
        let stream = if let Some(stream) = stream { &mut **stream } else { own_stream };
        let (mut filled, is_first) = ((stream.length % CHUNK_SIZE as u64) as usize, stream.length < CHUNK_SIZE as u64);
        let Kt128Stream { node, leaf, length } = stream;
        let mut leaf = Some(leaf);
        let mut take = |input: &mut &'a [u8], bytes: usize| {
            let piece = input.split_off(..input.len().min(bytes)).unwrap_or_default();
            *length += piece.len() as u64;
            piece
        };
        node_input.start = round.used;
        if is_first {
            // Fills the first chunk: a shorter message never becomes a task.
            let piece = take(input, CHUNK_SIZE - filled);
            round.add(sponge::Job { setup: &NODE, stream: Some(node), input: piece, output: None });
            round.take_space(NODE_PREFIX.len()).copy_from_slice(&NODE_PREFIX);
            filled = 0;
        }
        while !*is_finished && !round.is_full() {
            let continues = output.is_none() && input.len() < CHUNK_SIZE - filled;
            if continues && input.is_empty() {
                *is_finished = true;
                break;
            }
            let stream = if filled > 0 || continues { leaf.take() } else { None };
            if continues && stream.is_none() {
                // The current leaf ends in this round; the next leaf must wait for the next round.
                break;
            }
            let piece = take(input, CHUNK_SIZE - filled);
            if continues {
                round.add(sponge::Job { setup: &LEAF, stream, input: piece, output: None });
            } else if filled + piece.len() == CHUNK_SIZE {
                round.add_leaf(&LEAF, stream, piece);
            } else {
                round.add_leaf(&LAST_LEAF, stream, piece);
                *is_finished = true;
            }
            filled = 0;
        }
        if *is_finished && output.is_some() {
            let leaves = *length / CHUNK_SIZE as u64;
            let bytes = (u64::BITS - leaves.leading_zeros()).div_ceil(8) as usize;
            let suffix = round.take_space(bytes + 3);
            suffix[..bytes].copy_from_slice(&leaves.to_be_bytes()[size_of::<u64>() - bytes..]);
            suffix[bytes..].copy_from_slice(&[bytes as u8, 0xff, 0xff]);
        }
        node_input.end = round.used;
    }

    /// Returns the node's next job, if there is one.
    fn node_job<'r>(&'r mut self, space: &'r [u8]) -> Option<sponge::Job<'r, TurboShake128>> {
        let Task { own_stream, stream, output, node_input, is_finished, .. } = self;
        let stream = if let Some(stream) = stream { &mut **stream } else { own_stream };
        let output = if *is_finished { output.take() } else { None };
        if output.is_some() {
            stream.length = 0;
        }
        let input = &space[node_input.clone()];
        (!input.is_empty()).then_some(sponge::Job { setup: &NODE, stream: Some(&mut stream.node), input, output })
    }
}

#[cfg(test)]
mod tests;
