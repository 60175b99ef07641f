//! The digest of fs-verity: the hash of a descriptor with the root of a Merkle tree (Documentation/filesystems/fsverity.rst of Linux).

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Mutex;

use gantry_digest::{Algorithm, Salt};

use crate::args::VerityDigest;
use crate::dm_verity::HashFunction;
use crate::hashing::digest_of;
use crate::hashing::source::{Hashing, Source};
use crate::hex::hex;
use crate::output::{Failure, Output, print_message};

/// Blocks that a thread hashes at a time.
const BLOCKS_PER_GROUP: usize = 256;

/// Prints the digest of every file, even after a file that cannot be read.
pub(crate) fn run(args: &VerityDigest, threads: usize, output: &mut Output) -> Result<(), Failure> {
    if args.out_merkle_tree.is_some() && args.files.len() > 1 {
        return Err(Failure::Usage("--out-merkle-tree takes the tree of one file".to_owned()));
    }
    let mut result = Ok(());
    for path in &args.files {
        match Source::open(path).and_then(|source| digest(args, threads, &source)) {
            Ok(digest) => output.write(&line(args, &digest, path))?,
            Err(failure) => {
                print_message(&failure.to_string());
                result = Err(Failure::Reported);
            }
        }
    }
    result
}

/// Formats a digest like fsverity.
fn line(args: &VerityDigest, digest: &[u8], path: &Path) -> String {
    let begin = match (args.for_builtin_sig, args.compact) {
        (true, _) => hex(&signed_bytes(args.hash_alg, digest)),
        (false, true) => hex(digest),
        (false, false) => format!("{}:{}", args.hash_alg, hex(digest)),
    };
    if args.compact { format!("{begin}\n") } else { format!("{begin} {}\n", path.display()) }
}

/// True if the path leads to the source.
fn is_at(source: &Source, path: &Path) -> bool {
    let (Ok(source), Ok(other)) = (source.file.metadata(), path.metadata()) else { return false };
    (source.dev(), source.ino()) == (other.dev(), other.ino())
}

/// Encodes `struct fsverity_formatted_digest` of include/uapi/linux/fsverity.h, which built-in signatures sign.
fn signed_bytes(algorithm: Algorithm, digest: &[u8]) -> Vec<u8> {
    let length = digest.len() as u16; // at most 64
    [b"FSVerity", &u16::from(algorithm_number(algorithm)).to_le_bytes()[..], &length.to_le_bytes(), digest].concat()
}

/// Returns the number of the hash function (`FS_VERITY_HASH_ALG_*`).
fn algorithm_number(algorithm: Algorithm) -> u8 {
    if algorithm == Algorithm::Sha256 { 1 } else { 2 }
}

fn digest(args: &VerityDigest, threads: usize, source: &Source) -> Result<Vec<u8>, Failure> {
    if args.out_merkle_tree.as_ref().is_some_and(|path| is_at(source, path)) {
        return Err(Failure::Usage(format!("{}: the tree would overwrite the file", source.name)));
    }
    let (algorithm, block_size) = (args.hash_alg, args.block_size);
    let size = algorithm.digest_size();
    // Pads the salt to the block size of the hash function, as the kernel does.
    let mut padded = args.salt.0.clone();
    padded.resize(padded.len().next_multiple_of(algorithm.block_size()), 0);
    let salt = Salt::Before(&padded);
    let blocks = source.length.div_ceil(block_size as u64);
    let room = usize::try_from(blocks).ok().and_then(|blocks| blocks.checked_mul(size));
    let room =
        room.ok_or_else(|| Failure::Failed(format!("{}: too long for its tree to fit into memory", source.name)))?;
    let level = Mutex::new(vec![0; room]);
    let function = HashFunction::Lanes(algorithm);
    let hashing = Hashing { function, salt, block_size, blocks_per_group: BLOCKS_PER_GROUP, threads };
    hashing.for_each_group(source, 0..source.length, &|group, digests| {
        let mut level = level.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // The offset fits into a `usize`, like the length of the level.
        let begin = group as usize * BLOCKS_PER_GROUP * size;
        level[begin..begin + digests.len()].copy_from_slice(digests);
        Ok(())
    })?;
    let mut level = level.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut levels = Vec::new();
    while level.len() > size {
        let mut above = vec![0; level.len().div_ceil(block_size) * size];
        function.digest_blocks(salt, block_size, &level, &mut above)?;
        if args.out_merkle_tree.is_some() {
            level.resize(level.len().next_multiple_of(block_size), 0);
            levels.push(level);
        }
        level = above;
    }
    if let Some(path) = &args.out_merkle_tree {
        levels.reverse();
        std::fs::write(path, levels.concat()).map_err(|error| Failure::at(path.display(), &error))?;
    }
    // An empty file has no blocks, and a root of zeros.
    level.resize(size, 0);
    Ok(digest_of(algorithm, &[&descriptor(args, source.length, &level)]))
}

/// Encodes `struct fsverity_descriptor` of include/uapi/linux/fsverity.h.
fn descriptor(args: &VerityDigest, length: u64, root: &[u8]) -> [u8; 256] {
    let mut descriptor = [0; 256];
    descriptor[0] = 1; // version
    descriptor[1] = algorithm_number(args.hash_alg);
    descriptor[2] = args.block_size.trailing_zeros() as u8;
    descriptor[3] = args.salt.0.len() as u8; // at most 32
    descriptor[8..16].copy_from_slice(&length.to_le_bytes());
    descriptor[16..16 + root.len()].copy_from_slice(root);
    descriptor[80..80 + args.salt.0.len()].copy_from_slice(&args.salt.0);
    descriptor
}
