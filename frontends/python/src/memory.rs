//! Memory that others may write meanwhile: that of `bytearray`, `memoryview`, numpy.
//!
//! Another thread of Python, or of a library that has released the GIL, may change the bytes while they are hashed. So they are never a Rust
//! reference: they are copied out by atomic loads, and the copy is hashed. A digest is then one of bytes that were there, old ones and new
//! ones mixed.
//!
//! And memory of this module's own, for which the kernel is asked to take large pages.

#![allow(unsafe_code, reason = "memory that is known by its address")]

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyMemoryError};
use pyo3::prelude::*;

/// A piece of the memory of a buffer that is held.
#[derive(Clone, Copy)]
pub(crate) struct Memory<'a> {
    start: NonNull<u8>,
    len: usize,
    held: PhantomData<&'a PyUntypedBuffer>,
}

// SAFETY: the memory is read by atomic loads only, and the buffer that is held keeps it where it is.
unsafe impl Send for Memory<'_> {}
// SAFETY: as above.
unsafe impl Sync for Memory<'_> {}

/// Bytes that are copied at once of a buffer that may be long.
pub(crate) const PIECE: usize = 64 << 10;
const WORD: usize = size_of::<usize>();

impl<'a> Memory<'a> {
    /// All bytes of a buffer, which has to be contiguous and to hold no addresses of objects.
    pub(crate) fn of(buffer: &'a PyUntypedBuffer) -> PyResult<Self> {
        if !buffer.is_c_contiguous() {
            return Err(PyBufferError::new_err("the buffer is not C-contiguous"));
        }
        if buffer.format().to_bytes().contains(&b'O') {
            return Err(PyBufferError::new_err("the buffer holds objects, not bytes"));
        }
        let len = buffer.len_bytes();
        let start = NonNull::new(buffer.buf_ptr().cast());
        match start {
            Some(start) => Ok(Self { start, len, held: PhantomData }),
            None if len == 0 => Ok(Self { start: NonNull::dangling(), len, held: PhantomData }),
            None => Err(PyBufferError::new_err("the buffer has no address")),
        }
    }

    /// Bytes.
    pub(crate) fn len(self) -> usize {
        self.len
    }

    /// The piece of `len` bytes from `offset` on.
    ///
    /// # Panics
    /// If it does not lie in this one.
    pub(crate) fn piece(self, offset: usize, len: usize) -> Self {
        assert!(offset.checked_add(len).is_some_and(|end| end <= self.len), "a piece lies within");
        // SAFETY: within the memory, as was just asserted.
        Self { start: unsafe { self.start.add(offset) }, len, held: PhantomData }
    }

    /// All bytes in pieces of `size` bytes, which are copied one at a time.
    pub(crate) fn pieces(self, size: usize) -> impl Iterator<Item = Self> {
        (0..self.len).step_by(size).map(move |begin| self.piece(begin, size.min(self.len - begin)))
    }

    /// Adds a copy of all bytes to a vector.
    pub(crate) fn copy_to(self, into: &mut Vec<u8>) {
        into.reserve(self.len);
        let head = self.start.as_ptr().align_offset(align_of::<usize>()).min(self.len);
        let words = (self.len - head) / WORD;
        let byte = |at: usize| {
            debug_assert!(at < self.len, "a byte lies within");
            // SAFETY: within the memory, which is alive; others may write it, and the load is atomic.
            unsafe { AtomicU8::from_ptr(self.start.add(at).as_ptr()) }.load(Ordering::Relaxed)
        };
        into.extend((0..head).map(byte));
        into.extend((0..words).flat_map(|index| {
            // SAFETY: the word lies within the memory and is aligned, because it follows `head` bytes; a load that is no larger than
            // a pointer writes nothing, so that the memory may be read-only.
            let word = unsafe { AtomicUsize::from_ptr(self.start.add(head + index * WORD).cast().as_ptr()) };
            word.load(Ordering::Relaxed).to_ne_bytes()
        }));
        into.extend((head + words * WORD..self.len).map(byte));
    }
}

/// An empty vector with room for so many bytes. MemoryError: there is none.
pub(crate) fn room(bytes: usize) -> PyResult<Vec<u8>> {
    let mut vector = Vec::new();
    vector.try_reserve_exact(bytes).map_err(|error| PyMemoryError::new_err(error.to_string()))?;
    Ok(vector)
}

/// Shorter vectors are left as they are.
const LARGE: usize = 4 << 20;

/// Asks the kernel for large pages behind the capacity of a vector that was not written yet: clearing small ones takes as long as hashing
/// short values.
pub(crate) fn in_large_pages(vector: &mut Vec<u8>) {
    let room = vector.spare_capacity_mut();
    if room.len() < LARGE {
        return;
    }
    // SAFETY: asks for a number.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    let before = room.as_ptr().align_offset(page);
    let Some(whole) = room.get_mut(before..) else { return };
    // SAFETY: whole pages of the vector's own memory, whose content this does not change. What the answer is does not matter.
    unsafe { libc::madvise(whole.as_mut_ptr().cast(), whole.len() / page * page, libc::MADV_HUGEPAGE) };
}
