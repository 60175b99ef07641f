//! The digest of fs-verity: that of a descriptor over the root of a Merkle tree (Documentation/filesystems/fsverity.rst of Linux).

use std::sync::Mutex;

use gantry_digest::{Algorithm, Salt, tree_level};

use super::digest_of;
use super::source::{Hashing, Source};
use crate::args::VerityDigest;
use crate::hex::hex;
use crate::output::{Failure, Output, say};

/// Blocks that a thread takes at a time.
const GROUP: usize = 256;

/// Every file, also behind one that cannot be read.
pub(crate) fn run(args: &VerityDigest, threads: usize, output: &mut Output) -> Result<(), Failure> {
    let mut result = Ok(());
    for path in &args.files {
        match Source::open(path).and_then(|source| digest(args, threads, &source)) {
            Ok(digest) if args.compact => output.write(&format!("{}\n", hex(&digest)))?,
            Ok(digest) => output.write(&format!("{}:{} {}\n", args.hash_alg, hex(&digest), path.display()))?,
            Err(failure) => {
                say(&failure.to_string());
                result = Err(Failure::Said);
            }
        }
    }
    result
}

fn digest(args: &VerityDigest, threads: usize, source: &Source) -> Result<Vec<u8>, Failure> {
    let (algorithm, block) = (args.hash_alg, args.block_size);
    let size = algorithm.digest_size();
    // Filled up, so that what is behind it can be hashed from there.
    let mut padded = args.salt.0.clone();
    padded.resize(padded.len().next_multiple_of(algorithm.block_size()), 0);
    let salt = Salt::Before(&padded);
    let blocks = source.length.div_ceil(block as u64);
    let room = usize::try_from(blocks).ok().and_then(|blocks| blocks.checked_mul(size));
    let room = room.ok_or_else(|| Failure::Failed(format!("{}: too long", source.name)))?;
    let level = Mutex::new(vec![0; room]);
    let hashing = Hashing { algorithm, salt, block, group: GROUP, threads };
    hashing.each_group(source, 0..source.length, &|group, digests| {
        let mut level = level.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // No larger than the level, whose length is a `usize`.
        let begin = group as usize * GROUP * size;
        level[begin..begin + digests.len()].copy_from_slice(digests);
        Ok(())
    })?;
    let mut level = level.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    while level.len() > size {
        let mut above = vec![0; level.len().div_ceil(block) * size];
        tree_level(algorithm, salt, block, &level, &mut above).map_err(|error| Failure::Failed(error.to_string()))?;
        level = above;
    }
    // A file without bytes has no blocks, and zeros for a root.
    level.resize(size, 0);
    Ok(digest_of(algorithm, &[&descriptor(args, source.length, &level)]))
}

/// `struct fsverity_descriptor` of include/uapi/linux/fsverity.h.
fn descriptor(args: &VerityDigest, length: u64, root: &[u8]) -> [u8; 256] {
    let mut descriptor = [0; 256];
    descriptor[0] = 1; // version
    descriptor[1] = if args.hash_alg == Algorithm::Sha256 { 1 } else { 2 };
    descriptor[2] = args.block_size.trailing_zeros() as u8;
    descriptor[3] = args.salt.0.len() as u8; // at most 32
    descriptor[8..16].copy_from_slice(&length.to_le_bytes());
    descriptor[16..16 + root.len()].copy_from_slice(root);
    descriptor[80..80 + args.salt.0.len()].copy_from_slice(&args.salt.0);
    descriptor
}
