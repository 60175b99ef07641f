//! The page of a process: counters in memory that other processes can read while it runs.
//!
//! The page is a memfd (memfd_create(2)): it has no name in a folder, needs no disk space, and disappears with the last process that has
//! it. It is sealed (fcntl(2), `F_ADD_SEALS`). No process can shorten it, which would remove memory that this process uses. If the kernel
//! has `F_SEAL_FUTURE_WRITE` (Linux 5.1), no other process can write to it. Readers find the page through `/proc` (`live_page.rs`), subject
//! to the kernel's rules for `/proc/PID/fd`: root finds the pages of all users, a user its own.
//!
//! Children of `fork` continue in the page of their parent, each in rows of its own. Only creating the page makes system calls.
//!
//! # Layout
//! 64-bit words in native byte order: a [header](Header), then blocks. The first word of a block is its length in words. The second has its
//! kind, the bytes of its text, and the count of its numbers. Text and numbers follow; the numbers begin at a multiple of [`LINE_WORDS`]. A
//! block exists once its first word is not 0; its first two words and its text then do not change.

#![allow(unsafe_code, reason = "memory that other processes see")]

use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use gantry_core::stats::{COLUMNS, Labels, Meaning, Memory};
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap};

use crate::rights;
use crate::sandbox::is_filtered;

use super::{StatsChoice, send, unix_seconds};

/// The name of a page in `/proc`.
pub(super) const PAGE_NAME: &str = "gantry-statistics";

/// `GANTRY` and the version of the layout.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"GANTRY\0\x01");

/// Words of two cache lines, which some CPUs fetch together. Data written by two threads must not share them.
pub(super) const LINE_WORDS: usize = 16;

/// Words of a page: 16 MiB, or 4 MiB on 32-bit systems. Memory is allocated when it is written.
pub(super) const PAGE_WORDS: usize = if cfg!(target_pointer_width = "64") { 2 << 20 } else { 512 << 10 };

/// Indexes of the words at the start of a page.
#[derive(Clone, Copy)]
pub(super) enum Header {
    /// [`MAGIC`].
    Magic,
    /// Words in use, including the header.
    Used,
    /// Number of blocks for which there was no room.
    Dropped,
    /// Creation time of the page, in seconds since 1970.
    Created,
}

/// The kind of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// No numbers; the text has the names of the columns of [`Kind::Counts`].
    Columns = 1,
    /// [`Meaning::Counts`].
    Counts,
    /// [`Meaning::Times`].
    Times,
    /// [`Meaning::Tally`].
    Tally,
    /// The text has the name of a guest, and the names of its numbers.
    Guest,
}

impl Kind {
    pub(super) const ALL: [Kind; 5] = [Kind::Columns, Kind::Counts, Kind::Times, Kind::Tally, Kind::Guest];
}

/// A page that this process and its children write.
pub(super) struct Page {
    words: &'static [AtomicU64],
    /// Readers open it through `/proc`.
    file: OwnedFd,
}

/// Returns the page of this process, which the first call creates. There is no page in a program with elevated rights. Under a system call
/// filter (seccomp), which may end the process for creating it, there is a page only with [`StatsChoice::On`].
pub(super) fn page_of_this_process(choice: &StatsChoice) -> Option<&'static Page> {
    static PAGE: OnceLock<Option<Page>> = OnceLock::new();
    // A command that watches this process overrides `off`.
    let is_off = *choice == StatsChoice::Off && !send::is_watched();
    if is_off || rights::has_elevated_rights() {
        return None;
    }
    let is_refused = || *choice != StatsChoice::On && is_filtered();
    let create = || {
        let page = Page::new(PAGE_WORDS).ok()?;
        send::send_page(&page.file);
        Some(page)
    };
    PAGE.get_or_init(|| if is_refused() { None } else { create() }).as_ref()
}

impl Page {
    fn new(words: usize) -> nix::Result<Self> {
        let file = memfd_create(PAGE_NAME, MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?;
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
        // SAFETY: the mapping has `words` words, is page-aligned, and stays. The file can no longer be shortened. Zeros are valid, and the
        // words are atomic, because other processes read and children of `fork` write them.
        let words = unsafe { std::slice::from_raw_parts(at.cast::<AtomicU64>().as_ptr(), words) };
        let page = Self { words, file };
        page.write_header();
        Ok(page)
    }

    fn write_header(&self) {
        self.set(Header::Used, LINE_WORDS as u64);
        self.set(Header::Created, unix_seconds());
        let names = COLUMNS.map(|column| column.to_string()).join("\t");
        self.add_block(Kind::Columns, &names, 0);
        self.words[Header::Magic as usize].store(MAGIC, Ordering::Release);
    }

    /// Adds counters for a guest of this process, all 0. Returns `None` if there is no room.
    pub(super) fn add_guest(&self, name: &str, numbers: &[&str]) -> Option<&'static [AtomicU64]> {
        self.add_block(Kind::Guest, &[&[name], numbers].concat().join("\t"), numbers.len())
    }

    fn set(&self, word: Header, value: u64) {
        self.words[word as usize].store(value, Ordering::Relaxed);
    }

    /// Adds a block with `count` zeros. Returns `None` if there is no room.
    fn add_block(&self, kind: Kind, text: &str, count: usize) -> Option<&'static [AtomicU64]> {
        let head = (2 + text.len().div_ceil(size_of::<u64>())).next_multiple_of(LINE_WORDS);
        let length = head + count.next_multiple_of(LINE_WORDS);
        let used = &self.words[Header::Used as usize];
        let fits = |at: u64| (at as usize + length <= self.words.len()).then_some(at + length as u64);
        let Ok(at) = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) else {
            self.words[Header::Dropped as usize].fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let (head, numbers) = self.words[at as usize..at as usize + length].split_at(head);
        for (word, bytes) in head[2..].iter().zip(text.as_bytes().chunks(size_of::<u64>())) {
            let mut padded = [0; size_of::<u64>()];
            padded[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_ne_bytes(padded), Ordering::Relaxed);
        }
        head[1].store((kind as u64) << 56 | (text.len() as u64) << 32 | count as u64, Ordering::Relaxed);
        // Readers that see the length see all of the above.
        head[0].store(length as u64, Ordering::Release);
        numbers.get(..count)
    }
}

impl Memory for Page {
    fn take(&self, labels: Labels<'_>, count: usize) -> Option<&'static [AtomicU64]> {
        let (kind, stage) = match labels.meaning {
            Meaning::Counts => (Kind::Counts, ""),
            Meaning::Times(stage) => (Kind::Times, stage.code()),
            Meaning::Tally => (Kind::Tally, ""),
            _ => return None,
        };
        let Labels { device, class, algorithm, operation, .. } = labels;
        self.add_block(kind, &[device, class, algorithm, operation, stage].join("\t"), count)
    }
}
