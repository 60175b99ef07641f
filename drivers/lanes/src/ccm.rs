//! CCM (SP 800-38C): the tags of messages side by side, and their data in counter mode.

use gantry_core::driver::Buffers;
use gantry_digest::engine::{END, Run};

use crate::aes::chain::{Kernels, Mode};
use crate::aes::independent::Message;
use crate::aes::{Aes, BLOCK, RoundKeys};
use crate::chains::{self, ChainJob};
use crate::independent::IndependentKey;

/// A key for CCM.
pub(crate) struct CcmKey {
    ctr: IndependentKey,
    chains: Kernels,
}

impl CcmKey {
    /// `None` for a key that is not of 16, 24 or 32 bytes.
    pub(crate) fn new(aes: Aes, key: &[u8]) -> Option<Self> {
        let ctr = IndependentKey::ctr(aes, key)?;
        Some(CcmKey { chains: aes.chains(ctr.keys(), Mode::Absorb), ctr })
    }

    /// The data of a message, to be encrypted or decrypted.
    #[inline(always)]
    pub(crate) fn data<'a>(&'a self, nonce: Nonce, data: Buffers<'a>) -> Message<'a> {
        self.ctr.message(nonce.counter(1), data)
    }

    /// Runs such messages one after the other, each with its own key; all keys are as long as this one.
    pub(crate) fn crypt<'a>(&self, messages: impl Iterator<Item = Message<'a>>) {
        self.ctr.run(messages);
    }

    /// The tags of so many messages or fewer side by side, each with its own key; all keys are as long as this one, and fastest is this one.
    pub(crate) fn authenticate<'a>(&'a self, count: usize, jobs: impl Iterator<Item = TagJob<'a>>) {
        chains::run(self.ctr.keys(), self.chains, count, jobs);
    }

    /// Whether messages with that key, too, may be side by side with this one's.
    pub(crate) fn runs_with(&self, other: &CcmKey) -> bool {
        self.ctr.runs_with(&other.ctr)
    }
}

/// The nonce of a message, of 7 to 13 bytes, in its place in a block. What it leaves of that counts bytes or blocks (A.2.1, A.3).
#[derive(Clone, Copy)]
pub(crate) struct Nonce {
    block: u128,
    bytes: usize,
}

impl Nonce {
    /// `None` for one of another length.
    #[inline]
    pub(crate) fn new(nonce: &[u8]) -> Option<Self> {
        let bytes = nonce.len();
        if !(7..=13).contains(&bytes) {
            return None;
        }
        let number = nonce.iter().fold(0, |number, byte| number << 8 | u128::from(*byte));
        Some(Nonce { block: number << (8 * (15 - bytes)), bytes })
    }

    /// Whether a message may have so many bytes.
    pub(crate) fn allows(self, bytes: usize) -> bool {
        bytes as u64 <= u64::MAX >> (8 * (self.bytes - 7))
    }

    /// A counter.
    fn counter(self, number: u64) -> [u8; BLOCK] {
        self.block(0, number)
    }

    /// A block with these flags, beside those of the length of the nonce. The number is no longer than there is room for.
    fn block(self, flags: u8, number: u64) -> [u8; BLOCK] {
        let flags = flags | (14 - self.bytes) as u8;
        (u128::from(flags) << 120 | self.block | u128::from(number)).to_be_bytes()
    }
}

/// A message that is authenticated: its plaintext.
pub(crate) struct TagJob<'a> {
    pub(crate) key: &'a CcmKey,
    pub(crate) nonce: Nonce,
    pub(crate) associated: &'a [u8],
    pub(crate) data: &'a [u8],
    /// Bytes of the tag, which are part of what is authenticated.
    pub(crate) bytes: usize,
    /// The whole of it.
    pub(crate) tag: &'a mut [u8; BLOCK],
}

impl TagJob<'_> {
    /// The first blocks (A.2), and how many there are: one, or with associated data two, which take up as many of those as they have room
    /// for.
    fn first_blocks(&mut self) -> ([[u8; BLOCK]; 2], usize) {
        let associated = self.associated.len();
        let flags = if associated > 0 { 0x40 } else { 0 } | (8 * ((self.bytes - 2) / 2)) as u8;
        let first = self.nonce.block(flags, self.data.len() as u64);
        if associated == 0 {
            return ([first, [0; BLOCK]], 1);
        }
        let mut second = [0; BLOCK];
        let begin = if associated < 0xff00 {
            second[..2].copy_from_slice(&(associated as u16).to_be_bytes());
            2
        } else if let Ok(associated) = u32::try_from(associated) {
            second[..2].copy_from_slice(&[0xff, 0xfe]);
            second[2..6].copy_from_slice(&associated.to_be_bytes());
            6
        } else {
            second[..2].copy_from_slice(&[0xff, 0xff]);
            second[2..10].copy_from_slice(&(associated as u64).to_be_bytes());
            10
        };
        let (head, rest) = self.associated.split_at(associated.min(BLOCK - begin));
        second[begin..begin + head.len()].copy_from_slice(head);
        self.associated = rest;
        ([first, second], 2)
    }
}

/// A job in its lane.
pub(crate) struct TagLane<'a> {
    job: TagJob<'a>,
    /// The first blocks, and then what is not a whole one, or a counter.
    blocks: [[u8; BLOCK]; 2],
    /// Whether the MAC is there, and what masks it is being made.
    masking: bool,
}

/// The next blocks of `rest`: the whole ones where they are, and what is behind them in `padded`. None at its end.
fn next_blocks(rest: &mut &[u8], padded: &mut [u8; BLOCK]) -> Option<Run> {
    let blocks = rest.len() / BLOCK;
    let (whole, behind) = rest.split_at(blocks * BLOCK);
    if blocks > 0 {
        *rest = behind;
        return Some((whole.as_ptr(), blocks));
    }
    if behind.is_empty() {
        return None;
    }
    *padded = [0; BLOCK];
    padded[..behind.len()].copy_from_slice(behind);
    *rest = &[];
    Some((padded.as_ptr(), 1))
}

// SAFETY: runs are memory that the job borrows for as long as the key, or blocks that are kept.
unsafe impl<'a> ChainJob<'a> for TagJob<'a> {
    const MODE: Mode = Mode::Absorb;

    type Kept = TagLane<'a>;

    fn keys(&self) -> &'a RoundKeys {
        self.key.ctr.keys()
    }

    #[inline(always)]
    fn start(mut self, kept: &mut Option<TagLane<'a>>, chain: &mut [u8; BLOCK]) -> (Run, *mut u8) {
        *chain = [0; BLOCK];
        let (blocks, count) = self.first_blocks();
        let TagLane { blocks, .. } = kept.insert(TagLane { job: self, blocks, masking: false });
        ((blocks.as_ptr().cast(), count), core::ptr::null_mut())
    }

    fn next(kept: &mut TagLane<'a>, chain: &mut [u8; BLOCK]) -> Run {
        let TagLane { job, blocks: [block, _], masking } = kept;
        if *masking {
            job.tag.iter_mut().zip(*chain).for_each(|(byte, mask)| *byte ^= mask);
            return END;
        }
        let next = next_blocks(&mut job.associated, block).or_else(|| next_blocks(&mut job.data, block));
        next.unwrap_or_else(|| {
            // The tag is the MAC in counter mode: its mask is a chain of one block. That also overwrites the end of the data.
            *job.tag = core::mem::take(chain);
            *block = job.nonce.counter(0);
            *masking = true;
            (block.as_ptr(), 1)
        })
    }
}
