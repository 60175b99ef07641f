//! Messages of one length after a common prefix: padded once, then hashed repeatedly while their bytes change.
//!
//! Hash-based signatures (FIPS 205) call a hash function this way. The prefix is the seed of a public key; a message is an
//! address and one to several dozen digests. Padding and copying each time would take longer than the hashing of one lane.

use alloc::vec::Vec;
use core::ops::Range;

#[cfg(target_arch = "x86_64")]
use crate::internal::dispatch::after_prefix;
use crate::internal::dispatch::sponge::Function;
use crate::internal::dispatch::{self, Hash, Kernels};
use crate::internal::hash;
use crate::internal::kernel::absorb::{Absorption, MAX_SPONGE_LANES, STATE_WORDS};
#[cfg(target_arch = "x86_64")]
use crate::internal::kernel::after_prefix::StridedMessages;
use crate::internal::kernel::keccak::{DOMAIN_SHAKE, INITIAL, Keccak};
use crate::internal::kernel::sha2::{INITIAL_256, INITIAL_512, Sha256, Sha512};
use crate::internal::kernel::{Compression, MAX_HASH_LANES, Segment};
use crate::internal::sponge;
use crate::internal::vector::Word;
use crate::level::Level;

/// The sponge of SHAKE256 (FIPS 202, 6.2).
type Shake = Keccak<136>;

/// Bytes of a cache line.
const CACHE_LINE: usize = 64;

/// The common prefix of messages: the chaining value after its whole blocks, and the remaining bytes.
///
/// A prefix is public data, so it is not zeroized.
#[derive(Clone)]
pub struct Prefix {
    state: PrefixState,
    rest: Vec<u8>,
    /// Bytes of the whole prefix.
    len: usize,
}

#[derive(Clone)]
enum PrefixState {
    /// The last field has the kernels for messages after a prefix, if this CPU can run them.
    #[cfg(target_arch = "x86_64")]
    Sha256(Kernels<Sha256>, [u32; 8], Option<after_prefix::Kernels<Sha256>>),
    #[cfg(not(target_arch = "x86_64"))]
    Sha256(Kernels<Sha256>, [u32; 8], ()),
    Sha512(Kernels<Sha512>, [u64; 8]),
    /// Starts from the all-zero state.
    Shake256(dispatch::sponge::Kernels),
}

impl Prefix {
    /// A prefix of any length for SHA-256 (FIPS 180-4). Digests have 32 bytes.
    pub fn sha256(prefix: &[u8]) -> Self {
        Self::sha256_on(Level::in_use(), prefix)
    }

    fn sha256_on(level: Level, prefix: &[u8]) -> Self {
        let (kernels, mut chain) = (Sha256::kernels(level), INITIAL_256);
        let (whole, rest) = prefix.split_at(prefix.len() / Sha256::BLOCK_SIZE * Sha256::BLOCK_SIZE);
        kernels.compress(&mut chain, whole);
        #[cfg(target_arch = "x86_64")]
        let state = PrefixState::Sha256(kernels, chain, after_prefix::Kernels::new(level));
        #[cfg(not(target_arch = "x86_64"))]
        let state = PrefixState::Sha256(kernels, chain, ());
        Prefix { state, rest: rest.to_vec(), len: prefix.len() }
    }

    /// A prefix of any length for SHA-512 (FIPS 180-4). Digests have 64 bytes.
    pub fn sha512(prefix: &[u8]) -> Self {
        Self::sha512_on(Level::in_use(), prefix)
    }

    fn sha512_on(level: Level, prefix: &[u8]) -> Self {
        let (kernels, mut chain) = (Sha512::kernels(level), INITIAL_512);
        let (whole, rest) = prefix.split_at(prefix.len() / Sha512::BLOCK_SIZE * Sha512::BLOCK_SIZE);
        kernels.compress(&mut chain, whole);
        Prefix { state: PrefixState::Sha512(kernels, chain), rest: rest.to_vec(), len: prefix.len() }
    }

    /// A prefix of any length for SHAKE256 (FIPS 202). Digests have up to 136 bytes, the length of a block.
    pub fn shake256(prefix: &[u8]) -> Self {
        Self::shake256_on(Level::in_use(), prefix)
    }

    fn shake256_on(level: Level, prefix: &[u8]) -> Self {
        let kernels = <Shake as Function>::kernels(level);
        Prefix { state: PrefixState::Shake256(kernels), rest: prefix.to_vec(), len: prefix.len() }
    }

    /// Bytes of a block, and of the longest digest.
    fn block_and_digest_size(&self) -> (usize, usize) {
        match self.state {
            PrefixState::Sha256(..) => (Sha256::BLOCK_SIZE, 32),
            PrefixState::Sha512(..) => (Sha512::BLOCK_SIZE, 64),
            PrefixState::Shake256(_) => (Shake::BLOCK_SIZE, Shake::BLOCK_SIZE),
        }
    }
}

/// Messages of one length after a prefix, initially zeros. They are zeroized on drop, but the stack of the kernels is not
/// overwritten.
pub struct PrefixedMessages {
    state: PrefixState,
    /// Padded messages, back to back, starting at `first_offset`.
    bytes: Vec<u8>,
    /// Offset of the first cache line of `bytes`.
    first_offset: usize,
    /// Bytes of a padded message.
    stride: usize,
    /// Bytes of the prefix at the start of each message.
    prefix_rest_len: usize,
    /// Bytes of a message without the prefix.
    message_len: usize,
    count: usize,
    /// Bytes of the longest digest.
    max_digest_size: usize,
}

impl PrefixedMessages {
    /// Creates `count` messages of `message_len` bytes each.
    pub fn new(prefix: &Prefix, message_len: usize, count: usize) -> Self {
        let prefix_rest_len = prefix.rest.len();
        let (block_size, max_digest_size) = prefix.block_and_digest_size();
        let rest_len = (prefix_rest_len + message_len) % block_size;
        let whole = prefix_rest_len + message_len - rest_len;
        let blocks = match prefix.state {
            PrefixState::Sha256(..) => hash::padding::<Sha256>(rest_len, (prefix.len + message_len) as u64),
            PrefixState::Sha512(..) => hash::padding::<Sha512>(rest_len, (prefix.len + message_len) as u64),
            PrefixState::Shake256(_) => {
                let mut padded = [0; _];
                Shake::pad(&mut padded, rest_len, DOMAIN_SHAKE);
                (1, padded)
            }
        };
        let (blocks, padding) = (blocks.0, &blocks.1[rest_len..blocks.0 * block_size]);
        let stride = whole + blocks * block_size;
        let bytes = alloc::vec![0; count * stride + CACHE_LINE];
        let first_offset = bytes.as_ptr().align_offset(CACHE_LINE) % CACHE_LINE;
        let mut messages = PrefixedMessages {
            state: prefix.state.clone(),
            bytes,
            first_offset,
            stride,
            prefix_rest_len,
            message_len,
            count,
            max_digest_size,
        };
        for padded in messages.bytes[first_offset..].chunks_exact_mut(stride).take(count) {
            padded[..prefix_rest_len].copy_from_slice(&prefix.rest);
            padded[prefix_rest_len + message_len..].copy_from_slice(padding);
        }
        messages
    }

    /// The bytes of a message.
    pub fn message(&self, index: usize) -> &[u8] {
        let offset = self.message_offset(index);
        &self.bytes[offset..offset + self.message_len]
    }

    /// The bytes of a message, mutable.
    pub fn message_mut(&mut self, index: usize) -> &mut [u8] {
        let offset = self.message_offset(index);
        &mut self.bytes[offset..offset + self.message_len]
    }

    /// Writes the digests of the first messages to `output`, `digest_size` bytes each, one after the other, until `output` is full.
    ///
    /// # Panics
    /// If `digest_size` is not 8, 16, 24 or 32, or exceeds the digest; if the length of `output` is no multiple of `digest_size`; or if
    /// there are fewer messages than digests.
    pub fn digest(&self, digest_size: usize, output: &mut [u8]) {
        self.check_digest_size(digest_size);
        assert!(output.len().is_multiple_of(digest_size));
        let messages = 0..output.len() / digest_size;
        assert!(messages.end <= self.count);
        #[cfg(target_arch = "x86_64")]
        if let Some((chain, kernels)) = self.after_prefix_kernels() {
            let messages = StridedMessages {
                from: self.bytes[self.first_offset..].as_ptr(),
                from_stride: self.stride,
                blocks: self.stride / Sha256::BLOCK_SIZE,
                to: output.as_mut_ptr(),
                to_stride: digest_size,
                digest_size,
                count: messages.end,
            };
            // SAFETY: there are `count` padded messages from `first_offset` on. `output` has room for as many digests and is not
            // aliased. `check_digest_size` has validated the size.
            return unsafe { kernels.run(&chain, &messages) };
        }
        let mut digests = Digests::new(&self.state);
        let mut rest = output;
        let mut done = 0;
        while done < messages.end {
            let count = self.compress(done..messages.end, &mut digests);
            let (outputs, others) = core::mem::take(&mut rest).split_at_mut(count * digest_size);
            digests.write(digest_size, outputs.chunks_exact_mut(digest_size));
            (rest, done) = (others, done + count);
        }
    }

    /// Digests messages, and writes `digest_size` bytes of each digest into its own message, at byte `at`.
    ///
    /// # Panics
    /// If `digest_size` is not 8, 16, 24 or 32, or exceeds the digest; or if `messages` or the place of the digest is out of range.
    pub fn digest_in_place(&mut self, messages: Range<usize>, at: usize, digest_size: usize) {
        self.check_digest_size(digest_size);
        assert!(messages.start <= messages.end && messages.end <= self.count);
        assert!(at.checked_add(digest_size).is_some_and(|end| end <= self.message_len));
        let at = self.prefix_rest_len + at;
        #[cfg(target_arch = "x86_64")]
        if let Some((chain, kernels)) = self.after_prefix_kernels() {
            let from = self.bytes[self.first_offset + messages.start * self.stride..].as_mut_ptr();
            let messages = StridedMessages {
                from,
                from_stride: self.stride,
                blocks: self.stride / Sha256::BLOCK_SIZE,
                to: from.wrapping_add(at),
                to_stride: self.stride,
                digest_size,
                count: messages.len(),
            };
            // SAFETY: there are `count` padded messages from `from` on, which are not aliased, and each digest ends within its
            // message. `check_digest_size` has validated the size.
            return unsafe { kernels.run(&chain, &messages) };
        }
        let mut digests = Digests::new(&self.state);
        let mut done = messages.start;
        while done < messages.end {
            let count = self.compress(done..messages.end, &mut digests);
            let padded = self.bytes[self.first_offset + done * self.stride..].chunks_exact_mut(self.stride).take(count);
            digests.write(digest_size, padded.map(|message| &mut message[at..at + digest_size]));
            done += count;
        }
    }

    /// The chaining value and the kernels that digest all messages in one call, if there are any.
    #[cfg(target_arch = "x86_64")]
    fn after_prefix_kernels(&self) -> Option<([u32; 8], after_prefix::Kernels<Sha256>)> {
        match &self.state {
            PrefixState::Sha256(_, chain, kernels) => kernels.map(|kernels| (*chain, kernels)),
            _ => None,
        }
    }

    fn check_digest_size(&self, digest_size: usize) {
        assert!([8, 16, 24, 32].contains(&digest_size) && digest_size <= self.max_digest_size);
    }

    fn message_offset(&self, index: usize) -> usize {
        assert!(index < self.count);
        self.first_offset + index * self.stride + self.prefix_rest_len
    }

    /// Digests the first of `messages`, as many as there are lanes. Returns their number; the digests are in the first lanes.
    fn compress(&self, messages: Range<usize>, digests: &mut Digests) -> usize {
        let padded = &self.bytes[self.first_offset..][messages.start * self.stride..messages.end * self.stride];
        match (&self.state, digests) {
            (PrefixState::Sha256(kernels, chain, _), Digests::Narrow(rows)) => {
                compress(*kernels, chain, padded, self.stride, rows)
            }
            (PrefixState::Sha512(kernels, chain), Digests::Wide(rows)) => {
                compress(*kernels, chain, padded, self.stride, rows)
            }
            (PrefixState::Shake256(kernels), Digests::Sponge(rows)) => absorb(*kernels, padded, self.stride, rows),
            _ => unreachable!("the digests must be those of the prefix's function"),
        }
    }
}

impl Drop for PrefixedMessages {
    fn drop(&mut self) {
        // `fill` clears whole registers at once, unlike `zeroize`; `black_box` keeps the compiler from removing the stores.
        self.bytes.fill(0);
        core::hint::black_box(&mut self.bytes);
    }
}

/// Digests of all lanes as words: word `i` of lane `l` at `[i][l]`.
#[allow(clippy::large_enum_variant, reason = "it is on the stack of one call")]
enum Digests {
    Narrow([[u32; MAX_HASH_LANES]; 8]),
    Wide([[u64; MAX_HASH_LANES]; 8]),
    Sponge([[u64; MAX_SPONGE_LANES]; STATE_WORDS]),
}

impl Digests {
    fn new(state: &PrefixState) -> Self {
        match state {
            PrefixState::Sha256(..) => Digests::Narrow([[0; _]; _]),
            PrefixState::Sha512(..) => Digests::Wide([[0; _]; _]),
            PrefixState::Shake256(_) => Digests::Sponge([[0; _]; _]),
        }
    }

    /// Writes the digests of the first lanes as bytes, `digest_size` of each.
    #[inline(always)]
    fn write<'a>(&self, digest_size: usize, outputs: impl Iterator<Item = &'a mut [u8]>) {
        match self {
            Digests::Narrow(rows) => write(rows, digest_size, true, outputs),
            Digests::Wide(rows) => write(rows, digest_size, true, outputs),
            Digests::Sponge(rows) => write(rows, digest_size, false, outputs),
        }
    }
}

impl Drop for Digests {
    fn drop(&mut self) {
        match self {
            Digests::Narrow(rows) => rows.as_flattened_mut().fill(0),
            Digests::Wide(rows) => rows.as_flattened_mut().fill(0),
            Digests::Sponge(rows) => rows.as_flattened_mut().fill(0),
        }
        core::hint::black_box(self);
    }
}

/// Writes the first `digest_size` bytes of each lane's digest. Each size that signatures use has its own compiled copy.
#[inline(always)]
fn write<'a, W: Word, const N: usize>(
    rows: &[[W; N]],
    digest_size: usize,
    big_endian: bool,
    outputs: impl Iterator<Item = &'a mut [u8]>,
) {
    match digest_size {
        16 => write_words::<W, N, 16>(rows, big_endian, outputs),
        24 => write_words::<W, N, 24>(rows, big_endian, outputs),
        32 => write_words::<W, N, 32>(rows, big_endian, outputs),
        _ => write_words::<W, N, 8>(rows, big_endian, outputs),
    }
}

/// Writes parts of `SIZE` bytes, word by word: a wide load after narrow stores stalls (no store forwarding).
#[inline(always)]
fn write_words<'a, W: Word, const N: usize, const SIZE: usize>(
    rows: &[[W; N]],
    big_endian: bool,
    outputs: impl Iterator<Item = &'a mut [u8]>,
) {
    let words = SIZE / size_of::<W>();
    for (lane, output) in outputs.enumerate() {
        for (part, rows) in output.as_chunks_mut::<SIZE>().0.iter_mut().zip(rows.chunks(words)) {
            for (word, row) in part.chunks_exact_mut(size_of::<W>()).zip(rows) {
                row[lane].write(word, big_endian);
            }
        }
    }
}

/// Digests the first of the SHA-2 messages in `padded`, each of `stride` bytes, as many as there are lanes. Returns their number.
fn compress<H: Hash>(
    kernels: Kernels<H>,
    chain: &[H::Word; 8],
    padded: &[u8],
    stride: usize,
    rows: &mut [[H::Word; MAX_HASH_LANES]; 8],
) -> usize {
    let left = padded.len() / stride;
    let (lanes, kernel) = if left >= kernels.break_even {
        (kernels.lanes, kernels.side_by_side)
    } else if left > 1 {
        (kernels.few_lanes, kernels.few)
    } else {
        (1, kernels.single)
    };
    let messages = pointers::<MAX_HASH_LANES>(padded, stride, lanes);
    let segment = Segment { messages: messages.as_ptr(), blocks: stride / H::BLOCK_SIZE };
    if lanes == 1 {
        let mut state = *chain;
        // SAFETY: the CPU has the instructions because `kernels` exists. There is one lane, `state` has all words, and the
        // message has `stride / H::BLOCK_SIZE` blocks.
        unsafe { kernel(state.as_mut_ptr(), &[segment], None) };
        rows.iter_mut().zip(&mut state).for_each(|(row, word)| row[0] = core::mem::take(word));
        core::hint::black_box(&mut state);
    } else {
        rows.iter_mut().zip(chain).for_each(|(row, word)| row.fill(*word));
        // SAFETY: the CPU has the instructions because `kernels` exists. `rows` has eight rows as long as the kernels' rows.
        // Each lane has a pointer to a message in `padded`, which has `stride / H::BLOCK_SIZE` blocks.
        unsafe { kernel(rows.as_mut_ptr().cast(), &[segment], None) };
    }
    lanes.min(left)
}

/// Digests the first of the SHAKE256 messages in `padded`, as `compress` does.
fn absorb(
    kernels: dispatch::sponge::Kernels,
    padded: &[u8],
    stride: usize,
    rows: &mut [[u64; MAX_SPONGE_LANES]; STATE_WORDS],
) -> usize {
    let left = padded.len() / stride;
    let blocks = stride / Shake::BLOCK_SIZE;
    if left < kernels.break_even || kernels.lanes == 1 {
        let mut state = INITIAL;
        let message = padded.as_ptr();
        // SAFETY: the CPU has the instructions because `kernels` exists. There is one lane, `state` has all words, and the
        // message has `blocks` blocks.
        unsafe { (kernels.single)(state.as_mut_ptr(), &raw const message, blocks, Shake::BLOCK_SIZE, Shake::ROUNDS) };
        rows.iter_mut().zip(&mut state).for_each(|(row, word)| row[0] = core::mem::take(word));
        core::hint::black_box(&mut state);
        return 1;
    }
    let messages = pointers::<MAX_SPONGE_LANES>(padded, stride, kernels.lanes);
    rows.as_flattened_mut().fill(0);
    // SAFETY: the CPU has the instructions because `kernels` exists. `rows` has all words, in rows as long as the rows of
    // the kernels. Each lane has a pointer to a message in `padded`, which has `blocks` blocks.
    unsafe {
        (kernels.side_by_side)(rows.as_mut_ptr().cast(), messages.as_ptr(), blocks, Shake::BLOCK_SIZE, Shake::ROUNDS);
    };
    kernels.lanes.min(left)
}

/// Returns a pointer to the message of each lane. Unused lanes repeat the first message.
#[inline(always)]
fn pointers<const N: usize>(padded: &[u8], stride: usize, lanes: usize) -> [*const u8; N] {
    let mut pointers = [padded.as_ptr(); N];
    for (pointer, message) in pointers[..lanes].iter_mut().zip(padded.chunks_exact(stride)) {
        *pointer = message.as_ptr();
    }
    pointers
}

/// Writes `output.len()` bytes of SHAKE256 (FIPS 202) of a message in parts. The state of the sponge is zeroized.
pub fn shake256(parts: &[&[u8]], output: &mut [u8]) {
    let setup = sponge::Setup::<Shake>::xof(output.len(), 0, DOMAIN_SHAKE);
    let kernels = <Shake as Function>::kernels(Level::in_use());
    let mut stream = sponge::Stream::new(&setup);
    for input in parts {
        sponge::run_one(kernels, sponge::Job { setup: &setup, stream: Some(&mut stream), input, output: None });
    }
    sponge::run_one(
        kernels,
        sponge::Job { setup: &setup, stream: Some(&mut stream), input: &[], output: Some(output) },
    );
}

#[cfg(test)]
mod tests;
