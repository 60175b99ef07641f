//! Descriptors by number.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;

/// Duplicates a descriptor that this process inherited.
pub(super) fn descriptor(number: i32) -> io::Result<File> {
    if number < 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: borrowed only for the duplication, which fails if there is no such descriptor. This process closes no descriptors
    // that it did not open.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    borrowed.try_clone_to_owned().map(File::from)
}
