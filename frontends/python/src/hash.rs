//! The class `Hash` and its constructors, shaped like those of `hashlib`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use gantry_digest::{Algorithm, Hasher};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::algorithm::{name, parse};
use crate::memory::{Memory, PIECE_BYTES, ROUND_BYTES};
use crate::results::to_hex;

/// Shorter data, in bytes, are hashed with the GIL held; `hashlib` has the same limit.
const MIN_DETACHED_BYTES: usize = 2048;

/// A message that arrives in chunks, shaped like the objects of `hashlib`.
///
/// Ctrl+C interrupts `update` after at most 4 MiB; the message is then as before the call.
#[pyclass(module = "gantry_crypto", frozen)]
pub(crate) struct Hash {
    algorithm: Algorithm,
    /// Locked briefly with the GIL, and for longer only without it: a wait for the lock with the GIL would stop all threads.
    hasher: Mutex<Hasher<'static>>,
}

impl Hash {
    fn start(
        algorithm: Algorithm,
        data: Option<&Bound<'_, PyAny>>,
        string: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let hash = Self { algorithm, hasher: Mutex::new(Hasher::new(algorithm)) };
        match (data, string) {
            (Some(_), Some(_)) => return Err(PyTypeError::new_err("'data' and 'string' are mutually exclusive")),
            (Some(data), None) | (None, Some(data)) => hash.add(data)?,
            (None, None) => {}
        }
        Ok(hash)
    }

    pub(crate) fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Locks the state. Call it without the GIL, because another thread may hold the lock for long.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Hasher<'static>> {
        self.hasher.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = data.py();
        if let Ok(bytes) = data.cast::<PyBytes>() {
            let bytes = bytes.as_bytes();
            if bytes.len() < MIN_DETACHED_BYTES
                && let Ok(mut hasher) = self.hasher.try_lock()
            {
                hasher.update(bytes);
                return Ok(());
            }
            return self.add_rounds(py, bytes.chunks(ROUND_BYTES), gantry_digest::Hasher::update);
        }
        if data.is_instance_of::<PyString>() {
            return Err(PyTypeError::new_err("strings must be encoded before hashing"));
        }
        let buffer = PyUntypedBuffer::get(data)?;
        let memory = Memory::new(&buffer)?;
        let mut copy = Vec::new();
        self.add_rounds(py, memory.pieces(ROUND_BYTES), |hasher, round| {
            for piece in round.pieces(PIECE_BYTES) {
                copy.clear();
                piece.copy_to(&mut copy);
                hasher.update(&copy);
            }
        })
    }

    /// Adds data in rounds, and checks signals between them. If a handler raises an exception, such as KeyboardInterrupt, restores the
    /// message.
    fn add_rounds<T: Send>(
        &self,
        py: Python<'_>,
        rounds: impl Iterator<Item = T>,
        mut update: impl FnMut(&mut Hasher<'static>, T) + Send,
    ) -> PyResult<()> {
        let (mut rounds, mut saved_state) = (rounds.peekable(), None);
        while let Some(round) = rounds.next() {
            let is_only = saved_state.is_none() && rounds.peek().is_none();
            py.detach(|| {
                let mut hasher = self.lock();
                if !is_only && saved_state.is_none() {
                    saved_state = Some(hasher.clone());
                }
                update(&mut hasher, round);
            });
            if let Some(saved_state) = &saved_state
                && let Err(error) = py.check_signals()
            {
                py.detach(|| self.lock().clone_from(saved_state));
                return Err(error);
            }
        }
        Ok(())
    }

    /// Returns a copy of the state.
    fn state(&self, py: Python<'_>) -> Hasher<'static> {
        if let Ok(hasher) = self.hasher.try_lock() {
            return hasher.clone();
        }
        py.detach(|| self.lock().clone())
    }

    fn finish(&self, py: Python<'_>) -> Vec<u8> {
        let mut digest = vec![0; self.algorithm.digest_size()];
        let done = self.state(py).finish(&mut digest);
        debug_assert_eq!(done, Ok(()), "the output has the right size");
        digest
    }
}

#[pymethods]
impl Hash {
    /// The name of the algorithm in `hashlib`.
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

    /// Adds a chunk.
    #[pyo3(signature = (data, /))]
    fn update(&self, data: &Bound<'_, PyAny>) -> PyResult<()> {
        self.add(data)
    }

    /// Returns the digest of the data so far.
    fn digest<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.finish(py))
    }

    /// Returns the digest as hexadecimal digits.
    fn hexdigest<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        let digest = self.finish(py);
        let mut digits = vec![0; 2 * digest.len()];
        to_hex(&digest, &mut digits);
        PyString::from_bytes(py, &digits)
    }

    /// Returns a copy, which can continue differently.
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

/// Begins a message, with an algorithm by its name. ValueError: the name is unknown.
#[pyfunction]
#[pyo3(signature = (name, data = None, *, usedforsecurity = true, string = None))]
pub(crate) fn new(
    name: &str,
    data: Option<&Bound<'_, PyAny>>,
    usedforsecurity: bool,
    string: Option<&Bound<'_, PyAny>>,
) -> PyResult<Hash> {
    let _ = usedforsecurity;
    Hash::start(parse(name)?, data, string)
}

macro_rules! constructors {
    ($($name:ident: $algorithm:ident),+ $(,)?) => {$(
        /// Begins a message.
        #[pyfunction]
        #[pyo3(signature = (data = None, *, usedforsecurity = true, string = None))]
        pub(crate) fn $name(
            data: Option<&Bound<'_, PyAny>>,
            usedforsecurity: bool,
            string: Option<&Bound<'_, PyAny>>,
        ) -> PyResult<Hash> {
            let _ = usedforsecurity;
            Hash::start(Algorithm::$algorithm, data, string)
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
    keccak_256: Keccak256,
}
