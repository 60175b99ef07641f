//! Messages out of lists of buffers and of rows of arrays.

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyBytes, PyIterator, PyString};

use crate::memory::Memory;

/// A message.
pub(crate) enum Message {
    /// `None`.
    Null,
    /// Bytes that nobody changes.
    Bytes(PyBackedBytes),
    /// A string, whose UTF-8 is meant.
    Text(PyBackedStr),
    /// A buffer that others may write.
    Buffer(PyUntypedBuffer),
}

impl Message {
    /// What an object says; `index` is its number in messages of errors.
    pub(crate) fn of(object: &Bound<'_, PyAny>, index: usize) -> PyResult<Self> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Self::Bytes(bytes.clone().into()));
        }
        if let Ok(text) = object.cast::<PyString>() {
            let text = PyBackedStr::try_from(text.clone());
            return text.map(Self::Text).map_err(|error| at(object.py(), index, &error));
        }
        if object.is_none() {
            return Ok(Self::Null);
        }
        let buffer = PyUntypedBuffer::get(object).map_err(|error| at(object.py(), index, &error))?;
        Memory::of(&buffer).map_err(|error| at(object.py(), index, &error))?;
        Ok(Self::Buffer(buffer))
    }
}

/// Messages of any object that is a list of them: one after the other.
pub(crate) struct Messages<'py> {
    iterator: Bound<'py, PyIterator>,
    index: usize,
}

impl<'py> Messages<'py> {
    /// `what` says what the object is, for the error that it is no list of buffers.
    pub(crate) fn of(object: &Bound<'py, PyAny>, what: &str) -> PyResult<Self> {
        let refuse = || PyTypeError::new_err(format!("{what}: a list of buffers is needed, not one {}", kind(object)));
        // An array of objects is a list of them, and any other buffer of one dimension is one message.
        let is_one = |buffer: PyUntypedBuffer| buffer.dimensions() < 2 && buffer.format() != c"O";
        if object.is_instance_of::<PyString>() || PyUntypedBuffer::get(object).is_ok_and(is_one) {
            return Err(refuse());
        }
        let iterator = object.try_iter().map_err(|_| refuse())?;
        Ok(Self { iterator, index: 0 })
    }
}

impl Iterator for Messages<'_> {
    type Item = PyResult<Message>;

    fn next(&mut self) -> Option<Self::Item> {
        let object = self.iterator.next()?;
        self.index += 1;
        Some(object.and_then(|object| Message::of(&object, self.index - 1)))
    }
}

/// The rows of a buffer of two dimensions: their number, and the bytes of each.
pub(crate) struct Rows {
    pub(crate) buffer: PyUntypedBuffer,
    pub(crate) count: usize,
    pub(crate) size: usize,
}

impl Rows {
    /// The rows of an object; `None` if it is no buffer of two dimensions.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let Ok(buffer) = PyUntypedBuffer::get(object) else { return Ok(None) };
        match *buffer.shape() {
            [count, _] => {
                let size = Memory::of(&buffer)?.len().checked_div(count).unwrap_or(0);
                Ok(Some(Self { buffer, count, size }))
            }
            [] | [_] => Ok(None),
            _ => Err(PyValueError::new_err("a buffer of rows has two dimensions")),
        }
    }
}

/// The error of a value, with its number.
pub(crate) fn at(py: Python<'_>, index: usize, error: &PyErr) -> PyErr {
    let text = format!("value {index}: {}", error.value(py));
    // An encoding error takes five arguments; it is a ValueError.
    if error.is_instance_of::<PyValueError>(py) {
        PyValueError::new_err(text)
    } else {
        PyErr::from_type(error.get_type(py), text)
    }
}

/// The name of an object's type.
pub(crate) fn kind(object: &Bound<'_, PyAny>) -> String {
    object.get_type().name().map_or_else(|_| "object".to_owned(), |name| name.to_string())
}
