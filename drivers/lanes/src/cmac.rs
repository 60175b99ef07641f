//! CMAC (RFC 4493) on lanes.

use gantry_digest::internal::engine::{BlockRun, NO_BLOCKS};
use zeroize::Zeroize;

use crate::aes::chain::{ChainKernels, ChainMode};
use crate::aes::{Aes, BLOCK_LEN, RoundKeys};
use crate::chains::{self, ChainJob};

/// A key for CMAC: the key of the chain and the two subkeys, one of which is added to the last block.
pub(crate) struct CmacKey {
    keys: Box<RoundKeys>,
    kernels: ChainKernels,
    /// The subkey for a full last block.
    k1: [u8; BLOCK_LEN],
    /// The subkey for a padded last block.
    k2: [u8; BLOCK_LEN],
}

impl CmacKey {
    /// Expands a key. `None` unless it has 16, 24 or 32 bytes.
    pub(crate) fn new(aes: Aes, key: &[u8]) -> Option<Self> {
        let keys = RoundKeys::new(aes, key)?;
        let mut key = CmacKey {
            kernels: aes.chain_kernels(&keys, ChainMode::Absorb),
            keys,
            k1: [0; BLOCK_LEN],
            k2: [0; BLOCK_LEN],
        };
        // While the subkeys are zero, the MAC of a zero block is that block encrypted.
        let mut mac = [0; BLOCK_LEN];
        CmacJob { key: &key, stream: None, input: &[0; BLOCK_LEN], output: Some(&mut mac) }.run();
        key.k1 = double(mac);
        key.k2 = double(key.k1);
        mac.zeroize();
        Some(key)
    }

    /// Runs all `jobs` side by side, each with its own key. `max_jobs` is the maximum number of jobs, and selects the kernel. All keys are
    /// as long as this one; jobs under this key itself are fastest.
    pub(crate) fn run<'a>(&'a self, max_jobs: usize, jobs: impl Iterator<Item = CmacJob<'a>>) {
        chains::run(&self.keys, self.kernels, max_jobs, jobs);
    }

    /// Returns true if [`run`](Self::run) also accepts messages with `other`.
    pub(crate) fn runs_with(&self, other: &CmacKey) -> bool {
        self.keys.has_same_length(&other.keys)
    }
}

impl Drop for CmacKey {
    fn drop(&mut self) {
        self.k1.zeroize();
        self.k2.zeroize();
    }
}

/// Multiplies by x in GF(2^128) (RFC 4493, 2.3), without a branch on the secret.
fn double(block: [u8; BLOCK_LEN]) -> [u8; BLOCK_LEN] {
    let value = u128::from_be_bytes(block);
    ((value << 1) ^ ((value >> 127) * 0x87)).to_be_bytes()
}

/// A message for CMAC that arrives in pieces.
#[derive(Clone)]
pub(crate) struct CmacStream {
    chain: [u8; BLOCK_LEN],
    /// Input that is not in the chain yet. The last block of a message needs a subkey, so the most recent block is always kept here.
    buffer: [u8; BLOCK_LEN],
    buffered_len: usize,
}

impl CmacStream {
    /// Returns a stream at the beginning of a message.
    pub(crate) fn new() -> Self {
        CmacStream { chain: [0; BLOCK_LEN], buffer: [0; BLOCK_LEN], buffered_len: 0 }
    }
}

impl Drop for CmacStream {
    fn drop(&mut self) {
        self.chain.zeroize();
        self.buffer.zeroize();
    }
}

/// One request: `input` is the next piece of `stream`, or the whole message without a stream. An `output` ends the message: `output`
/// receives the MAC, truncated to the length of `output`, and the stream is reset.
pub(crate) struct CmacJob<'a> {
    pub(crate) key: &'a CmacKey,
    pub(crate) stream: Option<&'a mut CmacStream>,
    pub(crate) input: &'a [u8],
    pub(crate) output: Option<&'a mut [u8]>,
}

impl CmacJob<'_> {
    /// Runs one job with the single-stream kernel.
    pub(crate) fn run(self) {
        chains::run_one(self.key.kernels, self, |_| ());
    }
}

/// The next stage of a job.
#[derive(Clone, Copy)]
enum Stage {
    /// The block that the stream buffered.
    Head,
    /// The whole blocks of the input, except the last one.
    Body,
    /// The remainder, at most one block: end the message with it, or buffer it.
    Tail,
    /// Write the MAC.
    Mac,
}

/// A job in its lane.
pub(crate) struct CmacLane<'a> {
    job: CmacJob<'a>,
    stage: Stage,
    tail: Tail,
}

/// The last block of a message, with a subkey added.
#[repr(align(16))]
struct Tail([u8; BLOCK_LEN]);

impl Tail {
    /// Wipes the block.
    #[inline(always)]
    fn clear(&mut self) {
        // SAFETY: `self` has the size and the alignment of a `u128`. (`zeroize` would write single bytes.)
        unsafe { core::ptr::from_mut(self).cast::<u128>().write_volatile(0) };
    }
}

impl CmacLane<'_> {
    /// Returns the next run. `chain` is the chaining value after the previous runs.
    fn next(&mut self, chain: &[u8; BLOCK_LEN]) -> BlockRun {
        let job = &mut self.job;
        loop {
            match self.stage {
                Stage::Head => {
                    self.stage = Stage::Body;
                    if let Some(stream) = &mut job.stream
                        && stream.buffered_len > 0
                    {
                        let (piece, rest) = job.input.split_at(job.input.len().min(BLOCK_LEN - stream.buffered_len));
                        stream.buffer[stream.buffered_len..stream.buffered_len + piece.len()].copy_from_slice(piece);
                        stream.buffered_len += piece.len();
                        job.input = rest;
                        if !rest.is_empty() {
                            stream.buffered_len = 0;
                            return (stream.buffer.as_ptr(), 1);
                        }
                    }
                }
                Stage::Body => {
                    self.stage = Stage::Tail;
                    let blocks = job.input.len().saturating_sub(1) / BLOCK_LEN;
                    if blocks > 0 {
                        let body = job.input.as_ptr();
                        job.input = &job.input[blocks * BLOCK_LEN..];
                        return (body, blocks);
                    }
                }
                Stage::Tail => {
                    if let Some(stream) = &mut job.stream {
                        if !job.input.is_empty() {
                            // The buffer is empty here: `Head` used it, or it never held anything.
                            stream.buffer[..job.input.len()].copy_from_slice(job.input);
                            stream.buffered_len = job.input.len();
                        }
                        if job.output.is_none() {
                            stream.chain = *chain;
                            return NO_BLOCKS;
                        }
                    }
                    let last = job.stream.as_ref().map_or(job.input, |stream| &stream.buffer[..stream.buffered_len]);
                    self.tail.0 = if last.len() == BLOCK_LEN { job.key.k1 } else { job.key.k2 };
                    for (byte, data) in self.tail.0.iter_mut().zip(last.iter().chain(&[0x80])) {
                        *byte ^= data;
                    }
                    self.stage = Stage::Mac;
                    return (self.tail.0.as_ptr(), 1);
                }
                Stage::Mac => {
                    if let Some(output) = &mut job.output {
                        let bytes = output.len().min(BLOCK_LEN);
                        output[..bytes].copy_from_slice(&chain[..bytes]);
                    }
                    if let Some(stream) = &mut job.stream {
                        **stream = CmacStream::new();
                    }
                    // Wipes the block, because part of it may be a subkey added only to padding.
                    self.tail.clear();
                    return NO_BLOCKS;
                }
            }
        }
    }
}

// SAFETY: each run is in memory that the job borrows for `'a`, or is the last block, which is stored in `State`.
unsafe impl<'a> ChainJob<'a> for CmacJob<'a> {
    const MODE: ChainMode = ChainMode::Absorb;

    type State = CmacLane<'a>;

    fn keys(&self) -> &'a RoundKeys {
        &self.key.keys
    }

    #[inline(always)]
    fn start(self, state: &mut Option<CmacLane<'a>>, chain: &mut [u8; BLOCK_LEN]) -> (BlockRun, *mut u8) {
        *chain = self.stream.as_ref().map_or([0; BLOCK_LEN], |stream| stream.chain);
        let lane = state.insert(CmacLane { job: self, stage: Stage::Head, tail: Tail([0; BLOCK_LEN]) });
        (lane.next(chain), core::ptr::null_mut())
    }

    fn next(state: &mut CmacLane<'a>, chain: &mut [u8; BLOCK_LEN]) -> BlockRun {
        state.next(chain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aes::{every_aes, keys_of_one_length};
    use crate::cbc::tests::{KEY_128, KEY_192, KEY_256, PLAIN, bytes};
    use crate::random::Random;

    #[cfg(target_arch = "x86_64")]
    impl CmacKey {
        /// Returns the values that must be wiped after messages with these data, in addition to the secrets of their chains.
        pub(crate) fn secrets(&self, data: &[Vec<u8>]) -> Vec<Vec<u8>> {
            let whole = data.iter().filter(|data| data.len() % BLOCK_LEN == 0);
            let with = |last: &[u8; BLOCK_LEN]| last.iter().zip(self.k1).map(|(byte, key)| byte ^ key).collect();
            let tails = whole.filter_map(|data| data.last_chunk().map(with));
            [self.k1, self.k2].map(Vec::from).into_iter().chain(tails).collect()
        }
    }

    #[test]
    fn cmac_matches_rfc_4493_and_sp_800_38b() {
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
                for count in [1, 2, 7, 16, 17, 32, 33, 50] {
                    let mut macs = vec![[0; 16]; count];
                    key.run(
                        count,
                        macs.iter_mut().map(|mac| CmacJob {
                            key: &key,
                            stream: None,
                            input: message,
                            output: Some(mac),
                        }),
                    );
                    for result in macs {
                        assert_eq!(result.to_vec(), bytes(mac), "{length} bytes, {count} at once");
                    }
                }
            }
        }
    }

    /// Runs streams in random pieces side by side with whole messages, with one key and with several. Compares the MACs with the MACs of
    /// messages processed one by one.
    #[test]
    fn cmac_streams_equal_whole_messages() {
        let random = Random::new(0x636d_6163);
        for aes in every_aes() {
            for _ in 0..120 {
                let keys = keys_of_one_length(&random, |key| CmacKey::new(aes, key));
                let any_key = || &keys[random.below(keys.len())];
                let mac_of = |key: &CmacKey, message: &[u8]| {
                    let mut mac = [0; BLOCK_LEN];
                    CmacJob { key, stream: None, input: message, output: Some(&mut mac) }.run();
                    mac
                };
                let mut streams: Vec<(&CmacKey, CmacStream, Vec<u8>)> =
                    (0..random.below(20)).map(|_| (any_key(), CmacStream::new(), Vec::new())).collect();
                for _ in 0..5 {
                    let pieces: Vec<Vec<u8>> = streams.iter().map(|_| random.bytes(random.below(40))).collect();
                    let whole: Vec<(&CmacKey, Vec<u8>)> =
                        (0..random.below(30)).map(|_| (any_key(), random.bytes(random.length()))).collect();
                    let mut macs = vec![[0; BLOCK_LEN]; whole.len()];
                    let updates = streams.iter_mut().zip(&pieces);
                    let updates = updates.map(|((key, stream, _), input)| CmacJob {
                        key,
                        stream: Some(stream),
                        input,
                        output: None,
                    });
                    let jobs = whole.iter().zip(&mut macs);
                    let jobs = jobs.map(|((key, input), mac)| CmacJob { key, stream: None, input, output: Some(mac) });
                    keys[0].run(pieces.len() + whole.len(), updates.chain(jobs));
                    for ((key, message), mac) in whole.iter().zip(macs) {
                        assert_eq!(mac, mac_of(key, message));
                    }
                    for ((_, _, message), piece) in streams.iter_mut().zip(pieces) {
                        message.extend(piece);
                    }
                }
                let count = streams.len();
                let mut macs = vec![[0; BLOCK_LEN]; count];
                let jobs = streams.iter_mut().zip(&mut macs);
                keys[0].run(
                    count,
                    jobs.map(|((key, stream, _), mac)| CmacJob {
                        key,
                        stream: Some(stream),
                        input: b"",
                        output: Some(mac),
                    }),
                );
                for ((key, stream, message), mac) in streams.iter_mut().zip(macs) {
                    assert_eq!(mac, mac_of(key, message), "{} bytes", message.len());
                    let mut again = [0; BLOCK_LEN];
                    CmacJob { key, stream: Some(stream), input: b"again", output: Some(&mut again) }.run();
                    assert_eq!(again, mac_of(key, b"again"));
                }
            }
        }
    }

    #[test]
    fn keys_of_other_lengths_are_refused() {
        for aes in every_aes() {
            for length in [0, 15, 17, 33] {
                assert!(CmacKey::new(aes, &vec![0; length]).is_none());
            }
        }
    }
}
