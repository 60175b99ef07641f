//! CBC encryption and CMAC on lanes.

use gantry::driver::Buffers;
use zeroize::Zeroize;

use crate::engine::{self, Lanes, MAX_LANES};
use crate::kernel::aes::{Aes, BLOCK, Kernels, Mode, RoundKeys};

/// A key for CBC encryption.
pub(crate) struct CbcKey {
    keys: RoundKeys,
    kernels: Kernels,
}

impl CbcKey {
    /// `None` for a key that is not of 16, 24 or 32 bytes.
    pub(crate) fn new(aes: Aes, key: &[u8]) -> Option<Self> {
        let keys = RoundKeys::new(aes, key)?;
        Some(CbcKey { kernels: aes.kernels(&keys, Mode::Encrypt), keys })
    }

    /// Encrypts side by side.
    pub(crate) fn run<'a>(&'a self, jobs: impl Iterator<Item = CbcJob<'a>>) {
        engine::run(&mut CbcLanes(Chains::<MAX_LANES>::new(&self.keys, self.kernels, self.kernels.lanes)), jobs);
    }

    /// Encrypts whole blocks of one message, and returns the chaining value behind it: the last block of ciphertext.
    pub(crate) fn run_one(&self, job: CbcJob<'_>) -> [u8; BLOCK] {
        let mut lanes = CbcLanes(Chains::<1>::new(&self.keys, self.kernels, 1));
        engine::run_one(&mut lanes, job);
        lanes.0.chains[0]
    }
}

/// A message for CBC encryption, of whole blocks.
pub(crate) struct CbcJob<'a> {
    pub(crate) iv: [u8; BLOCK],
    pub(crate) data: Buffers<'a>,
}

/// The AES-CMAC key (RFC 4493): the key of the chain, and what is added to the last block.
pub(crate) struct CmacKey {
    keys: RoundKeys,
    kernels: Kernels,
    /// For a last block that is full.
    k1: [u8; BLOCK],
    /// For a last block that was padded.
    k2: [u8; BLOCK],
}

impl CmacKey {
    /// `None` for a key that is not of 16, 24 or 32 bytes.
    pub(crate) fn new(aes: Aes, key: &[u8]) -> Option<Self> {
        let keys = RoundKeys::new(aes, key)?;
        let kernels = aes.kernels(&keys, Mode::Absorb);
        let mut chains = Chains::<1>::new(&keys, kernels, 1);
        let zeros = [0; BLOCK];
        chains.from[0] = zeros.as_ptr();
        chains.advance_alone(0, 1);
        let k1 = double(chains.chains[0]);
        chains.chains.zeroize();
        Some(CmacKey { kernels, k1, k2: double(k1), keys })
    }

    /// Runs jobs side by side.
    pub(crate) fn run<'a>(&'a self, jobs: impl Iterator<Item = CmacJob<'a>>) {
        engine::run(&mut CmacLanes::<MAX_LANES>::new(self, self.kernels.lanes), jobs);
    }

    /// Runs one job with the single-stream kernel.
    pub(crate) fn run_one(&self, job: CmacJob<'_>) {
        engine::run_one(&mut CmacLanes::<1>::new(self, 1), job);
    }
}

impl Drop for CmacKey {
    fn drop(&mut self) {
        self.k1.zeroize();
        self.k2.zeroize();
    }
}

/// Multiplication by x in GF(2^128) (RFC 4493, 2.3), without a branch on the secret.
fn double(block: [u8; BLOCK]) -> [u8; BLOCK] {
    let value = u128::from_be_bytes(block);
    ((value << 1) ^ ((value >> 127) * 0x87)).to_be_bytes()
}

/// A message for CMAC that arrives in pieces.
#[derive(Clone)]
pub(crate) struct CmacStream {
    chain: [u8; BLOCK],
    /// What has not gone into the chain: the last block of a message is special, so one is always kept back.
    buffer: [u8; BLOCK],
    buffered: usize,
}

impl CmacStream {
    /// The beginning of a message.
    pub(crate) fn new() -> Self {
        CmacStream { chain: [0; BLOCK], buffer: [0; BLOCK], buffered: 0 }
    }
}

impl Drop for CmacStream {
    fn drop(&mut self) {
        self.chain.zeroize();
        self.buffer.zeroize();
    }
}

/// One request: `input` is the next piece of `stream`, or the whole message where there is no stream. With an `output` the
/// message ends here, its MAC goes there (cut to the length of `output`), and the stream is at its beginning again.
pub(crate) struct CmacJob<'a> {
    pub(crate) stream: Option<&'a mut CmacStream>,
    pub(crate) input: &'a [u8],
    pub(crate) output: Option<&'a mut [u8]>,
}

/// Chains of one key, at most `N`.
struct Chains<'a, const N: usize> {
    keys: &'a RoundKeys,
    kernels: Kernels,
    /// Lanes in use.
    count: usize,
    chains: [[u8; BLOCK]; N],
    /// Where each lane reads and writes next.
    from: [*const u8; N],
    to: [*mut u8; N],
}

impl<'a, const N: usize> Chains<'a, N> {
    fn new(keys: &'a RoundKeys, kernels: Kernels, count: usize) -> Self {
        let (from, to) = ([core::ptr::null(); N], [core::ptr::null_mut(); N]);
        Chains { keys, kernels, count, chains: [[0; BLOCK]; N], from, to }
    }

    fn shadow(&mut self, idle: usize, busy: usize) {
        self.chains[idle] = self.chains[busy];
        self.from[idle] = self.from[busy];
        self.to[idle] = self.to[busy];
    }

    fn advance(&mut self, blocks: usize) {
        debug_assert_eq!(self.count, self.kernels.lanes);
        let (chains, from, to) = (self.chains.as_mut_ptr(), self.from.as_ptr(), self.to.as_ptr());
        // SAFETY: the CPU has the instructions because `kernels` exists, and `keys` are of the length they are for. The
        // pointers of a busy lane were set by `CbcLanes::start` or `CmacLanes::next` to memory that its job borrows or its
        // lane owns, valid for no fewer blocks than they counted, of which the engine asks for no more; those of an idle
        // lane are copies of a busy one's. Writing twice the same to the same place is harmless: all lanes read a block
        // before any writes it, and their chains are equal.
        unsafe { (self.kernels.side_by_side)(chains, from, to, blocks, self.keys.as_ptr()) };
        for lane in 0..self.count {
            self.from[lane] = self.from[lane].wrapping_add(blocks * BLOCK);
            self.to[lane] = self.to[lane].wrapping_add(blocks * BLOCK);
        }
    }

    fn advance_alone(&mut self, lane: usize, blocks: usize) {
        let (chain, from, to) = (&raw mut self.chains[lane], &raw const self.from[lane], &raw const self.to[lane]);
        // SAFETY: as for `advance`, with one lane.
        unsafe { (self.kernels.single)(chain, from, to, blocks, self.keys.as_ptr()) };
    }
}

/// CBC encryption: one segment per job.
struct CbcLanes<'a, const N: usize>(Chains<'a, N>);

impl<'a, const N: usize> Lanes for CbcLanes<'a, N> {
    // The buffers outlive the lanes: they are borrowed for as long as `run` borrows the key.
    type Job = CbcJob<'a>;

    fn lanes(&self) -> usize {
        self.0.count
    }

    fn break_even(&self) -> usize {
        self.0.kernels.break_even
    }

    fn start(&mut self, lane: usize, job: CbcJob<'a>) -> usize {
        self.0.chains[lane] = job.iv;
        let (from, to, bytes) = match job.data {
            Buffers::InPlace(data) => (data.as_ptr(), data.as_mut_ptr(), data.len()),
            Buffers::Separate { input, output } => (input.as_ptr(), output.as_mut_ptr(), input.len().min(output.len())),
        };
        (self.0.from[lane], self.0.to[lane]) = (from, to);
        bytes / BLOCK
    }

    fn next(&mut self, _lane: usize) -> usize {
        0
    }

    fn shadow(&mut self, idle: usize, busy: usize) {
        self.0.shadow(idle, busy);
    }

    fn advance(&mut self, blocks: usize) {
        self.0.advance(blocks);
    }

    fn advance_alone(&mut self, lane: usize, blocks: usize) {
        self.0.advance_alone(lane, blocks);
    }
}

/// What comes next in a lane.
#[derive(Clone, Copy)]
enum Stage {
    /// The block that the stream kept back.
    Head,
    /// The whole blocks of the input, but for the last one.
    Body,
    /// What is left, at most a block: end the message with it, or keep it back.
    Tail,
    /// Write the MAC.
    Mac,
}

struct CmacLane<'a> {
    job: CmacJob<'a>,
    stage: Stage,
    /// The last block of the message.
    tail: [u8; BLOCK],
}

struct CmacLanes<'a, const N: usize> {
    key: &'a CmacKey,
    chains: Chains<'a, N>,
    lanes: [Option<CmacLane<'a>>; N],
}

impl<'a, const N: usize> CmacLanes<'a, N> {
    fn new(key: &'a CmacKey, count: usize) -> Self {
        CmacLanes { key, chains: Chains::new(&key.keys, key.kernels, count), lanes: [const { None }; N] }
    }
}

impl CmacLane<'_> {
    /// The next segment, as its first byte and its blocks; no blocks at the end of the job. `chain` is the chaining value
    /// behind all segments so far.
    fn next(&mut self, key: &CmacKey, chain: &[u8; BLOCK]) -> (*const u8, usize) {
        let job = &mut self.job;
        loop {
            match self.stage {
                Stage::Head => {
                    self.stage = Stage::Body;
                    if let Some(stream) = &mut job.stream
                        && stream.buffered > 0
                    {
                        let (piece, rest) = job.input.split_at(job.input.len().min(BLOCK - stream.buffered));
                        stream.buffer[stream.buffered..stream.buffered + piece.len()].copy_from_slice(piece);
                        stream.buffered += piece.len();
                        job.input = rest;
                        if !rest.is_empty() {
                            stream.buffered = 0;
                            return (stream.buffer.as_ptr(), 1);
                        }
                    }
                }
                Stage::Body => {
                    self.stage = Stage::Tail;
                    let blocks = job.input.len().saturating_sub(1) / BLOCK;
                    if blocks > 0 {
                        let body = job.input.as_ptr();
                        job.input = &job.input[blocks * BLOCK..];
                        return (body, blocks);
                    }
                }
                Stage::Tail => {
                    if let Some(stream) = &mut job.stream {
                        if !job.input.is_empty() {
                            // The buffer is empty: it was just used, or there was nothing in it.
                            stream.buffer[..job.input.len()].copy_from_slice(job.input);
                            stream.buffered = job.input.len();
                        }
                        if job.output.is_none() {
                            stream.chain = *chain;
                            return END;
                        }
                    }
                    let last = job.stream.as_ref().map_or(job.input, |stream| &stream.buffer[..stream.buffered]);
                    self.tail = if last.len() == BLOCK { key.k1 } else { key.k2 };
                    for (byte, data) in self.tail.iter_mut().zip(last.iter().chain(&[0x80])) {
                        *byte ^= data;
                    }
                    self.stage = Stage::Mac;
                    return (self.tail.as_ptr(), 1);
                }
                Stage::Mac => {
                    if let Some(output) = &mut job.output {
                        let bytes = output.len().min(BLOCK);
                        output[..bytes].copy_from_slice(&chain[..bytes]);
                    }
                    if let Some(stream) = &mut job.stream {
                        **stream = CmacStream::new();
                    }
                    return END;
                }
            }
        }
    }
}

/// No segment is left.
const END: (*const u8, usize) = (core::ptr::null(), 0);

impl<'a, const N: usize> Lanes for CmacLanes<'a, N> {
    type Job = CmacJob<'a>;

    fn lanes(&self) -> usize {
        self.chains.count
    }

    fn break_even(&self) -> usize {
        self.chains.kernels.break_even
    }

    fn start(&mut self, lane: usize, job: CmacJob<'a>) -> usize {
        self.chains.chains[lane] = job.stream.as_ref().map_or([0; BLOCK], |stream| stream.chain);
        self.lanes[lane] = Some(CmacLane { job, stage: Stage::Head, tail: [0; BLOCK] });
        self.next(lane)
    }

    fn next(&mut self, lane: usize) -> usize {
        let chain = &self.chains.chains[lane];
        let (from, blocks) = self.lanes[lane].as_mut().map_or(END, |lane| lane.next(self.key, chain));
        self.chains.from[lane] = from;
        if blocks == 0 {
            self.lanes[lane] = None;
        }
        blocks
    }

    fn shadow(&mut self, idle: usize, busy: usize) {
        self.chains.shadow(idle, busy);
    }

    fn advance(&mut self, blocks: usize) {
        self.chains.advance(blocks);
    }

    fn advance_alone(&mut self, lane: usize, blocks: usize) {
        self.chains.advance_alone(lane, blocks);
    }
}
