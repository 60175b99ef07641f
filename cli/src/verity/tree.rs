//! Locations of the levels of a dm-verity tree (`hash_levels` of cryptsetup's lib/verity/verity_hash.c). The highest level is the first in
//! the file.

use std::ops::Range;

use gantry_digest::Salt;

use super::superblock::{SUPERBLOCK_SIZE, Superblock};

/// The layout of a tree.
pub(crate) struct Layout {
    /// Number of digests in a block of the tree: a power of two.
    pub(crate) digests_per_block: usize,
    /// Bytes from one digest in a block to the next.
    pub(crate) stride: usize,
    /// The byte range of each level in the file. The lowest level is the first in this list. A single data block needs no level: its digest
    /// is the root.
    pub(crate) levels: Vec<Range<u64>>,
    /// The end of the tree.
    pub(crate) end: u64,
}

impl Layout {
    /// Computes a layout. `begin` is the offset of the superblock, or of the tree if there is no superblock. `None` if the tree would
    /// exceed 2^63 bytes.
    pub(crate) fn new(superblock: &Superblock, begin: u64, has_superblock: bool) -> Option<Self> {
        let (size, block) = (superblock.function.digest_size(), superblock.hash_block_size);
        let digests_per_block = 1 << (block / size).ilog2();
        let stride = if superblock.format == 1 { size.next_power_of_two() } else { size };
        let mut at = if has_superblock {
            begin.checked_add(SUPERBLOCK_SIZE as u64)?.checked_next_multiple_of(block as u64)?
        } else {
            begin
        };
        let mut blocks = superblock.data_blocks;
        let mut counts = Vec::new();
        while blocks > 1 {
            blocks = blocks.div_ceil(digests_per_block as u64);
            counts.push(blocks);
        }
        let mut levels = Vec::new();
        for blocks in counts.into_iter().rev() {
            let end = blocks.checked_mul(block as u64)?.checked_add(at).filter(|end| i64::try_from(*end).is_ok())?;
            levels.push(at..end);
            at = end;
        }
        levels.reverse();
        Some(Layout { digests_per_block, stride, levels, end: at })
    }

    /// Returns the number of blocks of the tree.
    pub(crate) fn block_count(&self, superblock: &Superblock) -> u64 {
        self.levels.iter().map(|level| (level.end - level.start) / superblock.hash_block_size as u64).sum()
    }

    /// Fills a block of the tree with these digests of `size` bytes, and zeros.
    pub(crate) fn fill(&self, block: &mut [u8], size: usize, digests: &[u8]) {
        block.fill(0);
        for (slot, digest) in block.chunks_mut(self.stride).zip(digests.chunks_exact(size)) {
            slot[..size].copy_from_slice(digest);
        }
    }
}

impl Superblock {
    /// Returns the salt and its position relative to a block.
    pub(crate) fn salt(&self) -> Salt<'_> {
        if self.format == 1 { Salt::Before(&self.salt) } else { Salt::After(&self.salt) }
    }
}
