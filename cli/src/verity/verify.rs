//! `gantry verity verify`: from the root hash down, each level by the one above, and then the data.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use gantry_digest::tree_level;
use gantry_runtime::bounded;

use super::source::{Hashing, Source};
use super::superblock::{SUPERBLOCK, Superblock};
use super::tree::Layout;
use crate::args::VerityVerify;
use crate::hex::from_hex;
use crate::output::Failure;

pub(crate) fn run(args: &VerityVerify, threads: usize) -> Result<(), Failure> {
    let (data, hashes) = (Source::open(&args.data)?, Source::open(&args.hash_file)?);
    let superblock = superblock(args, &data, &hashes)?;
    let root = root(args)?;
    if root.len() != superblock.algorithm.digest_size() {
        let (found, needed) = (root.len(), superblock.algorithm.digest_size());
        return Err(Failure::Usage(format!("the root hash has {found} bytes; {} has {needed}", superblock.algorithm)));
    }
    let layout = Layout::new(&superblock, args.tree.hash_offset, !args.tree.no_superblock);
    // The lowest level is the last.
    let layout = layout.filter(|layout| layout.levels.first().is_none_or(|level| level.end <= hashes.length));
    let layout = layout.ok_or_else(|| {
        let blocks = superblock.data_blocks;
        Failure::Failed(format!("{}: too short for a tree over {blocks} blocks of data", hashes.name))
    })?;
    let bytes = superblock.data_blocks.checked_mul(superblock.data_block as u64);
    let bytes = bytes.filter(|bytes| *bytes > 0 && *bytes <= data.length).ok_or_else(|| {
        let (blocks, block) = (superblock.data_blocks, superblock.data_block);
        Failure::Failed(format!("{}: it has {} bytes, and not {blocks} blocks of {block}", data.name, data.length))
    })?;
    let all = Verifying { superblock: &superblock, layout: &layout, hashes: &hashes, threads };
    // The highest level is one block, and without levels there is one of data.
    match layout.levels.last() {
        Some(level) => all.top(&hashes, level, superblock.hash_block, &root)?,
        None => all.top(&data, &(0..bytes), superblock.data_block, &root)?,
    }
    for [below, above] in layout.levels.array_windows().rev() {
        all.level(&hashes, below, superblock.hash_block, above)?;
    }
    match layout.levels.first() {
        Some(lowest) => all.level(&data, &(0..bytes), superblock.data_block, lowest),
        None => Ok(()),
    }
}

/// That of the file, or what the options say.
fn superblock(args: &VerityVerify, data: &Source, hashes: &Source) -> Result<Superblock, Failure> {
    let tree = &args.tree;
    if tree.no_superblock {
        return Ok(Superblock {
            format: tree.format,
            uuid: [0; 16],
            algorithm: tree.hash,
            data_block: tree.data_block_size,
            hash_block: tree.hash_block_size,
            data_blocks: tree.data_blocks.unwrap_or(data.length / tree.data_block_size as u64),
            salt: args.salt.as_ref().map_or_else(Vec::new, |salt| salt.0.clone()),
        });
    }
    let mut bytes = [0; SUPERBLOCK];
    let is_there = tree.hash_offset.checked_add(SUPERBLOCK as u64).is_some_and(|end| end <= hashes.length);
    if is_there {
        hashes.read_at(&mut bytes, tree.hash_offset)?;
    }
    Superblock::read(&bytes).map_err(|wrong| Failure::Failed(format!("{}: {wrong}", hashes.name)))
}

/// That of the command line, or of a file.
fn root(args: &VerityVerify) -> Result<Vec<u8>, Failure> {
    let Some(path) = &args.root_hash_file else {
        return Ok(args.root.as_ref().map_or_else(Vec::new, |root| root.0.clone()));
    };
    let text = bounded::read(path).map_err(|error| Failure::at(path.display(), &error))?;
    from_hex(text.trim_ascii())
        .ok_or_else(|| Failure::Failed(format!("{}: not a root hash in hexadecimal digits", path.display())))
}

struct Verifying<'a> {
    superblock: &'a Superblock,
    layout: &'a Layout,
    hashes: &'a Source,
    threads: usize,
}

impl Verifying<'_> {
    /// The one block that the root hash is about.
    fn top(&self, source: &Source, range: &Range<u64>, block: usize, root: &[u8]) -> Result<(), Failure> {
        let mut top = vec![0; block];
        source.read_at(&mut top, range.start)?;
        let mut digest = vec![0; root.len()];
        tree_level(self.superblock.algorithm, self.superblock.salt(), block, &top, &mut digest)
            .map_err(|error| Failure::Failed(error.to_string()))?;
        if digest == root {
            return Ok(());
        }
        Err(Failure::Failed(format!("{}: not the tree of this root hash", source.name)))
    }

    /// The blocks of a range, by the digests in a level that is verified. The first that is another is the error.
    fn level(&self, source: &Source, range: &Range<u64>, block: usize, above: &Range<u64>) -> Result<(), Failure> {
        let superblock = self.superblock;
        let size = superblock.algorithm.digest_size();
        let first = AtomicU64::new(u64::MAX);
        let hashing = Hashing {
            algorithm: superblock.algorithm,
            salt: superblock.salt(),
            block,
            group: self.layout.per_block,
            threads: self.threads,
        };
        hashing.each_group(source, range.clone(), &|group, digests| {
            let mut expected = vec![0; superblock.hash_block];
            self.hashes.read_at(&mut expected, above.start + group * superblock.hash_block as u64)?;
            let pairs = expected.chunks(self.layout.stride).zip(digests.chunks_exact(size));
            if let Some(place) = pairs.into_iter().position(|(expected, digest)| &expected[..size] != digest) {
                first.fetch_min(group * self.layout.per_block as u64 + place as u64, Ordering::Relaxed);
            }
            Ok(())
        })?;
        match first.into_inner() {
            u64::MAX => Ok(()),
            number => {
                let begin = range.start + number * block as u64;
                let end = begin + block as u64 - 1;
                let text = format!("block {number}, bytes {begin} to {end}, is not the one that was hashed");
                Err(Failure::Failed(format!("{}: {text}", source.name)))
            }
        }
    }
}
