//! The class `Digests`.

use std::sync::Arc;

use gantry_abi_arrow::{ExportedColumn, Type};
use gantry_digest::Algorithm;
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyCapsule, PyIterator, PyList, PySlice, PyString};

use crate::arrow;
use crate::memory::allocate;

/// Digests of many values, in their order: a sequence of `bytes`, or of `str` for hexadecimal digits; and an Arrow column of
/// `fixed_size_binary(n)`, or of `string`. A null value stays null; in the sequence it is None. A slice is a copy.
/// Digests can be compared and pickled.
#[pyclass(module = "gantry_crypto", frozen, sequence)]
pub(crate) struct Digests {
    kind: Type,
    parts: Vec<Arc<ExportedColumn>>,
    /// The number of values up to the end of each part.
    ends: Vec<usize>,
}

impl Digests {
    pub(crate) fn new(kind: Type, parts: Vec<Arc<ExportedColumn>>) -> Self {
        let sum = |sum: &mut usize, part: &Arc<ExportedColumn>| {
            *sum += part.len;
            Some(*sum)
        };
        let ends = parts.iter().scan(0, sum).collect();
        Self { kind, parts, ends }
    }

    fn len(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Returns the part with a value, and the index of the value in this part.
    fn locate(&self, index: usize) -> (&ExportedColumn, usize) {
        let part = self.ends.partition_point(|end| *end <= index);
        let begin = part.checked_sub(1).map_or(0, |before| self.ends[before]);
        (&self.parts[part], index - begin)
    }

    fn value(&self, index: usize) -> Option<&[u8]> {
        let (part, index) = self.locate(index);
        part.value(index)
    }

    /// Returns a copy of the values with these indexes.
    fn select(&self, mut indexes: impl ExactSizeIterator<Item = usize>) -> PyResult<Self> {
        let size = self.kind.size();
        let mut parts = Vec::new();
        while parts.is_empty() || indexes.len() > 0 {
            let len = indexes.len().min(self.kind.max_values());
            let (mut data, mut bits) = (allocate(len * size)?, vec![0; len.div_ceil(8)]);
            let mut has_nulls = false;
            for (at, index) in indexes.by_ref().take(len).enumerate() {
                if let Some(value) = self.value(index) {
                    data.extend_from_slice(value);
                    bits[at / 8] |= 1 << (at % 8);
                } else {
                    data.resize((at + 1) * size, 0);
                    has_nulls = true;
                }
            }
            let validity = has_nulls.then_some(bits);
            parts.push(Arc::new(ExportedColumn { kind: self.kind, data, validity, len }));
        }
        Ok(Self::new(self.kind, parts))
    }
}

/// A part of pickled digests: the number of values, their bytes, and a bitmap of the values that are not null.
type PickledPart = (usize, PyBackedBytes, Option<PyBackedBytes>);

/// Restores pickled digests. The parts may come from an untrusted file, so their lengths are checked.
#[pyfunction]
pub(crate) fn _digests(hex: bool, size: usize, parts: Vec<PickledPart>) -> PyResult<Digests> {
    let kind = if hex { Type::Text(size) } else { Type::Bytes(size) };
    let fits = |(len, data, validity): &PickledPart| {
        *len <= kind.max_values()
            && len.checked_mul(size) == Some(data.len())
            && validity.as_ref().is_none_or(|bits| bits.len() == len.div_ceil(8))
            && (!hex || data.is_ascii())
    };
    if size == 0 || size > 2 * Algorithm::MAX_DIGEST_SIZE || !parts.iter().all(fits) {
        return Err(PyValueError::new_err("these are no pickled digests"));
    }
    let column = |(len, data, validity): PickledPart| {
        Arc::new(ExportedColumn { kind, data: data.to_vec(), validity: validity.map(|bits| bits.to_vec()), len })
    };
    Ok(Digests::new(kind, parts.into_iter().map(column).collect()))
}

fn object<'py>(py: Python<'py>, part: &ExportedColumn, index: usize) -> PyResult<Bound<'py, PyAny>> {
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

    fn __getitem__<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if let Ok(slice) = index.cast::<PySlice>() {
            let slice = slice.indices(self.len().cast_signed())?;
            let index = |number: usize| (slice.start + number.cast_signed() * slice.step).cast_unsigned();
            return Ok(Bound::new(py, self.select((0..slice.slicelength).map(index))?)?.into_any());
        }
        let index: isize = index.extract()?;
        let index = if index < 0 { self.len().checked_add_signed(index) } else { Some(index.unsigned_abs()) };
        let index = index.filter(|index| *index < self.len());
        let index = index.ok_or_else(|| PyIndexError::new_err("Digests index out of range"))?;
        let (part, index) = self.locate(index);
        object(py, part, index)
    }

    fn __eq__(&self, other: &Self) -> bool {
        let is_equal = |index| self.value(index) == other.value(index);
        self.kind == other.kind && self.len() == other.len() && (0..self.len()).all(is_equal)
    }

    #[expect(clippy::type_complexity, reason = "the tuple of pickle's protocol")]
    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, (bool, usize, Vec<(usize, Bound<'py, PyBytes>, Option<Bound<'py, PyBytes>>)>))>
    {
        let bytes = |bytes: &Vec<u8>| PyBytes::new(py, bytes);
        let parts = self.parts.iter().map(|part| (part.len, bytes(&part.data), part.validity.as_ref().map(bytes)));
        let restore = py.import("gantry_crypto._core")?.getattr("_digests")?;
        Ok((restore, (matches!(self.kind, Type::Text(_)), self.kind.size(), parts.collect())))
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.to_list(py)?.try_iter()
    }

    /// Returns all values as a list.
    fn to_list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let values = self.parts.iter().flat_map(|part| (0..part.len).map(move |index| object(py, part, index)));
        PyList::new(py, values.collect::<PyResult<Vec<_>>>()?)
    }

    /// Returns the type, for Arrow's PyCapsule interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        arrow::schema(py, self.kind)
    }

    /// Returns all values as one array. Ignores requests for another type.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        let _ = requested_schema;
        arrow::array(py, self.kind, &self.parts)
    }

    /// Returns the values as a stream of arrays. Ignores requests for another type.
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
