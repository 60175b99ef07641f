//! A stream of columns of another program.

use std::ffi::CStr;

use crate::column::Column;
use crate::error::Error;
use crate::layout::Layout;
use crate::raw::{ArrowArray, ArrowArrayStream, ArrowSchema};

/// Columns of one type, one after the other.
#[derive(Debug)]
pub struct Reader {
    stream: ArrowArrayStream,
    layout: (Layout, bool),
}

impl Reader {
    /// Asks a stream for its type.
    ///
    /// # Safety
    /// The stream is as a producer made it, or released. Its arrays keep what [`Column::new`] asks for.
    pub unsafe fn new(mut stream: ArrowArrayStream) -> Result<Self, Error> {
        if stream.is_released() {
            return Err(Error::Released);
        }
        let mut schema = ArrowSchema::released();
        let get = stream.get_schema.ok_or(Error::Malformed("a stream without its functions"))?;
        // SAFETY: the call: a stream that is not released takes its own functions, and writes a schema or an error.
        let code = unsafe { get(&raw mut stream, &raw mut schema) };
        if code != 0 {
            // SAFETY: the last call failed.
            return Err(unsafe { failure(&mut stream, code) });
        }
        // SAFETY: a producer's.
        let layout = unsafe { Layout::of(&schema) }?;
        Ok(Self { stream, layout })
    }
}

impl Iterator for Reader {
    type Item = Result<Column, Error>;

    /// The next column. After an error there are no more.
    fn next(&mut self) -> Option<Self::Item> {
        if self.stream.is_released() {
            return None;
        }
        let mut array = ArrowArray::released();
        let Some(get) = self.stream.get_next else {
            return Some(Err(Error::Malformed("a stream without its functions")));
        };
        // SAFETY: that of `new`.
        let code = unsafe { get(&raw mut self.stream, &raw mut array) };
        let (layout, nested) = self.layout;
        let column = match code {
            0 if array.is_released() => return None,
            // SAFETY: that of `new`.
            0 => unsafe { Column::new(array, layout, nested) },
            // SAFETY: the last call failed.
            _ => Err(unsafe { failure(&mut self.stream, code) }),
        };
        if column.is_err()
            && let Some(release) = self.stream.release
        {
            // SAFETY: it has not been released, and is not used after this.
            unsafe { release(&raw mut self.stream) };
            self.stream.release = None;
        }
        Some(column)
    }
}

/// What a stream says of the call that failed.
///
/// # Safety
/// The stream is as its producer made it, and its last call failed.
unsafe fn failure(stream: &mut ArrowArrayStream, code: i32) -> Error {
    // SAFETY: the call.
    let text = stream.get_last_error.map(|last| unsafe { last(&raw mut *stream) }).filter(|text| !text.is_null());
    // SAFETY: a text that ends in 0, until the next call.
    let text = text.map(|text| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned());
    Error::Stream(text.unwrap_or_else(|| format!("the Arrow stream failed with error {code}")))
}
