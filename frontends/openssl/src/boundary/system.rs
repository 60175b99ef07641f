//! The few calls of the C library.

use std::ffi::c_void;
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Whether the process runs with other rights than its user's.
pub(crate) fn secure() -> bool {
    // SAFETY: without conditions.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Numbers in a file that others can read while this process counts, and after it has ended.
pub(crate) struct Shared {
    numbers: &'static [AtomicU64],
}

impl Shared {
    /// A new file of `count` zeros, with `text` behind them. Nothing stays open.
    pub(crate) fn create(path: &Path, count: usize, text: &str) -> Option<Self> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path).ok()?;
        let bytes = count * size_of::<AtomicU64>();
        file.set_len(bytes as u64).ok()?;
        file.write_all_at(text.as_bytes(), bytes as u64).ok()?;
        // SAFETY: a new mapping, of a file of that length.
        let at = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(ptr::null_mut(), bytes, access, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if at == libc::MAP_FAILED {
            return None;
        }
        // SAFETY: zeros are numbers, pages are aligned, the mapping is never removed, and atomic numbers may be shared.
        Some(Self { numbers: unsafe { std::slice::from_raw_parts(at.cast::<c_void>().cast::<AtomicU64>(), count) } })
    }

    pub(crate) fn add(&self, place: usize, amount: u64) {
        if let Some(number) = self.numbers.get(place) {
            number.fetch_add(amount, Relaxed);
        }
    }
}
