//! Reads files in pieces, and detects changes of files.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Seek};
use std::os::unix::fs::MetadataExt;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::io::read_up_to;

/// Bytes of a file that a worker reads at a time. This hides the cost of system calls, and the pieces of one worker fit into a second-level
/// cache.
pub(super) const PIECE_SIZE: usize = 64 << 10;
/// More than the resolution of the kernel's file times, which come from its timer tick. A file that changed within this time before it was
/// read may change again under the same time stamp.
const TICK_NANOSECONDS: i128 = 50_000_000;

/// A regular file that is read in pieces.
pub(super) struct Reader {
    file: File,
    stamp: Stamp,
    /// Bytes that have been read.
    bytes_read: u64,
    has_ended: bool,
}

impl Reader {
    /// Creates a reader; `data` is the metadata of the file.
    pub(super) fn new(file: File, data: &Metadata) -> Self {
        Self { file, stamp: Stamp::new(data), bytes_read: 0, has_ended: false }
    }

    /// Reads the next piece. A piece that does not fill the buffer is the last.
    pub(super) fn next_piece(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let expected = self.stamp.size.checked_sub(self.bytes_read);
        let (length, has_ended) = read_up_to(&mut self.file, buffer, expected)?;
        self.bytes_read += length as u64;
        self.has_ended = has_ended;
        Ok(length)
    }

    /// Seeks to the beginning, if the file allows it.
    pub(super) fn rewind(&mut self) -> bool {
        let rewound = self.file.rewind().is_ok();
        if rewound {
            self.bytes_read = 0;
        }
        rewound
    }

    /// True if the last piece has been read.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    pub(super) fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Returns the number of bytes that have been read.
    pub(super) fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// Returns the size of the file when it was opened.
    pub(super) fn size(&self) -> u64 {
        self.stamp.size
    }

    /// Returns the number of bytes left to read, according to the size of the file when it was opened.
    pub(super) fn bytes_left(&self) -> u64 {
        self.stamp.size.saturating_sub(self.bytes_read)
    }
}

/// The identity and state of a file. Times are nanoseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(in crate::sum) struct Stamp {
    device: u64,
    pub(in crate::sum) inode: u64,
    pub(in crate::sum) size: u64,
    /// The last change of its content.
    pub(in crate::sum) modified: i128,
    /// The last change of its content or metadata.
    pub(in crate::sum) changed: i128,
    /// The time of the query.
    queried: i128,
}

impl Stamp {
    /// Creates the stamp of metadata that has just been queried.
    pub(in crate::sum) fn new(data: &Metadata) -> Self {
        let nanoseconds = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        Self {
            device: data.dev(),
            inode: data.ino(),
            size: data.size(),
            modified: nanoseconds(data.mtime(), data.mtime_nsec()),
            changed: nanoseconds(data.ctime(), data.ctime_nsec()),
            queried: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos().cast_signed()),
        }
    }

    /// True if the file had not changed for `nanoseconds`. A later change then has another time stamp, if the file system's clock has that
    /// resolution.
    pub(in crate::sum) fn was_unchanged_for(&self, nanoseconds: i128) -> bool {
        self.changed.max(self.modified) + nanoseconds < self.queried
    }

    /// True if both are the same file in the same state.
    pub(in crate::sum) fn is_same_state(&self, other: &Self) -> bool {
        let facts = |stamp: &Self| (stamp.device, stamp.inode, stamp.size, stamp.modified, stamp.changed);
        facts(self) == facts(other)
    }

    /// True if the file of this name is the same and has not changed.
    pub(super) fn is_current(&self, name: &OsStr) -> bool {
        self.was_unchanged_for(TICK_NANOSECONDS)
            && std::fs::metadata(name).is_ok_and(|data| Self::new(&data).is_same_state(self))
    }
}
