//! Hashes a single file on the reporting thread.

use std::io::{self, Read};
use std::sync::mpsc;

use indicatif::ProgressBar;

use crate::io::read_full;
use crate::sum::digest::Digest;
use crate::sum::function::{Function, Functions};

/// Bytes that are read at a time.
const PIECE_SIZE: usize = 256 << 10;
/// Pieces that are read ahead.
const PIECES_AHEAD: usize = 3;

/// Returns the digests of one file and its length, and counts its bytes. A second thread reads ahead if the file is longer than a piece.
pub(in crate::sum) fn hash_single(
    mut file: impl Read + Send,
    functions: &Functions,
    progress: &ProgressBar,
) -> io::Result<(Vec<Digest>, u64)> {
    let mut piece = vec![0; PIECE_SIZE];
    let length = read_full(&mut file, &mut piece)?;
    if length < PIECE_SIZE {
        let digests = functions.iter().map(|function| function.digest(&piece[..length]));
        let digests = digests.collect::<io::Result<_>>()?;
        progress.inc(length as u64);
        return Ok((digests, length as u64));
    }
    let mut running = functions.iter().map(|function| function.begin(1)).collect::<io::Result<Vec<_>>>()?;
    let (read, pieces) = mpsc::sync_channel::<io::Result<(Vec<u8>, usize)>>(PIECES_AHEAD);
    let (give_back, empty) = mpsc::channel();
    for _ in 0..PIECES_AHEAD {
        let _ = give_back.send(vec![0; PIECE_SIZE]);
    }
    let _ = read.send(Ok((piece, length)));
    let bytes = std::thread::scope(|scope| {
        scope.spawn(move || {
            while let Ok(mut piece) = empty.recv() {
                let result = read_full(&mut file, &mut piece);
                let last = !matches!(result, Ok(PIECE_SIZE));
                if read.send(result.map(|length| (piece, length))).is_err() || last {
                    break;
                }
            }
        });
        let mut bytes = 0;
        for piece in pieces {
            let (piece, length) = piece?;
            for running in &mut running {
                running.update(&piece[..length])?;
            }
            bytes += length as u64;
            progress.inc(length as u64);
            // Fails if the reader has ended.
            let _ = give_back.send(piece);
        }
        Ok::<_, io::Error>(bytes)
    })?;
    let mut digests: Vec<Digest> = functions.iter().map(Function::zero_digest).collect();
    for (running, digest) in running.iter_mut().zip(&mut digests) {
        running.finish(digest.bytes_mut())?;
    }
    Ok((digests, bytes))
}
