//! SHA-3, HMAC over it, SHAKE, TurboSHAKE and BLAKE2b on lanes: messages, streams, padding.
//!
//! They differ from the hash functions of the module `hash`. Block sizes vary; the last block is always padded separately; there is no
//! length field; and a digest may be longer than a block. Each further block of a digest follows the absorption of a block of
//! zeros, which only applies the permutation.

use core::marker::PhantomData;
use core::mem::MaybeUninit;

use zeroize::Zeroize;

use crate::algorithm::Algorithm;
use crate::hmac_chain::HmacChain;
use crate::internal::dispatch::sponge::{Function, Kernels};
use crate::internal::engine::{self, Lanes};
use crate::internal::job;
use crate::internal::kernel::absorb::{MAX_SPONGE_LANES, STATE_WORDS, States};
use crate::internal::kernel::keccak;
use crate::internal::wipe::{in_own_frame, overwrite_stack};
use crate::level::Level;
use crate::messages::Messages;

/// Bytes of the longest block (SHAKE128).
const MAX_BLOCK_SIZE: usize = 168;

/// Stack bytes that kernels and their callers use: at most three states of eight lanes.
const STACK_BYTES: usize = 8 << 10;

/// The starting state of every message of a session, and the values that finish a message. For HMAC, both states are the key: they are
/// the states after the inner and the outer key block.
pub struct Setup<F> {
    state: [u64; STATE_WORDS],
    outer: Option<[u64; STATE_WORDS]>,
    /// Bytes of the untruncated result.
    digest_size: usize,
    /// Number of zero bytes digested after the message: 0 or 1.
    zero_bytes: usize,
    /// The domain separation bits, with the first bit of the padding.
    domain: u8,
    function: PhantomData<F>,
}

impl<F: Function> Setup<F> {
    /// A plain digest of `digest_size` bytes.
    pub const fn digest(initial: [u64; STATE_WORDS], digest_size: usize) -> Self {
        Setup {
            state: initial,
            outer: None,
            digest_size,
            zero_bytes: 0,
            domain: keccak::DOMAIN_SHA3,
            function: PhantomData,
        }
    }

    /// A digest of any length, with the domain bits `domain` and `zero_bytes` zero bytes (0 or 1) after each message.
    pub const fn xof(digest_size: usize, zero_bytes: usize, domain: u8) -> Self {
        Setup { state: keccak::INITIAL, outer: None, digest_size, zero_bytes, domain, function: PhantomData }
    }

    /// HMAC (RFC 2104) with a key of any length. Leaves copies of the key on the stack; the caller overwrites them.
    pub fn hmac(kernels: Kernels, initial: [u64; STATE_WORDS], digest_size: usize, key: &[u8]) -> Self {
        Self::hmac_over(kernels, &Setup::digest(initial, digest_size), key)
    }

    /// HMAC over the function with the setup `plain`.
    pub(crate) fn hmac_over(kernels: Kernels, plain: &Self, key: &[u8]) -> Self {
        let Setup { state: initial, digest_size, domain, .. } = *plain;
        let mut block = [0; MAX_BLOCK_SIZE];
        if key.len() > F::BLOCK_SIZE {
            run_one(kernels, Job { setup: plain, stream: None, input: key, output: Some(&mut block[..digest_size]) });
        } else {
            block[..key.len()].copy_from_slice(key);
        }
        let after_pad = |pad: u8| {
            let mut state = initial;
            let padded = block.map(|byte| byte ^ pad);
            let message = padded.as_ptr();
            // SAFETY: the CPU has the instructions because `kernels` exists. There is one lane, a state has all words of any
            // function, and the buffer has the length of the longest block.
            unsafe { (kernels.single)(state.as_mut_ptr(), &raw const message, 1, F::BLOCK_SIZE, F::ROUNDS) };
            state
        };
        let outer = Some(after_pad(0x5c));
        Setup { state: after_pad(0x36), outer, digest_size, zero_bytes: 0, domain, function: PhantomData }
    }

    /// The state before the message.
    pub fn initial(&self) -> [u64; STATE_WORDS] {
        self.state
    }

    /// Bytes of the untruncated result.
    pub fn digest_size(&self) -> usize {
        self.digest_size
    }

    /// Returns true if there is a key.
    pub fn is_keyed(&self) -> bool {
        self.outer.is_some()
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
impl<F: Function> Setup<F> {
    /// The secret states, as they are in memory.
    pub fn secrets(&self) -> Vec<Vec<u8>> {
        let states = [&self.state].into_iter().chain(self.outer.as_ref());
        states.map(|state| state.iter().flat_map(|word| word.to_ne_bytes()).collect()).collect()
    }
}

impl<F> Drop for Setup<F> {
    fn drop(&mut self) {
        self.state.zeroize();
        self.outer.zeroize();
    }
}

/// A message that arrives in pieces.
pub struct Stream<F> {
    state: [u64; STATE_WORDS],
    buffer: [u8; MAX_BLOCK_SIZE],
    /// Bytes in `buffer`, at most a block.
    buffered_len: usize,
    function: PhantomData<F>,
}

impl<F: Function> Stream<F> {
    /// Starts a message.
    pub fn new(setup: &Setup<F>) -> Self {
        Stream { state: setup.state, buffer: [0; MAX_BLOCK_SIZE], buffered_len: 0, function: PhantomData }
    }

    /// Completes the buffered block from the start of `input`. Returns whether the block must be absorbed before the rest of the
    /// input, and this rest.
    fn fill_up<'i>(&mut self, input: &'i [u8]) -> (bool, &'i [u8]) {
        if self.buffered_len == 0 {
            return (false, input);
        }
        let (piece, rest) = input.split_at(input.len().min(F::BLOCK_SIZE - self.buffered_len));
        self.buffer[self.buffered_len..][..piece.len()].copy_from_slice(piece);
        let is_whole = F::whole_blocks(self.buffered_len + input.len()) > 0;
        self.buffered_len = if is_whole { 0 } else { self.buffered_len + piece.len() };
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
        Stream { state: self.state, buffer: self.buffer, buffered_len: self.buffered_len, function: PhantomData }
    }
}

impl<F> Drop for Stream<F> {
    fn drop(&mut self) {
        self.state.zeroize();
        self.buffer.zeroize();
    }
}

/// One request to a function of this family.
pub type Job<'a, F> = job::Job<'a, Setup<F>, Stream<F>>;

/// Runs jobs side by side. If `is_keyed`, wipes the stack afterwards: Keccak can be inverted from any full state.
pub fn run<'a, F: Function>(kernels: Kernels, is_keyed: bool, jobs: impl Iterator<Item = Job<'a, F>>) {
    if cfg!(not(any(target_arch = "x86_64", target_arch = "aarch64", target_feature = "simd128"))) {
        // There is one lane.
        return jobs.for_each(|job| run_one(kernels, job));
    }
    in_own_frame(|| {
        engine::run::<MAX_SPONGE_LANES, _>(&mut SpongeLanes::<F, MAX_SPONGE_LANES>::new(kernels, kernels.lanes), jobs);
    });
    if is_keyed {
        overwrite_stack::<STACK_BYTES>();
    }
}

/// Runs one job with the kernel for a single message.
pub fn run_one<F: Function>(kernels: Kernels, job: Job<'_, F>) {
    let is_keyed = job.setup.is_keyed();
    in_own_frame(|| engine::run_one(&mut SpongeLanes::<F, 1>::new(kernels, 1), job));
    if is_keyed {
        overwrite_stack::<STACK_BYTES>();
    }
}

/// Runs whole messages side by side, each after the bytes in `prefix`, if there is one. Writes their digests, one after the other.
pub(crate) fn run_whole<F: Function>(
    level: Level,
    setup: &Setup<F>,
    prefix: Option<&Stream<F>>,
    messages: &dyn Messages,
    output: &mut [u8],
) {
    let kernels = F::kernels(level);
    let mut streams = [const { None }; MAX_SPONGE_LANES];
    let is_plain = prefix.is_none() && !setup.is_keyed() && setup.zero_bytes == 0 && setup.digest_size <= F::BLOCK_SIZE;
    // There may be one lane, or fewer messages than lanes.
    let is_group = kernels.lanes > 1 && messages.count() >= kernels.lanes;
    let mut first = if is_plain && is_group { run_short(kernels, setup, messages, output) } else { 0 };
    let output = &mut output[first * setup.digest_size..];
    // With a prefix, each message of a round has a copy of the prefix's state.
    let round = if prefix.is_some() { MAX_SPONGE_LANES } else { messages.count().max(1) };
    for outputs in output.chunks_mut(round * setup.digest_size) {
        streams.fill_with(|| prefix.cloned());
        let mut streams = streams.iter_mut();
        let mut jobs = outputs.chunks_exact_mut(setup.digest_size).zip(first..).filter_map(|(output, index)| {
            let stream = streams.next().and_then(Option::as_mut);
            let Some(input) = messages.message(index) else {
                output.fill(0);
                return None;
            };
            Some(Job { setup, stream, input, output: Some(output) })
        });
        if messages.count() == 1 {
            jobs.for_each(|job| run_one(kernels, job));
        } else {
            run(kernels, setup.is_keyed(), &mut jobs);
        }
        first += MAX_SPONGE_LANES;
    }
}

/// Digests messages of one block from the first on, a full group of lanes at a time, without the engine's bookkeeping. Stops before a group
/// that has a longer or missing message. Returns the number of digests.
#[inline(never)]
fn run_short<F: Function>(kernels: Kernels, setup: &Setup<F>, messages: &dyn Messages, output: &mut [u8]) -> usize {
    let begin = setup.state.map(|word| [word; MAX_SPONGE_LANES]);
    let mut blocks = [[0; MAX_BLOCK_SIZE]; MAX_SPONGE_LANES];
    let mut done = 0;
    for outputs in output.chunks_exact_mut(kernels.lanes * setup.digest_size) {
        let mut states = States(begin);
        for (lane, block) in blocks[..kernels.lanes].iter_mut().enumerate() {
            let input = messages.message(done + lane).filter(|input| F::whole_blocks(input.len()) == 0);
            let Some(input) = input else { return done };
            let (bytes, zeros) = block[..F::BLOCK_SIZE].split_at_mut(input.len());
            bytes.copy_from_slice(input);
            zeros.fill(0);
            F::pad(&mut block[..F::BLOCK_SIZE], input.len(), setup.domain);
            F::prepare_last(&mut states, lane, input.len());
        }
        let at = blocks.each_ref().map(|block| block.as_ptr());
        // SAFETY: the CPU has the instructions because `kernels` exists. A state has all words of any function, in rows of
        // `MAX_SPONGE_LANES`, and each pointer is to a buffer of the longest block.
        unsafe { (kernels.side_by_side)(states.0.as_mut_ptr().cast(), at.as_ptr(), 1, F::BLOCK_SIZE, F::ROUNDS) };
        for (lane, output) in outputs.chunks_exact_mut(setup.digest_size).enumerate() {
            states.write(lane, output);
        }
        done += kernels.lanes;
    }
    done
}

/// Advances chains of HMACs by `steps` steps, side by side. Leaves copies of keys and digests on the stack.
pub(crate) fn iterate<F: Function>(level: Level, chains: &mut [HmacChain<'_, Setup<F>>], steps: u64) {
    let kernels = F::kernels(level);
    for chains in chains.chunks_mut(MAX_SPONGE_LANES) {
        let mut before = [[0; Algorithm::MAX_DIGEST_SIZE]; MAX_SPONGE_LANES];
        for _ in 0..steps {
            for (before, chain) in before.iter_mut().zip(&*chains) {
                before[..chain.digest.len()].copy_from_slice(chain.digest);
            }
            let jobs = chains.iter_mut().zip(&before).map(|(HmacChain { setup, digest, .. }, before)| {
                let input = &before[..digest.len()];
                Job { setup: *setup, stream: None, input, output: Some(&mut **digest) }
            });
            run(kernels, false, jobs);
            for HmacChain { digest, sum, .. } in &mut *chains {
                sum.iter_mut().zip(&**digest).for_each(|(sum, byte)| *sum ^= byte);
            }
        }
    }
}

/// The next stage of a lane.
#[derive(Clone, Copy)]
enum Stage {
    /// The block that a stream has buffered.
    Head,
    /// The whole blocks of the input.
    Body,
    /// The padded block; nothing for a stream that continues.
    Tail,
    /// The padded block, if the zeros after the message have filled the block before it.
    Padding,
    /// HMAC's outer block, over the digest.
    Outer,
    /// Write the digest, or its next block.
    Digest,
}

/// The request of a lane.
struct Lane<'a, F> {
    setup: &'a Setup<F>,
    stream: Option<&'a mut Stream<F>>,
    output: Option<&'a mut [u8]>,
    stage: Stage,
    /// The whole blocks of the input.
    body: &'a [u8],
    /// The remainder after `body`.
    rest: &'a [u8],
}

/// The last block of a message. Only blocks that a lane reads are initialized.
type Tail = [MaybeUninit<u8>; MAX_BLOCK_SIZE];

/// Fills a block with zeros.
#[inline(always)]
fn fill_with_zeros(block: &mut [MaybeUninit<u8>]) -> &mut [u8] {
    block.fill(MaybeUninit::new(0));
    // SAFETY: every byte was just initialized.
    unsafe { block.assume_init_mut() }
}

/// Lanes of a function: one, or [`MAX_SPONGE_LANES`], of which the first `lane_count` are in use.
struct SpongeLanes<'a, F: Function, const N: usize> {
    kernels: Kernels,
    lane_count: usize,
    states: States<N>,
    /// The next address that each lane reads.
    addresses: [*const u8; N],
    lanes: [Option<Lane<'a, F>>; N],
    tails: [Tail; N],
}

impl<F: Function, const N: usize> SpongeLanes<'_, F, N> {
    fn new(kernels: Kernels, lane_count: usize) -> Self {
        SpongeLanes {
            kernels,
            lane_count,
            states: States([[0; N]; STATE_WORDS]),
            addresses: [core::ptr::null(); N],
            lanes: [const { None }; N],
            tails: [[MaybeUninit::uninit(); MAX_BLOCK_SIZE]; N],
        }
    }
}

impl<'a, F: Function, const N: usize> Lanes for SpongeLanes<'a, F, N> {
    type Job = Job<'a, F>;

    fn lanes(&self) -> usize {
        self.lane_count
    }

    fn break_even(&self) -> usize {
        self.kernels.break_even
    }

    fn few_lanes(&self) -> usize {
        1
    }

    fn start_job(&mut self, lane: usize, job: Job<'a, F>) -> usize {
        let Job { setup, mut stream, input, output } = job;
        debug_assert!(output.as_ref().is_none_or(|output| output.len() <= setup.digest_size));
        self.states.set(F::WORDS, lane, stream.as_ref().map_or(&setup.state, |stream| &stream.state));
        let (head, rest) = match &mut stream {
            None => (false, input),
            Some(stream) => stream.fill_up(input),
        };
        let (body, rest) = rest.split_at(F::whole_blocks(rest.len()) * F::BLOCK_SIZE);
        let stage = if head { Stage::Head } else { Stage::Body };
        self.lanes[lane] = Some(Lane { setup, stream, output, stage, body, rest });
        self.next_segment(lane)
    }

    fn next_segment(&mut self, lane: usize) -> usize {
        let Some(job) = &mut self.lanes[lane] else { return 0 };
        let tail = &mut self.tails[lane][..F::BLOCK_SIZE];
        let (at, blocks) = match (job.stage, &mut job.stream) {
            (Stage::Head, Some(stream)) => {
                job.stage = Stage::Body;
                (stream.buffer.as_ptr(), 1)
            }
            (Stage::Head | Stage::Body, _) if !job.body.is_empty() => {
                job.stage = Stage::Tail;
                (job.body.as_ptr(), job.body.len() / F::BLOCK_SIZE)
            }
            (Stage::Head | Stage::Body | Stage::Tail, stream) if job.output.is_some() => {
                // Either the rest of the input starts a block, or all of it went into the stream's buffer.
                let rest = match stream {
                    Some(stream) if stream.buffered_len > 0 => &stream.buffer[..stream.buffered_len],
                    _ => job.rest,
                };
                let tail = fill_with_zeros(tail);
                tail[..rest.len()].copy_from_slice(rest);
                let rest_len = rest.len() + job.setup.zero_bytes;
                if job.setup.zero_bytes > 0 && rest_len == F::BLOCK_SIZE {
                    job.stage = Stage::Padding;
                } else {
                    job.stage = if job.setup.is_keyed() { Stage::Outer } else { Stage::Digest };
                    F::pad(tail, rest_len, job.setup.domain);
                    F::prepare_last(&mut self.states, lane, rest_len);
                }
                (tail.as_ptr(), 1)
            }
            (Stage::Padding, _) => {
                job.stage = Stage::Digest;
                let tail = fill_with_zeros(tail);
                F::pad(tail, 0, job.setup.domain);
                (tail.as_ptr(), 1)
            }
            (Stage::Head | Stage::Body | Stage::Tail, stream) => {
                if let Some(stream) = stream {
                    if !job.rest.is_empty() {
                        stream.buffer[..job.rest.len()].copy_from_slice(job.rest);
                        stream.buffered_len = job.rest.len();
                    }
                    stream.state = self.states.get(lane);
                }
                (core::ptr::null(), 0)
            }
            (Stage::Outer, _) => {
                job.stage = Stage::Digest;
                let tail = fill_with_zeros(tail);
                let digest_size = job.setup.digest_size;
                self.states.write(lane, &mut tail[..digest_size]);
                F::pad(tail, digest_size, job.setup.domain);
                if let Some(outer) = &job.setup.outer {
                    self.states.set(F::WORDS, lane, outer);
                }
                F::prepare_last(&mut self.states, lane, digest_size);
                (tail.as_ptr(), 1)
            }
            (Stage::Digest, stream) => {
                let output = job.output.take().unwrap_or_default();
                let (block, rest) = output.split_at_mut(output.len().min(F::BLOCK_SIZE));
                self.states.write(lane, block);
                if rest.is_empty() {
                    if let Some(stream) = stream {
                        stream.state = job.setup.state;
                        stream.buffer.zeroize();
                        stream.buffered_len = 0;
                    }
                    (core::ptr::null(), 0)
                } else {
                    job.output = Some(rest);
                    (fill_with_zeros(tail).as_ptr(), 1)
                }
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

    fn advance(&mut self, blocks: usize, _: bool) {
        assert!(N == MAX_SPONGE_LANES && self.lane_count == self.kernels.lanes);
        // SAFETY: the CPU has the instructions because `kernels` exists. `states` has at least as many rows as the function has
        // words, and its rows are as long as the rows of the kernels. Every pointer in `addresses` is readable for `blocks` blocks. The
        // pointer of a busy lane is into its input, its stream's buffer or its tail, all borrowed or owned by `self`. The engine never
        // advances beyond the count that `next_segment` returned. The pointer of an idle lane is a copy of a busy lane's.
        unsafe {
            let (states, at) = (self.states.0.as_mut_ptr().cast(), self.addresses.as_ptr());
            (self.kernels.side_by_side)(states, at, blocks, F::BLOCK_SIZE, F::ROUNDS);
        }
        for at in &mut self.addresses {
            *at = at.wrapping_add(blocks * F::BLOCK_SIZE);
        }
    }

    fn advance_few(&mut self, lanes: &[usize], blocks: usize) {
        for &lane in lanes {
            let at = &mut self.addresses[lane];
            let mut state = self.states.get(lane);
            // SAFETY: as for `advance`, with one lane.
            unsafe { (self.kernels.single)(state.as_mut_ptr(), at, blocks, F::BLOCK_SIZE, F::ROUNDS) };
            self.states.set(F::WORDS, lane, &state);
            state.zeroize();
            *at = at.wrapping_add(blocks * F::BLOCK_SIZE);
        }
    }
}

#[cfg(test)]
pub mod tests;
