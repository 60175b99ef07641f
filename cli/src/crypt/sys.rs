//! Descriptors by number, and files as memory.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

use crate::data::Scratch;

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

/// A scratch file as memory: what is written here is written there.
pub(super) struct Map {
    start: NonNull<u8>,
    length: usize,
}

impl Map {
    /// Maps the first `length` bytes, no more than there are.
    pub(super) fn new(scratch: &Scratch, length: usize) -> io::Result<Self> {
        if length == 0 {
            return Ok(Self { start: NonNull::dangling(), length });
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses touches no memory of ours.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), length, protection, libc::MAP_SHARED, scratch.file.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(start.cast()).map(|start| Self { start, length }).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    pub(super) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: `length` bytes are mapped at `start` for reading and writing until `self` is dropped, and `self` is
        // borrowed mutably. Nobody else changes or cuts the file: a scratch is this process's own, which has one thread,
        // works on it through the map alone while that lives, and told nobody a name.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        if self.length > 0 {
            // SAFETY: exactly what `new` mapped; no slice of it outlives `self`.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
        }
    }
}
