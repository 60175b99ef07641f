//! `gantry verity verify`: verifies from the root hash down, each level against the level above, and then the data.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use gantry_runtime::bounded;

use super::superblock::{SUPERBLOCK_SIZE, Superblock};
use super::tree::Layout;
use super::{same_file, whole_blocks};
use crate::args::VerityVerify;
use crate::hashing::source::{Hashing, Source};
use crate::hex::from_hex;
use crate::output::{Failure, print_message};

pub(crate) fn run(args: &VerityVerify, threads: usize) -> Result<(), Failure> {
    let (data, hashes) = (Source::open(&args.data)?, Source::open(&args.hash_file)?);
    let superblock = superblock(args, &data, &hashes)?;
    let root = root(args)?;
    if root.len() != superblock.function.digest_size() {
        let (found, needed) = (root.len(), superblock.function.digest_size());
        return Err(Failure::Usage(format!("the root hash has {found} bytes; {} has {needed}", superblock.function)));
    }
    let layout = Layout::new(&superblock, args.tree.hash_offset, !args.tree.no_superblock);
    // The lowest level is at the end of the tree.
    let layout = layout.filter(|layout| layout.levels.first().is_none_or(|level| level.end <= hashes.length));
    let layout = layout.ok_or_else(|| {
        let blocks = superblock.data_blocks;
        Failure::Failed(format!("{}: too short for a tree over {blocks} blocks of data", hashes.name))
    })?;
    let bytes = superblock.data_blocks.checked_mul(superblock.data_block_size as u64);
    let bytes = bytes.filter(|bytes| *bytes > 0 && *bytes <= data.length).ok_or_else(|| {
        let (blocks, block_size) = (superblock.data_blocks, superblock.data_block_size);
        Failure::Failed(format!("{}: it has {} bytes, not {blocks} blocks of {block_size}", data.name, data.length))
    })?;
    let verifier = Verifier { superblock: &superblock, layout: &layout, hashes: &hashes, threads };
    // The highest level is one block. A tree without levels covers one data block.
    match layout.levels.last() {
        Some(level) => verifier.verify_top(&hashes, level, superblock.hash_block_size, &root)?,
        None => verifier.verify_top(&data, &(0..bytes), superblock.data_block_size, &root)?,
    }
    for [below, above] in layout.levels.array_windows().rev() {
        verifier.verify_level(&hashes, below, superblock.hash_block_size, above)?;
    }
    if let Some(lowest) = layout.levels.first() {
        verifier.verify_level(&data, &(0..bytes), superblock.data_block_size, lowest)?;
    }
    let is_same = same_file(&data.file, &hashes.file).map_err(|error| Failure::at(&data.name, &error))?;
    if bytes < data.length && !is_same {
        let (name, last) = (&data.name, data.length - 1);
        print_message(&format!("{name}: note: the tree does not cover bytes {bytes} to {last}"));
    }
    Ok(())
}

/// Returns the superblock of the file, or makes a superblock from the options.
fn superblock(args: &VerityVerify, data: &Source, hashes: &Source) -> Result<Superblock, Failure> {
    let tree = &args.tree;
    if tree.no_superblock {
        return Ok(Superblock {
            format: tree.format,
            uuid: [0; 16],
            function: tree.hash,
            data_block_size: tree.data_block_size,
            hash_block_size: tree.hash_block_size,
            data_blocks: tree.data_blocks.map_or_else(|| whole_blocks(data, tree.data_block_size), Ok)?,
            salt: args.salt.as_ref().map_or_else(Vec::new, |salt| salt.0.clone()),
        });
    }
    let mut bytes = [0; SUPERBLOCK_SIZE];
    let is_there = tree.hash_offset.checked_add(SUPERBLOCK_SIZE as u64).is_some_and(|end| end <= hashes.length);
    if is_there {
        hashes.read_at(&mut bytes, tree.hash_offset)?;
    }
    Superblock::read(&bytes).map_err(|wrong| Failure::Failed(format!("{}: {wrong}", hashes.name)))
}

/// Returns the root hash of the command line, or of a file.
fn root(args: &VerityVerify) -> Result<Vec<u8>, Failure> {
    let Some(path) = &args.root_hash_file else {
        return Ok(args.root.as_ref().map_or_else(Vec::new, |root| root.0.clone()));
    };
    let text = bounded::read(path).map_err(|error| Failure::at(path.display(), &error))?;
    from_hex(text.trim_ascii())
        .ok_or_else(|| Failure::Failed(format!("{}: not a root hash in hexadecimal digits", path.display())))
}

struct Verifier<'a> {
    superblock: &'a Superblock,
    layout: &'a Layout,
    hashes: &'a Source,
    threads: usize,
}

impl Verifier<'_> {
    /// Verifies the block that the root hash covers.
    fn verify_top(&self, source: &Source, range: &Range<u64>, block_size: usize, root: &[u8]) -> Result<(), Failure> {
        let mut top = vec![0; block_size];
        source.read_at(&mut top, range.start)?;
        let mut digest = vec![0; root.len()];
        self.superblock.function.digest_blocks(self.superblock.salt(), block_size, &top, &mut digest)?;
        if digest == root {
            return Ok(());
        }
        Err(Failure::Failed(format!("{}: does not match the root hash", source.name)))
    }

    /// Verifies the blocks of a range against the digests of a verified level. The error names the first block that differs.
    fn verify_level(
        &self,
        source: &Source,
        range: &Range<u64>,
        block_size: usize,
        above: &Range<u64>,
    ) -> Result<(), Failure> {
        let superblock = self.superblock;
        let size = superblock.function.digest_size();
        let first = AtomicU64::new(u64::MAX);
        let hashing = Hashing {
            function: superblock.function,
            salt: superblock.salt(),
            block_size,
            blocks_per_group: self.layout.digests_per_block,
            threads: self.threads,
        };
        hashing.for_each_group(source, range.clone(), &|group, digests| {
            let mut expected = vec![0; superblock.hash_block_size];
            self.hashes.read_at(&mut expected, above.start + group * superblock.hash_block_size as u64)?;
            let pairs = expected.chunks(self.layout.stride).zip(digests.chunks_exact(size));
            if let Some(index) = pairs.into_iter().position(|(expected, digest)| &expected[..size] != digest) {
                first.fetch_min(group * self.layout.digests_per_block as u64 + index as u64, Ordering::Relaxed);
            }
            Ok(())
        })?;
        match first.into_inner() {
            u64::MAX => Ok(()),
            number => {
                let begin = range.start + number * block_size as u64;
                let end = begin + block_size as u64 - 1;
                let text = format!("block {number}, bytes {begin} to {end}, does not match its digest");
                Err(Failure::Failed(format!("{}: {text}", source.name)))
            }
        }
    }
}
