//! A level of a Merkle tree: the digests of the blocks of one buffer.

use crate::algorithm::Algorithm;
use crate::error::Error;
use crate::hash_function::{GenericWork, HashFunction, check_output, plain_setup};
use crate::internal::job::Job;
use crate::level::Level;
use crate::messages::Blocks;

/// The salt digested with each block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Salt<'a> {
    /// Before the block: dm-verity's hash type 1; and fs-verity, which pads its salt with zeros to a block of the hash function.
    Before(&'a [u8]),
    /// After the block: dm-verity's hash type 0.
    After(&'a [u8]),
}

impl Salt<'_> {
    /// No salt.
    pub const NONE: Salt<'static> = Salt::Before(&[]);
}

/// Writes the digests of the blocks of `data` with their salt, one after the other. A block has `block_size` bytes; the last one is
/// padded with zeros. Empty data has no blocks.
///
/// This is the lowest level of a tree. Its output, padded with zeros to a whole block, is the data of the next level.
///
/// ```
/// use gantry_digest::{Algorithm, Salt, tree_level};
///
/// let mut digests = [0; 3 * 32];
/// tree_level(Algorithm::Sha256, Salt::NONE, 4096, &[7; 2 * 4096 + 1], &mut digests)?;
/// assert_eq!(digests[..32], digests[32..64]);
/// assert_ne!(digests[..32], digests[64..]);
/// # Ok::<(), gantry_digest::Error>(())
/// ```
pub fn tree_level(
    algorithm: Algorithm,
    salt: Salt<'_>,
    block_size: usize,
    data: &[u8],
    output: &mut [u8],
) -> Result<(), Error> {
    if block_size == 0 {
        return Err(Error::ZeroBlockSize);
    }
    check_output(algorithm, data.len().div_ceil(block_size), output)?;
    plain_setup(algorithm).run(TreeLevel { algorithm, salt, block_size, data, output });
    Ok(())
}

/// Blocks hashed at a time; each has a stream on the stack.
const BLOCKS_PER_BATCH: usize = 64;

/// Zeros that pad a short block, up to 256 at a time.
const ZEROS: [u8; 256] = [0; 256];

struct TreeLevel<'a> {
    algorithm: Algorithm,
    salt: Salt<'a>,
    block_size: usize,
    data: &'a [u8],
    output: &'a mut [u8],
}

impl GenericWork for TreeLevel<'_> {
    type Output = ();

    fn run<F: HashFunction>(self, setup: &F::Setup) {
        let TreeLevel { algorithm, salt, block_size, data, output } = self;
        let size = algorithm.digest_size();
        let level = Level::in_use();
        let (before, after) = match salt {
            Salt::Before(salt) => (salt, &[][..]),
            Salt::After(salt) => (&[][..], salt),
        };
        let (data, last) = data.split_at(data.len() / block_size * block_size);
        let (output, output_of_last) = output.split_at_mut(data.len() / block_size * size);
        let mut salted = F::stream(setup);
        let append = |stream: &mut F::Stream, input: &[u8], output| {
            F::run_one(level, Job { setup, stream: Some(stream), input, output });
        };
        if !before.is_empty() {
            append(&mut salted, before, None);
        }
        if !last.is_empty() {
            let mut stream = salted.clone();
            append(&mut stream, last, None);
            let mut zeros = block_size - last.len();
            while zeros > 0 {
                let count = zeros.min(ZEROS.len());
                append(&mut stream, &ZEROS[..count], None);
                zeros -= count;
            }
            append(&mut stream, after, Some(output_of_last));
        }
        if after.is_empty() {
            let prefix = if before.is_empty() { None } else { Some(&salted) };
            return F::run_whole(level, setup, prefix, &Blocks { data, block_size }, output);
        }
        let mut streams = [const { None::<F::Stream> }; BLOCKS_PER_BATCH];
        for (blocks, outputs) in
            data.chunks(BLOCKS_PER_BATCH * block_size).zip(output.chunks_mut(BLOCKS_PER_BATCH * size))
        {
            let streams = &mut streams[..blocks.len() / block_size];
            streams.fill(Some(salted.clone()));
            let blocks = streams.iter_mut().map(Option::as_mut).zip(blocks.chunks_exact(block_size));
            F::run(level, false, &mut blocks.map(|(stream, input)| Job { setup, stream, input, output: None }));
            let ends = streams.iter_mut().map(Option::as_mut).zip(outputs.chunks_exact_mut(size).map(Some));
            F::run(level, false, &mut ends.map(|(stream, output)| Job { setup, stream, input: after, output }));
        }
    }
}

#[cfg(test)]
mod tests;
