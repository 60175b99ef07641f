//! The class `Digests`.

use std::sync::Arc;

use gantry_abi_arrow::{Made, Type};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyIterator, PyList, PyString};

use crate::arrow;

/// Digests of many values, in their order: a sequence of `bytes` (of `str` if hexadecimal digits were asked for; `None` for nulls), and a
/// column of Arrow's `fixed_size_binary` (of `string`).
#[pyclass(module = "gantry_crypto", frozen, sequence)]
pub(crate) struct Digests {
    kind: Type,
    parts: Vec<Arc<Made>>,
    /// How many values there are up to the end of each part.
    ends: Vec<usize>,
}

impl Digests {
    pub(crate) fn new(kind: Type, parts: Vec<Arc<Made>>) -> Self {
        let sum = |sum: &mut usize, part: &Arc<Made>| {
            *sum += part.len;
            Some(*sum)
        };
        let ends = parts.iter().scan(0, sum).collect();
        Self { kind, parts, ends }
    }

    fn len(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }
}

/// A value as Python's.
fn object<'py>(py: Python<'py>, part: &Made, index: usize) -> PyResult<Bound<'py, PyAny>> {
    match (part.value(index), part.kind) {
        (None, _) => Ok(py.None().into_bound(py)),
        (Some(value), Type::Bytes(_)) => Ok(PyBytes::new(py, value).into_any()),
        (Some(value), Type::Text(_)) => Ok(PyString::from_bytes(py, value)?.into_any()),
    }
}

#[pymethods]
impl Digests {
    fn __len__(&self) -> usize {
        self.len()
    }

    fn __getitem__<'py>(&self, py: Python<'py>, index: isize) -> PyResult<Bound<'py, PyAny>> {
        let index = if index < 0 { self.len().checked_add_signed(index) } else { Some(index.unsigned_abs()) };
        let index = index.filter(|index| *index < self.len());
        let index = index.ok_or_else(|| PyIndexError::new_err("Digests index out of range"))?;
        let part = self.ends.partition_point(|end| *end <= index);
        let begin = part.checked_sub(1).map_or(0, |before| self.ends[before]);
        object(py, &self.parts[part], index - begin)
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.to_list(py)?.try_iter()
    }

    /// All of them in a list.
    fn to_list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let values = self.parts.iter().flat_map(|part| (0..part.len).map(move |index| object(py, part, index)));
        PyList::new(py, values.collect::<PyResult<Vec<_>>>()?)
    }

    /// The type, as Arrow's PyCapsule interface has it.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        arrow::schema(py, self.kind)
    }

    /// All values as one array. Every request for another type is answered with this one.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        let _ = requested_schema;
        arrow::array(py, self.kind, &self.parts)
    }

    /// The values as a stream of arrays. Every request for another type is answered with this one.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        arrow::arrays(py, self.kind, self.parts.clone())
    }

    fn __repr__(&self) -> String {
        let (count, size) = (self.len(), self.kind.size());
        match self.kind {
            Type::Bytes(_) => format!("<gantry_crypto.Digests: {count} of {size} bytes>"),
            Type::Text(_) => format!("<gantry_crypto.Digests: {count} of {size} digits>"),
        }
    }
}
