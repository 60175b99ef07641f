//! `gantry verity`: fs-verity digests, and dm-verity hash trees.
//!
//! | file | content |
//! |---|---|
//! | `digest.rs` | the digest of fs-verity |
//! | `superblock.rs` | the superblock of dm-verity |
//! | `tree.rs` | locations of the levels of a tree |
//! | `format.rs`, `verify.rs` | create a tree, and verify data with one |

mod digest;
mod format;
mod superblock;
mod tree;
mod verify;

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;

use crate::args::{Settings, Verity, VerityCommand};
use crate::hashing::source::Source;
use crate::hashing::threads;
use crate::output::{Failure, Output};

pub(crate) fn run(args: &Verity, settings: &Settings, output: &mut Output) -> Result<(), Failure> {
    let threads = threads(settings)?;
    match &args.command {
        VerityCommand::Digest(args) => digest::run(args, threads, output),
        VerityCommand::Format(args) => format::run(args, threads, output),
        VerityCommand::Verify(args) => verify::run(args, threads),
    }
}

fn same_file(a: &File, b: &File) -> io::Result<bool> {
    let (a, b) = (a.metadata()?, b.metadata()?);
    Ok((a.dev(), a.ino()) == (b.dev(), b.ino()))
}

/// Returns the number of blocks of the data; 0 if the data is shorter than a block. Refuses a shorter last block, which no tree covers.
fn whole_blocks(data: &Source, block: usize) -> Result<u64, Failure> {
    let (blocks, rest) = (data.length / block as u64, data.length % block as u64);
    if rest == 0 || blocks == 0 {
        return Ok(blocks);
    }
    let (name, length) = (&data.name, data.length);
    Err(Failure::Failed(format!(
        "{name}: its {length} bytes are no multiple of {block}; --data-blocks {blocks} leaves out the last {rest}"
    )))
}
