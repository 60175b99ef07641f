//! An imported column.

use std::ptr::{self, NonNull};
use std::slice;

use crate::error::Error;
use crate::layout::Layout;
use crate::raw::ArrowArray;

/// A column of strings or byte strings in any [`Layout`], or the only column of a table. Releases the array on drop.
#[derive(Debug)]
pub struct Column {
    len: usize,
    values: Values,
    /// The column's own bitmap, and the bitmap of the structure around it.
    validity: [Option<Bitmap>; 2],
    /// The owner of all memory used above.
    _array: ArrowArray,
}

#[derive(Clone, Copy, Debug)]
enum Values {
    Null,
    Bits32(Offsets<i32>),
    Bits64(Offsets<i64>),
    /// `sizes` has the length of each of the `count` buffers.
    Views {
        views: NonNull<u8>,
        buffers: *const *const u8,
        sizes: *const i64,
        count: usize,
    },
    Fixed {
        data: NonNull<u8>,
        size: usize,
    },
}

#[derive(Clone, Copy, Debug)]
struct Offsets<T> {
    /// Points to the start offset of the first value. There is one offset more than there are values.
    first: NonNull<T>,
    data: NonNull<u8>,
    /// Length of the data in bytes: the end offset of the last value.
    end: usize,
}

#[derive(Clone, Copy, Debug)]
struct Bitmap {
    bits: NonNull<u8>,
    /// The index of the bit for the first value.
    offset: usize,
}

// SAFETY: the pointers point into the array, which any thread may use. Nothing is written through them.
unsafe impl Send for Column {}
// SAFETY: as above; the array itself is not accessed before the drop.
unsafe impl Sync for Column {}

/// Bytes of a view.
const VIEW_SIZE: usize = 16;
/// Maximum length of a value that is stored in its view, in bytes.
const MAX_INLINE_LEN: usize = 12;

impl Column {
    /// Imports an array whose schema has this layout. With `is_table`, the array is a structure, and the column is its only child.
    ///
    /// # Safety
    /// The array is released, or is valid for a schema of this layout. Its buffers have the bytes that the layout needs, and are not
    /// written before the column is dropped.
    pub unsafe fn new(array: ArrowArray, layout: Layout, is_table: bool) -> Result<Self, Error> {
        if array.is_released() {
            return Err(Error::Released);
        }
        let (len, outer) = (to_usize(array.length)?, to_usize(array.offset)?);
        if !is_table {
            // SAFETY: guaranteed by the caller.
            return unsafe { Self::locate(&array, layout, 0, len, None) }.map(|parts| parts.with_array(array));
        }
        // SAFETY: the caller guarantees a valid array: a structure has a bitmap or null, and `n_children` children.
        let (validity, child) = unsafe {
            let child =
                if array.n_children == 1 { array.children.as_ref().and_then(|child| child.as_ref()) } else { None };
            (bitmap(&array, outer)?, child.ok_or(Error::Malformed("a structure has no child"))?)
        };
        if outer.checked_add(len).is_none_or(|needed| to_usize(child.length).is_ok_and(|length| length < needed)) {
            return Err(Error::Malformed("a child is shorter than its structure"));
        }
        // SAFETY: guaranteed by the caller; the child lives as long as its parent.
        unsafe { Self::locate(child, layout, outer, len, validity) }.map(|parts| parts.with_array(array))
    }

    /// Locates `len` values of an array, from value `skip` on.
    ///
    /// # Safety
    /// As for [`Column::new`].
    unsafe fn locate(
        array: &ArrowArray,
        layout: Layout,
        skip: usize,
        len: usize,
        outer: Option<Bitmap>,
    ) -> Result<LocatedValues, Error> {
        let begin =
            to_usize(array.offset)?.checked_add(skip).ok_or(Error::Malformed("an offset exceeds the address space"))?;
        // With this bound, the sizes of views and offsets in bytes do not overflow.
        let end = begin.checked_add(len).filter(|end| *end < isize::MAX as usize / VIEW_SIZE);
        let end = end.ok_or(Error::Malformed("a length exceeds the address space"))?;
        let has_buffers = match layout {
            Layout::Views => array.n_buffers >= layout.buffer_count(),
            // polars exports a bitmap, which the format does not have.
            Layout::Null => (0..=1).contains(&array.n_buffers),
            _ => array.n_buffers == layout.buffer_count(),
        };
        if !has_buffers || (array.buffers.is_null() && array.n_buffers > 0) {
            return Err(Error::Malformed("its number of buffers does not match its type"));
        }
        // SAFETY: `index` is below `n_buffers`: the comparison above covers all calls.
        let buffer = |index: usize| NonNull::new(unsafe { *array.buffers.add(index) }.cast_mut().cast::<u8>());
        let required_buffer = |index, is_needed| match buffer(index) {
            Some(buffer) => Ok(buffer),
            None if is_needed => Err(Error::Malformed("a buffer is missing")),
            None => Ok(NonNull::dangling()),
        };
        let is_empty = len == 0;
        let values = match layout {
            Layout::Null => Values::Null,
            Layout::Fixed(size) => {
                let bytes = end.checked_mul(size).filter(|bytes| isize::try_from(*bytes).is_ok());
                bytes.ok_or(Error::Malformed("a length exceeds the address space"))?;
                let data = required_buffer(1, !is_empty && size > 0)?;
                // SAFETY: the buffer has the bytes of all values before `end`; a dangling pointer is only used for zero bytes.
                Values::Fixed { data: if is_empty { data } else { unsafe { data.add(begin * size) } }, size }
            }
            // Without values, the array may lack its offsets.
            Layout::Bits32 | Layout::Bits64 if is_empty => Values::Null,
            Layout::Bits32 => {
                // SAFETY: the buffer has `end + 1` offsets.
                let (first, last) = unsafe { first_and_last::<i32>(required_buffer(1, true)?, begin, len) };
                let end = usize::try_from(last).map_err(|_| Error::InvertedOffsets { index: len - 1 })?;
                Values::Bits32(Offsets { first, data: required_buffer(2, end > 0)?, end })
            }
            Layout::Bits64 => {
                // SAFETY: the buffer has `end + 1` offsets.
                let (first, last) = unsafe { first_and_last::<i64>(required_buffer(1, true)?, begin, len) };
                let end = isize::try_from(last).ok().and_then(|end| usize::try_from(end).ok());
                let end = end.ok_or(Error::InvertedOffsets { index: len - 1 })?;
                Values::Bits64(Offsets { first, data: required_buffer(2, end > 0)?, end })
            }
            Layout::Views => {
                // The buffers are the bitmap, the views, `count` buffers of data, and their sizes.
                let count = to_usize(array.n_buffers)? - 3;
                let sizes = required_buffer(count + 2, count > 0)?;
                let views = required_buffer(1, !is_empty)?;
                // SAFETY: the buffer has a view for each value before `end`. The pointers to buffers of data follow the first two.
                let (views, buffers) =
                    unsafe { (if is_empty { views } else { views.add(begin * VIEW_SIZE) }, array.buffers.add(2)) };
                Values::Views { views, buffers: buffers.cast(), sizes: sizes.as_ptr().cast(), count }
            }
        };
        // SAFETY: guaranteed by the caller.
        let inner = if layout == Layout::Null { None } else { unsafe { bitmap(array, begin) }? };
        Ok(LocatedValues { len, values, validity: [inner, outer] })
    }

    /// Returns the number of values, including null ones.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no values.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns a value, or `None` if it is null.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    #[inline]
    pub fn value(&self, index: usize) -> Result<Option<&[u8]>, Error> {
        assert!(index < self.len, "value {index} of {}", self.len);
        for bitmap in self.validity.iter().flatten() {
            let bit = bitmap.offset + index;
            // SAFETY: a bitmap has a bit for each value.
            if unsafe { bitmap.bits.add(bit / 8).read() } >> (bit % 8) & 1 == 0 {
                return Ok(None);
            }
        }
        match self.values {
            Values::Null => Ok(None),
            // SAFETY: `index` is below the number of values.
            Values::Bits32(offsets) => unsafe { offsets.value(index) }.map(Some),
            // SAFETY: as above.
            Values::Bits64(offsets) => unsafe { offsets.value(index) }.map(Some),
            Values::Fixed { data, size } => {
                // SAFETY: the data have `size` bytes for each value.
                Ok(Some(unsafe { slice::from_raw_parts(data.add(index * size).as_ptr(), size) }))
            }
            Values::Views { views, buffers, sizes, count } => {
                // SAFETY: there is a view for each value.
                let view = unsafe { &*views.add(index * VIEW_SIZE).cast::<[u8; VIEW_SIZE]>().as_ptr() };
                let number =
                    |at: usize| usize::try_from(i32::from_ne_bytes(view[at..at + 4].try_into().expect("4 bytes")));
                let Ok(len) = number(0) else { return Err(Error::View { index }) };
                if len <= MAX_INLINE_LEN {
                    return Ok(Some(&view[4..4 + len]));
                }
                let (Ok(buffer), Ok(begin)) = (number(8), number(12)) else { return Err(Error::View { index }) };
                if buffer >= count {
                    return Err(Error::View { index });
                }
                // SAFETY: `buffer` is below the number of buffers and sizes. The sizes may be unaligned.
                let (data, size) = unsafe { (*buffers.add(buffer), sizes.add(buffer).read_unaligned()) };
                let data_len =
                    usize::try_from(size).map_err(|_| Error::Malformed("the size of a buffer is negative"))?;
                if data.is_null() || begin + len > data_len {
                    return Err(Error::OutOfBounds { index, data: data_len });
                }
                // SAFETY: the comparison above keeps the value within the buffer.
                Ok(Some(unsafe { slice::from_raw_parts(data.add(begin), len) }))
            }
        }
    }
}

/// A column without the array that owns its memory.
struct LocatedValues {
    len: usize,
    values: Values,
    validity: [Option<Bitmap>; 2],
}

impl LocatedValues {
    fn with_array(self, array: ArrowArray) -> Column {
        Column { len: self.len, values: self.values, validity: self.validity, _array: array }
    }
}

impl<T: Copy + TryInto<usize>> Offsets<T> {
    /// # Safety
    /// `index` is below the number of values.
    #[inline]
    unsafe fn value<'a>(self, index: usize) -> Result<&'a [u8], Error> {
        // SAFETY: there is one offset more than values. Each is read once, and the checks below use the read values.
        let (begin, end) =
            unsafe { (self.first.add(index).read_unaligned(), self.first.add(index + 1).read_unaligned()) };
        let (Ok(begin), Ok(end)) = (begin.try_into(), end.try_into()) else {
            return Err(Error::InvertedOffsets { index });
        };
        if begin > end {
            return Err(Error::InvertedOffsets { index });
        }
        if end > self.end {
            return Err(Error::OutOfBounds { index, data: self.end });
        }
        // SAFETY: `end` is at most the last offset, which is the length of the data.
        Ok(unsafe { slice::from_raw_parts(self.data.add(begin).as_ptr(), end - begin) })
    }
}

/// Returns a pointer to the start offset of the first value, and the end offset of the last value.
///
/// # Safety
/// There are `begin + len + 1` offsets.
unsafe fn first_and_last<T: Copy>(offsets: NonNull<u8>, begin: usize, len: usize) -> (NonNull<T>, T) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let first = offsets.cast::<T>().add(begin);
        (first, first.add(len).read_unaligned())
    }
}

/// Returns the bitmap of an array, from value `offset` on. Returns `None` if the array has no bitmap or no null values.
///
/// # Safety
/// The array is valid.
unsafe fn bitmap(array: &ArrowArray, offset: usize) -> Result<Option<Bitmap>, Error> {
    let has_buffers = array.n_buffers > 0 && !array.buffers.is_null();
    // SAFETY: the caller guarantees `n_buffers` pointers.
    let bits = if has_buffers { unsafe { *array.buffers } } else { ptr::null() };
    match NonNull::new(bits.cast_mut().cast()) {
        _ if array.null_count == 0 => Ok(None),
        Some(bits) => Ok(Some(Bitmap { bits, offset })),
        None if array.null_count > 0 && array.length > 0 => Err(Error::Malformed("it has nulls but no bitmap")),
        None => Ok(None),
    }
}

fn to_usize(number: i64) -> Result<usize, Error> {
    usize::try_from(number).map_err(|_| Error::Malformed("a length is negative"))
}

#[cfg(test)]
mod tests;
