//! Ciphers that process a stream. Two pieces are in memory: the last piece has the padding, and only a read of the next piece shows
//! which piece is the last.

use gantry_core::CipherStream;
use zeroize::Zeroizing;

use super::Job;
use crate::io::read_full;
use crate::io::{Input, Target};
use crate::output::Failure;

/// Bytes of a piece: a multiple of every block size, and large enough to hide the cost of a call.
const PIECE_SIZE: usize = 256 << 10;

pub(super) fn run(job: &Job, input: &mut Input, mut target: Target) -> Result<(), Failure> {
    let algorithm = job.algorithm();
    let block_size = algorithm.info().block;
    let mut stream = job.session.cipher_stream(job.operation(), &job.iv)?;
    let pads = job.padded && block_size > 1;
    let mut piece = Piece::new();
    let mut next = Piece::new();
    let mut total = piece.read(input)? as u64;
    loop {
        // A short piece is the last one, and so is a full one at the end of the input.
        let more = if piece.length == PIECE_SIZE { next.read(input)? } else { 0 };
        total += more as u64;
        let last = more == 0;
        if last && pads && job.encrypt {
            piece.pad(block_size);
        }
        if !piece.length.is_multiple_of(block_size) || last && pads && piece.length == 0 {
            return Err(Failure::Failed(format!(
                "{}: {total} bytes, and {algorithm} takes {}",
                input.name,
                length_rule(job, block_size)
            )));
        }
        piece.update(&mut stream)?;
        if last && pads && !job.encrypt {
            piece.unpad(block_size).ok_or_else(|| {
                let text = "the padding is wrong: another key or IV, or data that was not padded (--no-padding)";
                Failure::Failed(format!("{}: {text}", input.name))
            })?;
        }
        target.write(piece.bytes())?;
        if last {
            return target.finish();
        }
        std::mem::swap(&mut piece, &mut next);
    }
}

fn length_rule(job: &Job, block_size: usize) -> String {
    let hint = if job.encrypt { "" } else { ", at least one if padded" };
    format!("whole blocks of {block_size}{hint}")
}

struct Piece {
    /// The piece, with room for a block of padding after it.
    data: Zeroizing<Vec<u8>>,
    length: usize,
}

impl Piece {
    fn new() -> Self {
        Self { data: Zeroizing::new(vec![0; PIECE_SIZE + 256]), length: 0 }
    }

    fn read(&mut self, input: &mut Input) -> Result<usize, Failure> {
        self.length = read_full(&mut input.file, &mut self.data[..PIECE_SIZE]).map_err(|error| input.failed(&error))?;
        Ok(self.length)
    }

    fn bytes(&self) -> &[u8] {
        &self.data[..self.length]
    }

    fn update(&mut self, stream: &mut CipherStream) -> Result<(), Failure> {
        stream.update(&mut self.data[..self.length]).map_err(Failure::from)
    }

    /// Pads as in PKCS #7 (RFC 5652, 6.3): every padding byte has the number of padding bytes as its value, from 1 to `block_size`.
    fn pad(&mut self, block_size: usize) {
        let missing = block_size - self.length % block_size;
        self.data[self.length..self.length + missing].fill(missing as u8);
        self.length += missing;
    }

    /// Removes the padding if it is valid. The result and the exit status are padding oracles: unauthenticated decryption cannot hide them.
    fn unpad(&mut self, block_size: usize) -> Option<()> {
        let count = usize::from(*self.bytes().last()?);
        let padding = self.bytes().len().checked_sub(count).map(|start| &self.bytes()[start..])?;
        let right = (1..=block_size).contains(&count) && padding.iter().all(|byte| usize::from(*byte) == count);
        self.length -= if right { count } else { 0 };
        right.then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_only_valid_padding() {
        for length in 0..40 {
            let mut piece = Piece::new();
            piece.data[..length].fill(7);
            piece.length = length;
            piece.pad(16);
            assert!(piece.length.is_multiple_of(16) && piece.length > length);
            assert_eq!(piece.unpad(16), Some(()));
            assert_eq!(piece.length, length);
        }
        for wrong in [[0; 16], [17; 16], [2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 2]] {
            let mut piece = Piece::new();
            piece.data[..16].copy_from_slice(&wrong);
            piece.length = 16;
            assert_eq!(piece.unpad(16), None, "{wrong:?}");
        }
    }
}
