//! `gantry verity`: digests of fs-verity, and hash trees of dm-verity.
//!
//! | file | content |
//! |---|---|
//! | `source.rs`, `pieces.rs`, `threads.rs` | hash the blocks and the pieces of one file on all processors |
//! | `digest.rs` | the digest of fs-verity |
//! | `superblock.rs` | the superblock of dm-verity |
//! | `tree.rs` | where the levels of a tree lie |
//! | `format.rs`, `verify.rs` | make a tree, and verify data with one |

mod digest;
mod format;
pub(crate) mod pieces;
pub(crate) mod source;
mod superblock;
mod threads;
mod tree;
mod verify;

use gantry_digest::Algorithm;

use crate::args::{Settings, Verity, VerityCommand};
use crate::output::{Failure, Output};

pub(crate) use superblock::{HASHES, hash_of_name, is_block};

pub(crate) fn run(args: &Verity, settings: &Settings, output: &mut Output) -> Result<(), Failure> {
    let threads = threads(settings)?;
    match &args.command {
        VerityCommand::Digest(args) => digest::run(args, threads, output),
        VerityCommand::Format(args) => format::run(args, threads, output),
        VerityCommand::Verify(args) => verify::run(args, threads),
    }
}

/// How many threads hash, and with which instructions at most, by the configuration.
pub(crate) fn threads(settings: &Settings) -> Result<usize, Failure> {
    let config = settings.config()?;
    if let Ok(level) = config.cpu().parse() {
        gantry_digest::limit(level);
    }
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    Ok(config.threads().unwrap_or_else(processors).max(1))
}

/// The digest of one message.
pub(crate) fn digest_of(algorithm: Algorithm, parts: &[&[u8]]) -> Vec<u8> {
    let mut hasher = gantry_digest::Hasher::new(algorithm);
    for part in parts {
        hasher.update(part);
    }
    let mut digest = vec![0; algorithm.digest_size()];
    let finished = hasher.finish(&mut digest);
    debug_assert!(finished.is_ok(), "the output has a digest's bytes");
    digest
}
