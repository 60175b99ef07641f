//! The trees of BitTorrent v2 (BEP 52): SHA-256 of blocks of 16 KiB, and of pairs of digests. The leaves are padded with zero digests to a
//! power of two.

use std::sync::{Mutex, PoisonError};

use gantry_digest::{Algorithm, Salt, tree_level};

use super::metainfo::{BLOCK_SIZE, V2_DIGEST_SIZE};
use crate::dm_verity::HashFunction;
use crate::hashing::digest_of;
use crate::hashing::source::{Hashing, Source};
use crate::output::Failure;

/// Blocks that a thread hashes at a time.
const BLOCKS_PER_GROUP: usize = 64;

type Digest = [u8; V2_DIGEST_SIZE];

/// Returns the root of a file of at least one byte.
pub(crate) fn root_of_file(source: &Source, threads: usize) -> Result<Digest, Failure> {
    let leaves = leaves(source, threads)?;
    let height = (leaves.len() / V2_DIGEST_SIZE).next_power_of_two().ilog2();
    root(leaves, [0; V2_DIGEST_SIZE], height)
}

/// Returns the roots of the pieces of a file with several pieces.
pub(crate) fn roots_of_pieces(source: &Source, piece_size: u64, threads: usize) -> Result<Vec<u8>, Failure> {
    let height = (piece_size / BLOCK_SIZE).ilog2();
    let level = hash_levels(leaves(source, threads)?, [0; V2_DIGEST_SIZE], height)?;
    Ok(level.0)
}

/// Returns the root over the roots of pieces.
pub(crate) fn root_of_pieces(layer: &[u8], piece_size: u64) -> Result<Digest, Failure> {
    let (_, padding) = hash_levels(Vec::new(), [0; V2_DIGEST_SIZE], (piece_size / BLOCK_SIZE).ilog2())?;
    root(layer.to_vec(), padding, (layer.len() / V2_DIGEST_SIZE).next_power_of_two().ilog2())
}

/// Returns the digests of all blocks. The last block is not padded.
fn leaves(source: &Source, threads: usize) -> Result<Vec<u8>, Failure> {
    let blocks =
        usize::try_from(source.length.div_ceil(BLOCK_SIZE)).ok().and_then(|blocks| blocks.checked_mul(V2_DIGEST_SIZE));
    let room =
        blocks.ok_or_else(|| Failure::Failed(format!("{}: too long for its tree to fit into memory", source.name)))?;
    let all = Mutex::new(vec![0; room]);
    let whole = source.length / BLOCK_SIZE * BLOCK_SIZE;
    let hashing = Hashing {
        function: HashFunction::Lanes(Algorithm::Sha256),
        salt: Salt::NONE,
        block_size: BLOCK_SIZE as usize,
        blocks_per_group: BLOCKS_PER_GROUP,
        threads,
    };
    hashing.for_each_group(source, 0..whole, &|group, digests| {
        let begin = group as usize * BLOCKS_PER_GROUP * V2_DIGEST_SIZE;
        all.lock().unwrap_or_else(PoisonError::into_inner)[begin..begin + digests.len()].copy_from_slice(digests);
        Ok(())
    })?;
    let mut all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    if whole < source.length {
        let mut last = vec![0; (source.length - whole) as usize];
        source.read_at(&mut last, whole)?;
        let begin = all.len() - V2_DIGEST_SIZE;
        all[begin..].copy_from_slice(&digest_of(Algorithm::Sha256, &[&last]));
    }
    Ok(all)
}

fn root(level: Vec<u8>, padding: Digest, height: u32) -> Result<Digest, Failure> {
    let (level, _) = hash_levels(level, padding, height)?;
    level.try_into().map_err(|_| Failure::Failed("a tree without a root".to_owned()))
}

/// Returns the digests `height` levels above, and the padding digest of that level.
fn hash_levels(mut level: Vec<u8>, mut padding: Digest, height: u32) -> Result<(Vec<u8>, Digest), Failure> {
    for _ in 0..height {
        if !level.len().is_multiple_of(2 * V2_DIGEST_SIZE) {
            level.extend(padding);
        }
        let mut above = vec![0; level.len() / 2];
        tree_level(Algorithm::Sha256, Salt::NONE, 2 * V2_DIGEST_SIZE, &level, &mut above)
            .map_err(|error| Failure::Failed(error.to_string()))?;
        level = above;
        let above = digest_of(Algorithm::Sha256, &[&padding, &padding]);
        padding.copy_from_slice(&above);
    }
    Ok((level, padding))
}
