//! A level of a Merkle tree: the digests of the blocks of one buffer.

use crate::algorithm::Algorithm;
use crate::error::Error;
use crate::family::{Family, Work, check_output, plain};
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

/// Writes the digests of the blocks of `data` with their salt, one after the other. A block has `block` bytes; the last one is
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
    block: usize,
    data: &[u8],
    output: &mut [u8],
) -> Result<(), Error> {
    if block == 0 {
        return Err(Error::BlockSize);
    }
    check_output(algorithm, data.len().div_ceil(block), output)?;
    plain(algorithm).with(TreeLevel { algorithm, salt, block, data, output });
    Ok(())
}

/// Blocks hashed at a time; each has a stream on the stack.
const BATCH: usize = 64;

/// Zeros that pad a short block, up to 256 at a time.
const ZEROS: [u8; 256] = [0; 256];

struct TreeLevel<'a> {
    algorithm: Algorithm,
    salt: Salt<'a>,
    block: usize,
    data: &'a [u8],
    output: &'a mut [u8],
}

impl Work for TreeLevel<'_> {
    type Output = ();

    fn with<F: Family>(self, start: &F::Start) {
        let TreeLevel { algorithm, salt, block, data, output } = self;
        let size = algorithm.digest_size();
        let level = Level::in_use();
        let (before, after) = match salt {
            Salt::Before(salt) => (salt, &[][..]),
            Salt::After(salt) => (&[][..], salt),
        };
        let (data, last) = data.split_at(data.len() / block * block);
        let (output, output_of_last) = output.split_at_mut(data.len() / block * size);
        let mut begin = F::stream(start);
        let one = |stream: &mut F::Stream, input: &[u8], output| {
            F::run_one(level, Job { start, stream: Some(stream), input, output });
        };
        if !before.is_empty() {
            one(&mut begin, before, None);
        }
        if !last.is_empty() {
            let mut stream = begin.clone();
            one(&mut stream, last, None);
            let mut zeros = block - last.len();
            while zeros > 0 {
                let count = zeros.min(ZEROS.len());
                one(&mut stream, &ZEROS[..count], None);
                zeros -= count;
            }
            one(&mut stream, after, Some(output_of_last));
        }
        if after.is_empty() {
            let prefix = if before.is_empty() { None } else { Some(&begin) };
            return F::run_whole(level, start, prefix, &Blocks { data, block }, output);
        }
        let mut streams = [const { None::<F::Stream> }; BATCH];
        for (blocks, outputs) in data.chunks(BATCH * block).zip(output.chunks_mut(BATCH * size)) {
            let streams = &mut streams[..blocks.len() / block];
            streams.fill(Some(begin.clone()));
            let blocks = streams.iter_mut().map(Option::as_mut).zip(blocks.chunks_exact(block));
            F::run(level, false, &mut blocks.map(|(stream, input)| Job { start, stream, input, output: None }));
            let ends = streams.iter_mut().map(Option::as_mut).zip(outputs.chunks_exact_mut(size).map(Some));
            F::run(level, false, &mut ends.map(|(stream, output)| Job { start, stream, input: after, output }));
        }
    }
}

#[cfg(test)]
mod tests;
