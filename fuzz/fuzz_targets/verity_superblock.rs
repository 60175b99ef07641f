//! Superblocks of dm-verity are untrusted: any bytes are refused, or are consistent and written as they were read.

#![no_main]

#[allow(dead_code, reason = "the program uses all of it")]
#[path = "../../cli/src/dm_verity.rs"]
mod dm_verity;
#[allow(dead_code, reason = "the program uses all of it")]
#[path = "../../cli/src/verity/superblock.rs"]
mod superblock;
#[allow(dead_code, reason = "the program uses all of it")]
#[path = "../../cli/src/verity/tree.rs"]
mod tree;

use gantry_lab::memory::{CountingAllocator, run_within};
use libfuzzer_sys::fuzz_target;
use superblock::{SUPERBLOCK_SIZE, Superblock};
use tree::Layout;

#[global_allocator]
static MEMORY: CountingAllocator = CountingAllocator;

fuzz_target!(|data: (&[u8], u32, bool)| {
    let (bytes, begin, has_superblock) = data;
    // Padded with zeros, with a mostly valid beginning.
    let mut block = [0; SUPERBLOCK_SIZE];
    block[..8].copy_from_slice(b"verity\0\0");
    block[8] = 1;
    block[32..38].copy_from_slice(b"sha256");
    block[65] = 16;
    block[69] = 16;
    for (place, byte) in block.iter_mut().zip(bytes) {
        *place ^= byte;
    }
    let Ok(read) = run_within(1 << 10, || Superblock::read(&block)) else { return };
    assert_eq!(Superblock::read(&read.write()).as_ref(), Ok(&read));
    let layout = run_within(4 << 10, || Layout::new(&read, u64::from(begin), has_superblock));
    let Some(layout) = layout else { return };
    assert!(layout.digests_per_block * layout.stride <= read.hash_block_size);
    // The highest level has one block and comes first. Each level has room for the digests of the one below.
    let mut blocks = read.data_blocks;
    for level in &layout.levels {
        let of_level = (level.end - level.start) / read.hash_block_size as u64;
        assert!(of_level < blocks && of_level * layout.digests_per_block as u64 >= blocks);
        blocks = of_level;
    }
    assert!(blocks <= 1);
    assert!(layout.levels.windows(2).all(|pair| pair[0].start == pair[1].end));
    let mut filled = vec![0xa5; read.hash_block_size];
    let size = read.function.digest_size();
    layout.fill(&mut filled, size, &vec![7; layout.digests_per_block * size]);
});
