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
        lanes.0.values[0]
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
        chains.advance_few(&[0], 1);
        let k1 = double(chains.values[0]);
        chains.values.zeroize();
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
    /// The chaining value of each lane.
    values: [[u8; BLOCK]; N],
    /// Where each lane reads and writes next.
    from: [*const u8; N],
    to: [*mut u8; N],
}

impl<'a, const N: usize> Chains<'a, N> {
    fn new(keys: &'a RoundKeys, kernels: Kernels, count: usize) -> Self {
        let (from, to) = ([core::ptr::null(); N], [core::ptr::null_mut(); N]);
        Chains { keys, kernels, count, values: [[0; BLOCK]; N], from, to }
    }

    fn shadow(&mut self, idle: usize, busy: usize) {
        self.values[idle] = self.values[busy];
        self.from[idle] = self.from[busy];
        self.to[idle] = self.to[busy];
    }

    /// Whether half of the lanes read from the same set of the first-level cache: lines that are a multiple of 4 KiB apart
    /// share one, and it has 8 to 12 ways. Buffers that begin on pages are like that.
    fn collides(&self) -> bool {
        let set = |from: &*const u8| from.addr() & 0xfc0;
        let first = set(&self.from[0]);
        2 * self.from[..self.count].iter().filter(|from| set(from) == first).count() > self.count
    }

    fn advance(&mut self, blocks: usize) {
        debug_assert_eq!(self.count, self.kernels.lanes);
        let kernel = if self.collides() { self.kernels.colliding } else { self.kernels.side_by_side };
        let (chains, from, to) = (self.values.as_mut_ptr(), self.from.as_ptr(), self.to.as_ptr());
        // SAFETY: the CPU has the instructions because `kernels` exists, and `keys` are of the length they are for. The
        // pointers of a busy lane were set by `CbcLanes::start` or `CmacLanes::next` to memory that its job borrows or its
        // lane owns, valid for no fewer blocks than they counted, of which the engine asks for no more; those of an idle
        // lane are copies of a busy one's. Writing twice the same to the same place is harmless: all lanes read a block
        // before any writes it, and their chains are equal.
        unsafe { kernel(chains, from, to, blocks, self.keys.as_ptr()) };
        for lane in 0..self.count {
            self.from[lane] = self.from[lane].wrapping_add(blocks * BLOCK);
            self.to[lane] = self.to[lane].wrapping_add(blocks * BLOCK);
        }
    }

    fn advance_few(&mut self, lanes: &[usize], blocks: usize) {
        let &[lane] = lanes else { unreachable!("a few are one here") };
        let (chain, from, to) = (&raw mut self.values[lane], &raw const self.from[lane], &raw const self.to[lane]);
        // SAFETY: as for `advance`, with one lane.
        unsafe { (self.kernels.single)(chain, from, to, blocks, self.keys.as_ptr()) };
        self.from[lane] = self.from[lane].wrapping_add(blocks * BLOCK);
        self.to[lane] = self.to[lane].wrapping_add(blocks * BLOCK);
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

    fn few(&self) -> usize {
        1
    }

    fn start(&mut self, lane: usize, job: CbcJob<'a>) -> usize {
        self.0.values[lane] = job.iv;
        let (from, to, bytes) = match job.data {
            Buffers::InPlace(data) => {
                let to = data.as_mut_ptr();
                (to.cast_const(), to, data.len())
            }
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

    fn advance_few(&mut self, lanes: &[usize], blocks: usize) {
        self.0.advance_few(lanes, blocks);
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

    fn few(&self) -> usize {
        1
    }

    fn start(&mut self, lane: usize, job: CmacJob<'a>) -> usize {
        self.chains.values[lane] = job.stream.as_ref().map_or([0; BLOCK], |stream| stream.chain);
        self.lanes[lane] = Some(CmacLane { job, stage: Stage::Head, tail: [0; BLOCK] });
        self.next(lane)
    }

    fn next(&mut self, lane: usize) -> usize {
        let chain = &self.chains.values[lane];
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

    fn advance_few(&mut self, lanes: &[usize], blocks: usize) {
        self.chains.advance_few(lanes, blocks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::every_level;
    use crate::random::Random;

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
    }

    /// The levels that have AES instructions. All machines that this is tested on do.
    fn every_aes() -> Vec<Aes> {
        let found: Vec<Aes> = every_level().into_iter().filter_map(Aes::of).collect();
        assert!(!found.is_empty(), "no AES instructions here: nothing is tested");
        found
    }

    /// The plaintext of SP 800-38A, appendix F, also used by SP 800-38B and RFC 4493.
    const PLAIN: &str = "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51\
                         30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710";
    const KEY_128: &str = "2b7e151628aed2a6abf7158809cf4f3c";
    const KEY_192: &str = "8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b";
    const KEY_256: &str = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4";

    #[test]
    fn cbc_sp_800_38a() {
        let iv = core::array::from_fn(|i| i as u8);
        for (key, cipher) in [
            (
                KEY_128,
                "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2\
                 73bed6b8e3c1743b7116e69e222295163ff1caa1681fac09120eca307586e1a7",
            ),
            (
                KEY_192,
                "4f021db243bc633d7178183a9fa071e8b4d9ada9ad7dedf4e5e738763f69145a\
                 571b242012fb7ae07fa9baac3df102e008b0e27988598881d920a9e64f5615cd",
            ),
            (
                KEY_256,
                "f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d\
                 39f23369a9d9bacfa530e26304231461b2eb05e2c39be9fcda6c19078c6a9d1b",
            ),
        ] {
            for aes in every_aes() {
                let key = CbcKey::new(aes, &bytes(key)).unwrap();
                for count in [1, 2, 7, 16, 33] {
                    let mut data = vec![bytes(PLAIN); count];
                    key.run(data.iter_mut().map(|data| CbcJob { iv, data: Buffers::InPlace(data) }));
                    for data in &data {
                        assert_eq!(*data, bytes(cipher), "{count} at once");
                    }
                }
            }
        }
    }

    #[test]
    fn cmac_rfc_4493_and_sp_800_38b() {
        for (key, length, mac) in [
            (KEY_128, 0, "bb1d6929e95937287fa37d129b756746"),
            (KEY_128, 16, "070a16b46b4d4144f79bdd9dd04a287c"),
            (KEY_128, 40, "dfa66747de9ae63030ca32611497c827"),
            (KEY_128, 64, "51f0bebf7e3b9d92fc49741779363cfe"),
            (KEY_192, 0, "d17ddf46adaacde531cac483de7a9367"),
            (KEY_192, 40, "8a1de5be2eb31aad089a82e6ee908b0e"),
            (KEY_192, 64, "a1d5df0eed790f794d77589659f39a11"),
            (KEY_256, 0, "028962f61b7bf89efc6b551f4667d983"),
            (KEY_256, 40, "aaf3d8f1de5640c232f5b169b9c911e6"),
            (KEY_256, 64, "e1992190549f6ed5696a2c056c315410"),
        ] {
            for aes in every_aes() {
                let key = CmacKey::new(aes, &bytes(key)).unwrap();
                let message = &bytes(PLAIN)[..length];
                for count in [1, 2, 7, 16, 33] {
                    let mut macs = vec![[0; 16]; count];
                    key.run(macs.iter_mut().map(|mac| CmacJob { stream: None, input: message, output: Some(mac) }));
                    for result in macs {
                        assert_eq!(result.to_vec(), bytes(mac), "{length} bytes, {count} at once");
                    }
                }
            }
        }
    }

    /// Messages of random lengths side by side, in place and not, against one after the other.
    #[test]
    fn cbc_of_random_lengths() {
        let random = Random::new(0x6362_6373);
        for aes in every_aes() {
            for _ in 0..60 {
                let key = CbcKey::new(aes, &random.bytes([16, 24, 32][random.below(3)])).unwrap();
                let plain: Vec<Vec<u8>> =
                    (0..random.below(60)).map(|_| random.bytes(random.length() / BLOCK * BLOCK)).collect();
                let ivs: Vec<[u8; BLOCK]> = plain.iter().map(|_| random.bytes(BLOCK).try_into().unwrap()).collect();
                let mut expected = plain.clone();
                for (data, &iv) in expected.iter_mut().zip(&ivs) {
                    let chain = key.run_one(CbcJob { iv, data: Buffers::InPlace(data) });
                    assert_eq!(chain, data.last_chunk().copied().unwrap_or(iv));
                }
                let mut separate: Vec<Vec<u8>> = plain.iter().map(|data| vec![0xee; data.len()]).collect();
                let mut in_place = plain.clone();
                let jobs = plain.iter().zip(&mut separate).zip(&ivs);
                let jobs = jobs.map(|((input, output), &iv)| CbcJob { iv, data: Buffers::Separate { input, output } });
                let more = in_place.iter_mut().zip(&ivs).map(|(data, &iv)| CbcJob { iv, data: Buffers::InPlace(data) });
                key.run(jobs.chain(more));
                assert_eq!(separate, expected);
                assert_eq!(in_place, expected);
            }
        }
    }

    /// Streams in random pieces beside whole messages, against whole messages one after the other.
    #[test]
    fn cmac_streams_of_random_pieces() {
        let random = Random::new(0x636d_6163);
        for aes in every_aes() {
            for _ in 0..60 {
                let key = CmacKey::new(aes, &random.bytes([16, 24, 32][random.below(3)])).unwrap();
                let alone = |message: &[u8]| {
                    let mut mac = [0; BLOCK];
                    key.run_one(CmacJob { stream: None, input: message, output: Some(&mut mac) });
                    mac
                };
                let mut streams: Vec<(CmacStream, Vec<u8>)> =
                    (0..random.below(20)).map(|_| (CmacStream::new(), Vec::new())).collect();
                for _ in 0..5 {
                    let short = |random: &Random| random.bytes(random.below(40));
                    let pieces: Vec<Vec<u8>> = streams.iter().map(|_| short(&random)).collect();
                    let whole: Vec<Vec<u8>> = (0..random.below(30)).map(|_| random.bytes(random.length())).collect();
                    let mut macs = vec![[0; BLOCK]; whole.len()];
                    let updates = streams.iter_mut().zip(&pieces);
                    let updates =
                        updates.map(|((stream, _), input)| CmacJob { stream: Some(stream), input, output: None });
                    let jobs = whole.iter().zip(&mut macs);
                    let jobs = jobs.map(|(input, mac)| CmacJob { stream: None, input, output: Some(mac) });
                    key.run(updates.chain(jobs));
                    for (message, mac) in whole.iter().zip(macs) {
                        assert_eq!(mac, alone(message));
                    }
                    for ((_, message), piece) in streams.iter_mut().zip(pieces) {
                        message.extend(piece);
                    }
                }
                let mut macs = vec![[0; BLOCK]; streams.len()];
                let jobs = streams.iter_mut().zip(&mut macs);
                key.run(jobs.map(|((stream, _), mac)| CmacJob { stream: Some(stream), input: b"", output: Some(mac) }));
                for ((stream, message), mac) in streams.iter_mut().zip(macs) {
                    assert_eq!(mac, alone(message), "{} bytes", message.len());
                    let mut again = [0; BLOCK];
                    key.run_one(CmacJob { stream: Some(stream), input: b"again", output: Some(&mut again) });
                    assert_eq!(again, alone(b"again"));
                }
            }
        }
    }

    #[test]
    fn keys_of_other_lengths_are_refused() {
        for aes in every_aes() {
            for length in [0, 15, 17, 33] {
                assert!(CbcKey::new(aes, &vec![0; length]).is_none());
                assert!(CmacKey::new(aes, &vec![0; length]).is_none());
            }
        }
    }
}
