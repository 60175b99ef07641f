//! CRCs of consecutive pieces, computed on all processors.

use std::sync::{Mutex, PoisonError};

use crc_fast::{CrcAlgorithm, Digest};

use super::pieces::Data;
use super::threads::share;
use crate::output::Failure;

/// Bytes that a thread reads at a time.
const PART: u64 = 256 << 10;

/// Returns the CRCs of pieces of `piece` bytes; the last piece may be shorter.
pub(crate) fn crcs(data: &dyn Data, algorithm: CrcAlgorithm, piece: u64, threads: usize) -> Result<Vec<u64>, Failure> {
    let pieces = data.length().div_ceil(piece);
    let room = usize::try_from(pieces).map_err(|_| Failure::Failed("there are too many pieces".to_owned()))?;
    let mut all = vec![0; room];
    let places = Mutex::new(all.iter_mut().enumerate());
    let next = || places.lock().unwrap_or_else(PoisonError::into_inner).next();
    share(
        (threads as u64).min(pieces),
        || vec![0; PART as usize],
        |buffer| {
            let Some((number, crc)) = next() else { return Ok(false) };
            let mut at = number as u64 * piece;
            let end = data.length().min(at + piece);
            let mut running = Digest::new(algorithm);
            while at < end {
                let length = (end - at).min(PART);
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
