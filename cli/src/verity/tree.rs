//! Where the levels of a tree of dm-verity lie (`hash_levels` of cryptsetup's lib/verity/verity_hash.c): the highest first.

use std::ops::Range;

use gantry_digest::{Algorithm, Salt};

use super::superblock::{SUPERBLOCK, Superblock};

/// A tree over data.
pub(crate) struct Layout {
    /// Digests in a block of the tree: a power of two.
    pub(crate) per_block: usize,
    /// Bytes from one digest in a block to the next.
    pub(crate) stride: usize,
    /// The bytes of each level in the file, the lowest first. One block of data has no level: its digest is the root.
    pub(crate) levels: Vec<Range<u64>>,
    /// Where the tree ends.
    pub(crate) end: u64,
}

impl Layout {
    /// `begin` is where the superblock is, or without one the tree. `None` if the tree would not be within 2^63 bytes.
    pub(crate) fn new(superblock: &Superblock, begin: u64, has_superblock: bool) -> Option<Self> {
        let (size, block) = (superblock.algorithm.digest_size(), superblock.hash_block);
        let per_block = 1 << (block / size).ilog2();
        let stride = if superblock.format == 1 { size.next_power_of_two() } else { size };
        let mut at = if has_superblock {
            begin.checked_add(SUPERBLOCK as u64)?.checked_next_multiple_of(block as u64)?
        } else {
            begin
        };
        let mut blocks = superblock.data_blocks;
        let mut counts = Vec::new();
        while blocks > 1 {
            blocks = blocks.div_ceil(per_block as u64);
            counts.push(blocks);
        }
        let mut levels = Vec::new();
        for blocks in counts.into_iter().rev() {
            let end = blocks.checked_mul(block as u64)?.checked_add(at).filter(|end| i64::try_from(*end).is_ok())?;
            levels.push(at..end);
            at = end;
        }
        levels.reverse();
        Some(Layout { per_block, stride, levels, end: at })
    }

    /// How many blocks the tree has.
    pub(crate) fn blocks(&self, superblock: &Superblock) -> u64 {
        self.levels.iter().map(|level| (level.end - level.start) / superblock.hash_block as u64).sum()
    }

    /// A block of the tree, with these digests and zeros.
    pub(crate) fn fill(&self, block: &mut [u8], algorithm: Algorithm, digests: &[u8]) {
        block.fill(0);
        let size = algorithm.digest_size();
        for (place, digest) in block.chunks_mut(self.stride).zip(digests.chunks_exact(size)) {
            place[..size].copy_from_slice(digest);
        }
    }
}

impl Superblock {
    /// What is hashed with each block.
    pub(crate) fn salt(&self) -> Salt<'_> {
        if self.format == 1 { Salt::Before(&self.salt) } else { Salt::Behind(&self.salt) }
    }
}
