//! CRCs of consecutive pieces, computed on all processors.

use std::sync::{Mutex, PoisonError};

use crc_fast::{CrcAlgorithm, Digest};

use super::pieces::RandomAccess;
use super::threads::run_on_threads;
use crate::output::Failure;

/// Bytes that a thread reads at a time.
const READ_SIZE: u64 = 256 << 10;

/// Returns the CRCs of pieces of `piece_size` bytes; the last piece may be shorter.
pub(crate) fn crcs(
    data: &dyn RandomAccess,
    algorithm: CrcAlgorithm,
    piece_size: u64,
    threads: usize,
) -> Result<Vec<u64>, Failure> {
    let pieces = data.length().div_ceil(piece_size);
    let count = usize::try_from(pieces).map_err(|_| Failure::Failed("there are too many pieces".to_owned()))?;
    let mut all = vec![0; count];
    let slots = Mutex::new(all.iter_mut().enumerate());
    let next = || slots.lock().unwrap_or_else(PoisonError::into_inner).next();
    run_on_threads(
        (threads as u64).min(pieces),
        || vec![0; READ_SIZE as usize],
        |buffer| {
            let Some((number, crc)) = next() else { return Ok(false) };
            let mut at = number as u64 * piece_size;
            let end = data.length().min(at + piece_size);
            let mut running = Digest::new(algorithm);
            while at < end {
                let length = (end - at).min(READ_SIZE);
                let part = &mut buffer[..length as usize];
                data.read_at(part, at)?;
                running.update(part);
                at += length;
            }
            *crc = running.finalize();
            Ok(true)
        },
    )?;
    Ok(all)
}
