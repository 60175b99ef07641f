//! Hashes the blocks of one file: groups of blocks on all processors, the blocks of a group side by side.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use gantry_digest::Salt;

use super::threads::run_on_threads;
use crate::dm_verity::HashFunction;
use crate::output::Failure;

/// A file with random access.
pub(crate) struct Source {
    pub(crate) file: File,
    pub(crate) name: String,
    /// Length in bytes, also for a block device.
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
            let end = (&file).seek(SeekFrom::End(0));
            // Files of /proc and some devices have data but report no length.
            let is_unknown = match &end {
                Ok(0) => file.read_at(&mut [0], 0)? > 0,
                Ok(_) => false,
                Err(error) => error.kind() == io::ErrorKind::InvalidInput,
            };
            if is_unknown {
                return Err(io::Error::other("it has data, but the system does not know its length; copy it first"));
            }
            Ok((file, end?))
        });
        match opened {
            Ok((file, length)) => Ok(Source { file, name, length }),
            Err(error) if error.kind() == io::ErrorKind::NotSeekable => {
                Err(Failure::Failed(format!("{name}: a pipe or terminal has no length; copy it to a file first")))
            }
            Err(error) => Err(Failure::at(name, &error)),
        }
    }

    /// Fills `buffer`.
    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), Failure> {
        self.file.read_exact_at(buffer, offset).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                let length = self.length;
                Failure::Failed(format!("{}: it ended before its length of {length} bytes", self.name))
            }
            _ => Failure::at(&self.name, &error),
        })
    }
}

/// Parameters for hashing blocks.
#[derive(Clone, Copy)]
pub(crate) struct Hashing<'s> {
    pub(crate) function: HashFunction,
    pub(crate) salt: Salt<'s>,
    /// Bytes of a block.
    pub(crate) block_size: usize,
    /// Number of blocks whose digests are passed on together.
    pub(crate) blocks_per_group: usize,
    pub(crate) threads: usize,
}

/// Receives the number of a group, and the digests of its blocks.
type OnGroup<'t> = dyn Fn(u64, &[u8]) -> Result<(), Failure> + Sync + 't;

/// Bytes that a thread reads at a time, unless a block is longer.
const READ_SIZE: usize = 1 << 20;

impl Hashing<'_> {
    /// Hashes the blocks of a range of bytes; pads a short last block with zeros. Calls `on_group` on any thread, roughly in order, with
    /// the number of each group and the digests of its blocks. Stops at the first error.
    pub(crate) fn for_each_group(
        &self,
        source: &Source,
        range: Range<u64>,
        on_group: &OnGroup<'_>,
    ) -> Result<(), Failure> {
        let group_bytes = self.block_size as u64 * self.blocks_per_group as u64;
        let groups = (range.end - range.start).div_ceil(group_bytes);
        let next = AtomicU64::new(0);
        let make_buffers = || (Vec::new(), Vec::new());
        run_on_threads((self.threads as u64).min(groups), make_buffers, |(buffer, digests)| {
            let group = next.fetch_add(1, Ordering::Relaxed);
            if group >= groups {
                return Ok(false);
            }
            let begin = range.start + group * group_bytes;
            self.digests(source, begin..range.end.min(begin + group_bytes), buffer, digests)?;
            on_group(group, digests).map(|()| true)
        })
    }

    /// Replaces `digests` by the digests of the blocks of a range.
    fn digests(
        &self,
        source: &Source,
        range: Range<u64>,
        buffer: &mut Vec<u8>,
        digests: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        digests.clear();
        let most = (READ_SIZE / self.block_size).max(1) * self.block_size;
        let mut at = range.start;
        while at < range.end {
            let length = usize::try_from(range.end - at).map_or(most, |left| left.min(most));
            buffer.resize(length, 0);
            source.read_at(buffer, at)?;
            let before = digests.len();
            digests.resize(before + length.div_ceil(self.block_size) * self.function.digest_size(), 0);
            self.function.digest_blocks(self.salt, self.block_size, buffer, &mut digests[before..])?;
            at += length as u64;
        }
        Ok(())
    }
}
