//! The concatenated files, which v1 cuts into pieces.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::hashing::pieces::RandomAccess;
use crate::hashing::source::Source;
use crate::output::Failure;

/// Most files that stay open for the next read. A torrent may have more files than a process may open.
const MAX_OPEN_FILES: usize = 16;

/// Returns the path of a file by its index; `None` if its bytes are zeros.
type PathOf<'a> = dyn Fn(usize) -> Option<PathBuf> + Sync + 'a;

/// The files, concatenated.
pub(super) struct Joined<'a> {
    /// The end offset of each file.
    ends: Vec<u64>,
    path: Box<PathOf<'a>>,
    /// Recently read files by their indices, most recent last.
    open: Mutex<Vec<(usize, Arc<Source>)>>,
}

impl<'a> Joined<'a> {
    pub(super) fn new(lengths: impl Iterator<Item = u64>, path: impl Fn(usize) -> Option<PathBuf> + Sync + 'a) -> Self {
        let mut end = 0;
        let ends = lengths.map(|length| {
            end += length;
            end
        });
        Joined { ends: ends.collect(), path: Box::new(path), open: Mutex::default() }
    }

    /// Returns a file, which stays open until `MAX_OPEN_FILES` other files have been read.
    fn source(&self, number: usize, path: &Path) -> Result<Arc<Source>, Failure> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = if let Some(index) = open.iter().position(|(known, _)| *known == number) {
            open.remove(index)
        } else {
            if open.len() == MAX_OPEN_FILES {
                open.remove(0);
            }
            (number, Arc::new(Source::open(path)?))
        };
        let source = Arc::clone(&entry.1);
        open.push(entry);
        Ok(source)
    }
}

impl RandomAccess for Joined<'_> {
    fn length(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    fn read_at(&self, mut buffer: &mut [u8], mut offset: u64) -> Result<(), Failure> {
        while !buffer.is_empty() {
            let number = self.ends.partition_point(|end| *end <= offset);
            let Some(end) = self.ends.get(number) else {
                return Err(Failure::Failed("a piece lies beyond the last file".to_owned()));
            };
            let begin = if number == 0 { 0 } else { self.ends[number - 1] };
            let length = usize::try_from(end - offset).map_or(buffer.len(), |left| left.min(buffer.len()));
            let (part, rest) = buffer.split_at_mut(length);
            match (self.path)(number) {
                Some(path) => self.source(number, &path)?.read_at(part, offset - begin)?,
                None => part.fill(0),
            }
            (buffer, offset) = (rest, offset + length as u64);
        }
        Ok(())
    }
}
