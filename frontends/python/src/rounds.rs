//! Files that are read and hashed side by side, in rounds: each round takes a piece of every open file.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};

use gantry_digest::{Algorithm, Hasher, finish_many, update_many};

/// Files side by side: enough for the lanes of every CPU.
const SLOTS: usize = 32;
/// Bytes that a round reads of each file.
const PIECE: usize = 64 << 10;
/// Files that may have been opened since the first one whose result was not taken yet.
const WINDOW: usize = 1024;

/// What became of a file.
pub(crate) enum Outcome<E> {
    /// Its bytes, and a digest of each algorithm.
    Done(u64, Vec<Vec<u8>>),
    /// What the system said.
    Failed(io::Error),
    /// There is no file: whoever names the files failed.
    Ended(E),
}

/// Files in the order in which they were named. `N` is what a file is called by the caller, `E` an error of the caller's own.
pub(crate) struct Rounds<N, E> {
    algorithms: Vec<Algorithm>,
    slots: Vec<Slot>,
    /// Slots without a file, for their memory.
    spare: Vec<Slot>,
    /// Files from the first on that was not reported.
    results: VecDeque<(N, Option<Outcome<E>>)>,
    /// The number of the first of them.
    first: u64,
}

struct Slot {
    number: u64,
    file: Option<File>,
    offset: u64,
    piece: Vec<u8>,
    /// How much of the piece the last round has read.
    read: usize,
    is_over: bool,
    failed: Option<io::Error>,
    hashers: Vec<Hasher<'static>>,
}

impl<N, E> Rounds<N, E> {
    pub(crate) fn new(algorithms: Vec<Algorithm>) -> Self {
        Self { algorithms, slots: Vec::new(), spare: Vec::new(), results: VecDeque::new(), first: 0 }
    }

    /// The algorithms, in the order of digests.
    pub(crate) fn algorithms(&self) -> &[Algorithm] {
        &self.algorithms
    }

    /// Whether another file may be named now.
    pub(crate) fn has_room(&self) -> bool {
        self.slots.len() < SLOTS && self.results.len() < WINDOW
    }

    /// Whether no file is open and nothing waits to be reported.
    pub(crate) fn is_empty(&self) -> bool {
        self.results.is_empty()
    }

    /// Names the next file. Gives the name back if no more files can be open now; there are others then, so that a round will help.
    pub(crate) fn name(&mut self, name: N, path: &[u8]) -> Result<(), N> {
        match open(OsStr::from_bytes(path)) {
            Err(error) if is_full(&error) && !self.slots.is_empty() => return Err(name),
            Err(error) => self.results.push_back((name, Some(Outcome::Failed(error)))),
            Ok(file) => {
                let number = self.first + self.results.len() as u64;
                self.results.push_back((name, None));
                let mut slot = self.spare.pop().unwrap_or_else(|| Slot::new(&self.algorithms));
                (slot.number, slot.file, slot.offset, slot.is_over) = (number, Some(file), 0, false);
                self.slots.push(slot);
            }
        }
        Ok(())
    }

    /// Says that no more files can be named, which is reported after those that were.
    pub(crate) fn end(&mut self, name: N, error: E) {
        self.results.push_back((name, Some(Outcome::Ended(error))));
    }

    /// The result of the next file in their order, if it is there.
    pub(crate) fn take(&mut self) -> Option<(N, Outcome<E>)> {
        self.results.front()?.1.as_ref()?;
        self.first += 1;
        self.results.pop_front().and_then(|(name, outcome)| Some((name, outcome?)))
    }

    /// Reads a piece of every open file and hashes them side by side.
    pub(crate) fn round(&mut self) {
        self.slots.iter_mut().for_each(Slot::read);
        for place in 0..self.algorithms.len() {
            let pieces = self.slots.iter_mut().filter(|slot| slot.read > 0);
            let mut pieces: Vec<_> = pieces.map(|slot| (&mut slot.hashers[place], &slot.piece[..slot.read])).collect();
            let done = update_many(&mut pieces);
            debug_assert_eq!(done, Ok(()), "all are of one algorithm");
        }
        let (over, open) = std::mem::take(&mut self.slots).into_iter().partition(|slot| slot.is_over);
        self.slots = open;
        self.finish(over);
    }

    fn finish(&mut self, mut over: Vec<Slot>) {
        let mut digests: Vec<Vec<Vec<u8>>> = over.iter().map(|_| Vec::new()).collect();
        for (place, algorithm) in self.algorithms.iter().enumerate() {
            let mut hashers: Vec<_> = over.iter_mut().map(|slot| &mut slot.hashers[place]).collect();
            let mut output = vec![0; hashers.len() * algorithm.digest_size()];
            let done = finish_many(&mut hashers, &mut output);
            debug_assert_eq!(done, Ok(()), "the output fits");
            let each = output.chunks_exact(algorithm.digest_size());
            digests.iter_mut().zip(each).for_each(|(digests, digest)| digests.push(digest.to_vec()));
        }
        for (mut slot, digests) in over.into_iter().zip(digests) {
            let outcome = match slot.failed.take() {
                Some(error) => Outcome::Failed(error),
                None => Outcome::Done(slot.offset, digests),
            };
            slot.file = None;
            self.results[(slot.number - self.first) as usize].1 = Some(outcome);
            self.spare.push(slot);
        }
    }
}

impl Slot {
    fn new(algorithms: &[Algorithm]) -> Self {
        let hashers = algorithms.iter().map(|algorithm| Hasher::new(*algorithm)).collect();
        let piece = vec![0; PIECE];
        Self { number: 0, file: None, offset: 0, piece, read: 0, is_over: false, failed: None, hashers }
    }

    /// Reads until the piece is full, the file ends, or a signal arrives.
    fn read(&mut self) {
        self.read = 0;
        let Some(file) = &self.file else { return };
        while self.read < PIECE {
            // By its place, which a child of `fork` does not move.
            match file.read_at(&mut self.piece[self.read..], self.offset) {
                Ok(0) => self.is_over = true,
                Ok(count) => {
                    self.read += count;
                    self.offset += count as u64;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => (self.is_over, self.failed) = (true, Some(error)),
            }
            return;
        }
    }
}

/// Opens what has an end: a regular file or a block device. Does not wait for the other end of a pipe.
fn open(path: &OsStr) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    let kind = file.metadata()?.file_type();
    match () {
        () if kind.is_file() || kind.is_block_device() => Ok(file),
        () if kind.is_dir() => Err(io::Error::from_raw_os_error(libc::EISDIR)),
        () => Err(io::Error::new(io::ErrorKind::InvalidInput, "Not a regular file")),
    }
}

/// Whether there are too many open files.
fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}
