//! The kernels: compression functions, written once over the traits of `vector` and compiled once per CPU level.

#[cfg(target_arch = "x86_64")]
pub(crate) mod behind;
pub mod blake2b;
mod compiled;
pub mod iterate;
pub mod keccak;
pub mod md5;
pub mod sha1;
pub mod sha2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod sha512_ahead;
#[cfg(target_arch = "aarch64")]
pub(crate) mod sha_arm;
#[cfg(target_arch = "x86_64")]
pub(crate) mod sha_ni;
pub mod wide;

use core::marker::PhantomData;

use crate::level::Level;
use crate::vector::{Vector, Word};
use iterate::Iterate;

/// Largest block of any hash function (SHA-512).
pub(crate) const MAX_BLOCK: usize = 128;

/// Most lanes of a hash function.
pub(crate) const HASH_LANES: usize = 16;

/// A compression function: advances `lanes` independent chaining values over the blocks of their messages, one segment after the
/// other, and then, with `outer`, makes them the HMACs that end with these digests.
///
/// `state` is word-major: word `i` of lane `l` is at `i * row(lanes) + l`.
///
/// # Safety
/// The CPU level for which it was compiled is there; `state` is valid for `Hash::WORDS` rows; each segment has as many pointers as there
/// are lanes, each readable for its blocks.
pub type Compress<H> = unsafe fn(state: *mut <H as Hash>::Word, segments: &[Segment], outer: Option<&Outer<H>>);

/// Successive blocks of each lane.
#[derive(Clone, Copy)]
pub struct Segment {
    /// One pointer per lane.
    pub(crate) messages: *const *const u8,
    pub(crate) blocks: usize,
}

/// The outer hash of HMAC (RFC 2104), which is that of one block: no hash function's digest needs a second one.
pub struct Outer<H: Hash> {
    /// The chaining value behind the outer key block.
    pub(crate) chain: [H::Word; 8],
    /// The block behind that, padded, without the digest with which it begins.
    pub(crate) frame: [u8; MAX_BLOCK],
    /// Bytes of the digest.
    pub(crate) digest: usize,
}

impl<H: Hash> Outer<H> {
    /// The block over the digests in `chains`, which become the chaining value in front of it.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    #[inline(always)]
    unsafe fn begin<V: Vector<Word = H::Word>>(&self, chains: &mut [V; 8]) -> [V; 16] {
        let mut words = [chains[0]; 16];
        for (i, word) in words.iter_mut().enumerate() {
            *word = match chains[..H::WORDS].get(i) {
                Some(digest) if i * size_of::<H::Word>() < self.digest => *digest,
                // SAFETY: as the caller promises.
                _ => unsafe { V::splat(H::Word::read(&self.frame, i, H::BIG_ENDIAN)) },
            };
        }
        for (chain, word) in chains.iter_mut().zip(self.chain) {
            // SAFETY: as the caller promises.
            *chain = unsafe { V::splat(word) };
        }
        words
    }
}

/// Words from one row of chaining values to the next. It is the same for all numbers of lanes side by side: whoever goes down a column
/// need not multiply.
const fn row(lanes: usize) -> usize {
    if lanes > 1 { HASH_LANES } else { 1 }
}

/// The compression functions of one hash function on one CPU level. Only [`Hash::kernels`] makes it, out of a [`Level`],
/// so that whoever holds one may call its functions on this CPU.
pub struct Kernels<H: Hash> {
    /// Lanes of `side_by_side`.
    pub(crate) lanes: usize,
    pub(crate) side_by_side: Compress<H>,
    /// From this many messages on, side by side is faster than a few at a time.
    pub(crate) break_even: usize,
    /// Lanes of `few`; 1 if there is no such function, and a few is one.
    pub(crate) few_lanes: usize,
    pub(crate) few: Compress<H>,
    /// For a single message, in the fastest way this CPU has.
    pub(crate) single: Compress<H>,
}

impl<H: Hash> Clone for Kernels<H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H: Hash> Copy for Kernels<H> {}

impl<H: Hash> Kernels<H> {
    /// The most messages side by side.
    pub fn lanes(&self) -> usize {
        self.lanes
    }

    /// From how many messages on they are faster together than one after the other.
    pub fn pays_from(&self) -> usize {
        // Below the break-even of all lanes a few together are still faster than one after the other.
        if self.few_lanes > 1 { 2 } else { self.break_even }
    }

    /// Advances one chaining value over whole blocks.
    pub fn compress(&self, chain: &mut [H::Word; 8], blocks: &[u8]) {
        let message = blocks.as_ptr();
        let segment = Segment { messages: &raw const message, blocks: blocks.len() / H::BLOCK };
        // SAFETY: the CPU has the instructions because `self` exists; there is one lane, eight words are no fewer than
        // `WORDS`, and the division keeps the reads within the slice.
        unsafe { (self.single)(chain.as_mut_ptr(), &[segment], None) }
    }
}

/// A hash function of the MD4 family (Merkle-Damgård, sixteen words to a block).
pub trait Hash: Sized + 'static {
    type Word: Word;
    /// Bytes of a block.
    const BLOCK: usize;
    /// Words of the chaining value.
    const WORDS: usize;
    const BIG_ENDIAN: bool;
    /// Bytes of the length field at the end of the padding.
    const LENGTH_FIELD: usize;
    /// From this many lanes on, `compress` fetches the next block between the rounds, because that is faster.
    const FETCHES_AHEAD_FROM: usize = usize::MAX;

    /// Advances the chaining values by one block. Only the first `WORDS` of `state` are used. With [`FETCHES_AHEAD_FROM`] lanes
    /// or more, all four quarters of `ahead` are fetched on the way, and arranged.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`, and the messages have the block that is `ahead`, if there is one.
    ///
    /// [`FETCHES_AHEAD_FROM`]: Self::FETCHES_AHEAD_FROM
    unsafe fn compress<V: Vector<Word = Self::Word>>(state: &mut [V; 8], words: [V; 16], ahead: &mut Ahead<Self, V>);

    /// For so many chains of HMACs: how many of them go in registers on this CPU, and by what; if there is such a kernel.
    fn in_registers(_: Level, _chains: usize) -> Option<(usize, Iterate<Self>)> {
        None
    }

    /// The compression functions for a CPU. (Not inlined: other crates would then have compression functions of their own.)
    fn kernels(level: Level) -> Kernels<Self>;
}

/// The next block of each message, which is fetched between the rounds of the one before: rounds that are mostly sums and rotations leave
/// those units of the CPU idle that transpose.
pub struct Ahead<H, V> {
    /// Its messages and where it begins in each, if there is one to fetch.
    block: Option<(*const *const u8, usize)>,
    /// Its quarters, and then its words.
    parts: [[V; 4]; 4],
    hash: PhantomData<H>,
}

impl<H: Hash, V: Vector<Word = H::Word>> Ahead<H, V> {
    /// Fetches a quarter.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`, and the messages have the block, if there is one.
    #[inline(always)]
    unsafe fn fetch(&mut self, quarter: usize) {
        if let Some((messages, offset)) = self.block() {
            // SAFETY: as the caller promises.
            self.parts[quarter] = unsafe { V::fetch(messages, offset, H::BIG_ENDIAN, quarter) };
        }
    }

    /// Makes words of the quarters.
    #[inline(always)]
    fn arrange(&mut self) {
        if self.block().is_some() {
            let words = V::arrange(self.parts);
            self.parts.as_flattened_mut().copy_from_slice(&words);
        }
    }

    /// The words, if there are any.
    #[inline(always)]
    fn words(&self) -> Option<[V; 16]> {
        self.block()?;
        let mut words = [self.parts[0][0]; 16];
        words.copy_from_slice(self.parts.as_flattened());
        Some(words)
    }

    /// The block. Where none is ever fetched ahead, the compiler knows.
    #[inline(always)]
    fn block(&self) -> Option<(*const *const u8, usize)> {
        self.block.filter(|_| V::LANES >= H::FETCHES_AHEAD_FROM)
    }
}

/// The loop over blocks that is common to all compression functions.
///
/// # Safety
/// That of [`Compress`], and the CPU has the instructions of `V`.
#[inline(always)]
unsafe fn run<H: Hash, V: Vector<Word = H::Word>>(
    state: *mut H::Word,
    segments: &[Segment],
    mut outer: Option<&Outer<H>>,
) {
    // SAFETY: the caller promises what `splat`, `load`, `gather` and `store` ask for.
    unsafe {
        let mut chain = [V::splat(H::Word::default()); 8];
        for (i, word) in chain[..H::WORDS].iter_mut().enumerate() {
            *word = V::load(state.add(i * row(V::LANES)));
        }
        let blocks = |segment: &Segment| {
            let messages = segment.messages;
            (0..segment.blocks).map(move |block| (messages, block * H::BLOCK))
        };
        let mut blocks = segments.iter().flat_map(blocks);
        let mut next = blocks.next();
        let mut ahead = Ahead::<H, V> { block: None, parts: [[chain[0]; 4]; 4], hash: PhantomData };
        loop {
            let words = match (next, ahead.words()) {
                (Some(_), Some(words)) => words,
                (Some((messages, offset)), None) => V::gather(messages, offset, H::BIG_ENDIAN),
                (None, _) => match outer.take() {
                    Some(outer) => outer.begin(&mut chain),
                    None => break,
                },
            };
            next = blocks.next();
            ahead.block = next;
            H::compress(&mut chain, words, &mut ahead);
        }
        for (i, word) in chain[..H::WORDS].iter().enumerate() {
            word.store(state.add(i * row(V::LANES)));
        }
    }
}

/// Hides the values of a table from the optimiser. It would otherwise add each round's constant last, after the operands
/// that are known late, and so lengthen the chain of dependent instructions (MD5: from 5 cycles a step to 6).
#[inline(always)]
fn opaque<T>(table: &'static T) -> &'static T {
    core::hint::black_box(table)
}
