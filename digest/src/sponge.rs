//! SHA-3, HMAC over it, SHAKE, TurboSHAKE and BLAKE2b on lanes: messages, streams, padding.
//!
//! They are unlike the hash functions of `hash`: their blocks have other lengths, a message always ends with one block that is not one of
//! its whole ones, no length field is in it, and a digest may be longer than a block: then blocks of zeros follow, which change nothing
//! but what the permutation changes.

use core::marker::PhantomData;

use zeroize::Zeroize;

use crate::algorithm::Algorithm;
use crate::engine::{self, Lanes};
use crate::family::{Chain, Family};
use crate::kernel::keccak::{self, WORDS};
use crate::kernel::wide::{Kernels, WIDE_LANES};
use crate::level::Level;
use crate::wipe::{below, overwrite};

/// Bytes of the longest block (SHAKE128).
const MAX_BLOCK: usize = 168;

/// Bytes of the stack that kernels use, and what calls them: at most three states of eight lanes.
const STACK: usize = 8 << 10;

/// What Keccak and BLAKE2b do differently.
pub trait Function: Sized + Send + Sync + 'static {
    /// Bytes of a block.
    const BLOCK: usize;
    /// Words of the state, at most [`WORDS`].
    const WORDS: usize;

    /// Rounds for a block.
    const ROUNDS: usize;

    /// How many of the blocks in so many bytes are surely not the last one.
    fn whole(bytes: usize) -> usize;

    /// Pads the last block, which has `left` bytes of the message and then zeros. `domain` is that of the message's start.
    fn pad(block: &mut [u8], left: usize, domain: u8);

    /// Tells the state of a lane that the last block follows, with `left` bytes of the message.
    fn last<const N: usize>(states: &mut States<N>, lane: usize, left: usize);

    /// The kernels for a CPU.
    fn kernels(level: Level) -> Kernels;
}

/// Where every message of a session starts, and how it ends. For HMAC this is the key: the states behind the inner and the outer
/// key block.
pub struct Start<F> {
    state: [u64; WORDS],
    outer: Option<[u64; WORDS]>,
    /// Bytes of the untruncated result.
    digest: usize,
    /// Bytes that are zero behind the message, at most one; they are digested as it is.
    zeros: usize,
    /// What padding begins with.
    domain: u8,
    function: PhantomData<F>,
}

impl<F: Function> Start<F> {
    /// A plain digest of `digest` bytes.
    pub const fn digest(initial: [u64; WORDS], digest: usize) -> Self {
        Start { state: initial, outer: None, digest, zeros: 0, domain: keccak::SHA3, function: PhantomData }
    }

    /// A digest of any length, with another beginning of the padding, and with so many zeros, one at most, behind each message.
    pub const fn xof(digest: usize, zeros: usize, domain: u8) -> Self {
        Start { state: keccak::INITIAL, outer: None, digest, zeros, domain, function: PhantomData }
    }

    /// HMAC (RFC 2104) with a key of any length. Leaves copies of the key on the stack, for [`wiped`](crate::wipe::wiped).
    pub fn hmac(kernels: Kernels, initial: [u64; WORDS], digest: usize, key: &[u8]) -> Self {
        let mut block = [0; MAX_BLOCK];
        if key.len() > F::BLOCK {
            let plain = Start::<F>::digest(initial, digest);
            run_one(kernels, Job { start: &plain, stream: None, input: key, output: Some(&mut block[..digest]) });
        } else {
            block[..key.len()].copy_from_slice(key);
        }
        let behind = |pad: u8| {
            let mut state = initial;
            let padded = block.map(|byte| byte ^ pad);
            let message = padded.as_ptr();
            // SAFETY: the CPU has the instructions because `kernels` exists; there is one lane, a state has all words of any function,
            // and the block is as long as the longest.
            unsafe { (kernels.single)(state.as_mut_ptr(), &raw const message, 1, F::BLOCK, F::ROUNDS) };
            state
        };
        let mut start = Start::digest(behind(0x36), digest);
        start.outer = Some(behind(0x5c));
        start
    }

    /// The state in front of the message.
    pub fn initial(&self) -> [u64; WORDS] {
        self.state
    }

    /// Bytes of the untruncated result.
    pub fn size(&self) -> usize {
        self.digest
    }

    /// Whether there is a key.
    pub fn is_keyed(&self) -> bool {
        self.outer.is_some()
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
impl<F: Function> Start<F> {
    /// What must not be left behind, as it is in memory.
    pub fn secrets(&self) -> Vec<Vec<u8>> {
        let states = [&self.state].into_iter().chain(self.outer.as_ref());
        states.map(|state| state.iter().flat_map(|word| word.to_ne_bytes()).collect()).collect()
    }
}

impl<F> Drop for Start<F> {
    fn drop(&mut self) {
        self.state.zeroize();
        self.outer.zeroize();
    }
}

/// A message that arrives in pieces.
pub struct Stream<F> {
    state: [u64; WORDS],
    buffer: [u8; MAX_BLOCK],
    /// Bytes in `buffer`, at most a block.
    buffered: usize,
    function: PhantomData<F>,
}

impl<F: Function> Stream<F> {
    /// The beginning of a message.
    pub fn new(start: &Start<F>) -> Self {
        Stream { state: start.state, buffer: [0; MAX_BLOCK], buffered: 0, function: PhantomData }
    }

    /// Fills up the block that is begun with the first bytes of `input`. Answers whether it is to be absorbed now, and with the rest
    /// of the input.
    fn fill_up<'i>(&mut self, input: &'i [u8]) -> (bool, &'i [u8]) {
        if self.buffered == 0 {
            return (false, input);
        }
        let (piece, rest) = input.split_at(input.len().min(F::BLOCK - self.buffered));
        self.buffer[self.buffered..][..piece.len()].copy_from_slice(piece);
        let is_whole = F::whole(self.buffered + input.len()) > 0;
        self.buffered = if is_whole { 0 } else { self.buffered + piece.len() };
        (is_whole, rest)
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
impl<F> Stream<F> {
    /// The state, as it is in memory.
    pub fn secret(&self) -> Vec<u8> {
        self.state.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }
}

impl<F> Clone for Stream<F> {
    fn clone(&self) -> Self {
        Stream { state: self.state, buffer: self.buffer, buffered: self.buffered, function: PhantomData }
    }
}

impl<F> Drop for Stream<F> {
    fn drop(&mut self) {
        self.state.zeroize();
        self.buffer.zeroize();
    }
}

/// One request: `input` is the next piece of `stream`, or the whole message where there is no stream. With an `output` the
/// message ends here, its digest goes there (cut to the length of `output`), and the stream is at its beginning again.
pub struct Job<'a, F> {
    pub start: &'a Start<F>,
    pub stream: Option<&'a mut Stream<F>>,
    pub input: &'a [u8],
    pub output: Option<&'a mut [u8]>,
}

/// Runs jobs side by side. Those that are `keyed` leave nothing of it on the stack: a state of Keccak can be computed backwards.
pub fn run<'a, F: Function>(kernels: Kernels, keyed: bool, jobs: impl Iterator<Item = Job<'a, F>>) {
    if cfg!(not(any(target_arch = "x86_64", target_arch = "aarch64"))) {
        // There is one lane.
        return jobs.for_each(|job| run_one(kernels, job));
    }
    below(|| engine::run::<WIDE_LANES, _>(&mut SpongeLanes::<F, WIDE_LANES>::new(kernels, kernels.lanes), jobs));
    if keyed {
        overwrite::<STACK>();
    }
}

/// Runs one job with the kernel for a single message.
pub fn run_one<F: Function>(kernels: Kernels, job: Job<'_, F>) {
    let keyed = job.start.is_keyed();
    below(|| engine::run_one(&mut SpongeLanes::<F, 1>::new(kernels, 1), job));
    if keyed {
        overwrite::<STACK>();
    }
}

/// Takes chains of HMACs so many steps further, side by side. Leaves copies of what it works with on the stack.
pub(crate) fn iterate<F: Function + Family<Start = Start<F>>>(
    kernels: Kernels,
    chains: &mut [Chain<'_, F>],
    steps: u64,
) {
    for chains in chains.chunks_mut(WIDE_LANES) {
        let mut before = [[0; Algorithm::MAX_DIGEST]; WIDE_LANES];
        for _ in 0..steps {
            for (before, chain) in before.iter_mut().zip(&*chains) {
                before[..chain.digest.len()].copy_from_slice(chain.digest);
            }
            let jobs = chains.iter_mut().zip(&before).map(|(Chain { start, digest, .. }, before)| {
                let input = &before[..digest.len()];
                Job { start: *start, stream: None, input, output: Some(&mut **digest) }
            });
            run(kernels, false, jobs);
            for Chain { digest, sum, .. } in &mut *chains {
                sum.iter_mut().zip(&**digest).for_each(|(sum, byte)| *sum ^= byte);
            }
        }
    }
}

/// What comes next in a lane.
#[derive(Clone, Copy)]
enum Stage {
    /// The block that a stream has buffered.
    Head,
    /// The whole blocks of the input.
    Body,
    /// The padded block; or, for a stream that goes on, nothing.
    Tail,
    /// The same where the zeros behind the message have filled up its last block.
    Padding,
    /// HMAC's outer block, over the digest.
    Outer,
    /// Write the digest, or its next block.
    Digest,
}

/// The request of a lane.
struct Lane<'a, F> {
    start: &'a Start<F>,
    stream: Option<&'a mut Stream<F>>,
    output: Option<&'a mut [u8]>,
    stage: Stage,
    /// The whole blocks of the input.
    body: &'a [u8],
    /// What is behind them.
    rest: &'a [u8],
}

/// The states of at most `N` lanes, word-major: word `i` of lane `l` at `[i][l]`.
pub struct States<const N: usize>([[u64; N]; WORDS]);

impl<const N: usize> States<N> {
    /// A word of a lane.
    pub fn word(&mut self, word: usize, lane: usize) -> &mut u64 {
        &mut self.0[word][lane]
    }

    fn get(&self, lane: usize) -> [u64; WORDS] {
        self.0.each_ref().map(|row| row[lane])
    }

    #[inline(always)]
    fn set(&mut self, words: usize, lane: usize, state: &[u64; WORDS]) {
        for (word, row) in state[..words].iter().zip(&mut self.0) {
            row[lane] = *word;
        }
    }

    /// Writes the first words as bytes, cut to the length of `output`.
    #[inline(always)]
    fn write(&self, lane: usize, output: &mut [u8]) {
        for (part, row) in output.chunks_mut(8).zip(&self.0) {
            part.copy_from_slice(&row[lane].to_le_bytes()[..part.len()]);
        }
    }
}

/// Lanes of a function: one, or [`WIDE_LANES`], of which the first `count` are in use.
struct SpongeLanes<'a, F: Function, const N: usize> {
    kernels: Kernels,
    count: usize,
    states: States<N>,
    /// Where each lane reads next.
    at: [*const u8; N],
    lanes: [Option<Lane<'a, F>>; N],
    tails: [[u8; MAX_BLOCK]; N],
}

impl<F: Function, const N: usize> SpongeLanes<'_, F, N> {
    fn new(kernels: Kernels, count: usize) -> Self {
        SpongeLanes {
            kernels,
            count,
            states: States([[0; N]; WORDS]),
            at: [core::ptr::null(); N],
            lanes: [const { None }; N],
            tails: [[0; MAX_BLOCK]; N],
        }
    }
}

impl<F: Function, const N: usize> Drop for SpongeLanes<'_, F, N> {
    fn drop(&mut self) {
        // Whole registers of zeros at once, which `zeroize` is not. Whoever has the addresses may look at them: none can be left out.
        self.states.0.as_flattened_mut().fill(0);
        self.tails.as_flattened_mut().fill(0);
        core::hint::black_box((&mut self.states.0, &mut self.tails));
    }
}

impl<'a, F: Function, const N: usize> Lanes for SpongeLanes<'a, F, N> {
    type Job = Job<'a, F>;

    fn lanes(&self) -> usize {
        self.count
    }

    fn break_even(&self) -> usize {
        self.kernels.break_even
    }

    fn few(&self) -> usize {
        1
    }

    fn start(&mut self, lane: usize, job: Job<'a, F>) -> usize {
        let Job { start, mut stream, input, output } = job;
        debug_assert!(output.as_ref().is_none_or(|output| output.len() <= start.digest));
        self.states.set(F::WORDS, lane, stream.as_ref().map_or(&start.state, |stream| &stream.state));
        let (head, rest) = match &mut stream {
            None => (false, input),
            Some(stream) => stream.fill_up(input),
        };
        let (body, rest) = rest.split_at(F::whole(rest.len()) * F::BLOCK);
        let stage = if head { Stage::Head } else { Stage::Body };
        self.lanes[lane] = Some(Lane { start, stream, output, stage, body, rest });
        self.next(lane)
    }

    fn next(&mut self, lane: usize) -> usize {
        let Some(job) = &mut self.lanes[lane] else { return 0 };
        let tail = &mut self.tails[lane][..F::BLOCK];
        let (at, blocks) = match (job.stage, &mut job.stream) {
            (Stage::Head, Some(stream)) => {
                job.stage = Stage::Body;
                (stream.buffer.as_ptr(), 1)
            }
            (Stage::Head | Stage::Body, _) if !job.body.is_empty() => {
                job.stage = Stage::Tail;
                (job.body.as_ptr(), job.body.len() / F::BLOCK)
            }
            (Stage::Head | Stage::Body | Stage::Tail, stream) if job.output.is_some() => {
                // Either the rest of the input begins a block, or all of it went into the stream's buffer.
                let left = match stream {
                    Some(stream) if stream.buffered > 0 => &stream.buffer[..stream.buffered],
                    _ => job.rest,
                };
                tail.fill(0);
                tail[..left.len()].copy_from_slice(left);
                let left = left.len() + job.start.zeros;
                if job.start.zeros > 0 && left == F::BLOCK {
                    job.stage = Stage::Padding;
                } else {
                    job.stage = if job.start.is_keyed() { Stage::Outer } else { Stage::Digest };
                    F::pad(tail, left, job.start.domain);
                    F::last(&mut self.states, lane, left);
                }
                (tail.as_ptr(), 1)
            }
            (Stage::Padding, _) => {
                job.stage = Stage::Digest;
                tail.fill(0);
                F::pad(tail, 0, job.start.domain);
                (tail.as_ptr(), 1)
            }
            (Stage::Head | Stage::Body | Stage::Tail, stream) => {
                if let Some(stream) = stream {
                    if !job.rest.is_empty() {
                        stream.buffer[..job.rest.len()].copy_from_slice(job.rest);
                        stream.buffered = job.rest.len();
                    }
                    stream.state = self.states.get(lane);
                }
                (core::ptr::null(), 0)
            }
            (Stage::Outer, _) => {
                job.stage = Stage::Digest;
                tail.fill(0);
                let digest = job.start.digest;
                self.states.write(lane, &mut tail[..digest]);
                F::pad(tail, digest, job.start.domain);
                if let Some(outer) = &job.start.outer {
                    self.states.set(F::WORDS, lane, outer);
                }
                F::last(&mut self.states, lane, digest);
                (tail.as_ptr(), 1)
            }
            (Stage::Digest, stream) => {
                let output = job.output.take().unwrap_or_default();
                let (block, rest) = output.split_at_mut(output.len().min(F::BLOCK));
                self.states.write(lane, block);
                if rest.is_empty() {
                    if let Some(stream) = stream {
                        stream.state = job.start.state;
                        stream.buffer.zeroize();
                        stream.buffered = 0;
                    }
                    (core::ptr::null(), 0)
                } else {
                    job.output = Some(rest);
                    tail.fill(0);
                    (tail.as_ptr(), 1)
                }
            }
        };
        self.at[lane] = at;
        if blocks == 0 {
            self.lanes[lane] = None;
        }
        blocks
    }

    fn shadow(&mut self, idle: usize, busy: usize) {
        self.at[idle] = self.at[busy];
    }

    fn advance(&mut self, blocks: usize, _: bool) {
        assert!(N == WIDE_LANES && self.count == self.kernels.lanes);
        // SAFETY: the CPU has the instructions because `kernels` exists. `states` has no fewer rows than the function has words, as long as
        // those of the kernels. Every pointer in `at` is readable for `blocks` blocks: that of a busy lane points into its input, its
        // stream's buffer or its tail, all borrowed or owned by `self`, of which the engine hands out no more than `next` counted; that of
        // an idle lane is a copy of a busy one's.
        unsafe {
            let (states, at) = (self.states.0.as_mut_ptr().cast(), self.at.as_ptr());
            (self.kernels.side_by_side)(states, at, blocks, F::BLOCK, F::ROUNDS);
        }
        for at in &mut self.at {
            *at = at.wrapping_add(blocks * F::BLOCK);
        }
    }

    fn advance_few(&mut self, lanes: &[usize], blocks: usize) {
        for &lane in lanes {
            let at = &mut self.at[lane];
            let mut state = self.states.get(lane);
            // SAFETY: as for `advance`, with one lane.
            unsafe { (self.kernels.single)(state.as_mut_ptr(), at, blocks, F::BLOCK, F::ROUNDS) };
            self.states.set(F::WORDS, lane, &state);
            state.zeroize();
            *at = at.wrapping_add(blocks * F::BLOCK);
        }
    }
}

#[cfg(test)]
pub mod tests;
