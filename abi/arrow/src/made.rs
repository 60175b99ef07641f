//! Columns of fixed-size values, handed out.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::vec::IntoIter;

use crate::error::Error;
use crate::raw::{ArrowArray, ArrowArrayStream, ArrowSchema, NULLABLE};

/// What values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// `fixed_size_binary(n)`.
    Bytes(usize),
    /// `string`, of ASCII characters, all of the same length.
    Text(usize),
}

impl Type {
    /// Bytes of a value.
    pub fn size(self) -> usize {
        match self {
            Type::Bytes(size) | Type::Text(size) => size,
        }
    }

    /// The most values that one array holds: offsets of strings have 32 bits.
    pub fn most(self) -> usize {
        match self {
            Type::Bytes(_) => usize::MAX,
            Type::Text(size) => i32::MAX as usize / size.max(1),
        }
    }

    /// The type as a schema; values may be null.
    pub fn schema(self) -> ArrowSchema {
        let format = match self {
            Type::Bytes(size) => CString::new(format!("w:{size}")).expect("no zero"),
            Type::Text(_) => c"u".to_owned(),
        };
        let format = Box::new(format);
        let at = format.as_ptr();
        ArrowSchema {
            format: at,
            name: c"".as_ptr(),
            flags: NULLABLE,
            release: Some(release_schema),
            private_data: Box::into_raw(format).cast(),
            ..ArrowSchema::released()
        }
    }
}

/// A column of this program's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// What values are.
    pub kind: Type,
    /// Values, one behind the other; there is room for those that are null, too.
    pub data: Vec<u8>,
    /// A bit for each value, the lowest of a byte first: 1 if it is there. `None` if all are.
    pub validity: Option<Vec<u8>>,
    /// How many values there are.
    pub len: usize,
}

impl Made {
    /// Whether a value is there.
    ///
    /// # Panics
    /// If there are no more than `index` values.
    pub fn is_valid(&self, index: usize) -> bool {
        assert!(index < self.len, "value {index} of {}", self.len);
        self.validity.as_ref().is_none_or(|bits| bits[index / 8] >> (index % 8) & 1 == 1)
    }

    /// A value, or `None` if it is null.
    ///
    /// # Panics
    /// If there are no more than `index` values.
    pub fn value(&self, index: usize) -> Option<&[u8]> {
        let size = self.kind.size();
        self.is_valid(index).then(|| &self.data[index * size..][..size])
    }

    /// How many values are null.
    pub fn nulls(&self) -> usize {
        match &self.validity {
            Some(_) => (0..self.len).filter(|index| !self.is_valid(*index)).count(),
            None => 0,
        }
    }

    /// Columns of one type as one.
    ///
    /// # Errors
    /// [`Error::TooLong`] if they hold more than one array does.
    pub fn concatenated(kind: Type, parts: &[Arc<Self>]) -> Result<Arc<Self>, Error> {
        if let [one] = parts {
            return Ok(one.clone());
        }
        let len: usize = parts.iter().map(|part| part.len).sum();
        if len > kind.most() {
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

    /// The column as an array, which shares its memory.
    ///
    /// # Errors
    /// [`Error::TooLong`] if it holds more than one array does.
    ///
    /// # Panics
    /// If its buffers are shorter than its length says.
    pub fn array(self: Arc<Self>) -> Result<ArrowArray, Error> {
        if self.len > self.kind.most() {
            return Err(Error::TooLong);
        }
        let size = self.kind.size();
        assert!(self.data.len() >= self.len * size, "a value each");
        assert!(self.validity.as_ref().is_none_or(|bits| bits.len() >= self.len.div_ceil(8)), "a bit each");
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
        let (Ok(length), Ok(null_count)) = (self.len.try_into(), self.nulls().try_into()) else {
            return Err(Error::TooLong);
        };
        let mut shared = Box::new(Shared { buffers, _offsets: offsets, _column: self });
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

/// Columns of one type as a stream of arrays, which share their memory.
pub fn stream(kind: Type, columns: Vec<Arc<Made>>) -> ArrowArrayStream {
    ArrowArrayStream {
        get_schema: Some(get_schema),
        get_next: Some(get_next),
        get_last_error: Some(get_last_error),
        release: Some(release_stream),
        private_data: Box::into_raw(Box::new((kind, columns.into_iter()))).cast(),
    }
}

/// What an array keeps alive.
struct Shared {
    buffers: [*const c_void; 3],
    _offsets: Vec<i32>,
    _column: Arc<Made>,
}

type Stream = (Type, IntoIter<Arc<Made>>);

/// # Safety
/// A schema of [`Type::schema`], not released before.
unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: the call: the private data are the box that was made for it.
    unsafe {
        drop(Box::from_raw((*schema).private_data.cast::<CString>()));
        (*schema).release = None;
    }
}

/// # Safety
/// An array of [`Made::array`], not released before.
unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: the call: the private data are the box that was made for it.
    unsafe {
        drop(Box::from_raw((*array).private_data.cast::<Shared>()));
        (*array).release = None;
    }
}

/// # Safety
/// A stream of [`stream`], not released before, as for all functions below.
unsafe extern "C" fn release_stream(stream: *mut ArrowArrayStream) {
    // SAFETY: the call: the private data are the box that was made for it.
    unsafe {
        drop(Box::from_raw((*stream).private_data.cast::<Stream>()));
        (*stream).release = None;
    }
}

unsafe extern "C" fn get_schema(stream: *mut ArrowArrayStream, out: *mut ArrowSchema) -> c_int {
    // SAFETY: the call; what is written over has nothing to be released.
    unsafe { out.write((*(*stream).private_data.cast::<Stream>()).0.schema()) };
    0
}

unsafe extern "C" fn get_next(stream: *mut ArrowArrayStream, out: *mut ArrowArray) -> c_int {
    /// `EOVERFLOW` of Linux.
    const OVERFLOW: c_int = 75;
    // SAFETY: the call; the stream is used by one thread at a time.
    let columns = unsafe { &mut (*(*stream).private_data.cast::<Stream>()).1 };
    let array = match columns.next().map(Made::array) {
        None => ArrowArray::released(),
        Some(Ok(array)) => array,
        Some(Err(_)) => return OVERFLOW,
    };
    // SAFETY: the call; what is written over has nothing to be released.
    unsafe { out.write(array) };
    0
}

unsafe extern "C" fn get_last_error(_: *mut ArrowArrayStream) -> *const c_char {
    const TEXT: &std::ffi::CStr = c"an array of strings is longer than 2147483647 bytes";
    TEXT.as_ptr()
}

#[cfg(test)]
mod tests;
