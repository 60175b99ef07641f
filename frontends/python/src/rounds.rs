//! Files that are read and hashed side by side, in rounds: each round takes a piece of every open file.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};

use gantry_digest::{Algorithm, Hasher, finish_many, update_many};

/// The most files that are hashed side by side: enough for the lanes of every CPU.
const MAX_OPEN_FILES: usize = 32;
/// Bytes that a round reads of each file.
const PIECE_BYTES: usize = 64 << 10;
/// The most files whose results have not been taken.
const MAX_PENDING_RESULTS: usize = 1024;

pub(crate) enum Outcome<E> {
    /// The file's size in bytes, and a digest for each algorithm.
    Done(u64, Vec<Vec<u8>>),
    /// The operating system's error.
    Failed(io::Error),
    /// The iterator of paths failed.
    PathsFailed(E),
}

/// Files in the order in which they were named. `N` is the caller's name of a file, `E` its error type.
pub(crate) struct Rounds<N, E> {
    algorithms: Vec<Algorithm>,
    slots: Vec<Slot>,
    /// Slots without a file, whose memory is reused.
    free_slots: Vec<Slot>,
    /// Files whose results have not been taken, in order.
    results: VecDeque<(N, Option<Outcome<E>>)>,
    /// The number of the first file in `results`.
    first_number: u64,
}

struct Slot {
    number: u64,
    file: Option<File>,
    offset: u64,
    piece: Vec<u8>,
    /// Bytes that the last round has read.
    bytes_read: usize,
    is_done: bool,
    error: Option<io::Error>,
    hashers: Vec<Hasher<'static>>,
}

impl<N, E> Rounds<N, E> {
    pub(crate) fn new(algorithms: Vec<Algorithm>) -> Self {
        Self { algorithms, slots: Vec::new(), free_slots: Vec::new(), results: VecDeque::new(), first_number: 0 }
    }

    /// Returns the algorithms, in the order of digests.
    pub(crate) fn algorithms(&self) -> &[Algorithm] {
        &self.algorithms
    }

    /// Returns true if another file may be named now.
    pub(crate) fn has_room(&self) -> bool {
        self.slots.len() < MAX_OPEN_FILES && self.results.len() < MAX_PENDING_RESULTS
    }

    /// Returns true if no file is open and no result waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.results.is_empty()
    }

    /// Adds the next file. Returns the name if too many files are open; a round will then close some.
    pub(crate) fn add_file(&mut self, name: N, path: &[u8]) -> Result<(), N> {
        match open(OsStr::from_bytes(path)) {
            Err(error) if is_full(&error) && !self.slots.is_empty() => return Err(name),
            Err(error) => self.results.push_back((name, Some(Outcome::Failed(error)))),
            Ok(file) => {
                let number = self.first_number + self.results.len() as u64;
                self.results.push_back((name, None));
                let mut slot = self.free_slots.pop().unwrap_or_else(|| Slot::new(&self.algorithms));
                (slot.number, slot.file, slot.offset, slot.is_done) = (number, Some(file), 0, false);
                self.slots.push(slot);
            }
        }
        Ok(())
    }

    /// Ends the list with an error, which is reported after all files.
    pub(crate) fn add_error(&mut self, name: N, error: E) {
        self.results.push_back((name, Some(Outcome::PathsFailed(error))));
    }

    /// Returns the result of the next file in order, if it is ready.
    pub(crate) fn take_result(&mut self) -> Option<(N, Outcome<E>)> {
        self.results.front()?.1.as_ref()?;
        self.first_number += 1;
        self.results.pop_front().and_then(|(name, outcome)| Some((name, outcome?)))
    }

    /// Reads a piece of every open file and hashes the pieces side by side.
    pub(crate) fn run_round(&mut self) {
        self.slots.iter_mut().for_each(Slot::read);
        for index in 0..self.algorithms.len() {
            let pieces = self.slots.iter_mut().filter(|slot| slot.bytes_read > 0);
            let mut pieces: Vec<_> =
                pieces.map(|slot| (&mut slot.hashers[index], &slot.piece[..slot.bytes_read])).collect();
            let done = update_many(&mut pieces);
            debug_assert_eq!(done, Ok(()), "all hashers have the same algorithm");
        }
        let (done_slots, open) = std::mem::take(&mut self.slots).into_iter().partition(|slot| slot.is_done);
        self.slots = open;
        self.finish(done_slots);
    }

    fn finish(&mut self, mut done_slots: Vec<Slot>) {
        let mut digests: Vec<Vec<Vec<u8>>> = done_slots.iter().map(|_| Vec::new()).collect();
        for (index, algorithm) in self.algorithms.iter().enumerate() {
            let mut hashers: Vec<_> = done_slots.iter_mut().map(|slot| &mut slot.hashers[index]).collect();
            let mut output = vec![0; hashers.len() * algorithm.digest_size()];
            let done = finish_many(&mut hashers, &mut output);
            debug_assert_eq!(done, Ok(()), "the output has the right size");
            let each = output.chunks_exact(algorithm.digest_size());
            digests.iter_mut().zip(each).for_each(|(digests, digest)| digests.push(digest.to_vec()));
        }
        for (mut slot, digests) in done_slots.into_iter().zip(digests) {
            let outcome = match slot.error.take() {
                Some(error) => Outcome::Failed(error),
                None => Outcome::Done(slot.offset, digests),
            };
            slot.file = None;
            self.results[(slot.number - self.first_number) as usize].1 = Some(outcome);
            self.free_slots.push(slot);
        }
    }
}

impl Slot {
    fn new(algorithms: &[Algorithm]) -> Self {
        let hashers = algorithms.iter().map(|algorithm| Hasher::new(*algorithm)).collect();
        let piece = vec![0; PIECE_BYTES];
        Self { number: 0, file: None, offset: 0, piece, bytes_read: 0, is_done: false, error: None, hashers }
    }

    /// Reads until the piece is full, the file ends, or a signal arrives.
    fn read(&mut self) {
        self.bytes_read = 0;
        let Some(file) = &self.file else { return };
        while self.bytes_read < PIECE_BYTES {
            // By offset, so that a forked child does not move it.
            match file.read_at(&mut self.piece[self.bytes_read..], self.offset) {
                Ok(0) => self.is_done = true,
                Ok(count) => {
                    self.bytes_read += count;
                    self.offset += count as u64;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => (self.is_done, self.error) = (true, Some(error)),
            }
            return;
        }
    }
}

/// Opens a file with an end: a regular file or a block device. Does not wait for the other end of a pipe.
fn open(path: &OsStr) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    let kind = file.metadata()?.file_type();
    match () {
        () if kind.is_file() || kind.is_block_device() => Ok(file),
        () if kind.is_dir() => Err(io::Error::from_raw_os_error(libc::EISDIR)),
        () => Err(io::Error::new(io::ErrorKind::InvalidInput, "Not a regular file")),
    }
}

/// Returns true if too many files are open.
fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}
