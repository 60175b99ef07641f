//! Columns of fixed-size values for export.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::vec::IntoIter;

use crate::error::Error;
use crate::raw::{ArrowArray, ArrowArrayStream, ArrowSchema, FLAG_NULLABLE};

/// The type of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// `fixed_size_binary(n)`. All values have this length, in bytes.
    Bytes(usize),
    /// `string`, of ASCII characters. All values have this length, in bytes.
    Text(usize),
}

impl Type {
    /// Returns the size of a value, in bytes.
    pub fn size(self) -> usize {
        match self {
            Type::Bytes(size) | Type::Text(size) => size,
        }
    }

    /// Returns the maximum number of values in one array. Strings have 32-bit offsets.
    pub fn max_values(self) -> usize {
        match self {
            Type::Bytes(_) => usize::MAX,
            Type::Text(size) => i32::MAX as usize / size.max(1),
        }
    }

    /// Returns the schema of this type. Values may be null.
    pub fn schema(self) -> ArrowSchema {
        let format = match self {
            Type::Bytes(size) => CString::new(format!("w:{size}")).expect("no zero"),
            Type::Text(_) => c"u".to_owned(),
        };
        let format = Box::new(format);
        let pointer = format.as_ptr();
        ArrowSchema {
            format: pointer,
            name: c"".as_ptr(),
            flags: FLAG_NULLABLE,
            release: Some(release_schema),
            private_data: Box::into_raw(format).cast(),
            ..ArrowSchema::released()
        }
    }
}

/// A column for export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedColumn {
    /// The type of the values.
    pub kind: Type,
    /// The values, one after the other. Null values take space, too.
    pub data: Vec<u8>,
    /// A bit for each value, lowest bit first: 0 if it is null. `None` if no value is null.
    pub validity: Option<Vec<u8>>,
    /// The number of values.
    pub len: usize,
}

impl ExportedColumn {
    /// Returns true if a value is not null.
    ///
    /// # Panics
    /// If `index` is not below `len`.
    pub fn is_valid(&self, index: usize) -> bool {
        assert!(index < self.len, "value {index} of {}", self.len);
        self.validity.as_ref().is_none_or(|bits| bits[index / 8] >> (index % 8) & 1 == 1)
    }

    /// Returns a value, or `None` if it is null.
    ///
    /// # Panics
    /// If `index` is not below `len`.
    pub fn value(&self, index: usize) -> Option<&[u8]> {
        let size = self.kind.size();
        self.is_valid(index).then(|| &self.data[index * size..][..size])
    }

    /// Counts the null values.
    pub fn count_nulls(&self) -> usize {
        match &self.validity {
            Some(_) => (0..self.len).filter(|index| !self.is_valid(*index)).count(),
            None => 0,
        }
    }

    /// Concatenates columns of the same type.
    ///
    /// # Errors
    /// [`Error::TooLong`] if the result exceeds [`Type::max_values`] values.
    pub fn concatenate(kind: Type, parts: &[Arc<Self>]) -> Result<Arc<Self>, Error> {
        if let [part] = parts {
            return Ok(part.clone());
        }
        let len: usize = parts.iter().map(|part| part.len).sum();
        if len > kind.max_values() {
            return Err(Error::TooLong);
        }
        let mut data = Vec::with_capacity(len * kind.size());
        for part in parts {
            data.extend_from_slice(&part.data);
        }
        let validity = parts.iter().any(|part| part.validity.is_some()).then(|| {
            let mut bits = vec![0; len.div_ceil(8)];
            let values = parts.iter().flat_map(|part| (0..part.len).map(|index| part.is_valid(index)));
            values.enumerate().filter(|(_, is_valid)| *is_valid).for_each(|(at, _)| bits[at / 8] |= 1 << (at % 8));
            bits
        });
        Ok(Arc::new(Self { kind, data, validity, len }))
    }

    /// Exports the column as an array, which shares the memory of the column.
    ///
    /// # Errors
    /// [`Error::TooLong`] if the column exceeds [`Type::max_values`] values.
    ///
    /// # Panics
    /// If a buffer is too short for `len` values.
    pub fn array(self: Arc<Self>) -> Result<ArrowArray, Error> {
        if self.len > self.kind.max_values() {
            return Err(Error::TooLong);
        }
        let size = self.kind.size();
        assert!(self.data.len() >= self.len * size, "the data are shorter than `len` values");
        assert!(
            self.validity.as_ref().is_none_or(|bits| bits.len() >= self.len.div_ceil(8)),
            "the bitmap is shorter than `len` bits"
        );
        let offsets = match self.kind {
            Type::Bytes(_) => Vec::new(),
            Type::Text(_) => (0..=self.len).map_while(|index| i32::try_from(index * size).ok()).collect(),
        };
        let validity = self.validity.as_ref().map_or(ptr::null(), |bits| bits.as_ptr().cast());
        let data = self.data.as_ptr().cast();
        let (n_buffers, buffers) = match self.kind {
            Type::Bytes(_) => (2, [validity, data, ptr::null()]),
            Type::Text(_) => (3, [validity, offsets.as_ptr().cast(), data]),
        };
        let (Ok(length), Ok(null_count)) = (self.len.try_into(), self.count_nulls().try_into()) else {
            return Err(Error::TooLong);
        };
        let mut shared = Box::new(SharedBuffers { buffers, _offsets: offsets, _column: self });
        let buffers = shared.buffers.as_mut_ptr();
        Ok(ArrowArray {
            length,
            null_count,
            n_buffers,
            buffers,
            release: Some(release_array),
            private_data: Box::into_raw(shared).cast(),
            ..ArrowArray::released()
        })
    }
}

/// Exports columns of the same type as a stream of arrays. Each array shares the memory of its column.
pub fn stream(kind: Type, columns: Vec<Arc<ExportedColumn>>) -> ArrowArrayStream {
    ArrowArrayStream {
        get_schema: Some(get_schema),
        get_next: Some(get_next),
        get_last_error: Some(get_last_error),
        release: Some(release_stream),
        private_data: Box::into_raw(Box::new((kind, columns.into_iter()))).cast(),
    }
}

/// The memory that an array keeps alive.
struct SharedBuffers {
    buffers: [*const c_void; 3],
    _offsets: Vec<i32>,
    _column: Arc<ExportedColumn>,
}

type StreamState = (Type, IntoIter<Arc<ExportedColumn>>);

/// # Safety
/// The schema was made by [`Type::schema`] and is not released.
unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: the caller guarantees that the private data are the box of [`Type::schema`].
    unsafe {
        drop(Box::from_raw((*schema).private_data.cast::<CString>()));
        (*schema).release = None;
    }
}

/// # Safety
/// The array was made by [`ExportedColumn::array`] and is not released.
unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: the caller guarantees that the private data are the box of [`ExportedColumn::array`].
    unsafe {
        drop(Box::from_raw((*array).private_data.cast::<SharedBuffers>()));
        (*array).release = None;
    }
}

/// # Safety
/// The stream was made by [`stream`] and is not released. All functions below require this.
unsafe extern "C" fn release_stream(stream: *mut ArrowArrayStream) {
    // SAFETY: the caller guarantees that the private data are the box of [`stream`].
    unsafe {
        drop(Box::from_raw((*stream).private_data.cast::<StreamState>()));
        (*stream).release = None;
    }
}

unsafe extern "C" fn get_schema(stream: *mut ArrowArrayStream, out: *mut ArrowSchema) -> c_int {
    // SAFETY: guaranteed by the caller; `out` holds no structure that would have to be released.
    unsafe { out.write((*(*stream).private_data.cast::<StreamState>()).0.schema()) };
    0
}

unsafe extern "C" fn get_next(stream: *mut ArrowArrayStream, out: *mut ArrowArray) -> c_int {
    /// `EOVERFLOW` of Linux.
    const EOVERFLOW: c_int = 75;
    // SAFETY: guaranteed by the caller; one thread at a time uses the stream.
    let columns = unsafe { &mut (*(*stream).private_data.cast::<StreamState>()).1 };
    let array = match columns.next().map(ExportedColumn::array) {
        None => ArrowArray::released(),
        Some(Ok(array)) => array,
        Some(Err(_)) => return EOVERFLOW,
    };
    // SAFETY: guaranteed by the caller; `out` holds no structure that would have to be released.
    unsafe { out.write(array) };
    0
}

unsafe extern "C" fn get_last_error(_: *mut ArrowArrayStream) -> *const c_char {
    // `get_next` has no other error.
    const TEXT: &std::ffi::CStr = c"an array of strings is longer than 2147483647 bytes";
    TEXT.as_ptr()
}

#[cfg(test)]
mod tests;
