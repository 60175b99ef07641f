//! The trees of BitTorrent v2 (BEP 52): SHA-256 of blocks of 16 KiB, and of pairs of digests. The leaves are padded with zero digests to a
//! power of two.

use std::sync::{Mutex, PoisonError};

use gantry_digest::{Algorithm, Salt, tree_level};

use super::metainfo::{BLOCK, DIGEST};
use crate::dm_verity::Function;
use crate::hashing::digest_of;
use crate::hashing::source::{Hashing, Source};
use crate::output::Failure;

/// Blocks that a thread hashes at a time.
const GROUP: usize = 64;

type Digest = [u8; DIGEST];

/// Returns the root of a file of at least one byte.
pub(crate) fn root_of_file(source: &Source, threads: usize) -> Result<Digest, Failure> {
    let leaves = leaves(source, threads)?;
    let height = (leaves.len() / DIGEST).next_power_of_two().ilog2();
    root(leaves, [0; DIGEST], height)
}

/// Returns the roots of the pieces of a file with several pieces.
pub(crate) fn roots_of_pieces(source: &Source, piece: u64, threads: usize) -> Result<Vec<u8>, Failure> {
    let height = (piece / BLOCK).ilog2();
    let level = up(leaves(source, threads)?, [0; DIGEST], height)?;
    Ok(level.0)
}

/// Returns the root over the roots of pieces.
pub(crate) fn root_of_pieces(layer: &[u8], piece: u64) -> Result<Digest, Failure> {
    let (_, filling) = up(Vec::new(), [0; DIGEST], (piece / BLOCK).ilog2())?;
    root(layer.to_vec(), filling, (layer.len() / DIGEST).next_power_of_two().ilog2())
}

/// Returns the digests of all blocks. The last block is not padded.
fn leaves(source: &Source, threads: usize) -> Result<Vec<u8>, Failure> {
    let blocks = usize::try_from(source.length.div_ceil(BLOCK)).ok().and_then(|blocks| blocks.checked_mul(DIGEST));
    let room =
        blocks.ok_or_else(|| Failure::Failed(format!("{}: too long for its tree to fit into memory", source.name)))?;
    let all = Mutex::new(vec![0; room]);
    let whole = source.length / BLOCK * BLOCK;
    let hashing = Hashing {
        function: Function::Lanes(Algorithm::Sha256),
        salt: Salt::NONE,
        block: BLOCK as usize,
        group: GROUP,
        threads,
    };
    hashing.each_group(source, 0..whole, &|group, digests| {
        let begin = group as usize * GROUP * DIGEST;
        all.lock().unwrap_or_else(PoisonError::into_inner)[begin..begin + digests.len()].copy_from_slice(digests);
        Ok(())
    })?;
    let mut all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    if whole < source.length {
        let mut last = vec![0; (source.length - whole) as usize];
        source.read_at(&mut last, whole)?;
        let begin = all.len() - DIGEST;
        all[begin..].copy_from_slice(&digest_of(Algorithm::Sha256, &[&last]));
    }
    Ok(all)
}

fn root(level: Vec<u8>, filling: Digest, height: u32) -> Result<Digest, Failure> {
    let (level, _) = up(level, filling, height)?;
    level.try_into().map_err(|_| Failure::Failed("a tree without a root".to_owned()))
}

/// Returns the digests `height` levels above, and the padding digest of that level.
fn up(mut level: Vec<u8>, mut filling: Digest, height: u32) -> Result<(Vec<u8>, Digest), Failure> {
    for _ in 0..height {
        if !level.len().is_multiple_of(2 * DIGEST) {
            level.extend(filling);
        }
        let mut above = vec![0; level.len() / 2];
        tree_level(Algorithm::Sha256, Salt::NONE, 2 * DIGEST, &level, &mut above)
            .map_err(|error| Failure::Failed(error.to_string()))?;
        level = above;
        let above = digest_of(Algorithm::Sha256, &[&filling, &filling]);
        filling.copy_from_slice(&above);
    }
    Ok((level, filling))
}
