//! `seal_many`, `open_many`, `encrypt_many`, `decrypt_many`: batches over the framework.

use std::collections::HashMap;
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
use crate::many::copy_secret;
use crate::memory::Memory;

/// The most requests of a batch; the next constant limits its bytes.
const MAX_BATCH_REQUESTS: usize = 1024;
const MAX_BATCH_BYTES: usize = 4 << 20;

create_exception!(
    gantry_crypto,
    InvalidTag,
    PyException,
    "Some values fail verification under this key, nonce and associated data."
);

/// Encrypts and authenticates each value with its nonce. A result is the ciphertext followed by the tag (RFC 5116).
///
/// A nonce must not be used twice under one key. `aad` is the associated data of all values, or a list with one for each. Nonces of
/// AES-GCM have 12 bytes; with `any_nonce`, 1 to 65,536.
///
/// ValueError: an unknown AEAD, a key or a nonce of a wrong length, one nonce twice in the call, lists of different lengths.
/// RuntimeError: Gantry's configuration is invalid, or every device failed.
#[pyfunction]
#[pyo3(signature = (alg, key, nonces, values, aad = None, *, any_nonce = false))]
pub(crate) fn seal_many<'py>(
    alg: &str,
    key: &Bound<'py, PyAny>,
    nonces: &Bound<'py, PyAny>,
    values: &Bound<'py, PyAny>,
    aad: Option<&Bound<'py, PyAny>>,
    any_nonce: bool,
) -> PyResult<Bound<'py, PyList>> {
    run(Operation::Seal, alg, key, nonces, values, aad, any_nonce)
}

/// Verifies and decrypts results of `seal_many`.
///
/// InvalidTag: some values fail verification and are not decrypted; the exception has the others.
/// Other errors as `seal_many`.
#[pyfunction]
#[pyo3(signature = (alg, key, nonces, values, aad = None, *, any_nonce = false))]
pub(crate) fn open_many<'py>(
    alg: &str,
    key: &Bound<'py, PyAny>,
    nonces: &Bound<'py, PyAny>,
    values: &Bound<'py, PyAny>,
    aad: Option<&Bound<'py, PyAny>>,
    any_nonce: bool,
) -> PyResult<Bound<'py, PyList>> {
    run(Operation::Open, alg, key, nonces, values, aad, any_nonce)
}

/// Encrypts each value with its initialization vector. The result is not authenticated: use `seal_many` unless a protocol says otherwise.
///
/// ValueError: an unknown cipher; a key, IV or data of a wrong length. There is no padding.
#[pyfunction]
pub(crate) fn encrypt_many<'py>(
    alg: &str,
    key: &Bound<'py, PyAny>,
    ivs: &Bound<'py, PyAny>,
    values: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyList>> {
    run(Operation::Encrypt, alg, key, ivs, values, None, false)
}

/// Decrypts results of `encrypt_many`.
#[pyfunction]
pub(crate) fn decrypt_many<'py>(
    alg: &str,
    key: &Bound<'py, PyAny>,
    ivs: &Bound<'py, PyAny>,
    values: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyList>> {
    run(Operation::Decrypt, alg, key, ivs, values, None, false)
}

/// Returns the framework of this process, opened by the first call. Called with the GIL held, so that no `fork` of Python's interferes.
fn gantry() -> PyResult<&'static Gantry> {
    static GANTRY: OnceLock<Result<Gantry, String>> = OnceLock::new();
    let opened =
        GANTRY.get_or_init(|| Config::from_env().and_then(gantry_runtime::open).map_err(|error| error.to_string()));
    opened.as_ref().map_err(|problem| PyRuntimeError::new_err(problem.clone()))
}

fn open_session(operation: Operation, name: &str, key: &Bound<'_, PyAny>, any_nonce: bool) -> PyResult<Session> {
    let (kind, direction) = match operation {
        Operation::Seal => (Kind::Aead, Direction::Encrypt),
        Operation::Open => (Kind::Aead, Direction::Decrypt),
        Operation::Encrypt => (Kind::Cipher, Direction::Encrypt),
        _ => (Kind::Cipher, Direction::Decrypt),
    };
    let algorithm = Algorithm::of_kind(name, kind).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let mut params = SessionParams::new(algorithm, &copy_secret("a key", key)?).with_direction(direction);
    if any_nonce {
        params = params.with_any_nonce();
    }
    gantry()?.session(params).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Returns the names of the AEADs or ciphers that the functions of this module take.
pub(crate) fn names(kind: Kind) -> impl Iterator<Item = &'static str> {
    let rows = Algorithm::ALL.iter().map(|algorithm| algorithm.info());
    rows.filter(move |row| row.kind == kind && row.mac_key.max == 0 && *row != Algorithm::Null.info())
        .map(|row| row.name)
}

/// The associated data: one for all values, or one for each.
enum AssociatedData<'py> {
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
    any_nonce: bool,
) -> PyResult<Bound<'py, PyList>> {
    let py = values.py();
    let session = open_session(operation, alg, key, any_nonce)?;
    let mut ivs =
        Messages::new(ivs, if matches!(operation, Operation::Seal | Operation::Open) { "nonces" } else { "ivs" })?;
    let mut associated_data = match aad {
        None => AssociatedData::One(Vec::new()),
        Some(aad) => match Messages::new(aad, "aad") {
            Ok(each) => AssociatedData::Each(each),
            Err(_) => AssociatedData::One({
                let mut one = Vec::new();
                append(Message::from_object(aad, 0)?, 0, &mut one)?;
                one
            }),
        },
    };
    let (results, mut bad_indexes) = (PyList::empty(py), Vec::new());
    let mut batch = Batch {
        session,
        operation,
        first_index: 0,
        jobs: Vec::new(),
        nonces: HashMap::new(),
        iv_and_aad: Vec::new(),
        data: Vec::new(),
    };
    for value in Messages::new(values, "values")? {
        let index = batch.first_index + batch.jobs.len();
        let value = value?;
        let iv = ivs.next().ok_or_else(|| missing(index, "nonce or IV"))??;
        match &mut associated_data {
            AssociatedData::One(one) => batch.add(value, iv, one)?,
            AssociatedData::Each(each) => {
                let mut one = Vec::new();
                append(each.next().ok_or_else(|| missing(index, "associated data"))??, index, &mut one)?;
                batch.add(value, iv, &one)?;
            }
        }
        if batch.jobs.len() >= MAX_BATCH_REQUESTS || batch.data.len() >= MAX_BATCH_BYTES {
            batch.run(py, &results, &mut bad_indexes)?;
        }
    }
    batch.run(py, &results, &mut bad_indexes)?;
    let has_more = match &mut associated_data {
        AssociatedData::One(_) => false,
        AssociatedData::Each(each) => each.next().is_some(),
    };
    if has_more || ivs.next().is_some() {
        return Err(PyValueError::new_err(format!(
            "more nonces, IVs or associated data than the {} values",
            results.len()
        )));
    }
    if bad_indexes.is_empty() {
        return Ok(results);
    }
    let error = InvalidTag::new_err(format!(
        "{} of {} values: bad tag; the first is value {}",
        bad_indexes.len(),
        results.len(),
        bad_indexes[0]
    ));
    error.value(py).setattr("indexes", bad_indexes)?;
    error.value(py).setattr("values", results)?;
    Err(error)
}

fn missing(index: usize, name: &str) -> PyErr {
    PyValueError::new_err(format!("value {index} has no {name}"))
}

/// Appends the bytes of a message to a vector.
fn append(message: Message, index: usize, to: &mut Vec<u8>) -> PyResult<()> {
    match message {
        Message::Bytes(bytes) => to.extend_from_slice(&bytes),
        Message::Buffer(buffer) => Memory::new(&buffer)?.copy_to(to),
        Message::Text(_) | Message::Null => {
            return Err(PyTypeError::new_err(format!("value {index}: expected bytes, not str or None")));
        }
    }
    Ok(())
}

/// Requests that run together. Their bytes are contiguous.
struct Batch {
    session: Session,
    operation: Operation,
    /// Index of the first value.
    first_index: usize,
    jobs: Vec<Job>,
    /// The nonces of all values that were sealed, with their indexes.
    nonces: HashMap<Box<[u8]>, usize>,
    /// Initialization vectors and associated data.
    iv_and_aad: Vec<u8>,
    /// Data in place, each followed by its tag.
    data: Vec<u8>,
}

struct Job {
    iv: Range<usize>,
    aad: Range<usize>,
    data_len: usize,
    tag_len: usize,
}

impl Batch {
    fn add(&mut self, value: Message, iv: Message, aad: &[u8]) -> PyResult<()> {
        let index = self.first_index + self.jobs.len();
        let (params, iv_start, data_start) = (self.session.params(), self.iv_and_aad.len(), self.data.len());
        append(iv, index, &mut self.iv_and_aad)?;
        let iv = iv_start..self.iv_and_aad.len();
        let (algorithm, takes) = (params.algorithm(), params.iv_lengths());
        if !takes.allows(iv.len()) {
            let text = format!("value {index}: a nonce or IV of {} bytes; {algorithm} takes {takes}", iv.len());
            return Err(PyValueError::new_err(text));
        }
        // Two messages under one nonce reveal their XOR, and the key of GCM's tags.
        if self.operation == Operation::Seal
            && let Some(first) = self.nonces.insert(Box::from(&self.iv_and_aad[iv.clone()]), index)
        {
            return Err(PyValueError::new_err(format!("values {first} and {index} have the same nonce")));
        }
        self.iv_and_aad.extend_from_slice(aad);
        append(value, index, &mut self.data)?;
        let (value_len, max_tag_len) = (self.data.len() - data_start, params.tag_len());
        let (data_len, tag_len) = match self.operation {
            Operation::Seal => (value_len, max_tag_len),
            // Data shorter than a tag has no valid tag.
            Operation::Open => (value_len.saturating_sub(max_tag_len), max_tag_len.min(value_len)),
            _ => (value_len, 0),
        };
        self.data.resize(data_start + data_len + tag_len, 0);
        self.jobs.push(Job { aad: iv.end..self.iv_and_aad.len(), iv, data_len, tag_len });
        Ok(())
    }

    /// Runs the added requests and appends the results to the list.
    fn run(&mut self, py: Python<'_>, results: &Bound<'_, PyList>, bad_indexes: &mut Vec<usize>) -> PyResult<()> {
        let outcomes = py.detach(|| self.process());
        let outcomes = outcomes.map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        let mut at = 0;
        for (index, (job, outcome)) in self.jobs.iter().zip(outcomes).enumerate() {
            let index = self.first_index + index;
            let output_len = if self.operation == Operation::Open { job.data_len } else { job.data_len + job.tag_len };
            match outcome {
                Outcome::Done => results.append(PyBytes::new(py, &self.data[at..at + output_len]))?,
                Outcome::BadTag => {
                    bad_indexes.push(index);
                    results.append(py.None())?;
                }
                Outcome::BadLength => {
                    let algorithm = self.session.params().algorithm();
                    let text = format!("value {index}: {algorithm} takes no data of {} bytes", job.data_len);
                    return Err(PyValueError::new_err(text));
                }
                other => return Err(PyRuntimeError::new_err(format!("value {index}: {other:?}"))),
            }
            at += job.data_len + job.tag_len;
        }
        self.first_index += self.jobs.len();
        self.jobs.clear();
        self.iv_and_aad.clear();
        self.data.clear();
        py.check_signals()
    }

    fn process(&mut self) -> gantry_core::Result<Vec<Outcome>> {
        let (mut rest, iv_and_aad) = (&mut self.data[..], &self.iv_and_aad);
        let requests = self.jobs.iter().map(|job| {
            let (data, tail) = std::mem::take(&mut rest).split_at_mut(job.data_len);
            let (tag, tail) = tail.split_at_mut(job.tag_len);
            rest = tail;
            let (iv, aad, data) = (&iv_and_aad[job.iv.clone()], &iv_and_aad[job.aad.clone()], Buffers::InPlace(data));
            match self.operation {
                Operation::Seal => Request::seal(iv, aad, data, tag),
                Operation::Open => Request::open(iv, aad, data, tag),
                Operation::Encrypt => Request::encrypt(iv, data),
                _ => Request::decrypt(iv, data),
            }
        });
        let mut requests: Vec<_> = requests.collect();
        self.session.process(&mut requests)?;
        // Without an error, every request has an outcome.
        Ok(requests.iter().filter_map(Request::outcome).collect())
    }
}
