//! Hashes the blocks of one file: groups of blocks on all processors, and those of a group side by side.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use gantry_digest::{Algorithm, Salt, tree_level};

use super::threads::share;
use crate::output::Failure;

/// A file that is read at any place.
pub(crate) struct Source {
    pub(crate) file: File,
    pub(crate) name: String,
    /// Bytes of it, of a block device, too.
    pub(crate) length: u64,
}

impl Source {
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let opened = File::open(path).and_then(|file| {
            let kind = file.metadata()?.file_type();
            if kind.is_dir() {
                return Err(io::ErrorKind::IsADirectory.into());
            }
            let length = (&file).seek(SeekFrom::End(0))?;
            Ok((file, length))
        });
        match opened {
            Ok((file, length)) => Ok(Source { file, name, length }),
            Err(error) => Err(Failure::at(name, &error)),
        }
    }

    /// Reads all of `buffer`.
    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), Failure> {
        self.file.read_exact_at(buffer, offset).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Failure::Failed(format!("{}: it has become shorter meanwhile", self.name)),
            _ => Failure::at(&self.name, &error),
        })
    }
}

/// How blocks are hashed.
#[derive(Clone, Copy)]
pub(crate) struct Hashing<'s> {
    pub(crate) algorithm: Algorithm,
    pub(crate) salt: Salt<'s>,
    /// Bytes of a block.
    pub(crate) block: usize,
    /// Blocks whose digests are handed on together.
    pub(crate) group: usize,
    pub(crate) threads: usize,
}

/// What gets the number of a group, and the digests of its blocks.
type Take<'t> = dyn Fn(u64, &[u8]) -> Result<(), Failure> + Sync + 't;

/// Bytes that a thread reads at a time, or one block.
const PIECE: usize = 1 << 20;

impl Hashing<'_> {
    /// Hashes the blocks of a range of bytes; the last one, if it is short, is filled up with zeros. `take` gets the number of each group and
    /// the digests of its blocks, on any thread, in about their order. The first error ends it.
    pub(crate) fn each_group(&self, source: &Source, range: Range<u64>, take: &Take<'_>) -> Result<(), Failure> {
        let bytes = self.block as u64 * self.group as u64;
        let groups = (range.end - range.start).div_ceil(bytes);
        let next = AtomicU64::new(0);
        let own = || (Vec::new(), Vec::new());
        share((self.threads as u64).min(groups), own, |(buffer, digests)| {
            let group = next.fetch_add(1, Ordering::Relaxed);
            if group >= groups {
                return Ok(false);
            }
            let begin = range.start + group * bytes;
            self.digests(source, begin..range.end.min(begin + bytes), buffer, digests)?;
            take(group, digests).map(|()| true)
        })
    }

    /// The digests of the blocks of a range, which replace what is in `digests`.
    fn digests(
        &self,
        source: &Source,
        range: Range<u64>,
        buffer: &mut Vec<u8>,
        digests: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        digests.clear();
        let most = (PIECE / self.block).max(1) * self.block;
        let mut at = range.start;
        while at < range.end {
            let length = usize::try_from(range.end - at).map_or(most, |left| left.min(most));
            buffer.resize(length, 0);
            source.read_at(buffer, at)?;
            let before = digests.len();
            digests.resize(before + length.div_ceil(self.block) * self.algorithm.digest_size(), 0);
            tree_level(self.algorithm, self.salt, self.block, buffer, &mut digests[before..])
                .map_err(|error| Failure::Failed(error.to_string()))?;
            at += length as u64;
        }
        Ok(())
    }
}
