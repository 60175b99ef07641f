//! The page of a process: counters in memory that other processes can read while they grow.
//!
//! It is a memfd (memfd_create(2)), so it has no name in any folder, takes no room on a disk, and is gone with the last process that has it.
//! It is sealed (fcntl(2), `F_ADD_SEALS`): nobody can shorten it, and so take memory away under this process, and where the kernel
//! knows `F_SEAL_FUTURE_WRITE` (Linux 5.1) nobody else can write to it. Readers find it through `/proc` (`live.rs`), as the kernel's rules
//! for `/proc/PID/fd` allow: root those of all users, a user his own.
//!
//! Children of `fork` go on in the page of their parent, each in rows of its own. No system call is made after the first.
//!
//! # Layout
//! Words of 64 bits, in the order of this machine. A [header](Header), then blocks: one word with the length of the block in words, one with
//! its kind, the bytes of its text and the count of its numbers, then the text, and the numbers, which begin at a multiple of
//! [`LINE`]. A block is there when its first word is not 0, and what that word says does not change any more.

#![allow(unsafe_code, reason = "memory that other processes see")]

use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use gantry_core::stats::{About, COLUMNS, Meaning, Memory};
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap};

use crate::rights;
use crate::sandbox::is_filtered;

use super::{StatsChoice, handed, unix_seconds};

/// What `/proc` calls such memory.
pub(super) const NAME: &str = "gantry-statistics";

/// `GANTRY` and the version of the layout.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"GANTRY\0\x01");

/// Words of two cache lines, which some CPUs fetch together: what two threads write must not share them.
pub(super) const LINE: usize = 16;

/// Words of a page: 16 MiB, or 4 where addresses are short. Memory is taken as it is written to.
pub(super) const WORDS: usize = if cfg!(target_pointer_width = "64") { 2 << 20 } else { 512 << 10 };

/// The places of what a page begins with.
#[derive(Clone, Copy)]
pub(super) enum Header {
    /// [`MAGIC`].
    Magic,
    /// Words that are taken, this header among them.
    Taken,
    /// Rows that found no room.
    Lost,
    /// When the page was made, in seconds since 1970.
    Made,
}

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// No numbers: its text is the names of the columns of [`Kind::Counts`].
    Columns = 1,
    /// [`Meaning::Counts`].
    Counts,
    /// [`Meaning::Times`].
    Times,
    /// [`Meaning::Tally`].
    Tally,
    /// The text is the name of a guest, and the names of its numbers.
    Guest,
}

impl Kind {
    pub(super) const ALL: [Kind; 5] = [Kind::Columns, Kind::Counts, Kind::Times, Kind::Tally, Kind::Guest];
}

/// A page that this process, and its children, write to.
pub(super) struct Page {
    words: &'static [AtomicU64],
    /// Readers come by it.
    file: OwnedFd,
}

/// The page of this process, if it has one: made by the first that asks. None for a program with borrowed rights, and none within a filter of system calls (seccomp), which may end a program for the call that makes it, unless the
/// choice is [`StatsChoice::On`].
pub(super) fn of_process(choice: &StatsChoice) -> Option<&'static Page> {
    static PAGE: OnceLock<Option<Page>> = OnceLock::new();
    // Whoever runs a program to watch it is not told that it has no statistics.
    let off = *choice == StatsChoice::Off && !handed::is_watched();
    if off || rights::borrowed() {
        return None;
    }
    let filtered = || *choice != StatsChoice::On && is_filtered();
    let new = || {
        let page = Page::new(WORDS).ok()?;
        handed::hand_over(&page.file);
        Some(page)
    };
    PAGE.get_or_init(|| if filtered() { None } else { new() }).as_ref()
}

impl Page {
    fn new(words: usize) -> nix::Result<Self> {
        let file = memfd_create(NAME, MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?;
        let bytes = words * size_of::<u64>();
        nix::unistd::ftruncate(&file, bytes.try_into().map_err(|_| nix::Error::EOVERFLOW)?)?;
        let length = NonZeroUsize::new(bytes).ok_or(nix::Error::EINVAL)?;
        // SAFETY: a new mapping at an address of the kernel's choice, which is never removed.
        let at = unsafe {
            mmap(None, length, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_SHARED, &file, 0)
        }?;
        let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals | SealFlag::F_SEAL_FUTURE_WRITE))
            .or_else(|_| fcntl(&file, FcntlArg::F_ADD_SEALS(seals)))?;
        // SAFETY: the mapping has so many words, begins on a page, and stays. The file can no longer be shortened. Zeros are numbers, and
        // others may read, and children of `fork` write, what is atomic.
        let words = unsafe { std::slice::from_raw_parts(at.cast::<AtomicU64>().as_ptr(), words) };
        let page = Self { words, file };
        page.begin();
        Ok(page)
    }

    fn begin(&self) {
        self.set(Header::Taken, LINE as u64);
        self.set(Header::Made, unix_seconds());
        let names = COLUMNS.map(|column| column.to_string()).join("\t");
        self.block(Kind::Columns, &names, 0);
        self.words[Header::Magic as usize].store(MAGIC, Ordering::Release);
    }

    /// Numbers of a guest that this process serves, all of them zeros. `None` when there is no room.
    pub(super) fn guest(&self, name: &str, numbers: &[&str]) -> Option<&'static [AtomicU64]> {
        self.block(Kind::Guest, &[&[name], numbers].concat().join("\t"), numbers.len())
    }

    fn set(&self, place: Header, value: u64) {
        self.words[place as usize].store(value, Ordering::Relaxed);
    }

    /// A new block with so many zeros. `None` when there is no room.
    fn block(&self, kind: Kind, text: &str, count: usize) -> Option<&'static [AtomicU64]> {
        let head = (2 + text.len().div_ceil(size_of::<u64>())).next_multiple_of(LINE);
        let length = head + count.next_multiple_of(LINE);
        let taken = &self.words[Header::Taken as usize];
        let fits = |at: u64| (at as usize + length <= self.words.len()).then_some(at + length as u64);
        let Ok(at) = taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) else {
            self.words[Header::Lost as usize].fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let (head, numbers) = self.words[at as usize..at as usize + length].split_at(head);
        for (word, bytes) in head[2..].iter().zip(text.as_bytes().chunks(size_of::<u64>())) {
            let mut padded = [0; size_of::<u64>()];
            padded[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_ne_bytes(padded), Ordering::Relaxed);
        }
        head[1].store((kind as u64) << 56 | (text.len() as u64) << 32 | count as u64, Ordering::Relaxed);
        // Whoever sees the length sees all of the above.
        head[0].store(length as u64, Ordering::Release);
        numbers.get(..count)
    }
}

impl Memory for Page {
    fn take(&self, about: About<'_>, count: usize) -> Option<&'static [AtomicU64]> {
        let (kind, stage) = match about.numbers {
            Meaning::Counts => (Kind::Counts, ""),
            Meaning::Times(stage) => (Kind::Times, stage.code()),
            Meaning::Tally => (Kind::Tally, ""),
            _ => return None,
        };
        let About { device, class, algorithm, operation, .. } = about;
        self.block(kind, &[device, class, algorithm, operation, stage].join("\t"), count)
    }
}
