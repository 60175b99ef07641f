//! Hash functions and HMAC on lanes: messages, streams, padding.

mod iterate;
mod lanes;
#[cfg(test)]
mod tests;
mod whole;

use core::mem::MaybeUninit;

use zeroize::Zeroize;

use crate::internal::dispatch::{Hash, Kernels};
use crate::internal::engine::{self, END, Run};
use crate::internal::job;
use crate::internal::kernel::{Block, HASH_LANES, MAX_BLOCK, Outer, Segment};
pub(crate) use iterate::iterate;
use lanes::{Chains, HashLanes};
pub(crate) use whole::run_whole;

/// The chaining value before every message of a session, and the values that finish a message. For HMAC, both chaining values are the
/// key: they are the chaining values after the inner and the outer key block.
pub struct Start<H: Hash> {
    chain: [H::Word; 8],
    /// Bytes that the chaining value covers: none, or HMAC's inner key block.
    absorbed: u64,
    outer: Option<Outer<H>>,
    /// Bytes of the untruncated result.
    digest: usize,
}

impl<H: Hash> Start<H> {
    /// A plain digest of `digest` bytes.
    pub const fn digest(initial: [H::Word; 8], digest: usize) -> Self {
        Start { chain: initial, absorbed: 0, outer: None, digest }
    }

    /// The chaining value before the message.
    pub fn initial(&self) -> [H::Word; 8] {
        self.chain
    }

    /// Bytes of the untruncated result.
    pub fn size(&self) -> usize {
        self.digest
    }

    /// Returns true if there is a key.
    pub fn is_keyed(&self) -> bool {
        self.outer.is_some()
    }

    /// HMAC (RFC 2104) with a key of any length. Leaves copies of the key on the stack; the caller overwrites them.
    pub fn hmac(kernels: Kernels<H>, initial: [H::Word; 8], digest: usize, key: &[u8]) -> Self {
        let mut block = [0; MAX_BLOCK];
        if key.len() > H::BLOCK {
            let plain = Start::<H>::digest(initial, digest);
            run_one(kernels, Job { start: &plain, stream: None, input: key, output: Some(&mut block[..digest]) });
        } else {
            block[..key.len()].copy_from_slice(key);
        }
        let after_pad = |pad: u8| {
            let mut chain = initial;
            kernels.compress(&mut chain, &block.map(|byte| byte ^ pad)[..H::BLOCK]);
            chain
        };
        let (chain, outer) = (after_pad(0x36), after_pad(0x5c));
        let (_, padded) = padding::<H>(digest, (H::BLOCK + digest) as u64);
        let [frame, _] = *padded.as_chunks().0 else { unreachable!("two halves") };
        Start { chain, absorbed: H::BLOCK as u64, outer: Some(Outer { chain: outer, frame, digest }), digest }
    }
}

impl<H: Hash> Drop for Start<H> {
    fn drop(&mut self) {
        self.chain.zeroize();
        if let Some(outer) = &mut self.outer {
            outer.chain.zeroize();
        }
    }
}

/// A message that arrives in pieces.
pub struct Stream<H: Hash> {
    chain: [H::Word; 8],
    /// Bytes so far, including HMAC's key block. The last `count % BLOCK` of them are in `buffer`.
    count: u64,
    buffer: H::Block,
}

impl<H: Hash> Stream<H> {
    /// Starts a message.
    pub fn new(start: &Start<H>) -> Self {
        Stream { chain: start.chain, count: start.absorbed, buffer: H::Block::ZEROS }
    }

    /// Buffers the first bytes of a message, fewer than a block.
    pub fn begin_with(&mut self, bytes: &[u8]) {
        let buffered = self.buffered().len();
        assert!(buffered + bytes.len() < H::BLOCK);
        self.buffer.as_mut()[buffered..buffered + bytes.len()].copy_from_slice(bytes);
        self.count += bytes.len() as u64;
    }

    /// The whole blocks of the message.
    pub(crate) fn blocks(&self) -> Blocks<H> {
        Blocks { chain: self.chain, count: self.count - self.buffered().len() as u64 }
    }

    /// The bytes after the last whole block.
    #[inline(always)]
    pub(crate) fn buffered(&self) -> &[u8] {
        &self.buffer.as_ref()[..(self.count % H::BLOCK as u64) as usize]
    }

    /// Appends the next piece, with the kernel for a single message. Calls `kernels` only if a block is full.
    pub(crate) fn append(&mut self, kernels: impl FnOnce() -> Kernels<H>, input: &[u8]) {
        let buffered = self.buffered().len();
        self.count += input.len() as u64;
        if let Some(buffer) = self.buffer.as_mut().get_mut(buffered..).filter(|buffer| input.len() < buffer.len()) {
            buffer[..input.len()].copy_from_slice(input);
            return;
        }
        let kernels = kernels();
        let mut rest = input;
        if buffered > 0 {
            let (head, others) = input.split_at(H::BLOCK - buffered);
            self.buffer.as_mut()[buffered..].copy_from_slice(head);
            kernels.compress(&mut self.chain, self.buffer.as_ref());
            rest = others;
        }
        let (body, rest) = rest.split_at(rest.len() / H::BLOCK * H::BLOCK);
        kernels.compress(&mut self.chain, body);
        self.buffer.as_mut()[..rest.len()].copy_from_slice(rest);
    }

    /// Writes the digest of the message so far, with the kernel for a single message.
    pub(crate) fn digest(&self, kernels: Kernels<H>, start: &Start<H>, output: &mut [u8]) {
        digest_tail(kernels, start, (&self.chain, self.count), &[], self.buffered(), output);
    }

    /// Ends the message and starts another.
    fn finish(&mut self, kernels: Kernels<H>, start: &Start<H>, output: &mut [u8]) {
        self.digest(kernels, start, output);
        self.chain = start.chain;
        self.count = start.absorbed;
        self.clear();
    }

    /// Completes the buffered block from the start of `input`. Returns that block if it is now full, and the rest of the input.
    #[inline(never)]
    fn fill_up<'i>(&mut self, input: &'i [u8]) -> (Run, &'i [u8]) {
        let buffered = self.buffered().len();
        if buffered == 0 {
            return (END, input);
        }
        let (piece, rest) = input.split_at(input.len().min(H::BLOCK - buffered));
        let end = buffered + piece.len();
        let buffer = self.buffer.as_mut();
        buffer[buffered..end].copy_from_slice(piece);
        (if end == H::BLOCK { (buffer.as_ptr(), 1) } else { END }, rest)
    }

    /// Clears the buffer. Faster than `zeroize`, which writes single bytes; `black_box` keeps the compiler from removing the
    /// stores.
    fn clear(&mut self) {
        self.buffer = H::Block::ZEROS;
        core::hint::black_box(&self.buffer);
    }
}

impl<H: Hash> Clone for Stream<H> {
    fn clone(&self) -> Self {
        Stream { chain: self.chain, count: self.count, buffer: self.buffer }
    }
}

impl<H: Hash> Drop for Stream<H> {
    fn drop(&mut self) {
        self.chain.zeroize();
        self.clear();
    }
}

/// The whole blocks of a message that arrives in pieces, for a caller with its own buffer.
pub(crate) struct Blocks<H: Hash> {
    pub(crate) chain: [H::Word; 8],
    pub(crate) count: u64,
}

impl<H: Hash> Blocks<H> {
    pub(crate) fn new(start: &Start<H>) -> Self {
        Blocks { chain: start.chain, count: start.absorbed }
    }

    /// Appends whole blocks.
    pub(crate) fn append(&mut self, kernels: Kernels<H>, blocks: &[u8]) {
        debug_assert!(blocks.len().is_multiple_of(H::BLOCK));
        kernels.compress(&mut self.chain, blocks);
        self.count += blocks.len() as u64;
    }

    /// Writes the digest of the message, which ends with `rest`, less than a block.
    pub(crate) fn digest(&self, kernels: Kernels<H>, start: &Start<H>, rest: &[u8], output: &mut [u8]) {
        digest_tail(kernels, start, (&self.chain, self.count + rest.len() as u64), &[], rest, output);
    }

    /// Returns the message of these blocks followed by `rest`, which is less than a block.
    pub(crate) fn with_rest(&self, rest: &[u8]) -> Stream<H> {
        let mut stream = Stream { chain: self.chain, count: self.count, buffer: H::Block::ZEROS };
        stream.begin_with(rest);
        stream
    }
}

impl<H: Hash> Clone for Blocks<H> {
    fn clone(&self) -> Self {
        Blocks { chain: self.chain, count: self.count }
    }
}

impl<H: Hash> Drop for Blocks<H> {
    fn drop(&mut self) {
        self.chain.zeroize();
    }
}

/// One request to a hash function.
pub type Job<'a, H> = job::Job<'a, Start<H>, Stream<H>>;

/// Runs jobs side by side.
pub fn run<'a, H: Hash>(kernels: Kernels<H>, jobs: impl Iterator<Item = Job<'a, H>>) {
    if cfg!(not(any(target_arch = "x86_64", target_arch = "aarch64", target_feature = "simd128"))) {
        // There is one lane.
        return jobs.for_each(|job| run_one(kernels, job));
    }
    engine::run::<HASH_LANES, _>(&mut HashLanes::<H>::new(kernels), jobs);
}

/// Runs one job with the single-stream kernel. Lanes and their bookkeeping would take as long as a block.
pub fn run_one<H: Hash>(kernels: Kernels<H>, job: Job<'_, H>) {
    let Job { start, stream, input, output } = job;
    match (stream, output) {
        (None, Some(output)) => run_message(kernels, start, input, output),
        (Some(stream), output) => {
            stream.append(|| kernels, input);
            if let Some(output) = output {
                stream.finish(kernels, start, output);
            }
        }
        (None, None) => {}
    }
}

/// Digests one whole message with the single-stream kernel.
#[inline(always)]
fn run_message<H: Hash>(kernels: Kernels<H>, start: &Start<H>, input: &[u8], output: &mut [u8]) {
    let (body, rest) = input.split_at(input.len() / H::BLOCK * H::BLOCK);
    digest_tail(kernels, start, (&start.chain, start.absorbed + input.len() as u64), body, rest, output);
}

/// Digests the end of a message of `count` bytes after a chaining value: whole blocks, and a rest of less than a block.
#[inline(always)]
fn digest_tail<H: Hash>(
    kernels: Kernels<H>,
    start: &Start<H>,
    (chain, count): (&[H::Word; 8], u64),
    body: &[u8],
    rest: &[u8],
    output: &mut [u8],
) {
    debug_assert!(output.len() <= start.digest);
    let mut tail: TailBlocks = [MaybeUninit::uninit(); 2 * MAX_BLOCK];
    let blocks = pad::<H>(&mut tail, rest.len(), count);
    tail[..rest.len()].write_copy_of_slice(rest);
    let mut state = Chains::<H, 1>::new();
    state.set(0, chain);
    let messages = [body.as_ptr(), tail.as_ptr().cast()];
    let segments = [
        Segment { messages: &raw const messages[0], blocks: body.len() / H::BLOCK },
        Segment { messages: &raw const messages[1], blocks },
    ];
    let kernel = if body.len() > H::BLOCK { kernels.single } else { kernels.brief };
    // SAFETY: the CPU has the instructions because `kernels` exists. There is one lane, and the state has eight words, at least `WORDS`.
    // The body has the blocks of its segment, and `pad` and the copy have initialized the blocks of the tail.
    unsafe { kernel(state.rows(), &segments, start.outer.as_ref()) };
    state.write(0, output);
}

/// The padded tail of a message, or HMAC's outer block. Only the blocks that the segment covers are initialized.
type TailBlocks = [MaybeUninit<u8>; 2 * MAX_BLOCK];

/// Writes the padding of a message of `count` bytes, leaving room for its last `rest_len` bytes. Returns the number of blocks that
/// the last bytes and the padding fill.
#[inline(always)]
fn pad<H: Hash>(tail: &mut TailBlocks, rest_len: usize, count: u64) -> usize {
    let blocks = if rest_len < H::BLOCK - H::LENGTH_FIELD { 1 } else { 2 };
    let end = blocks * H::BLOCK;
    // Two branches with a constant size each, not one with a variable size.
    let zero = MaybeUninit::new(0);
    if blocks == 1 {
        tail[..H::BLOCK].fill(zero);
    } else {
        tail[..2 * H::BLOCK].fill(zero);
    }
    tail[rest_len].write(0x80);
    write_length::<H>(&mut tail[..end], count);
    blocks
}

/// Writes the length field of a message of `count` bytes at the end of its last block.
#[inline(always)]
fn write_length<H: Hash>(blocks: &mut [MaybeUninit<u8>], count: u64) {
    // MD5 keeps the length in bits modulo 2^64, SHA-1 and SHA-256 limit it to 64 bits, and SHA-512 to 128.
    let bits = u128::from(count) << 3;
    let end = blocks.len();
    let field = &mut blocks[end - H::LENGTH_FIELD..];
    if H::BIG_ENDIAN {
        field.write_copy_of_slice(&bits.to_be_bytes()[16 - H::LENGTH_FIELD..]);
    } else {
        field.write_copy_of_slice(&bits.to_le_bytes()[..H::LENGTH_FIELD]);
    }
}

/// Returns the number of blocks that [`pad`] fills, and these blocks, with zeros in place of the message.
pub(crate) fn padding<H: Hash>(rest_len: usize, count: u64) -> (usize, [u8; 2 * MAX_BLOCK]) {
    let mut tail = [MaybeUninit::new(0); 2 * MAX_BLOCK];
    let blocks = pad::<H>(&mut tail, rest_len, count);
    // SAFETY: every byte was initialized.
    (blocks, tail.map(|byte| unsafe { byte.assume_init() }))
}
