//! Descriptors by number.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;

/// The file behind a descriptor that this process was started with.
pub(super) fn descriptor(number: i32) -> io::Result<File> {
    if number < 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: borrowed for the duplication only, which says so when there is no such descriptor. Nothing in this process
    // closes descriptors that it did not open.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    borrowed.try_clone_to_owned().map(File::from)
}
