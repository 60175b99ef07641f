//! Converts Arrow capsules to columns, and results to capsules: [Arrow's PyCapsule
//! interface](https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html).

#![allow(unsafe_code, reason = "capsules hold pointers to C structures")]

use std::ffi::CStr;
use std::sync::Arc;

use gantry_abi_arrow::raw::{ArrowArray, ArrowArrayStream, ArrowSchema};
use gantry_abi_arrow::{Column, Error, ExportedColumn, Layout, Reader, Type, stream};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";
const STREAM: &CStr = c"arrow_array_stream";

/// The columns that an object exports, one after the other.
pub(crate) enum Columns {
    One(Option<Box<Column>>),
    Many(Reader),
}

impl Iterator for Columns {
    type Item = Result<Column, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::One(column) => column.take().map(|column| Ok(*column)),
            Self::Many(reader) => reader.next(),
        }
    }
}

/// Returns the columns of an object; `None` if it does not export Arrow data.
pub(crate) fn columns(object: &Bound<'_, PyAny>) -> PyResult<Option<Columns>> {
    if let Some(method) = object.getattr_opt("__arrow_c_array__")? {
        let (schema, array): (Bound<'_, PyAny>, Bound<'_, PyAny>) = method.call0()?.extract()?;
        let (schema, array) = (capsule(&schema, SCHEMA)?, capsule(&array, ARRAY)?);
        // SAFETY: the names of the capsules guarantee these types, and the interface allows one consumer at a time.
        let (schema, array) = unsafe { (ArrowSchema::take(schema.cast()), ArrowArray::take(array.cast())) };
        // SAFETY: the producer exported the schema for this array, and follows the interface: the memory does not change.
        let column =
            unsafe { Layout::from_schema(&schema).and_then(|(layout, is_table)| Column::new(array, layout, is_table)) };
        return column.map(|column| Some(Columns::One(Some(Box::new(column))))).map_err(|found| error(&found));
    }
    let Some(method) = object.getattr_opt("__arrow_c_stream__")? else { return Ok(None) };
    let exported = method.call0()?;
    let pointer = capsule(&exported, STREAM)?;
    // SAFETY: the name of the capsule guarantees this type, and the interface allows one consumer at a time.
    let source = unsafe { ArrowArrayStream::take(pointer.cast()) };
    // SAFETY: the producer follows the interface: the memory does not change.
    let reader = unsafe { Reader::new(source) };
    reader.map(|reader| Some(Columns::Many(reader))).map_err(|found| error(&found))
}

fn capsule(object: &Bound<'_, PyAny>, name: &CStr) -> PyResult<*mut std::ffi::c_void> {
    let capsule =
        object.cast::<PyCapsule>().map_err(|_| PyTypeError::new_err("an Arrow method did not return a capsule"))?;
    Ok(capsule.pointer_checked(Some(name))?.as_ptr())
}

/// Converts an error in a column to Python's.
pub(crate) fn error(error: &Error) -> PyErr {
    match error {
        Error::Type { .. } => PyTypeError::new_err(error.to_string()),
        _ => PyValueError::new_err(error.to_string()),
    }
}

/// Returns the type of results.
pub(crate) fn schema(py: Python<'_>, kind: Type) -> PyResult<Bound<'_, PyCapsule>> {
    PyCapsule::new_with_value(py, kind.schema(), SCHEMA)
}

pub(crate) fn array<'py>(
    py: Python<'py>,
    kind: Type,
    parts: &[Arc<ExportedColumn>],
) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
    let array =
        ExportedColumn::concatenate(kind, parts).and_then(ExportedColumn::array).map_err(|found| error(&found))?;
    Ok((schema(py, kind)?, PyCapsule::new_with_value(py, array, ARRAY)?))
}

pub(crate) fn arrays(py: Python<'_>, kind: Type, parts: Vec<Arc<ExportedColumn>>) -> PyResult<Bound<'_, PyCapsule>> {
    PyCapsule::new_with_value(py, stream(kind, parts), STREAM)
}
