//! A level of a Merkle tree: the digests of the blocks of one buffer.

use crate::algorithm::Algorithm;
use crate::error::Error;
use crate::family::{Family, Piece, Work, check_output, plain};
use crate::level::Level;
use crate::many::{Messages, Starts, whole};

/// What is digested with each block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Salt<'a> {
    /// In front of it: dm-verity's hash type 1; and fs-verity, which fills its salt up with zeros to a block of the hash function.
    Before(&'a [u8]),
    /// Behind it: dm-verity's hash type 0.
    Behind(&'a [u8]),
}

impl Salt<'_> {
    /// None.
    pub const NONE: Salt<'static> = Salt::Before(&[]);
}

/// Writes the digest of each block of `data` with its salt, one behind the other. A block has `block` bytes; the last one, if it is
/// shorter, is filled up with zeros. (Data without any bytes have no blocks.)
///
/// This is the lowest level of a tree, and its output, filled up with zeros to a block, the data of the next one.
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
    plain(algorithm).with(Blocks { algorithm, salt, block, data, output });
    Ok(())
}

/// Blocks that go through the lanes at a time: so many streams are on the stack.
const TOGETHER: usize = 64;

/// What a short block is filled up with, so many bytes at a time.
const ZEROS: [u8; 256] = [0; 256];

struct Blocks<'a> {
    algorithm: Algorithm,
    salt: Salt<'a>,
    block: usize,
    data: &'a [u8],
    output: &'a mut [u8],
}

impl Work for Blocks<'_> {
    type Output = ();

    fn with<F: Family>(self, start: &F::Start) {
        let Blocks { algorithm, salt, block, data, output } = self;
        let size = algorithm.digest_size();
        let level = Level::in_use();
        let (before, behind) = match salt {
            Salt::Before(salt) => (salt, &[][..]),
            Salt::Behind(salt) => (&[][..], salt),
        };
        let (data, last) = data.split_at(data.len() / block * block);
        let (output, output_of_last) = output.split_at_mut(data.len() / block * size);
        let mut begin = F::stream(start);
        let one = |stream: &mut F::Stream, input: &[u8], output| {
            F::run_one(level, Piece { start, stream: Some(stream), input, output });
        };
        if !before.is_empty() {
            one(&mut begin, before, None);
        }
        if !last.is_empty() {
            let mut stream = begin.clone();
            one(&mut stream, last, None);
            let mut zeros = block - last.len();
            while zeros > 0 {
                let some = zeros.min(ZEROS.len());
                one(&mut stream, &ZEROS[..some], None);
                zeros -= some;
            }
            one(&mut stream, behind, Some(output_of_last));
        }
        if before.is_empty() && behind.is_empty() {
            let done = whole(level, algorithm, Starts::One(plain(algorithm)), &Whole { data, block }, output);
            debug_assert!(done.is_ok(), "the output has a digest's bytes for each block");
            return;
        }
        let mut streams = [const { None::<F::Stream> }; TOGETHER];
        for (blocks, outputs) in data.chunks(TOGETHER * block).zip(output.chunks_mut(TOGETHER * size)) {
            let streams = &mut streams[..blocks.len() / block];
            streams.fill(Some(begin.clone()));
            let blocks = streams.iter_mut().map(Option::as_mut).zip(blocks.chunks_exact(block));
            let outputs = outputs.chunks_exact_mut(size).map(Some);
            if behind.is_empty() {
                let piece = |((stream, input), output)| Piece { start, stream, input, output };
                F::run(level, false, &mut blocks.zip(outputs).map(piece));
            } else {
                F::run(level, false, &mut blocks.map(|(stream, input)| Piece { start, stream, input, output: None }));
                let ends = streams.iter_mut().map(Option::as_mut).zip(outputs);
                F::run(level, false, &mut ends.map(|(stream, output)| Piece { start, stream, input: behind, output }));
            }
        }
    }
}

/// Blocks none of which is short, as messages.
struct Whole<'a> {
    data: &'a [u8],
    block: usize,
}

impl Messages for Whole<'_> {
    fn count(&self) -> usize {
        self.data.len() / self.block
    }

    fn message(&self, index: usize) -> Option<&[u8]> {
        Some(&self.data[index * self.block..][..self.block])
    }
}

#[cfg(test)]
mod tests;
