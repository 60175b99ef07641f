//! Levels of trees: salts on both sides, and blocks that are short.

use super::*;
use crate::hasher::Hasher;
use crate::random::Random;
use crate::tests::{hash_one, on_every_level};

#[test]
fn tree_level_hashes_blocks_with_their_salt_and_pads_the_last() {
    let random = Random::new(0x626c_6f63);
    on_every_level(|level| {
        for algorithm in Algorithm::ALL {
            let size = algorithm.digest_size();
            for (block, length) in [(4096, 70 * 4096), (512, 512 * 9 + 1), (100, 6450), (1024, 1023), (64, 0)] {
                let data = random.bytes(length);
                // No salt, less than a block of the function, one block, and more.
                for salt in [0, 32, algorithm.block_size(), 256].map(|bytes| random.bytes(bytes)) {
                    for after in [false, true] {
                        let mut output = vec![0xa5; length.div_ceil(block) * size];
                        let placed = if after { Salt::After(&salt) } else { Salt::Before(&salt) };
                        tree_level(algorithm, placed, block, &data, &mut output).unwrap();
                        for (block_of_data, digest) in data.chunks(block).zip(output.chunks_exact(size)) {
                            let mut full = block_of_data.to_vec();
                            full.resize(block, 0);
                            let parts = if after { [&full[..], &salt] } else { [&salt, &full[..]] };
                            let expected = hash_one(Hasher::new(algorithm), &parts.concat(), usize::MAX);
                            assert_eq!(digest, expected, "{level} {algorithm}, blocks of {block}, {placed:?}");
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn tree_level_rejects_empty_blocks_and_outputs_of_wrong_length() {
    let mut output = [0xa5; 64];
    assert_eq!(tree_level(Algorithm::Sha256, Salt::NONE, 0, &[1], &mut output), Err(Error::ZeroBlockSize));
    let short = tree_level(Algorithm::Sha256, Salt::NONE, 8, &[1; 17], &mut output);
    assert_eq!(short, Err(Error::OutputLength { needed: 96, found: 64 }));
    assert_eq!(output, [0xa5; 64]);
}
