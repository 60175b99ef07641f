//! Memory that is known by its address, and that others may write.
//!
//! Another process, a device or another thread may write its bytes at any time. For Rust this is a data race unless every access is atomic.
//! Overlapping accesses must also have the same size. So a region is cut into cells, always in the same way: the whole words in it, and
//! single bytes at its ends. A cell is loaded and stored as a whole. A part of a word is changed by a compare-exchange that keeps the rest.
//! The order in which others see the writes to cells is unspecified.

#![allow(unsafe_code)]

mod segment;

use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

pub use self::segment::{Segment, Segments};
use crate::algorithm::Misuse;

/// The writers of a region while a request uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// Only this program writes to the region, and must not do so while a request uses it.
    Trusted,
    /// Others may write at any time: a guest, another process, a device.
    Foreign,
}

/// The handles by which a device knows a region, in addition to its address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DeviceHandles {
    /// The start of the region in the device's address space.
    pub iova: Option<u64>,
    /// The descriptor of a dma-buf, a memfd or another file that begins with the region's first byte. The region does not close it.
    pub fd: Option<i32>,
}

/// A piece of memory that is never behind a Rust reference: its bytes are copied in and out, and devices get its address. Cheap to clone;
/// all clones refer to the same memory, which lives as long as one of them.
///
/// ```
/// # fn main() -> Result<(), gantry_core::Misuse> {
/// let region = gantry_core::Region::owned(vec![0; 4096].into());
/// region.write(100, b"payload")?;
/// let payload = region.segment(100, 7)?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Region(Arc<Shared>);

#[derive(Clone)]
struct Shared {
    start: NonNull<u8>,
    len: usize,
    origin: Origin,
    handles: DeviceHandles,
    /// Frees the memory when it is dropped.
    _owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: the memory is used through atomics only, lives as long as the owner, and the owner is Send and Sync.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

const WORD: usize = size_of::<usize>();

/// A cell of a region.
enum Cell<'a> {
    Byte(&'a AtomicU8),
    /// The word, and the offset of the requested byte in it.
    Word(&'a AtomicUsize, usize),
}

impl Region {
    /// Makes a region of this program's own memory.
    pub fn owned(bytes: Box<[u8]>) -> Self {
        let cells: Box<[AtomicU8]> = Vec::from(bytes).into_iter().map(AtomicU8::new).collect();
        let owner = Arc::new(cells);
        let (start, len) = (NonNull::from(&**owner).cast(), owner.len());
        let handles = DeviceHandles::default();
        Self(Arc::new(Shared { start, len, origin: Origin::Trusted, handles, _owner: owner }))
    }

    /// Makes a region of memory that others may write at any time. `owner` keeps the memory alive, and is dropped with the last clone of
    /// the region and of its segments.
    ///
    /// # Safety
    ///
    /// * The `len` bytes from `start` on are readable and writable until `owner` is dropped, and `len` is at most `isize::MAX`.
    /// * Until then, this program has no Rust reference to these bytes except to atomics. Its other threads use the bytes through this
    ///   region, or in another way that does not race with this region's relaxed atomic accesses. The region accesses each aligned
    ///   word that lies in it as an `AtomicUsize`, and every other byte as an `AtomicU8`.
    pub unsafe fn foreign(start: NonNull<u8>, len: usize, owner: Arc<dyn Any + Send + Sync>) -> Self {
        debug_assert!(isize::try_from(len).is_ok(), "no memory is so long");
        Self(Arc::new(Shared { start, len, origin: Origin::Foreign, handles: DeviceHandles::default(), _owner: owner }))
    }

    /// Returns the same memory with these handles.
    #[must_use]
    pub fn with_handles(mut self, handles: DeviceHandles) -> Self {
        Arc::make_mut(&mut self.0).handles = handles;
        self
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Returns whether the region has no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// Returns the writers of the region.
    pub fn origin(&self) -> Origin {
        self.0.origin
    }

    /// Returns the handles by which a device knows the region.
    pub fn handles(&self) -> DeviceHandles {
        self.0.handles
    }

    /// Returns the start of the region, for a device. Code that reads through the pointer must expect concurrent writes.
    pub fn address(&self) -> NonNull<u8> {
        self.0.start
    }

    /// Returns the piece of `len` bytes from `offset` on.
    ///
    /// # Errors
    /// [`Misuse::Bounds`] if the piece does not lie in the region.
    pub fn segment(&self, offset: usize, len: usize) -> Result<Segment, Misuse> {
        self.check_bounds(offset, len)?;
        Ok(Segment::new(self.clone(), offset, len))
    }

    /// Copies bytes out of the region. Each byte is read once.
    ///
    /// # Errors
    /// [`Misuse::Bounds`] if the bytes do not lie in the region; nothing is copied then.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), Misuse> {
        self.check_bounds(offset, into.len())?;
        self.copy_out(offset, into);
        Ok(())
    }

    /// Copies bytes into the region.
    ///
    /// # Errors
    /// [`Misuse::Bounds`] if the bytes do not lie in the region; nothing is copied then.
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<(), Misuse> {
        self.check_bounds(offset, from.len())?;
        self.copy_in(offset, from);
        Ok(())
    }

    fn check_bounds(&self, offset: usize, len: usize) -> Result<(), Misuse> {
        let is_inside = offset.checked_add(len).is_some_and(|end| end <= self.0.len);
        if is_inside { Ok(()) } else { Err(Misuse::Bounds { offset, len, memory_len: self.0.len }) }
    }

    /// Returns the cell that holds a byte of the region.
    #[inline]
    fn cell(&self, offset: usize) -> Cell<'_> {
        assert!(offset < self.0.len, "bounds were checked");
        // SAFETY: within the region, as was just asserted.
        let byte = unsafe { self.0.start.add(offset) };
        let in_word = byte.addr().get() % WORD;
        // If the word around the byte begins before the region or ends after it, the byte is a cell of its own.
        if in_word > offset || offset - in_word + WORD > self.0.len {
            // SAFETY: the byte is alive as long as the region, and its cell is always this one byte: only atomics of this size touch it.
            return Cell::Byte(unsafe { AtomicU8::from_ptr(byte.as_ptr()) });
        }
        // SAFETY: the word begins in the region and ends in it, and is aligned: `in_word` was subtracted. It is alive as long as the
        // region, and all of its bytes have this word as their cell: only atomics of this size touch them.
        Cell::Word(unsafe { AtomicUsize::from_ptr(byte.sub(in_word).cast().as_ptr()) }, in_word)
    }

    /// Copies like `read`; the caller has checked the bounds.
    pub(super) fn copy_out(&self, offset: usize, into: &mut [u8]) {
        let mut done = 0;
        while done < into.len() {
            let rest = &mut into[done..];
            done += match self.cell(offset + done) {
                Cell::Byte(byte) => {
                    rest[0] = byte.load(Ordering::Relaxed);
                    1
                }
                Cell::Word(word, 0) if rest.len() >= WORD => {
                    rest[..WORD].copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
                    WORD
                }
                Cell::Word(word, in_word) => {
                    let bytes = &word.load(Ordering::Relaxed).to_ne_bytes()[in_word..];
                    let count = bytes.len().min(rest.len());
                    rest[..count].copy_from_slice(&bytes[..count]);
                    count
                }
            };
        }
    }

    /// Copies like `write`; the caller has checked the bounds.
    pub(super) fn copy_in(&self, offset: usize, from: &[u8]) {
        let mut done = 0;
        while done < from.len() {
            let rest = &from[done..];
            done += match self.cell(offset + done) {
                Cell::Byte(byte) => {
                    byte.store(rest[0], Ordering::Relaxed);
                    1
                }
                Cell::Word(word, 0) if rest.len() >= WORD => {
                    let bytes = rest[..WORD].try_into().expect("a word's bytes");
                    word.store(usize::from_ne_bytes(bytes), Ordering::Relaxed);
                    WORD
                }
                Cell::Word(word, in_word) => {
                    let count = (WORD - in_word).min(rest.len());
                    let changed = |old: usize| {
                        let mut bytes = old.to_ne_bytes();
                        bytes[in_word..in_word + count].copy_from_slice(&rest[..count]);
                        Some(usize::from_ne_bytes(bytes))
                    };
                    let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, changed);
                    count
                }
            };
        }
    }
}

impl fmt::Debug for Region {
    /// Shows no data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} region of {} bytes", self.0.origin, self.0.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = 40;

    /// Makes a region that begins `by` bytes after the start of a word.
    fn shifted(by: usize, len: usize) -> Region {
        let words: Arc<Vec<AtomicUsize>> = Arc::new((0..=(by + len) / WORD).map(|_| AtomicUsize::new(0)).collect());
        let start = NonNull::from(words.as_slice()).cast::<u8>();
        // SAFETY: the bytes lie in the vector, which is the owner, and are not used otherwise.
        unsafe { Region::foreign(start.add(by), len, words) }
    }

    #[test]
    fn writes_are_read_back_and_change_no_other_bytes() {
        for by in [0, 1, 7] {
            let region = shifted(by, LEN);
            for offset in (0..LEN).step_by(if cfg!(miri) { 7 } else { 1 }) {
                for len in [0, 1, 5, 8, 9, 17, LEN - offset].into_iter().filter(|len| offset + len <= LEN) {
                    region.write(0, &[0xee; LEN]).unwrap();
                    let mut expected = [0xee; LEN];
                    let bytes: Vec<u8> = (0..len as u8).collect();
                    expected[offset..offset + len].copy_from_slice(&bytes);
                    region.write(offset, &bytes).unwrap();
                    let (mut all, mut piece) = ([0; LEN], vec![0; len]);
                    region.read(0, &mut all).unwrap();
                    region.read(offset, &mut piece).unwrap();
                    assert_eq!((all, piece), (expected, bytes), "{len} bytes at {offset} of a region shifted by {by}");
                }
            }
        }
    }

    #[test]
    fn rejects_access_beyond_the_end() {
        for region in [Region::owned(vec![7; LEN].into()), shifted(3, LEN), Region::owned(Box::new([])), shifted(1, 0)]
        {
            let memory_len = region.len();
            for (offset, len) in
                [(memory_len, 1), (0, memory_len + 1), (memory_len + 1, 0), (usize::MAX, 2), (1, usize::MAX)]
            {
                let bounds = Misuse::Bounds { offset, len, memory_len };
                assert_eq!(region.segment(offset, len).unwrap_err(), bounds);
                if len < 100 {
                    assert_eq!(region.read(offset, &mut vec![0; len]), Err(bounds));
                    assert_eq!(region.write(offset, &vec![0; len]), Err(bounds));
                }
            }
            region.read(memory_len, &mut []).unwrap();
            region.write(memory_len, &[]).unwrap();
            assert_eq!(region.segment(memory_len, 0).unwrap().len(), 0);
            region.read(0, &mut vec![0; memory_len]).unwrap();
        }
    }

    #[test]
    fn may_be_written_while_it_is_read() {
        const ROUNDS: u8 = if cfg!(miri) { 3 } else { 100 };
        let region = shifted(5, LEN);
        std::thread::scope(|scope| {
            for offset in [0, 3] {
                let region = region.clone();
                scope.spawn(move || (0..ROUNDS).for_each(|round| region.write(offset, &[round; LEN - 3]).unwrap()));
            }
            for _ in 0..ROUNDS {
                let mut copy = [0; LEN];
                region.read(0, &mut copy).unwrap();
                assert!(copy.iter().all(|byte| *byte < ROUNDS), "each byte is one that was written");
            }
        });
    }

    #[test]
    fn the_owner_lives_as_long_as_a_segment() {
        let owner = Arc::new(AtomicU8::new(9));
        // SAFETY: the byte is the owner's.
        let region = unsafe { Region::foreign(NonNull::from(&*owner).cast(), 1, owner.clone()) };
        assert_eq!(region.origin(), Origin::Foreign);
        let handles = DeviceHandles { iova: Some(4096), fd: None };
        let segment = region.with_handles(handles).segment(0, 1).unwrap();
        assert_eq!((Arc::strong_count(&owner), segment.region().handles()), (2, handles));
        drop(segment);
        assert_eq!(Arc::strong_count(&owner), 1);
    }
}
