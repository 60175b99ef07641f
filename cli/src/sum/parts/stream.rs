//! Checksums of a pipe: its parts are hashed while it is read, for many part sizes side by side.

use std::io::Read;

use gantry_digest::update_many;

use super::checksum::{Checksum, RunningChecksum};
use crate::io::read_full;
use crate::output::Failure;

/// Most bytes that are read at a time.
const PIECE_SIZE: u64 = 64 << 10;

/// The parts of one size.
pub(super) struct Parts {
    pub(super) size: u64,
    /// Checksums of the complete parts, concatenated.
    pub(super) values: Vec<u8>,
    running: RunningChecksum,
    /// Bytes of the current part that have been read.
    bytes: u64,
}

/// Reads a pipe to its end, and returns its parts of each size, and its length. Drops a size that gives more than `most` parts.
pub(super) fn parts(
    mut pipe: impl Read,
    name: &str,
    checksum: Checksum,
    sizes: &[u64],
    most: u64,
) -> Result<(Vec<Parts>, u64), Failure> {
    let begin = |&size: &u64| Parts { size, values: Vec::new(), running: checksum.begin(), bytes: 0 };
    let mut all: Vec<Parts> = sizes.iter().map(begin).collect();
    let (mut buffer, mut total) = (vec![0; PIECE_SIZE as usize], 0);
    loop {
        // Read up to the next end of a part.
        let next = all.iter().map(|parts| parts.size - parts.bytes).min().unwrap_or(PIECE_SIZE).min(PIECE_SIZE);
        let length = read_full(&mut pipe, &mut buffer[..next as usize]).map_err(|error| Failure::at(name, &error))?;
        let piece = &buffer[..length];
        let mut lanes = Vec::with_capacity(all.len());
        for parts in &mut all {
            match &mut parts.running {
                RunningChecksum::Digest(hasher) => lanes.push((hasher, piece)),
                RunningChecksum::Crc(crc) => crc.update(piece),
            }
            parts.bytes += length as u64;
        }
        update_many(&mut lanes).map_err(|error| Failure::Failed(error.to_string()))?;
        total += length as u64;
        let ended = (length as u64) < next;
        for parts in &mut all {
            let last = ended && (parts.bytes > 0 || total == 0);
            if last || parts.bytes == parts.size {
                let running = std::mem::replace(&mut parts.running, checksum.begin());
                parts.values.extend(checksum.end(running)?);
                parts.bytes = 0;
            }
        }
        let most = usize::try_from(most).unwrap_or(usize::MAX).saturating_mul(checksum.size());
        all.retain(|parts| parts.values.len() <= most);
        if ended {
            return Ok((all, total));
        }
    }
}
