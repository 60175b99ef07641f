//! An imported stream of columns.

use std::ffi::CStr;

use crate::column::Column;
use crate::error::Error;
use crate::layout::Layout;
use crate::raw::{ArrowArray, ArrowArrayStream, ArrowSchema};

/// Columns of one type, one after the other.
#[derive(Debug)]
pub struct Reader {
    stream: ArrowArrayStream,
    /// The layout, and true if each array is a table with one column.
    layout: (Layout, bool),
}

impl Reader {
    /// Imports a stream, and asks it for its type.
    ///
    /// # Safety
    /// The stream is valid or released. Its arrays satisfy the conditions of [`Column::new`].
    pub unsafe fn new(mut stream: ArrowArrayStream) -> Result<Self, Error> {
        if stream.is_released() {
            return Err(Error::Released);
        }
        let mut schema = ArrowSchema::released();
        let (Some(get), Some(_)) = (stream.get_schema, stream.get_next) else {
            return Err(Error::Malformed("a stream lacks a function"));
        };
        // SAFETY: the caller guarantees a valid stream, which writes a schema or returns an error.
        let code = unsafe { get(&raw mut stream, &raw mut schema) };
        if code != 0 {
            // SAFETY: the last call failed.
            return Err(unsafe { last_error(&mut stream, code) });
        }
        // SAFETY: the stream wrote the schema.
        let layout = unsafe { Layout::from_schema(&schema) }?;
        Ok(Self { stream, layout })
    }
}

impl Iterator for Reader {
    type Item = Result<Column, Error>;

    /// Returns the next column. An error of the producer or a malformed array ends the stream.
    fn next(&mut self) -> Option<Self::Item> {
        if self.stream.is_released() {
            return None;
        }
        let mut array = ArrowArray::released();
        let get = self.stream.get_next?;
        // SAFETY: guaranteed by the caller of `new`.
        let code = unsafe { get(&raw mut self.stream, &raw mut array) };
        let (layout, is_table) = self.layout;
        let column = match code {
            0 if array.is_released() => return None,
            // SAFETY: guaranteed by the caller of `new`.
            0 => unsafe { Column::new(array, layout, is_table) },
            // SAFETY: the last call failed.
            _ => Err(unsafe { last_error(&mut self.stream, code) }),
        };
        if column.is_err()
            && let Some(release) = self.stream.release
        {
            // SAFETY: the stream is not released, and is not used afterwards.
            unsafe { release(&raw mut self.stream) };
            self.stream.release = None;
        }
        Some(column)
    }
}

/// Returns a stream's description of its last error.
///
/// # Safety
/// The stream is valid, and its last call failed.
unsafe fn last_error(stream: &mut ArrowArrayStream, code: i32) -> Error {
    // SAFETY: guaranteed by the caller.
    let text = stream.get_last_error.map(|get| unsafe { get(&raw mut *stream) }).filter(|text| !text.is_null());
    // SAFETY: the text ends in 0 and is valid until the next call.
    let text = text.map(|text| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned());
    Error::Stream(text.unwrap_or_else(|| format!("the Arrow stream failed with error {code}")))
}
