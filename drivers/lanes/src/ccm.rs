//! CCM (SP 800-38C): computes the tags of several messages side by side, and encrypts their data in counter mode.

use gantry_core::driver::Buffers;
use gantry_digest::internal::engine::{BlockRun, NO_BLOCKS};

use crate::aes::chain::{ChainKernels, ChainMode};
use crate::aes::independent::Message;
use crate::aes::{Aes, BLOCK_LEN, RoundKeys};
use crate::chains::{self, ChainJob};
use crate::independent::IndependentKey;

/// A key for CCM.
pub(crate) struct CcmKey {
    ctr_key: IndependentKey,
    mac_kernels: ChainKernels,
}

impl CcmKey {
    /// Expands a key. `None` unless it has 16, 24 or 32 bytes.
    pub(crate) fn new(aes: Aes, key: &[u8]) -> Option<Self> {
        let ctr_key = IndependentKey::ctr(aes, key)?;
        Some(CcmKey { mac_kernels: aes.chain_kernels(ctr_key.keys(), ChainMode::Absorb), ctr_key })
    }

    /// Returns the data of a message, for [`crypt`](Self::crypt).
    #[inline(always)]
    pub(crate) fn data<'a>(&'a self, nonce: Nonce, data: Buffers<'a>) -> Message<'a> {
        self.ctr_key.message(nonce.counter(1), data)
    }

    /// Encrypts or decrypts messages one after the other, each with its own key. All keys are as long as this one.
    pub(crate) fn crypt<'a>(&self, messages: impl Iterator<Item = Message<'a>>) {
        self.ctr_key.run(messages);
    }

    /// Computes the tags of all `jobs` side by side, each with its own key. `max_jobs` is the maximum number of jobs, and selects the
    /// kernel. All keys are as long as this one; jobs under this key itself are fastest.
    pub(crate) fn authenticate<'a>(&'a self, max_jobs: usize, jobs: impl Iterator<Item = TagJob<'a>>) {
        chains::run(self.ctr_key.keys(), self.mac_kernels, max_jobs, jobs);
    }

    /// Returns true if messages under `other` can run side by side with messages under this key.
    pub(crate) fn runs_with(&self, other: &CcmKey) -> bool {
        self.ctr_key.runs_with(&other.ctr_key)
    }
}

/// The nonce of a message, 7 to 13 bytes, at its position in a block. The block's remaining bytes count bytes or blocks (A.2.1, A.3).
#[derive(Clone, Copy)]
pub(crate) struct Nonce {
    block: u128,
    bytes: usize,
}

impl Nonce {
    /// Returns a nonce. `None` unless it has 7 to 13 bytes.
    #[inline]
    pub(crate) fn new(nonce: &[u8]) -> Option<Self> {
        let bytes = nonce.len();
        if !(7..=13).contains(&bytes) {
            return None;
        }
        let number = nonce.iter().fold(0, |number, byte| number << 8 | u128::from(*byte));
        Some(Nonce { block: number << (8 * (15 - bytes)), bytes })
    }

    /// Returns true if a message with this nonce may have `bytes` bytes.
    pub(crate) fn allows(self, bytes: usize) -> bool {
        bytes as u64 <= u64::MAX >> (8 * (self.bytes - 7))
    }

    /// Returns the counter block for `number`.
    fn counter(self, number: u64) -> [u8; BLOCK_LEN] {
        self.block(0, number)
    }

    /// Returns a block with these flags, combined with the flag bits for the length of the nonce. `number` fits into the remaining bytes.
    fn block(self, flags: u8, number: u64) -> [u8; BLOCK_LEN] {
        let flags = flags | (14 - self.bytes) as u8;
        (u128::from(flags) << 120 | self.block | u128::from(number)).to_be_bytes()
    }
}

/// A message to be authenticated. `data` is its plaintext.
pub(crate) struct TagJob<'a> {
    pub(crate) key: &'a CcmKey,
    pub(crate) nonce: Nonce,
    pub(crate) aad: &'a [u8],
    pub(crate) data: &'a [u8],
    /// The length of the tag in bytes, which is authenticated, too.
    pub(crate) tag_len: usize,
    /// The tag before truncation.
    pub(crate) tag: &'a mut [u8; BLOCK_LEN],
}

impl TagJob<'_> {
    /// Returns the first blocks (A.2) and their number: one without associated data, otherwise two. Removes from `aad` the bytes
    /// that it copies to the second block.
    fn first_blocks(&mut self) -> ([[u8; BLOCK_LEN]; 2], usize) {
        let aad_len = self.aad.len();
        let flags = if aad_len > 0 { 0x40 } else { 0 } | (8 * ((self.tag_len - 2) / 2)) as u8;
        let first = self.nonce.block(flags, self.data.len() as u64);
        if aad_len == 0 {
            return ([first, [0; BLOCK_LEN]], 1);
        }
        let mut second = [0; BLOCK_LEN];
        let aad_start = if aad_len < 0xff00 {
            second[..2].copy_from_slice(&(aad_len as u16).to_be_bytes());
            2
        } else if let Ok(aad_len) = u32::try_from(aad_len) {
            second[..2].copy_from_slice(&[0xff, 0xfe]);
            second[2..6].copy_from_slice(&aad_len.to_be_bytes());
            6
        } else {
            second[..2].copy_from_slice(&[0xff, 0xff]);
            second[2..10].copy_from_slice(&(aad_len as u64).to_be_bytes());
            10
        };
        let (head, rest) = self.aad.split_at(aad_len.min(BLOCK_LEN - aad_start));
        second[aad_start..aad_start + head.len()].copy_from_slice(head);
        self.aad = rest;
        ([first, second], 2)
    }
}

/// A job in its lane.
pub(crate) struct TagLane<'a> {
    job: TagJob<'a>,
    /// The first blocks; later a padded partial block, or a counter.
    blocks: [[u8; BLOCK_LEN]; 2],
    /// True once the MAC is complete: the lane then encrypts the mask of the tag.
    is_mac_complete: bool,
}

/// Returns the next blocks of `rest`: first the whole blocks, in place, then the remainder, copied to `padded`. `None` at the end.
fn next_blocks(rest: &mut &[u8], padded: &mut [u8; BLOCK_LEN]) -> Option<BlockRun> {
    let blocks = rest.len() / BLOCK_LEN;
    let (whole, remainder) = rest.split_at(blocks * BLOCK_LEN);
    if blocks > 0 {
        *rest = remainder;
        return Some((whole.as_ptr(), blocks));
    }
    if remainder.is_empty() {
        return None;
    }
    *padded = [0; BLOCK_LEN];
    padded[..remainder.len()].copy_from_slice(remainder);
    *rest = &[];
    Some((padded.as_ptr(), 1))
}

// SAFETY: each run is memory that the job borrows for as long as the key, or blocks that are stored in `State`.
unsafe impl<'a> ChainJob<'a> for TagJob<'a> {
    const MODE: ChainMode = ChainMode::Absorb;

    type State = TagLane<'a>;

    fn keys(&self) -> &'a RoundKeys {
        self.key.ctr_key.keys()
    }

    #[inline(always)]
    fn start(mut self, state: &mut Option<TagLane<'a>>, chain: &mut [u8; BLOCK_LEN]) -> (BlockRun, *mut u8) {
        *chain = [0; BLOCK_LEN];
        let (blocks, count) = self.first_blocks();
        let TagLane { blocks, .. } = state.insert(TagLane { job: self, blocks, is_mac_complete: false });
        ((blocks.as_ptr().cast(), count), core::ptr::null_mut())
    }

    fn next(state: &mut TagLane<'a>, chain: &mut [u8; BLOCK_LEN]) -> BlockRun {
        let TagLane { job, blocks: [block, _], is_mac_complete } = state;
        if *is_mac_complete {
            job.tag.iter_mut().zip(*chain).for_each(|(byte, mask)| *byte ^= mask);
            return NO_BLOCKS;
        }
        let next = next_blocks(&mut job.aad, block).or_else(|| next_blocks(&mut job.data, block));
        next.unwrap_or_else(|| {
            // The tag is the MAC encrypted in counter mode; its mask is a chain of one block. In `block`, the counter overwrites the copied
            // end of the data.
            *job.tag = core::mem::take(chain);
            *block = job.nonce.counter(0);
            *is_mac_complete = true;
            (block.as_ptr(), 1)
        })
    }
}
