//! Memory that other code may write while it is read, such as the memory of `bytearray`, `memoryview` and numpy.
//!
//! Another thread of Python, or of a library that has released the GIL, may change the bytes while they are hashed. So they never become a
//! Rust reference: atomic loads copy them, and the copy is hashed. The digest may be that of a mixture of old and new bytes.
//!
//! The module also asks the kernel for large pages for its own large vectors.

#![allow(unsafe_code, reason = "memory given by its address")]

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyMemoryError};
use pyo3::prelude::*;

/// A part of the memory of a buffer that is held.
#[derive(Clone, Copy)]
pub(crate) struct Memory<'a> {
    start: NonNull<u8>,
    len: usize,
    buffer: PhantomData<&'a PyUntypedBuffer>,
}

// SAFETY: the memory is only read by atomic loads, and the held buffer keeps it in place.
unsafe impl Send for Memory<'_> {}
// SAFETY: as above.
unsafe impl Sync for Memory<'_> {}

/// Bytes of a long buffer that are copied at a time.
pub(crate) const PIECE_BYTES: usize = 64 << 10;
/// Bytes that are hashed between two checks of signals.
pub(crate) const ROUND_BYTES: usize = 4 << 20;
const WORD_BYTES: usize = size_of::<usize>();

impl<'a> Memory<'a> {
    /// Returns all bytes of a buffer, which must be contiguous and must not hold pointers to objects.
    pub(crate) fn new(buffer: &'a PyUntypedBuffer) -> PyResult<Self> {
        if !buffer.is_c_contiguous() {
            return Err(PyBufferError::new_err("the buffer is not C-contiguous"));
        }
        if buffer.format().to_bytes().contains(&b'O') {
            return Err(PyBufferError::new_err("the buffer holds objects, not bytes"));
        }
        let len = buffer.len_bytes();
        let start = NonNull::new(buffer.buf_ptr().cast());
        match start {
            Some(start) => Ok(Self { start, len, buffer: PhantomData }),
            None if len == 0 => Ok(Self { start: NonNull::dangling(), len, buffer: PhantomData }),
            None => Err(PyBufferError::new_err("the buffer has no address")),
        }
    }

    /// Returns the length in bytes.
    pub(crate) fn len(self) -> usize {
        self.len
    }

    /// Returns `len` bytes from `offset` on.
    ///
    /// # Panics
    /// If they exceed this memory.
    pub(crate) fn piece(self, offset: usize, len: usize) -> Self {
        assert!(offset.checked_add(len).is_some_and(|end| end <= self.len), "the piece exceeds the memory");
        // SAFETY: within the memory, as asserted above.
        Self { start: unsafe { self.start.add(offset) }, len, buffer: PhantomData }
    }

    /// Splits the memory into pieces of `size` bytes.
    pub(crate) fn pieces(self, size: usize) -> impl Iterator<Item = Self> {
        (0..self.len).step_by(size).map(move |begin| self.piece(begin, size.min(self.len - begin)))
    }

    /// Appends a copy of all bytes to a vector.
    pub(crate) fn copy_to(self, into: &mut Vec<u8>) {
        into.reserve(self.len);
        let head = self.start.as_ptr().align_offset(align_of::<usize>()).min(self.len);
        let words = (self.len - head) / WORD_BYTES;
        let byte = |at: usize| {
            debug_assert!(at < self.len, "the byte is within the memory");
            // SAFETY: within the memory, which is alive; other code may write it, and the load is atomic.
            unsafe { AtomicU8::from_ptr(self.start.add(at).as_ptr()) }.load(Ordering::Relaxed)
        };
        into.extend((0..head).map(byte));
        into.extend((0..words).flat_map(|index| {
            // SAFETY: the word lies within the memory and is aligned, because it follows `head` bytes. A load of at most
            // pointer size writes nothing, so the memory may be read-only.
            let word = unsafe { AtomicUsize::from_ptr(self.start.add(head + index * WORD_BYTES).cast().as_ptr()) };
            word.load(Ordering::Relaxed).to_ne_bytes()
        }));
        into.extend((head + words * WORD_BYTES..self.len).map(byte));
    }
}

/// The bytes of a message.
pub(crate) enum Source<'a> {
    /// Immutable bytes.
    Bytes(&'a [u8]),
    /// Bytes that other code may write.
    Memory(Memory<'a>),
}

impl Source<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Memory(memory) => memory.len(),
        }
    }

    /// Returns at most `PIECE_BYTES` bytes from `begin` on; `copy` is a buffer for them.
    pub(crate) fn part<'b>(&'b self, begin: usize, copy: &'b mut Vec<u8>) -> &'b [u8] {
        let (begin, end) = (begin.min(self.len()), self.len().min(begin.saturating_add(PIECE_BYTES)));
        match self {
            Self::Bytes(bytes) => &bytes[begin..end],
            Self::Memory(memory) => {
                copy.clear();
                memory.piece(begin, end - begin).copy_to(copy);
                copy
            }
        }
    }
}

/// Returns an empty vector with a capacity of `bytes`, or a MemoryError.
pub(crate) fn allocate(bytes: usize) -> PyResult<Vec<u8>> {
    let mut vector = Vec::new();
    vector.try_reserve_exact(bytes).map_err(|error| PyMemoryError::new_err(error.to_string()))?;
    Ok(vector)
}

/// Bytes from which a vector gets large pages.
const MIN_LARGE_PAGE_BYTES: usize = 4 << 20;

/// Asks the kernel for large pages for the unwritten capacity of a vector: clearing small pages takes as long as hashing short values.
pub(crate) fn advise_large_pages(vector: &mut Vec<u8>) {
    let spare = vector.spare_capacity_mut();
    if spare.len() < MIN_LARGE_PAGE_BYTES {
        return;
    }
    // SAFETY: queries a number.
    let page_size = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    let unaligned = spare.as_ptr().align_offset(page_size);
    let Some(pages) = spare.get_mut(unaligned..) else { return };
    // SAFETY: whole pages of the vector's own memory, whose content is not changed. The result does not matter.
    unsafe { libc::madvise(pages.as_mut_ptr().cast(), pages.len() / page_size * page_size, libc::MADV_HUGEPAGE) };
}
