//! `gantry verity format`: writes the hash tree of data, from the lowest level up.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt as _;

use super::superblock::Superblock;
use super::tree::Layout;
use super::{same_file, whole_blocks};
use crate::args::VerityFormat;
use crate::hashing::source::{Hashing, Source};
use crate::hex::hex;
use crate::output::{Failure, Output};

/// Bytes of a random salt.
const SALT_SIZE: usize = 32;

pub(crate) fn run(args: &VerityFormat, threads: usize, output: &mut Output) -> Result<(), Failure> {
    let tree = &args.tree;
    let data = Source::open(&args.data)?;
    let superblock = Superblock {
        format: tree.format,
        uuid: args.uuid.map_or_else(random_uuid, |uuid| Ok(uuid.0))?,
        function: tree.hash,
        data_block_size: tree.data_block_size,
        hash_block_size: tree.hash_block_size,
        data_blocks: tree.data_blocks.map_or_else(|| whole_blocks(&data, tree.data_block_size), Ok)?,
        salt: args.salt.as_ref().map_or_else(|| random::<SALT_SIZE>().map(Vec::from), |salt| Ok(salt.0.clone()))?,
    };
    let bytes = superblock.data_blocks.checked_mul(superblock.data_block_size as u64);
    let bytes = bytes.filter(|bytes| (1..=data.length).contains(bytes)).ok_or_else(|| {
        let (blocks, block) = (superblock.data_blocks.max(1), superblock.data_block_size);
        Failure::Failed(format!("{}: it has {} bytes, fewer than {blocks} blocks of {block}", data.name, data.length))
    })?;
    let begin = tree.hash_offset;
    let unit = if tree.no_superblock { superblock.hash_block_size as u64 } else { 512 };
    if !begin.is_multiple_of(unit) {
        return Err(Failure::Usage(format!("--hash-offset {begin}: not a multiple of {unit}")));
    }
    let layout = Layout::new(&superblock, begin, !tree.no_superblock)
        .ok_or_else(|| Failure::Usage("the tree would be longer than a file can be".to_owned()))?;
    let name = args.hash_file.display().to_string();
    let failed = |error: io::Error| Failure::at(&name, &error);
    // Keep bytes outside this tree, such as data in the same file.
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&args.hash_file);
    let file = file.map_err(failed)?;
    if same_file(&file, &data.file).map_err(failed)? && begin < bytes {
        return Err(Failure::Usage(format!("{name}: the tree would overwrite the data; use --hash-offset {bytes}")));
    }
    let data_of_file = file.metadata().map_err(failed)?;
    if data_of_file.is_file() && data_of_file.len() < layout.end {
        file.set_len(layout.end).map_err(failed)?;
    }
    // Only written blocks are read again, so the length of the file does not matter.
    let hashes = Source { file, name: name.clone(), length: u64::MAX };
    let root = write_tree(&superblock, &layout, &data, &hashes, threads)?;
    if !tree.no_superblock {
        // The superblock is written last, so that a tree with a superblock is complete.
        hashes.file.sync_data().and_then(|()| hashes.file.write_all_at(&superblock.write(), begin)).map_err(failed)?;
    }
    hashes.file.sync_all().map_err(failed)?;
    if let Some(path) = &args.root_hash_file {
        std::fs::write(path, hex(&root)).map_err(|error| Failure::at(path.display(), &error))?;
    }
    output.write(&report(&superblock, args, &layout, &root))
}

/// Writes the levels, and returns the root hash.
fn write_tree(
    superblock: &Superblock,
    layout: &Layout,
    data: &Source,
    hashes: &Source,
    threads: usize,
) -> Result<Vec<u8>, Failure> {
    let (function, salt) = (superblock.function, superblock.salt());
    let mut hashing = Hashing {
        function,
        salt,
        block_size: superblock.data_block_size,
        blocks_per_group: layout.digests_per_block,
        threads,
    };
    let mut below = (data, 0..superblock.data_blocks * superblock.data_block_size as u64);
    for level in &layout.levels {
        hashing.for_each_group(below.0, below.1, &|group, digests| {
            let mut block = vec![0; superblock.hash_block_size];
            layout.fill(&mut block, function.digest_size(), digests);
            let at = level.start + group * superblock.hash_block_size as u64;
            hashes.file.write_all_at(&block, at).map_err(|error| Failure::at(&hashes.name, &error))
        })?;
        hashing.block_size = superblock.hash_block_size;
        below = (hashes, level.clone());
    }
    let (source, range) = below;
    let mut top = vec![0; hashing.block_size];
    source.read_at(&mut top, range.start)?;
    let mut root = vec![0; function.digest_size()];
    function.digest_blocks(salt, top.len(), &top, &mut root)?;
    Ok(root)
}

/// Formats the lines that veritysetup prints.
fn report(superblock: &Superblock, args: &VerityFormat, layout: &Layout, root: &[u8]) -> String {
    let uuid = hex(&superblock.uuid);
    let uuid = [&uuid[..8], &uuid[8..12], &uuid[12..16], &uuid[16..20], &uuid[20..]].join("-");
    let salt = if superblock.salt.is_empty() { "-".to_owned() } else { hex(&superblock.salt) };
    let rows = [
        ("UUID:            ", if args.tree.no_superblock { String::new() } else { uuid }),
        ("Hash type:       ", superblock.format.to_string()),
        ("Data blocks:     ", superblock.data_blocks.to_string()),
        ("Data block size: ", superblock.data_block_size.to_string()),
        ("Hash blocks:     ", layout.block_count(superblock).to_string()),
        ("Hash block size: ", superblock.hash_block_size.to_string()),
        ("Hash algorithm:  ", superblock.function.to_string()),
        ("Salt:            ", salt),
        ("Root hash:      ", hex(root)),
    ];
    let title = format!("VERITY header information for {}\n", args.hash_file.display());
    // If the file has other content, its size is not the size of the tree.
    let size = (args.tree.hash_offset == 0).then(|| ("Hash device size: ", format!("{} [bytes]", layout.end)));
    rows.iter().chain(&size).fold(title, |text, (name, value)| text + &format!("{name}\t{value}\n"))
}

fn random<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map(|()| bytes)
        .map_err(|error| Failure::Failed(format!("the system's random number generator failed: {error}")))
}

/// Returns a random UUID: version 4 (RFC 9562, 5.4).
fn random_uuid() -> Result<[u8; 16], Failure> {
    let mut uuid = random::<16>()?;
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    Ok(uuid)
}
