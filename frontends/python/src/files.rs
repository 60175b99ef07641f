//! `hash_files`: digests of files, in the order of their paths.

use std::collections::HashSet;
use std::io;
use std::sync::Mutex;

use gantry_digest::Algorithm;
use pyo3::exceptions::{PyException, PyOSError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyIterator, PyString};

use crate::algorithm::{name, parse};
use crate::buffers::type_name;
use crate::results::to_hex;
use crate::rounds::{Outcome, Rounds};

/// The iterator of `hash_files`.
#[pyclass(module = "gantry_crypto", frozen)]
pub(crate) struct FileDigests(Mutex<FileDigestsState>);

struct FileDigestsState {
    /// `None` after the last path.
    paths: Option<Py<PyIterator>>,
    /// A path whose file could not be opened yet, because too many files are open.
    pending: Option<(Py<PyAny>, PyBackedBytes)>,
    rounds: Rounds<Py<PyAny>, PyErr>,
}

/// Hashes files. The results come in the order of the paths, which are consumed on demand.
///
/// Up to 32 files are read side by side, in pieces of 64 KiB; up to 1024 results are held back for an earlier one. Every file is read
/// once for all algorithms. A file that cannot be read yields a `FileDigest` with an `error`; so does anything other than a regular file
/// or block device. Ctrl+C interrupts the call between two pieces.
///
/// TypeError: a single path instead of a list.
/// ValueError: no algorithm, an unknown one, or the same one twice. An exception in the iterable of paths is raised after the results of
/// earlier files.
#[pyfunction]
#[pyo3(signature = (paths, algs))]
pub(crate) fn hash_files(paths: &Bound<'_, PyAny>, algs: &Bound<'_, PyAny>) -> PyResult<FileDigests> {
    let algorithms: Vec<Algorithm> = if algs.is_instance_of::<PyString>() {
        vec![parse(algs.extract()?)?]
    } else {
        algs.try_iter()?.map(|name| parse(name?.extract::<&str>()?)).collect::<PyResult<_>>()?
    };
    if algorithms.is_empty() || algorithms.iter().collect::<HashSet<_>>().len() < algorithms.len() {
        return Err(PyValueError::new_err("name at least one algorithm, and none twice"));
    }
    let is_path =
        paths.is_instance_of::<PyString>() || paths.is_instance_of::<PyBytes>() || paths.hasattr("__fspath__")?;
    if is_path {
        let given = type_name(paths);
        return Err(PyTypeError::new_err(format!(
            "paths: expected a list of paths, not a single {given}; write [path]"
        )));
    }
    let paths = Some(paths.try_iter()?.unbind());
    Ok(FileDigests(Mutex::new(FileDigestsState { paths, pending: None, rounds: Rounds::new(algorithms) })))
}

#[pymethods]
impl FileDigests {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        // `open_files` runs the code of the caller's paths. If this code calls `next` on this iterator, the call fails, as in a generator.
        let Ok(mut state) = self.0.try_lock() else {
            return Err(PyRuntimeError::new_err(
                "this iterator is in use by another thread, or by the code of its paths",
            ));
        };
        loop {
            state.open_files(py)?;
            if let Some((path, outcome)) = state.rounds.take_result() {
                let algorithms = state.rounds.algorithms();
                return file_digest(py, path, outcome, algorithms).map(Some);
            }
            if state.rounds.is_empty() {
                return Ok(None);
            }
            let rounds = &mut state.rounds;
            py.detach(|| rounds.run_round());
            py.check_signals()?;
        }
    }
}

impl FileDigestsState {
    /// Opens files as long as there is room.
    fn open_files(&mut self, py: Python<'_>) -> PyResult<()> {
        while self.rounds.has_room() {
            let next = match self.pending.take() {
                Some(pending) => pending,
                None => match self.next_path(py) {
                    None => return Ok(()),
                    Some(Ok(path)) => path,
                    // Ctrl+C in the iterator of paths is raised at once, other errors after the results of earlier files.
                    Some(Err(error)) if !error.is_instance_of::<PyException>(py) => return Err(error),
                    Some(Err(error)) => {
                        self.paths = None;
                        self.rounds.add_error(py.None(), error);
                        return Ok(());
                    }
                },
            };
            let (path, name) = next;
            let rounds = &mut self.rounds;
            // Opening may be slow, so other Python threads run meanwhile.
            if let Err(path) = py.detach(|| rounds.add_file(path, &name)) {
                self.pending = Some((path, name));
                return Ok(());
            }
            py.check_signals()?;
        }
        Ok(())
    }

    fn next_path(&mut self, py: Python<'_>) -> Option<PyResult<(Py<PyAny>, PyBackedBytes)>> {
        static FSENCODE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let mut paths = self.paths.as_ref()?.bind(py).clone();
        let Some(path) = paths.next() else {
            self.paths = None;
            return None;
        };
        Some(path.and_then(|path| {
            let encode = FSENCODE.import(py, "os", "fsencode")?;
            let bytes = encode.call1((&path,))?.extract()?;
            Ok((path.unbind(), bytes))
        }))
    }
}

/// Makes a `FileDigest`. This class is written in Python, so that its values can be pickled for other processes.
fn file_digest<'py>(
    py: Python<'py>,
    path: Py<PyAny>,
    outcome: Outcome<PyErr>,
    algorithms: &[Algorithm],
) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let digests = PyDict::new(py);
    let (size, error) = match outcome {
        Outcome::PathsFailed(error) => return Err(error),
        Outcome::Failed(error) => (None, Some(os_error(py, &error, &path)?)),
        Outcome::Done(size, values) => {
            for (algorithm, value) in algorithms.iter().zip(values) {
                let mut digits = vec![0; 2 * value.len()];
                to_hex(&value, &mut digits);
                digests.set_item(name(*algorithm), PyString::from_bytes(py, &digits)?)?;
            }
            (Some(size), None)
        }
    };
    CLASS.import(py, "gantry_crypto.files", "FileDigest")?.call1((path, digests, error, size))
}

/// Makes an `OSError` like those of Python's `open`: with a number, a text and the path.
fn os_error(py: Python<'_>, error: &io::Error, path: &Py<PyAny>) -> PyResult<Py<PyAny>> {
    let (number, words) = match error.raw_os_error() {
        Some(number) => (number, py.import("os")?.call_method1("strerror", (number,))?.extract()?),
        // An error that `rounds` makes itself has no number.
        None => (libc::EINVAL, error.to_string()),
    };
    Ok(py.get_type::<PyOSError>().call1((number, words, path))?.unbind())
}
