//! The digest of a single file, on the reporting thread.

use std::io::{self, Read};
use std::sync::mpsc;

use super::Engine;
use super::read::read_full;
use crate::sum::digest::Digest;

/// Bytes that are read at a time.
const PIECE: usize = 256 << 10;
/// Pieces that are read ahead.
const AHEAD: usize = 3;

impl Engine {
    /// The digest of one file on this thread, while another one reads ahead if there is much to read.
    pub(super) fn hash_single(&self, mut file: impl Read + Send) -> io::Result<Digest> {
        let mut digest = self.blank;
        let mut piece = vec![0; PIECE];
        let length = read_full(&mut file, &mut piece)?;
        if length < PIECE {
            self.session.digest(&piece[..length], digest.bytes_mut()).map_err(io::Error::other)?;
            self.progress.inc(length as u64);
            return Ok(digest);
        }
        let mut stream = self.session.stream(1).map_err(io::Error::other)?;
        let (read, pieces) = mpsc::sync_channel::<io::Result<(Vec<u8>, usize)>>(AHEAD);
        let (give_back, empty) = mpsc::channel();
        for _ in 0..AHEAD {
            let _ = give_back.send(vec![0; PIECE]);
        }
        let _ = read.send(Ok((piece, length)));
        std::thread::scope(|scope| {
            scope.spawn(move || {
                while let Ok(mut piece) = empty.recv() {
                    let result = read_full(&mut file, &mut piece);
                    let last = !matches!(result, Ok(PIECE));
                    if read.send(result.map(|length| (piece, length))).is_err() || last {
                        break;
                    }
                }
            });
            for piece in pieces {
                let (piece, length) = piece?;
                stream.update(&piece[..length]).map_err(io::Error::other)?;
                self.progress.inc(length as u64);
                // The reader is gone when this was the last piece.
                let _ = give_back.send(piece);
            }
            Ok::<_, io::Error>(())
        })?;
        stream.finish(digest.bytes_mut()).map_err(io::Error::other)?;
        Ok(digest)
    }
}
