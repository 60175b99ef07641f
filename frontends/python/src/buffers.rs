//! Messages from lists of buffers, and rows of arrays.

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyBytes, PyFrozenSet, PyIterator, PyMapping, PySet, PyString};

use crate::memory::{Memory, PIECE_BYTES, ROUND_BYTES, Source};

pub(crate) enum Message {
    Null,
    /// Immutable bytes.
    Bytes(PyBackedBytes),
    /// A string, as UTF-8.
    Text(PyBackedStr),
    /// A buffer that other code may write.
    Buffer(PyUntypedBuffer),
}

impl Message {
    /// Converts an object; `index` is its index in error messages.
    pub(crate) fn from_object(object: &Bound<'_, PyAny>, index: usize) -> PyResult<Self> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Self::Bytes(bytes.clone().into()));
        }
        if let Ok(text) = object.cast::<PyString>() {
            let text = PyBackedStr::try_from(text.clone());
            return text.map(Self::Text).map_err(|error| with_index(object.py(), index, &error));
        }
        if object.is_none() {
            return Ok(Self::Null);
        }
        let buffer = PyUntypedBuffer::get(object).map_err(|error| with_index(object.py(), index, &error))?;
        Memory::new(&buffer).map_err(|error| with_index(object.py(), index, &error))?;
        Ok(Self::Buffer(buffer))
    }
}

impl Message {
    /// Returns the bytes; `None` for null.
    pub(crate) fn source(&self) -> PyResult<Option<Source<'_>>> {
        Ok(match self {
            Self::Null => None,
            Self::Bytes(bytes) => Some(Source::Bytes(bytes)),
            Self::Text(text) => Some(Source::Bytes(text.as_bytes())),
            Self::Buffer(buffer) => Some(Source::Memory(Memory::new(buffer)?)),
        })
    }

    /// Returns true if the message is hashed in pieces, and not with others in a block.
    pub(crate) fn is_long(&self) -> bool {
        match self {
            Self::Null => false,
            Self::Bytes(bytes) => bytes.len() > ROUND_BYTES,
            Self::Text(text) => text.len() > ROUND_BYTES,
            // Shorter buffers are copied.
            Self::Buffer(buffer) => buffer.len_bytes() > PIECE_BYTES,
        }
    }
}

/// Iterates over the messages of an iterable.
pub(crate) struct Messages<'py> {
    iterator: Bound<'py, PyIterator>,
    index: usize,
}

impl<'py> Messages<'py> {
    /// `name` names the object in errors.
    pub(crate) fn new(object: &Bound<'py, PyAny>, name: &str) -> PyResult<Self> {
        let type_error =
            || PyTypeError::new_err(format!("{name}: expected a list of buffers, not a single {}", type_name(object)));
        // An array of objects is a list of messages; any other buffer of one dimension is a single message.
        let is_single = |buffer: PyUntypedBuffer| buffer.dimensions() < 2 && buffer.format() != c"O";
        if object.is_instance_of::<PyString>() || PyUntypedBuffer::get(object).is_ok_and(is_single) {
            return Err(type_error());
        }
        refuse_unordered(object, name)?;
        let iterator = object.try_iter().map_err(|_| type_error())?;
        Ok(Self { iterator, index: 0 })
    }
}

impl Iterator for Messages<'_> {
    type Item = PyResult<Message>;

    fn next(&mut self) -> Option<Self::Item> {
        let object = self.iterator.next()?;
        self.index += 1;
        Some(object.and_then(|object| Message::from_object(&object, self.index - 1)))
    }
}

/// The rows of a two-dimensional buffer: their number, and the bytes of each.
pub(crate) struct Rows {
    pub(crate) buffer: PyUntypedBuffer,
    pub(crate) count: usize,
    pub(crate) size: usize,
}

impl Rows {
    /// Returns the rows of an object; `None` if it is not a two-dimensional buffer.
    pub(crate) fn from_object(object: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let Ok(buffer) = PyUntypedBuffer::get(object) else { return Ok(None) };
        match *buffer.shape() {
            [count, _] => {
                let size = Memory::new(&buffer)?.len().checked_div(count).unwrap_or(0);
                Ok(Some(Self { buffer, count, size }))
            }
            [] | [_] => Ok(None),
            _ => Err(PyValueError::new_err("a buffer of rows must have two dimensions")),
        }
    }
}

/// Refuses sets, whose order is not that of the results, and dictionaries, whose keys alone would be used.
pub(crate) fn refuse_unordered(object: &Bound<'_, PyAny>, name: &str) -> PyResult<()> {
    let is_set = object.is_instance_of::<PySet>() || object.is_instance_of::<PyFrozenSet>();
    if is_set || object.cast::<PyMapping>().is_ok() {
        let (given, hint) = (type_name(object), if is_set { "sorted(...)" } else { "list(d.values())" });
        return Err(PyTypeError::new_err(format!(
            "{name}: a {given} is not a list in order; pass a list, such as {hint}"
        )));
    }
    Ok(())
}

/// Adds the index of the value to an error.
pub(crate) fn with_index(py: Python<'_>, index: usize, error: &PyErr) -> PyErr {
    let text = format!("value {index}: {}", error.value(py));
    // UnicodeEncodeError takes five arguments; it is a ValueError.
    if error.is_instance_of::<PyValueError>(py) {
        PyValueError::new_err(text)
    } else {
        PyErr::from_type(error.get_type(py), text)
    }
}

pub(crate) fn type_name(object: &Bound<'_, PyAny>) -> String {
    object.get_type().name().map_or_else(|_| "object".to_owned(), |name| name.to_string())
}
