//! Hash functions and HMAC on lanes: messages, streams, padding.

mod iterate;
mod lanes;
#[cfg(test)]
mod tests;
mod whole;

use core::mem::MaybeUninit;

use zeroize::Zeroize;

use crate::internal::dispatch::{Hash, Kernels};
use crate::internal::engine::{self, BlockRun, NO_BLOCKS};
use crate::internal::job;
use crate::internal::kernel::{Block, MAX_BLOCK_SIZE, MAX_HASH_LANES, OuterHash, Segment};
pub(crate) use iterate::iterate;
use lanes::{ChainingValues, HashLanes};
pub(crate) use whole::run_whole;

/// The chaining value before every message, and for HMAC the [`OuterHash`] that finishes it. HMAC's two chaining values, after the inner
/// and the outer key block, are as secret as the key.
pub struct Setup<H: Hash> {
    chain: [H::Word; 8],
    /// Bytes that the chaining value covers: none, or HMAC's inner key block.
    absorbed_bytes: u64,
    outer: Option<OuterHash<H>>,
    /// Bytes of the untruncated result.
    digest_size: usize,
}

impl<H: Hash> Setup<H> {
    /// A plain digest of `digest_size` bytes.
    pub const fn digest(initial: [H::Word; 8], digest_size: usize) -> Self {
        Setup { chain: initial, absorbed_bytes: 0, outer: None, digest_size }
    }

    /// The chaining value before the message.
    pub fn initial(&self) -> [H::Word; 8] {
        self.chain
    }

    /// Bytes of the untruncated result.
    pub fn digest_size(&self) -> usize {
        self.digest_size
    }

    /// Returns true if there is a key.
    pub fn is_keyed(&self) -> bool {
        self.outer.is_some()
    }

    /// HMAC (RFC 2104) with a key of any length. Leaves copies of the key on the stack; the caller overwrites them.
    pub fn hmac(kernels: Kernels<H>, initial: [H::Word; 8], digest_size: usize, key: &[u8]) -> Self {
        let mut block = [0; MAX_BLOCK_SIZE];
        if key.len() > H::BLOCK_SIZE {
            let plain = Setup::<H>::digest(initial, digest_size);
            run_one(kernels, Job { setup: &plain, stream: None, input: key, output: Some(&mut block[..digest_size]) });
        } else {
            block[..key.len()].copy_from_slice(key);
        }
        let after_pad = |pad: u8| {
            let mut chain = initial;
            kernels.compress(&mut chain, &block.map(|byte| byte ^ pad)[..H::BLOCK_SIZE]);
            chain
        };
        let (chain, outer) = (after_pad(0x36), after_pad(0x5c));
        let (_, padded) = padding::<H>(digest_size, (H::BLOCK_SIZE + digest_size) as u64);
        let [frame, _] = *padded.as_chunks().0 else { unreachable!("two halves") };
        let outer = Some(OuterHash { chain: outer, frame, digest_size });
        Setup { chain, absorbed_bytes: H::BLOCK_SIZE as u64, outer, digest_size }
    }
}

impl<H: Hash> Drop for Setup<H> {
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
    /// Bytes so far, including HMAC's key block. The last `byte_count % BLOCK_SIZE` of them are in `buffer`.
    byte_count: u64,
    buffer: H::Block,
}

impl<H: Hash> Stream<H> {
    /// Starts a message.
    pub fn new(setup: &Setup<H>) -> Self {
        Stream { chain: setup.chain, byte_count: setup.absorbed_bytes, buffer: H::Block::ZEROS }
    }

    /// Buffers the first bytes of a message, fewer than a block.
    pub fn begin_with(&mut self, bytes: &[u8]) {
        let buffered = self.buffered().len();
        assert!(buffered + bytes.len() < H::BLOCK_SIZE);
        self.buffer.as_mut()[buffered..buffered + bytes.len()].copy_from_slice(bytes);
        self.byte_count += bytes.len() as u64;
    }

    /// The whole blocks of the message.
    pub(crate) fn whole_blocks(&self) -> WholeBlocks<H> {
        WholeBlocks { chain: self.chain, byte_count: self.byte_count - self.buffered().len() as u64 }
    }

    /// The bytes after the last whole block.
    #[inline(always)]
    pub(crate) fn buffered(&self) -> &[u8] {
        &self.buffer.as_ref()[..(self.byte_count % H::BLOCK_SIZE as u64) as usize]
    }

    /// Appends the next piece, with the kernel for a single message. Calls `kernels` only if a block is full.
    pub(crate) fn append(&mut self, kernels: impl FnOnce() -> Kernels<H>, input: &[u8]) {
        let buffered = self.buffered().len();
        self.byte_count += input.len() as u64;
        if let Some(buffer) = self.buffer.as_mut().get_mut(buffered..).filter(|buffer| input.len() < buffer.len()) {
            buffer[..input.len()].copy_from_slice(input);
            return;
        }
        let kernels = kernels();
        let mut rest = input;
        if buffered > 0 {
            let (head, others) = input.split_at(H::BLOCK_SIZE - buffered);
            self.buffer.as_mut()[buffered..].copy_from_slice(head);
            kernels.compress(&mut self.chain, self.buffer.as_ref());
            rest = others;
        }
        let (body, rest) = rest.split_at(rest.len() / H::BLOCK_SIZE * H::BLOCK_SIZE);
        kernels.compress(&mut self.chain, body);
        self.buffer.as_mut()[..rest.len()].copy_from_slice(rest);
    }

    /// Writes the digest of the message so far, with the kernel for a single message.
    pub(crate) fn digest(&self, kernels: Kernels<H>, setup: &Setup<H>, output: &mut [u8]) {
        digest_tail(kernels, setup, (&self.chain, self.byte_count), &[], self.buffered(), output);
    }

    /// Ends the message and starts another.
    fn finish(&mut self, kernels: Kernels<H>, setup: &Setup<H>, output: &mut [u8]) {
        self.digest(kernels, setup, output);
        self.chain = setup.chain;
        self.byte_count = setup.absorbed_bytes;
        self.clear();
    }

    /// Adds the start of `input` to the buffered block, if there is one. Returns that block if it is now full, and the rest of the input.
    #[inline(never)]
    fn fill_up<'i>(&mut self, input: &'i [u8]) -> (BlockRun, &'i [u8]) {
        let buffered = self.buffered().len();
        if buffered == 0 {
            return (NO_BLOCKS, input);
        }
        let (piece, rest) = input.split_at(input.len().min(H::BLOCK_SIZE - buffered));
        let end = buffered + piece.len();
        let buffer = self.buffer.as_mut();
        buffer[buffered..end].copy_from_slice(piece);
        (if end == H::BLOCK_SIZE { (buffer.as_ptr(), 1) } else { NO_BLOCKS }, rest)
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
        Stream { chain: self.chain, byte_count: self.byte_count, buffer: self.buffer }
    }
}

impl<H: Hash> Drop for Stream<H> {
    fn drop(&mut self) {
        self.chain.zeroize();
        self.clear();
    }
}

/// The whole blocks of a message that arrives in pieces, for a caller with its own buffer.
pub(crate) struct WholeBlocks<H: Hash> {
    pub(crate) chain: [H::Word; 8],
    pub(crate) byte_count: u64,
}

impl<H: Hash> WholeBlocks<H> {
    pub(crate) fn new(setup: &Setup<H>) -> Self {
        WholeBlocks { chain: setup.chain, byte_count: setup.absorbed_bytes }
    }

    /// Appends whole blocks.
    pub(crate) fn append(&mut self, kernels: Kernels<H>, blocks: &[u8]) {
        debug_assert!(blocks.len().is_multiple_of(H::BLOCK_SIZE));
        kernels.compress(&mut self.chain, blocks);
        self.byte_count += blocks.len() as u64;
    }

    /// Writes the digest of the message, which ends with `rest`, less than a block.
    pub(crate) fn digest(&self, kernels: Kernels<H>, setup: &Setup<H>, rest: &[u8], output: &mut [u8]) {
        digest_tail(kernels, setup, (&self.chain, self.byte_count + rest.len() as u64), &[], rest, output);
    }

    /// Returns the message of these blocks followed by `rest`, which is less than a block.
    pub(crate) fn with_rest(&self, rest: &[u8]) -> Stream<H> {
        let mut stream = Stream { chain: self.chain, byte_count: self.byte_count, buffer: H::Block::ZEROS };
        stream.begin_with(rest);
        stream
    }
}

impl<H: Hash> Clone for WholeBlocks<H> {
    fn clone(&self) -> Self {
        WholeBlocks { chain: self.chain, byte_count: self.byte_count }
    }
}

impl<H: Hash> Drop for WholeBlocks<H> {
    fn drop(&mut self) {
        self.chain.zeroize();
    }
}

/// One request to a hash function.
pub type Job<'a, H> = job::Job<'a, Setup<H>, Stream<H>>;

/// Runs jobs side by side.
pub fn run<'a, H: Hash>(kernels: Kernels<H>, jobs: impl Iterator<Item = Job<'a, H>>) {
    if cfg!(not(any(target_arch = "x86_64", target_arch = "aarch64", target_feature = "simd128"))) {
        // There is one lane.
        return jobs.for_each(|job| run_one(kernels, job));
    }
    engine::run::<MAX_HASH_LANES, _>(&mut HashLanes::<H>::new(kernels), jobs);
}

/// Runs one job with the single-stream kernel. Lanes and their bookkeeping would take as long as a block.
pub fn run_one<H: Hash>(kernels: Kernels<H>, job: Job<'_, H>) {
    let Job { setup, stream, input, output } = job;
    match (stream, output) {
        (None, Some(output)) => run_message(kernels, setup, input, output),
        (Some(stream), output) => {
            stream.append(|| kernels, input);
            if let Some(output) = output {
                stream.finish(kernels, setup, output);
            }
        }
        (None, None) => {}
    }
}

/// Digests one whole message with the single-stream kernel.
#[inline(always)]
fn run_message<H: Hash>(kernels: Kernels<H>, setup: &Setup<H>, input: &[u8], output: &mut [u8]) {
    let (body, rest) = input.split_at(input.len() / H::BLOCK_SIZE * H::BLOCK_SIZE);
    digest_tail(kernels, setup, (&setup.chain, setup.absorbed_bytes + input.len() as u64), body, rest, output);
}

/// Digests the end of a message after a chaining value: the whole blocks `body`, and `rest`, less than a block. The whole message has
/// `byte_count` bytes, including HMAC's key block.
#[inline(always)]
fn digest_tail<H: Hash>(
    kernels: Kernels<H>,
    setup: &Setup<H>,
    (chain, byte_count): (&[H::Word; 8], u64),
    body: &[u8],
    rest: &[u8],
    output: &mut [u8],
) {
    debug_assert!(output.len() <= setup.digest_size);
    let mut tail: TailBlocks = [MaybeUninit::uninit(); 2 * MAX_BLOCK_SIZE];
    let blocks = pad::<H>(&mut tail, rest.len(), byte_count);
    tail[..rest.len()].write_copy_of_slice(rest);
    let mut state = ChainingValues::<H, 1>::new();
    state.set(0, chain);
    let messages = [body.as_ptr(), tail.as_ptr().cast()];
    let segments = [
        Segment { messages: &raw const messages[0], blocks: body.len() / H::BLOCK_SIZE },
        Segment { messages: &raw const messages[1], blocks },
    ];
    let kernel = if body.len() > H::BLOCK_SIZE { kernels.single } else { kernels.short_single };
    // SAFETY: the CPU has the instructions because `kernels` exists. There is one lane, and the state has eight words, at least `WORDS`.
    // The body has the blocks of its segment, and `pad` and the copy have initialized the blocks of the tail.
    unsafe { kernel(state.rows(), &segments, setup.outer.as_ref()) };
    state.write(0, output);
}

/// The padded tail of a message, or HMAC's outer block. Only the blocks that the segment covers are initialized.
type TailBlocks = [MaybeUninit<u8>; 2 * MAX_BLOCK_SIZE];

/// Writes the padding of a message of `byte_count` bytes, leaving room for its last `rest_len` bytes. Returns the number of blocks that
/// the last bytes and the padding fill.
#[inline(always)]
fn pad<H: Hash>(tail: &mut TailBlocks, rest_len: usize, byte_count: u64) -> usize {
    let blocks = if rest_len < H::BLOCK_SIZE - H::LENGTH_FIELD_SIZE { 1 } else { 2 };
    let end = blocks * H::BLOCK_SIZE;
    // Two branches with a constant size each, not one with a variable size.
    let zero = MaybeUninit::new(0);
    if blocks == 1 {
        tail[..H::BLOCK_SIZE].fill(zero);
    } else {
        tail[..2 * H::BLOCK_SIZE].fill(zero);
    }
    tail[rest_len].write(0x80);
    write_length::<H>(&mut tail[..end], byte_count);
    blocks
}

/// Writes the length field of a message of `byte_count` bytes at the end of its last block.
#[inline(always)]
fn write_length<H: Hash>(blocks: &mut [MaybeUninit<u8>], byte_count: u64) {
    // MD5 keeps the length in bits modulo 2^64, SHA-1 and SHA-256 limit it to 64 bits, and SHA-512 to 128.
    let bits = u128::from(byte_count) << 3;
    let end = blocks.len();
    let field = &mut blocks[end - H::LENGTH_FIELD_SIZE..];
    if H::BIG_ENDIAN {
        field.write_copy_of_slice(&bits.to_be_bytes()[16 - H::LENGTH_FIELD_SIZE..]);
    } else {
        field.write_copy_of_slice(&bits.to_le_bytes()[..H::LENGTH_FIELD_SIZE]);
    }
}

/// Returns the number of blocks that [`pad`] fills, and these blocks, with zeros in place of the message.
pub(crate) fn padding<H: Hash>(rest_len: usize, byte_count: u64) -> (usize, [u8; 2 * MAX_BLOCK_SIZE]) {
    let mut tail = [MaybeUninit::new(0); 2 * MAX_BLOCK_SIZE];
    let blocks = pad::<H>(&mut tail, rest_len, byte_count);
    // SAFETY: every byte was initialized.
    (blocks, tail.map(|byte| unsafe { byte.assume_init() }))
}
