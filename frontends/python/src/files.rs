//! `hash_files`: digests of files, in the order of their paths.

use std::collections::HashSet;
use std::io;
use std::sync::Mutex;

use gantry_digest::Algorithm;
use pyo3::exceptions::{PyException, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyIterator, PyString};

use crate::algorithm::{name, parse};
use crate::results::to_hex;
use crate::rounds::{Outcome, Rounds};

/// The iterator of `hash_files`.
#[pyclass(module = "gantry_crypto", frozen)]
pub(crate) struct FileDigests(Mutex<State>);

struct State {
    /// `None` once there are no more paths.
    paths: Option<Py<PyIterator>>,
    /// A path for which no file could be open.
    waiting: Option<(Py<PyAny>, PyBackedBytes)>,
    rounds: Rounds<Py<PyAny>, PyErr>,
}

/// Hashes files side by side; see `__init__.pyi`.
#[pyfunction]
#[pyo3(signature = (paths, algs))]
pub(crate) fn hash_files(paths: &Bound<'_, PyAny>, algs: &Bound<'_, PyAny>) -> PyResult<FileDigests> {
    let algorithms: Vec<Algorithm> = if algs.is_instance_of::<PyString>() {
        vec![parse(algs.extract()?)?]
    } else {
        algs.try_iter()?.map(|name| parse(name?.extract::<&str>()?)).collect::<PyResult<_>>()?
    };
    if algorithms.is_empty() || algorithms.iter().collect::<HashSet<_>>().len() < algorithms.len() {
        return Err(PyValueError::new_err("name at least one algorithm, and each once"));
    }
    let paths = Some(paths.try_iter()?.unbind());
    Ok(FileDigests(Mutex::new(State { paths, waiting: None, rounds: Rounds::new(algorithms) })))
}

#[pymethods]
impl FileDigests {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        // As a generator: the paths may come from code that asks for the next digest.
        let Ok(mut state) = self.0.try_lock() else {
            return Err(PyRuntimeError::new_err("the iterator is in use, by another thread or by its own paths"));
        };
        loop {
            state.fill(py)?;
            if let Some((path, outcome)) = state.rounds.take() {
                let algorithms = state.rounds.algorithms();
                return result(py, path, outcome, algorithms).map(Some);
            }
            if state.rounds.is_empty() {
                return Ok(None);
            }
            let rounds = &mut state.rounds;
            py.detach(|| rounds.round());
            py.check_signals()?;
        }
    }
}

impl State {
    /// Opens files as long as there is room.
    fn fill(&mut self, py: Python<'_>) -> PyResult<()> {
        while self.rounds.has_room() {
            let next = match self.waiting.take() {
                Some(waiting) => waiting,
                None => match self.next(py) {
                    None => return Ok(()),
                    Some(Ok(path)) => path,
                    // Ctrl+C in the code of the paths waits for no file.
                    Some(Err(error)) if !error.is_instance_of::<PyException>(py) => return Err(error),
                    Some(Err(error)) => {
                        self.paths = None;
                        self.rounds.end(py.None(), error);
                        return Ok(());
                    }
                },
            };
            let (path, name) = next;
            let rounds = &mut self.rounds;
            // A file system may take its time.
            if let Err(path) = py.detach(|| rounds.name(path, &name)) {
                self.waiting = Some((path, name));
                return Ok(());
            }
            py.check_signals()?;
        }
        Ok(())
    }

    /// The next path, and its bytes.
    fn next(&mut self, py: Python<'_>) -> Option<PyResult<(Py<PyAny>, PyBackedBytes)>> {
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

/// A `FileDigest` of the package, which is a class of Python's so that processes can send it to each other.
fn result<'py>(
    py: Python<'py>,
    path: Py<PyAny>,
    outcome: Outcome<PyErr>,
    algorithms: &[Algorithm],
) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let digests = PyDict::new(py);
    let (size, error) = match outcome {
        Outcome::Ended(error) => return Err(error),
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

/// The error with the class and the words that `open` would raise.
fn os_error(py: Python<'_>, error: &io::Error, path: &Py<PyAny>) -> PyResult<Py<PyAny>> {
    let (number, words) = match error.raw_os_error() {
        Some(number) => (number, py.import("os")?.call_method1("strerror", (number,))?.extract()?),
        // One of `rounds`, which the system has no number for.
        None => (libc::EINVAL, error.to_string()),
    };
    Ok(py.get_type::<PyOSError>().call1((number, words, path))?.unbind())
}
