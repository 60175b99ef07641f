//! The class `Hash` and its constructors, shaped like those of `hashlib`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use gantry_digest::{Algorithm, Hasher};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::algorithm::{name, parse};
use crate::memory::{Memory, PIECE};
use crate::results::to_hex;

/// Shorter data are hashed with the GIL: `hashlib` has the same limit.
const SHORT: usize = 2048;

/// A message that arrives in pieces, shaped like the objects of `hashlib`.
#[pyclass(module = "gantry_crypto", frozen)]
pub(crate) struct Hash {
    algorithm: Algorithm,
    /// Locked for moments with the GIL, and for longer only without: who waits for it with the GIL would stop everybody.
    hasher: Mutex<Hasher<'static>>,
}

impl Hash {
    fn begin(
        algorithm: Algorithm,
        data: Option<&Bound<'_, PyAny>>,
        string: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let hash = Self { algorithm, hasher: Mutex::new(Hasher::new(algorithm)) };
        match (data, string) {
            (Some(_), Some(_)) => return Err(PyTypeError::new_err("'data' and 'string' are mutually exclusive")),
            (Some(data), None) | (None, Some(data)) => hash.take(data)?,
            (None, None) => {}
        }
        Ok(hash)
    }

    pub(crate) fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// What was taken in so far. Without the GIL: another thread may hold it for long.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Hasher<'static>> {
        self.hasher.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = data.py();
        if let Ok(bytes) = data.cast::<PyBytes>() {
            let bytes = bytes.as_bytes();
            if bytes.len() < SHORT
                && let Ok(mut hasher) = self.hasher.try_lock()
            {
                hasher.update(bytes);
                return Ok(());
            }
            py.detach(|| self.lock().update(bytes));
            return Ok(());
        }
        if data.is_instance_of::<PyString>() {
            return Err(PyTypeError::new_err("strings must be encoded before hashing"));
        }
        let buffer = PyUntypedBuffer::get(data)?;
        let memory = Memory::of(&buffer)?;
        py.detach(|| {
            let (mut hasher, mut copy) = (self.lock(), Vec::new());
            for piece in memory.pieces(PIECE) {
                copy.clear();
                piece.copy_to(&mut copy);
                hasher.update(&copy);
            }
        });
        Ok(())
    }

    /// A copy of what was taken in so far.
    fn state(&self, py: Python<'_>) -> Hasher<'static> {
        if let Ok(hasher) = self.hasher.try_lock() {
            return hasher.clone();
        }
        py.detach(|| self.lock().clone())
    }

    fn result(&self, py: Python<'_>) -> Vec<u8> {
        let mut digest = vec![0; self.algorithm.digest_size()];
        let done = self.state(py).finish(&mut digest);
        debug_assert_eq!(done, Ok(()), "the output fits");
        digest
    }
}

#[pymethods]
impl Hash {
    /// The name that `hashlib` has for the algorithm.
    #[getter]
    fn name(&self) -> String {
        name(self.algorithm)
    }

    /// Bytes of the digest.
    #[getter]
    fn digest_size(&self) -> usize {
        self.algorithm.digest_size()
    }

    /// Bytes of a block.
    #[getter]
    fn block_size(&self) -> usize {
        self.algorithm.block_size()
    }

    /// Takes in the next piece.
    #[pyo3(signature = (data, /))]
    fn update(&self, data: &Bound<'_, PyAny>) -> PyResult<()> {
        self.take(data)
    }

    /// The digest of what came so far.
    fn digest<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.result(py))
    }

    /// The same as hexadecimal digits.
    fn hexdigest<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        let digest = self.result(py);
        let mut digits = vec![0; 2 * digest.len()];
        to_hex(&digest, &mut digits);
        PyString::from_bytes(py, &digits)
    }

    /// Another message with the same beginning.
    fn copy(&self, py: Python<'_>) -> Self {
        Self { algorithm: self.algorithm, hasher: Mutex::new(self.state(py)) }
    }

    fn __copy__(&self, py: Python<'_>) -> Self {
        self.copy(py)
    }

    fn __repr__(&self) -> String {
        format!("<{} gantry_crypto.Hash>", name(self.algorithm))
    }
}

/// The beginning of a message, of an algorithm by its name.
#[pyfunction]
#[pyo3(signature = (name, data = None, *, usedforsecurity = true, string = None))]
pub(crate) fn new(
    name: &str,
    data: Option<&Bound<'_, PyAny>>,
    usedforsecurity: bool,
    string: Option<&Bound<'_, PyAny>>,
) -> PyResult<Hash> {
    let _ = usedforsecurity;
    Hash::begin(parse(name)?, data, string)
}

macro_rules! constructors {
    ($($name:ident: $algorithm:ident),+ $(,)?) => {$(
        /// The beginning of a message.
        #[pyfunction]
        #[pyo3(signature = (data = None, *, usedforsecurity = true, string = None))]
        pub(crate) fn $name(
            data: Option<&Bound<'_, PyAny>>,
            usedforsecurity: bool,
            string: Option<&Bound<'_, PyAny>>,
        ) -> PyResult<Hash> {
            let _ = usedforsecurity;
            Hash::begin(Algorithm::$algorithm, data, string)
        }
    )+};
}

constructors! {
    md5: Md5,
    sha1: Sha1,
    sha224: Sha224,
    sha256: Sha256,
    sha384: Sha384,
    sha512: Sha512,
    sha512_256: Sha512_256,
    sha3_224: Sha3_224,
    sha3_256: Sha3_256,
    sha3_384: Sha3_384,
    sha3_512: Sha3_512,
    blake2b_256: Blake2b256,
    blake2b_512: Blake2b512,
}
