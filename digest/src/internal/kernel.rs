//! The arithmetic: compression functions, compiled by `dispatch` for each CPU level. Most are written once over the traits of `vector`.
//! `sha_ni` and `sha_arm` use special instructions, and `sha512_prescheduled` contains assembly.

pub mod absorb;
#[cfg(target_arch = "x86_64")]
pub mod after_prefix;
pub mod blake2b;
pub(crate) mod blake3;
pub mod iterate;
pub mod keccak;
pub mod md5;
pub(crate) mod node;
pub mod sha1;
pub(crate) mod sha1_checked;
pub mod sha2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod sha512_prescheduled;
#[cfg(target_arch = "aarch64")]
pub(crate) mod sha_arm;
#[cfg(target_arch = "x86_64")]
pub(crate) mod sha_ni;

use core::marker::PhantomData;

use crate::internal::vector::{Vector, Word};

/// Bytes of the largest block of a [`Compression`] (SHA-512).
pub(crate) const MAX_BLOCK_SIZE: usize = 128;

/// Maximum number of lanes of any hash function.
pub(crate) const MAX_HASH_LANES: usize = 16;

/// A compression function. Advances `lanes` independent chaining values over the blocks of their messages, segment by segment.
/// With `outer` it then turns these digests into HMACs.
///
/// `state` is word-major: word `i` of lane `l` is at `i * row_stride(lanes) + l`.
///
/// # Safety
/// The CPU supports the level the function was compiled for. `state` is valid for `Compression::WORDS` rows. Each segment has one
/// pointer per lane, readable for its blocks.
pub type CompressKernel<H> =
    unsafe fn(state: *mut <H as Compression>::Word, segments: &[Segment], outer: Option<&OuterHash<H>>);

/// Successive blocks of each lane.
#[derive(Clone, Copy)]
pub struct Segment {
    /// One pointer per lane.
    pub(crate) messages: *const *const u8,
    pub(crate) blocks: usize,
}

/// The outer hash of HMAC (RFC 2104). It always takes one block.
pub struct OuterHash<H: Compression> {
    /// The chaining value after the outer key block.
    pub(crate) chain: [H::Word; 8],
    /// The padded block after the key block; the digest replaces its first bytes.
    pub(crate) frame: [u8; MAX_BLOCK_SIZE],
    /// Bytes of the digest.
    pub(crate) digest_size: usize,
}

impl<H: Compression> OuterHash<H> {
    /// Returns the outer block of each lane: the digest in `chains`, then the padding. Sets `chains` to the chaining value before that
    /// block.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    #[inline(always)]
    unsafe fn begin<V: Vector<Word = H::Word>>(&self, chains: &mut [V; 8]) -> [V; 16] {
        let mut words = [chains[0]; 16];
        for (i, word) in words.iter_mut().enumerate() {
            *word = match chains[..H::WORDS].get(i) {
                Some(digest) if i * size_of::<H::Word>() < self.digest_size => *digest,
                // SAFETY: guaranteed by the caller.
                _ => unsafe { V::splat(H::Word::read(&self.frame, i, H::BIG_ENDIAN)) },
            };
        }
        for (chain, word) in chains.iter_mut().zip(self.chain) {
            // SAFETY: guaranteed by the caller.
            *chain = unsafe { V::splat(word) };
        }
        words
    }
}

/// Words from one row of chaining values to the next. All kernels of several lanes have the same stride. A constant saves a
/// multiplication per access to the words of a lane.
const fn row_stride(lanes: usize) -> usize {
    if lanes > 1 { MAX_HASH_LANES } else { 1 }
}

/// The compression function of a hash function of the MD4 family (Merkle-Damgård, sixteen words to a block).
pub trait Compression: Sized + 'static {
    /// The word of the chaining value.
    type Word: Word;
    /// The bytes of a block.
    type Block: Block;
    /// Bytes of a block.
    const BLOCK_SIZE: usize = size_of::<Self::Block>();
    /// Words of the chaining value.
    const WORDS: usize;
    /// The order of bytes in words of the message and the digest.
    const BIG_ENDIAN: bool;
    /// Bytes of the length field at the end of the padding.
    const LENGTH_FIELD_SIZE: usize;
    /// From this many lanes on, `compress` fetches the next block between the rounds, which is faster.
    const MIN_LANES_TO_FETCH_AHEAD: usize = usize::MAX;

    /// Advances the chaining values by one block. Only the first `WORDS` of `state` are used. With [`MIN_LANES_TO_FETCH_AHEAD`] lanes
    /// or more, it also fetches and arranges all four quarters of `next_block`.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`. If `next_block` has a block, the messages are readable there.
    ///
    /// [`MIN_LANES_TO_FETCH_AHEAD`]: Self::MIN_LANES_TO_FETCH_AHEAD
    unsafe fn compress<V: Vector<Word = Self::Word>>(
        state: &mut [V; 8],
        words: [V; 16],
        next_block: &mut NextBlock<Self, V>,
    );
}

/// An array of the bytes of a block.
pub trait Block: Copy + Send + Sync + AsRef<[u8]> + AsMut<[u8]> + 'static {
    /// A block of zeros.
    const ZEROS: Self;
}

impl<const N: usize> Block for [u8; N] {
    const ZEROS: Self = [0; N];
}

/// The next block of each message, fetched between the rounds of the current one. Rounds are mostly sums and rotations, which
/// leave the units for transposing idle.
pub struct NextBlock<H, V> {
    /// The messages and the offset of the block in each, if there is one to fetch.
    block: Option<(*const *const u8, usize)>,
    /// The quarters of the block; once arranged, its words.
    quarters: [[V; 4]; 4],
    hash: PhantomData<H>,
}

impl<H: Compression, V: Vector<Word = H::Word>> NextBlock<H, V> {
    /// Fetches a quarter.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`, and the messages are readable at the block, if there is one.
    #[inline(always)]
    unsafe fn fetch(&mut self, quarter: usize) {
        if let Some((messages, offset)) = self.block() {
            // SAFETY: guaranteed by the caller.
            self.quarters[quarter] = unsafe { V::fetch(messages, offset, H::BIG_ENDIAN, quarter) };
        }
    }

    /// Turns the quarters into words.
    #[inline(always)]
    fn arrange(&mut self) {
        if self.block().is_some() {
            let words = V::arrange(self.quarters);
            self.quarters.as_flattened_mut().copy_from_slice(&words);
        }
    }

    /// The words, if there are any.
    #[inline(always)]
    fn words(&self) -> Option<[V; 16]> {
        self.block()?;
        let mut words = [self.quarters[0][0]; 16];
        words.copy_from_slice(self.quarters.as_flattened());
        Some(words)
    }

    /// The block to fetch. The filter tells the compiler when there never is one.
    #[inline(always)]
    fn block(&self) -> Option<(*const *const u8, usize)> {
        self.block.filter(|_| V::LANES >= H::MIN_LANES_TO_FETCH_AHEAD)
    }
}

/// The loop over blocks, common to all compression functions.
///
/// # Safety
/// As for [`CompressKernel`]; also, the CPU has the instructions of `V`.
#[inline(always)]
pub(crate) unsafe fn compress_segments<H: Compression, V: Vector<Word = H::Word>>(
    state: *mut H::Word,
    segments: &[Segment],
    mut outer: Option<&OuterHash<H>>,
) {
    // SAFETY: the caller guarantees the instructions, the rows of `state`, and the blocks of each segment. `next_block` gets only such
    // blocks.
    unsafe {
        let mut chain = [V::splat(H::Word::default()); 8];
        for (i, word) in chain[..H::WORDS].iter_mut().enumerate() {
            *word = V::load(state.add(i * row_stride(V::LANES)));
        }
        let blocks = |segment: &Segment| {
            let messages = segment.messages;
            (0..segment.blocks).map(move |block| (messages, block * H::BLOCK_SIZE))
        };
        let mut blocks = segments.iter().flat_map(blocks);
        let mut next = blocks.next();
        let mut next_block = NextBlock::<H, V> { block: None, quarters: [[chain[0]; 4]; 4], hash: PhantomData };
        loop {
            let words = match (next, next_block.words()) {
                (Some(_), Some(words)) => words,
                (Some((messages, offset)), None) => V::gather(messages, offset, H::BIG_ENDIAN),
                (None, _) => match outer.take() {
                    Some(outer) => outer.begin(&mut chain),
                    None => break,
                },
            };
            next = blocks.next();
            next_block.block = next;
            H::compress(&mut chain, words, &mut next_block);
        }
        for (i, word) in chain[..H::WORDS].iter().enumerate() {
            word.store(state.add(i * row_stride(V::LANES)));
        }
    }
}

/// Hides the values of a table from the optimizer. It would otherwise add each round's constant last, after the operands that are
/// known late. This order lengthens the dependency chain (MD5: from 5 to 6 cycles per step).
#[inline(always)]
fn opaque<T>(table: &'static T) -> &'static T {
    core::hint::black_box(table)
}
