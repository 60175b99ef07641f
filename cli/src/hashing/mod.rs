//! Hashes the data of one file on all processors, for `verity`, `torrent` and `sum --parts`.
//!
//! | file | content |
//! |---|---|
//! | `function.rs` | blocks by any function of dm-verity |
//! | `source.rs` | a file, and its blocks |
//! | `pieces.rs` | pieces that are longer than a block |
//! | `crc.rs` | CRCs of pieces |
//! | `threads.rs` | divides work between threads |

pub(crate) mod crc;
mod function;
pub(crate) mod pieces;
pub(crate) mod source;
mod threads;

use gantry_digest::Algorithm;

use crate::args::Settings;
use crate::output::Failure;

/// Returns the configured number of threads, and applies the configured limit of CPU instructions.
pub(crate) fn threads(settings: &Settings) -> Result<usize, Failure> {
    let config = settings.config()?;
    if let Ok(level) = config.cpu().parse() {
        gantry_digest::limit_level(level);
    }
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    Ok(config.threads().unwrap_or_else(processors).max(1))
}

/// Hashes one message, given in parts.
pub(crate) fn digest_of(algorithm: Algorithm, parts: &[&[u8]]) -> Vec<u8> {
    let mut hasher = gantry_digest::Hasher::new(algorithm);
    for part in parts {
        hasher.update(part);
    }
    let mut digest = vec![0; algorithm.digest_size()];
    let finished = hasher.finish(&mut digest);
    debug_assert!(finished.is_ok(), "the output has the length of a digest");
    digest
}
