//! Hashes consecutive pieces that are longer than a block: several pieces side by side, one part of each at a time.

use std::sync::{Mutex, PoisonError};

use gantry_digest::{Algorithm, Hasher, finish_many, update_many};

use super::source::Source;
use super::threads::run_on_threads;
use crate::output::Failure;

/// Data with random access: a file, or several files concatenated.
pub(crate) trait RandomAccess: Sync {
    /// Length in bytes.
    fn length(&self) -> u64;

    /// Fills `buffer`.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), Failure>;
}

impl RandomAccess for Source {
    fn length(&self) -> u64 {
        self.length
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), Failure> {
        Source::read_at(self, buffer, offset)
    }
}

/// Most pieces that a thread hashes side by side: no CPU has more lanes of a hash function.
const MAX_SIDE_BY_SIDE: u64 = 16;
/// Bytes of each piece that are read at a time.
const READ_SIZE: usize = 64 << 10;

/// Returns the digests of pieces of `piece_size` bytes, concatenated; the last piece may be shorter.
pub(crate) fn digests(
    data: &dyn RandomAccess,
    algorithm: Algorithm,
    piece_size: u64,
    threads: usize,
) -> Result<Vec<u8>, Failure> {
    let size = algorithm.digest_size();
    let pieces = data.length().div_ceil(piece_size);
    let room = usize::try_from(pieces).ok().and_then(|pieces| pieces.checked_mul(size));
    let mut all = vec![0; room.ok_or_else(|| Failure::Failed("there are too many pieces".to_owned()))?];
    // With few pieces, it is faster to use all threads than to fill all lanes of one thread.
    let together = pieces.div_ceil(threads as u64).clamp(1, MAX_SIDE_BY_SIDE);
    // Each group writes to its part of the output.
    let groups = Mutex::new(all.chunks_mut(together as usize * size).enumerate());
    let next = || groups.lock().unwrap_or_else(PoisonError::into_inner).next();
    let make_buffer = || vec![0; together as usize * READ_SIZE];
    run_on_threads((threads as u64).min(pieces.div_ceil(together)), make_buffer, |buffer| {
        let Some((group, output)) = next() else { return Ok(false) };
        let begin = group as u64 * together * piece_size;
        digest_group(data, algorithm, piece_size, begin, buffer, output).map(|()| true)
    })?;
    Ok(all)
}

/// Hashes as many pieces as fit into `output`, starting at `begin`.
fn digest_group(
    data: &dyn RandomAccess,
    algorithm: Algorithm,
    piece_size: u64,
    begin: u64,
    buffer: &mut [u8],
    output: &mut [u8],
) -> Result<(), Failure> {
    let to_failure = |error: gantry_digest::Error| Failure::Failed(error.to_string());
    let mut hashers = vec![Hasher::new(algorithm); output.len() / algorithm.digest_size()];
    let mut done = 0;
    while done < piece_size {
        let mut updates = Vec::with_capacity(hashers.len());
        for (number, (hasher, part)) in hashers.iter_mut().zip(buffer.chunks_mut(READ_SIZE)).enumerate() {
            let start = begin + number as u64 * piece_size;
            let (at, end) = (start + done, data.length().min(start + piece_size));
            if at < end {
                let length = (end - at).min(READ_SIZE as u64) as usize;
                data.read_at(&mut part[..length], at)?;
                updates.push((hasher, &part[..length]));
            }
        }
        update_many(&mut updates).map_err(to_failure)?;
        done += READ_SIZE as u64;
    }
    finish_many(&mut hashers.iter_mut().collect::<Vec<_>>(), output).map_err(to_failure)
}
