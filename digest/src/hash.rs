//! Hash functions and HMAC on lanes: messages, streams, padding.

mod iterate;
mod lanes;
mod short;
#[cfg(test)]
mod tests;

use core::mem::MaybeUninit;

use zeroize::Zeroize;

use crate::engine::{self, END, Run};
use crate::kernel::{HASH_LANES, Hash, Kernels, MAX_BLOCK, Outer};
pub(crate) use iterate::iterate;
use lanes::HashLanes;
pub(crate) use short::run_whole;

/// Where every message of a session starts, and how it ends. For HMAC this is the key: the chaining values behind the
/// inner and the outer key block.
pub struct Start<H: Hash> {
    chain: [H::Word; 8],
    /// Bytes behind the chaining value: none, or HMAC's inner key block.
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

    /// The chaining value in front of the message.
    pub fn initial(&self) -> [H::Word; 8] {
        self.chain
    }

    /// Bytes of the untruncated result.
    pub fn size(&self) -> usize {
        self.digest
    }

    /// Whether there is a key.
    pub fn is_keyed(&self) -> bool {
        self.outer.is_some()
    }

    /// HMAC (RFC 2104) with a key of any length. Leaves copies of the key on the stack, for [`wiped`](crate::wipe::wiped).
    pub fn hmac(kernels: Kernels<H>, initial: [H::Word; 8], digest: usize, key: &[u8]) -> Self {
        let mut block = [0; MAX_BLOCK];
        if key.len() > H::BLOCK {
            let plain = Start::<H>::digest(initial, digest);
            run_one(kernels, Job { start: &plain, stream: None, input: key, output: Some(&mut block[..digest]) });
        } else {
            block[..key.len()].copy_from_slice(key);
        }
        let behind = |pad: u8| {
            let mut chain = initial;
            kernels.compress(&mut chain, &block.map(|byte| byte ^ pad)[..H::BLOCK]);
            chain
        };
        let (chain, outer) = (behind(0x36), behind(0x5c));
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
    /// Bytes so far, with those of HMAC's key block. The last `count % BLOCK` of them are in `buffer`.
    count: u64,
    buffer: [u8; MAX_BLOCK],
}

impl<H: Hash> Stream<H> {
    /// The beginning of a message.
    pub fn new(start: &Start<H>) -> Self {
        Stream { chain: start.chain, count: start.absorbed, buffer: [0; MAX_BLOCK] }
    }

    /// Takes in the first bytes of a message, which are fewer than a block.
    pub fn begin_with(&mut self, bytes: &[u8]) {
        let buffered = (self.count % H::BLOCK as u64) as usize;
        assert!(buffered + bytes.len() < H::BLOCK);
        self.buffer[buffered..buffered + bytes.len()].copy_from_slice(bytes);
        self.count += bytes.len() as u64;
    }

    /// Fills up the block that is begun with the first bytes of `input`. Answers with that block, if it is full now, and with the
    /// rest of the input.
    #[inline(never)]
    fn fill_up<'i>(&mut self, input: &'i [u8]) -> (Run, &'i [u8]) {
        let buffered = (self.count % H::BLOCK as u64) as usize;
        if buffered == 0 {
            return (END, input);
        }
        let (piece, rest) = input.split_at(input.len().min(H::BLOCK - buffered));
        let end = buffered + piece.len();
        self.buffer[buffered..end].copy_from_slice(piece);
        (if end == H::BLOCK { (self.buffer.as_ptr(), 1) } else { END }, rest)
    }

    /// Leaves nothing in the buffer. (`zeroize` would write single bytes. Who has the address may read what is there, so the compiler leaves
    /// the zeros in.)
    fn clear(&mut self) {
        self.buffer = [0; MAX_BLOCK];
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

/// One request: `input` is the next piece of `stream`, or the whole message where there is no stream. With an `output` the
/// message ends here, its digest goes there (cut to the length of `output`), and the stream is at its beginning again.
pub struct Job<'a, H: Hash> {
    pub start: &'a Start<H>,
    pub stream: Option<&'a mut Stream<H>>,
    pub input: &'a [u8],
    pub output: Option<&'a mut [u8]>,
}

/// Runs jobs side by side.
pub fn run<'a, H: Hash>(kernels: Kernels<H>, jobs: impl Iterator<Item = Job<'a, H>>) {
    if cfg!(not(any(target_arch = "x86_64", target_arch = "aarch64"))) {
        // There is one lane.
        return jobs.for_each(|job| run_one(kernels, job));
    }
    engine::run::<HASH_LANES, _>(&mut HashLanes::<H, HASH_LANES>::new(kernels, kernels.lanes), jobs);
}

/// Runs one job with the single-stream kernel.
pub fn run_one<H: Hash>(kernels: Kernels<H>, job: Job<'_, H>) {
    engine::run_one(&mut HashLanes::<H, 1>::new(kernels, 1), job);
}

/// The padded tail of a message, or HMAC's outer block: as much of it as the segment has blocks.
type TailBlocks = [MaybeUninit<u8>; 2 * MAX_BLOCK];

/// Makes the padding of a message of `count` bytes whose last `left` bytes belong in front of it. Returns the blocks of both.
#[inline(always)]
fn pad<H: Hash>(tail: &mut TailBlocks, left: usize, count: u64) -> usize {
    let blocks = if left < H::BLOCK - H::LENGTH_FIELD { 1 } else { 2 };
    let end = blocks * H::BLOCK;
    // Two sizes that the compiler knows, not one that it does not.
    let zero = MaybeUninit::new(0);
    if blocks == 1 {
        tail[..H::BLOCK].fill(zero);
    } else {
        tail[..2 * H::BLOCK].fill(zero);
    }
    tail[left].write(0x80);
    write_length::<H>(&mut tail[..end], count);
    blocks
}

/// Writes the length of a message of `count` bytes at the end of its last block.
#[inline(always)]
fn write_length<H: Hash>(blocks: &mut [MaybeUninit<u8>], count: u64) {
    // The length in bits is kept modulo 2^64 by MD5 and cannot be longer for SHA-1 and SHA-256; SHA-512 has 128 bits.
    let bits = u128::from(count) << 3;
    let end = blocks.len();
    let field = &mut blocks[end - H::LENGTH_FIELD..];
    if H::BIG_ENDIAN {
        field.write_copy_of_slice(&bits.to_be_bytes()[16 - H::LENGTH_FIELD..]);
    } else {
        field.write_copy_of_slice(&bits.to_le_bytes()[..H::LENGTH_FIELD]);
    }
}

/// What [`pad`] writes and returns, on zeros.
pub(crate) fn padding<H: Hash>(left: usize, count: u64) -> (usize, [u8; 2 * MAX_BLOCK]) {
    let mut tail = [MaybeUninit::new(0); 2 * MAX_BLOCK];
    let blocks = pad::<H>(&mut tail, left, count);
    // SAFETY: all of it was written.
    (blocks, tail.map(|byte| unsafe { byte.assume_init() }))
}
