//! `seal_many`, `open_many`, `encrypt_many`, `decrypt_many`: batches over the framework.

use std::ops::Range;
use std::sync::OnceLock;

use gantry_core::driver::Buffers;
use gantry_core::{Algorithm, Direction, Gantry, Kind, Operation, Outcome, Request, Session, SessionParams};
use gantry_runtime::Config;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::buffers::{Message, Messages};
use crate::many::copied;
use crate::memory::Memory;

/// Requests of a batch, and bytes after which it ends.
const BATCH: usize = 1024;
const BATCH_BYTES: usize = 4 << 20;

create_exception!(
    gantry_crypto,
    InvalidTag,
    PyException,
    "Values that were not sealed under this key, nonce and associated data: `indexes` are their numbers, from 0. `values` has the others \
     opened, and None for these."
);

/// Encrypts and authenticates many values; see `__init__.pyi`.
#[pyfunction]
#[pyo3(signature = (alg, key, nonces, values, aad = None))]
pub(crate) fn seal_many<'py>(
    alg: &str,
    key: &Bound<'py, PyAny>,
    nonces: &Bound<'py, PyAny>,
    values: &Bound<'py, PyAny>,
    aad: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyList>> {
    run(Operation::Seal, alg, key, nonces, values, aad)
}

/// Verifies and decrypts many values; see `__init__.pyi`.
#[pyfunction]
#[pyo3(signature = (alg, key, nonces, values, aad = None))]
pub(crate) fn open_many<'py>(
    alg: &str,
    key: &Bound<'py, PyAny>,
    nonces: &Bound<'py, PyAny>,
    values: &Bound<'py, PyAny>,
    aad: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyList>> {
    run(Operation::Open, alg, key, nonces, values, aad)
}

/// Encrypts many values without integrity; see `__init__.pyi`.
#[pyfunction]
pub(crate) fn encrypt_many<'py>(
    alg: &str,
    key: &Bound<'py, PyAny>,
    ivs: &Bound<'py, PyAny>,
    values: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyList>> {
    run(Operation::Encrypt, alg, key, ivs, values, None)
}

/// Decrypts many values without integrity; see `__init__.pyi`.
#[pyfunction]
pub(crate) fn decrypt_many<'py>(
    alg: &str,
    key: &Bound<'py, PyAny>,
    ivs: &Bound<'py, PyAny>,
    values: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyList>> {
    run(Operation::Decrypt, alg, key, ivs, values, None)
}

/// The framework of this process, opened by the first call that needs it. With the GIL, so that no `fork` of Python's comes between.
fn gantry() -> PyResult<&'static Gantry> {
    static GANTRY: OnceLock<Result<Gantry, String>> = OnceLock::new();
    let opened =
        GANTRY.get_or_init(|| Config::from_env().and_then(gantry_runtime::open).map_err(|error| error.to_string()));
    opened.as_ref().map_err(|problem| PyRuntimeError::new_err(problem.clone()))
}

fn session(operation: Operation, name: &str, key: &Bound<'_, PyAny>) -> PyResult<Session> {
    let (kind, direction, what) = match operation {
        Operation::Seal => (Kind::Aead, Direction::Encrypt, "AEAD"),
        Operation::Open => (Kind::Aead, Direction::Decrypt, "AEAD"),
        Operation::Encrypt => (Kind::Cipher, Direction::Encrypt, "cipher"),
        _ => (Kind::Cipher, Direction::Decrypt, "cipher"),
    };
    let found = Algorithm::matching(name).unwrap_or_default();
    let [algorithm] = found[..] else { return Err(PyValueError::new_err(format!("there is no {what} {name:?}"))) };
    if algorithm.kind() != kind {
        return Err(PyValueError::new_err(format!("{name} is no {what}")));
    }
    let params = SessionParams::new(algorithm, &copied("a key", key)?).direction(direction);
    gantry()?.session(params).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// The associated data of each value.
enum Associated<'py> {
    One(Vec<u8>),
    Each(Messages<'py>),
}

fn run<'py>(
    operation: Operation,
    alg: &str,
    key: &Bound<'py, PyAny>,
    ivs: &Bound<'py, PyAny>,
    values: &Bound<'py, PyAny>,
    aad: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyList>> {
    let py = values.py();
    let session = session(operation, alg, key)?;
    let mut ivs =
        Messages::of(ivs, if matches!(operation, Operation::Seal | Operation::Open) { "nonces" } else { "ivs" })?;
    let mut associated = match aad {
        None => Associated::One(Vec::new()),
        Some(aad) => match Messages::of(aad, "aad") {
            Ok(each) => Associated::Each(each),
            Err(_) => Associated::One({
                let mut one = Vec::new();
                append(Message::of(aad, 0)?, 0, &mut one)?;
                one
            }),
        },
    };
    let (results, mut bad) = (PyList::empty(py), Vec::new());
    let mut batch = Batch { session, operation, begin: 0, jobs: Vec::new(), given: Vec::new(), data: Vec::new() };
    for value in Messages::of(values, "values")? {
        let index = batch.begin + batch.jobs.len();
        let value = value?;
        let iv = ivs.next().ok_or_else(|| missing(index, "nonce or IV"))??;
        match &mut associated {
            Associated::One(one) => batch.add(value, iv, one)?,
            Associated::Each(each) => {
                let mut one = Vec::new();
                append(each.next().ok_or_else(|| missing(index, "associated data"))??, index, &mut one)?;
                batch.add(value, iv, &one)?;
            }
        }
        if batch.jobs.len() >= BATCH || batch.data.len() >= BATCH_BYTES {
            batch.run(py, &results, &mut bad)?;
        }
    }
    batch.run(py, &results, &mut bad)?;
    let more = match &mut associated {
        Associated::One(_) => false,
        Associated::Each(each) => each.next().is_some(),
    };
    if more || ivs.next().is_some() {
        return Err(PyValueError::new_err(format!("there are only {} values", results.len())));
    }
    if bad.is_empty() {
        return Ok(results);
    }
    let error = InvalidTag::new_err(format!(
        "{} of {} values: bad tag; the first is value {}",
        bad.len(),
        results.len(),
        bad[0]
    ));
    error.value(py).setattr("indexes", bad)?;
    error.value(py).setattr("values", results)?;
    Err(error)
}

fn missing(index: usize, what: &str) -> PyErr {
    PyValueError::new_err(format!("value {index}: there is no {what} for it"))
}

/// Adds the bytes of a message to a vector.
fn append(message: Message, index: usize, to: &mut Vec<u8>) -> PyResult<()> {
    match message {
        Message::Bytes(bytes) => to.extend_from_slice(&bytes),
        Message::Buffer(buffer) => Memory::of(&buffer)?.copy_to(to),
        Message::Text(_) | Message::Null => {
            return Err(PyTypeError::new_err(format!("value {index}: bytes are needed, not str or None")));
        }
    }
    Ok(())
}

/// Requests that run together. Their bytes lie one behind the other.
struct Batch {
    session: Session,
    operation: Operation,
    /// The number of the first value.
    begin: usize,
    jobs: Vec<Job>,
    /// Initialization vectors and associated data.
    given: Vec<u8>,
    /// Data in place, each with its tag behind it.
    data: Vec<u8>,
}

struct Job {
    iv: Range<usize>,
    aad: Range<usize>,
    /// Bytes of the data, and of the tag.
    len: usize,
    tag: usize,
}

impl Batch {
    fn add(&mut self, value: Message, iv: Message, aad: &[u8]) -> PyResult<()> {
        let index = self.begin + self.jobs.len();
        let (params, begin, at) = (self.session.params(), self.given.len(), self.data.len());
        append(iv, index, &mut self.given)?;
        let iv = begin..self.given.len();
        if !params.algorithm().info().iv.allows(iv.len()) {
            return Err(PyValueError::new_err(format!(
                "value {index}: {} takes no nonce or IV of {} bytes",
                params.algorithm(),
                iv.len()
            )));
        }
        self.given.extend_from_slice(aad);
        append(value, index, &mut self.data)?;
        let (given, tag) = (self.data.len() - at, params.tag_length());
        let (len, tag) = match self.operation {
            Operation::Seal => (given, tag),
            // What is shorter than a tag has none that is right.
            Operation::Open => (given.saturating_sub(tag), tag.min(given)),
            _ => (given, 0),
        };
        self.data.resize(at + len + tag, 0);
        self.jobs.push(Job { aad: iv.end..self.given.len(), iv, len, tag });
        Ok(())
    }

    /// Runs what was added and gives the results to the list.
    fn run(&mut self, py: Python<'_>, results: &Bound<'_, PyList>, bad: &mut Vec<usize>) -> PyResult<()> {
        let outcomes = py.detach(|| self.process());
        let outcomes = outcomes.map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        let mut at = 0;
        for (index, (job, outcome)) in self.jobs.iter().zip(outcomes).enumerate() {
            let index = self.begin + index;
            let shown = if self.operation == Operation::Open { job.len } else { job.len + job.tag };
            match outcome {
                Outcome::Done => results.append(PyBytes::new(py, &self.data[at..at + shown]))?,
                Outcome::BadTag => {
                    bad.push(index);
                    results.append(py.None())?;
                }
                Outcome::BadLength => {
                    let algorithm = self.session.params().algorithm();
                    let text = format!("value {index}: {algorithm} takes no data of {} bytes", job.len);
                    return Err(PyValueError::new_err(text));
                }
                other => return Err(PyRuntimeError::new_err(format!("value {index}: {other:?}"))),
            }
            at += job.len + job.tag;
        }
        self.begin += self.jobs.len();
        self.jobs.clear();
        self.given.clear();
        self.data.clear();
        py.check_signals()
    }

    fn process(&mut self) -> gantry_core::Result<Vec<Outcome>> {
        let (mut rest, given) = (&mut self.data[..], &self.given);
        let requests = self.jobs.iter().map(|job| {
            let (data, tail) = std::mem::take(&mut rest).split_at_mut(job.len);
            let (tag, tail) = tail.split_at_mut(job.tag);
            rest = tail;
            let (iv, aad, data) = (&given[job.iv.clone()], &given[job.aad.clone()], Buffers::InPlace(data));
            match self.operation {
                Operation::Seal => Request::seal(iv, aad, data, tag),
                Operation::Open => Request::open(iv, aad, data, tag),
                Operation::Encrypt => Request::encrypt(iv, data),
                _ => Request::decrypt(iv, data),
            }
        });
        let mut requests: Vec<_> = requests.collect();
        self.session.process(&mut requests)?;
        // Without an error every request has an outcome.
        Ok(requests.iter().filter_map(Request::outcome).collect())
    }
}
